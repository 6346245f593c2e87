"""What SQLite's errors mean, in words for the one who runs the controller (ADR 0024)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from vmafx.adapters.store.sqlite_books import RowDamagedError
from vmafx.domain.errors import StoreUnavailableError
from vmafx.domain.text import quoted, shown

__all__ = ["SETTING", "meaning", "os_meaning", "unavailable", "unavailable_by"]

SETTING: Final = "VMAFX_DB_PATH"
"""The setting that names the file."""

_WORDS_BYTES_MAX: Final = 300
_PRIMARY: Final = 0xFF  # the low byte of an extended code is its primary code
_DAMAGED: Final = "is damaged"
_UNUSABLE: Final = "cannot be read or written"
_LOCKED: Final = "is locked by another process"
_FAILED: Final = "failed"
_MEANINGS: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_READONLY: "cannot be written",
    sqlite3.SQLITE_PERM: "cannot be written",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_AUTH: _UNUSABLE,
    sqlite3.SQLITE_IOERR: _UNUSABLE,
    sqlite3.SQLITE_NOLFS: "cannot grow: the file system allows no larger file",
    sqlite3.SQLITE_TOOBIG: "cannot hold what is that large",
    sqlite3.SQLITE_NOMEM: "cannot be used: memory is short",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: "is no SQLite database, or is damaged",
    sqlite3.SQLITE_FORMAT: _DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: "refused what does not fit to what is stored",
    sqlite3.SQLITE_SCHEMA: "was changed by another program",
    sqlite3.SQLITE_ERROR: "does not hold the tables of this version, or was changed by another program",
}


def meaning(error: sqlite3.Error) -> str:
    """Return what an error means, to be read after the name of the file."""
    if isinstance(error, RowDamagedError):
        return f"holds a row that cannot be used: {_words(error)}"
    code = getattr(error, "sqlite_errorcode", None)
    name = "" if code is None else f"{error.sqlite_errorname}: "
    return f"{_kind(error)} ({name}{_words(error)})"


def unavailable(path: str, problem: str, *, told: str | None = None) -> StoreUnavailableError:
    """Return the error of a call that the file does not allow; errors of the start name the setting.

    Args:
        path: The file; callers are not told of it.
        problem: What is wrong with it, to be read after its name.
        told: What callers are told instead, in the same form; None for the problem.
    """
    return StoreUnavailableError(
        f"database {quoted(path)} {problem}", told=f"the database {problem if told is None else told}"
    )


def unavailable_by(path: str, error: sqlite3.Error) -> StoreUnavailableError:
    """Return the error of a call that met an error of SQLite, whose own words callers are not told.

    Args:
        path: The file.
        error: The error.
    """
    return unavailable(path, meaning(error), told=_kind(error))


def os_meaning(error: OSError) -> str:
    """Return what an error of the system means, to be read after the name of the file."""
    about = error.filename if isinstance(error.filename, str) else ""
    return f"cannot be used: {error.strerror or error}{about and f': {quoted(about)}'}"


def _kind(error: sqlite3.Error) -> str:
    if isinstance(error, RowDamagedError):
        return "holds a row that cannot be used"
    code = getattr(error, "sqlite_errorcode", None)
    return _FAILED if code is None else _MEANINGS.get(code & _PRIMARY, _FAILED)


def _words(error: Exception) -> str:
    return shown(str(error), _WORDS_BYTES_MAX)
