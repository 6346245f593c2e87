"""Transactions on a SQLite file: one thread writes and syncs for all that wait, another reads (ADR 0024)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from vmafx.adapters.store.sqlite_books import SqliteReading, SqliteTransaction
from vmafx.adapters.store.sqlite_calls import Call, Server
from vmafx.adapters.store.sqlite_faults import unavailable, unavailable_by
from vmafx.adapters.store.sqlite_file import DatabaseFile
from vmafx.adapters.store.transaction import Reading, Transaction, Transactions
from vmafx.domain.errors import StoreUnavailableError

__all__ = ["SqliteTransactions"]

T = TypeVar("T")


class SqliteTransactions:
    """Work on one database file.

    Args:
        file: The file, held and watched; let go at the end.
        writer: A connection that may write; closed at the end.
        reader: Another that reads; closed at the end.
    """

    def __init__(self, file: DatabaseFile, *, writer: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        self._file = file
        self._connections = (reader, writer)  # the last one to be closed empties the log
        self._writing = Server[Transaction](
            "vmafx-sqlite-write",
            serve=_Writing(file, writer).serve,
            refusal=self._closed,
        )
        self._reading = Server[Reading](
            "vmafx-sqlite-read",
            serve=_Reading(file, reader).serve,
            refusal=self._closed,
        )

    async def read(self, work: Callable[[Reading], T]) -> T:
        """Return what `work` returns, of what was stored when it was asked for or later."""
        return await self._reading.call(work)

    async def write(self, work: Callable[[Transaction], T], *, surely: bool = False) -> T:
        """Return what `work` returns, once all that it wrote is on the disk."""
        return await self._writing.call(work, surely=surely)

    async def close(self) -> None:
        """Answer the calls that wait, refuse later ones, and let the file go; may be called again."""
        self._reading.stop()
        self._writing.stop()
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._reading.join()
        self._writing.join()
        for connection in self._connections:
            with suppress(sqlite3.Error):  # all that was answered is on the disk
                connection.close()
        self._file.let_go()

    def _closed(self) -> StoreUnavailableError:
        return unavailable(self._file.path, "is closed")


class _Writing:
    """Does the work of many calls in one transaction, so that they share one sync of the disk."""

    def __init__(self, file: DatabaseFile, connection: sqlite3.Connection) -> None:
        self._file = file
        self._connection = connection
        self._books = SqliteTransaction(connection)
        self._spoilt = False

    def serve(self, calls: Sequence[Call[Transaction, Any]]) -> None:
        """Do the work of calls; when that cannot be stored, again, each call on its own."""
        if self._spoilt:  # there may be room now that the log would use up
            self._make_room()
        self._spoilt = not self._together(calls, last=False)
        if self._spoilt:
            self._make_room()
            for call in calls:
                self._together((call,), last=True)

    def _together(self, calls: Sequence[Call[Transaction, Any]], *, last: bool) -> bool:
        """Return whether each call is settled, as it is the last time; otherwise all is as it was."""
        try:
            self._file.check()
            self._connection.execute("BEGIN IMMEDIATE")
        except (StoreUnavailableError, sqlite3.Error) as error:
            return self._fail(calls, error)
        try:
            if any(self._spoils(call) for call in calls):
                return last
            self._connection.execute("COMMIT")
            self._file.check_there()
        except StoreUnavailableError as error:
            return self._fail(calls, error)
        except sqlite3.Error as error:
            return last and self._fail(calls, error)
        finally:
            self._undo()
        return True

    def _spoils(self, call: Call[Transaction, Any]) -> bool:
        """Do the work of a call; return whether the transaction cannot be stored after it."""
        written = self._books.writes
        try:
            call.do(self._books)
        except Exception as error:  # noqa: BLE001 -- it is the caller's, whatever it is
            call.error = _told(self._file.path, error)
            return self._books.writes != written or not self._connection.in_transaction
        return False

    def _make_room(self) -> None:
        """Write the log back into the file: it may be what fills the disk."""
        with suppress(sqlite3.Error):  # then there is no room for that either
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _undo(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # then SQLite has done it already
                self._connection.execute("ROLLBACK")

    def _fail(self, calls: Sequence[Call[Transaction, Any]], error: Exception) -> bool:
        told = _told(self._file.path, error)
        for call in calls:
            call.error = told
        return True


class _Reading:
    """Answers many calls from one state of the file."""

    def __init__(self, file: DatabaseFile, connection: sqlite3.Connection) -> None:
        self._file = file
        self._connection = connection
        self._books = SqliteReading(connection)

    def serve(self, calls: Sequence[Call[Reading, Any]]) -> None:
        """Do the work of calls."""
        try:
            self._file.check()
            self._connection.execute("BEGIN")
        except (StoreUnavailableError, sqlite3.Error) as error:
            for call in calls:
                call.error = _told(self._file.path, error)
            return
        for call in calls:
            try:
                call.do(self._books)
            except Exception as error:  # noqa: BLE001 -- it is the caller's, whatever it is
                call.error = _told(self._file.path, error)
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")


def _told(path: str, error: Exception) -> Exception:
    """Return the error in our words; errors of the work itself are left as they are."""
    if not isinstance(error, sqlite3.Error):
        return error
    told = unavailable_by(path, error)
    told.__cause__ = error
    return told


if TYPE_CHECKING:
    _port: type[Transactions] = SqliteTransactions
