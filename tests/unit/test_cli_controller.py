"""What the controller's program does with signals, refusals and faults (ADR 0028)."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import asynccontextmanager

import pytest

from vmafx.app.cli import controller as program
from vmafx.app.cli.arguments import ControllerArguments
from vmafx.app.cli.main import run
from vmafx.app.container import controller as wiring
from vmafx.domain.errors import ConfigurationError, VmafxError

ENVIRONMENT = {
    "VMAFX_AUTH_DISABLED": "true",
    "VMAFX_DB_PATH": "/nowhere/jobs.db",
    "VMAFX_LOG_FORMAT": "json",
    "VMAFX_SCORING_ROOTS": "/clips",
}


@pytest.fixture(autouse=True)
def _process(monkeypatch):
    """The process stays as it is."""
    monkeypatch.setattr(program, "prepare_process", lambda _, *, children: children)


def opens(monkeypatch, running):
    """Have the program run something else."""

    @asynccontextmanager
    async def opened(settings, **ports):
        assert str(settings.store.path) == "/nowhere/jobs.db"
        assert set(ports) == {"environment", "tls13_only", "telemetry"}
        yield running

    monkeypatch.setattr(wiring, "open_reference_controller", opened)


def told(capfd):
    out, err = capfd.readouterr()
    assert not out
    return [json.loads(line) for line in err.splitlines()]


class Running:
    """Stands for a controller."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        if self._error is not None:
            raise self._error
        signal.raise_signal(signal.SIGTERM)
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def stop_now(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (ExceptionGroup("unhandled", [ValueError("the sweep died")]), "controller ended by a fault", 1),
        (MemoryError("none"), "controller ended by a fault", 1),
        (VmafxError("no way"), "controller refuses to start", 1),
        (ConfigurationError("VMAFX_HTTP_ADDR", "is in use", value=":80"), "controller refuses to start", 2),
    ],
    ids=["fault", "no memory", "refusal", "address"],
)
def test_what_ends_a_controller_is_in_the_log_and_in_the_exit_code(monkeypatch, capfd, error, message, code):
    opens(monkeypatch, Running(error))
    assert program.controller(ControllerArguments(), ENVIRONMENT) == code
    records = told(capfd)
    assert [record["msg"] for record in records] == ["controller starting", message]
    assert records[1]["level"] == "ERROR"
    assert records[1].get("setting") == getattr(error, "setting", None)
    assert str(error.exceptions[0] if isinstance(error, ExceptionGroup) else error) in records[1]["error"]


def test_a_signal_stops_it_in_order(monkeypatch, capfd):
    opens(monkeypatch, Running())
    assert program.controller(ControllerArguments(), ENVIRONMENT) == 0
    assert [record["msg"] for record in told(capfd)] == ["controller starting", "controller told to stop"]


def test_all_wrong_settings_are_told_one_line_each_and_the_hint_before(capfd):
    wrong = {**ENVIRONMENT, "VMAFX_AUTH_DISABLED": "", "VMAFX_AUTH_DISABLE": "true", "VMAFX_PULL_WAIT": "x"}
    assert program.controller(ControllerArguments(), wrong) == 2
    starting, hint, *refusals = told(capfd)
    assert starting["msg"] == "controller starting"
    assert "did you mean VMAFX_AUTH_DISABLED?" in hint["error"]
    assert {record["msg"] for record in refusals} == {"controller refuses to start"}
    assert sorted(record["setting"] for record in refusals) == ["VMAFX_AUTH_DISABLED", "VMAFX_PULL_WAIT"]


@pytest.mark.parametrize(
    ("program_name", "arguments", "code", "words"),
    [
        ("vmafx-controller", ["--version"], 0, "vmafx-controller "),
        ("vmafx-controller", ["--help"], 0, "Usage: vmafx-controller [OPTIONS]"),
        ("vmafx", ["controller", "--help"], 0, "Usage: vmafx controller [OPTIONS]"),
        ("vmafx-controller", ["--version", "--check"], 2, "--version goes alone"),
        ("vmafx-controller", ["now"], 2, "(see vmafx-controller --help)"),
        ("vmafx", ["controller", "--port", "1"], 2, "(see vmafx controller --help)"),
    ],
)
def test_the_command_line_is_answered_without_a_look_at_a_setting(
    capsys, program_name, arguments, code, words
):
    wrong = {"VMAFX_PULL_WAIT": "x"}
    assert run(arguments, wrong, platform="linux", program=program_name) == code
    out, err = capsys.readouterr()
    assert words in (out if code == 0 else err)
    assert "VMAFX_PULL_WAIT" not in out + err
