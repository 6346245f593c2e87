"""What the tests of the SQLite store share: a store's file in every condition, and the original's file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.contract.store_harness import POLICY, Desk, Stores, Trait
from vmafx.adapters.store.sqlite import SqliteStore
from vmafx.adapters.store.transaction import Transaction

ORIGINAL_TABLE = """
CREATE TABLE jobs (
    id TEXT PRIMARY KEY, status TEXT NOT NULL DEFAULT 'pending', scoring TEXT NOT NULL, assigned_node TEXT,
    score REAL, features TEXT, error TEXT, tenant_id TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);
CREATE INDEX idx_jobs_status_created ON jobs (status, created_at);
CREATE INDEX jobs_listing ON jobs (tenant_id, status, created_at);
"""


def open_store(path: Path, **options: Any) -> SqliteStore:
    return SqliteStore.open(str(path), POLICY, **options)


def desk_at(store: SqliteStore) -> Desk:
    traits = frozenset({Trait.WAITS})
    return Desk(Stores(jobs=store, attempts=store, upkeep=store, sessions=store, traits=traits))


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program at the file."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        yield connection
    finally:
        connection.close()


def original_file(path: Path, *rows: dict[str, object], table: str = ORIGINAL_TABLE) -> None:
    """A file of the original with these jobs, each described by how it differs from a pending one."""
    with raw(path) as connection:
        connection.executescript(table)
        for number, changes in enumerate(rows):
            row = {
                "id": f"job-{number}",
                "scoring": json.dumps({"reference": "/clips/ref.y4m", "distorted": f"/clips/{number}.y4m"}),
                "tenant_id": "acme",
                "created_at": 1_700_000_000 + number,
                "updated_at": 1_700_000_100 + number,
                **changes,
            }
            row = {name: value for name, value in row.items() if value is not ...}
            places = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({places})", tuple(row.values()))


class Gate:
    """Holds the writing thread of a store in the middle of a call."""

    def __init__(self, store: SqliteStore) -> None:
        self._transactions = store._file
        self._open = threading.Event()
        self.reached = threading.Event()

    def close(self) -> asyncio.Task[None]:
        """Send a call that stops at the gate."""
        return asyncio.create_task(self._transactions.write(self._stop))

    async def held(self) -> None:
        """Return when the call stands at the gate."""
        assert await asyncio.to_thread(self.reached.wait, 30)

    def open(self) -> None:
        self._open.set()

    def _stop(self, books: Transaction) -> None:
        self.reached.set()
        assert self._open.wait(30)


async def turns(number: int = 5) -> None:
    """Let every task that is ready come as far as it can."""
    for _ in range(number):
        await asyncio.sleep(0)
