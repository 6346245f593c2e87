"""Jobs with their attempts in memory, and the orders in which they are asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from heapq import merge
from itertools import islice, takewhile
from typing import Final

from vmafx.adapters.store.ordered import Grouped, Ordered
from vmafx.adapters.store.transaction import changed_rows
from vmafx.domain.attempt import JobHistory
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, SessionId, TenantId
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import QueueCounts, Waiting

__all__ = ["JobTable"]

_BEFORE_JOBS: Final = JobId("")


class JobTable:
    """The part of `vmafx.adapters.store.transaction.Transaction` that is about jobs."""

    def __init__(self) -> None:
        self._histories: dict[JobId, JobHistory] = {}
        self._keyed: dict[tuple[TenantId, str], JobId] = {}
        self._listed = Grouped[tuple[TenantId, JobStatus], tuple[datetime, JobId]]()  # as submitted
        # Pending jobs are in one of two: those that a claim may look at, as they are to be claimed, and those
        # that are to wait longer, as they will become available.
        self._ready = Grouped[tuple[TenantId, Backend | None], tuple[int, datetime, JobId]]()
        self._waiting = Grouped[TenantId, tuple[datetime, JobId]]()
        self._waits: set[JobId] = set()
        self._available = Ordered[tuple[datetime, JobId]]()  # pending jobs, as they become available
        self._asked = Counter[tuple[TenantId, Backend]]()  # pending jobs that ask for one
        self._leases = Ordered[tuple[datetime, JobId]]()  # as they run out
        self._held = Ordered[tuple[SessionId, JobId]]()
        self._finished = Ordered[tuple[datetime, JobId]]()  # as they ended

    # ------------------------------------------------------------ reading

    def job(self, job_id: JobId) -> Job | None:
        """Return a job of any tenant."""
        found = self._histories.get(job_id)
        return None if found is None else found.job

    def history(self, job_id: JobId) -> JobHistory | None:
        """Return a job of any tenant with all its attempts."""
        return self._histories.get(job_id)

    def page(
        self, tenant: TenantId, *, statuses: frozenset[JobStatus], after: JobCursor | None, limit: int
    ) -> tuple[Job, ...]:
        """Return jobs of a tenant as they were submitted."""
        place = None if after is None else (after.created_at, after.job_id)
        each = (self._listed.of((tenant, status)).above(place) for status in statuses or JobStatus)
        return tuple(self._histories[job_id].job for _, job_id in islice(merge(*each), limit))

    def counts(self) -> tuple[QueueCounts, ...]:
        """Return the counts of each tenant with a pending or running job."""
        unfinished = {tenant for tenant, status in self._listed.groups() if not status.terminal}
        return tuple(self._counts(tenant) for tenant in sorted(unfinished))

    def waiting(self, *, at_most: int) -> tuple[Waiting, ...]:
        """Return the pending jobs that ask for a backend, each pair of tenant and backend in order."""
        return tuple(
            Waiting(tenant=tenant, backend=backend, pending=min(at_most, self._asked[tenant, backend]))
            for tenant, backend in sorted(self._asked, key=lambda asked: (asked[0], asked[1].value))
        )

    def submitted_as(self, tenant: TenantId, idempotency_key: str) -> Job | None:
        """Return the tenant's job that was stored under an idempotency key."""
        job_id = self._keyed.get((tenant, idempotency_key))
        return None if job_id is None else self._histories[job_id].job

    def pending(self, tenant: TenantId, *, at_most: int) -> int:
        """Return how many jobs of the tenant are pending."""
        return min(at_most, len(self._listed.of((tenant, JobStatus.PENDING))))

    def next_claimable(self, tenant: TenantId, *, backends: frozenset[Backend], at: datetime) -> Job | None:
        """Return the first job in the order of the queue that such a node may claim."""
        waiting = self._waiting.of(tenant)
        while (due := waiting.first()) is not None and due[0] <= at:
            self._requeue(self._histories[due[1]].job, waits=False)
        heads = (self._head(tenant, backend, at=at) for backend in (None, *backends))
        first = min((head for head in heads if head is not None), default=None)
        return None if first is None else self._histories[first[-1]].job

    def waits_beyond(self, at: datetime, *, limit: int) -> tuple[JobId, ...]:
        """Return pending jobs of all tenants with `available_at > at`."""
        above = self._available.above((at, _BEFORE_JOBS))
        return tuple(islice((job_id for available_at, job_id in above if available_at > at), limit))

    def held(self, session_id: SessionId) -> tuple[JobId, ...]:
        """Return the jobs whose open attempt a session holds, by id."""
        above = self._held.above((session_id, _BEFORE_JOBS))
        return tuple(job_id for _, job_id in takewhile(lambda held: held[0] == session_id, above))

    def leases(self, *, after: tuple[SessionId, JobId], limit: int) -> tuple[tuple[SessionId, JobId], ...]:
        """Return open attempts by session, then by job."""
        return tuple(islice(self._held.above(after), limit))

    def leases_over(self, *, at: datetime, limit: int) -> tuple[tuple[datetime, JobId], ...]:
        """Return the leases that ran out before an instant, and their jobs."""
        return tuple(islice(takewhile(lambda lease: lease[0] < at, self._leases.above()), limit))

    # ------------------------------------------------------------ writing

    def add_job(self, job: Job) -> None:
        """Store a job that is not there."""
        if job.idempotency_key is not None:
            self._keyed[job.tenant, job.idempotency_key] = job.id
        self._file(JobHistory(job=job))

    def write_job(self, before: JobHistory, after: JobHistory) -> None:
        """Store what an event changed."""
        stored = self._taken_out(before.job.id)
        rows = changed_rows(before, after)
        changed = {old.number: new for old, new in rows.changed}
        attempts = [changed.get(attempt.number, attempt) for attempt in stored.attempts]
        if rows.opened is not None:
            attempts.append(rows.opened)
        self._file(replace(after, attempts=tuple(attempts)))

    def purge(self, *, finished_before: datetime, limit: int) -> int:
        """Delete jobs that ended before an instant."""
        over = takewhile(lambda end: end[0] < finished_before, self._finished.above())
        ended = [job_id for _, job_id in islice(over, limit)]
        for job_id in ended:
            job = self._taken_out(job_id).job
            if job.idempotency_key is not None:
                del self._keyed[job.tenant, job.idempotency_key]
        return len(ended)

    # ------------------------------------------------------------ the orders

    def _file(self, history: JobHistory) -> None:
        job, current = history.job, history.current
        self._histories[job.id] = history
        self._listed.add((job.tenant, job.status), (job.created_at, job.id))
        if job.status is JobStatus.PENDING:
            self._queue(job, waits=job.available_at > job.updated_at)
            self._available.add((job.available_at, job.id))
            self._ask(job, 1)
        if current is not None and current.lease_expires_at is not None:
            self._leases.add((current.lease_expires_at, job.id))
            self._held.add((current.session, job.id))
        if job.finished_at is not None:
            self._finished.add((job.finished_at, job.id))

    def _taken_out(self, job_id: JobId) -> JobHistory:
        history = self._histories.pop(job_id)
        job, current = history.job, history.current
        self._listed.remove((job.tenant, job.status), (job.created_at, job.id))
        if job.status is JobStatus.PENDING:
            self._dequeue(job)
            self._available.remove((job.available_at, job.id))
            self._ask(job, -1)
        if current is not None and current.lease_expires_at is not None:
            self._leases.remove((current.lease_expires_at, job.id))
            self._held.remove((current.session, job.id))
        if job.finished_at is not None:
            self._finished.remove((job.finished_at, job.id))
        return history

    def _queue(self, job: Job, *, waits: bool) -> None:
        if waits:
            self._waits.add(job.id)
            self._waiting.add(job.tenant, (job.available_at, job.id))
        else:
            self._ready.add((job.tenant, job.spec.backend), (-job.priority, job.created_at, job.id))

    def _dequeue(self, job: Job) -> None:
        if job.id in self._waits:
            self._waits.remove(job.id)
            self._waiting.remove(job.tenant, (job.available_at, job.id))
        else:
            self._ready.remove((job.tenant, job.spec.backend), (-job.priority, job.created_at, job.id))

    def _ask(self, job: Job, more: int) -> None:
        backend = job.spec.backend
        if backend is not None:
            asked = (job.tenant, backend)
            self._asked[asked] += more
            if not self._asked[asked]:
                del self._asked[asked]

    def _head(
        self, tenant: TenantId, backend: Backend | None, *, at: datetime
    ) -> tuple[int, datetime, JobId] | None:
        """Return the first of the jobs that ask for a backend, when it may be claimed at that instant."""
        ready = self._ready.of((tenant, backend))
        while (first := ready.first()) is not None:
            job = self._histories[first[-1]].job
            if job.available_at <= at:
                return first
            self._requeue(job, waits=True)  # the caller's time stepped back
        return None

    def _requeue(self, job: Job, *, waits: bool) -> None:
        self._dequeue(job)
        self._queue(job, waits=waits)

    def _counts(self, tenant: TenantId) -> QueueCounts:
        pending = self._listed.of((tenant, JobStatus.PENDING))
        oldest = pending.first()
        return QueueCounts(
            tenant=tenant,
            pending=len(pending),
            running=len(self._listed.of((tenant, JobStatus.RUNNING))),
            oldest_pending_at=None if oldest is None else oldest[0],
        )
