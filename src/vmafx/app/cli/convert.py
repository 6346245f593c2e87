"""The FFmpeg command that makes a Y4M of a clip that is something else."""

from __future__ import annotations

import os
import shlex

from vmafx.domain.text import printable

__all__ = ["shell_word", "y4m_command"]


def y4m_command(clip: str, *, ffmpeg: str = "ffmpeg") -> str:
    """Return a command line for a POSIX shell that decodes the clip, frame by frame, into a Y4M beside it.

    Args:
        clip: The clip's path, as its owner wrote it.
        ffmpeg: The FFmpeg to run.
    """
    stem, extension = os.path.splitext(clip)  # noqa: PTH122 - the name stays as its owner wrote it
    target = f"{clip if extension == '.y4m' else stem}.y4m"
    return " ".join(
        (
            shell_word(ffmpeg),
            f"-i {shell_word('file:' + clip)}",
            # One frame out for each frame in: left to itself, FFmpeg drops and repeats frames by their times.
            "-map 0:v:0 -fps_mode passthrough -strict -1 -f yuv4mpegpipe",
            shell_word("file:" + target),
        )
    )


def shell_word(text: str) -> str:
    r"""Return `text` as one word of a shell, on one line and printable.

    Text with control characters, or that is no UTF-8, becomes `$'…'`, which bash, zsh and ksh read.
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
