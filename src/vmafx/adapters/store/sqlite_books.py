"""The rows of the SQLite store, read and written on one connection (ADR 0024)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeVar

from vmafx.adapters.store.sqlite_queries import QUERIES
from vmafx.adapters.store.sqlite_values import (
    ANY_BACKEND,
    JOB_COLUMNS,
    Row,
    attempt_changes,
    attempt_of,
    attempt_row,
    instant,
    job_changes,
    job_of,
    job_row,
    micros,
    session_of,
    session_row,
    waiting_of,
)
from vmafx.adapters.store.transaction import KeptSession, Reading, Transaction, changed_rows
from vmafx.domain.attempt import JobHistory
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, NodeName, SessionId, TenantId
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import QueueCounts, Waiting

__all__ = ["RowDamagedError", "SqliteReading", "SqliteTransaction"]

T = TypeVar("T")

_BEFORE_ALL: Final = (-(2**63), "")
"""A place in a listing that lies before every job."""
_CREATED: Final = 10  # its place in a row of a job
_PRIORITY: Final = 7


class RowDamagedError(sqlite3.DatabaseError):
    """A row does not hold what this store writes, or is not what it was when it was read."""


class SqliteReading:
    """What one connection sees.

    Args:
        connection: The connection; whoever made it begins and ends its transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def job(self, job_id: JobId) -> Job | None:
        """Return a job of any tenant."""
        rows = self._named("job", job_id)
        return _read(job_of, rows[0]) if rows else None

    def history(self, job_id: JobId) -> JobHistory | None:
        """Return a job of any tenant with all its attempts, the earliest first."""
        rows = self._named("history", job_id)
        if not rows:
            return None
        job = _read(job_of, rows[0])
        attempts = (row[JOB_COLUMNS:] for row in rows if row[JOB_COLUMNS] is not None)
        return JobHistory(job=job, attempts=tuple(_read(attempt_of, row) for row in attempts))

    def page(
        self, tenant: TenantId, *, statuses: frozenset[JobStatus], after: JobCursor | None, limit: int
    ) -> tuple[Job, ...]:
        """Return jobs of a tenant by `created_at`, then by id by code point; no statuses means all."""
        place = _BEFORE_ALL if after is None else (micros(after.created_at), after.job_id)
        cursors = [
            self._execute(QUERIES["page"], (tenant, status.value, *place, limit))
            for status in statuses or JobStatus
        ]
        try:
            rows: Iterator[Row] = merge(*cursors, key=itemgetter(_CREATED, 0))
            return tuple(_read(job_of, row) for row in islice(rows, limit))
        finally:
            for cursor in cursors:
                cursor.close()

    def counts(self) -> tuple[QueueCounts, ...]:
        """Return the counts of each tenant with a pending or running job, by tenant."""
        return tuple(
            QueueCounts(
                tenant=tenant,
                pending=pending,
                running=running,
                oldest_pending_at=None if oldest is None else instant(oldest),
            )
            for tenant, pending, running, oldest in self._execute(QUERIES["counts"])
            if pending or running
        )

    def waiting(self, *, at_most: int) -> tuple[Waiting, ...]:
        """Return the pending jobs that ask for a backend, each pair of tenant and backend in order."""
        rows = self._execute(QUERIES["waiting"], (at_most,)).fetchall()
        return tuple(_read(waiting_of, row) for row in rows)

    def session(self, session_id: SessionId) -> KeptSession | None:
        """Return a session of any tenant, live or not."""
        rows = self._named("session", session_id)
        return _read(session_of, rows[0]) if rows else None

    def live_sessions(self, tenant: TenantId, *, at: datetime) -> tuple[NodeSession, ...]:
        """Return a tenant's sessions with `expires_at >= at`, by `registered_at`, then by id."""
        return self._sessions("live_sessions", tenant, micros(at))

    def live_count(self, *, at: datetime) -> int:
        """Return how many sessions of all tenants have `expires_at >= at`."""
        return self._number("live_count", micros(at))

    def _named(self, query: str, name: str) -> list[Row]:
        """Return the rows that an id names; one that is no UTF-8 names nothing."""
        try:
            return self._execute(QUERIES[query], (name,)).fetchall()
        except UnicodeEncodeError:
            return []

    def _sessions(self, query: str, *asked: object) -> tuple[NodeSession, ...]:
        rows = self._execute(QUERIES[query], asked).fetchall()
        return tuple(_read(session_of, row).session for row in rows)

    def _number(self, query: str, *asked: object) -> int:
        number: int = self._execute(QUERIES[query], asked).fetchone()[0]
        return number


