"""The write-ahead log of an open database: whether all that was committed is still in it (ADR 0024)."""

from __future__ import annotations

import os
import struct
from typing import Final

__all__ = ["LogWatch"]

_INDEX_HEADER: Final = struct.Struct("=8xI2xHI12x2I8x")
"""SQLite's wal-index header, in the machine's byte order: changes, page size, frames, two salts."""
_INDEX_BYTES: Final = 2 * _INDEX_HEADER.size  # it stands there twice, the second one is written first
_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_SALTS: Final = slice(16, 24)  # of the log's header
_INDEX_SALTS: Final = slice(32, 40)  # of the index's header
_LARGEST_PAGE: Final = 65_536
_LARGEST_PAGE_MARK: Final = 1  # two bytes cannot hold it


class LogWatch:
    """Compares the log with the index of it that SQLite shares with the programs at the database.

    The index tells how many frames are committed, and carries the numbers that the log begins with. A log
    that is shorter, or that begins otherwise, was cut or overwritten by somebody who is not SQLite.

    Args:
        log: A descriptor of the log (`-wal`).
        index: A descriptor of its index (`-shm`).
    """

    def __init__(self, *, log: int, index: int) -> None:
        self._log = log
        self._index = index

    def is_whole(self) -> bool:
        """Return whether the log is there as far as it was committed; never False about a log that is."""
        index = os.pread(self._index, _INDEX_BYTES, 0)
        if self._holds(index):
            return True
        # SQLite changes the index before it cuts or begins the log anew: then it is no longer what we read.
        return os.pread(self._index, _INDEX_BYTES, 0) != index

    def _holds(self, index: bytes) -> bool:
        half = len(index) // 2
        if len(index) < _INDEX_BYTES or index[:half] != index[half:]:
            return True  # it is being written
        _, page, frames, *_ = _INDEX_HEADER.unpack_from(index)
        if not frames:
            return True
        if page == _LARGEST_PAGE_MARK:
            page = _LARGEST_PAGE
        if os.fstat(self._log).st_size < _HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + page):
            return False
        return os.pread(self._log, _HEADER_BYTES, 0)[_SALTS] == index[_INDEX_SALTS]
