"""ControllerSettings: all are read, and what cannot be honoured is refused by name (ADR 0019, 0028)."""

from __future__ import annotations

import dataclasses
import re
import traceback
from contextlib import nullcontext
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from vmafx.app.settings.auth import AuthSettings
from vmafx.app.settings.controller import (
    ControllerGrpcSettings,
    ControllerHttpSettings,
    ControllerSettings,
)
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.names import KNOWN_NAMES
from vmafx.app.settings.node import NodeSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.parts import variables_of
from vmafx.app.settings.pod import PodSettings
from vmafx.app.settings.scorer import SCORER_VARIABLES
from vmafx.app.settings.shown import environment_warnings
from vmafx.app.settings.shown_controller import auth_warnings, controller_rows, controller_warnings
from vmafx.app.settings.store import StoreBackend, StoreSettings, default_database
from vmafx.app.settings.unserved import UNSERVED_BY_CONTROLLER
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.roots import RootTemplates
from vmafx.domain.session_policy import RPC_TIMEOUT_S

SECRET = "Hush.Hush.Hush"
OPEN = {"VMAFX_AUTH_DISABLED": "true", "HOME": "/home/u"}
VARIABLES = {variable.name: (variable, path) for variable, path in variables_of(ControllerSettings)}
OF_EVERY_PROGRAM = {
    name
    for kind in (LogSettings, OtelSettings, PodSettings)
    for variable, _ in variables_of(kind)
    for name in (variable.name, *variable.fallbacks)
}
OWN = set(VARIABLES) - OF_EVERY_PROGRAM
TOKENS = {name for name in OWN if re.match("VMAFX_(AUTH|JWKS)_", name)} - {"VMAFX_AUTH_DISABLED"}
ROOTS = {"VMAFX_SCORING_ROOTS": "/clips"}


def read(**environment):
    return ControllerSettings.from_environment({**OPEN, **environment})


def refusal(**environment):
    with pytest.raises(ConfigurationError) as caught:
        read(**environment)
    assert caught.value.__cause__ is None
    return caught.value


def values(settings):
    return {name: reduce(getattr, path, settings) for name, (_, path) in VARIABLES.items()}


def test_an_environment_without_settings_gives_the_documented_defaults():
    settings = read()
    assert settings == ControllerSettings(
        scoring_roots=None,
        pull_wait_s=5.0,
        auth=AuthSettings(disabled=True),
        store=StoreSettings(
            backend=StoreBackend.SQLITE,
            path=None,
            dsn=None,
            lease_ttl_s=60.0,
            session_ttl_s=60.0,
            sweep_interval_s=5.0,
            backoff_base_s=5.0,
            backoff_max_s=300.0,
            retention_s=0.0,
            pending_max=0,
        ),
        grpc=ControllerGrpcSettings(address=HostPort(host="", port=9090)),
        http=ControllerHttpSettings(address=HostPort(host="", port=8080)),
    )
    assert (settings.grpc.receive_bytes_max, settings.http.read_s) == (4194304, 30.0)


