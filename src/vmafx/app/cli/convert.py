"""The FFmpeg command that makes a Y4M of a clip that is something else."""

from __future__ import annotations

import itertools
import os
import shlex

from vmafx.domain.text import printable

__all__ = ["shell_word", "y4m_command"]


def y4m_command(clip: str, *, other: str, ffmpeg: str = "ffmpeg") -> str:
    """Return a command line for a POSIX shell that decodes the clip, frame by frame, into a Y4M beside it.

    The Y4M is a file that does not exist yet, and another one than that of the clip it is compared with.

    Args:
        clip: The clip's path, as its owner wrote it.
        other: The path of the clip that it is compared with.
        ffmpeg: The FFmpeg to run.
    """
    return " ".join(
        (
            shell_word(ffmpeg),
            f"-i {shell_word('file:' + clip)}",
            # One frame out for each frame in: left to itself, FFmpeg drops and repeats frames by their times.
            "-map 0:v:0 -fps_mode passthrough -strict -1 -f yuv4mpegpipe",
            shell_word("file:" + _target(clip, other)),
        )
    )


def _target(clip: str, other: str) -> str:
    place = os.path.realpath
    reserved = {place(clip), place(other)}
    if place(clip) != place(other):
        reserved.update(map(place, _plain_targets(other)))
    numbered = (f"{clip}.{number}.y4m" for number in itertools.count(1))
    candidates = itertools.chain(_plain_targets(clip), numbered)
    return next(name for name in candidates if not os.path.lexists(name) and place(name) not in reserved)


def _plain_targets(clip: str) -> tuple[str, str]:
    stem = os.path.splitext(clip)[0]  # noqa: PTH122 - the name stays as its owner wrote it
    return f"{stem}.y4m", f"{clip}.y4m"


def shell_word(text: str) -> str:
    r"""Return `text` as one word of a shell, on one line and printable.

    Text with control characters, or that is not UTF-8, becomes `$'…'`, which bash, zsh and ksh read.
    """
    if printable(text) == text:
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if printable(char) == char:
        return char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
