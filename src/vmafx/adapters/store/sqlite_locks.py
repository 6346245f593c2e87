"""The locks that keep a second controller from a database: on its name, and on the file itself (ADR 0024)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import Final

from vmafx.adapters.store.sqlite_faults import SETTING, os_meaning
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.text import quoted

__all__ = ["FILE_MODE", "lock_file", "lock_name"]

FILE_MODE: Final = 0o600
"""Who may read what is made: its owner, for addresses of clips may hold secrets."""
_PID_BYTES_MAX: Final = 20


def lock_name(path: str) -> int:
    """Return a descriptor that holds the name of a database, until it is closed.

    The lock lies on `<path>.lock`, which also tells who has it, and is there before the database is.

    Args:
        path: The database.

    Raises:
        ConfigurationError: Another controller has the name, or its lock cannot be made.
    """
    name = f"{path}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        lock = os.open(name, flags, FILE_MODE)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            refused: ConfigurationError = _no_lock(path, name)
            raise refused from error
        raise ConfigurationError(SETTING, os_meaning(error), value=path) from error
    try:
        _take(lock, name, path)
    except OSError as error:
        os.close(lock)
        raise ConfigurationError(SETTING, os_meaning(error), value=path) from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def lock_file(descriptor: int, path: str) -> None:
    """Lock the database itself, so that it is not served under a second name, until the descriptor is closed.

    Where such a lock would keep SQLite's own away, as on some network file systems, there is none.

    Args:
        descriptor: The database. Closing it takes the locks that SQLite has on it in this process.
        path: Its name.

    Raises:
        ConfigurationError: Another controller serves it.
        OSError: There are no locks there.
    """
    _flock(descriptor, path, holder=None)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)  # the first byte: SQLite locks others
    except BlockingIOError:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1)


def _take(lock: int, name: str, path: str) -> None:
    """Lock a lock's file, and write this process's number into it."""
    status = os.fstat(lock)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # it would be written over
        refused: ConfigurationError = _no_lock(path, name)
        raise refused
    _flock(lock, path, holder=lock)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)


def _flock(descriptor: int, path: str, *, holder: int | None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if holder is None:
            who = "under another name of the file, or whose .lock was removed"
        else:
            number = os.pread(holder, _PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            who = f"(process {number or 'unknown'})"
        raise ConfigurationError(SETTING, f"is served by another controller {who}", value=path) from error


def _no_lock(path: str, name: str) -> ConfigurationError:
    problem = f"cannot be locked: {quoted(name)} is no regular file of one name; remove that"
    return ConfigurationError(SETTING, problem, value=path)
