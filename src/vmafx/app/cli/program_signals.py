"""What signals do to a program that runs until stopped: the first lets work end, the second cuts it off.

For a node that is its jobs, for a controller the calls that are under way (ADR 0022, ADR 0028).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol

from vmafx.app.cli.exits import OK, SIGNALLED
from vmafx.app.cli.kept_signals import find_kept, heard_signals

__all__ = ["FORCE_AFTER_S", "ProgramSignals"]

FORCE_AFTER_S: Final = 2.0
"""How long one that was told twice to stop may clean up before its process just ends, in seconds."""


class Stoppable(Protocol):
    """What can be stopped, in two ways."""

    def stop(self) -> None:
        """Stop, and let things end."""

    def stop_now(self) -> None:
        """Stop, and interrupt them."""


class ProgramSignals:
    """Passes signals on to what is to be stopped, also those from before there was anything.

    It takes over from `keep_signals`, which hears for the program until this class is loaded, so that none is
    lost in between; only while Python itself starts nobody listens.

    Args:
        told: Hears of every signal that something is done about, on the event loop.
    """

    def __init__(self, told: Callable[[signal.Signals], None]) -> None:
        self._told = told
        self._heard: list[signal.Signals] = []
        self._done = 0
        self._running: Stoppable | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()

    @property
    def exit_code(self) -> int:
        """How a program ends that ended by itself."""
        return OK if len(self._heard) < 2 else SIGNALLED + self._heard[1]

    @contextmanager
    def listening(self) -> Generator[None]:
        """Hear signals while the body runs; a second one ends the process while nothing is running.

        What was kept so far counts. What was ignored when the program started stays ignored, as `nohup` and
        shells want it.
        """
        kept = find_kept()
        before = [(number, signal.signal(number, self._hear)) for number in heard_signals()]
        self._heard[:0] = kept.take()
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    @contextmanager
    def stopping(self, running: Stoppable) -> Generator[None]:
        """Pass signals on while the body runs, also those that came before.

        Args:
            running: What is to be stopped; it belongs to the running event loop.
        """
        self._running, self._loop = running, asyncio.get_running_loop()
        self._pass_on()
        try:
            yield
        finally:
            self._running = self._loop = None

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._heard.append(signal.Signals(number))
        times = len(self._heard)
        if times > 2 or (times == 2 and self._loop is None):
            os._exit(self.exit_code)
        if self._loop is not None:
            # A handler interrupts whatever task runs, whose job must not be on the line about the signal.
            self._loop.call_soon_threadsafe(self._pass_on, context=self._context)

    def _pass_on(self) -> None:
        while self._running is not None and self._done < len(self._heard):
            self._done += 1
            self._told(self._heard[self._done - 1])
            if self._done == 1:
                self._running.stop()
            else:
                self._running.stop_now()
                asyncio.get_running_loop().call_later(FORCE_AFTER_S, os._exit, self.exit_code)
