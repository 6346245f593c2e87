"""One job's life told in a few words: sessions of nodes, and a `Life` that events are played to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from vmafx.domain.attempt import Attempt, JobHistory
from vmafx.domain.job import Job, JobId, JobResult, JobSpec, JobStatus, NodeName, SessionId, TenantId
from vmafx.domain.job_events import (
    AssignmentUndone,
    CancelAsked,
    Claimed,
    HeartbeatSeen,
    JobEffect,
    JobEvent,
    LeaseExpired,
    LeaseExtended,
    Released,
    ReportJudged,
    ReportReceived,
    SessionLost,
    WaitJudged,
)
from vmafx.domain.lease import LeasePolicy, Sight
from vmafx.domain.lifecycle import step
from vmafx.domain.nodesession import InstanceId, NodeSession
from vmafx.domain.report import Partial, Report, ReportContent, ReportVerdict
from vmafx.domain.scoring import Backend, Failure, Retry

START: Final = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
TICK_S: Final = 1e-6
ACME: Final = TenantId("acme")
RIVAL: Final = TenantId("rival")
SPEC: Final = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m")
POLICY: Final = LeasePolicy()


def after(seconds: float) -> datetime:
    """The instant `seconds` after the start of every story."""
    return START + timedelta(seconds=seconds)


def a_job(
    job_id: str = "job-1", *, at_s: float = 0.0, backend: Backend | None = None, **changes: object
) -> Job:
    spec = JobSpec(reference=SPEC.reference, distorted=SPEC.distorted, backend=backend)
    fields: dict[str, object] = {"tenant": ACME, "spec": spec, "at": after(at_s), **changes}
    return Job.submitted(job_id=JobId(job_id), **fields)  # type: ignore[arg-type]


def a_session(
    name: str = "s1",
    *,
    node: str = "node-a",
    at_s: float = 0.0,
    tenant: TenantId = ACME,
    instance: str | None = None,
    live_s: float = 86_400.0,
) -> NodeSession:
    """A session that registered `at_s` seconds after the start; live for a day unless told otherwise."""
    return NodeSession(
        id=SessionId(name),
        tenant=tenant,
        node=NodeName(node),
        registered_at=after(at_s),
        expires_at=after(at_s + live_s),
        instance=None if instance is None else InstanceId(instance),
    )


class Life:
    """One job; every method plays one event, at so many seconds after the start, to it."""

    def __init__(self, job: Job | None = None, policy: LeasePolicy = POLICY) -> None:
        self.history = JobHistory(job=job or a_job())
        self.policy = policy
        self.effects: tuple[JobEffect, ...] = ()
        self.before = self.history

    @property
    def job(self) -> Job:
        return self.history.job

    @property
    def status(self) -> JobStatus:
        return self.job.status

    @property
    def latest(self) -> Attempt:
        assert self.history.latest is not None
        return self.history.latest

    @property
    def verdict(self) -> ReportVerdict:
        """How the report just played was judged."""
        judged = self.effects[0]
        assert isinstance(judged, ReportJudged)
        return judged.verdict

    @property
    def unchanged(self) -> bool:
        """Whether the event just played changed nothing."""
        return self.history is self.before

    def play(self, event: JobEvent) -> Life:
        self.before = self.history
        done = step(self.history, event, self.policy)
        self.history, self.effects = done.history, done.effects
        return self

    def claim(
        self,
        session: NodeSession,
        at_s: float,
        *,
        backends: Sequence[Backend] = (),
        deadline_s: float | None = None,
    ) -> Life:
        deadline = None if deadline_s is None else after(deadline_s)
        return self.play(
            Claimed(at=after(at_s), session=session, backends=frozenset(backends), pull_deadline_at=deadline)
        )

    def beat(
        self,
        session: NodeSession,
        at_s: float,
        sight: Sight = Sight.LISTED,
        *,
        holder_seen_s: float | None = None,
    ) -> Life:
        seen = None if holder_seen_s is None else after(holder_seen_s)
        return self.play(HeartbeatSeen(at=after(at_s), session=session, sight=sight, holder_seen_at=seen))

    def absent(self, session: NodeSession, at_s: float) -> Life:
        return self.beat(session, at_s, Sight.ABSENT)

    def report(
        self,
        session: NodeSession,
        at_s: float,
        content: ReportContent,
        *,
        attempt: int | None = None,
        holder_seen_s: float | None = None,
    ) -> Life:
        seen = None if holder_seen_s is None else after(holder_seen_s)
        report = Report(content=content, attempt=attempt)
        return self.play(ReportReceived(at=after(at_s), reporter=session, report=report, holder_seen_at=seen))

    def succeed(
        self, session: NodeSession, at_s: float, score: float = 95.0, *, attempt: int | None = None
    ) -> Life:
        return self.report(session, at_s, JobResult(score=score, features={"vmaf": score}), attempt=attempt)

    def fail(
        self,
        session: NodeSession,
        at_s: float,
        error: str = "no such clip",
        *,
        retry: Retry = Retry.NO,
        attempt: int | None = None,
        holder_seen_s: float | None = None,
    ) -> Life:
        return self.report(
            session, at_s, Failure(error=error, retry=retry), attempt=attempt, holder_seen_s=holder_seen_s
        )

    def partial(self, session: NodeSession, at_s: float, *, attempt: int | None = None) -> Life:
        return self.report(session, at_s, Partial(scores=(90.0,)), attempt=attempt)

    def cancel(self, at_s: float) -> Life:
        return self.play(CancelAsked(at=after(at_s)))

    def expire(self, at_s: float) -> Life:
        """A sweep looks at the latest attempt."""
        latest = self.latest
        return self.play(LeaseExpired(at=after(at_s), attempt=latest.number, session=latest.session))

    def lose(self, session: NodeSession, at_s: float) -> Life:
        return self.play(SessionLost(at=after(at_s), session=session.id))

    def release(self, session: NodeSession, at_s: float, *, attempt: int) -> Life:
        return self.play(Released(at=after(at_s), attempt=attempt, session=session.id))

    def undo(self, session: NodeSession, at_s: float, *, attempt: int) -> Life:
        return self.play(AssignmentUndone(at=after(at_s), attempt=attempt, session=session.id))

    def extend(self, at_s: float) -> Life:
        return self.play(LeaseExtended(at=after(at_s)))

    def judge_wait(self, at_s: float) -> Life:
        return self.play(WaitJudged(at=after(at_s)))
