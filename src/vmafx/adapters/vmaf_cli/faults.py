"""What went wrong in a run, and whose fault it is: the machine's or the input's (ADR 0010)."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from vmafx.domain.errors import ReportError, ScorerError
from vmafx.domain.process import Exit
from vmafx.domain.text import bounded, printable

__all__ = [
    "STDERR_BYTES_MAX",
    "STDERR_SHOWN_BYTES_MAX",
    "Tail",
    "failed_run",
    "is_machine_fault",
    "machine_faults",
    "stderr_words",
    "timeout_text",
]

STDERR_BYTES_MAX: Final = 8 * 1024
"""How much of the end of a run's standard error is kept, in bytes."""
STDERR_SHOWN_BYTES_MAX: Final = 2 * 1024
"""How much of it an error shows, in bytes."""

_MACHINE_ERRNOS: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
    }
)
_MACHINE_WORDS: Final = tuple(
    os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)
)
_DESCRIPTOR_PATH: Final = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})(?!\d)")
_LINE_END: Final = re.compile(r"[\r\n]+")


class Tail:
    """Keeps the last bytes of what it is fed.

    Args:
        bytes_max: How many.
    """

    __slots__ = ("_bytes_max", "_data")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._data = (self._data + data)[-self._bytes_max :]

    @property
    def data(self) -> bytes:
        """What is kept."""
        return self._data


def stderr_words(data: bytes, paths: Mapping[int, str]) -> str:
    """Return a run's last words fit to be shown: printable lines, bounded, with real paths.

    Args:
        data: The end of its standard error.
        paths: What the run's descriptors were; their names stand in for `/dev/fd/N`.
    """
    text = _DESCRIPTOR_PATH.sub(
        lambda match: printable(paths.get(int(match[1]), match[0])), data.decode("utf-8", errors="replace")
    )
    lines = (printable(line.rstrip()) for line in _LINE_END.split(text))
    return bounded("\n".join(line for line in lines if line), STDERR_SHOWN_BYTES_MAX)


def failed_run(end: Exit, words: str, *, inputs: str) -> ScorerError:
    """Return the error of a run that ended with anything but success.

    Args:
        end: How it ended.
        words: Its last words, fit to be shown.
        inputs: What was scored, in words.
    """
    if end.status == -signal.SIGXFSZ:
        return ReportError("libvmaf: read output file: larger than a report may be", exit_status=end.status)
    return ScorerError(
        f"libvmaf: vmaf binary failed: {end.words}\nstderr: {words}\n{inputs}",
        exit_status=end.status,
        stderr=words,
        machine_fault=end.machine_fault or any(word in words for word in _MACHINE_WORDS),
    )


def timeout_text(limit_s: float, words: str, *, started: bool) -> str:
    """Return the error text of a run that took longer than it may, and was killed.

    Args:
        limit_s: How long it might take, in seconds.
        words: Its last words, fit to be shown.
        started: Whether a process was started before the time was up.
    """
    run = "signal: killed" if started else "not started"
    return (
        f"libvmaf: vmaf subprocess cancelled: deadline of {limit_s:g} s exceeded "
        f"(run err: {run}, stderr: {words})"
    )


def is_machine_fault(error: Exception) -> bool:
    """Return whether an error of the system speaks of the machine rather than of an input."""
    return isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS


@contextmanager
def machine_faults(doing: str) -> Generator[None]:
    """Translate errors of the system that are about no input and no setting: faults of the machine.

    Args:
        doing: What was being done, in words.

    Yields:
        Nothing; the body runs.

    Raises:
        ScorerError: The system refused something; `machine_fault` is set.
    """
    try:
        yield
    except OSError as error:
        problem = error.strerror or str(error)
        raise ScorerError(f"libvmaf: {doing}: {problem}", machine_fault=True) from error
    except MemoryError as error:
        raise ScorerError(f"libvmaf: {doing}: out of memory", machine_fault=True) from error
