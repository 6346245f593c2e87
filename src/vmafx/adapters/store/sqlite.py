"""SqliteStore: jobs, attempts and sessions in one file, by one controller (ADR 0024)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from vmafx.adapters.store.shared import Store
from vmafx.adapters.store.sqlite_faults import SETTING, meaning, os_meaning
from vmafx.adapters.store.sqlite_file import BUSY_TIMEOUT_S, DatabaseFile
from vmafx.adapters.store.sqlite_original import Imported, keep_copy, move_aside, take_over
from vmafx.adapters.store.sqlite_queries import QUERIES
from vmafx.adapters.store.sqlite_schema import (
    MIGRATIONS,
    Contents,
    Migration,
    contents,
    migrate,
    transaction,
)
from vmafx.adapters.store.sqlite_transactions import SqliteTransactions
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import TenantId
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.text import shown

__all__ = ["CHECKED_BYTES_MAX", "TENANTLESS", "SqliteStore", "examine", "refusal"]

TENANTLESS: Final = TenantId("dev")
"""Whose the original's jobs without a tenant become: the one tenant where nobody is authenticated."""

_VERSION_MIN: Final = (3, 37, 0)
"""The first SQLite that has strict tables."""
CHECKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Up to which size a file is read for damage when it is opened; a larger one would hold up the start."""
_WORDS_BYTES_MAX: Final = 300
_LOG_BYTES_MAX: Final = 64 * 1024 * 1024
"""How much of the log's room is kept after it was emptied."""


class SqliteStore(Store):
    """A store in a database file; what it answered is on the disk.

    It belongs to the event loop of its first call.

    Attributes:
        path: The file, links followed.
        imported: What opening took over from the original's table; None when there was none.

    Args:
        transactions: The open file.
        policy: How long leases, sessions and waits last.
        path: The file, links followed.
        imported: What opening took over.
    """

    def __init__(
        self, transactions: SqliteTransactions, policy: LeasePolicy, *, path: str, imported: Imported | None
    ) -> None:
        super().__init__(transactions, policy)
        self.path: Final = path
        self.imported: Final = imported
        self._file = transactions

    @classmethod
    def open(
        cls,
        path: str,
        policy: LeasePolicy,
        *,
        tenantless: TenantId = TENANTLESS,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> Self:
        """Return a store on a file, which is made, or brought to this version, when it must be.

        It waits for the disk, for a file of the original the longer the larger that is. Nothing is changed in
        a file that is refused. The file's directory must exist.

        Args:
            path: The file.
            policy: How long leases, sessions and waits last.
            tenantless: Whose the jobs of the original without a tenant become.
            busy_timeout_s: How long a call waits while another program holds the file locked, in seconds.
            migrations: The steps that make the tables, the earliest first.

        Raises:
            ConfigurationError: The file cannot be used: it names the setting, the file and what is wrong.
        """
        if sqlite3.sqlite_version_info < _VERSION_MIN:
            raise ConfigurationError(
                SETTING, f"needs SQLite 3.37 or later, this Python has {sqlite3.sqlite_version}", value=path
            )
        file = DatabaseFile(path)
        file.hold()
        connections: list[sqlite3.Connection] = []
        try:
            connections.append(writer := file.connect(busy_timeout_s=busy_timeout_s))
            imported = _prepare(writer, file.path, tenantless=tenantless, migrations=migrations)
            connections.append(reader := file.connect(busy_timeout_s=busy_timeout_s))
            reader.execute("PRAGMA query_only = ON")
            file.watch()
        except BaseException as error:
            for connection in connections:
                with suppress(sqlite3.Error):
                    connection.close()
            file.let_go()
            if not isinstance(error, sqlite3.Error | OSError):
                raise
            refused: ConfigurationError = refusal(file.path, error)
            raise refused from error
        transactions = SqliteTransactions(file, writer=writer, reader=reader)
        return cls(transactions, policy, path=file.path, imported=imported)

    async def close(self) -> None:
        """Answer the calls that wait, refuse later ones, and let the file go; may be called again."""
        await self._file.close()

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()


def examine(
    connection: sqlite3.Connection, path: str, *, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[Contents, int]:
    """Return whose tables a file has, and their version when they are ours; writes nothing.

    Args:
        connection: The file's connection.
        path: The file.
        migrations: The steps that make the tables, the earliest first.

    Raises:
        ConfigurationError: It is damaged, another program's, or of a newer version.
        sqlite3.Error: It cannot be read.
    """
    if Path(path).stat().st_size <= CHECKED_BYTES_MAX:
        _check(connection, path)
    kind, version = contents(connection)
    newest = migrations[-1].version
    if kind is Contents.FOREIGN:
        raise ConfigurationError(SETTING, "is the database of another program", value=path)
    if version > newest:
        problem = f"was written by a newer vmafx: schema {version}, this one knows up to {newest}; upgrade it"
        raise ConfigurationError(SETTING, problem, value=path)
    return kind, version


def refusal(path: str, error: sqlite3.Error | OSError) -> ConfigurationError:
    """Return what an error of the machine means for the setting."""
    words = os_meaning(error) if isinstance(error, OSError) else meaning(error)
    return ConfigurationError(SETTING, words, value=path)


def _prepare(
    connection: sqlite3.Connection, path: str, *, tenantless: TenantId, migrations: Sequence[Migration]
) -> Imported | None:
    """Bring a file to the newest version, or refuse it as it is.

    Raises:
        ConfigurationError: It is not ours, or of a newer version.
        sqlite3.Error: It cannot be read or written.
        OSError: The copy of the original's file cannot be written.
    """
    kind, version = examine(connection, path, migrations=migrations)
    if kind is Contents.ORIGINAL:
        keep_copy(connection, path)
    _log_ahead(connection, path)
    imported = None
    with transaction(connection):  # also when there is nothing to do: it shows that the disk takes writes
        if kind is Contents.ORIGINAL:
            move_aside(connection)
        migrate(connection, version=version, migrations=migrations)
        if kind is Contents.ORIGINAL:
            imported = take_over(connection, tenantless=tenantless)
        for query in QUERIES.values():  # the tables are those that we ask
            connection.execute(f"EXPLAIN {query}", (None,) * query.count("?"))
    return imported


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Read the whole file for damage.

    Raises:
        ConfigurationError: There is some.
    """
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise ConfigurationError(SETTING, f"is damaged: {shown(found, _WORDS_BYTES_MAX)}", value=path)


def _log_ahead(connection: sqlite3.Connection, path: str) -> None:
    """Have the file keep a write-ahead log, so that readers and the writer do not wait for each other.

    Raises:
        ConfigurationError: Its file system cannot.
    """
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        problem = "lies on a file system without shared memory, which the store needs"
        raise ConfigurationError(SETTING, problem, value=path)
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_MAX}")
