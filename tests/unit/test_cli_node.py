"""What the node's program does with signals, refusals and faults (ADR 0022)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager

import pytest

from vmafx.adapters.telemetry.scope import in_scope, scope_fields
from vmafx.app.cli import node as program
from vmafx.app.cli import program_signals
from vmafx.app.cli.arguments import NodeArguments
from vmafx.app.cli.program_signals import ProgramSignals
from vmafx.app.container import node as wiring
from vmafx.domain.errors import ScorerUnavailableError, VmafxError

ENVIRONMENT = {"VMAFX_NODE_ID": "n", "VMAFX_CONTROLLER_ADDR": "127.0.0.1:1", "VMAFX_LOG_FORMAT": "json"}
NO_SCORER = (
    "VMAFX_CONTROLLER_ADDR is set but no vmaf scorer is available (check VMAFX_VMAF_BINARY): "
    "a node that cannot score must not pull jobs: "
)
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Ended(BaseException):
    """Stands for the end of the process."""


class FakeNode:
    """Knows how it was stopped."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stop(self) -> None:
        self.said.append("stop")

    def stop_now(self) -> None:
        self.said.append("stop now")


@pytest.fixture
def heard():
    return []


@pytest.fixture
def signals(heard, monkeypatch):
    """The signals of a program; what would end the process raises."""

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    return ProgramSignals(heard.append)


async def passed_on() -> None:
    """Let the loop do what a handler asked for."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
async def test_the_first_signal_stops_and_the_second_interrupts(signals, heard, number):
    node = FakeNode()
    with signals.listening(), signals.stopping(node):
        signal.raise_signal(number)
        await passed_on()
        assert (node.said, heard, signals.exit_code) == (["stop"], [number], 0)
        signal.raise_signal(signal.SIGTERM)
        await passed_on()
        assert (node.said, heard) == (["stop", "stop now"], [number, signal.SIGTERM])
        assert signals.exit_code == 143
        with pytest.raises(Ended, match="143"):
            signal.raise_signal(number)


async def test_a_signal_in_the_middle_of_a_job_is_told_without_that_jobs_ids():
    told: list[object] = []
    signals, node = ProgramSignals(lambda _: told.append(scope_fields())), FakeNode()
    with signals.listening(), signals.stopping(node):
        with in_scope({"job_id": "job-1", "node_id": "session-1"}):
            signal.raise_signal(signal.SIGTERM)
            await passed_on()
        assert node.said == ["stop"]
    assert told == [{}]


async def test_a_signal_that_comes_before_there_is_a_node_stops_it_at_once(signals, heard):
    node = FakeNode()
    with signals.listening():
        signal.raise_signal(signal.SIGTERM)
        assert heard == []
        with signals.stopping(node):
            assert node.said == ["stop"]
        assert heard == [signal.SIGTERM]
    assert signals.exit_code == 0


def test_a_second_signal_ends_a_program_that_has_no_node(signals):
    with signals.listening():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Ended, match="130"):
            signal.raise_signal(signal.SIGINT)


async def test_a_node_that_hangs_when_told_twice_is_ended(signals, monkeypatch):
    monkeypatch.setattr(program_signals, "FORCE_AFTER_S", 0.0)
    ended = asyncio.Event()
    codes = []

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(os, "_exit", end)
    with signals.listening(), signals.stopping(FakeNode()):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(ended.wait(), 30)
    assert codes == [143]


def test_handlers_are_as_they_were_and_what_was_ignored_stays_ignored(signals):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        were = [signal.getsignal(number) for number in SIGNALS]
        with signals.listening():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not were[1]
        assert [signal.getsignal(number) for number in SIGNALS] == were
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("error", "message", "code", "text"),
    [
        (
            ExceptionGroup("unhandled", [ValueError("the keeper died")]),
            "node ended by a fault",
            1,
            "ValueError: the keeper died",
        ),
        (MemoryError(), "node ended by a fault", 1, "MemoryError"),
        (VmafxError("no way"), "node refuses to start", 1, "no way"),
        (
            ScorerUnavailableError("VMAFX_VMAF_BINARY", "gone"),
            "node refuses to start",
            2,
            f"{NO_SCORER}VMAFX_VMAF_BINARY: gone",
        ),
        (
            ScorerUnavailableError("VMAFX_BACKEND", "no receipt"),
            "node refuses to start",
            2,
            f"{NO_SCORER}VMAFX_BACKEND: no receipt",
        ),
    ],
    ids=["fault", "no memory", "refusal", "no scorer", "no backend"],
)
def test_what_ends_a_node_is_in_the_log_and_in_the_exit_code(monkeypatch, capfd, error, message, code, text):
    class Dies(FakeNode):
        async def run(self) -> None:
            raise error

    @asynccontextmanager
    async def opens(*_: object, **__: object):
        yield Dies()

    monkeypatch.setattr(program, "prepare_process", lambda _: False)
    monkeypatch.setattr(wiring, "open_node", opens)
    assert program.node(NodeArguments(), ENVIRONMENT) == code
    out, err = capfd.readouterr()
    records = [json.loads(line) for line in err.splitlines()]
    assert not out
    assert [record["msg"] for record in records] == ["node starting", message]
    assert records[1]["level"] == "ERROR"
    assert text in records[1]["error"]
    assert records[1].get("setting") == getattr(error, "setting", None)
