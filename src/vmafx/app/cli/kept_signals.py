"""Signals that come before a program can act on them, kept until it can (ADR 0022).

The kernel throws away what is sent to the first process of a container while that has no handler, so each
moment without one can cost a whole drain. This module imports next to nothing: not even `typing`.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["ENDING", "KeptSignals", "find_kept", "heard_signals", "keep_signals"]

ENDING: tuple[signal.Signals, ...] = tuple(
    number for number in signal.Signals if number.name in {"SIGHUP", "SIGINT", "SIGTERM"}
)
"""The signals that end a program, as far as the platform has them."""


class KeptSignals:
    """A handler that keeps the first signal; a second one ends the process, in which nothing was begun."""

    def __init__(self) -> None:
        self._kept: list[signal.Signals] = []

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Hear a signal."""
        if self._kept:
            os._exit(128 + number)  # `SIGNALLED` of the exit codes, which take longer to load
        self._kept.append(signal.Signals(number))

    def take(self) -> list[signal.Signals]:
        """Return what was kept, at most one signal, and keep it no longer."""
        taken, self._kept = self._kept, []
        return taken


def keep_signals() -> None:
    """Keep the signals that end a program, from now on; what was ignored stays so, as `nohup` wants it."""
    handler = KeptSignals()
    for number in heard_signals():
        signal.signal(number, handler)


def find_kept() -> KeptSignals:
    """Return the handler that keeps signals at the moment; one that has nothing where there is none."""
    handlers = map(signal.getsignal, ENDING)
    return next((handler for handler in handlers if isinstance(handler, KeptSignals)), KeptSignals())


def heard_signals() -> list[signal.Signals]:
    """Return the signals that end this program: those that it was not started to ignore."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
