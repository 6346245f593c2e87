"""How `vmafx-node` starts, refuses to, and shows what it would run with (ADR 0019, ADR 0022)."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tests.e2e.node_program import NODE, node_settings
from tests.e2e.program import HANG_S, VMAFX, eventually
from vmafx.domain.version import __version__

SECRET = "tok-3f9c"
NOWHERE = "127.0.0.1:1"


def run(program, *arguments, command=(str(NODE),), **settings):
    """Run a node that must end by itself."""
    return subprocess.run(
        [*command, *arguments],
        env=program.environment | settings,
        cwd=program.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def errors(shown):
    """The ERROR records of a log."""
    records = [json.loads(line) for line in shown.stderr.splitlines()]
    return [record for record in records if record["level"] == "ERROR"]


REFUSALS = [
    ({"VMAFX_CONTROLLER_ADDR": " "}, {"VMAFX_CONTROLLER_ADDR": "without a controller"}),
    (
        {"VMAFX_CONTROLLER_TLS": "1", "VMAFX_CONTROLLER_CA_FILE": "/etc/passwd"},
        {"VMAFX_CONTROLLER_CA_FILE": "holds no PEM certificate"},
    ),
    (
        {"VMAFX_CONTROLLER_TOKEN": f"{SECRET}\u00e9", "VMAFX_CONTROLLER_SERVER_NAME": "c"},
        {
            "VMAFX_CONTROLLER_TOKEN": "that no header can carry",
            "VMAFX_CONTROLLER_SERVER_NAME": "need controller.tls=true",
        },
    ),
    (
        {
            "VMAFX_CONTROLLER_ADDR": "http://c:1",
            "VMAFX_BACKEND": "auto",
            "VMAFX_NODE_SLOTS": "65",
            "VMAFX_CONTROLLER_TLS": "maybe",
            "VMAFX_CONTROLLER_RPC_TIMEOUT": "ten",
            "VMAFX_CONTROLLER_POLL_INTERVAL": "0",
            "VMAFX_CONTROLLER_TOKEN": SECRET,
            "VMAFX_CONTROLLER_TOKEN_FILE": "/t",
            "VMAFX_STORAGE_MODE": "x",
            "VMAFX_EBPF_BYPASS": "true",
            "VMAFX_SHUTDOWN_TIMEOUT": "-1s",
            "VMAFX_LOG_FORMAT": "xml",
        },
        {
            "VMAFX_CONTROLLER_ADDR": "write host:port without one",
            "VMAFX_BACKEND": 'VMAFX_BACKEND="auto" cannot be advertised to the controller; use one of cpu',
            "VMAFX_NODE_SLOTS": 'node.slots="65" must be an integer from 1 to 64',
            "VMAFX_CONTROLLER_TLS": 'controller.tls="maybe" is not a boolean',
            "VMAFX_CONTROLLER_RPC_TIMEOUT": 'controller.rpc_timeout="ten" is not a duration',
            "VMAFX_CONTROLLER_POLL_INTERVAL": "must be positive",
            "VMAFX_CONTROLLER_TOKEN": "not both",
            "VMAFX_STORAGE_MODE": 'unknown mode "x" (want http-serve, mount or auto)',
            "VMAFX_EBPF_BYPASS": "",
            "VMAFX_SHUTDOWN_TIMEOUT": "-1s",
            "VMAFX_LOG_FORMAT": "xml",
        },
    ),
]


@pytest.mark.parametrize(("settings", "expected"), REFUSALS, ids=["address", "CA file", "token", "many"])
def test_a_refusal_names_each_setting_and_starts_nothing(program, fake, settings, expected):
    shown = run(program, **{**node_settings(NOWHERE), **settings})
    assert (shown.returncode, shown.stdout) == (2, "")
    told = errors(shown)
    assert {record["msg"] for record in told} == {"node refuses to start"}
    assert sorted(record["setting"] for record in told) == sorted(expected)
    for record in told:
        assert expected[record["setting"]] in record["error"]
        assert record["setting"] in record["error"]
    assert SECRET not in shown.stderr
    assert not fake.log.exists()  # not even the version of the scorer was asked for
    assert program.leftovers() == []


@pytest.mark.parametrize(
    ("settings", "blamed"),
    [
        ({"VMAFX_VMAF_BINARY": "/nowhere/vmaf"}, "VMAFX_VMAF_BINARY"),
        ({}, "VMAFX_VMAF_BINARY"),
        ({"VMAFX_BACKEND": "cuda"}, "VMAFX_BACKEND"),
        ({"VMAFX_MODEL_DIR": "/nowhere"}, "VMAFX_MODEL_DIR"),
    ],
    ids=["missing", "broken", "backend", "models"],
)
def test_a_node_without_a_scorer_does_not_start_and_blames_what_made_it_unusable(
    program, fake, settings, blamed
):
    fake.tell(mode="fails")
    shown = run(program, **node_settings(NOWHERE), **settings)
    assert (shown.returncode, shown.stdout) == (2, "")
    (told,) = errors(shown)
    assert told["setting"] == blamed
    assert told["error"].startswith(
        "VMAFX_CONTROLLER_ADDR is set but no vmaf scorer is available (check VMAFX_VMAF_BINARY): "
        f"a node that cannot score must not pull jobs: {blamed}: "
    )
    assert "RegisterNode" not in shown.stderr


def test_a_node_that_must_mount_does_not_start_where_it_cannot(program, fake):
    settings = node_settings(NOWHERE) | {"VMAFX_STORAGE_MODE": "mount", "PATH": str(program.folder)}
    for words in ((), ("--check",)):
        shown = run(program, *words, **settings)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert re.search(
            r"storage: mode mount needs FUSE: (no /dev/fuse, )?no fusermount3 or fusermount", shown.stderr
        )
        assert "VMAFX_STORAGE_MODE" in shown.stderr
    assert not fake.log.exists()


@pytest.mark.parametrize("words", [(), ("--check",)], ids=["start", "check"])
def test_a_refusal_comes_with_the_hint_at_a_misspelt_name(program, words):
    shown = run(program, *words, VMAFX_CONTROLER_ADDR=NOWHERE)
    assert shown.returncode == 2
    hint, refusal = shown.stderr.splitlines()[-2:]
    assert "VMAFX_CONTROLER_ADDR is not a setting" in hint
    assert "did you mean VMAFX_CONTROLLER_ADDR?" in hint
    assert "VMAFX_CONTROLLER_ADDR: is unset" in refusal


PART_DIES = """
from vmafx.adapters.grpc.client import GrpcController
from vmafx.app.cli.start import node_main

