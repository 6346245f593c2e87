"""Lines of `--progress-fd` to calls of a `Progress`."""

from __future__ import annotations

import re
from typing import Final

from vmafx.ports.scorer import Progress

__all__ = ["ProgressLines"]

_LINE_BYTES_MAX: Final = 256
_FRAME: Final = re.compile(rb"\s*frame=\s*(\d{1,18})\s*")


class ProgressLines:
    """Hears `frame=N` lines; other lines, damaged ones and steps back are passed over.

    Args:
        tell: Who is told; None when nobody wants to know.

    Attributes:
        frames_total: How many frames the run has; set before the first line.
    """

    __slots__ = ("_done", "_line", "_tell", "frames_total")

    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell
        self._line = b""
        self._done = -1
        self.frames_total: int = 0

    @property
    def wanted(self) -> bool:
        """Whether anybody wants to know."""
        return self._tell is not None

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-_LINE_BYTES_MAX:]
        for line in lines:
            if match := _FRAME.fullmatch(line):
                self._advance(int(match[1]))

    def finish(self) -> None:
        """Say that every frame is done, unless that was said."""
        self._advance(self.frames_total)
        self.close()

    def close(self) -> None:
        """Say nothing from now on, whatever may still be fed."""
        self._tell = None

    def _advance(self, frames: int) -> None:
        frames = min(frames, self.frames_total)
        if self._tell is not None and frames > self._done:
            self._done = frames
            self._tell(frames, self.frames_total)
