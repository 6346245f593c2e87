"""What a start would do with a database file, found out without changing it (ADR 0024, ADR 0028)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from vmafx.adapters.store.sqlite import examine, refusal
from vmafx.adapters.store.sqlite_faults import SETTING
from vmafx.adapters.store.sqlite_file import BUSY_TIMEOUT_S, NOT_WRITABLE, DatabaseFile
from vmafx.adapters.store.sqlite_schema import MIGRATIONS, Contents
from vmafx.domain.errors import ConfigurationError

__all__ = ["look_at"]

_NEWEST: Final = MIGRATIONS[-1].version


def look_at(path: str, *, folder_is_made: bool = False) -> str:
    """Return what a start finds at a path, in words; nothing that was not there stays behind.

    Args:
        path: The database file.
        folder_is_made: Whether a start makes the folders above it that are missing.

    Raises:
        ConfigurationError: A start would refuse it: names the setting, the file and what is wrong.
    """
    file = DatabaseFile(path)
    if not os.path.lexists(file.path):
        _refuse_unwritable(file, folder_is_made=folder_is_made)
        return "is not there yet; a start makes it"
    file.hold_if_served()
    file.let_go()  # a controller that starts while this one looks is not kept from it
    try:
        with closing(file.connect(busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
            kind, version = examine(connection, file.path)
    except (sqlite3.Error, OSError) as error:
        refused: ConfigurationError = refusal(file.path, error)
        raise refused from error
    return _words(kind, version)


def _refuse_unwritable(file: DatabaseFile, *, folder_is_made: bool) -> None:
    """Refuse a file that cannot be made.

    Raises:
        ConfigurationError: It cannot.
    """
    folder = Path(file.path).parent
    while folder_is_made and not os.path.lexists(folder):
        folder = folder.parent
    if folder == Path(file.path).parent or not folder.is_dir():
        file.check_fit()
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(SETTING, NOT_WRITABLE, value=file.path)


def _words(kind: Contents, version: int) -> str:
    match kind:
        case Contents.NONE:
            return "is empty; a start makes the tables"
        case Contents.ORIGINAL:
            return "is the original platform's; a start takes it over and leaves a copy beside it"
        case _ if version < _NEWEST:
            return f"has schema {version}; a start brings it to {_NEWEST}"
        case _:
            return f"has schema {version}"