READ = [
    ("VMAFX_SCORING_ROOTS", " /a/{tenant}, s3:b ", RootTemplates.parse(["/a/{tenant}", "s3:b"])),
    ("VMAFX_PULL_WAIT", "0s", 0.0),
    ("VMAFX_PULL_WAIT", "20s", 20.0),
    ("VMAFX_STORE_BACKEND", "sqlite", StoreBackend.SQLITE),
    ("VMAFX_DB_PATH", " /d/jobs.db ", "/d/jobs.db"),
    ("VMAFX_DB_DSN", "postgres://u:p@h/d", SecretStr("postgres://u:p@h/d")),
    ("VMAFX_STORE_LEASE_TTL", "3s", 3.0),
    ("VMAFX_STORE_LEASE_TTL", "0", 60.0),
    ("VMAFX_STORE_SESSION_TTL", "90s", 90.0),
    ("VMAFX_STORE_SESSION_TTL", "0s", 60.0),
    ("VMAFX_STORE_SWEEP_INTERVAL", "500ms", 0.5),
    ("VMAFX_STORE_SWEEP_INTERVAL", "0", 5.0),
    ("VMAFX_STORE_BACKOFF_BASE", "1s", 1.0),
    ("VMAFX_STORE_BACKOFF_BASE", "0", 5.0),
    ("VMAFX_STORE_BACKOFF_MAX", "1h", 3600.0),
    ("VMAFX_STORE_BACKOFF_MAX", "0", 300.0),
    ("VMAFX_JOB_RETENTION", "720h", 2592000.0),
    ("VMAFX_TENANT_PENDING_MAX", "1000", 1000),
    ("VMAFX_GRPC_LISTEN", "127.0.0.1:0", HostPort(host="127.0.0.1", port=0)),
    ("VMAFX_GRPC_MAX_RECV_SIZE", "1", 1),
    ("VMAFX_GRPC_MAX_SEND_SIZE", "2", 2),
    ("VMAFX_HTTP_ADDR", "[::1]:80", HostPort(host="::1", port=80)),
    ("VMAFX_HTTP_TIMEOUTS_READ", "1s", 1.0),
    ("VMAFX_HTTP_TIMEOUTS_HEADER", "2s", 2.0),
    ("VMAFX_HTTP_TIMEOUTS_WRITE", "3s", 3.0),
    ("VMAFX_HTTP_TIMEOUTS_IDLE", "4s", 4.0),
    ("VMAFX_HTTP_TIMEOUTS_SHUTDOWN", "5s", 5.0),
    ("VMAFX_HTTP_LIMITS_HEADER", "8", 8),
    ("VMAFX_HTTP_LIMITS_BODY", "9", 9),
    ("VMAFX_HTTP_LIMITS_UNLIMITED", "t", True),
]


@pytest.mark.parametrize(("name", "text", "value"), READ)
def test_a_variable_sets_its_value_and_no_other(name, text, value):
    assert values(read(**{name: text})) == values(read()) | {name: value}


def test_no_variable_is_left_out_of_the_tests():
    with_others = {"VMAFX_AUTH_DISABLED", "VMAFX_GRPC_TLS", "VMAFX_GRPC_CERT_FILE", "VMAFX_GRPC_KEY_FILE"}
    assert {name for name, _, _ in READ} | with_others | TOKENS == OWN


# ---------------------------------------------------------------- refusals

WRONG = [
    ("VMAFX_STORE_BACKEND", "mysql"),
    ("VMAFX_STORE_LEASE_TTL", "-1s"),
    ("VMAFX_STORE_SESSION_TTL", "soon"),
    ("VMAFX_STORE_SWEEP_INTERVAL", "-5s"),
    ("VMAFX_STORE_BACKOFF_BASE", "5"),
    ("VMAFX_STORE_BACKOFF_MAX", "-1m"),
    ("VMAFX_JOB_RETENTION", "-1h"),
    ("VMAFX_TENANT_PENDING_MAX", "-1"),
    ("VMAFX_PULL_WAIT", "-1s"),
    ("VMAFX_SCORING_ROOTS", "clips"),
    ("VMAFX_SCORING_ROOTS", "/a/../{tenant}"),
    ("VMAFX_SCORING_ROOTS", ",".join(f"/r{n}" for n in range(33))),
    ("VMAFX_DB_PATH", "/a\x00b"),
    ("VMAFX_DB_PATH", "jobs.db"),
    ("VMAFX_GRPC_CERT_FILE", "c.pem"),
    ("VMAFX_GRPC_KEY_FILE", "k.pem"),
    ("VMAFX_AUTH_DISABLED", "yes"),
    ("VMAFX_GRPC_LISTEN", "9090"),
    ("VMAFX_GRPC_TLS", "true"),
    ("VMAFX_HTTP_ADDR", "http://:8080"),
    ("VMAFX_HTTP_TIMEOUTS_READ", "-1s"),
    ("VMAFX_LOG_FORMAT", "xml"),
]


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_a_wrong_value_is_refused_by_its_variable_alone(name, text):
    refused = refusal(**{name: text})
    assert [problem.setting for problem in refused.all] == [name]
    assert name in str(refused)


