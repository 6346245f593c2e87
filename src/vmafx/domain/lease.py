"""Leases: how long they last, and what one heartbeat means for one job (ADR 0012)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from vmafx.domain.attempt import Attempt, AttemptOutcome, JobHistory
from vmafx.domain.job import HEARTBEAT_JOBS_MAX, JobId, JobStatus
from vmafx.domain.nodesession import NodeSession

__all__ = [
    "NEVER_STARTED_FREE",
    "PULL_DEADLINE_DEFAULT_S",
    "UNLISTED_HEARTBEATS_MAX",
    "Heartbeat",
    "HeartbeatVerdict",
    "LeasePolicy",
    "Sight",
    "judge_heartbeat",
    "loss_backoff_s",
    "warranted_wait",
]

PULL_DEADLINE_DEFAULT_S: Final = 60.0
"""How long a node is thought to wait for the answer to a pull, in seconds, when it did not say."""
UNLISTED_HEARTBEATS_MAX: Final = 2
"""At how many heartbeats in a row without it a job that was never listed goes back."""
NEVER_STARTED_FREE: Final = 2
"""How many attempts of a job may go back as never started before one counts as lost."""

_DOUBLINGS_MAX: Final = 1000  # 2.0 ** 1024 is no float any more


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePolicy:
    """How long things last; the same for every store of a controller.

    Attributes:
        lease_ttl_s: How long a lease holds, in seconds, above 0.
        session_ttl_s: How long a session lives after an accepted heartbeat, in seconds, above 0.
        backoff_base_s: How long a job waits after its first lost attempt, in seconds, above 0.
        backoff_max_s: The longest such wait, in seconds, above 0.

    Raises:
        ValueError: A number is not above 0, or not finite.
    """

    lease_ttl_s: float = 60.0
    session_ttl_s: float = 60.0
    backoff_base_s: float = 5.0
    backoff_max_s: float = 300.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            seconds: float = getattr(self, name)
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"{name}={seconds} must be above 0 seconds")


def loss_backoff_s(lost_attempts: int, policy: LeasePolicy) -> float:
    """Return how long a job waits after its latest lost attempt, in seconds.

    The wait is the base, doubled with each loss, and never above the largest; there is no jitter, since the
    nodes that will pull are not synchronised by it.

    Args:
        lost_attempts: How many attempts are lost, that one included; at least 1.
        policy: Base and largest wait.

    Raises:
        ValueError: `lost_attempts` is below 1.
    """
    if lost_attempts < 1:
        raise ValueError(f"lost_attempts={lost_attempts} must be at least 1")
    doublings = min(lost_attempts - 1, _DOUBLINGS_MAX)
    return min(policy.backoff_base_s * 2.0**doublings, policy.backoff_max_s)


def warranted_wait(
    available_at: datetime, *, at: datetime, lost_attempts: int, policy: LeasePolicy
) -> datetime:
    """Return from when on a waiting job may be claimed, as far as its losses warrant it.

    A wait longer than any that follows a loss comes from a clock that went back: the job then waits as long
    as after its latest loss, and not at all when it had none.

    Args:
        available_at: From when on it may be claimed, as is stored.
        at: The instant to judge by.
        lost_attempts: How many of its attempts are lost.
        policy: The waits after losses.
    """
    if available_at <= at + timedelta(seconds=policy.backoff_max_s):
        return available_at
    wait_s = loss_backoff_s(lost_attempts, policy) if lost_attempts else 0.0
    return at + timedelta(seconds=wait_s)


class Sight(Enum):
    """What one heartbeat says of one job."""

    LISTED = "listed"
    """The node runs it."""
    VOUCHED = "vouched"
    """The node lists nothing, but runs at least as many jobs as its session holds."""
    ABSENT = "absent"
    """The node does not run it."""
    UNKNOWN = "unknown"
    """Nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a node says of the jobs it holds.

    Attributes:
        jobs_running: How many jobs it holds.
        listed: Which; older nodes name none.

    Raises:
        ValueError: More than 64 are listed.
    """

    jobs_running: int
    listed: tuple[JobId, ...] = ()

    def __post_init__(self) -> None:
        if len(self.listed) > HEARTBEAT_JOBS_MAX:
            raise ValueError(
                f"running_job_ids has {len(self.listed)} entries, at most {HEARTBEAT_JOBS_MAX} are accepted"
            )

    def sight(self, job_id: JobId, *, held: int) -> Sight:
        """Return what the heartbeat says of a job.

        Args:
            job_id: The job.
            held: How many running jobs the beating session holds; an older node is believed to run them all
                only while it runs no fewer.
        """
        if job_id in self.listed:
            return Sight.LISTED
        if self.jobs_running == len(self.listed):
            return Sight.ABSENT
        if not self.listed and held <= self.jobs_running:
            return Sight.VOUCHED
        return Sight.UNKNOWN

    def cancelled(self, statuses: Mapping[JobId, JobStatus]) -> tuple[JobId, ...]:
        """Return the listed jobs that were cancelled, each once, in the order they are listed.

        Args:
            statuses: The status of the listed jobs that exist and are the node's tenant's.
        """
        each_once = dict.fromkeys(self.listed)
        return tuple(job_id for job_id in each_once if statuses.get(job_id) is JobStatus.CANCELLED)


class HeartbeatVerdict(Enum):
    """What a heartbeat does to a job."""

    NOTHING = "nothing"
    """It changes nothing."""
    RENEW = "renew"
    """The lease is anew."""
    TAKE_OVER = "take_over"
    """The latest attempt passes to the beating session, lease anew; a loss of it is not counted."""
    NOTE_ABSENCE = "note_absence"
    """One more heartbeat in a row did not list a job never listed."""
    FORGET_ABSENCE = "forget_absence"
    """The row of such heartbeats is broken."""
    REQUEUE_NEVER_STARTED = "requeue_never_started"
    """The attempt never began."""


def judge_heartbeat(
    history: JobHistory, session: NodeSession, sight: Sight, *, at: datetime, holder_seen_at: datetime | None
) -> HeartbeatVerdict:
    """Return what a heartbeat does to a job; the one rule for every store.

    Args:
        history: The job and its attempts.
        session: The session that beats, found valid before this heartbeat.
        sight: What the heartbeat says of the job.
        at: When the heartbeat was received.
        holder_seen_at: When the last heartbeat of the session that holds or last held the latest attempt was
            accepted; None when there was none or the session is no longer kept. It matters only when that is
            another session than the beating one.
    """
    latest = history.latest
    if latest is None or history.job.tenant != session.tenant or history.job.status.terminal:
        return HeartbeatVerdict.NOTHING
    if latest.open and latest.held_by(session):
        return _judge_own(latest, sight, at=at)
    if sight is Sight.LISTED and _passes_to(latest, session, holder_seen_at=holder_seen_at):
        return HeartbeatVerdict.TAKE_OVER
    return HeartbeatVerdict.NOTHING


def _judge_own(attempt: Attempt, sight: Sight, *, at: datetime) -> HeartbeatVerdict:
    match sight:
        case Sight.LISTED | Sight.VOUCHED:
            return HeartbeatVerdict.RENEW if attempt.lease_holds(at) else HeartbeatVerdict.NOTHING
        case Sight.UNKNOWN:
            return (
                HeartbeatVerdict.FORGET_ABSENCE if attempt.unlisted_heartbeats else HeartbeatVerdict.NOTHING
            )
        case Sight.ABSENT:
            if attempt.listed or at <= attempt.pull_deadline_at:
                return HeartbeatVerdict.NOTHING
            if attempt.unlisted_heartbeats + 1 < UNLISTED_HEARTBEATS_MAX:
                return HeartbeatVerdict.NOTE_ABSENCE
            return HeartbeatVerdict.REQUEUE_NEVER_STARTED


def _passes_to(attempt: Attempt, session: NodeSession, *, holder_seen_at: datetime | None) -> bool:
    """Whether an attempt, running or lost, passes to a newer session of what seems the same process."""
    if not (attempt.open or attempt.outcome is AttemptOutcome.EXPIRED) or not attempt.held_before(session):
        return False
    if attempt.instance is not None and session.instance is not None:
        return attempt.instance == session.instance
    return holder_seen_at is None or holder_seen_at < session.registered_at
