"""Lines to a descriptor that may be slow, full, broken or closed: each whole or not at all (ADR 0020)."""

from __future__ import annotations

import contextlib
import os
import select
import stat
from threading import RLock
from typing import Final

__all__ = ["LineWriter"]

_WAIT_MS: Final = 100
"""How long a reader that has fallen behind is waited for, once, before lines are dropped."""
_CHUNK_BYTES_MAX: Final = min(4096, select.PIPE_BUF)
"""What a pipe that says it has room takes whole, without waiting and without mixing with other writers."""


class LineWriter:
    """Writes lines to a copy of a descriptor, from any thread, and neither raises nor waits for long.

    A line goes out in one write; one that is longer than a pipe takes whole goes out in several when the
    descriptor is none of a file. A line that cannot be written is dropped and counted. When a reader has
    fallen behind, the first line waits for it 0.1 s, and those after it not at all, until it reads again.

    Args:
        descriptor: Where to; None, or one that is not open, drops every line.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._lock = RLock()
        # a copy: the number given may be closed and mean another file later
        self._descriptor: int | None = None
        self._in_one = False
        self._dropped = 0
        self._stalled = False
        self._torn = False
        with contextlib.suppress(OSError):
            if descriptor is not None:
                self._descriptor = os.dup(descriptor)
                self._in_one = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    @property
    def dropped(self) -> int:
        """How many lines were dropped since `take_dropped` was called last."""
        return self._dropped

    def take_dropped(self) -> int:
        """Return how many lines were dropped, and begin to count anew."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def drop(self, lines: int = 1) -> None:
        """Count lines that never came to be written."""
        with self._lock:
            self._dropped += lines

    def ready(self) -> bool:
        """Whether a line would go out without any wait."""
        with self._lock:
            return self._descriptor is not None and self._has_room(0)

    def write(self, line: bytes) -> bool:
        """Write one line.

        Args:
            line: The line with its end.

        Returns:
            Whether it went out whole.
        """
        with self._lock:
            whole = self._descriptor is not None and self._sent(b"\n" + line if self._torn else line)
            if not whole:
                self._dropped += 1
            return whole

    def close(self) -> None:
        """Close the copy; lines after this are dropped. May be called again."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _sent(self, data: bytes) -> bool:
        rest = data
        while rest:
            if not self._has_room(0 if self._stalled else _WAIT_MS):
                self._stalled = True
                break
            self._stalled = False
            written = self._written(rest if self._in_one else rest[:_CHUNK_BYTES_MAX])
            if not written:
                break
            rest = rest[written:]
        if len(rest) < len(data):
            self._torn = bool(rest)  # what is there of the line ends with the next one's beginning
        return not rest

    def _has_room(self, wait_ms: int) -> bool:
        if self._in_one or self._descriptor is None:
            return True
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        try:
            return bool(room.poll(wait_ms))  # errors count as room: the write then says what is wrong
        except OSError:
            return True

    def _written(self, data: bytes) -> int:
        if self._descriptor is None:
            return 0
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # room for less than the whole chunk
            self._stalled = True
            return 0
        except OSError:  # no reader any more, no space, an error of the device
            return 0
