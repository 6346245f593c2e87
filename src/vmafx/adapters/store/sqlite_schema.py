"""The tables of the SQLite store, by version, and how a file comes to the newest one (ADR 0024)."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from typing import Final

__all__ = ["APPLICATION_ID", "MIGRATIONS", "Contents", "Migration", "contents", "migrate", "transaction"]

APPLICATION_ID: Final = 0x766D6678
"""What marks a file as one of this store; `vmfx` in ASCII."""
_ORIGINAL_COLUMNS: Final = frozenset({
    "id", "status", "scoring", "assigned_node", "score", "features", "error", "created_at", "updated_at",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A step from the version before it.

    Attributes:
        version: The version that it leads to.
        script: What it does, in SQL.
    """

    version: int
    script: str


class Contents(Enum):
    """Whose tables a file has."""

    NONE = "none"
    """There are none."""
    OURS = "ours"
    """Those of this store, of some version."""
    ORIGINAL = "original"
    """The table of jobs of the original platform."""
    FOREIGN = "foreign"
    """Those of another program."""


def contents(connection: sqlite3.Connection) -> tuple[Contents, int]:
    """Return whose tables a file has, and their version when they are ours; writes nothing.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == APPLICATION_ID:
        return Contents.OURS, version
    if tables == 0:
        return (Contents.NONE if application == 0 else Contents.FOREIGN), 0
    columns = {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
    original = application == 0 and columns >= _ORIGINAL_COLUMNS
    return (Contents.ORIGINAL if original else Contents.FOREIGN), 0


def migrate(connection: sqlite3.Connection, *, version: int, migrations: Sequence[Migration]) -> None:
    """Take the steps that lie beyond a version, and mark the file; to be called in a transaction.

    Args:
        connection: The file's connection.
        version: The version that it has.
        migrations: All steps, the earliest first.

    Raises:
        sqlite3.Error: A step failed.
    """
    for step in migrations:
        if step.version > version:
            for statement in _statements(step.script):
                connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {migrations[-1].version}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Begin a transaction that writes; end it with the body, undone when that raises.

    Raises:
        sqlite3.Error: It could not begin or be stored; nothing is written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; `executescript` would end the transaction.

    Yields:
        One statement after another.

    Raises:
        ValueError: The last one does not end.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if any(line and not line.startswith("--") for line in map(str.strip, statement.splitlines())):
        raise ValueError(f"a migration ends in the middle of a statement: {statement!r}")


def _load() -> tuple[Migration, ...]:
    folder = resources.files("vmafx.adapters.store") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda it: it.name)
    return tuple(
        Migration(version=int(file.name.partition("_")[0]), script=file.read_text(encoding="utf-8"))
        for file in files
    )


MIGRATIONS: Final[Sequence[Migration]] = _load()
"""Every step, the earliest first."""