def test_all_refusals_are_told_at_once():
    wrong = dict(WRONG) | dict.fromkeys(TOKENS, "x") | {"HOME": "relative"}
    for name in ("VMAFX_GRPC_TLS", "VMAFX_GRPC_CERT_FILE", "VMAFX_GRPC_KEY_FILE"):  # wrong without the others
        del wrong[name]
    told = [problem.setting for problem in refusal(**wrong).all]
    assert sorted(told) == sorted(set(wrong) - {"HOME"})


def test_files_of_tls_without_tls_are_refused_each_by_its_name_and_with_it_taken():
    files = {"VMAFX_GRPC_CERT_FILE": "/c.pem", "VMAFX_GRPC_KEY_FILE": "/k.pem"}
    refused = refusal(**files)
    assert [problem.setting for problem in refused.all] == list(files)
    assert str(refused).count("needs VMAFX_GRPC_TLS=true: without it, calls are served in plaintext") == 2
    settings = read(**files, VMAFX_GRPC_TLS="true").grpc
    assert (settings.cert_file, settings.key_file) == ("/c.pem", "/k.pem")


def test_roots_that_are_a_list_are_refused_with_how_to_make_them():
    with pytest.raises(ConfigurationError, match=r"write RootTemplates\.parse\(\["):
        ControllerSettings(scoring_roots=["/clips"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("VMAFX_AUTH_DISABLED", "yes", "is not a boolean: write true or false"),
        ("VMAFX_JOB_RETENTION", "30d", "is not a duration (examples: 500ms, 10s, 720h)"),
        ("VMAFX_GRPC_LISTEN", "19190", "has no host; write :19190 to listen on every address"),
        ("VMAFX_DB_PATH", "jobs.db", "is no absolute path, and would depend on where the program is started"),
    ],
)
def test_a_refusal_says_what_to_write(name, text, words):
    assert str(refusal(**{name: text})) == f'{name}="{text}" {words}'


@pytest.mark.parametrize(
    ("seconds", "interval"),
    [("29s", "9.5"), ("20s", "5"), ("11s", "0.5"), ("10s", None), ("3s", None)],
)
def test_a_short_lease_is_told_with_the_interval_that_goes_with_it(seconds, interval):
    (line,) = read(VMAFX_STORE_LEASE_TTL=seconds).store.warnings()
    assert (
        "twice the nodes' VMAFX_CONTROLLER_HEARTBEAT_INTERVAL plus their VMAFX_CONTROLLER_RPC_TIMEOUT, 30s"
        in line
    )
    assert line.endswith(f"; an interval of at most {interval}s goes with it") == (interval is not None)
    if (
        interval is not None
    ):  # at that interval, a node that loses one heartbeat is heard in time, and not later
        assert 2 * float(interval) + RPC_TIMEOUT_S == float(seconds.removesuffix("s"))


def test_a_store_that_does_not_exist_yet_is_refused_by_name():
    assert str(refusal(VMAFX_STORE_BACKEND="postgres")) == (
        'VMAFX_STORE_BACKEND="postgres" cannot be honoured: this version has no PostgreSQL store; unset it, '
        "or set it to sqlite"
    )
    with pytest.raises(ConfigurationError, match="no PostgreSQL store"):
        StoreSettings(backend=StoreBackend.POSTGRES)


@pytest.mark.parametrize("text", ["", "false", "0"])
def test_a_controller_that_lets_nobody_in_says_what_it_cannot_do_and_what_to_set(text):
    refused = refusal(VMAFX_AUTH_DISABLED=text)
    assert refused.setting == "VMAFX_AUTH_DISABLED"
    assert "this version verifies no tokens (JWT)" in str(refused)
    assert "Set it to true" in str(refused)


@pytest.mark.parametrize("name", sorted(TOKENS))
@pytest.mark.parametrize("disabled", ["true", "false"])
def test_a_setting_that_asks_for_tokens_to_be_verified_is_refused_and_its_value_not_told(name, disabled):
    refused = refusal(VMAFX_AUTH_DISABLED=disabled, **{name: SECRET})
    assert name in {problem.setting for problem in refused.all}
    assert SECRET not in str(refused)


def test_a_verifier_of_ones_own_needs_no_such_word():
    settings = ControllerSettings.from_environment({"HOME": "/h"}, needs_auth=False)
    assert settings.auth.disabled is False
    with pytest.raises(ConfigurationError, match="VMAFX_AUTH_ISSUER"):
        ControllerSettings.from_environment({"HOME": "/h", "VMAFX_AUTH_ISSUER": "i"}, needs_auth=False)


