"""What a store must be able to do: read and write rows in transactions (ADR 0023).

Nothing here decides: a read answers a question about rows, a write stores rows that are given. What to read
and what to write in which call, `vmafx.adapters.store.keeping` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from vmafx.domain.attempt import Attempt, JobHistory
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, NodeName, SessionId, TenantId
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import QueueCounts, Waiting

__all__ = ["JobRows", "KeptSession", "Reading", "Transaction", "Transactions", "changed_rows"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """A session as it is stored.

    Attributes:
        session: The session.
        token_sha256: The SHA-256 of its secret.
    """

    session: NodeSession
    token_sha256: bytes = field(repr=False)


class Reading(Protocol):
    """What is stored, all of it as it is at one instant."""

    def job(self, job_id: JobId) -> Job | None:
        """Return a job of any tenant."""
        ...

    def history(self, job_id: JobId) -> JobHistory | None:
        """Return a job of any tenant with all its attempts, the earliest first."""
        ...

    def page(
        self, tenant: TenantId, *, statuses: frozenset[JobStatus], after: JobCursor | None, limit: int
    ) -> tuple[Job, ...]:
        """Return jobs of a tenant by `created_at`, then by id by code point; no statuses means all."""
        ...

    def counts(self) -> tuple[QueueCounts, ...]:
        """Return the counts of each tenant with a pending or running job, by tenant."""
        ...

    def waiting(self, *, at_most: int) -> tuple[Waiting, ...]:
        """Return the pending jobs that ask for a backend, each pair of tenant and backend in order.

        Args:
            at_most: How far they are counted for each.
        """
        ...

    def session(self, session_id: SessionId) -> KeptSession | None:
        """Return a session of any tenant, live or not."""
        ...

    def live_sessions(self, tenant: TenantId, *, at: datetime) -> tuple[NodeSession, ...]:
        """Return a tenant's sessions with `expires_at >= at`, by `registered_at`, then by id."""
        ...

    def live_count(self, *, at: datetime) -> int:
        """Return how many sessions of all tenants have `expires_at >= at`."""
        ...


class Transaction(Reading, Protocol):
    """One transaction that may write; it sees what it wrote itself."""

    def submitted_as(self, tenant: TenantId, idempotency_key: str) -> Job | None:
        """Return the tenant's job that was stored under an idempotency key."""
        ...

    def pending(self, tenant: TenantId, *, at_most: int) -> int:
        """Return how many jobs of the tenant are pending, or `at_most` when there are more."""
        ...

    def next_claimable(self, tenant: TenantId, *, backends: frozenset[Backend], at: datetime) -> Job | None:
        """Return the job that `vmafx.domain.job.next_claimable` would choose of all that are stored."""
        ...

    def waits_beyond(self, at: datetime, *, limit: int) -> tuple[JobId, ...]:
        """Return pending jobs of all tenants with `available_at > at`, in any order."""
        ...

    def held(self, session_id: SessionId) -> tuple[JobId, ...]:
        """Return the jobs whose open attempt a session holds, by id."""
        ...

    def leases(self, *, after: tuple[SessionId, JobId], limit: int) -> tuple[tuple[SessionId, JobId], ...]:
        """Return open attempts of all tenants by session, then by job, those above a place only."""
        ...

    def sessions(self, *, after: SessionId, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions of all tenants, live or not, by id, those above one only."""
        ...

    def newest_registration(self, tenant: TenantId, node: NodeName) -> datetime | None:
        """Return the latest `registered_at` of the sessions kept under a node name, live or not."""
        ...

    def sessions_over(self, *, at: datetime, limit: int) -> tuple[NodeSession, ...]:
        """Return sessions with `expires_at < at`, by `expires_at`, then by id."""
        ...

    def leases_over(self, *, at: datetime, limit: int) -> tuple[tuple[datetime, JobId], ...]:
        """Return open attempts with `lease_expires_at < at`, as that instant and the job, in this order."""
        ...

    def add_job(self, job: Job) -> None:
        """Store a job that is not there, under its idempotency key if it has one."""
        ...

    def write_job(self, before: JobHistory, after: JobHistory) -> None:
        """Store what an event changed, on condition that `before` is still what is stored.

        `before` may lack attempts that did not matter; what is to be written, `changed_rows` tells.
        """
        ...

    def add_session(self, kept: KeptSession) -> None:
        """Store a session under an id that no other has."""
        ...

    def write_session(self, session: NodeSession) -> None:
        """Store how far a kept session lives and when its last heartbeat was; nothing else of it changes."""
        ...

    def remove_session(self, session_id: SessionId) -> None:
        """Remove a session; no open attempt is held by it."""
        ...

    def try_writing(self) -> None:
        """Write what changes nothing: the transaction ends well only where others that write can."""
        ...

    def purge(self, *, finished_before: datetime, limit: int) -> int:
        """Delete jobs with `finished_at < finished_before`, and their attempts; by `finished_at`, then id.

        Returns:
            How many were deleted.
        """
        ...


class Transactions(Protocol):
    """Runs work in transactions.

    Work runs as if alone: it is one after another in some order, on no particular thread, never waits, and
    sees every transaction that was answered before it was asked for. What it raises ends its own transaction
    and nothing else; it raises nothing after its first write but what the transaction raised.

    A caller that is cancelled before its work began leaves it undone. Later it is too late: the call goes on
    until the work is stored or has failed, and the cancellation comes then.
    """

    async def read(self, work: Callable[[Reading], T]) -> T:
        """Return what `work` returns.

        Raises:
            StoreUnavailableError: What is stored cannot be read.
        """
        ...

    async def write(self, work: Callable[[Transaction], T], *, surely: bool = False) -> T:
        """Return what `work` returns, once all that it wrote is stored for good.

        Args:
            work: What to do; called at most once, unless what it wrote was not stored.
            surely: Whether it is done also when the caller is cancelled before it began.

        Raises:
            StoreUnavailableError: It cannot be stored, or it is unknown whether it was.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRows:
    """What is to be written after an event.

    Attributes:
        job: The job after it; None when the job itself did not change.
        opened: The attempt that was opened; None when none was.
        changed: The attempts that changed, each as it was and as it is.
    """

    job: Job | None
    opened: Attempt | None
    changed: tuple[tuple[Attempt, Attempt], ...]


def changed_rows(before: JobHistory, after: JobHistory) -> JobRows:
    """Return which rows differ between two histories of a job, the second one event after the first."""
    pairs = tuple(zip(before.attempts, after.attempts, strict=False))
    opened = after.attempts[len(before.attempts) :]
    return JobRows(
        job=None if after.job is before.job else after.job,
        opened=opened[0] if opened else None,
        changed=tuple((old, new) for old, new in pairs if new is not old),
    )
