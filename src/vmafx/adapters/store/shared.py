"""The ports of a store over its transactions; the same for every store (ADR 0023)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from vmafx.adapters.store import keeping, upkeep
from vmafx.adapters.store.transaction import Transaction, Transactions
from vmafx.domain.attempt import JobHistory
from vmafx.domain.errors import StoreError
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, TenantId
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.nodesession import NodeSession, SessionKey
from vmafx.domain.report import Report
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import (
    PAGE_JOBS_MAX,
    SWEEP_JOBS_MAX,
    WAITING_COUNTED_MAX,
    AttemptKey,
    AttemptStore,
    Change,
    Claim,
    HeartbeatAnswer,
    JobStore,
    QueueCounts,
    ReportAnswer,
    ResumeCursor,
    StoreUpkeep,
    Submission,
    SweepAnswer,
    Waiting,
)
from vmafx.ports.sessionstore import SessionStore

__all__ = ["Store"]


class Store:
    """Jobs, attempts and sessions; a method is one transaction with work of its name (`keeping`, `upkeep`).

    Args:
        transactions: Where they are kept.
        policy: How long leases, sessions and waits last.
    """

    def __init__(self, transactions: Transactions, policy: LeasePolicy) -> None:
        self._transactions = transactions
        self._policy = policy

    # ------------------------------------------------------------ JobStore

    async def submit(self, job: Job, *, pending_max: int | None = None) -> Submission:
        """Store a job that was just submitted."""
        return await self._transactions.write(partial(keeping.submit, job=job, pending_max=pending_max))

    async def get(self, tenant: TenantId, job_id: JobId) -> Job:
        """Return a job."""
        return await self._transactions.read(partial(keeping.get, tenant=tenant, job_id=job_id))

    async def history(self, tenant: TenantId, job_id: JobId) -> JobHistory:
        """Return a job with all its attempts."""
        return await self._transactions.read(partial(keeping.history, tenant=tenant, job_id=job_id))

    async def page(
        self,
        tenant: TenantId,
        *,
        statuses: frozenset[JobStatus] = frozenset(),
        after: JobCursor | None = None,
        limit: int = PAGE_JOBS_MAX,
    ) -> tuple[Job, ...]:
        """Return jobs of a tenant, the oldest first."""
        work = partial(keeping.page, tenant=tenant, statuses=statuses, after=after, limit=limit)
        return await self._transactions.read(work)

    async def cancel(self, tenant: TenantId, job_id: JobId, *, now: datetime) -> Change:
        """Cancel a job, unless it has ended."""
        work = partial(keeping.cancel, tenant=tenant, job_id=job_id, now=now, policy=self._policy)
        return await self._transactions.write(work)

    async def counts(self) -> tuple[QueueCounts, ...]:
        """Return how much each tenant has in hand."""
        return await self._transactions.read(lambda books: books.counts())

    async def waiting(self) -> tuple[Waiting, ...]:
        """Return how many pending jobs ask for which backend."""
        return await self._transactions.read(lambda books: books.waiting(at_most=WAITING_COUNTED_MAX))

    # ------------------------------------------------------------ AttemptStore

    async def claim(
        self,
        key: SessionKey,
        backends: frozenset[Backend],
        *,
        now: datetime,
        pull_deadline_at: datetime | None = None,
    ) -> Claim | None:
        """Assign the next job that the node may run.

        Raises:
            CancelledError: The caller was cancelled; nothing is assigned.
        """
        made: Claim | None = None

        def assign(books: Transaction) -> Claim | None:
            nonlocal made
            made = None  # what an earlier try assigned was not stored
            made = keeping.claim(
                books, key, backends, now=now, pull_deadline_at=pull_deadline_at, policy=self._policy
            )
            return made

        try:
            return await self._transactions.write(assign)
        except asyncio.CancelledError:
            if made is not None:  # if it was not stored after all, there is nothing to undo
                take_back = partial(keeping.undo, key=made.key, now=now, policy=self._policy)
                with suppress(StoreError):  # what cannot be undone, heartbeats find
                    await self._transactions.write(take_back, surely=True)
            raise

    async def heartbeat(self, key: SessionKey, heartbeat: Heartbeat, *, now: datetime) -> HeartbeatAnswer:
        """Renew a session, and do what its heartbeat means."""
        work = partial(keeping.heartbeat, key=key, heartbeat=heartbeat, now=now, policy=self._policy)
        return await self._transactions.write(work)

    async def report(self, key: SessionKey, job_id: JobId, report: Report, *, now: datetime) -> ReportAnswer:
        """Do what a report means for its job."""
        work = partial(keeping.report, key=key, job_id=job_id, said=report, now=now, policy=self._policy)
        return await self._transactions.write(work)

    async def release(self, key: AttemptKey, *, now: datetime) -> Change:
        """Give an attempt back on behalf of its node."""
        work = partial(keeping.release, key=key, now=now, policy=self._policy)
        return await self._transactions.write(work)

    async def undo(self, key: AttemptKey, *, now: datetime) -> Change:
        """Take an assignment back that its node cannot have heard of."""
        work = partial(keeping.undo, key=key, now=now, policy=self._policy)
        return await self._transactions.write(work)

    # ------------------------------------------------------------ StoreUpkeep

    async def sweep(self, *, now: datetime) -> SweepAnswer:
        """End the attempts whose session or lease has run out."""
        return await self._transactions.write(partial(upkeep.sweep, now=now, policy=self._policy))

    async def resume(self, *, now: datetime, after: ResumeCursor | None = None) -> ResumeCursor | None:
        """Give the next sessions and leases their whole time anew."""
        work = partial(upkeep.resume, now=now, after=after, policy=self._policy)
        return await self._transactions.write(work)

    async def purge(self, *, finished_before: datetime, limit: int = SWEEP_JOBS_MAX) -> int:
        """Delete jobs that ended before an instant."""
        work = partial(upkeep.purge, finished_before=finished_before, limit=limit)
        return await self._transactions.write(work)

    # ------------------------------------------------------------ SessionStore

    async def register(self, session: NodeSession, *, token_sha256: bytes) -> NodeSession:
        """Store a new session."""
        work = partial(keeping.register, session=session, token_sha256=token_sha256)
        return await self._transactions.write(work)

    async def look_up(self, key: SessionKey, *, now: datetime) -> NodeSession:
        """Return the session that a node shows, without renewing it."""
        return await self._transactions.read(partial(keeping.look_up, key=key, now=now))

    async def live(self, tenant: TenantId, *, now: datetime) -> tuple[NodeSession, ...]:
        """Return a tenant's live sessions, the earliest registered first."""
        return await self._transactions.read(lambda books: books.live_sessions(tenant, at=now))

    async def live_count(self, *, now: datetime) -> int:
        """Return how many sessions of all tenants are live."""
        return await self._transactions.read(lambda books: books.live_count(at=now))


if TYPE_CHECKING:
    _jobs: type[JobStore] = Store
    _attempts: type[AttemptStore] = Store
    _upkeep: type[StoreUpkeep] = Store
    _sessions: type[SessionStore] = Store