class SqliteTransaction(SqliteReading):
    """What one connection sees and writes.

    Attributes:
        writes: How many writes it made; whoever begins and ends transactions sees by it who wrote.

    Args:
        connection: The connection; whoever made it begins and ends its transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.writes: int = 0

    def submitted_as(self, tenant: TenantId, idempotency_key: str) -> Job | None:
        """Return the tenant's job that was stored under an idempotency key."""
        row: Row | None = self._execute(QUERIES["submitted_as"], (tenant, idempotency_key)).fetchone()
        return None if row is None else _read(job_of, row)

    def pending(self, tenant: TenantId, *, at_most: int) -> int:
        """Return how many jobs of the tenant are pending, or `at_most` when there are more."""
        return self._number("pending", tenant, at_most)

    def next_claimable(self, tenant: TenantId, *, backends: frozenset[Backend], at: datetime) -> Job | None:
        """Return the job that `vmafx.domain.job.next_claimable` would choose of all that are stored."""
        now = micros(at)
        firsts: list[Row] = []
        for word in (ANY_BACKEND, *(backend.value for backend in backends)):
            firsts += self._execute(QUERIES["next_claimable"], (tenant, word, now)).fetchall()
        if not firsts:
            return None
        first = firsts[0] if len(firsts) == 1 else min(firsts, key=_in_queue)
        return _read(job_of, first)

    def waits_beyond(self, at: datetime, *, limit: int) -> tuple[JobId, ...]:
        """Return pending jobs of all tenants with `available_at > at`, in any order."""
        return tuple(job for (job,) in self._execute(QUERIES["waits_beyond"], (micros(at), limit)))

    def held(self, session_id: SessionId) -> tuple[JobId, ...]:
        """Return the jobs whose open attempt a session holds, by id."""
        return tuple(job for (job,) in self._execute(QUERIES["held"], (session_id,)))

    def leases(self, *, after: tuple[SessionId, JobId], limit: int) -> tuple[tuple[SessionId, JobId], ...]:
        """Return open attempts of all tenants by session, then by job."""
        return tuple(self._execute(QUERIES["leases"], (*after, limit)))

    def sessions(self, *, after: SessionId, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions of all tenants, live or not, by id."""
        return self._sessions("sessions", after, limit)

    def newest_registration(self, tenant: TenantId, node: NodeName) -> datetime | None:
        """Return the latest `registered_at` of the sessions kept under a node name, live or not."""
        (newest,) = self._execute(QUERIES["newest_registration"], (tenant, node)).fetchone()
        return None if newest is None else instant(newest)

    def sessions_over(self, *, at: datetime, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions with `expires_at < at`, by `expires_at`, then by id."""
        return self._sessions("sessions_over", micros(at), limit)

    def leases_over(self, *, at: datetime, limit: int) -> tuple[tuple[datetime, JobId], ...]:
        """Return open attempts with `lease_expires_at < at`, as that instant and the job, in this order."""
        rows = self._execute(QUERIES["leases_over"], (micros(at), limit))
        return tuple((instant(expires), job) for expires, job in rows)

    def add_job(self, job: Job) -> None:
        """Store a job that is not there, under its idempotency key if it has one."""
        self._write("add_job", job_row(job))

    def write_job(self, before: JobHistory, after: JobHistory) -> None:
        """Store what an event changed, on condition that `before` is still what is stored."""
        rows = changed_rows(before, after)
        job_id = before.job.id
        if rows.job is not None:
            self._write("write_job", job_changes(before.job, rows.job))
        for old, new in rows.changed:
            self._write("write_attempt", attempt_changes(job_id, old, new))
        if rows.opened is not None:
            self._write("add_attempt", attempt_row(job_id, rows.opened))

    def add_session(self, kept: KeptSession) -> None:
        """Store a session under an id that no other has."""
        self._write("add_session", session_row(kept))

    def write_session(self, session: NodeSession) -> None:
        """Store how far a kept session lives and when its last heartbeat was."""
        heard = session.last_heartbeat_at
        row = (micros(session.expires_at), None if heard is None else micros(heard), session.id)
        self._write("write_session", row)

    def remove_session(self, session_id: SessionId) -> None:
        """Remove a session; no open attempt is held by it."""
        self._write("remove_session", (session_id,))

    def try_writing(self) -> None:
        """Write what changes nothing: the version as it is, which costs one page."""
        (version,) = self._execute("PRAGMA user_version").fetchone()
        self.writes += 1
        self._execute(f"PRAGMA user_version = {version}")

    def purge(self, *, finished_before: datetime, limit: int) -> int:
        """Delete ended jobs with `finished_at < finished_before`, by `finished_at`, then by id.

        Returns:
            How many were deleted.
        """
        self.writes += 1
        return self._execute(QUERIES["purge"], (micros(finished_before), limit)).rowcount

    def _write(self, query: str, row: Row) -> None:
        """Write exactly one row.

        Raises:
            RowDamagedError: It is no longer what it was.
        """
        self.writes += 1
        if self._execute(QUERIES[query], row).rowcount != 1:
            raise RowDamagedError(f"{query}: the row has changed since it was read")


def _in_queue(row: Row) -> tuple[int, int, str]:
    return (-row[_PRIORITY], row[_CREATED], row[0])


def _read(made: Callable[[Row], T], row: Row) -> T:
    try:
        return made(row)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise RowDamagedError(f"row {row[0]!r}: {error}") from error


if TYPE_CHECKING:
    _reading: type[Reading] = SqliteReading
    _transaction: type[Transaction] = SqliteTransaction
