"""What the SQLite store does by itself, next to the same SQL without it; and jobs by the million."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from vmafx.adapters.store.sqlite import SqliteStore
from vmafx.adapters.store.sqlite_queries import QUERIES
from vmafx.domain.job import JobResult, NodeName, SessionId, TenantId
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.nodesession import NodeSession, SessionKey
from vmafx.domain.report import Report
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import Claim

__all__ = ["FEATURES", "TENANT", "alternate", "claim_costs", "cycle_rates", "seed"]

TENANT: Final = TenantId("dev")
FEATURES: Final = {f"feature_{number}": 0.123456789 * number for number in range(10)}
CALLERS: Final = (1, 8, 64)
TURNS: Final = 5
CYCLES: Final = 600
"""How many jobs a turn claims and reports."""
CLAIMS: Final = 300
"""How many claims are timed at each depth."""
LIFE_S: Final = 3600.0
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

SEED: Final = """
INSERT INTO jobs (
    id, tenant, status, reference, distorted, backend, priority, max_lost_attempts,
    created_us, updated_us, available_us, attempt, lost_attempts, never_started
)
WITH RECURSIVE numbers (number) AS (
    SELECT 0 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < :jobs
)
SELECT printf('%08x-0000-4000-8000-%012x', (number * 2654435761) & 4294967295, number),
       :tenant, 'pending', '/clips/reference.y4m', '/clips/distorted.y4m', '', 0, 3,
       :now + number, :now + number, :now + number, 0, 0, 0
  FROM numbers
"""
"""Pending jobs, each a microsecond younger than the one before, under ids in no order."""


def seed(path: Path, jobs: int) -> None:
    """Make a store's file with so many pending jobs, submitted in the last hour."""

    async def make() -> None:
        async with SqliteStore.open(str(path), LeasePolicy()):
            pass

    asyncio.run(make())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    now = int((time.time() - LIFE_S) * 1e6)
    with connection:
        connection.execute(SEED, {"jobs": jobs, "tenant": TENANT, "now": now})
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


# ---------------------------------------------------------------- rates


def cycle_rates(folder: Path) -> dict[int, tuple[float, float]]:
    """Claims with their reports per second, of the store and of its SQL alone, by callers."""
    cycles = CYCLES * len(CALLERS) * (TURNS + 1)
    stored, raw = folder / "cycles.db", folder / "raw.db"
    for path in (stored, raw):
        seed(path, cycles)
    return asyncio.run(_cycle_rates(stored, raw))


async def _cycle_rates(stored: Path, raw: Path) -> dict[int, tuple[float, float]]:
    bare = RawStore(raw)
    async with SqliteStore.open(str(stored), LeasePolicy()) as store:
        nodes = [await _node(store, number) for number in range(max(CALLERS))]

        rates = {
            callers: await alternate(
                partial(_store_rate, store, nodes[:callers]), partial(_sql_rate, bare, callers)
            )
            for callers in CALLERS
        }
    bare.close()
    return rates


async def alternate(
    one: Callable[[], Awaitable[float]], other: Callable[[], Awaitable[float]]
) -> tuple[float, float]:
    """The median of each of two measures, taken in turns after one turn to warm up."""
    pairs = [(await one(), await other()) for _ in range(TURNS + 1)][1:]
    return statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs)


async def _store_rate(store: SqliteStore, nodes: Sequence[SessionKey]) -> float:
    begin = time.perf_counter()
    await _cycles(store, nodes)
    return CYCLES / (time.perf_counter() - begin)


async def _sql_rate(bare: RawStore, together: int) -> float:
    begin = time.perf_counter()
    bare.cycles(together)
    return CYCLES / (time.perf_counter() - begin)


async def _cycles(store: SqliteStore, nodes: Sequence[SessionKey]) -> None:
    left = CYCLES

    async def work(key: SessionKey) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            claim = await _claim(store, key)
            result = JobResult(score=95.0, features=FEATURES)
            report = Report(content=result, attempt=claim.attempt.number)
            await store.report(key, claim.job.id, report, now=_now())

    async with asyncio.TaskGroup() as group:
        for number, key in enumerate(nodes):
            group.create_task(work(key), name=f"node {number}")