@pytest.mark.parametrize(
    ("calls", "pages", "taken"),
    [
        (":9090", ":9090", False),
        ("127.0.0.1:9090", ":9090", False),
        (":9090", "[::1]:9090", False),
        ("0.0.0.0:9090", "10.0.0.1:9090", False),
        ("h:9090", "h:9090", False),
        ("127.0.0.1:9090", "127.0.0.2:9090", True),
        (":0", ":0", True),
        (":9090", ":9091", True),
    ],
)
def test_two_listeners_on_one_port_are_refused_by_name(calls, pages, taken):
    environment = {"VMAFX_GRPC_LISTEN": calls, "VMAFX_HTTP_ADDR": pages}
    if taken:
        assert str(read(**environment).grpc.address) == calls
    else:
        refused = refusal(**environment)
        assert refused.setting == "VMAFX_HTTP_ADDR"
        assert f"has the port of VMAFX_GRPC_LISTEN ({calls})" in str(refused)


def test_a_wrong_address_brings_no_conflict_of_its_default_along():
    refused = refusal(VMAFX_GRPC_LISTEN="x", VMAFX_HTTP_ADDR=":9090")
    assert [problem.setting for problem in refused.all] == ["VMAFX_GRPC_LISTEN"]


@pytest.mark.parametrize(
    ("part", "values"),
    [
        (StoreSettings, {"lease_ttl_s": 0.0}),
        (StoreSettings, {"retention_s": -1.0}),
        (StoreSettings, {"pending_max": True}),
        (StoreSettings, {"path": ""}),
        (StoreSettings, {"dsn": SECRET}),
        (StoreSettings, {"dsn": SecretStr(f"{SECRET}\n{SECRET}")}),
        (StoreSettings, {"backend": "sqlite"}),
        (AuthSettings, {"disabled": 1}),
        (AuthSettings, {"issuer": "i"}),
        (ControllerSettings, {"scoring_roots": ("/a",)}),
        (ControllerSettings, {"pull_wait_s": float("inf")}),
        (ControllerSettings, {"grpc": ControllerGrpcSettings(address=HostPort(host="", port=8080))}),
    ],
    ids=str,
)
def test_values_made_by_hand_are_held_to_the_same_rules(part, values):
    with pytest.raises(ConfigurationError) as caught:
        part(**values)
    assert SECRET not in str(caught.value)


# ---------------------------------------------------------------- where the database is


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"XDG_STATE_HOME": "/s/", "HOME": "/h"}, "/s/vmafx/vmafx-controller.db"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/vmafx/vmafx-controller.db"),
        ({"XDG_STATE_HOME": " ", "HOME": "/h/"}, "/h/.local/state/vmafx/vmafx-controller.db"),
        ({"XDG_STATE_HOME": "/s"}, "/s/vmafx/vmafx-controller.db"),
        ({"HOME": "/"}, "/.local/state/vmafx/vmafx-controller.db"),
    ],
)
def test_the_database_lies_in_the_state_folder_of_the_user(environment, path):
    assert default_database(environment) == path


@pytest.mark.parametrize("environment", [{}, {"XDG_STATE_HOME": "s"}, {"XDG_STATE_HOME": "s", "HOME": "h"}])
def test_a_database_that_has_no_place_is_refused_by_name_and_never_put_into_the_working_directory(
    environment,
):
    auth = {"VMAFX_AUTH_DISABLED": "1"}
    with pytest.raises(ConfigurationError, match="XDG_STATE_HOME or HOME") as caught:
        ControllerSettings.from_environment(auth | environment)
    assert caught.value.setting == "VMAFX_DB_PATH"
    ControllerSettings.from_environment(auth | environment | {"VMAFX_DB_PATH": "/d"})
    ControllerSettings.from_environment(auth | environment, needs_database=False)


@given(st.dictionaries(st.sampled_from(["XDG_STATE_HOME", "HOME"]), st.text(max_size=9)))
def test_the_default_is_absolute_or_refused(environment):
    absolute = any(value.strip().startswith("/") for value in environment.values())
    with nullcontext() if absolute else pytest.raises(ConfigurationError):
        assert default_database(environment).startswith("/")


