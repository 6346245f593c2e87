"""The clips of a run of the embedded engine, checked before FFmpeg starts (ADR 0009).

Regular files are checked from their headers to their last frame, without moving the position of a descriptor
that was handed down. A pipe cannot be read without taking from it: whoever fills it counts its frames, and
FFmpeg's filters refuse what the header must not say.
"""

# pathlib would double the start-up time.
# ruff: noqa: PTH116

from __future__ import annotations

import os
import stat
from functools import partial
from typing import Final, NamedTuple

from vmafx.adapters.vmaf_cli.engine_arguments import DEPTHS
from vmafx.domain.errors import ClipError
from vmafx.domain.text import quoted
from vmafx.domain.y4m import (
    HEADER_BYTES_MAX,
    Subsampling,
    Y4mHeader,
    check_comparable,
    count_frames,
    parse_header,
)

__all__ = [
    "FFMPEG_HEADER_BYTES_MAX",
    "SIDE_MIN",
    "CheckedClip",
    "FoundFile",
    "check_pair",
    "clip_problem",
    "look_at",
]

FFMPEG_HEADER_BYTES_MAX: Final = 128
"""Longest Y4M header that FFmpeg reads, in bytes, newline included."""
SIDE_MIN: Final = 17
"""Smallest width and height in pixels: below it libvmaf reads outside its memory and crashes."""

_SUBSAMPLINGS: Final = frozenset({Subsampling.S420, Subsampling.S422, Subsampling.S444})


class FoundFile(NamedTuple):
    """What there is under the path of an input.

    Attributes:
        path: The path.
        status: What the system says of it; None when there is nothing.
        problem: Why there is nothing; empty when there is something.
    """

    path: str
    status: os.stat_result | None
    problem: str = ""


class CheckedClip(NamedTuple):
    """What is known of a clip before it is scored.

    Attributes:
        header: Its format; None for a Y4M pipe.
        frames: How many whole frames it has; None for a pipe.
    """

    header: Y4mHeader | None
    frames: int | None


def look_at(path: str) -> FoundFile:
    """Look at what there is under the path of an input, without opening it.

    Look at all inputs before anything is opened: a path such as `/dev/fd/5` that names no open descriptor
    would else name ours.
    """
    try:
        return FoundFile(path=path, status=os.stat(path))
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "no path holds a zero byte"
        return FoundFile(path=path, status=None, problem=problem or "not found")


def check_pair(
    reference: FoundFile, distorted: FoundFile, raw: Y4mHeader | None
) -> tuple[CheckedClip, CheckedClip]:
    """Check two clips and that they can be compared; their numbers of frames may differ.

    Args:
        reference: The reference.
        distorted: The distorted clip.
        raw: Their format when they are raw YUV; None when they are Y4M.

    Raises:
        ClipError: A clip cannot be opened or scored, or the two cannot be compared; names the clip.
    """
    ref, dis = _open(reference), _open(distorted)
    if ref.pipe is not None and ref.pipe == dis.pipe:
        raise ClipError(dis.path, f"{quoted(ref.path)} and {quoted(dis.path)} are the same pipe")
    ref_header, dis_header = raw or _header(ref), raw or _header(dis)
    for clip, header in ((ref, ref_header), (dis, dis_header)):
        if header is not None:
            _check_supported(header, clip.path)
    if ref_header is not None and dis_header is not None:
        check_comparable((ref.path, ref_header), (dis.path, dis_header))
    return (
        CheckedClip(header=ref_header, frames=_count(ref, ref_header, raw)),
        CheckedClip(header=dis_header, frames=_count(dis, dis_header, raw)),
    )


class _Clip(NamedTuple):
    """A clip under its path: the descriptor of a regular file, or what tells a pipe from others."""

    path: str
    descriptor: int | None = None
    pipe: tuple[int, int] | None = None


def _open(found: FoundFile) -> _Clip:
    path, status = found.path, found.status
    if status is None:
        raise _cannot_open(path, found.problem)
    if stat.S_ISFIFO(status.st_mode):
        return _Clip(path=path, pipe=(status.st_dev, status.st_ino))
    if stat.S_ISDIR(status.st_mode):
        raise _cannot_open(path, "a directory")
    if not stat.S_ISREG(status.st_mode):
        raise _cannot_open(path, "neither a regular file nor a pipe")
    try:
        return _Clip(path=path, descriptor=os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise _cannot_open(path, error.strerror) from error


def _cannot_open(path: str, reason: str | None) -> ClipError:
    return ClipError(path, f"could not open file {quoted(path)}: {reason}")


def _header(clip: _Clip) -> Y4mHeader | None:
    if clip.descriptor is None:
        return None
    return parse_header(_read(clip.path, clip.descriptor, HEADER_BYTES_MAX, 0), name=clip.path)


def _count(clip: _Clip, header: Y4mHeader | None, raw: Y4mHeader | None) -> int | None:
    """Count the whole frames of a regular file and close it."""
    if clip.descriptor is None or header is None:
        return None
    try:
        size = os.fstat(clip.descriptor).st_size
        if raw is not None:
            return _count_pictures(clip.path, header, size)
        return count_frames(
            partial(_read, clip.path, clip.descriptor), header, size_bytes=size, name=clip.path
        )
    finally:
        os.close(clip.descriptor)


def _count_pictures(path: str, header: Y4mHeader, size: int) -> int:
    frames, rest = divmod(size, header.picture_bytes)
    if rest:
        raise ClipError(
            path,
            f"{quoted(path)}: no whole number of frames: {size} bytes are {frames} pictures of "
            f"{header.picture_bytes} bytes ({header}) and {rest} bytes",
        )
    if not frames:
        raise ClipError(path, f"{quoted(path)}: empty: 0 bytes")
    return frames


def _read(path: str, descriptor: int, count: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, count, offset)
    except OSError as error:
        raise ClipError(path, f"could not read file {quoted(path)}: {error.strerror}") from error


def _check_supported(header: Y4mHeader, path: str) -> None:
    reason = clip_problem(header)
    if reason:
        raise ClipError(path, f"{quoted(path)}: {reason}")


def clip_problem(header: Y4mHeader) -> str:
    """Return why the engine cannot score such a clip as a stock `vmaf` does; empty when it can."""
    size = f"{header.width}x{header.height}"
    if header.subsampling not in _SUBSAMPLINGS:
        return f"pixel format {header.subsampling.value} is not supported by the embedded engine"
    if header.depth not in DEPTHS:
        return f"{header.depth} bit is not supported by the embedded engine: 8, 10 and 12 bit are"
    if header.width % 2 or header.height % 2:
        return f"odd size {size} is not supported by the embedded engine"
    if min(header.width, header.height) < SIDE_MIN:
        return f"size {size} is too small: libvmaf needs at least {SIDE_MIN} pixels each way"
    if header.header_bytes > FFMPEG_HEADER_BYTES_MAX:
        return (
            f"Y4M header of {header.header_bytes} bytes is not supported by the embedded engine: "
            f"at most {FFMPEG_HEADER_BYTES_MAX} are"
        )
    return ""
