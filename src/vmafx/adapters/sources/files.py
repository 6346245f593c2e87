"""A local file under scoring roots: found, opened once, and held to the roots again; all of it blocks.

What is checked is the open descriptor, so nothing that changes the tree afterwards matters (ADR 0021).
"""

from __future__ import annotations

import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vmafx.adapters.sources.faults import path_error
from vmafx.domain.errors import ClipError, SourceError
from vmafx.domain.roots import ResolvedSource, ScoringRoots
from vmafx.domain.source import SourceRef
from vmafx.domain.text import quoted

__all__ = ["OpenFile", "change_of", "close_file", "open_file", "resolve_path"]

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_SYSTEM_PLACES: Final = ("/proc", "/sys", "/dev")
_SHARED_MEMORY: Final = "/dev/shm/"  # noqa: S108 - compared, not written to
_SYSTEM_TYPES: Final = frozenset({"proc", "sysfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")
_MAC_PATH_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A regular file below the roots, open.

    Attributes:
        descriptor: Its descriptor.
        path: Its real path when it was opened.
        size_bytes: Its size then, in bytes.
        written_ns: When it had last been written to, in nanoseconds.
    """

    descriptor: int
    path: str
    size_bytes: int
    written_ns: int


def resolve_path(ref: SourceRef, roots: ScoringRoots) -> ResolvedSource:
    """Return the source with its real path; blocks.

    Args:
        ref: A local source.
        roots: What it is held to.

    Raises:
        OutsideRootsError: It lies outside the roots.
        SourceError: It is not there, cannot be reached, or lies among the system's own files.
    """
    if roots.admits(ref):  # else it must not be told from other outsiders
        _refuse_system(ref, ref.path)
    source = roots.resolve(ref, _real_path)
    _refuse_system(ref, source.real_path or "")
    return source


def open_file(ref: SourceRef, real: str, roots: ScoringRoots) -> OpenFile:
    """Open the file at a real path; blocks.

    Args:
        ref: The source, for errors.
        real: Its real path, as it was resolved.
        roots: What it is held to, before it is opened and after.

    Raises:
        OutsideRootsError: The path, or the file that was opened, lies outside the roots.
        ClipError: It is no regular file.
        SourceError: It cannot be opened, or lies among the system's own files.
    """
    roots.confine(ref, real, _real_path)
    _refuse_system(ref, real)
    try:
        # Opening some devices acts on them, so the kind is looked at before, and again on what was opened.
        _refuse_irregular(ref, os.lstat(real).st_mode)
        descriptor = os.open(real, _OPEN_FLAGS)
    except (OSError, ValueError) as error:
        failure = path_error(error, ref.shown, f"{quoted(ref.shown)}: cannot be opened: ")
        raise failure from error
    try:
        return _checked(ref, descriptor, roots)
    except BaseException:
        os.close(descriptor)
        raise


def change_of(ref: SourceRef, opened: OpenFile) -> SourceError | None:
    """Return what became of the file since it was opened, as an error; None when nothing did; blocks.

    Args:
        ref: The source.
        opened: Its file.
    """
    start = f"{quoted(ref.shown)}: changed while it was being scored: "
    try:
        now = os.fstat(opened.descriptor)
    except OSError as error:
        return path_error(error, ref.shown, start)
    if now.st_size != opened.size_bytes:
        sizes = f"its size went from {opened.size_bytes} to {now.st_size} bytes"
        return ClipError(ref.shown, start + sizes)
    if now.st_mtime_ns != opened.written_ns:
        return ClipError(ref.shown, f"{start}it was written to")
    return None


def close_file(opened: OpenFile) -> None:
    """Close it; blocks where a mount wants to hear of it."""
    os.close(opened.descriptor)


def _real_path(path: str, /) -> str:
    try:
        Path(path).stat()  # realpath alone accepts `file/..`, which the kernel does not
        return os.path.realpath(path, strict=True)
    except (OSError, ValueError) as error:
        failure = path_error(error, path)
        raise failure from error


def _checked(ref: SourceRef, descriptor: int, roots: ScoringRoots) -> OpenFile:
    status = os.fstat(descriptor)
    _refuse_irregular(ref, status.st_mode)
    path = _path_of(ref, descriptor)
    roots.confine(ref, path, _real_path)
    _refuse_system(ref, path)
    if _device(status.st_dev) in _system_devices():
        failure = _system_error(ref, path)
        raise failure
    return OpenFile(
        descriptor=descriptor, path=path, size_bytes=status.st_size, written_ns=status.st_mtime_ns
    )


def _path_of(ref: SourceRef, descriptor: int) -> str:
    get_path: int | None = getattr(fcntl, "F_GETPATH", None)  # macOS
    try:
        if get_path is not None:
            return os.fsdecode(fcntl.fcntl(descriptor, get_path, bytes(_MAC_PATH_BYTES)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - byte for byte
    except OSError as error:
        text = f"{quoted(ref.shown)}: the system does not tell where an open file lies: {error.strerror}"
        raise SourceError(ref.shown, text, machine_fault=True) from error


def _refuse_system(ref: SourceRef, path: str) -> None:
    """Refuse what only looks like files: they hold this process's descriptors, secrets and memory."""
    is_system = any(path == place or path.startswith(f"{place}/") for place in _SYSTEM_PLACES)
    if is_system and not path.startswith(_SHARED_MEMORY):
        failure = _system_error(ref, path)
        raise failure


def _system_error(ref: SourceRef, path: str) -> SourceError:
    leads = "" if path == ref.shown else f" leads to {quoted(path)}, which"
    text = f"{quoted(ref.shown)}{leads} is one of the system's own files, which are never inputs"
    return SourceError(ref.shown, text)


def _refuse_irregular(ref: SourceRef, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((words for is_kind, words in _KINDS.items() if is_kind(mode)), "something else")
        raise ClipError(ref.shown, f"{quoted(ref.shown)}: {kind}, not a regular file")


_KINDS: Final = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe (write the clip to a file first)",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
    stat.S_ISLNK: "replaced by a link after it was resolved",
}


def _device(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _system_devices() -> frozenset[str]:
    """The devices of the system's own files wherever they are mounted, as `major:minor`."""
    try:
        lines = _MOUNTS.read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:  # not Linux
        return frozenset()
    return frozenset(filter(None, map(_system_device, lines)))


def _system_device(line: str) -> str:
    mount, _, file_system = line.partition(" - ")
    fields = mount.split(" ")
    of_system = file_system.split(" ")[0] in _SYSTEM_TYPES
    return fields[2] if of_system and len(fields) > 2 else ""
