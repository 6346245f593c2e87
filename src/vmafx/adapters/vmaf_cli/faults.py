"""What went wrong in a run, and whose fault it is: the machine's or the input's (ADR 0010)."""

from __future__ import annotations

import math
import os
import re
import resource
import signal
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from vmafx.adapters.vmaf_cli.report import REPORT_BYTES_MAX
from vmafx.domain.errors import ReportError, ScorerError
from vmafx.domain.faults import WANT_OF_SYSTEM
from vmafx.domain.process import Exit
from vmafx.domain.text import bounded, printable, quoted

__all__ = [
    "FAILED",
    "STDERR_BYTES_MAX",
    "STDERR_SHOWN_BYTES_MAX",
    "Tail",
    "duration_words",
    "failed_run",
    "last_words",
    "machine_faults",
    "stderr_words",
    "timeout_text",
]

FAILED: Final = "libvmaf: vmaf binary failed: "
"""What the error of a failed run begins with; how it ended comes next."""
STDERR_BYTES_MAX: Final = 8 * 1024
"""How much of the end of a run's standard error is kept, in bytes."""
STDERR_SHOWN_BYTES_MAX: Final = 2 * 1024
"""How much of it an error shows, in bytes."""

_WORDS_OF_WANT: Final = tuple(os.strerror(number) for number in sorted(WANT_OF_SYSTEM))
_DESCRIPTOR_PATH: Final = r"/(?:dev|proc/self)/fd/(?P<fd>\d{1,9})(?!\d)"
_LINE_END: Final = re.compile(r"[\r\n]+")
_USAGE_LINE: Final = re.compile(r"\s|-|.*:$")
"""What follows the first line of a usage text, as long as it goes on."""
_REASON_LINES: Final = 3
_REASON_BYTES_MAX: Final = 768
_NS_PER_S: Final = 10**9


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


def stderr_words(data: bytes, descriptors: Mapping[int, str], paths: Mapping[str, str] | None = None) -> str:
    """Return a run's last words fit to be shown: printable lines, bounded, no usage text, no private paths.

    Args:
        data: The end of its standard error.
        descriptors: What the run's descriptors were; it stands in for `/dev/fd/N`.
        paths: The paths that the run was given to what stands in for them.
    """
    shown = {form: name for path, name in (paths or {}).items() for form in _forms(path)}
    text = _whole(data, paths or {}).decode("utf-8", errors="replace")
    text = _names(shown).sub(
        lambda match: printable(
            shown[match[0]] if match["fd"] is None else descriptors.get(int(match["fd"]), match[0])
        ),
        text,
    )
    lines = (printable(line.rstrip()) for line in _LINE_END.split(text))
    return bounded("\n".join(_without_usage(line for line in lines if line)), STDERR_SHOWN_BYTES_MAX)


def last_words(words: str) -> str:
    """Return the end of a run's last words, where its reason mostly is, as one bounded line.

    Args:
        words: The words, fit to be shown.
    """
    return bounded("; ".join(words.splitlines()[-_REASON_LINES:]), _REASON_BYTES_MAX)


def duration_words(seconds: float) -> str:
    """Return a duration as settings write it, such as `30m`, `1m30s`, `300ms` or `1ns`.

    Args:
        seconds: The duration, 0 or more.
    """
    rest_ns = round(seconds * 1e9)
    if 0 < rest_ns < _NS_PER_S:
        unit, ns = next((unit, ns) for unit, ns in (("ms", 10**6), ("us", 10**3), ("ns", 1)) if rest_ns >= ns)
        return f"{rest_ns / ns:.12g}{unit}"
    minutes, seconds_ns = divmod(rest_ns, 60 * _NS_PER_S)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if seconds_ns or not minutes + hours:
        parts.append(f"{seconds_ns // _NS_PER_S}{_fraction(seconds_ns % _NS_PER_S)}s")
    return "".join(parts)


def failed_run(end: Exit, words: str, *, inputs: str) -> ScorerError:
    """Return the error of a run that ended with anything but success.

    Args:
        end: How it ended.
        words: Its last words, fit to be shown.
        inputs: What was scored, in words.
    """
    if end.status == -signal.SIGXFSZ and _file_limit_bytes() < REPORT_BYTES_MAX:
        limit = f"this process may write files of at most {_file_limit_bytes()} bytes (ulimit -f)"
        return ScorerError(
            f"{limit}: too few for a report; {inputs}", exit_status=end.status, machine_fault=True
        )
    if end.status == -signal.SIGXFSZ:
        return ReportError("libvmaf: read output file: larger than a report may be", exit_status=end.status)
    return ScorerError(
        f"{FAILED}{end.words}\nstderr: {words}\n{inputs}",
        exit_status=end.status,
        stderr=words,
        machine_fault=end.machine_fault or any(word in words for word in _WORDS_OF_WANT),
    )


def _file_limit_bytes() -> float:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    return math.inf if hard == resource.RLIM_INFINITY else hard


def timeout_text(limit_s: float, words: str, *, doing: str, setting: str = "", started: bool) -> str:
    """Return the error text of a run that took longer than it may, and was killed; one line.

    Args:
        limit_s: How long it might take, in seconds.
        words: Its last words, fit to be shown.
        doing: What took so long, in words.
        setting: The setting that the limit comes from; empty when it comes from elsewhere.
        started: Whether a process was started before the time was up.
    """
    run = "signal: killed" if started else "not started"
    limit = f"{duration_words(limit_s)} ({setting})" if setting else duration_words(limit_s)
    return (
        f"{limit} exceeded: {doing}: "
        f"libvmaf: vmaf subprocess cancelled: deadline exceeded (run err: {run}, stderr: {last_words(words)})"
    )


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
        raise ScorerError(f"{doing}: {problem}", machine_fault=True) from error
    except MemoryError as error:
        raise ScorerError(f"{doing}: out of memory", machine_fault=True) from error


def _names(shown: Mapping[str, str]) -> re.Pattern[str]:
    """What is replaced, in one pass, so that no name is taken for a path again; the longest path first."""
    paths = [re.escape(form) for form in sorted(shown, key=len, reverse=True)]
    return re.compile("|".join([*paths, _DESCRIPTOR_PATH]))


def _forms(path: str) -> set[str]:
    """The ways in which a path may stand in words: as it is, escaped, or cut as errors show it."""
    as_read = path.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
    return {as_read, printable(path), quoted(path)[1:-1]}


def _whole(data: bytes, paths: Mapping[str, str]) -> bytes:
    """Drop what may be the second half of a path, where the beginning was not kept."""
    if not paths or len(data) < STDERR_BYTES_MAX:
        return data
    end = re.search(rb"[\r\n]", data)
    return data[end.end() if end else max(len(path.encode(errors="surrogateescape")) for path in paths) :]


def _without_usage(lines: Iterable[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if line.lower().startswith("usage:"):
            inside = True
        elif not (inside and _USAGE_LINE.match(line)):
            inside = False
            yield line


def _fraction(ns: int) -> str:
    return f".{ns:09d}".rstrip("0") if ns else ""
