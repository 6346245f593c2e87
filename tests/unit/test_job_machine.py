"""A job with its attempts over several tenants, nodes, processes and sessions, in any order of events.

The machine plays the controller around the pure step: it keeps sessions, lets time pass, sweeps, and sends
late and foreign events. What it believes about holders and successes it keeps by itself, not through the code
that is tested (ADR 0012).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.histories import ACME, RIVAL, SPEC, START, TICK_S
from vmafx.domain.attempt import Attempt, AttemptOutcome, JobHistory, violations
from vmafx.domain.errors import IllegalTransitionError
from vmafx.domain.job import Job, JobId, JobResult, JobStatus, NodeName, SessionId, TenantId
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
    LossCounted,
    Released,
    ReportJudged,
    ReportReceived,
    Requeued,
    SessionLost,
    TakenOver,
    WaitJudged,
)
from vmafx.domain.lease import LeasePolicy, Sight
from vmafx.domain.lifecycle import step
from vmafx.domain.nodesession import InstanceId, NodeSession, registration_instant
from vmafx.domain.report import Partial, Report, ReportContent, ReportVerdict
from vmafx.domain.scoring import Failure, Retry

POLICY = LeasePolicy()
WAITS_S = [TICK_S, 1.0, 5.0, 10.0, 30.0, 60.0 - TICK_S, 60.0, 60.0 + TICK_S, 300.0]
anyone = st.integers(0, 1000)
numbers = st.one_of(st.none(), st.just("current"), st.integers(0, 6))
Name = tuple[TenantId, NodeName]


class JobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.sessions: list[NodeSession] = []
        self.gone: list[NodeSession] = []
        self.holders: dict[Name, list[NodeSession]] = {}
        self.first_success: JobResult | None = None
        self.scores = 0
        self.history = JobHistory(job=Job.submitted(job_id=JobId("j"), tenant=ACME, spec=SPEC, at=self.now))

    # ------------------------------------------------------------ the world around the job

    @initialize(
        tries=st.integers(1, 5),
        past=st.lists(st.sampled_from(["lost", "given back"]), max_size=3),
        whose=st.lists(st.sampled_from(["node-a", "node-b"]), min_size=4, max_size=4),
        instance=st.sampled_from([None, "p"]),
    )
    def begin(self, tries: int, past: list[str], whose: list[str], instance: str | None) -> None:
        self.history = JobHistory(job=replace(self.history.job, max_lost_attempts=tries))
        for end, node in zip(past, whose, strict=False):
            self.a_new_session_claims(node, instance)
            if self.history.current is not None and end == "lost":
                self.the_running_attempt_is_lost(with_session=True)
            elif self.history.current is not None:
                self.the_running_attempt_is_given_back(Released)
        self.a_new_session_claims(whose[-1], instance)

    @rule(
        tenant=st.sampled_from([ACME, ACME, ACME, RIVAL]),
        node=st.sampled_from(["node-a", "node-b"]),
        instance=st.sampled_from([None, "p", "q"]),
    )
    def register(self, tenant: TenantId, node: str, instance: str | None) -> None:
        same = [s.registered_at for s in self.sessions if (s.tenant, s.node) == (tenant, node)]
        self.sessions.append(
            NodeSession(
                id=SessionId(f"s{len(self.sessions) + len(self.gone)}"),
                tenant=tenant,
                node=NodeName(node),
                registered_at=registration_instant(self.now, max(same, default=None)),
                expires_at=self.now + timedelta(seconds=POLICY.session_ttl_s),
                instance=None if instance is None else InstanceId(instance),
            )
        )

    @rule(wait_s=st.sampled_from(WAITS_S))
    def time_passes(self, wait_s: float) -> None:
        self.now += timedelta(seconds=wait_s)

    @rule(wait_s=st.sampled_from([1.0, 10.0, 30.0]))
    def time_passes_while_all_nodes_beat(self, wait_s: float) -> None:
        self.now += timedelta(seconds=wait_s)
        self.sessions = [
            s.renewed(self.now, ttl_s=POLICY.session_ttl_s) if s.live(self.now) else s for s in self.sessions
        ]

    # ------------------------------------------------------------ events

    @rule(node=st.sampled_from(["node-a", "node-b"]), instance=st.sampled_from([None, "p", "q"]))
    def a_new_session_claims(self, node: str, instance: str | None) -> None:
        self.now = max(self.now, self.history.job.available_at)
        self.register(ACME, node, instance)
        if self.history.job.status is JobStatus.PENDING:
            self._play(Claimed(at=self.now, session=self.sessions[-1]), self.sessions[-1])

    @rule(who=anyone, deadline_s=st.sampled_from([None, 0.0, 10.0]))
    def anybody_claims(self, who: int, deadline_s: float | None) -> None:
        session = self._session(who)
        job = self.history.job
        deadline = None if deadline_s is None else self.now + timedelta(seconds=deadline_s)
        event = Claimed(at=self.now, session=session, pull_deadline_at=deadline)
        fits = (
            job.status is JobStatus.PENDING
            and job.available_at <= self.now <= session.expires_at
            and session.tenant == job.tenant
        )
        if fits:
            self._play(event, session)
        else:
            with pytest.raises(IllegalTransitionError):
                step(self.history, event, POLICY)

    @rule(who=anyone, sight=st.sampled_from(Sight))
    def anybody_beats(self, who: int, sight: Sight) -> None:
        session = self._session(who)
        if session.live(self.now):
            self._beat(session, sight)

    @precondition(lambda self: self.history.current is not None)
    @rule(sight=st.sampled_from(Sight))
    def the_holder_beats(self, sight: Sight) -> None:
        holder = self._holder()
        if holder is not None and holder.live(self.now):
            self._beat(holder, sight)

    @precondition(lambda self: self.history.latest is not None)
    @rule(instance=st.sampled_from([None, "p", "q"]))
    def the_node_registers_anew_and_lists_the_job(self, instance: str | None) -> None:
        latest = self.history.latest
        assert latest is not None
        self.register(ACME, latest.node, instance)
        self._beat(self.sessions[-1], Sight.LISTED)

    @precondition(lambda self: self.history.job.attempt >= 2)  # else most stories would be short
    @rule(who=anyone, number=numbers)
    def anybody_succeeds(self, who: int, number: int | str | None) -> None:
        self.scores += 1
        self._report(who, JobResult(score=float(self.scores)), number)

    @precondition(lambda self: self.history.job.attempt >= 2)  # the same
    @rule(who=anyone, number=numbers, retry=st.sampled_from(Retry))
    def anybody_fails(self, who: int, number: int | str | None, retry: Retry) -> None:
        self._report(who, Failure(error="no", retry=retry), number)

    @rule(who=anyone, number=numbers)
    def anybody_reports_in_part(self, who: int, number: int | str | None) -> None:
        before = self.history
        self._report(who, Partial(scores=(1.0,)), number)
        assert self.history is before

    @rule()
    def a_sweep_looks(self) -> None:
        lost = [s for s in self.sessions if not s.live(self.now)]
        for session in lost:
            self._play(SessionLost(at=self.now, session=session.id))
        self.sessions = [s for s in self.sessions if s.live(self.now)]
        self.gone += lost
        current = self.history.current
        if current is not None:
            before = self.history
            held = current.lease_holds(self.now)
            self._play(LeaseExpired(at=self.now, attempt=current.number, session=current.session))
            assert (self.history is before) == held

    @precondition(lambda self: self.history.current is not None)
    @rule(with_session=st.booleans())
    def the_running_attempt_is_lost(self, with_session: bool) -> None:  # noqa: FBT001 -- drawn by hypothesis
        current = self.history.current
        assert current is not None
        assert current.lease_expires_at is not None
        self.now = max(self.now, current.lease_expires_at + timedelta(seconds=TICK_S))
        if with_session:
            self._play(SessionLost(at=self.now, session=current.session))
        else:
            self._play(LeaseExpired(at=self.now, attempt=current.number, session=current.session))
        assert self.history.job.status in {JobStatus.PENDING, JobStatus.FAILED}
        assert self.history.attempts[-1].outcome is AttemptOutcome.EXPIRED

    @rule(
        who=anyone, number=st.integers(0, 6), kind=st.sampled_from([LeaseExpired, Released, AssignmentUndone])
    )
    def an_event_about_some_attempt_comes(
        self, who: int, number: int, kind: type[LeaseExpired | Released | AssignmentUndone]
    ) -> None:
        session = self._session(who)
        before, current = self.history, self.history.current
        self._play(kind(at=self.now, attempt=number, session=session.id))
        if current is None or (current.number, current.session) != (number, session.id):
            assert self.history is before

    @precondition(lambda self: self.history.current is not None)
    @rule(kind=st.sampled_from([Released, AssignmentUndone]))
    def the_running_attempt_is_given_back(self, kind: type[Released | AssignmentUndone]) -> None:
        current = self.history.current
        assert current is not None
        self._play(kind(at=self.now, attempt=current.number, session=current.session))
        assert self.history.job.status is JobStatus.PENDING

    @rule()
    def the_controller_was_away(self) -> None:
        self.sessions = [s.extended(self.now, ttl_s=POLICY.session_ttl_s) for s in self.sessions]
        self._play(LeaseExtended(at=self.now))
        self._play(WaitJudged(at=self.now))

    @precondition(lambda self: self.history.job.attempt >= 3)  # the same
    @rule()
    def the_owner_cancels(self) -> None:
        self._play(CancelAsked(at=self.now))
        assert self.history.job.status.terminal

    # ------------------------------------------------------------ what must always be true

    @invariant()
    def nothing_in_the_history_contradicts_itself(self) -> None:
        assert violations(self.history) == ()

    @invariant()
    def a_completed_job_has_exactly_the_success_first_reported(self) -> None:
        job = self.history.job
        assert (job.status is JobStatus.COMPLETED) == (self.first_success is not None)
        assert job.result == self.first_success

    @invariant()
    def losses_stay_within_their_limit(self) -> None:
        job = self.history.job
        assert 0 <= job.lost_attempts <= job.max_lost_attempts

    @invariant()
    def at_most_one_attempt_is_open_and_only_while_the_job_runs(self) -> None:
        still_open = [a for a in self.history.attempts if a.outcome is None]
        assert len(still_open) == (1 if self.history.job.status is JobStatus.RUNNING else 0)
        assert all(a.lease_expires_at is not None for a in still_open)

    # ------------------------------------------------------------ playing one event

    def _session(self, who: int) -> NodeSession:
        everybody = [*self.sessions, *self.gone]
        return everybody[who % len(everybody)]

    def _holder(self) -> NodeSession | None:
        latest = self.history.latest
        return next((s for s in self.sessions if latest is not None and s.id == latest.session), None)

    def _beat(self, session: NodeSession, sight: Sight) -> None:
        holder = self._holder()
        seen = None if holder is None else holder.last_heartbeat_at
        self._play(HeartbeatSeen(at=self.now, session=session, sight=sight, holder_seen_at=seen), session)
        renewed = session.renewed(self.now, ttl_s=POLICY.session_ttl_s)
        self.sessions = [renewed if s.id == session.id else s for s in self.sessions]

    def _report(self, who: int, content: ReportContent, number: int | str | None) -> None:
        reporter, before = self._session(who), self.history
        if not reporter.live(self.now):
            return
        attempt = before.job.attempt if isinstance(number, str) else number
        holder = self._holder()
        effects = self._play(
            ReportReceived(
                at=self.now,
                reporter=reporter,
                report=Report(content=content, attempt=attempt),
                holder_seen_at=None if holder is None else holder.last_heartbeat_at,
            ),
            reporter,
        )
        assert isinstance(effects[0], ReportJudged)
        verdict = effects[0].verdict
        changed = self.history is not before
        quiet = {ReportVerdict.IGNORE, ReportVerdict.REFUSE, ReportVerdict.ACCEPT_PARTIAL}
        assert changed == (verdict not in quiet)
        ends = {
            ReportVerdict.RECORD_SUCCESS: JobStatus.COMPLETED,
            ReportVerdict.RECORD_FAILURE: JobStatus.FAILED,
            ReportVerdict.REQUEUE_RETRYABLE: JobStatus.PENDING,
            ReportVerdict.REQUEUE_RELEASED: JobStatus.PENDING,
        }
        assert self.history.job.status is ends.get(verdict, before.job.status)
        self._check_report(before, reporter, content, attempt, verdict)

    def _check_report(
        self,
        before: JobHistory,
        reporter: NodeSession,
        content: ReportContent,
        attempt: int | None,
        verdict: ReportVerdict,
    ) -> None:
        holders = self.holders.get((reporter.tenant, reporter.node), [])
        assert (verdict is ReportVerdict.REFUSE) or holders
        if isinstance(content, JobResult):
            mine = any(h.registered_at <= reporter.registered_at for h in holders)
            wins = mine and not before.job.status.terminal
            assert (verdict is ReportVerdict.RECORD_SUCCESS) == wins
            if wins:
                self.first_success = content
        if isinstance(content, Failure) and self.history is not before:
            current = before.current
            assert current is not None
            assert current.node == reporter.node
            assert attempt in {None, current.number}

    def _play(self, event: JobEvent, actor: NodeSession | None = None) -> tuple[JobEffect, ...]:
        before = self.history
        done = step(before, event, POLICY)
        self.history = done.history
        self._check_step(before, done.history, event, done.effects)
        held = actor is not None and (actor.tenant, actor.node) in self.holders
        if actor is not None and not held and not isinstance(event, Claimed):
            assert done.history is before
        if actor is not None and (any(isinstance(e, Assigned | TakenOver) for e in done.effects)):
            assert actor.tenant == before.job.tenant
            self.holders.setdefault((actor.tenant, actor.node), []).append(actor)
        return done.effects

    def _check_step(
        self, before: JobHistory, now: JobHistory, event: JobEvent, effects: tuple[JobEffect, ...]
    ) -> None:
        old, new = before.job, now.job
        if old.status.terminal:
            assert now is before
            assert all(isinstance(e, ReportJudged) for e in effects)
        if new.status is not old.status:
            assert type(event) in MOVES[old.status, new.status]
        kinds = [type(e) for e in effects]
        assert len(kinds) == len(set(kinds))
        assert (Finished in kinds) == (new.status.terminal and not old.status.terminal)
        assert (Requeued in kinds) == (old.status is JobStatus.RUNNING and new.status is JobStatus.PENDING)
        assert (Assigned in kinds) == (new.attempt > old.attempt) == isinstance(event, Claimed)
        forgiven = any(isinstance(e, TakenOver) and e.loss_forgiven for e in effects)
        assert new.lost_attempts - old.lost_attempts == (LossCounted in kinds) - forgiven
        assert new.updated_at >= old.updated_at
        assert new.attempt == old.attempt + (Assigned in kinds)
        self._check_attempts(before, now, event, taken_over=TakenOver in kinds)

    def _check_attempts(
        self, before: JobHistory, now: JobHistory, event: JobEvent, *, taken_over: bool
    ) -> None:
        def what_never_changes(attempt: Attempt) -> tuple[object, ...]:
            return (attempt.number, attempt.node, attempt.started_at, attempt.first_registered_at)

        assert len(now.attempts) == len(before.attempts) + isinstance(event, Claimed)
        for old, new in zip(before.attempts, now.attempts, strict=False):
            assert what_never_changes(old) == what_never_changes(new)
            assert (old.session == new.session) or taken_over
            if old.outcome is not None and new != old:
                reopened = new.outcome is None and taken_over and old.outcome is AttemptOutcome.EXPIRED
                earned = new.outcome is AttemptOutcome.COMPLETED and now.job.status is JobStatus.COMPLETED
                assert reopened or earned


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestMoreJobHistories(JobMachine.TestCase):
    settings = settings(derandomize=False, max_examples=3_000, stateful_step_count=40, deadline=None)
