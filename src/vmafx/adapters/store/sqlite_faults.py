"""What SQLite's errors mean, in words for the one who runs the controller (ADR 0024)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from vmafx.adapters.store.sqlite_books import RowDamagedError
from vmafx.domain.text import quoted, shown

__all__ = ["SETTING", "meaning", "of_file", "os_meaning"]

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
    if code is None:
        return f"{_FAILED} ({_words(error)})"
    return f"{_MEANINGS.get(code & _PRIMARY, _FAILED)} ({error.sqlite_errorname}: {_words(error)})"


def of_file(path: str, problem: str) -> str:
    """Return the text of an error about the file, for calls; errors of the start name the setting."""
    return f"database {quoted(path)} {problem}"


def os_meaning(error: OSError) -> str:
    """Return what an error of the system means, to be read after the name of the file."""
    about = error.filename if isinstance(error.filename, str) else ""
    return f"cannot be used: {error.strerror or error}{about and f': {quoted(about)}'}"


def _words(error: Exception) -> str:
    return shown(str(error), _WORDS_BYTES_MAX)
