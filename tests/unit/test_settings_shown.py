"""What a program shows of its settings: everything but secrets, and a warning for what has no effect."""

from __future__ import annotations

import dataclasses
import pickle
import re
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.app.settings.names import KNOWN_NAMES
from vmafx.app.settings.node import NodeSettings
from vmafx.app.settings.parts import variables_of
from vmafx.app.settings.scorer import SCORER_VARIABLES
from vmafx.app.settings.shown import environment_warnings, rows, start_warnings
from vmafx.app.settings.unserved import UNSERVED
from vmafx.domain.errors import ConfigurationError

SECRET = "Hush.Hush.Hush"
PAGE = re.sub(
    r"\n## The controller\n.*?(?=\n## )",  # it has a test of its own
    "",
    (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8"),
    flags=re.DOTALL,
)
NODE = {name for v, _ in variables_of(NodeSettings) for name in (v.name, *v.fallbacks)}
SCORER = {name for name, _ in SCORER_VARIABLES if name.startswith("VMAF")}
OF_OTHER_PROGRAMS = re.compile(r"VMAFX_(AUTH_|DB_|STORE_|JWKS_|JOB_|RUN_ID|PULL_WAIT|TENANT_).*")
SERVED = {
    "VMAFX_NODE_ID", "VMAFX_NODE_SLOTS", "VMAFX_SHUTDOWN_TIMEOUT", "VMAFX_CONTROLLER_ADDR",
    "VMAFX_CONTROLLER_TLS", "VMAFX_CONTROLLER_CA_FILE", "VMAFX_CONTROLLER_SERVER_NAME",
    "VMAFX_CONTROLLER_TOKEN_FILE",
    "VMAFX_CONTROLLER_TOKEN", "VMAFX_CONTROLLER_RPC_TIMEOUT", "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL",
    "VMAFX_CONTROLLER_POLL_INTERVAL", "VMAFX_LOG_LEVEL", "VMAFX_LOG_FORMAT", "POD_NAME", "POD_NAMESPACE",
    "POD_IP", "NODE_NAME", "SERVICE_ACCOUNT",
}  # fmt: skip
ASKS_FOR_NOTHING = {"VMAFX_EBPF_BYPASS", "VMAFX_OTEL_ENABLED", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME"}
"""What is refused where it asks for something, and what names or switches off what there is not."""


def read(**environment):
    return NodeSettings.from_environment(environment, host_name="host-1")


def shown(**environment):
    found = rows(read(**environment), environment, processors=8)
    assert len({row.name for row in found}) == len(found)
    return {row.name: (row.value, row.origin) for row in found}


def warned(**environment):
    return (*environment_warnings(environment), *start_warnings(read(**environment), environment))


def test_every_variable_is_shown_once_and_nothing_else():
    names = {variable.name for variable, _ in variables_of(NodeSettings)}
    assert set(shown()) == names | SCORER


def test_values_are_shown_with_where_they_came_from():
    found = shown(
        VMAFX_CONTROLLER_ADDR=" [::1]:9090 ",
        VMAFX_NODE_SLOTS="2",
        VMAFX_SHUTDOWN_TIMEOUT="5400s",
        VMAFX_SCORING_ROOTS="/a, s3:b",
        OTEL_SERVICE_NAME="theirs",
        VMAFX_FSSPEC_SCHEMES="s3,gs",
    )
    assert found["VMAFX_NODE_ID"] == ("host-1", "host name")
    assert found["VMAFX_CONTROLLER_ADDR"] == ("[::1]:9090", "environment")
    assert found["VMAFX_CONTROLLER_RPC_TIMEOUT"] == ("10s", "default")
    assert found["VMAFX_SHUTDOWN_TIMEOUT"] == ("1h30m", "environment")
    assert found["VMAFX_SCORING_ROOTS"] == ("/a,s3:b", "environment")
    assert found["VMAFX_OTEL_SERVICE_NAME"] == ("theirs", "OTEL_SERVICE_NAME")
    assert found["VMAFX_FSSPEC_SCHEMES"] == ("s3,gs", "environment")
    assert shown(VMAFX_OTEL_ENDPOINT="otel:4317")["VMAFX_OTEL_ENDPOINT"] == ("otel:4317", "environment")
    assert found["VMAFX_STORAGE_MODE"] == ("auto", "default")
    assert found["VMAFX_SCORE_THREADS"] == ("4", "default")
    assert found["VMAFX_SCORE_TIMEOUT"] == ("30m", "default")
    assert found["VMAFX_BACKEND"] == ("cpu", "default")
    assert found["VMAFX_CONTROLLER_TLS"] == ("false", "default")
    assert found["VMAFX_HTTP_ADDR"] == (":9090", "default")
    assert found["VMAFX_CONTROLLER_TOKEN"] == ("unset", "default")


def test_what_is_shown_is_one_printable_line():
    odd = "\u202eoops\u200b"
    for value, _ in shown(VMAFX_CONTROLLER_CA_FILE=odd, VMAFX_CONTROLLER_TLS="1", POD_NAME=odd).values():
        assert value.isprintable()


@given(
    name=st.sampled_from(["VMAFX_NODE_ID", "VMAFX_SHUTDOWN_TIMEOUT", "VMAFX_HTTP_LIMITS_BODY"]),
    number=st.integers(1, 10**6),
)
def test_what_is_shown_can_be_written_into_the_environment_again(name, number):
    text = f"{number}ms" if name.endswith("TIMEOUT") else str(number)
    once = shown(**{name: text})[name]
    assert shown(**{name: once[0]})[name] == once


# ---------------------------------------------------------------- secrets


def ways_to_show(settings, environment):
    yield repr(settings)
    yield str(settings.controller)
    yield f"{settings}"
    yield repr(rows(settings, environment, processors=1))
    yield repr(start_warnings(settings, environment))
    yield repr(environment_warnings(environment))
    yield repr(dataclasses.asdict(settings)["controller"])


def test_no_way_of_showing_settings_shows_a_secret():
    environment = {
        "VMAFX_CONTROLLER_TOKEN": SECRET,
        "VMAFX_OTEL_ENDPOINT": f"https://me:{SECRET}@otel:4317/x?key={SECRET}",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": f"me:{SECRET}@otel:4317",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"https://[{SECRET}@",
    }
    settings = read(**environment)
    assert settings.controller.token.get_secret_value() == SECRET
    assert shown(**environment)["VMAFX_OTEL_ENDPOINT"][0] == "https://otel:4317/x"
    for text in ways_to_show(settings, environment):
        assert SECRET not in text
    assert shown(**environment)["VMAFX_CONTROLLER_TOKEN"] == ("**********", "environment")


@pytest.mark.parametrize(
    "environment",
    [
        {"VMAFX_CONTROLLER_TOKEN": f"{SECRET}\n{SECRET}"},
        {"VMAFX_CONTROLLER_TOKEN": f"é{SECRET}"},
        {"VMAFX_CONTROLLER_TOKEN": SECRET * 6000},
        {"VMAFX_CONTROLLER_TOKEN": SECRET, "VMAFX_CONTROLLER_TOKEN_FILE": "/t"},
        {"VMAFX_CONTROLLER_TOKEN": SECRET, "VMAFX_NODE_SLOTS": "65"},
        {"VMAFX_OTEL_ENDPOINT": f"me:{SECRET}@h\x00"},
        {"VMAFX_CONTROLLER_ADDR": f"me:{SECRET}@c:1"},
    ],
)
def test_no_refusal_tells_a_secret(environment):
    with pytest.raises(ConfigurationError) as caught:
        read(**environment)
    error = caught.value
    told = [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
    for text in (*told, *map(str, error.all)):
        assert SECRET not in text
    assert SECRET.encode() not in pickle.dumps((error.args, vars(error)))
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize("token", [SECRET, SECRET.encode(), [SECRET]])
def test_a_token_by_hand_that_is_no_secret_value_is_refused_without_telling_it(token):
    client = read().controller
    with pytest.raises(ConfigurationError) as caught:
        dataclasses.replace(client, token=token)
    assert str(caught.value) == (
        "controller client config: VMAFX_CONTROLLER_TOKEN: controller.token is not a SecretStr"
    )


# ---------------------------------------------------------------- warnings


def test_settings_without_oddities_bring_no_warning():
    assert warned(VMAFX_CONTROLLER_ADDR="c:1", VMAFX_LOG_LEVEL="Debug", VMAFX_DB_DSN="x", HOME="/") == ()


def test_an_unknown_name_is_told_with_its_neighbour_and_without_its_value():
    assert warned(VMAFX_CONTROLLER_TOKN=SECRET) == (
        "VMAFX_CONTROLLER_TOKN is not a setting, and is ignored; did you mean VMAFX_CONTROLLER_TOKEN?",
    )


def test_what_is_misspelt_can_be_told_where_the_settings_are_refused():
    environment = {"VMAFX_CONTROLER_ADDR": "c:1", "VMAFX_NODE_SLOTS": "0", "VMAFX_HTTP_ADDR": ":1"}
    assert environment_warnings(environment) == (
        "VMAFX_CONTROLER_ADDR is not a setting, and is ignored; did you mean VMAFX_CONTROLLER_ADDR?",
    )


def test_an_unknown_level_counts_as_the_default_and_is_told():
    assert warned(VMAFX_LOG_LEVEL="loud") == (
        'VMAFX_LOG_LEVEL="loud" is none of debug, info, warn, error; logging at info',
    )


def test_timing_that_one_lost_heartbeat_breaks_is_told():
    (line,) = warned(VMAFX_CONTROLLER_HEARTBEAT_INTERVAL="26s")
    assert "one lost heartbeat costs the session" in line
    assert warned(VMAFX_CONTROLLER_HEARTBEAT_INTERVAL="25s") == ()


@pytest.mark.parametrize("name", sorted(UNSERVED))
def test_a_variable_without_effect_is_told_once_with_the_reason_and_without_its_value(name):
    settings = read()
    assert start_warnings(settings, {name: SECRET}) == (f"{name} has no effect: {UNSERVED[name]}",)
    assert start_warnings(settings, {name: " "}) == ()


def test_every_variable_has_an_effect_or_a_reason_why_not():
    groups = (SERVED, set(UNSERVED), ASKS_FOR_NOTHING)
    assert set().union(*groups) == NODE
    assert sum(map(len, groups)) == len(NODE)


# ---------------------------------------------------------------- the page


def documented():
    return re.findall(r"^\| `([A-Z_]+)`", PAGE, re.MULTILINE)


def test_every_variable_is_known_and_documented_once_and_the_other_way_round():
    ours = {name for name in NODE | SCORER if name.startswith("VMAFX_")}
    assert ours == {name for name in KNOWN_NAMES if not OF_OTHER_PROGRAMS.fullmatch(name)}
    assert set(documented()) == NODE | SCORER
    assert len(documented()) == len(set(documented()))


def test_defaults_are_documented_as_they_are():
    cells = dict(re.findall(r"^\| `([A-Z_]+)` \|[^|]*\| ([^|]*) \|", PAGE, re.MULTILINE))
    told = {
        "VMAFX_NODE_ID",
        "VMAFX_MAX_CONCURRENT_SCORES",
        "VMAFX_OTEL_SERVICE_VERSION",
        "VMAFX_LOG_LEVEL",
    }
    for variable, _ in variables_of(NodeSettings):
        if variable.name in told:
            continue
        found = cells[variable.name]
        if variable.default is None:
            assert found == "unset", variable.name
        else:
            assert found == f"`{variable.form.show(variable.default)}`", variable.name


def test_variables_without_effect_are_marked():
    marked = set(re.findall(r"^\| `([A-Z_]+)` \|.*\| no effect yet \|", PAGE, re.MULTILINE))
    assert marked == set(UNSERVED) - SCORER