class RawStore:
    """The SQL of the store without the store: one thread that knows what it will find.

    Args:
        path: A file with pending jobs; their ids are those of `seed`.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute("DELETE FROM sessions")

    def cycles(self, together: int) -> None:
        """Claim and report jobs, so many in one transaction."""
        begun = 0
        while begun < CYCLES:
            number = min(together, CYCLES - begun)
            begun += number
            self._do("BEGIN IMMEDIATE")
            jobs = [self._claim() for _ in range(number)]
            self._do("COMMIT")
            self._do("BEGIN IMMEDIATE")
            for job in jobs:
                self._report(job)
            self._do("COMMIT")

    def close(self) -> None:
        self._connection.close()

    def _claim(self) -> str:
        now = int(time.time() * 1e6)
        self._do(QUERIES["session"], "s")
        self._do(QUERIES["next_claimable"], TENANT, "cpu", now)
        ((job, *_),) = self._do(QUERIES["next_claimable"], TENANT, "", now)
        row = ("running", now, now, None, 1, 0, 0, "node-0", None, None, None, job, TENANT, "pending", 0)
        self._do(QUERIES["write_job"], *row)
        attempt = (job, 1, "node-0", "s", now, now, "p", now, now, now, 0, 0, None, None, None)
        self._do(QUERIES["add_attempt"], *attempt)
        return str(job)

    def _report(self, job: str) -> None:
        now = int(time.time() * 1e6)
        self._do(QUERIES["session"], "s")
        self._do(QUERIES["history"], job)
        text = str(FEATURES)
        row = ("completed", now, now, now, 1, 0, 0, "node-0", 95.0, text, None, job, TENANT, "running", 1)
        self._do(QUERIES["write_job"], *row)
        attempt = ("s", now, "p", None, 0, 0, "completed", now, None, job, 1, "s", None)
        self._do(QUERIES["write_attempt"], *attempt)

    def _do(self, query: str, *row: object) -> list[Any]:
        return self._connection.execute(query, row).fetchall()


# ---------------------------------------------------------------- depth


def claim_costs(folder: Path, depths: Sequence[int]) -> dict[int, float]:
    """The median seconds of a claim for each number of pending jobs, of claims taken in turns."""
    paths = {depth: folder / f"depth-{depth}.db" for depth in depths}
    for depth, path in paths.items():
        seed(path, depth)
    costs = asyncio.run(_claim_costs(paths))
    for path in paths.values():
        path.unlink()
    return costs


async def _claim_costs(paths: dict[int, Path]) -> dict[int, float]:
    stores = {depth: SqliteStore.open(str(path), LeasePolicy()) for depth, path in paths.items()}
    nodes = {depth: await _node(store, 0) for depth, store in stores.items()}
    seen: dict[int, list[float]] = {depth: [] for depth in stores}
    order = list(stores.items())
    for _ in range(CLAIMS):
        random.shuffle(order)
        for depth, store in order:
            begin = time.perf_counter()
            await _claim(store, nodes[depth])
            seen[depth].append(time.perf_counter() - begin)
    for store in stores.values():
        await store.close()
    return {depth: statistics.median(taken) for depth, taken in seen.items()}


# ---------------------------------------------------------------- nodes


async def _node(store: SqliteStore, number: int) -> SessionKey:
    now, digest = _now(), sha256(b"secret").digest()
    session = NodeSession(
        id=SessionId(f"session-{number}"),
        tenant=TENANT,
        node=NodeName(f"node-{number}"),
        registered_at=now,
        expires_at=now + timedelta(seconds=LIFE_S),
    )
    await store.register(session, token_sha256=digest)
    return SessionKey(tenant=TENANT, session=session.id, token_sha256=digest)


async def _claim(store: SqliteStore, key: SessionKey) -> Claim:
    claim = await store.claim(key, frozenset({Backend.CPU}), now=_now())
    assert claim is not None
    return claim


def _now() -> datetime:
    return datetime.now(UTC)
