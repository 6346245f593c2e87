"""A child process as values: what to start, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["Command", "Exit", "Listener"]

Listener: TypeAlias = Callable[[bytes], None]
"""Takes the bytes that a child writes to one of its descriptors, as they come; must not block or raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to start.

    The child's standard input and output are the null device. It gets no other descriptors than the ones
    named here and its standard error.

    Attributes:
        argv: The program's absolute path and its arguments.
        environment: The whole environment of the child, but for `VMAFX_RUN_ID`, which holds `run_id`.
        descriptors: The child's descriptor number (3 or more) to ours, which stays open and ours.
        listeners: The child's descriptor number (3 or more) to what takes the bytes written there; 2 also
            hears standard error.
        run_id: A name that no other run has; a process that carries it is part of this run. Letters, digits
            and `-` only.
        file_bytes_max: The largest file the child may write, in bytes; None sets no limit.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    run_id: str
    descriptors: Mapping[int, int] = field(default_factory=dict[int, int])
    listeners: Mapping[int, Listener] = field(default_factory=dict[int, Listener])
    file_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended.

    Attributes:
        status: The exit status, 0 to 255; a negative number is the signal that ended it.
        stderr: The last bytes of its standard error; at most the limit of whoever ran it.
    """

    status: int
    stderr: bytes = b""

    @property
    def words(self) -> str:
        """The status in words, a signal by its name."""
        if self.status >= 0:
            return f"exit status {self.status}"
        try:
            name = signal.Signals(-self.status).name
        except ValueError:
            return f"signal {-self.status}"
        return f"signal: {_SIGNAL_WORDS[name]} ({name})" if name in _SIGNAL_WORDS else f"signal: {name}"

    @property
    def machine_fault(self) -> bool:
        """Whether the way it ended speaks of the machine rather than of the input (ADR 0010)."""
        return -self.status in _MACHINE_SIGNALS


_MACHINE_SIGNALS: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGILL})
_SIGNAL_WORDS: Final[Mapping[str, str]] = {
    "SIGABRT": "aborted",
    "SIGBUS": "bus error",
    "SIGFPE": "floating point exception",
    "SIGHUP": "hangup",
    "SIGILL": "illegal instruction",
    "SIGKILL": "killed",
    "SIGSEGV": "segmentation fault",
    "SIGTERM": "terminated",
    "SIGXFSZ": "file size limit exceeded",
}
