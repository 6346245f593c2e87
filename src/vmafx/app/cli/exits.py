"""How programs end: their exit codes, and what ends a command without an answer (ADR 0015, ADR 0022)."""

from __future__ import annotations

import signal
from typing import Final

__all__ = ["FAILED", "OK", "SIGNALLED", "USAGE", "InterruptedRunError", "OutputError", "ReaderGoneError"]

OK: Final = 0
"""Done: what was asked for is on standard output; a node or controller was stopped as it was told."""
FAILED: Final = 1
"""Not done, or the answer could not be written; the reason is on standard error."""
USAGE: Final = 2
"""The command line, or a setting in the environment, cannot be understood; a node has no scorer."""
SIGNALLED: Final = 128
"""Plus the number of the signal that ended the run: 130 is Ctrl-C, 143 is SIGTERM."""


class OutputError(Exception):
    """Standard output takes no answer; the message says why."""


class ReaderGoneError(Exception):
    """Whoever read standard output is gone: nobody wants the answer."""


class InterruptedRunError(Exception):
    """A signal ended the run.

    Attributes:
        signal: The signal.
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"interrupted ({number.name})")
        self.signal = number
