"""An attempt: one assignment of a job to a session; its number is the fencing token (ADR 0012)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from vmafx.domain.job import Job, JobStatus, NodeName, SessionId
from vmafx.domain.nodesession import InstanceId, NodeSession

__all__ = ["Attempt", "AttemptOutcome", "JobHistory", "violations"]


class AttemptOutcome(Enum):
    """How an attempt ended; the values are the stored words."""

    COMPLETED = "completed"
    """Its success is the job's result."""
    FAILED = "failed"
    """It failed; the job failed with it or was tried again."""
    RELEASED = "released"
    """Its node gave it back."""
    EXPIRED = "expired"
    """Its lease or its session ran out; a newer session of the same process may still take it over."""
    CANCELLED = "cancelled"
    """The job was cancelled."""
    NEVER_STARTED = "never_started"
    """Its node never began it."""
    UNDONE = "undone"
    """Its node was gone before it could be told of it."""
    SUPERSEDED = "superseded"
    """It still ran when the success of an earlier attempt ended the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One assignment.

    Attributes:
        number: The fencing token, from 1, in the order of assignment.
        node: The name of the node that got it; a takeover never changes it.
        session: The session that holds it, or held it last.
        session_registered_at: When that session registered.
        first_registered_at: When the session that was given it first registered. That session and the later
            ones of the same name may report its success.
        started_at: When it was assigned.
        pull_deadline_at: Until when the node waited for the answer that assigned it.
        instance: The process that holds it; None when the node does not say.
        lease_expires_at: The last instant at which its lease holds; None exactly when it has ended.
        listed: Whether its node ever spoke for it in a heartbeat.
        unlisted_heartbeats: How many heartbeats in a row said that its node does not run it, while it had
            never been listed.
        outcome: How it ended; None while it is open.
        ended_at: When it ended; None while it is open.
        error: What was wrong when it ended, in words; None when nothing was.
    """

    number: int
    node: NodeName
    session: SessionId
    session_registered_at: datetime
    first_registered_at: datetime
    started_at: datetime
    pull_deadline_at: datetime
    instance: InstanceId | None = None
    lease_expires_at: datetime | None = None
    listed: bool = False
    unlisted_heartbeats: int = 0
    outcome: AttemptOutcome | None = None
    ended_at: datetime | None = None
    error: str | None = None

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.outcome is None

    def lease_holds(self, at: datetime) -> bool:
        """Return whether its lease holds: at `lease_expires_at` it does, just after that it does not."""
        return self.lease_expires_at is not None and at <= self.lease_expires_at

    def held_by(self, session: NodeSession) -> bool:
        """Return whether `session` holds it, or held it last."""
        return self.session == session.id

    def held_before(self, session: NodeSession) -> bool:
        """Return whether a session of the same name that registered before `session` held it last."""
        return self.node == session.node and self.session_registered_at < session.registered_at

    def reportable_by(self, session: NodeSession) -> bool:
        """Return whether `session`, or an earlier one of the same name, holds it or ever held it."""
        return self.node == session.node and self.first_registered_at <= session.registered_at


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """A job together with its attempts: the state that every decision about it is taken on.

    Decisions look at the latest attempt and at those of the node that speaks, and a claim at none, so a store
    need not read the others.

    Attributes:
        job: The job.
        attempts: Its attempts, the earliest first.
    """

    job: Job
    attempts: tuple[Attempt, ...] = ()

    @property
    def latest(self) -> Attempt | None:
        """The attempt that was assigned last; None when there was none."""
        return self.attempts[-1] if self.attempts else None

    @property
    def current(self) -> Attempt | None:
        """The attempt under which the job runs; None when it does not run."""
        latest = self.latest
        return latest if latest is not None and latest.open else None

    def held_by_name(self, node: NodeName) -> bool:
        """Return whether a session of this node name ever held an attempt of the job."""
        return any(attempt.node == node for attempt in self.attempts)


def violations(history: JobHistory) -> tuple[str, ...]:
    """Return in words what is wrong with a history, for whoever checks what a store holds."""
    return tuple(claim for claim, true in _claims(history) if not true)


def _claims(history: JobHistory) -> Iterator[tuple[str, bool]]:
    job, attempts, status = history.job, history.attempts, history.job.status
    numbers = [attempt.number for attempt in attempts]
    completed = [a for a in attempts if a.outcome is AttemptOutcome.COMPLETED]
    yield (
        "a job runs exactly when its latest attempt is open",
        ((status is JobStatus.RUNNING) == (history.current is not None)),
    )
    yield "only the latest attempt is open", not any(attempt.open for attempt in attempts[:-1])
    yield (
        "an attempt has a lease exactly when it is open",
        all(a.open == (a.lease_expires_at is not None) for a in attempts),
    )
    yield (
        "an attempt has an end exactly when it has an outcome",
        all(a.open == (a.ended_at is None) for a in attempts),
    )
    yield "attempt numbers grow", all(x < y for x, y in zip([0, *numbers], numbers, strict=False))
    yield "the job knows its latest attempt", not numbers or job.attempt == numbers[-1]
    yield "a job has an end exactly when it is terminal", (job.finished_at is not None) == status.terminal
    yield (
        "a job has a result exactly when it completed",
        ((job.result is not None) == (status is JobStatus.COMPLETED)),
    )
    yield (
        "a job has an error exactly when it failed",
        ((job.error is not None) == (status is JobStatus.FAILED)),
    )
    yield (
        "one attempt at most completed, and only with the job",
        (len(completed) <= (1 if status is JobStatus.COMPLETED else 0)),
    )
    yield (
        "losses stay below their limit until the last one fails the job",
        (
            0 <= job.lost_attempts <= job.max_lost_attempts
            and (job.lost_attempts < job.max_lost_attempts or status is JobStatus.FAILED)
        ),
    )
    yield "a pending job is assigned to nobody", status is not JobStatus.PENDING or job.assigned_node is None
    yield (
        "a running job is assigned to the node of its attempt",
        (history.current is None or job.assigned_node == history.current.node),
    )
