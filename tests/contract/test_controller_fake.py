"""What only a FakeController can do: fail on cue or by seed, and show what it knows (ADR 0014)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import (
    HeartbeatCall,
    NodeCall,
    PullCall,
    RegisterCall,
    ReportCall,
)
from vmafx.adapters.fakes.controller_faults import (
    Delay,
    Fail,
    Hang,
    LoseAnswer,
    SeededFaults,
    Substitute,
)
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobId, JobResult, JobSpec, JobStatus, NodeName, RequeueReason, SessionId
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Backend
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

pytestmark = pytest.mark.virtual_time

IDENTITY = NodeIdentity(name=NodeName("node-a"))
CPU = Capability(backends=frozenset({Backend.CPU}))
IDLE = Heartbeat(jobs_running=0)
SUCCESS = Report(content=JobResult(score=90.0))


@pytest.fixture
def controller(clock: VirtualClock) -> FakeController:
    return FakeController(clock)


async def opened(controller: FakeController, identity: NodeIdentity = IDENTITY) -> Session:
    answer = await controller.register(identity, CPU, timeout_s=10)
    return Session(generation=1, node_id=answer.node_id, session_token=answer.session_token)


def failing(code: str) -> pytest.RaisesExc[ControllerError]:
    return pytest.raises(ControllerError, check=lambda error: error.code == code)


# ---------------------------------------------------------------- faults on cue


@pytest.mark.parametrize("code", [c for c in StatusCode if c is not StatusCode.OK], ids=lambda c: c.value)
async def test_call_fails_with_the_cued_code_before_anything_is_done(
    controller: FakeController, code: StatusCode
) -> None:
    controller.wire.cue(Call.REGISTER, Fail(code=code, message="because"))
    with failing(code.value):
        await opened(controller)
    assert controller.sessions == ()


async def test_cued_faults_come_in_order_and_then_end(controller: FakeController) -> None:
    session = await opened(controller)
    controller.wire.cue(Call.HEARTBEAT, Fail(code=StatusCode.INTERNAL), None, Fail())
    outcomes = []
    for _ in range(4):
        try:
            outcomes.append((await controller.heartbeat(session, IDLE, timeout_s=10)).ok)
        except ControllerError as error:
            outcomes.append(error.code)
    assert outcomes == ["INTERNAL", True, "UNAVAILABLE", True]


async def test_fault_meets_only_calls_of_its_kind(controller: FakeController) -> None:
    controller.wire.cue(Call.PULL, Fail())
    session = await opened(controller)
    with failing("UNAVAILABLE"):
        await controller.pull(session, CPU, timeout_s=10)


async def test_lost_answer_leaves_the_work_done(controller: FakeController) -> None:
    session = await opened(controller)
    job_id = controller.submit()
    controller.wire.cue(Call.PULL, LoseAnswer())
    with failing("UNAVAILABLE"):
        await controller.pull(session, CPU, timeout_s=10)
    assert controller.job(job_id).status is JobStatus.RUNNING


async def test_report_whose_answer_was_lost_can_be_repeated(controller: FakeController) -> None:
    session = await opened(controller)
    job_id = controller.submit()
    await controller.pull(session, CPU, timeout_s=10)
    controller.wire.cue(Call.REPORT, LoseAnswer(code=StatusCode.DEADLINE_EXCEEDED))
    with failing("DEADLINE_EXCEEDED"):
        await controller.report(session, job_id, SUCCESS, timeout_s=10)
    await controller.report(session, job_id, SUCCESS, timeout_s=10)
    assert controller.job(job_id).status is JobStatus.COMPLETED


async def test_hanging_call_goes_on_when_it_is_released(
    controller: FakeController, clock: VirtualClock
) -> None:
    controller.wire.cue(Call.REGISTER, Hang())
    registering = asyncio.create_task(opened(controller))
    await clock.advance(5)
    assert (controller.wire.hanging, controller.sessions) == (1, ())
    controller.wire.release()
    await registering
    assert (controller.wire.hanging, len(controller.sessions)) == (0, 1)


async def test_hanging_call_ends_at_its_deadline(controller: FakeController, clock: VirtualClock) -> None:
    session = await opened(controller)
    controller.wire.cue(Call.HEARTBEAT, Hang())
    with failing("DEADLINE_EXCEEDED"):
        await controller.heartbeat(session, IDLE, timeout_s=10)
    assert clock.monotonic() == 10
    assert controller.wire.hanging == 0


async def test_release_does_not_release_what_hangs_later(
    controller: FakeController, clock: VirtualClock
) -> None:
    controller.wire.release()
    controller.wire.cue(Call.REGISTER, Hang())
    with failing("DEADLINE_EXCEEDED"):
        await opened(controller)


@pytest.mark.parametrize("ending", ["deadline", "cancelled"])
@pytest.mark.parametrize("mode", ControllerMode, ids=lambda mode: mode.value)
async def test_assignment_whose_caller_is_gone_is_undone_but_by_an_original(
    clock: VirtualClock, mode: ControllerMode, ending: str
) -> None:
    controller = FakeController(clock, mode=mode)
    session = await opened(controller)
    job_id = controller.submit()
    controller.wire.cue(Call.PULL, Hang(answered=True))
    pulling = asyncio.create_task(controller.pull(session, CPU, timeout_s=10))
    await clock.advance(1)
    assert controller.job(job_id).status is JobStatus.RUNNING
    if ending == "cancelled":
        pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)
    undone = mode is ControllerMode.CURRENT
    assert controller.job(job_id).status is (JobStatus.PENDING if undone else JobStatus.RUNNING)
    reasons = [requeue.reason for requeue in controller.requeues]
    assert reasons == ([RequeueReason.ASSIGN_ROLLBACK] if undone else [])


async def test_delayed_call_takes_its_time_on_both_ways(
    controller: FakeController, clock: VirtualClock
) -> None:
    controller.wire.cue(Call.REGISTER, Delay(before_s=2, after_s=3))
    registering = asyncio.create_task(opened(controller))
    await clock.advance(1.9)
    assert controller.sessions == ()
    await clock.advance(0.2)
    assert len(controller.sessions) == 1
    await registering
    assert clock.monotonic() == 5


@pytest.mark.parametrize(
    "registration",
    [
        Registration(node_id=SessionId(""), session_token="secret"),
        Registration(node_id=SessionId("node"), session_token=""),
    ],
)
async def test_empty_ids_can_be_answered(controller: FakeController, registration: Registration) -> None:
    controller.wire.cue(Call.REGISTER, Substitute(answer=registration))
    assert await controller.register(IDENTITY, CPU, timeout_s=10) == registration
    assert controller.sessions == ()


@pytest.mark.parametrize(
    "garbage",
    [
        Assignment(job_id=JobId("")),
        Assignment(job_id=JobId("x" * 5000), reference="/a", distorted="/b"),
        Assignment(job_id=JobId("j"), reference="\x1b[2J", distorted="../..", backend="abacus", attempt=-1),
    ],
    ids=["empty", "overlong", "strange"],
)
async def test_garbage_can_be_assigned(controller: FakeController, garbage: Assignment) -> None:
    session = await opened(controller)
    controller.submit()
    controller.wire.cue(Call.PULL, Substitute(answer=garbage))
    assert await controller.pull(session, CPU, timeout_s=10) == garbage
    assert controller.jobs[0].status is JobStatus.PENDING


async def test_heartbeat_can_be_refused_and_name_any_job(controller: FakeController) -> None:
    session = await opened(controller)
    named = HeartbeatAnswer(ok=True, cancel_job_ids=(JobId("never-heard-of"),))
    controller.wire.cue(
        Call.HEARTBEAT, Substitute(answer=HeartbeatAnswer(ok=False)), Substitute(answer=named)
    )
    assert not (await controller.heartbeat(session, IDLE, timeout_s=10)).ok
    assert await controller.heartbeat(session, IDLE, timeout_s=10) == named


async def test_controller_that_is_away_serves_nobody_until_it_heals(controller: FakeController) -> None:
    session = await opened(controller)
    controller.wire.break_down()
    for _ in range(3):
        with failing("UNAVAILABLE"):
            await controller.heartbeat(session, IDLE, timeout_s=10)
    controller.wire.heal()
    assert (await controller.heartbeat(session, IDLE, timeout_s=10)).ok


async def test_pull_that_waits_fails_when_the_controller_goes_away(
    controller: FakeController, clock: VirtualClock
) -> None:
    session = await opened(controller)
    pulling = asyncio.create_task(controller.pull(session, CPU, timeout_s=10))
    await clock.advance(1)
    controller.wire.break_down(Fail(code=StatusCode.INTERNAL))
    job_id = controller.submit()
    with failing("INTERNAL"):
        await pulling
    assert controller.job(job_id).status is JobStatus.PENDING


# ---------------------------------------------------------------- faults by seed


def _drawn(seed: int, count: int = 400, **shares: float) -> list[object]:
    rule = SeededFaults(seed, **shares)
    call = PullCall(
        at_s=0,
        timeout_s=1,
        session=Session(generation=1, node_id=SessionId("n"), session_token="s"),
        capability=CPU,
    )
    return [rule(call) for _ in range(count)]


def test_seed_decides_every_fault() -> None:
    assert _drawn(7) == _drawn(7)
    assert _drawn(7) != _drawn(8)


def test_shares_decide_how_often_each_fault_comes() -> None:
    drawn = _drawn(1, count=4000, failed=0.3, lost=0.2, delayed=0.1)
    for kind, share in ((Fail, 0.3), (LoseAnswer, 0.2), (Delay, 0.1), (type(None), 0.4)):
        assert abs(sum(isinstance(fault, kind) for fault in drawn) / 4000 - share) < 0.05


def test_delays_stay_within_their_limit() -> None:
    delays = [
        fault
        for fault in _drawn(3, failed=0, lost=0, delayed=0.9, delay_max_s=2.5)
        if isinstance(fault, Delay)
    ]
    assert delays
    assert all(0 <= each <= 2.5 for delay in delays for each in (delay.before_s, delay.after_s))


def test_drawn_failures_may_all_be_tried_again() -> None:
    codes = {fault.code for fault in _drawn(5, failed=0.9, lost=0, delayed=0) if isinstance(fault, Fail)}
    assert StatusCode.UNAVAILABLE in codes
    assert StatusCode.PERMISSION_DENIED not in codes


@pytest.mark.parametrize("shares", [{"failed": -0.1}, {"failed": 0.6, "lost": 0.6}])
def test_shares_that_make_no_sense_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares"):
        SeededFaults(1, **shares)


async def test_rule_is_asked_when_nothing_is_cued(clock: VirtualClock) -> None:
    def pulls_fail(call: NodeCall) -> Fail | None:
        return Fail() if isinstance(call, PullCall) else None

    controller = FakeController(clock, rule=pulls_fail)
    session = await opened(controller)
    controller.wire.cue(Call.PULL, None)
    assert await controller.pull(session, CPU, timeout_s=1) is None
    with failing("UNAVAILABLE"):
        await controller.pull(session, CPU, timeout_s=1)


# ---------------------------------------------------------------- what it shows


async def test_every_call_is_written_down_as_it_came(controller: FakeController, clock: VirtualClock) -> None:
    session = await opened(controller)
    job_id = controller.submit()
    await clock.advance(3)
    await controller.heartbeat(session, IDLE, timeout_s=7)
    await controller.pull(session, CPU, timeout_s=8)
    await controller.report(session, job_id, SUCCESS, timeout_s=9)
    assert controller.wire.received == [
        RegisterCall(at_s=0, timeout_s=10, identity=IDENTITY, capability=CPU),
        HeartbeatCall(at_s=3, timeout_s=7, session=session, heartbeat=IDLE),
        PullCall(at_s=3, timeout_s=8, session=session, capability=CPU),
        ReportCall(at_s=3, timeout_s=9, session=session, job_id=job_id, report=SUCCESS),
    ]
    assert controller.wire.received_as(PullCall) == [controller.wire.received[2]]


async def test_every_end_of_a_call_is_written_down(controller: FakeController, clock: VirtualClock) -> None:
    session = await opened(controller)
    fault = Delay(before_s=2)
    controller.wire.cue(Call.HEARTBEAT, fault, Fail(), Hang())
    await controller.heartbeat(session, IDLE, timeout_s=10)
    with failing("UNAVAILABLE"):
        await controller.heartbeat(session, IDLE, timeout_s=10)
    hanging = asyncio.create_task(controller.heartbeat(session, IDLE, timeout_s=10))
    await clock.advance(1)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    _, answered, failed, given_up = controller.wire.ended
    assert (answered.outcome, answered.ended_s, answered.fault) == (HeartbeatAnswer(ok=True), 2, fault)
    assert isinstance(failed.outcome, ControllerError)
    assert (given_up.outcome, given_up.cancelled, given_up.ended_s) == (None, True, 3)
    assert not (answered.cancelled)
    assert not (failed.cancelled)


async def test_until_ended_returns_when_the_last_job_has(
    controller: FakeController, clock: VirtualClock
) -> None:
    session = await opened(controller)
    first, second = controller.submit(), controller.submit()
    waiting = asyncio.create_task(controller.until_ended(first, second))
    for job_id in (first, second):
        await controller.pull(session, CPU, timeout_s=10)
        await clock.advance(1)
        assert not waiting.done()
        await controller.report(session, job_id, SUCCESS, timeout_s=10)
    assert [job.status for job in await waiting] == [JobStatus.COMPLETED] * 2


async def test_until_ended_sees_a_job_end_by_time_alone(clock: VirtualClock) -> None:
    controller = FakeController(clock, policy=LeasePolicy(session_ttl_s=1e6), pull_wait_s=100)
    session = await opened(controller)
    job_id = controller.submit()
    waiting = asyncio.create_task(controller.until_ended(job_id))
    for _ in range(3):  # the lease runs out, and the job waits 5 s, then 10 s
        assert await controller.pull(session, CPU, timeout_s=200)
    (job,) = await waiting
    assert (job.status, job.lost_attempts) == (JobStatus.FAILED, 3)
    assert clock.monotonic() == pytest.approx(60 + 5 + 60 + 10 + 60, abs=0.1)


@pytest.mark.parametrize(
    ("session_ttl_s", "reason"), [(60, RequeueReason.NODE_LOST), (1e6, RequeueReason.LEASE_EXPIRED)]
)
async def test_what_has_run_out_does_not_depend_on_when_somebody_looks(
    clock: VirtualClock, session_ttl_s: float, reason: RequeueReason
) -> None:
    seen = []
    for looks_s in ((200.0,), (61.0, 3.0, 2.0, 134.0)):
        controller = FakeController(clock, policy=LeasePolicy(session_ttl_s=session_ttl_s))
        began_at = clock.now()
        session = await opened(controller)
        job_id = controller.submit()
        await controller.pull(session, CPU, timeout_s=10)
        for seconds in looks_s:
            await clock.advance(seconds)
            job = controller.job(job_id)
        assert [requeue.reason for requeue in controller.requeues] == [reason]
        seen.append((job.updated_at - began_at, job.available_at - began_at))
    assert seen[0] == seen[1]


async def test_pull_that_waits_gets_a_job_whose_wait_ends_meanwhile(
    controller: FakeController, clock: VirtualClock
) -> None:
    first = await opened(controller)
    job_id = controller.submit()
    await controller.pull(first, CPU, timeout_s=10)
    await controller.heartbeat(first, Heartbeat(jobs_running=1, listed=(job_id,)), timeout_s=10)
    await clock.advance(58)
    second = await opened(controller, replace(IDENTITY, name=NodeName("node-b")))
    await clock.advance(4)  # the first session ends on the way; its job waits five seconds more
    assignment = await controller.pull(second, CPU, timeout_s=10)
    assert assignment is not None
    assert (assignment.job_id, assignment.attempt) == (job_id, 2)


async def test_wall_clock_that_steps_ends_no_session(controller: FakeController, clock: VirtualClock) -> None:
    session = await opened(controller)
    for step_s in (12 * 3600, -13 * 3600):
        clock.step_wall(step_s)
        assert (await controller.heartbeat(session, IDLE, timeout_s=10)).ok


@pytest.mark.parametrize("jobs_lost", [True, False])
async def test_ended_sessions_are_refused_and_their_jobs_lost_or_not(
    controller: FakeController, *, jobs_lost: bool
) -> None:
    session = await opened(controller)
    other = await opened(controller, replace(IDENTITY, name=NodeName("node-b")))
    job_id = controller.submit()
    await controller.pull(session, CPU, timeout_s=10)
    controller.end_sessions(IDENTITY.name, jobs_lost=jobs_lost)
    assert not (await controller.heartbeat(session, IDLE, timeout_s=10)).ok
    assert (await controller.heartbeat(other, IDLE, timeout_s=10)).ok
    assert controller.job(job_id).status is (JobStatus.PENDING if jobs_lost else JobStatus.RUNNING)
    assert [s.node for s in controller.sessions] == ["node-b"]


async def test_ending_all_sessions_ends_those_of_every_node(controller: FakeController) -> None:
    await opened(controller)
    await opened(controller, replace(IDENTITY, name=NodeName("node-b")))
    controller.end_sessions()
    assert controller.sessions == ()


async def test_cancel_tells_whether_it_ended_the_job(controller: FakeController) -> None:
    job_id = controller.submit()
    assert controller.cancel(job_id)
    assert not controller.cancel(job_id)
    assert controller.job(job_id).status is JobStatus.CANCELLED


def test_job_of_a_taken_id_is_refused(clock_by_hand: VirtualClock) -> None:
    controller = FakeController(clock_by_hand)
    controller.submit(job_id="mine")
    with pytest.raises(ValueError, match="mine"):
        controller.submit(JobSpec(reference="/a", distorted="/b"), job_id="mine")


@pytest.mark.parametrize("ask", ["job", "history", "cancel"])
def test_unknown_job_is_a_key_error(clock_by_hand: VirtualClock, ask: str) -> None:
    with pytest.raises(KeyError):
        getattr(FakeController(clock_by_hand), ask)(JobId("none"))


@pytest.fixture
def clock_by_hand() -> VirtualClock:
    return VirtualClock()


@pytest.mark.parametrize("seed", range(5))
def test_same_seed_makes_the_same_history(seed: int) -> None:
    async def history(clock: VirtualClock) -> list[str]:
        controller = FakeController(clock, rule=SeededFaults(seed, failed=0.2, lost=0.2, delayed=0.3))
        chance = Random(seed)

        async def node(name: str) -> None:
            for _ in range(20):
                try:
                    session = await opened(controller, NodeIdentity(name=NodeName(name)))
                    await clock.sleep(chance.uniform(0, 3))
                    if assignment := await controller.pull(session, CPU, timeout_s=5):
                        await controller.report(session, assignment.job_id, SUCCESS, timeout_s=5)
                except ControllerError:
                    controller.submit()

        await asyncio.gather(*(node(f"node-{n}") for n in range(3)))
        assert controller.violations() == ()
        return [repr(end) for end in controller.wire.ended] + [repr(controller.jobs)]

    assert run_virtual(history) == run_virtual(history)