async def breaks(*_, **__):
    raise ZeroDivisionError("the part is broken")

GrpcController.register = breaks
node_main()
"""


def test_a_node_of_which_a_part_dies_ends_with_a_code_that_asks_for_a_restart(program, fake):
    shown = run(program, command=(sys.executable, "-c", PART_DIES), **node_settings(NOWHERE))
    assert (shown.returncode, shown.stdout) == (1, "")
    (told,) = errors(shown)
    assert told["msg"] == "node ended by a fault"
    assert "the part is broken" in told["error"]
    assert "Traceback" not in shown.stderr
    assert program.leftovers() == []


def test_questionable_settings_are_warned_about(program):
    odd = {
        "VMAFX_NODE_SLOT": "3",
        "VMAFX_LOG_LEVEL": "loud",
        "VMAFX_HTTP_ADDR": ":1",
        "VMAFX_SECRETS": SECRET,
    }
    shown = run(program, **odd)
    records = [json.loads(line) for line in shown.stderr.splitlines()]
    warned = [record["error"] for record in records if record["msg"] == "setting questionable"]
    assert any("VMAFX_NODE_SLOT is not" in line and "VMAFX_NODE_SLOTS" in line for line in warned)
    assert any("VMAFX_LOG_LEVEL" in line for line in warned)
    assert any("VMAFX_HTTP_ADDR has no effect" in line for line in warned)
    assert SECRET not in shown.stderr


def test_version_is_told_without_a_look_at_anything(program, fake):
    command = (sys.executable, "-X", "importtime", str(NODE))
    shown = run(program, "--version", command=command, VMAFX_NODE_SLOTS="65")
    assert (shown.returncode, shown.stdout) == (0, f"vmafx-node {__version__}\n")
    imported = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}
    assert "vmafx.app.cli.commands" in imported
    assert imported.isdisjoint({"grpc", "asyncio", "pydantic", "dependency_injector", "opentelemetry"})
    assert not fake.log.exists()


def test_help_tells_how_it_ends(program):
    shown = run(program, "--help")
    assert shown.returncode == 0
    assert "Usage: vmafx-node [OPTIONS]" in shown.stdout
    assert "Exit status: 0 stopped" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [["--slots", "2"], ["now"], ["--version", "x"], ["--version", "--check"], ["--check", "x"]],
    ids=str,
)
def test_what_it_does_not_understand_is_refused(program, fake, arguments):
    shown = run(program, *arguments, **node_settings(NOWHERE))
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.fullmatch(r"vmafx-node: .*\(see vmafx-node --help\)\n", shown.stderr)
    assert not fake.log.exists()


def test_vmafx_node_is_the_same_program(program, fake, controller, nodes):
    node = nodes(controller.address, command=(str(VMAFX), "node"))
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    assert node.stop() == 0
    shown = run(program, "node", command=(str(VMAFX),), VMAFX_NODE_SLOTS="0")
    assert shown.returncode == 2
    assert [record["setting"] for record in errors(shown)] == ["VMAFX_NODE_SLOTS"]


class TestCheck:
    def test_it_shows_the_configuration_and_no_secret(self, program, fake):
        settings = node_settings("c.example:443") | {"VMAFX_CONTROLLER_TOKEN": SECRET, "VMAFX_NODE_SLOT": "1"}
        shown = run(program, "--check", **settings)
        assert shown.returncode == 0, shown.stderr
        rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in shown.stdout.splitlines())
        assert rows["VMAFX_CONTROLLER_ADDR"] == "c.example:443  (environment)"
        assert rows["VMAFX_CONTROLLER_TOKEN"] == "**********  (environment)"
        assert rows["VMAFX_NODE_ID"] == "node-0  (environment)"
        assert rows["VMAFX_SHUTDOWN_TIMEOUT"] == "30s  (default)"
        assert rows["scorer"].startswith(f"{fake.path} (")
        assert shown.stderr.startswith("vmafx-node: warning: VMAFX_NODE_SLOT is not")
        assert SECRET not in shown.stdout + shown.stderr
        assert program.leftovers() == []

    def test_it_refuses_what_a_start_refuses(self, program, fake):
        settings = node_settings(NOWHERE) | {"VMAFX_NODE_SLOTS": "65", "VMAFX_CONTROLLER_TLS": "maybe"}
        shown = run(program, "--check", **settings)
        assert (shown.returncode, shown.stdout) == (2, "")
        lines = shown.stderr.splitlines()
        assert len(lines) == 2
        assert all(line.startswith("vmafx-node: controller client config: VMAFX_") for line in lines)
        assert not fake.log.exists()

    def test_it_refuses_a_node_without_a_controller(self, program, fake):
        shown = run(program, "--check")
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "VMAFX_CONTROLLER_ADDR: is unset" in shown.stderr

    def test_it_refuses_a_scorer_that_does_not_work(self, program, fake):
        fake.tell(mode="fails")
        shown = run(program, "--check", **node_settings(NOWHERE))
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "no vmaf scorer is available" in shown.stderr

    @pytest.mark.parametrize(("text", "problem"), [(None, "read controller token file"), (" ", "is empty")])
    def test_a_token_that_cannot_be_had_is_a_warning(self, program, fake, text, problem):
        token = program.folder / "token"
        if text is not None:
            token.write_text(text, encoding="utf-8")
        settings = node_settings(NOWHERE) | {"VMAFX_CONTROLLER_TOKEN_FILE": str(token)}
        shown = run(program, "--check", **settings)
        assert shown.returncode == 0
        assert shown.stderr.startswith("vmafx-node: warning: ")
        assert problem in shown.stderr

    @pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">&- 2>&-", 1), (">/dev/full", 1)])
    def test_it_works_with_closed_and_full_streams(self, program, fake, closed, code):
        shown = run(
            program, command=("/bin/sh", "-c", f'"{NODE}" --check {closed}'), **node_settings(NOWHERE)
        )
        assert shown.returncode == code, shown.stderr
        assert "Traceback" not in shown.stderr

    def test_a_signal_ends_its_self_test(self, program, fake):
        fake.tell(mode="ignores_term")
        ready = fake.log.with_name("log.ready")
        with program.start("node", "--check", env=node_settings(NOWHERE)) as process:
            eventually(ready.exists, what="the self-test runs")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=HANG_S)
        assert (process.returncode, err) == (143, "vmafx: interrupted (SIGTERM)\n")
        assert program.leftovers() == []


@pytest.mark.parametrize(
    ("settings", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"VMAFX_LOG_FORMAT": "json"}, None)]
)
def test_the_log_suits_who_reads_it(program, settings, coloured):
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [str(NODE)],
        env=program.environment | {"TERM": "xterm", "VMAFX_NODE_SLOTS": "0"} | settings,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        assert process.wait(HANG_S) == 2
    text = os.read(master, 1 << 16).decode()
    os.close(master)
    assert "node refuses to start" in text
    assert ("\x1b[" in text) == (coloured is True)
    if coloured is None:
        assert json.loads(text.splitlines()[0])["msg"] == "node starting"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-"])
def test_a_node_works_without_streams(program, fake, controller, nodes, closed):
    node = nodes(controller.address, command=("/bin/sh", "-c", f'exec "{NODE}" {closed}'))
    assert controller.do("wait", job=controller.submit(program.folder))["status"] == "completed"
    assert node.stop() == 0
    assert node.text() == ""


def test_the_first_line_names_the_signals_that_cannot_stop_this_node(program):
    deaf = run(program, command=("sh", "-c", f"trap '' INT HUP; exec {NODE}"))
    assert json.loads(deaf.stderr.splitlines()[0])["ignored_signals"] == "SIGHUP SIGINT"
    assert "ignored_signals" not in json.loads(run(program).stderr.splitlines()[0])
