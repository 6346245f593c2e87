"""What can happen to a job, which moves that allows, and what others must know of it (ADR 0012)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from vmafx.domain.job import JobStatus, NodeName, RequeueReason, SessionId
from vmafx.domain.lease import Sight
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.scoring import Backend

__all__ = [
    "MOVES",
    "Assigned",
    "AssignmentUndone",
    "CancelAsked",
    "Claimed",
    "Finished",
    "HeartbeatSeen",
    "JobEffect",
    "JobEvent",
    "LeaseExpired",
    "LeaseExtended",
    "LeaseRenewed",
    "LossCounted",
    "Released",
    "ReportJudged",
    "ReportReceived",
    "Requeued",
    "SessionLost",
    "TakenOver",
    "WaitJudged",
]

# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A node pulls, and this job is the next that it may run.

    Attributes:
        at: When.
        session: The session that pulls, live.
        backends: What its node can run now.
        pull_deadline_at: Until when the node waits for the answer; None when it did not say.
    """

    at: datetime
    session: NodeSession
    backends: frozenset[Backend] = frozenset()
    pull_deadline_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSeen:
    """A heartbeat was accepted that lists the job, or whose session holds it.

    Attributes:
        at: When it was received.
        session: The session that beats.
        sight: What the heartbeat says of the job.
        holder_seen_at: When the last heartbeat of the session of the latest attempt was accepted; None when
            there was none or the session is no longer kept.
    """

    at: datetime
    session: NodeSession
    sight: Sight
    holder_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReceived:
    """A node reports.

    Attributes:
        at: When.
        reporter: The session that reports, live.
        report: What it says.
        holder_seen_at: When the last heartbeat of the session of the latest attempt was accepted; None when
            there was none or the session is no longer kept.
    """

    at: datetime
    reporter: NodeSession
    report: Report
    holder_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """The job's owner asks for its end.

    Attributes:
        at: When.
    """

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """A sweep found the lease of an attempt run out.

    Attributes:
        at: When the sweep looked.
        attempt: The attempt's number.
        session: The session that held it.
    """

    at: datetime
    attempt: int
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost:
    """A session is no longer live.

    Attributes:
        at: When that was found.
        session: The session.
    """

    at: datetime
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A node gives an attempt back.

    Attributes:
        at: When.
        attempt: The attempt's number.
        session: The session that gives it back.
    """

    at: datetime
    attempt: int
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentUndone:
    """A node was gone before it could be told of an assignment.

    Attributes:
        at: When.
        attempt: The attempt's number.
        session: The session that pulled.
    """

    at: datetime
    attempt: int
    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExtended:
    """The controller was away: nobody could have renewed a lease, so each one is given its whole time anew.

    Attributes:
        at: When it was back.
    """

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitJudged:
    """The controller was away, and its clock may have gone back: no job waits longer than its losses warrant.

    Attributes:
        at: When it was back.
    """

    at: datetime


JobEvent: TypeAlias = (
    Claimed
    | HeartbeatSeen
    | ReportReceived
    | CancelAsked
    | LeaseExpired
    | SessionLost
    | Released
    | AssignmentUndone
    | LeaseExtended
    | WaitJudged
)

# ---------------------------------------------------------------- moves

MOVES: Final[Mapping[tuple[JobStatus, JobStatus], frozenset[type[JobEvent]]]] = {
    (JobStatus.PENDING, JobStatus.RUNNING): frozenset({Claimed, HeartbeatSeen}),
    (JobStatus.PENDING, JobStatus.COMPLETED): frozenset({ReportReceived}),
    (JobStatus.PENDING, JobStatus.CANCELLED): frozenset({CancelAsked}),
    (JobStatus.RUNNING, JobStatus.PENDING): frozenset({
        HeartbeatSeen, ReportReceived, LeaseExpired, SessionLost, Released, AssignmentUndone,
    }),
    (JobStatus.RUNNING, JobStatus.COMPLETED): frozenset({ReportReceived}),
    (JobStatus.RUNNING, JobStatus.FAILED): frozenset({
        HeartbeatSeen, ReportReceived, LeaseExpired, SessionLost,
    }),
    (JobStatus.RUNNING, JobStatus.CANCELLED): frozenset({CancelAsked}),
}  # fmt: skip
"""Every legal move of a job's status, with the events that may cause it. Nothing leaves a terminal status."""

# ---------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The job runs under a new attempt.

    Attributes:
        attempt: The attempt's number.
    """

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """The lease of the running attempt is anew.

    Attributes:
        expires_at: The last instant at which it holds.
    """

    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """An attempt passed to a newer session of its process, and the job runs under it.

    Attributes:
        attempt: The attempt's number.
        lost_from: The session that it passed from.
        loss_forgiven: Whether the attempt had been lost; that loss no longer counts.
    """

    attempt: int
    lost_from: SessionId
    loss_forgiven: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportJudged:
    """A report was judged; always the first effect of one.

    Attributes:
        verdict: What it does.
    """

    verdict: ReportVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCounted:
    """An attempt counts as lost.

    Attributes:
        lost_attempts: How many are lost now.
    """

    lost_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """The job is pending again.

    Attributes:
        reason: Why.
        available_at: From when on it may be claimed.
        node: Who had it; for people, as the session is.
        session: Under which session.
    """

    reason: RequeueReason
    available_at: datetime
    node: NodeName | None = field(default=None, compare=False)
    session: SessionId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The job has ended; once in its life.

    Attributes:
        status: How.
        session: Under which session it ran or was reported; None when it ran under none. For people.
    """

    status: JobStatus
    session: SessionId | None = field(default=None, compare=False)


JobEffect: TypeAlias = Assigned | LeaseRenewed | TakenOver | ReportJudged | LossCounted | Requeued | Finished