def test_durations_are_those_of_the_store():
    store = read(VMAFX_STORE_LEASE_TTL="3s", VMAFX_STORE_SESSION_TTL="4s", VMAFX_STORE_BACKOFF_MAX="7s").store
    assert store.lease_policy == LeasePolicy(
        lease_ttl_s=3.0, session_ttl_s=4.0, backoff_base_s=5.0, backoff_max_s=7.0
    )
    assert read().store.lease_policy == LeasePolicy()


# ---------------------------------------------------------------- what is shown


def warned(**environment):
    environment = {**OPEN, **environment}
    settings = ControllerSettings.from_environment(environment)
    return (*environment_warnings(environment), *controller_warnings(settings, environment))


def test_settings_without_oddities_bring_no_warning():
    assert warned(**ROOTS, VMAFX_STORE_LEASE_TTL="30s", VMAFX_NODE_SLOTS="x", VMAFX_BACKEND="cuda") == ()


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"VMAFX_SCORING_ROOTS": ""}, "VMAFX_SCORING_ROOTS is unset: nothing lies below"),
        ({"VMAFX_SCORING_ROOTS": ","}, "VMAFX_SCORING_ROOTS is unset: nothing lies below"),
        ({"VMAFX_SCORING_ROOTS": "/a,/clips/{tennant}"}, '"/clips/{tennant}" has "{tennant}"'),
        ({"VMAFX_SCORING_ROOTS": "s3:b/{}"}, 'has "{}", which stands for itself; only {tenant} is'),
        ({"VMAFX_SCORING_ROOTS": "/"}, "has the root /: every file"),
        ({"VMAFX_SCORING_ROOTS": "/clips,file:///"}, "has the root /: every file"),
        ({"VMAFX_DB_DSN": SECRET}, "VMAFX_DB_DSN has no effect: VMAFX_STORE_BACKEND is sqlite"),
        ({"VMAFX_STORE_LEASE_TTL": "29s"}, "=29s is too short for a node that loses one heartbeat"),
        ({"VMAFX_STORE_SESSION_TTL": "3s"}, "=3s is over before the next heartbeat"),
        ({"VMAFX_STORE_BACKOFF_BASE": "6m"}, "VMAFX_STORE_BACKOFF_BASE=360s is above"),
        ({"VMAFX_STORE_LEASE_TL": SECRET}, "did you mean VMAFX_STORE_LEASE_TTL?"),
        ({"VMAFX_LOG_LEVEL": "loud"}, "logging at info"),
        (
            {"VMAFX_VMAF_BINARY": "/v"},
            "VMAFX_VMAF_BINARY has no effect: this version of the controller scores",
        ),
    ],
)
def test_what_is_odd_is_told_once_and_without_a_secret(environment, words):
    (line,) = warned(**ROOTS | environment)
    assert words in line
    assert SECRET not in line


@pytest.mark.parametrize("name", sorted(UNSERVED_BY_CONTROLLER))
def test_a_variable_without_effect_is_told_once_with_the_reason_and_without_its_value(name):
    reason = UNSERVED_BY_CONTROLLER[name]
    settings = read(**ROOTS)
    assert controller_warnings(settings, {name: SECRET}) == (f"{name} has no effect: {reason}",)


@pytest.mark.parametrize(
    ("address", "reachable"),
    [
        (":9090", True), ("0.0.0.0:1", True), ("[::]:1", True), ("10.0.0.1:1", True), ("controller:1", True),
        ("127.0.0.1:1", False), ("127.8.9.1:1", False), ("[::1]:1", False), ("localhost:1", False),
    ],
)  # fmt: skip
def test_that_nobody_is_authenticated_is_told_and_louder_where_others_can_call(address, reachable):
    first, *second = auth_warnings(read(VMAFX_GRPC_LISTEN=address))
    assert "no token is looked at, every caller may do everything" in first
    assert len(second) == int(reachable)
    assert all(f"VMAFX_GRPC_LISTEN={address} can be reached" in line for line in second)
    assert auth_warnings(ControllerSettings()) == ()


