"""Stores of jobs and attempts: what clients, nodes and the controller's upkeep ask of them (ADR 0012).

A store keeps jobs, attempts and sessions, and decides nothing: it reads a history, has
`vmafx.domain.lifecycle.step` tell what an event leads to, and writes that. What holds for every method:

- One call is one transaction: it takes effect as a whole or not at all, it is on disk before it is answered,
  and calls that run side by side come out as if in some order.
- A write is conditional: its `WHERE` names job, tenant, status, attempt number and session as they were read,
  and the step is taken again from what is there now when they no longer fit. An ended job is never written.
- `now` is aware and comes from the caller; no store and no query reads a clock. Leases and sessions hold at
  their last instant and not after it; a waiting job is available from its first instant on.
- A tenant is part of every question. A job or session of another tenant is as if it were not there, but for
  the errors that say so. An id that the store could never have given names nothing.
- A call whose caller is cancelled has taken effect or has not; what it left is what a repeated call finds.
- `StoreUnavailableError` may come from any method; making the call again is safe.
- A store is made with the `LeasePolicy` of its controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from vmafx.domain.attempt import Attempt, JobHistory
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, SessionId, TenantId
from vmafx.domain.job_events import JobEffect
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import NodeSession, SessionKey
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.scoring import Backend

__all__ = [
    "PAGE_JOBS_MAX",
    "PULL_BACKENDS_MAX",
    "SWEEP_JOBS_MAX",
    "WAITING_COUNTED_MAX",
    "AttemptKey",
    "AttemptStore",
    "Change",
    "Claim",
    "HeartbeatAnswer",
    "JobStore",
    "QueueCounts",
    "ReportAnswer",
    "ResumeCursor",
    "StoreUpkeep",
    "Submission",
    "SweepAnswer",
    "Waiting",
]

PAGE_JOBS_MAX: Final = 10_000
"""How many jobs one listing may return."""
PULL_BACKENDS_MAX: Final = 16
"""How many backends a pull may name."""
SWEEP_JOBS_MAX: Final = 1000
"""How many jobs one sweep, one purge, or one step of a resumption, may write."""
WAITING_COUNTED_MAX: Final = 10_000
"""How far jobs that wait for one backend are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a call did to a job.

    Attributes:
        job: The job after it.
        effects: What others must know, in order; empty when nothing of interest happened.
    """

    job: Job
    effects: tuple[JobEffect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The answer to a submission.

    Attributes:
        job: The job that is stored.
        created: Whether this call stored it; False when its idempotency key had stored it before.
    """

    job: Job
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How much a tenant has in hand.

    Attributes:
        tenant: The tenant.
        pending: How many of its jobs are pending.
        running: How many run.
        oldest_pending_at: When the oldest pending one was submitted; None when none is pending.
    """

    tenant: TenantId
    pending: int
    running: int
    oldest_pending_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Jobs of a tenant that wait for one backend.

    Attributes:
        tenant: The tenant.
        backend: The backend that they ask for.
        pending: How many of them are pending, counted up to 10,000; at least 1.
    """

    tenant: TenantId
    backend: Backend
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """Names an assignment to a session; a later one of the same job has another.

    Attributes:
        tenant: Whose job it is.
        job_id: The job.
        attempt: The attempt's number.
        session: The session that it was given to.
    """

    tenant: TenantId
    job_id: JobId
    attempt: int
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job that was assigned.

    Attributes:
        job: The job, running.
        attempt: The attempt that was opened for it.
    """

    job: Job
    attempt: Attempt

    @property
    def key(self) -> AttemptKey:
        """What names the assignment."""
        return AttemptKey(
            tenant=self.job.tenant,
            job_id=self.job.id,
            attempt=self.attempt.number,
            session=self.attempt.session,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """What an accepted heartbeat did.

    Attributes:
        session: The session, renewed.
        cancelled: The listed jobs that were cancelled, each once, in the order they are listed.
        changes: The jobs to which something of interest happened.
    """

    session: NodeSession
    cancelled: tuple[JobId, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """What a report did.

    Attributes:
        verdict: How it was judged.
        change: What that did to the job; None when there is no such job of the tenant.
    """

    verdict: ReportVerdict
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer:
    """What a sweep did.

    Attributes:
        changes: The jobs whose attempts were lost.
        sessions_ended: The sessions that were removed.
        more: Whether there may be more to sweep at the same instant.
    """

    changes: tuple[Change, ...] = ()
    sessions_ended: tuple[NodeSession, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeCursor:
    """How far a resumption has come: through the sessions by id, then through the leases by session and job.

    Attributes:
        session: The session of the last place; empty before the first.
        job_id: The job of the last place; None while it goes through the sessions.
    """

    session: SessionId
    job_id: JobId | None = None


class JobStore(Protocol):
    """Jobs, as those who submit them see them."""

    async def submit(self, job: Job, *, pending_max: int | None = None) -> Submission:
        """Store a job that was just submitted.

        Under an idempotency key that the tenant used before, the job stored then is the answer, whatever has
        become of it; `pending_max` does not matter then. So a submission with a key may be repeated. The same
        job once more, by its id, is answered likewise.

        Args:
            job: The job, as `Job.submitted` made it.
            pending_max: How many pending jobs the tenant may have, this one included; None for any number.

        Raises:
            ValueError: The id is another job's.
            SubmissionConflictError: The key was used for something else.
            QueueFullError: The tenant has as many pending jobs as it may.
        """
        ...

    async def get(self, tenant: TenantId, job_id: JobId) -> Job:
        """Return a job.

        Raises:
            ForeignJobError: It is another tenant's.
            JobNotFoundError: There is none.
        """
        ...

    async def history(self, tenant: TenantId, job_id: JobId) -> JobHistory:
        """Return a job with all its attempts.

        Raises:
            ForeignJobError: It is another tenant's.
            JobNotFoundError: There is none.
        """
        ...

    async def page(
        self,
        tenant: TenantId,
        *,
        statuses: frozenset[JobStatus] = frozenset(),
        after: JobCursor | None = None,
        limit: int = PAGE_JOBS_MAX,
    ) -> tuple[Job, ...]:
        """Return jobs of a tenant as they are at one instant, the oldest first, then by id.

        A job keeps its place for its whole life, so that pages joined by their last place show each job that
        was there from first to last once.

        Args:
            tenant: Whose jobs.
            statuses: The statuses to show; none means all.
            after: The place to go on after, as `Job.cursor` of the last job seen; None for the beginning.
            limit: How many at most, 1 to 10,000.

        Raises:
            ValueError: `limit` is outside its range.
        """
        ...

    async def cancel(self, tenant: TenantId, job_id: JobId, *, now: datetime) -> Change:
        """Cancel a job, unless it has ended.

        Returns:
            The job after it; `Finished` is among the effects exactly when this call ended it.

        Raises:
            ForeignJobError: It is another tenant's.
            JobNotFoundError: There is none.
        """
        ...

    async def counts(self) -> tuple[QueueCounts, ...]:
        """Return how much each tenant with a pending or running job has in hand, without reading a job."""
        ...

    async def waiting(self) -> tuple[Waiting, ...]:
        """Return how many pending jobs ask for which backend, by tenant and then by the backend's word.

        Jobs that run anywhere are left out; those that wait out a loss are counted. What it costs does not
        grow with the number of jobs.
        """
        ...


class AttemptStore(Protocol):
    """Jobs, as nodes see them: every call but a release is made under a live session.

    A session that is unknown, no longer live, another tenant's, or shown with the wrong secret is refused
    with `SessionNotFoundError`, in the same transaction, and nothing changes.
    """

    async def claim(
        self,
        key: SessionKey,
        backends: frozenset[Backend],
        *,
        now: datetime,
        pull_deadline_at: datetime | None = None,
    ) -> Claim | None:
        """Assign the next job that the node may run: the one that `next_claimable` would choose.

        No two calls get one job for the same attempt. A call that is cancelled leaves no assignment: when it
        was too late to stop it, it is undone before the cancellation goes on. An answer that is lost later is
        for `undo`, or for heartbeats to find.

        Args:
            key: The node's session.
            backends: What the node can run now; at most 16.
            now: The instant of the pull.
            pull_deadline_at: Until when the node waits for the answer; None when it did not say.

        Returns:
            The job and its new attempt; None when there is none for this node.

        Raises:
            SessionNotFoundError: The session is refused.
            ValueError: Too many backends.
        """
        ...

    async def heartbeat(self, key: SessionKey, heartbeat: Heartbeat, *, now: datetime) -> HeartbeatAnswer:
        """Renew a session, and do what its heartbeat means for every job that it lists or holds.

        Each listed job of the tenant and each running job that the session holds meets `HeartbeatSeen` once,
        with the sight of it that the heartbeat gives; how many the session holds is counted before. Only an
        accepted heartbeat renews a session.

        Args:
            key: The node's session.
            heartbeat: What the node says.
            now: When it was received.

        Raises:
            SessionNotFoundError: The session is refused.
        """
        ...

    async def report(self, key: SessionKey, job_id: JobId, report: Report, *, now: datetime) -> ReportAnswer:
        """Do what a report means for its job, by `judge_report`.

        A report that comes again is ignored, or judged as what it then is; a job that does not exist, or is
        another tenant's, is refused. Partial scores are judged and not stored.

        Args:
            key: The node's session.
            job_id: The job, as the node names it.
            report: What the node says of it.
            now: When it was received.

        Raises:
            SessionNotFoundError: The session is refused.
        """
        ...

    async def release(self, key: AttemptKey, *, now: datetime) -> Change:
        """Give an attempt back on behalf of its node: the job is pending at once, nothing counts as lost.

        Nothing changes when the attempt is no longer the running one under the same session; so it may be
        repeated.

        Args:
            key: What was assigned.
            now: When.

        Returns:
            The job after it; `Requeued` is among the effects exactly when this call released it.

        Raises:
            JobNotFoundError: The job is gone.
        """
        ...

    async def undo(self, key: AttemptKey, *, now: datetime) -> Change:
        """Take an assignment back that its node cannot have heard of; like `release`, under its own reason.

        Args:
            key: What was assigned.
            now: When.

        Returns:
            The job after it; `Requeued` is among the effects exactly when this call undid it.

        Raises:
            JobNotFoundError: The job is gone.
        """
        ...


class StoreUpkeep(Protocol):
    """What a controller does for all tenants at once, from time to time."""

    async def sweep(self, *, now: datetime) -> SweepAnswer:
        """End the attempts whose session or lease has run out, then remove the sessions that have.

        A session is removed in the transaction that ends its attempts, never before. The running jobs of a
        session that is no longer live meet `SessionLost`; those whose lease alone ran out, `LeaseExpired`;
        the ones that ran out first come first, at most 1000 in one call. Running it twice, or on several
        replicas at once, ends each attempt once. It fails whenever no heartbeat could be stored, also when
        there is nothing to end.

        Args:
            now: The instant to judge by.
        """
        ...

    async def resume(self, *, now: datetime, after: ResumeCursor | None = None) -> ResumeCursor | None:
        """Give sessions and leases their whole time anew, at most 1000 in one step: the controller was away.

        Running jobs meet `LeaseExtended`; each kept session's life is `NodeSession.extended`. Jobs that wait
        longer than after any loss, since the clock went back, meet `WaitJudged`. All steps are to be made,
        one after another, before the first sweep after a start, and before one that comes far too late; a
        sweep in between would end what has not had its turn. A session or lease that is new or renewed
        meanwhile may be passed over. To begin again from the start does no harm.

        Args:
            now: When the step is made.
            after: What the step before returned; None for the first one.

        Returns:
            What to pass to the next step; None when this was the last one.
        """
        ...

    async def purge(self, *, finished_before: datetime, limit: int = SWEEP_JOBS_MAX) -> int:
        """Delete jobs, with their attempts, that ended before an instant; those that ended first come first.

        Args:
            finished_before: Jobs that ended at this instant or later stay.
            limit: How many to delete at most, 1 to 1000.

        Returns:
            How many were deleted; fewer than `limit` means that no more are left.

        Raises:
            ValueError: `limit` is outside its range.
        """
        ...
