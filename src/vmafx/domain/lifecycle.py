"""The life of a job with its attempts: one pure step from state and event to state and effects.

Time is data: every event says when it happened (ADR 0002). Whoever calls `step` reads the history under a
lock, or writes the outcome on condition that nothing changed meanwhile, and lets the effects be known once
that is stored. An event about an attempt that is no longer the running one changes nothing: its number and
its session are compared (ADR 0012).

```
           Claimed, heartbeat that takes over
  PENDING ───────────────────────────────────► RUNNING
     │    ◄───────────────────────────────────  │   │ failure, last loss
     │     lost, never started, given back,     │   └──────────────────► FAILED
     │     retryable failure                    │
     ├──────────── first success ───────────────┼──────────────────────► COMPLETED
     └──────────── cancel ──────────────────────┴──────────────────────► CANCELLED
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack

from vmafx.domain.attempt import Attempt, AttemptOutcome, JobHistory
from vmafx.domain.errors import IllegalTransitionError
from vmafx.domain.job import Job, JobResult, JobStatus, NodeName, RequeueReason, SessionId, claimable
from vmafx.domain.job_events import (
    MOVES,
    Assigned,
    AssignmentUndone,
    CancelAsked,
    Claimed,
    Finished,
    HeartbeatSeen,
    JobEffect,
    JobEvent,
    LeaseExpired,
    LeaseExtended,
    LeaseRenewed,
    LossCounted,
    Released,
    ReportJudged,
    ReportReceived,
    Requeued,
    SessionLost,
    TakenOver,
    WaitJudged,
)
from vmafx.domain.lease import (
    NEVER_STARTED_FREE,
    PULL_DEADLINE_DEFAULT_S,
    HeartbeatVerdict,
    LeasePolicy,
    judge_heartbeat,
    loss_backoff_s,
    warranted_wait,
)
from vmafx.domain.report import ReportVerdict, credited_attempt, judge_report
from vmafx.domain.scoring import Failure, Retry

__all__ = ["Step", "step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an event led to.

    Attributes:
        history: The state after it; the very object that went in when nothing changed.
        effects: What others must know, in order.
    """

    history: JobHistory
    effects: tuple[JobEffect, ...] = ()


def step(history: JobHistory, event: JobEvent, policy: LeasePolicy) -> Step:
    """Return what an event leads to.

    Args:
        history: The job and all its attempts.
        event: What happened, and when.
        policy: How long leases and waits last.

    Raises:
        IllegalTransitionError: The job may not be claimed by that session at that instant: it is not
            pending, not yet available, another tenant's, asks for a backend that is not offered, or the
            session is not live.
    """
    match event:
        case Claimed():
            return _claim(history, event, policy)
        case HeartbeatSeen():
            return _beat(history, event, policy)
        case ReportReceived():
            return _report(history, event, policy)
        case CancelAsked():
            return _cancel(history, event)
        case LeaseExpired() | SessionLost() | Released() | AssignmentUndone():
            return _let_go(history, event, policy)
        case LeaseExtended() | WaitJudged():
            return _come_back(history, event, policy)


# ---------------------------------------------------------------- one event each


def _claim(history: JobHistory, event: Claimed, policy: LeasePolicy) -> Step:
    job, session, at = history.job, event.session, event.at
    fits = claimable(job, tenant=session.tenant, backends=event.backends, at=at)
    if not (fits and session.live(at)):
        raise IllegalTransitionError(job.status.value, type(event).__name__)
    attempt = Attempt(
        number=job.attempt + 1,
        node=session.node,
        session=session.id,
        session_registered_at=session.registered_at,
        first_registered_at=session.registered_at,
        instance=session.instance,
        started_at=at,
        pull_deadline_at=event.pull_deadline_at or at + timedelta(seconds=PULL_DEADLINE_DEFAULT_S),
        lease_expires_at=at + timedelta(seconds=policy.lease_ttl_s),
    )
    job = _moved(job, JobStatus.RUNNING, event, attempt=attempt.number, assigned_node=session.node)
    return Step(
        history=JobHistory(job=job, attempts=(*history.attempts, attempt)),
        effects=(Assigned(attempt=attempt.number),),
    )


def _beat(history: JobHistory, event: HeartbeatSeen, policy: LeasePolicy) -> Step:
    latest = history.latest
    verdict = judge_heartbeat(
        history, event.session, event.sight, at=event.at, holder_seen_at=event.holder_seen_at
    )
    if latest is None or verdict is HeartbeatVerdict.NOTHING:
        return Step(history=history)
    match verdict:
        case HeartbeatVerdict.RENEW:
            return _renew(history, replace(latest, listed=True, unlisted_heartbeats=0), event.at, policy)
        case HeartbeatVerdict.TAKE_OVER:
            return _take_over(history, latest, event, policy)
        case HeartbeatVerdict.NOTE_ABSENCE:
            noted = replace(latest, unlisted_heartbeats=latest.unlisted_heartbeats + 1)
            return Step(history=_with_latest(history, noted))
        case HeartbeatVerdict.FORGET_ABSENCE:
            return Step(history=_with_latest(history, replace(latest, unlisted_heartbeats=0)))
        case HeartbeatVerdict.REQUEUE_NEVER_STARTED:
            return _never_started(history, latest, event, policy)