def shown(**environment):
    environment = {**OPEN, **environment}
    found = controller_rows(ControllerSettings.from_environment(environment), environment)
    assert len({row.name for row in found}) == len(found)
    return {row.name: (row.value, row.origin) for row in found}


def test_every_variable_is_shown_with_where_it_came_from():
    found = shown(VMAFX_SCORING_ROOTS="/a/{tenant}, https://me:pw@h/b?x=1", VMAFX_DB_DSN=SECRET)
    assert set(found) == set(VARIABLES)
    assert found["VMAFX_AUTH_DISABLED"] == ("true", "environment")
    assert found["VMAFX_DB_PATH"] == ("/home/u/.local/state/vmafx/vmafx-controller.db", "default")
    assert found["VMAFX_DB_DSN"] == ("**********", "environment")
    assert found["VMAFX_GRPC_LISTEN"] == (":9090", "default")
    assert found["VMAFX_HTTP_ADDR"] == (":8080", "default")
    assert found["VMAFX_STORE_BACKEND"] == ("sqlite", "default")
    assert found["VMAFX_STORE_LEASE_TTL"] == ("1m", "default")
    assert found["VMAFX_AUTH_ISSUER"] == ("unset", "default")
    assert found["VMAFX_SCORING_ROOTS"][0].startswith("/a/{tenant},https://h/b")
    assert "pw" not in found["VMAFX_SCORING_ROOTS"][0]
    assert shown(VMAFX_DB_PATH="/x/y.db")["VMAFX_DB_PATH"] == ("/x/y.db", "environment")


def test_no_way_of_showing_settings_shows_a_secret():
    environment = {**OPEN, "VMAFX_DB_DSN": SECRET}
    settings = ControllerSettings.from_environment(environment)
    assert settings.store.dsn.get_secret_value() == SECRET
    for text in (
        repr(settings),
        f"{settings}",
        repr(dataclasses.asdict(settings)),
        repr(controller_rows(settings, environment)),
        repr(controller_warnings(settings, environment)),
    ):
        assert SECRET not in text
    error = refusal(VMAFX_DB_DSN=f"{SECRET}\x00{SECRET}")
    assert SECRET not in "".join(traceback.format_exception(error))


# ---------------------------------------------------------------- the page

PAGE = (Path(__file__).parents[2] / "docs/settings.md").read_text(encoding="utf-8")
PART = PAGE.split("\n## The controller\n")[1].split("\n## ")[0]
DOCUMENTED = re.findall(r"^\| `([A-Z_]+)`", PART, re.MULTILINE)


def test_every_variable_of_the_controller_is_documented_once_and_the_other_way_round():
    assert sorted(DOCUMENTED) == sorted(OWN)


def test_every_variable_of_the_controller_is_known_and_every_known_one_belongs_to_a_program():
    ours = {name for name in VARIABLES if name.startswith("VMAFX_")}
    of_nodes = {v.name for v, _ in variables_of(NodeSettings)} | {name for name, _ in SCORER_VARIABLES}
    assert ours <= KNOWN_NAMES
    assert KNOWN_NAMES - ours - of_nodes == {"VMAFX_JOB_ID", "VMAFX_RUN_ID"}


def test_defaults_of_the_controller_are_documented_as_they_are():
    cells = dict(re.findall(r"^\| `([A-Z_]+)` \|[^|]*\| ([^|]*) \|", PART, re.MULTILINE))
    for name in OWN - {"VMAFX_DB_PATH"}:
        variable, _ = VARIABLES[name]
        default = variable.default
        assert cells[name] == ("unset" if default is None else f"`{variable.form.show(default)}`"), name
    assert "vmafx/vmafx-controller.db" in cells["VMAFX_DB_PATH"]


def test_what_the_controller_refuses_and_ignores_is_marked():
    assert set(re.findall(r"^\| `([A-Z_]+)` \|.*\| refused \|", PART, re.MULTILINE)) == TOKENS
    ignored = set(re.findall(r"`([A-Z_]+)`", re.search(r"has no effect on a controller: (.*?)\.\n", PART)[1]))
    assert ignored == {name for name in UNSERVED_BY_CONTROLLER if name not in OF_EVERY_PROGRAM}
