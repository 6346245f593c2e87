"""What a FakeController knows: sessions, jobs and attempts. What follows from an event, the domain says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NoReturn

from vmafx.domain.attempt import AttemptOutcome, JobHistory, violations
from vmafx.domain.job import (
    Job,
    JobId,
    JobSpec,
    JobStatus,
    RequeueReason,
    SessionId,
    TenantId,
    next_claimable,
    node_name_problem,
)
from vmafx.domain.job_events import (
    AssignmentUndone,
    CancelAsked,
    Claimed,
    HeartbeatSeen,
    JobEvent,
    LeaseExpired,
    ReportJudged,
    ReportReceived,
    Requeued,
    SessionLost,
)
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.lifecycle import step
from vmafx.domain.nodesession import Capability, NodeSession, registration_instant
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.scoring import Failure, Retry
from vmafx.domain.session_state import Session
from vmafx.domain.text import quoted
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

__all__ = ["Books", "Requeue"]

_TICK: Final = timedelta(microseconds=1)
_HELD_TO_THE_END: Final = frozenset({
    AttemptOutcome.COMPLETED, AttemptOutcome.FAILED, AttemptOutcome.CANCELLED,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """A job went back to pending.

    Attributes:
        job_id: The job.
        reason: Why.
        at: When.
    """

    job_id: JobId
    reason: RequeueReason
    at: datetime


class Books:
    """Sessions and jobs of one tenant; every call is told the time.

    Args:
        tenant: The tenant.
        policy: How long leases and sessions last.
        roots: The scoring roots that assignments carry.
        original: Whether it is kept as the original controller does: reports and leases are strictly those
            of the session that pulled, and nothing that travels as metadata is known.
    """

    requeues: list[Requeue]
    """Every time a job went back to pending, in order."""

    def __init__(
        self, *, tenant: TenantId, policy: LeasePolicy, roots: tuple[str, ...], original: bool
    ) -> None:
        self.requeues = []
        self._tenant = tenant
        self._policy = policy
        self._roots = roots
        self._original = original
        self._histories: dict[JobId, JobHistory] = {}
        self._live: dict[JobId, JobHistory] = {}  # those that have not ended: few, where many have
        self._sessions: dict[SessionId, NodeSession] = {}
        self._tokens: dict[SessionId, str] = {}
        self._registrations = 0

    # ------------------------------------------------------------ nodes

    def register(self, identity: NodeIdentity, capability: Capability, now: datetime) -> Registration:
        """Open a session.

        Raises:
            ControllerError: The name is empty or too long.
        """
        problem = node_name_problem(identity.name)
        if problem is not None:
            _refuse(StatusCode.INVALID_ARGUMENT, problem)
        self._registrations += 1
        same_name = [s.registered_at for s in self._sessions.values() if s.node == identity.name]
        session = NodeSession(
            id=SessionId(f"session-{self._registrations}"),
            tenant=self._tenant,
            node=identity.name,
            registered_at=registration_instant(now, max(same_name, default=None)),
            expires_at=now + timedelta(seconds=self._policy.session_ttl_s),
            instance=identity.instance,
            capability=capability,
        )
        self._sessions[session.id] = session
        self._tokens[session.id] = f"secret-{self._registrations}"
        return Registration(node_id=session.id, session_token=self._tokens[session.id])

    def heartbeat(self, shown: Session, heartbeat: Heartbeat, now: datetime) -> HeartbeatAnswer:
        """Renew a session, and do what its heartbeat means for every job."""
        session = self._session(shown)
        if session is None:
            return HeartbeatAnswer(ok=False)
        held = {job_id for job_id, history in self._live.items() if _holds(history, session)}
        # The original knows no other sign of a job than its id, and only from the session that holds it.
        concerned = held & set(heartbeat.listed) if self._original else held | set(heartbeat.listed)
        for job_id in sorted(concerned & self._histories.keys()):
            sight = heartbeat.sight(job_id, held=len(held))
            seen_at = self._holder_seen_at(job_id)
            event = HeartbeatSeen(at=now, session=session, sight=sight, holder_seen_at=seen_at)
            self._step(job_id, event)
        self._sessions[session.id] = session.renewed(now, ttl_s=self._policy.session_ttl_s)
        if self._original:
            return HeartbeatAnswer(ok=True)
        statuses = {job_id: history.job.status for job_id, history in self._items()}
        return HeartbeatAnswer(ok=True, cancel_job_ids=heartbeat.cancelled(statuses))

    def claim(
        self, shown: Session, capability: Capability, now: datetime, *, deadline_s: float
    ) -> Assignment | None:
        """Assign the next job that the node may run; None when there is none.

        Raises:
            ControllerError: The session is not valid.
        """
        session = self._session(shown)
        if session is None:
            _deny(f"pull work: invalid session for node {quoted(shown.node_id)}")
        jobs = [history.job for history in self._live.values()]
        job = next_claimable(jobs, tenant=self._tenant, backends=capability.backends, at=now)
        if job is None:
            return None
        event = Claimed(
            at=now,
            session=session,
            backends=capability.backends,
            pull_deadline_at=now + timedelta(seconds=deadline_s),
        )
        attempt = self._step(job.id, event).job.attempt
        return Assignment(
            job_id=job.id,
            reference=job.spec.reference,
            distorted=job.spec.distorted,
            model=job.spec.model or "",
            backend=job.spec.backend.value if job.spec.backend else "",
            scoring_roots=self._roots,
            attempt=None if self._original else attempt,
        )

    def undo(self, shown: Session, assignment: Assignment, now: datetime) -> None:
        """Take an assignment back whose node is gone; an original controller does not notice."""
        if assignment.attempt is not None and assignment.job_id in self._histories:
            event = AssignmentUndone(at=now, attempt=assignment.attempt, session=shown.node_id)
            self._step(assignment.job_id, event)

    def report(self, shown: Session, job_id: JobId, report: Report, now: datetime) -> None:
        """Do what a report means.

        Raises:
            ControllerError: The session is not valid, or the job is not the reporter's.
        """
        session = self._session(shown)
        if session is None:
            _deny(f"invalid session for node {quoted(shown.node_id)}")
        history = self._histories.get(job_id)
        heard = _as_the_original_hears(report) if self._original else report
        if history is None or (self._original and not _strictly_of(history, session)):
            _deny(f"job {quoted(job_id)} is not assigned to node {quoted(shown.node_id)}")
        event = ReportReceived(
            at=now, reporter=session, report=heard.storable(), holder_seen_at=self._holder_seen_at(job_id)
        )
        after = step(history, event, self._policy)
        judged = next(effect for effect in after.effects if isinstance(effect, ReportJudged))
        if judged.verdict is ReportVerdict.REFUSE:
            _deny(f"job {quoted(job_id)} is not assigned to node {quoted(shown.node_id)}")
        self._step(job_id, event)

    # ------------------------------------------------------------ whoever submits

    def submit(self, job_id: JobId, spec: JobSpec, now: datetime) -> None:
        """Store a job.

        Raises:
            ValueError: There is one of that id.
        """
        if job_id in self._histories:
            raise ValueError(f"there is a job {job_id!r} already")
        job = Job.submitted(job_id=job_id, tenant=self._tenant, spec=spec, at=now)
        self._histories[job_id] = self._live[job_id] = JobHistory(job=job)

    def cancel(self, job_id: JobId, now: datetime) -> bool:
        """Cancel a job; whether this call ended it.

        Raises:
            KeyError: There is no such job.
        """
        before = self._histories[job_id].job.status
        return self._step(job_id, CancelAsked(at=now)).job.status is not before

    def history(self, job_id: JobId) -> JobHistory:
        """Return a job with its attempts.

        Raises:
            KeyError: There is no such job.
        """
        return self._histories[job_id]

    def histories(self) -> tuple[JobHistory, ...]:
        """Return all jobs in the order of submission."""
        return tuple(self._histories.values())

    def sessions(self) -> tuple[NodeSession, ...]:
        """Return the sessions that have not ended, in the order of registration."""
        return tuple(self._sessions.values())

    # ------------------------------------------------------------ time

    def sweep(self, now: datetime) -> None:
        """End the sessions and attempts whose time has run out, each just after its last instant."""
        sessions = [(s.expires_at, s.id) for s in self._sessions.values() if not s.live(now)]
        leases = [
            (current.lease_expires_at, job_id, current)
            for job_id, history in self._live.items()
            if (current := history.current) is not None
            and current.lease_expires_at is not None
            and not current.lease_holds(now)
        ]
        for expired_at, session_id in sorted(sessions):
            self.end_session(session_id, expired_at + _TICK, jobs_lost=True)
        for expired_at, job_id, attempt in leases:
            event = LeaseExpired(at=expired_at + _TICK, attempt=attempt.number, session=attempt.session)
            self._step(job_id, event)

    def end_session(self, session_id: SessionId, now: datetime, *, jobs_lost: bool) -> None:
        """Forget a session; its jobs are lost with it, or run on under their leases."""
        if jobs_lost:
            for job_id, _ in self._items():
                self._step(job_id, SessionLost(at=now, session=session_id))
        self._sessions.pop(session_id, None)
        self._tokens.pop(session_id, None)

    def next_change_at(self, now: datetime) -> datetime | None:
        """Return when time alone may next give a pull something; None when it will not."""
        return min((instant for instant in self._instants() if instant > now), default=None)

    def violations(self) -> tuple[str, ...]:
        """Return in words what cannot be true of any job; normally nothing."""
        return tuple(f"{job_id}: {claim}" for job_id, h in self._items() for claim in violations(h))

    # ------------------------------------------------------------ inside

    def _items(self) -> tuple[tuple[JobId, JobHistory], ...]:
        return tuple(self._histories.items())

    def _instants(self) -> Iterator[datetime]:
        for history in self._live.values():
            if history.job.status is JobStatus.PENDING:
                yield history.job.available_at
            elif history.current is not None and history.current.lease_expires_at is not None:
                yield history.current.lease_expires_at
        for session in self._sessions.values():
            yield session.expires_at

    def _step(self, job_id: JobId, event: JobEvent) -> JobHistory:
        after = step(self._histories[job_id], event, self._policy)
        self._histories[job_id] = after.history
        if after.history.job.status.terminal:
            self._live.pop(job_id, None)
        else:
            self._live[job_id] = after.history
        self.requeues.extend(
            Requeue(job_id=job_id, reason=effect.reason, at=event.at)
            for effect in after.effects
            if isinstance(effect, Requeued)
        )
        return after.history

    def _session(self, shown: Session) -> NodeSession | None:
        right = self._tokens.get(shown.node_id) == shown.session_token
        return self._sessions.get(shown.node_id) if right else None

    def _holder_seen_at(self, job_id: JobId) -> datetime | None:
        latest = self._histories[job_id].latest
        holder = None if latest is None else self._sessions.get(latest.session)
        return None if holder is None else holder.last_heartbeat_at


def _holds(history: JobHistory, session: NodeSession) -> bool:
    return history.current is not None and history.current.held_by(session)


def _strictly_of(history: JobHistory, session: NodeSession) -> bool:
    """Whether the original lets this session report: it holds the job, or held it when it ended."""
    mine = [attempt for attempt in history.attempts if attempt.held_by(session)]
    return _holds(history, session) or (bool(mine) and mine[-1].outcome in _HELD_TO_THE_END)


def _as_the_original_hears(report: Report) -> Report:
    content = report.content
    final = replace(content, retry=Retry.NO) if isinstance(content, Failure) else content
    return Report(content=final)


def _deny(message: str) -> NoReturn:
    _refuse(StatusCode.PERMISSION_DENIED, message)


def _refuse(code: StatusCode, message: str) -> NoReturn:
    raise controller_error(code, message)