def _report(history: JobHistory, event: ReportReceived, policy: LeasePolicy) -> Step:
    verdict = judge_report(history, event.report, event.reporter, holder_seen_at=event.holder_seen_at)
    match verdict, event.report.content:
        case ReportVerdict.RECORD_SUCCESS, JobResult() as result:
            after = _complete(history, event, result)
        case ReportVerdict.RECORD_FAILURE, Failure(retry=Retry.NO) as failure:
            after = _fail(history, event, AttemptOutcome.FAILED, failure.error)
        case ((ReportVerdict.RECORD_FAILURE | ReportVerdict.REQUEUE_RETRYABLE), Failure() as failure):
            after = _count_loss(history, event, RequeueReason.RETRYABLE_FAILURE, failure.error, policy)
        case ReportVerdict.REQUEUE_RELEASED, Failure() as failure:
            after = _requeue(history, event, RequeueReason.RELEASED, failure.error, available_at=event.at)
        case _:
            after = Step(history=history)
    return Step(history=after.history, effects=(ReportJudged(verdict=verdict), *after.effects))


def _cancel(history: JobHistory, event: CancelAsked) -> Step:
    if history.job.status.terminal:
        return Step(history=history)
    job = _moved(history.job, JobStatus.CANCELLED, event)
    return Step(
        history=JobHistory(job=job, attempts=_closed(history, AttemptOutcome.CANCELLED, event.at)),
        effects=(Finished(status=job.status, session=_session_of(history)),),
    )


def _let_go(
    history: JobHistory, event: LeaseExpired | SessionLost | Released | AssignmentUndone, policy: LeasePolicy
) -> Step:
    current = history.current
    if current is None or current.session != event.session:
        return Step(history=history)
    if isinstance(event, SessionLost):
        words = f"session of attempt {current.number} ended"
        return _count_loss(history, event, RequeueReason.NODE_LOST, _loss(history.job, words), policy)
    if current.number != event.attempt or (isinstance(event, LeaseExpired) and current.lease_holds(event.at)):
        return Step(history=history)
    match event:
        case LeaseExpired():
            words = f"lease of attempt {current.number} expired"
            return _count_loss(history, event, RequeueReason.LEASE_EXPIRED, _loss(history.job, words), policy)
        case Released():
            return _requeue(history, event, RequeueReason.RELEASED, None, available_at=event.at)
        case AssignmentUndone():
            return _requeue(history, event, RequeueReason.ASSIGN_ROLLBACK, None, available_at=event.at)


def _come_back(history: JobHistory, event: LeaseExtended | WaitJudged, policy: LeasePolicy) -> Step:
    job, current = history.job, history.current
    if isinstance(event, LeaseExtended):
        return Step(history=history) if current is None else _renew(history, current, event.at, policy)
    until = warranted_wait(job.available_at, at=event.at, lost_attempts=job.lost_attempts, policy=policy)
    if job.status is not JobStatus.PENDING or until == job.available_at:
        return Step(history=history)
    return Step(history=replace(history, job=replace(job, available_at=until)))


# ---------------------------------------------------------------- what events have in common


_OUTCOMES: Final[Mapping[RequeueReason, AttemptOutcome]] = {
    RequeueReason.NODE_LOST: AttemptOutcome.EXPIRED,
    RequeueReason.LEASE_EXPIRED: AttemptOutcome.EXPIRED,
    RequeueReason.NEVER_STARTED: AttemptOutcome.NEVER_STARTED,
    RequeueReason.RETRYABLE_FAILURE: AttemptOutcome.FAILED,
    RequeueReason.RELEASED: AttemptOutcome.RELEASED,
    RequeueReason.ASSIGN_ROLLBACK: AttemptOutcome.UNDONE,
}


def _renew(history: JobHistory, attempt: Attempt, at: datetime, policy: LeasePolicy) -> Step:
    expires_at = at + timedelta(seconds=policy.lease_ttl_s)
    return Step(
        history=_with_latest(history, replace(attempt, lease_expires_at=expires_at)),
        effects=(LeaseRenewed(expires_at=expires_at),),
    )


def _take_over(history: JobHistory, attempt: Attempt, event: HeartbeatSeen, policy: LeasePolicy) -> Step:
    job, session, lost = history.job, event.session, not attempt.open
    if lost:
        forgiven = job.lost_attempts - 1
        job = _moved(job, JobStatus.RUNNING, event, lost_attempts=forgiven, assigned_node=attempt.node)
    taken = replace(
        attempt,
        session=session.id,
        session_registered_at=session.registered_at,
        instance=session.instance,
        lease_expires_at=event.at + timedelta(seconds=policy.lease_ttl_s),
        listed=True,
        unlisted_heartbeats=0,
        outcome=None,
        ended_at=None,
        error=None,
    )
    effect = TakenOver(attempt=attempt.number, lost_from=attempt.session, loss_forgiven=lost)
    attempts = (*history.attempts[:-1], taken)
    return Step(history=JobHistory(job=job, attempts=attempts), effects=(effect,))


