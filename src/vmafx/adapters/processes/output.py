"""Hears what a child writes, as it comes, in constant memory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from typing import Final

from vmafx.domain.process import Listener

if sys.platform != "win32":
    import fcntl
    import termios

__all__ = ["Pipe", "Tail"]


class Tail:
    """Keeps the last bytes that it heard.

    Args:
        bytes_max: How many.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept = bytearray()

    def __call__(self, data: bytes) -> None:
        """Take more bytes."""
        self._kept += data[-self._bytes_max :] if self._bytes_max else b""
        del self._kept[: max(0, len(self._kept) - self._bytes_max)]

    def __bytes__(self) -> bytes:
        return bytes(self._kept)


class Pipe:
    """Our end of a pipe to which a child writes.

    Args:
        descriptor: The end to read from, which does not block; closed at the end of the stream.
        listeners: Hear everything that is read.
    """

    def __init__(self, descriptor: int, listeners: Iterable[Listener]) -> None:
        self._descriptor: int | None = descriptor
        self._listeners = tuple(listeners)
        self._loop = asyncio.get_running_loop()

    def open(self) -> None:
        """Begin to listen.

        Raises:
            OSError: The system cannot watch one more descriptor.
        """
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._read, _CHUNK_BYTES)

    def drain(self) -> None:
        """Read what is there now; others that hold the pipe are not waited for."""
        if self._descriptor is None:
            return
        waiting = int.from_bytes(fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
        while waiting > 0:
            count = self._read(min(waiting, _CHUNK_BYTES))
            waiting = waiting - count if count else 0

    def close(self) -> None:
        """Stop listening; may be called again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _read(self, bytes_max: int) -> int:
        if self._descriptor is None:
            return 0
        try:
            data = os.read(self._descriptor, bytes_max)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        for listener in self._listeners if data else ():
            listener(data)
        return len(data)


_CHUNK_BYTES: Final = 65_536  # what a pipe holds
