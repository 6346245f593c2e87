"""The file of the SQLite store: found fit for use, held against a second controller, watched (ADR 0024)."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final, TypeAlias

from vmafx.adapters.store.sqlite_faults import SETTING, os_meaning, unavailable
from vmafx.adapters.store.sqlite_locks import FILE_MODE, lock_file, lock_name
from vmafx.adapters.store.sqlite_log import LogWatch
from vmafx.domain.errors import ConfigurationError, StoreUnavailableError
from vmafx.domain.text import quoted

__all__ = ["BUSY_TIMEOUT_S", "NOT_WRITABLE", "DatabaseFile"]

BUSY_TIMEOUT_S: Final = 5.0
"""How long another program may hold the file locked before a call gives up, in seconds."""

NOT_WRITABLE: Final = "lies in a directory that this process may not write to"
"""What keeps a database from being made, and from having its log and its lock beside it."""
_STATEMENTS_CACHED: Final = 128
_MAGIC: Final = b"SQLite format 3\0"
_RESTART: Final = "restart the controller, on a file that stays"
_PUT_BACK: Final = (
    "move it and its -wal back, and the controller goes on; with a copy instead, restart the controller"
)
_Identity: TypeAlias = tuple[int, int]


class DatabaseFile:
    """A database file that this process alone serves, from `hold` to `let_go`.

    It has two locks: one on `<path>.lock`, which tells who has it, and one on the file itself, to which hard
    links and mounts lead under other names.

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
        self._lock_path: Final = f"{self.path}.lock"
        self._log_path: Final = f"{self.path}-wal"
        self._locks: list[int] = []
        self._watched: list[int] = []
        self._known: tuple[_Identity, _Identity] = ((0, 0), (0, 0))
        self._log: LogWatch | None = None

    def hold(self) -> None:
        """Make the file if there is none, and take it for this process.

        Raises:
            ConfigurationError: It is no regular file, cannot be read and written, its directory is missing or
                cannot be written, or another controller has it.
        """
        self.check_fit()
        if os.path.lexists(self.path) and not os.path.lexists(self._lock_path):
            self._hold_file(make=False)  # what is refused gets no lock beside it
            self.let_go()
        self._locks.append(lock_name(self.path))
        self._hold_file(make=True)

    def hold_if_served(self) -> None:
        """Take a file that is there, and leave nothing beside it that was not there.

        Raises:
            ConfigurationError: As of `hold`.
        """
        if os.path.lexists(self._lock_path):
            self.hold()
            return
        self.check_fit()
        self._hold_file(make=False)
        if not os.access(self._place.parent, os.W_OK | os.X_OK):
            self.let_go()
            raise ConfigurationError(SETTING, NOT_WRITABLE, value=self.path)

    def check_fit(self) -> None:
        """Refuse a place that holds no database and is none for a new one.

        Raises:
            ConfigurationError: It is no regular file, cannot be read and written, its directory is missing,
                or only the log of a database is there, whose jobs a new file would lose.
        """
        try:
            self._check_kind()
        except OSError as error:
            raise ConfigurationError(SETTING, os_meaning(error), value=self.path) from error
        folder = self._place.parent
        if not folder.is_dir():
            problem = (
                f"lies in a directory that does not exist: make {quoted(str(folder))}, or correct the path"
            )
            raise ConfigurationError(SETTING, problem, value=self.path)
        if _size(self._log_path) and not _size(self.path):
            what = "is empty" if os.path.lexists(self.path) else "is missing"
            problem = (
                f"{what}, but its log {quoted(self._log_path)} is there: put it back beside the log; to "
                "begin without its jobs, move the log away"
            )
            raise ConfigurationError(SETTING, problem, value=self.path)

    def let_go(self) -> None:
        """Let another controller have it; the lock's file stays, for one that goes can be locked twice."""
        while self._watched:  # after the last connection: closing them takes SQLite's locks
            os.close(self._watched.pop())
        while self._locks:
            os.close(self._locks.pop())

    def connect(self, *, busy_timeout_s: float) -> sqlite3.Connection:
        """Return a connection that syncs each commit to the disk, and begins transactions only when told.

        Args:
            busy_timeout_s: How long to wait while another program holds the file locked, in seconds.

        Raises:
            sqlite3.Error: There is no database to connect to.
        """
        connection = sqlite3.connect(
            self.path,  # which begins with a slash: no address, and no name of a database in memory
            uri=False,
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
        for path in (self._log_path, f"{self.path}-shm"):
            self._watched.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        log, index = self._watched
        self._known = (_identity(os.fstat(self._locks[-1])), _identity(os.fstat(log)))
        self._log = LogWatch(log=log, index=index)

    def check(self) -> None:
        """Make sure that what is written can be found again.

        Raises:
            StoreUnavailableError: The file or its log was removed, moved, replaced or cut.
        """
        try:
            now = (
                _identity(os.stat(self.path)),  # noqa: PTH116 -- with each transaction: a path object costs more
                _identity(os.stat(self._log_path)),  # noqa: PTH116 -- as above
            )
        except FileNotFoundError as error:
            raise self._removed() from error
        except OSError as error:
            told = f"cannot be used: {error.strerror}"
            refused = unavailable(self.path, os_meaning(error), told=told)
            raise refused from error
        if now != self._known:
            raise self._lost("was replaced while in use", _RESTART)
        self._check_log()

    def check_there(self) -> None:
        """Make sure that what was just written is not lost with the next restart; costs less than `check`.

        Raises:
            StoreUnavailableError: The file, or the log that belongs to it, was removed, or the log was cut.
        """
        for descriptor in (self._locks[-1], self._watched[0]):
            if os.fstat(descriptor).st_nlink == 0:
                raise self._removed()
        self._check_log()

    def _check_log(self) -> None:
        if self._log is not None and not self._log.is_whole():
            raise self._lost("has a log that was cut or overwritten while in use", _RESTART)

    def _removed(self) -> StoreUnavailableError:
        return self._lost("was removed while in use", _PUT_BACK)

    def _lost(self, problem: str, advice: str) -> StoreUnavailableError:
        return unavailable(self.path, f"{problem}; {advice}", told=problem)

    def _check_kind(self) -> None:
        try:
            mode = self._place.stat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISREG(mode):
            problem = "is a directory" if stat.S_ISDIR(mode) else "is no regular file"
            raise ConfigurationError(SETTING, problem, value=self.path)

    def _hold_file(self, *, make: bool) -> None:
        """Take the file itself, after its name; on failure let go of both.

        Raises:
            ConfigurationError: As of `hold`.
        """
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            # Open until `let_go`: to close it takes the locks that SQLite has.
            self._locks.append(os.open(self.path, flags | (os.O_CREAT if make else 0), FILE_MODE))
            lock_file(self._locks[-1], self.path)
            self._check_content(self._locks[-1])
        except OSError as error:
            self.let_go()
            raise ConfigurationError(SETTING, os_meaning(error), value=self.path) from error
        except BaseException:
            self.let_go()
            raise

    def _check_content(self, descriptor: int) -> None:
        if os.pread(descriptor, len(_MAGIC), 0) not in {
            b"",
            _MAGIC,
        }:  # SQLite would take a short one for empty
            raise ConfigurationError(SETTING, "is no SQLite database", value=self.path)
        if os.fstat(descriptor).st_nlink > 1:
            problem = (
                "has a second name (a hard link), under which it would have another log: remove one of them"
            )
            raise ConfigurationError(SETTING, problem, value=self.path)


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _identity(status: os.stat_result) -> _Identity:
    return (status.st_dev, status.st_ino)
