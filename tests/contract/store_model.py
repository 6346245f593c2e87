"""A store as plain as can be, for the real ones to be compared with: every question looks at everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from vmafx.domain.attempt import JobHistory
from vmafx.domain.errors import (
    ForeignJobError,
    JobNotFoundError,
    QueueFullError,
    SessionNotFoundError,
    SubmissionConflictError,
)
from vmafx.domain.job import Job, JobId, JobStatus, SessionId, TenantId, next_claimable, same_submission
from vmafx.domain.job_events import (
    AssignmentUndone,
    CancelAsked,
    Claimed,
    HeartbeatSeen,
    JobEvent,
    LeaseExpired,
    LeaseExtended,
    Released,
    ReportJudged,
    ReportReceived,
    SessionLost,
    WaitJudged,
)
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.lifecycle import step
from vmafx.domain.nodesession import NodeSession, SessionKey, registration_instant
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import (
    AttemptKey,
    Change,
    Claim,
    HeartbeatAnswer,
    QueueCounts,
    ReportAnswer,
    Submission,
    SweepAnswer,
    Waiting,
)


class ModelStore:
    """The ports' methods, synchronous."""

    def __init__(self, policy: LeasePolicy) -> None:
        self.policy = policy
        self.histories: dict[JobId, JobHistory] = {}
        self.kept: dict[SessionId, tuple[NodeSession, bytes]] = {}

    # ------------------------------------------------------------ clients

    def submit(self, job: Job, *, pending_max: int | None = None) -> Submission:
        mine = [it.job for it in self.histories.values() if it.job.tenant == job.tenant]
        key = job.idempotency_key
        for other in mine:
            if key is not None and other.idempotency_key == key:
                if not same_submission(other, job):
                    raise SubmissionConflictError(key)
                return Submission(job=other, created=False)
        if pending_max is not None:
            pending = [other for other in mine if other.status is JobStatus.PENDING]
            if len(pending) >= pending_max:
                raise QueueFullError(pending_max)
        self.histories[job.id] = JobHistory(job=job)
        return Submission(job=job, created=True)

    def get(self, tenant: TenantId, job_id: JobId) -> Job:
        return self.history(tenant, job_id).job

    def history(self, tenant: TenantId, job_id: JobId) -> JobHistory:
        if job_id not in self.histories:
            raise JobNotFoundError(job_id)
        if self.histories[job_id].job.tenant != tenant:
            raise ForeignJobError(job_id)
        return self.histories[job_id]

    def page(self, tenant: TenantId, *, statuses: frozenset[JobStatus] = frozenset()) -> tuple[Job, ...]:
        jobs = [it.job for it in self.histories.values() if it.job.tenant == tenant]
        shown = [job for job in jobs if not statuses or job.status in statuses]
        return tuple(sorted(shown, key=lambda job: (job.created_at, job.id)))

    def cancel(self, tenant: TenantId, job_id: JobId, *, now: datetime) -> Change:
        self.history(tenant, job_id)
        return self._play(job_id, CancelAsked(at=now))

    def counts(self) -> tuple[QueueCounts, ...]:
        tenants = sorted({it.job.tenant for it in self.histories.values()})
        return tuple(counts for tenant in tenants for counts in self._counts(tenant))

    def _counts(self, tenant: TenantId) -> Iterator[QueueCounts]:
        pending = self.page(tenant, statuses=frozenset({JobStatus.PENDING}))
        running = self.page(tenant, statuses=frozenset({JobStatus.RUNNING}))
        if pending or running:
            yield QueueCounts(
                tenant=tenant,
                pending=len(pending),
                running=len(running),
                oldest_pending_at=pending[0].created_at if pending else None,
            )

    def waiting(self) -> tuple[Waiting, ...]:
        pending = [it.job for it in self.histories.values() if it.job.status is JobStatus.PENDING]
        asked = [(job.tenant, job.spec.backend.value) for job in pending if job.spec.backend is not None]
        return tuple(
            Waiting(tenant=tenant, backend=Backend(word), pending=asked.count((tenant, word)))
            for tenant, word in sorted(set(asked))
        )

    # ------------------------------------------------------------ nodes

    def claim(
        self,
        key: SessionKey,
        backends: frozenset[Backend],
        *,
        now: datetime,
        pull_deadline_at: datetime | None = None,
    ) -> Claim | None:
        session = self.look_up(key, now=now)
        jobs = [it.job for it in self.histories.values()]
        job = next_claimable(jobs, tenant=session.tenant, backends=backends, at=now)
        if job is None:
            return None
        event = Claimed(at=now, session=session, backends=backends, pull_deadline_at=pull_deadline_at)
        self._play(job.id, event)
        after = self.histories[job.id]
        return Claim(job=after.job, attempt=after.attempts[-1])

    def heartbeat(self, key: SessionKey, heartbeat: Heartbeat, *, now: datetime) -> HeartbeatAnswer:
        session = self.look_up(key, now=now)
        held = [job_id for job_id, it in self._running() if it.attempts[-1].session == session.id]
        ours = [
            job_id
            for job_id in {*heartbeat.listed, *held}
            if job_id in self.histories and self.histories[job_id].job.tenant == session.tenant
        ]
        changes = [
            self._play(
                job_id,
                HeartbeatSeen(
                    at=now,
                    session=session,
                    sight=heartbeat.sight(job_id, held=len(held)),
                    holder_seen_at=self._holder_seen_at(job_id),
                ),
            )
            for job_id in ours
        ]
        renewed = session.renewed(now, ttl_s=self.policy.session_ttl_s)
        self.kept[session.id] = (renewed, key.token_sha256)
        return HeartbeatAnswer(
            session=renewed,
            cancelled=heartbeat.cancelled({job_id: self.histories[job_id].job.status for job_id in ours}),
            changes=tuple(change for change in changes if change.effects),
        )

    def report(self, key: SessionKey, job_id: JobId, report: Report, *, now: datetime) -> ReportAnswer:
        session = self.look_up(key, now=now)
        if job_id not in self.histories or self.histories[job_id].job.tenant != session.tenant:
            return ReportAnswer(verdict=ReportVerdict.REFUSE, change=None)
        seen_at = self._holder_seen_at(job_id)
        event = ReportReceived(at=now, reporter=session, report=report, holder_seen_at=seen_at)
        change = self._play(job_id, event)
        judged = change.effects[0]
        assert isinstance(judged, ReportJudged)
        return ReportAnswer(verdict=judged.verdict, change=change)

    def release(self, key: AttemptKey, *, now: datetime) -> Change:
        return self._take_back(key, Released, now)

    def undo(self, key: AttemptKey, *, now: datetime) -> Change:
        return self._take_back(key, AssignmentUndone, now)

    def _take_back(self, key: AttemptKey, kind: type[Released | AssignmentUndone], now: datetime) -> Change:
        found = self.histories.get(key.job_id)
        if found is None or found.job.tenant != key.tenant:
            raise JobNotFoundError(key.job_id)
        return self._play(key.job_id, kind(at=now, attempt=key.attempt, session=key.session))

    # ------------------------------------------------------------ upkeep

    def sweep(self, *, now: datetime) -> SweepAnswer:
        changes: list[Change] = []
        dead = [session for session, _ in self.kept.values() if not session.live(now)]
        for job_id, it in list(self._running()):
            attempt = it.attempts[-1]
            if attempt.session in {session.id for session in dead}:
                changes.append(self._play(job_id, SessionLost(at=now, session=attempt.session)))
            elif not attempt.lease_holds(now):
                event = LeaseExpired(at=now, attempt=attempt.number, session=attempt.session)
                changes.append(self._play(job_id, event))
        for session in dead:
            del self.kept[session.id]
        return SweepAnswer(changes=tuple(changes), sessions_ended=tuple(dead))

    def resume(self, *, now: datetime) -> None:
        for session, digest in list(self.kept.values()):
            self.kept[session.id] = (session.extended(now, ttl_s=self.policy.session_ttl_s), digest)
        for job_id, _ in list(self._running()):
            self._play(job_id, LeaseExtended(at=now))
        for job_id in list(self.histories):
            self._play(job_id, WaitJudged(at=now))

    def purge(self, *, finished_before: datetime, limit: int) -> int:
        ended = [(it.job.finished_at, job_id) for job_id, it in self.histories.items() if it.job.finished_at]
        over = sorted(end for end in ended if end[0] < finished_before)[:limit]
        for _, job_id in over:
            del self.histories[job_id]
        return len(over)

    # ------------------------------------------------------------ sessions

    def register(self, session: NodeSession, *, token_sha256: bytes) -> NodeSession:
        same_name = [
            other.registered_at
            for other, _ in self.kept.values()
            if (other.tenant, other.node) == (session.tenant, session.node)
        ]
        instant = registration_instant(session.registered_at, max(same_name, default=None))
        self.kept[session.id] = (replace(session, registered_at=instant), token_sha256)
        return self.kept[session.id][0]

    def look_up(self, key: SessionKey, *, now: datetime) -> NodeSession:
        session, digest = self.kept.get(key.session, (None, b""))
        if session is None or (session.tenant, digest) != (key.tenant, key.token_sha256):
            raise SessionNotFoundError(key.session)
        if not session.live(now):
            raise SessionNotFoundError(key.session)
        return session

    def live(self, tenant: TenantId, *, now: datetime) -> tuple[NodeSession, ...]:
        live = [it for it, _ in self.kept.values() if it.tenant == tenant and it.live(now)]
        return tuple(sorted(live, key=lambda session: (session.registered_at, session.id)))

    def live_count(self, *, now: datetime) -> int:
        return sum(session.live(now) for session, _ in self.kept.values())

    # ------------------------------------------------------------ inside

    def _running(self) -> Iterator[tuple[JobId, JobHistory]]:
        return ((job_id, it) for job_id, it in self.histories.items() if it.current is not None)

    def _holder_seen_at(self, job_id: JobId) -> datetime | None:
        latest = self.histories[job_id].latest
        holder = None if latest is None else self.kept.get(latest.session)
        return None if holder is None else holder[0].last_heartbeat_at

    def _play(self, job_id: JobId, event: JobEvent) -> Change:
        after = step(self.histories[job_id], event, self.policy)
        self.histories[job_id] = after.history
        return Change(job=after.history.job, effects=after.effects)
