"""Random histories of two tenants and their nodes against each store and a plain model of one (ADR 0023).

Each call is made to both, and must be answered, or refused, alike; after each of them everything stored must
be the same, and possible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.store_harness import MAKERS, POLICY, TENANTS, Desk, Maker, digest, key_of
from tests.contract.store_model import ModelStore
from tests.histories import ACME, RIVAL, TICK_S, a_job, a_session, after
from vmafx.domain.attempt import violations
from vmafx.domain.errors import VmafxError
from vmafx.domain.job import JobId, JobResult, JobStatus, TenantId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import NodeSession, SessionKey
from vmafx.domain.report import Partial, Report, ReportContent
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.ports.jobstore import Change, Claim

WAITS_S = (
    TICK_S, 1.0, 5.0, 5.0, 10.0, 10.0, 30.0, 60.0 - TICK_S, 60.0, 60.0 + TICK_S, 90.0, 90.0 + TICK_S, -1.0,
)  # fmt: skip
JOBS_MAX = 10

anyone = st.integers(0, 99)
tenants = st.sampled_from([ACME, ACME, ACME, RIVAL])
offers = st.sampled_from(
    [frozenset({Backend.CPU, Backend.CUDA})] * 3 + [frozenset(), frozenset({Backend.CPU})]
)
contents: st.SearchStrategy[ReportContent] = st.one_of(
    st.integers(0, 100).map(lambda score: JobResult(score=float(score), features={"vmaf": float(score)})),
    st.sampled_from(Retry).map(lambda retry: Failure(error="it broke", retry=retry)),
    st.just(Partial(scores=(1.0,))),
)


class StoreMachine(RuleBasedStateMachine):
    maker: Maker

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.desk = Desk(self.runner.run(self.stack.enter_async_context(self.maker(POLICY))))
        self.model = ModelStore(POLICY)
        self.jobs = 0
        self.sessions: list[NodeSession] = []
        self.claims: list[Claim] = []

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def both(self, name: str, *args: object, **kwargs: object) -> Any:
        """Make a call to the store and to the model; the answer, or None when both refused."""
        desk = self.desk
        port = next(it for it in (desk.jobs, desk.attempts, desk.upkeep, desk.sessions) if hasattr(it, name))

        async def call() -> object:
            return await getattr(port, name)(*args, **kwargs)

        expected, refused = outcome(lambda: getattr(self.model, name)(*args, **kwargs))
        got, got_refused = outcome(lambda: self.runner.run(call()))
        assert repr(got_refused) == repr(refused)
        assert in_order(got) == in_order(expected)
        return got

    def a_key(self, number: int) -> SessionKey:
        return key_of(self.sessions[-1 - number % min(4, len(self.sessions))])

    def a_claim(self, number: int) -> Claim:
        return self.claims[-1 - number % min(4, len(self.claims))]

    def a_job_id(self, number: int) -> JobId:
        return JobId(f"job-{number % (self.jobs + 1)}")  # the last one does not exist

    @initialize()
    def begin(self) -> None:
        for tenant, node, instance in ((ACME, "node-a", "p"), (ACME, "node-b", None), (RIVAL, "node-a", "p")):
            self.a_node_registers(tenant, node, instance)
        for tenant, backend in ((ACME, None), (ACME, Backend.CPU), (RIVAL, None)):
            self.a_client_submits(tenant, backend, 0, None, None, 3)

    # ------------------------------------------------------------ time

    @rule(wait_s=st.sampled_from(WAITS_S))
    def time_passes(self, wait_s: float) -> None:
        self.desk.now_s += wait_s

    @rule(late_s=st.sampled_from([0.0, 60.0, 60.0 + TICK_S, 60.0 + TICK_S, 90.0, 90.0 + TICK_S]))
    def the_controller_sweeps(self, late_s: float) -> None:
        self.desk.now_s += late_s
        self.both("sweep", now=self.desk.now)

    @precondition(lambda self: self.claims)
    @rule(which=anyone, wait_s=st.sampled_from([5.0, 10.0]))
    def a_job_is_lost_and_its_node_or_another_pulls_again(self, which: int, wait_s: float) -> None:
        self.a_node_lists_what_it_was_given(which, again=True)
        self.desk.now_s += 60.0 + TICK_S
        self.both("sweep", now=self.desk.now)
        self.desk.now_s += wait_s
        self.a_node_pulls(which, frozenset(Backend), None)

    @rule(away_s=st.sampled_from([0.0, 120.0, 43_200.0, -3600.0]))
    def the_controller_was_away(self, away_s: float) -> None:
        self.desk.now_s += away_s
        self.both("resume", now=self.desk.now)

    @rule(age_s=st.sampled_from([0.0, 10.0, 300.0]), limit=st.integers(1, 3))
    def the_controller_deletes_old_jobs(self, age_s: float, limit: int) -> None:
        self.both("purge", finished_before=after(self.desk.now_s - age_s), limit=limit)

    # ------------------------------------------------------------ clients

    @precondition(lambda self: self.jobs < JOBS_MAX)
    @rule(
        tenant=tenants,
        backend=st.sampled_from([None, None, Backend.CPU, Backend.CUDA]),
        priority=st.sampled_from([0, 0, 1]),
        key=st.sampled_from([None, None, "k", "l"]),
        pending_max=st.sampled_from([None, None, 2]),
        tries=st.integers(1, 3),
    )
    def a_client_submits(
        self,
        tenant: TenantId,
        backend: Backend | None,
        priority: int,
        key: str | None,
        pending_max: int | None,
        tries: int,
    ) -> None:
        job = a_job(
            f"job-{self.jobs}",
            at_s=self.desk.now_s,
            backend=backend,
            tenant=tenant,
            priority=priority,
            idempotency_key=key,
            max_lost_attempts=tries,
        )
        submission = self.both("submit", job, pending_max=pending_max)
        self.jobs += submission is not None and submission.created

    @rule(tenant=tenants, whose=anyone)
    def a_client_cancels(self, tenant: TenantId, whose: int) -> None:
        self.both("cancel", tenant, self.a_job_id(whose), now=self.desk.now)

    # ------------------------------------------------------------ nodes

    @rule(
        tenant=tenants,
        node=st.sampled_from(["node-a", "node-b"]),
        instance=st.sampled_from([None, "p", "q"]),
    )
    def a_node_registers(self, tenant: TenantId, node: str, instance: str | None) -> None:
        name = f"s{len(self.sessions)}"
        session = a_session(
            name, node=node, at_s=self.desk.now_s, tenant=tenant, instance=instance, live_s=90.0
        )
        self.sessions.append(self.both("register", session, token_sha256=digest(name)))

    @rule(who=anyone, offered=offers, deadline_s=st.sampled_from([None, 0.0, 10.0]))
    def a_node_pulls(self, who: int, offered: frozenset[Backend], deadline_s: float | None) -> None:
        deadline = None if deadline_s is None else after(self.desk.now_s + deadline_s)
        key = self.a_key(who)
        claim = self.both("claim", key, offered, now=self.desk.now, pull_deadline_at=deadline)
        if claim is not None:
            self.claims.append(claim)

    @rule(who=anyone, listed=st.lists(anyone, max_size=4), more=st.integers(0, 2))
    def a_node_beats(self, who: int, listed: list[int], more: int) -> None:
        ids = tuple(self.a_job_id(number) for number in listed)
        heartbeat = Heartbeat(jobs_running=len(ids) + more, listed=ids)
        self.both("heartbeat", self.a_key(who), heartbeat, now=self.desk.now)

    @rule(who=anyone, listing=st.booleans())
    def a_node_pulls_and_beats_twice(self, who: int, *, listing: bool) -> None:
        """It never heard of what it was given, or runs it."""
        self.a_node_pulls(who, frozenset(Backend), 0.0)
        listed = (self.claims[-1].job.id,) if listing and self.claims else ()
        for _ in range(2):
            self.desk.now_s += 5.0
            heartbeat = Heartbeat(jobs_running=len(listed), listed=listed)
            self.both("heartbeat", self.a_key(who), heartbeat, now=self.desk.now)

    @precondition(lambda self: self.claims)
    @rule(which=anyone, again=st.booleans())
    def a_node_lists_what_it_was_given(self, which: int, *, again: bool) -> None:
        """Under the session that got it, or under the newest one of its name."""
        claim = self.a_claim(which)
        mine = [it for it in self.sessions if (it.tenant, it.node) == (claim.job.tenant, claim.attempt.node)]
        session = mine[-1] if again else next(it for it in mine if it.id == claim.attempt.session)
        heartbeat = Heartbeat(jobs_running=1, listed=(claim.job.id,))
        self.both("heartbeat", key_of(session), heartbeat, now=self.desk.now)

    @precondition(lambda self: self.claims)
    @rule(which=anyone)
    def a_node_comes_back(self, which: int) -> None:
        """It registers again, as the same process, and lists what it was given."""
        attempt = self.a_claim(which).attempt
        self.a_node_registers(self.a_claim(which).job.tenant, attempt.node, attempt.instance)
        self.a_node_lists_what_it_was_given(which, again=True)

    @rule(who=anyone, whose=anyone, content=contents, attempt=st.sampled_from([None, None, 1, 2, 3]))
    def a_node_reports(self, who: int, whose: int, content: ReportContent, attempt: int | None) -> None:
        report = Report(content=content, attempt=attempt)
        self.both("report", self.a_key(who), self.a_job_id(whose), report, now=self.desk.now)

    @precondition(lambda self: self.claims)
    @rule(which=anyone, content=contents)
    def a_node_reports_what_it_was_given(self, which: int, content: ReportContent) -> None:
        claim = self.a_claim(which)
        holder = next(it for it in self.sessions if it.id == claim.attempt.session)
        report = Report(content=content, attempt=claim.attempt.number)
        self.both("report", key_of(holder), claim.job.id, report, now=self.desk.now)

    @rule(who=anyone, whose=anyone)
    def a_stranger_shows_a_session_that_is_not_its_own(self, who: int, whose: int) -> None:
        right = self.a_key(who)
        wrong_tenant = next(tenant for tenant in TENANTS if tenant != right.tenant)
        report = Report(content=JobResult(score=1.0))
        for key in (replace(right, token_sha256=digest("x")), replace(right, tenant=wrong_tenant)):
            self.both("look_up", key, now=self.desk.now)
            self.both("claim", key, frozenset(), now=self.desk.now)
            self.both("report", key, self.a_job_id(whose), report, now=self.desk.now)

    @precondition(lambda self: self.claims)
    @rule(which=anyone, name=st.sampled_from(["release", "undo"]))
    def an_assignment_is_taken_back(self, which: int, name: str) -> None:
        self.both(name, self.a_claim(which).key, now=self.desk.now)

    # ------------------------------------------------------------ what is stored

    @invariant()
    def what_is_stored_is_the_same_and_possible(self) -> None:
        for tenant in TENANTS:
            for job in self.both("page", tenant):
                history = self.both("history", tenant, job.id)
                assert violations(history) == ()
            self.both("live", tenant, now=self.desk.now)
        self.both("page", RIVAL, statuses=frozenset({JobStatus.PENDING, JobStatus.FAILED}))
        self.both("counts")
        self.both("waiting")
        self.both("live_count", now=self.desk.now)


def outcome(call: Callable[[], object]) -> tuple[object, VmafxError | None]:
    try:
        return call(), None
    except VmafxError as error:
        return None, error


def in_order(answer: Any) -> Any:
    """The answer with its changes in one order; nothing is promised where they are of one instant."""
    if isinstance(changes := getattr(answer, "changes", None), tuple):
        return replace(answer, changes=tuple(sorted(changes, key=by_job)), **ended_in_order(answer))
    return answer


def ended_in_order(answer: Any) -> dict[str, tuple[NodeSession, ...]]:
    ended = getattr(answer, "sessions_ended", None)
    return {} if ended is None else {"sessions_ended": tuple(sorted(ended, key=lambda it: it.id))}


def by_job(change: Change) -> JobId:
    return change.job.id


@pytest.mark.no_cover  # the lines are counted by the other tests of the stores, twice as fast
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_random_histories_are_the_same_on_every_store(maker: Maker) -> None:
    class Machine(StoreMachine):
        pass

    Machine.maker = staticmethod(maker)
    run_state_machine_as_test(Machine, settings=settings(max_examples=25, stateful_step_count=60))