def _never_started(history: JobHistory, attempt: Attempt, event: HeartbeatSeen, policy: LeasePolicy) -> Step:
    times = history.job.never_started + 1
    noted = replace(history, job=replace(history.job, never_started=times))
    words = f"attempt {attempt.number} was never started"
    if times <= NEVER_STARTED_FREE:
        return _requeue(noted, event, RequeueReason.NEVER_STARTED, words, available_at=event.at)
    return _count_loss(noted, event, RequeueReason.NEVER_STARTED, _loss(noted.job, words), policy)


def _complete(history: JobHistory, event: ReportReceived, result: JobResult) -> Step:
    """End the job with the result, whatever has become of the attempt that it belongs to."""
    credited = credited_attempt(history, event.report, event.reporter)
    attempts = tuple(
        _close(attempt, AttemptOutcome.COMPLETED, event.at) if attempt is credited else attempt
        for attempt in _closed(history, AttemptOutcome.SUPERSEDED, event.at, but=credited)
    )
    job = _moved(history.job, JobStatus.COMPLETED, event, result=result, assigned_node=event.reporter.node)
    finished = Finished(status=job.status, session=event.reporter.id)
    return Step(history=JobHistory(job=job, attempts=attempts), effects=(finished,))


def _fail(history: JobHistory, event: JobEvent, outcome: AttemptOutcome, error: str) -> Step:
    job = _moved(history.job, JobStatus.FAILED, event, error=error)
    return Step(
        history=JobHistory(job=job, attempts=_closed(history, outcome, event.at, error=error)),
        effects=(Finished(status=job.status, session=_session_of(history)),),
    )


def _count_loss(
    history: JobHistory, event: JobEvent, reason: RequeueReason, error: str, policy: LeasePolicy
) -> Step:
    """Count the running attempt as lost: the job waits and is tried again, or fails when it was the last."""
    lost = history.job.lost_attempts + 1
    counted = replace(history, job=replace(history.job, lost_attempts=lost))
    if history.job.on_last_try:
        after = _fail(counted, event, _OUTCOMES[reason], error)
    else:
        available_at = event.at + timedelta(seconds=loss_backoff_s(lost, policy))
        after = _requeue(counted, event, reason, error, available_at=available_at)
    return Step(history=after.history, effects=(LossCounted(lost_attempts=lost), *after.effects))


def _requeue(
    history: JobHistory, event: JobEvent, reason: RequeueReason, error: str | None, *, available_at: datetime
) -> Step:
    job = _moved(history.job, JobStatus.PENDING, event, available_at=available_at, assigned_node=None)
    return Step(
        history=JobHistory(job=job, attempts=_closed(history, _OUTCOMES[reason], event.at, error=error)),
        effects=(
            Requeued(
                reason=reason,
                available_at=available_at,
                node=history.job.assigned_node,
                session=_session_of(history),
            ),
        ),
    )


def _session_of(history: JobHistory) -> SessionId | None:
    """Return the session that has the job now; None when none has."""
    return None if history.current is None else history.current.session


class _Changes(TypedDict, total=False):
    """What a move may change of a job besides its status and its times."""

    attempt: int
    lost_attempts: int
    available_at: datetime
    assigned_node: NodeName | None
    result: JobResult
    error: str


def _moved(job: Job, status: JobStatus, event: JobEvent, **changes: Unpack[_Changes]) -> Job:
    """Return the job in its new status; the one place where a status changes.

    Raises:
        IllegalTransitionError: `MOVES` does not have it.
    """
    if type(event) not in MOVES.get((job.status, status), frozenset()):
        raise IllegalTransitionError(job.status.value, f"{type(event).__name__} to {status.value}")
    updated_at = max(job.updated_at, event.at)
    finished_at = updated_at if status.terminal else None
    return replace(job, status=status, updated_at=updated_at, finished_at=finished_at, **changes)


def _closed(
    history: JobHistory,
    outcome: AttemptOutcome,
    at: datetime,
    *,
    error: str | None = None,
    but: Attempt | None = None,
) -> tuple[Attempt, ...]:
    """Return the attempts with the open one ended, unless it is `but`."""
    return tuple(
        _close(attempt, outcome, at, error=error) if attempt.open and attempt is not but else attempt
        for attempt in history.attempts
    )


def _close(attempt: Attempt, outcome: AttemptOutcome, at: datetime, *, error: str | None = None) -> Attempt:
    return replace(
        attempt,
        outcome=outcome,
        ended_at=max(attempt.started_at, at),
        lease_expires_at=None,
        error=error,
    )


def _with_latest(history: JobHistory, attempt: Attempt) -> JobHistory:
    return JobHistory(job=history.job, attempts=(*history.attempts[:-1], attempt))


def _loss(job: Job, words: str) -> str:
    return f"{words} ({job.lost_attempts + 1} of {job.max_lost_attempts})"
