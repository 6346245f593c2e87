"""The two clips of a run: opened, comparable, counted, and still the same afterwards (ADR 0006)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from vmafx.domain.errors import ClipError
from vmafx.domain.faults import MACHINE_ERRNOS, WANT_OF_SYSTEM
from vmafx.domain.scoring import Clip, ClipDescriptor, ClipFile, LengthMismatch
from vmafx.domain.text import quoted
from vmafx.domain.y4m import (
    HEADER_BYTES_MAX,
    Y4mHeader,
    check_comparable,
    count_frames,
    parse_header,
)

__all__ = ["OpenClip", "OpenPair", "check_unchanged", "look_at", "open_pair"]

_LINKS_MAX: Final = 40
_Stamp: TypeAlias = tuple[int, int, int, int, int]
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClip:
    """A clip that was opened and looked at.

    Attributes:
        clip: The clip as it was asked for.
        descriptor: A descriptor of our own.
        stamp: Device, inode, size in bytes and both times of change in nanoseconds at that moment. The second
            is the one that nobody can set back.
        header: What its header says.
        by_descriptor: Whether a child must read it through our descriptor: its path, if it has one, means
            something else there.
        frames: How many whole frames it has; 0 before they are counted.
    """

    clip: Clip
    descriptor: int
    stamp: _Stamp
    header: Y4mHeader
    by_descriptor: bool
    frames: int = 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPair:
    """Two clips that can be compared.

    Attributes:
        reference: The reference.
        distorted: The distorted clip.
        frames: How many frames of each are compared.
    """

    reference: OpenClip
    distorted: OpenClip
    frames: int

    @property
    def same_length(self) -> bool:
        """Whether both have the same number of frames."""
        return self.reference.frames == self.distorted.frames

    def close(self) -> None:
        """Close both."""
        self.reference.close()
        self.distorted.close()


def open_pair(
    reference: Clip,
    distorted: Clip,
    *,
    length_mismatch: LengthMismatch,
    problem: Callable[[Y4mHeader], str] = lambda _: "",
    check: Callable[[], None] = lambda: None,
) -> OpenPair:
    """Open both clips, compare their headers and count their frames; blocks.

    Args:
        reference: The reference.
        distorted: The distorted clip.
        length_mismatch: What happens when they have different numbers of frames.
        problem: Says why the executable cannot score a clip with such a header; empty when it can.
        check: Called once per frame; ends the counting by raising.

    Raises:
        ClipError: A clip cannot be opened or read, is not a regular file, no Y4M, damaged, or holds no frame
            or a partial one; or the two cannot be compared.
        OSError: This process or this machine is out of something.
    """
    ref = _open(reference)
    try:
        dis = _open(distorted)
        try:
            _check_headers(ref, dis, problem)
            return _counted(ref, dis, length_mismatch, check)
        except BaseException:
            dis.close()
            raise
    except BaseException:
        ref.close()
        raise


def look_at(clip: Clip) -> None:
    """Look at what there is under the path of a clip, before anything of ours is opened; blocks.

    A path such as `/dev/fd/6` that names no open descriptor would else come to name ours.

    Raises:
        ClipError: There is nothing, or not a regular file.
        OSError: This process or this machine is out of something.
    """
    if isinstance(clip, ClipFile):
        try:
            _look(clip)
        except (OSError, ValueError) as error:
            _refuse_unreadable(clip, error)


def check_unchanged(pair: OpenPair) -> None:
    """Check that both clips are what they were when they were opened; blocks.

    Raises:
        ClipError: One was written to, touched, truncated, replaced or removed in the meantime, or its disk or
            mount is in trouble, which is a fault of the machine.
    """
    for opened in (pair.reference, pair.distorted):
        name = opened.clip.name
        start = f"{quoted(name)}: changed while it was being scored: "
        try:
            change = _change(opened)
        except OSError as error:
            problem = f"{start}{error.strerror or error}"
            raise ClipError(name, problem, machine_fault=error.errno in MACHINE_ERRNOS) from error
        if change is not None:
            raise ClipError(name, f"{start}{change}")


def _check_headers(ref: OpenClip, dis: OpenClip, problem: Callable[[Y4mHeader], str]) -> None:
    check_comparable((ref.clip.name, ref.header), (dis.clip.name, dis.header))
    for opened in (ref, dis):
        if found := problem(opened.header):
            raise ClipError(opened.clip.name, f"{quoted(opened.clip.name)}: {found}")


def _counted(ref: OpenClip, dis: OpenClip, rule: LengthMismatch, check: Callable[[], None]) -> OpenPair:
    ref, dis = _with_frames(ref, check), _with_frames(dis, check)
    if ref.frames != dis.frames and rule is LengthMismatch.FAIL:
        raise ClipError(
            dis.clip.name,
            f"different numbers of frames: reference {quoted(ref.clip.name)} has {ref.frames}, "
            f"distorted {quoted(dis.clip.name)} has {dis.frames}",
        )
    return OpenPair(reference=ref, distorted=dis, frames=min(ref.frames, dis.frames))


def _open(clip: Clip) -> OpenClip:
    try:
        descriptor = os.dup(clip.descriptor) if isinstance(clip, ClipDescriptor) else _open_path(clip)
    except (OSError, ValueError) as error:
        _refuse_unreadable(clip, error)
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(clip, status.st_mode)
        header = parse_header(_head(clip, descriptor), name=clip.name)
    except BaseException:
        os.close(descriptor)
        raise
    by_descriptor = isinstance(clip, ClipDescriptor) or _means_another_elsewhere(clip.path)
    return OpenClip(
        clip=clip, descriptor=descriptor, stamp=_stamp(status), header=header, by_descriptor=by_descriptor
    )


def _means_another_elsewhere(path: str) -> bool:
    """Return whether a path leads through what each process has of its own, such as `/dev/fd/5`."""
    for _ in range(_LINKS_MAX):
        folder = os.path.realpath(os.path.dirname(path))  # noqa: PTH120 - byte for byte
        if f"{folder}/".startswith(("/proc/", "/dev/fd/")):
            return True
        path = f"{folder}/{os.path.basename(path)}"  # noqa: PTH119 - the same
        if not os.path.islink(path):  # noqa: PTH114 - the same
            return False
        path = os.path.join(folder, os.readlink(path))  # noqa: PTH115, PTH118 - the same
    return True


def _open_path(clip: ClipFile) -> int:
    _look(clip)
    return os.open(clip.path, _OPEN_FLAGS)


def _look(clip: ClipFile) -> None:
    if not clip.path.startswith("/"):
        raise ClipError(clip.name, f"{quoted(clip.name)}: not an absolute path")
    # Opening some devices acts on them, so the kind is looked at before, and again on what was opened.
    _refuse_irregular(clip, Path(clip.path).stat().st_mode)


def _with_frames(opened: OpenClip, check: Callable[[], None]) -> OpenClip:
    try:
        frames = _count(opened, check)
    except OSError as error:
        _refuse_unreadable(opened.clip, error)
    return replace(opened, frames=frames)


def _count(opened: OpenClip, check: Callable[[], None]) -> int:
    return count_frames(
        lambda count, offset: os.pread(opened.descriptor, count, offset),
        opened.header,
        size_bytes=opened.stamp[2],
        name=opened.clip.name,
        check=check,
    )


def _head(clip: Clip, descriptor: int) -> bytes:
    head = b""
    try:
        while len(head) < HEADER_BYTES_MAX:
            data = os.pread(descriptor, HEADER_BYTES_MAX - len(head), len(head))
            if not data:
                break
            head += data
    except OSError as error:
        _refuse_unreadable(clip, error)
    return head


def _change(opened: OpenClip) -> str | None:
    now = os.fstat(opened.descriptor)
    there = Path(opened.clip.path).stat() if isinstance(opened.clip, ClipFile) else now
    if (there.st_dev, there.st_ino) != opened.stamp[:2]:
        return "another file took its place"
    if now.st_size != opened.stamp[2]:
        return f"its size went from {opened.stamp[2]} to {now.st_size} bytes"
    if isinstance(opened.clip, ClipFile):  # a descriptor stays what it is wherever its name goes
        return None if _stamp(now) == opened.stamp else "it was written to, or moved"
    return None if _stamp(now)[:-1] == opened.stamp[:-1] else "it was written to"


def _stamp(status: os.stat_result) -> _Stamp:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _refuse_irregular(clip: Clip, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
        raise ClipError(clip.name, f"{quoted(clip.name)}: {kind}, not a regular file")


_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe (write the clip to a file first)"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def _refuse_unreadable(clip: Clip, error: OSError | ValueError) -> NoReturn:
    if not isinstance(error, OSError):
        raise ClipError(clip.name, f"{quoted(clip.name)}: cannot be read: not a path") from error
    if error.errno in WANT_OF_SYSTEM:  # about no clip
        raise error
    problem = f"{quoted(clip.name)}: cannot be read: {error.strerror or error}"
    raise ClipError(clip.name, problem, machine_fault=error.errno in MACHINE_ERRNOS) from error
