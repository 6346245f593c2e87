"""The file of the SQLite store: found fit for use, held against a second controller, watched (ADR 0024)."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final, TypeAlias

from vmafx.adapters.store.sqlite_faults import SETTING, of_file, os_meaning
from vmafx.domain.errors import ConfigurationError, StoreUnavailableError

__all__ = ["BUSY_TIMEOUT_S", "DatabaseFile"]

BUSY_TIMEOUT_S: Final = 5.0
"""How long another program may hold the file locked before a call gives up, in seconds."""

_MODE: Final = 0o600  # addresses of clips may hold secrets
_STATEMENTS_CACHED: Final = 128
_PID_BYTES_MAX: Final = 20
_MAGIC: Final = b"SQLite format 3\0"
_RESTART: Final = "restart the controller, on a file that stays"
_Identity: TypeAlias = tuple[int, int]


class DatabaseFile:
    """A database file that this process alone serves, from `hold` to `let_go`.

    The lock lies on a file of its own: one on the database itself would be lost whenever any part of the
    process closes that file.

    Args:
        path: The database; links are followed, so that two names of it are one.

    Raises:
        ConfigurationError: The path is none.
    """

    def __init__(self, path: str) -> None:
        if not path or "\0" in path:
            raise ConfigurationError(SETTING, "is no path", value=path)
        self.path: Final = os.path.realpath(path)
        self._place: Final = Path(self.path)
        self._lock: int | None = None
        self._watched: list[int] = []
        self._known: _Identity = (0, 0)

    def hold(self) -> None:
        """Make the file if there is none, and take it for this process.

        Raises:
            ConfigurationError: It is no regular file, cannot be read and written, its directory is missing or
                cannot be written, or another controller has it.
        """
        try:
            self._check_kind()
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise ConfigurationError(SETTING, os_meaning(error), value=self.path) from error
        try:
            _take(lock, self.path)
            if not os.path.lexists(self.path):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
        except OSError as error:
            os.close(lock)
            raise ConfigurationError(SETTING, os_meaning(error), value=self.path) from error
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def let_go(self) -> None:
        """Let another controller have it; the lock's file stays, for one that goes can be locked twice."""
        while self._watched:  # after the last connection: closing them takes SQLite's locks
            os.close(self._watched.pop())
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def connect(self, *, busy_timeout_s: float) -> sqlite3.Connection:
        """Return a connection that syncs each commit to the disk, and begins transactions only when told.

        Args:
            busy_timeout_s: How long to wait while another program holds the file locked, in seconds.

        Raises:
            sqlite3.Error: There is no database to connect to.
        """
        connection = sqlite3.connect(
            self.path,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS_CACHED,
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # macOS has a sync that stops at the drive's cache
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def watch(self) -> None:
        """Know the file and its log for what they are now; `check` compares with it.

        Raises:
            OSError: One of them is not there.
        """
        for path in (self.path, f"{self.path}-wal"):
            self._watched.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._known = _identity(os.fstat(self._watched[0]))

    def check(self) -> None:
        """Make sure that what is written can be found again.

        Raises:
            StoreUnavailableError: The file was removed, moved or replaced, or its log removed.
        """
        try:
            now = _identity(os.stat(self.path))  # noqa: PTH116 -- with each transaction: a path object costs more
        except OSError as error:
            raise StoreUnavailableError(of_file(self.path, f"{os_meaning(error)}; {_RESTART}")) from error
        if now != self._known:
            raise StoreUnavailableError(of_file(self.path, f"was replaced while in use; {_RESTART}"))
        self.check_there()

    def check_there(self) -> None:
        """Make sure that what was just written is not lost with the next restart; costs less than `check`.

        Raises:
            StoreUnavailableError: The file, or the log that belongs to it, was removed.
        """
        for descriptor in self._watched:
            if os.fstat(descriptor).st_nlink == 0:
                raise StoreUnavailableError(of_file(self.path, f"was removed while in use; {_RESTART}"))

    def _check_kind(self) -> None:
        try:
            mode = self._place.stat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISREG(mode):
            problem = "is a directory" if stat.S_ISDIR(mode) else "is no regular file"
            raise ConfigurationError(SETTING, problem, value=self.path)
        with self._place.open("r+b") as file:  # before SQLite has it: closing it later would take its locks
            start = file.read(len(_MAGIC))
        if start not in {b"", _MAGIC}:  # SQLite would take a short one for empty
            raise ConfigurationError(SETTING, "is no SQLite database", value=self.path)


def _take(lock: int, path: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
        problem = f"is served by another controller (process {holder or 'unknown'})"
        raise ConfigurationError(SETTING, problem, value=path) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)


def _identity(status: os.stat_result) -> _Identity:
    return (status.st_dev, status.st_ino)
