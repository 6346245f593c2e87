"""What each call to a store reads, decides and writes; the one place for every store (ADR 0023).

Each function is the work of one transaction: it reads histories, has `vmafx.domain.lifecycle.step` tell what
an event leads to, and writes that. Arguments, answers and errors are those of the ports' methods of the same
names. Whatever is refused is refused before the first write.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from datetime import datetime

from vmafx.adapters.store.steps import check_limit, play, told
from vmafx.adapters.store.transaction import KeptSession, Reading, Transaction
from vmafx.domain.attempt import JobHistory
from vmafx.domain.errors import (
    ForeignJobError,
    JobNotFoundError,
    QueueFullError,
    SessionNotFoundError,
    SubmissionConflictError,
)
from vmafx.domain.job import Job, JobCursor, JobId, JobStatus, TenantId, same_submission
from vmafx.domain.job_events import (
    AssignmentUndone,
    CancelAsked,
    Claimed,
    HeartbeatSeen,
    Released,
    ReportJudged,
    ReportReceived,
)
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.nodesession import NodeSession, SessionKey, registration_instant
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import (
    PAGE_JOBS_MAX,
    PULL_BACKENDS_MAX,
    AttemptKey,
    Change,
    Claim,
    HeartbeatAnswer,
    ReportAnswer,
    Submission,
)

__all__ = [
    "cancel",
    "claim",
    "get",
    "heartbeat",
    "history",
    "look_up",
    "page",
    "register",
    "release",
    "report",
    "submit",
    "undo",
]

# ---------------------------------------------------------------- jobs, as those who submit them see them


def submit(books: Transaction, job: Job, *, pending_max: int | None) -> Submission:
    """Store a job, unless it is stored already or its tenant has too many.

    Raises:
        ValueError: The id is another job's.
        SubmissionConflictError: The key was used for something else.
        QueueFullError: The tenant has as many pending jobs as it may.
    """
    stored = books.job(job.id)
    if stored is not None:
        if not _same(stored, job):
            raise ValueError(f"there is another job {job.id!r}")
        return Submission(job=stored, created=False)
    if job.idempotency_key is not None:
        first = books.submitted_as(job.tenant, job.idempotency_key)
        if first is not None:
            if not same_submission(first, job):
                raise SubmissionConflictError(job.idempotency_key)
            return Submission(job=first, created=False)
    if pending_max is not None and books.pending(job.tenant, at_most=pending_max) >= pending_max:
        raise QueueFullError(pending_max)
    books.add_job(job)
    return Submission(job=job, created=True)


def get(books: Reading, tenant: TenantId, job_id: JobId) -> Job:
    """Return a job of the tenant.

    Raises:
        ForeignJobError: It is another tenant's.
        JobNotFoundError: There is none.
    """
    job = books.job(job_id)
    if job is None:
        raise JobNotFoundError(job_id)
    if job.tenant != tenant:
        raise ForeignJobError(job_id)
    return job


def history(books: Reading, tenant: TenantId, job_id: JobId) -> JobHistory:
    """Return a job of the tenant with all its attempts.

    Raises:
        ForeignJobError: It is another tenant's.
        JobNotFoundError: There is none.
    """
    found = books.history(job_id)
    if found is None:
        raise JobNotFoundError(job_id)
    if found.job.tenant != tenant:
        raise ForeignJobError(job_id)
    return found


def page(
    books: Reading,
    tenant: TenantId,
    *,
    statuses: frozenset[JobStatus],
    after: JobCursor | None,
    limit: int,
) -> tuple[Job, ...]:
    """Return jobs of the tenant, the oldest first.

    Raises:
        ValueError: `limit` is outside its range.
    """
    check_limit(limit, PAGE_JOBS_MAX)
    return books.page(tenant, statuses=statuses, after=after, limit=limit)


def cancel(
    books: Transaction, tenant: TenantId, job_id: JobId, *, now: datetime, policy: LeasePolicy
) -> Change:
    """Cancel a job of the tenant, unless it has ended.

    Raises:
        ForeignJobError: It is another tenant's.
        JobNotFoundError: There is none.
    """
    return told(play(books, history(books, tenant, job_id), CancelAsked(at=now), policy))


# ---------------------------------------------------------------- jobs, as nodes see them


def claim(  # noqa: PLR0913 -- what the port's method is told, and where and by which policy
    books: Transaction,
    key: SessionKey,
    backends: frozenset[Backend],
    *,
    now: datetime,
    pull_deadline_at: datetime | None,
    policy: LeasePolicy,
) -> Claim | None:
    """Assign the next job that the node may run.

    Raises:
        SessionNotFoundError: The session is refused.
        ValueError: Too many backends.
    """
    if len(backends) > PULL_BACKENDS_MAX:
        raise ValueError(f"{len(backends)} backends, at most {PULL_BACKENDS_MAX} are accepted")
    session = look_up(books, key, now=now)
    job = books.next_claimable(session.tenant, backends=backends, at=now)
    if job is None:
        return None
    event = Claimed(at=now, session=session, backends=backends, pull_deadline_at=pull_deadline_at)
    assigned = play(books, JobHistory(job=job), event, policy).history
    return Claim(job=assigned.job, attempt=assigned.attempts[-1])


def heartbeat(
    books: Transaction, key: SessionKey, heartbeat: Heartbeat, *, now: datetime, policy: LeasePolicy
) -> HeartbeatAnswer:
    """Renew a session, and do what its heartbeat means for every job that it lists or holds.

    Raises:
        SessionNotFoundError: The session is refused.
    """
    session = look_up(books, key, now=now)
    held = books.held(session.id)
    statuses: dict[JobId, JobStatus] = {}
    changes: list[Change] = []
    for job_id in sorted({*heartbeat.listed, *held}):  # one order for all, where stores lock what they read
        before = books.history(job_id)
        if before is None or before.job.tenant != session.tenant:
            continue
        event = HeartbeatSeen(
            at=now,
            session=session,
            sight=heartbeat.sight(job_id, held=len(held)),
            holder_seen_at=_holder_seen_at(books, before, session),
        )
        change = told(play(books, before, event, policy))
        statuses[job_id] = change.job.status
        if change.effects:
            changes.append(change)
    renewed = session.renewed(now, ttl_s=policy.session_ttl_s)
    books.write_session(renewed)
    return HeartbeatAnswer(session=renewed, cancelled=heartbeat.cancelled(statuses), changes=tuple(changes))


def report(  # noqa: PLR0913 -- what the port's method is told, and where and by which policy
    books: Transaction, key: SessionKey, job_id: JobId, said: Report, *, now: datetime, policy: LeasePolicy
) -> ReportAnswer:
    """Do what a report means for its job.

    Raises:
        SessionNotFoundError: The session is refused.
    """
    reporter = look_up(books, key, now=now)
    before = books.history(job_id)
    if before is None or before.job.tenant != reporter.tenant:
        return ReportAnswer(verdict=ReportVerdict.REFUSE, change=None)
    seen_at = _holder_seen_at(books, before, reporter)
    event = ReportReceived(at=now, reporter=reporter, report=said, holder_seen_at=seen_at)
    change = told(play(books, before, event, policy))
    verdict = next(effect.verdict for effect in change.effects if isinstance(effect, ReportJudged))
    return ReportAnswer(verdict=verdict, change=change)


def release(books: Transaction, key: AttemptKey, *, now: datetime, policy: LeasePolicy) -> Change:
    """Give an attempt back on behalf of its node.

    Raises:
        JobNotFoundError: The job is gone.
    """
    event = Released(at=now, attempt=key.attempt, session=key.session)
    return told(play(books, _still_there(books, key), event, policy))


def undo(books: Transaction, key: AttemptKey, *, now: datetime, policy: LeasePolicy) -> Change:
    """Take an assignment back that its node cannot have heard of.

    Raises:
        JobNotFoundError: The job is gone.
    """
    event = AssignmentUndone(at=now, attempt=key.attempt, session=key.session)
    return told(play(books, _still_there(books, key), event, policy))


# ---------------------------------------------------------------- sessions


def register(books: Transaction, session: NodeSession, *, token_sha256: bytes) -> NodeSession:
    """Store a new session, unless it is stored already.

    Raises:
        ValueError: The digest has another length, or the id is another session's.
    """
    SessionKey(tenant=session.tenant, session=session.id, token_sha256=token_sha256)
    stored = books.session(session.id)
    if stored is not None:
        if not (
            stored.session.tenant == session.tenant
            and stored.session.node == session.node
            and hmac.compare_digest(stored.token_sha256, token_sha256)
        ):
            raise ValueError(f"there is another session {session.id!r}")
        return stored.session
    newest = books.newest_registration(session.tenant, session.node)
    opened = replace(session, registered_at=registration_instant(session.registered_at, newest))
    books.add_session(KeptSession(session=opened, token_sha256=token_sha256))
    return opened


def look_up(books: Reading, key: SessionKey, *, now: datetime) -> NodeSession:
    """Return the session that a node shows.

    Raises:
        SessionNotFoundError: It is unknown, no longer live, another tenant's, or the secret is wrong.
    """
    kept = books.session(key.session)
    shown = kept is not None and hmac.compare_digest(kept.token_sha256, key.token_sha256)
    if kept is None or not shown or kept.session.tenant != key.tenant or not kept.session.live(now):
        raise SessionNotFoundError(key.session)
    return kept.session


# ---------------------------------------------------------------- what they have in common


def _still_there(books: Reading, key: AttemptKey) -> JobHistory:
    found = books.history(key.job_id)
    if found is None or found.job.tenant != key.tenant:
        raise JobNotFoundError(key.job_id)
    return found


def _holder_seen_at(books: Reading, found: JobHistory, speaker: NodeSession) -> datetime | None:
    """Return when the session of the latest attempt was last heard of; it matters only for another one."""
    latest = found.latest
    if latest is None or latest.session == speaker.id or latest.node != speaker.node:
        return None
    holder = books.session(latest.session)
    return None if holder is None else holder.session.last_heartbeat_at


def _same(stored: Job, job: Job) -> bool:
    return (
        stored.tenant == job.tenant
        and stored.idempotency_key == job.idempotency_key
        and same_submission(stored, job)
    )
