"""Signals from before a program can act on them are kept, and count when it can (ADR 0022)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from vmafx.app.cli import main as program
from vmafx.app.cli import start
from vmafx.app.cli.exits import SIGNALLED, InterruptedRunError
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.kept_signals import ENDING, KeptSignals, find_kept, keep_signals
from vmafx.app.cli.main import run
from vmafx.app.cli.program_signals import ProgramSignals


class Ended(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def _own_handlers(monkeypatch):
    """Handlers are as they were after the test; what would end the process raises."""

    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(os, "_exit", end)
    before = [(number, signal.getsignal(number)) for number in ENDING]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def test_the_signals_that_end_a_program_are_these():
    assert set(ENDING) == {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}


@pytest.mark.parametrize("number", ENDING, ids=lambda n: n.name)
def test_a_signal_is_kept_until_it_is_taken(number):
    keep_signals()
    signal.raise_signal(number)
    assert find_kept().take() == [number]
    assert find_kept().take() == []


def test_a_second_signal_ends_the_process():
    keep_signals()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Ended, match=str(SIGNALLED + signal.SIGINT)):
        signal.raise_signal(signal.SIGINT)


def test_what_was_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keep_signals()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.raise_signal(signal.SIGHUP)
    assert find_kept().take() == []


def test_nothing_is_found_where_nothing_is_kept():
    assert find_kept().take() == []


class FakeNode:
    """Knows how it was stopped."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stop(self) -> None:
        self.said.append("stop")

    def stop_now(self) -> None:
        self.said.append("stop now")


async def test_a_kept_signal_stops_the_node_and_counts_as_the_first():
    keep_signals()
    signal.raise_signal(signal.SIGHUP)
    heard: list[signal.Signals] = []
    signals, node = ProgramSignals(heard.append), FakeNode()
    with signals.listening(), signals.stopping(node):
        assert (node.said, heard, signals.exit_code) == (["stop"], [signal.SIGHUP], 0)
        signal.raise_signal(signal.SIGTERM)
        for _ in range(3):
            await asyncio.sleep(0)
        assert (node.said, signals.exit_code) == (["stop", "stop now"], 143)
    assert isinstance(signal.getsignal(signal.SIGTERM), KeptSignals)


def test_a_kept_signal_cancels_a_run_before_its_first_step():
    keep_signals()
    signal.raise_signal(signal.SIGTERM)
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)
        await asyncio.Event().wait()

    with pytest.raises(InterruptedRunError) as caught:
        asyncio.run(until_signalled(work()))
    assert caught.value.signal == signal.SIGTERM
    assert begun == []


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["--nonsense"], ["--check"]], ids=str)
def test_a_command_that_was_told_to_end_does_so_as_an_interrupted_one(capsys, arguments):
    keep_signals()
    signal.raise_signal(signal.SIGTERM)
    assert run(arguments, {}, platform="linux", program="vmafx-node") == 143
    assert capsys.readouterr().err.endswith("vmafx-node: interrupted (SIGTERM)\n")


@pytest.mark.parametrize(
    ("entry", "words", "kept"),
    [
        (start.node_main, ["vmafx-node"], True),
        (start.node_main, ["vmafx-node", "--check"], True),
        (start.main, ["vmafx", "node"], True),
        (start.main, ["vmafx", "node", "--check"], True),
        (start.controller_main, ["vmafx-controller"], True),
        (start.main, ["vmafx", "controller"], True),
        (start.main, ["vmafx", "score", "node"], False),
        (start.main, ["vmafx"], False),
    ],
)
def test_signals_are_kept_for_what_runs_until_stopped_and_for_no_other(monkeypatch, entry, words, kept):
    seen: list[bool] = []
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(
        program, "main", lambda _: seen.append(isinstance(signal.getsignal(signal.SIGTERM), KeptSignals))
    )
    entry()
    assert seen == [kept]
