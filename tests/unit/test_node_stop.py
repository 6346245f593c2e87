"""The order of stopping: nothing new, jobs end or are interrupted and told of, the session ends last."""

from __future__ import annotations

import asyncio

import pytest

from tests.node_world import ENDLESS, MODES, assert_nothing_left, make_world, running, until
from vmafx.adapters.fakes.controller_faults import Fail, Hang
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.app.node.jobs import Pulled
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ScorerError, ScorerUnavailableError
from vmafx.domain.job import JobResult, JobStatus
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Failure, Retry
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

INTERRUPTED = "node shutting down, job interrupted: executor: score job {}: the run was stopped"


async def test_an_idle_node_stops_at_once_and_its_pull_is_ended(clock):
    it = make_world(clock, slots=3)
    it.start()
    await clock.sleep(2)
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == 2
    assert all(call.cancelled for call in it.fake.wire.ended if call.call.kind is Call.PULL)
    assert it.telemetry.messages[-1] == events.CLIENT_STOPPED
    assert_nothing_left(it)


async def test_a_job_that_ends_in_time_is_reported(clock):
    it = make_world(clock, takes_s=15)
    it.start()
    job = it.submit("a")
    await clock.sleep(3)
    it.node.stop()
    late = it.submit("b")
    await it.ended()
    assert it.status(job) is JobStatus.COMPLETED
    assert it.status(late) is JobStatus.PENDING
    assert 15 <= clock.monotonic() < 16
    assert not it.told(events.DEADLINE_REACHED)
    assert_nothing_left(it)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_jobs_that_run_at_the_deadline_are_interrupted_and_told_of(clock, mode):
    it = make_world(clock, slots=3, run=lambda _: ENDLESS, mode=mode)
    it.start()
    jobs = [it.submit(name) for name in "abc"]
    await clock.sleep(5)
    it.node.stop()
    await it.ended()
    assert 25 <= clock.monotonic() < 26
    (event,) = it.told(events.DEADLINE_REACHED)
    assert (event.level, event.fields["running"]) == (Level.WARN, 3)
    for job in jobs:
        (report,) = it.reports(job)
        assert report.report.content == Failure(error=INTERRUPTED.format(job), retry=Retry.AT_ONCE)
        assert it.status(job) is (JobStatus.PENDING if mode is MODES[0] else JobStatus.FAILED)
    assert it.telemetry.value("vmafx_node_jobs_total", {"backend": "cpu", "outcome": "failed"}) == 3
    assert_nothing_left(it)


async def test_the_session_is_kept_until_the_last_report(clock):
    it = make_world(clock, takes_s=15, policy=NodePolicy(shutdown_timeout_s=200))
    it.fake.wire.cue(Call.REPORT, *[Fail()] * 6)
    it.start()
    job = it.submit("a")
    await clock.sleep(5)
    it.node.stop()
    await clock.sleep(2)
    it.fake.end_sessions(jobs_lost=False)
    await it.ended()
    assert it.status(job) is JobStatus.COMPLETED
    assert len(it.registers()) == 2
    assert it.beats()[-1].at_s > 19
    assert it.telemetry.messages[-1] == events.CLIENT_STOPPED


async def test_an_interrupted_job_is_told_of_although_the_first_try_fails(clock):
    it = make_world(clock, run=lambda _: ENDLESS)
    it.fake.wire.cue(Call.REPORT, Fail(), Fail())
    it.start()
    job = it.submit("a")
    await clock.sleep(5)
    it.node.stop()
    await it.ended()
    assert len(it.reports(job)) == 3
    assert it.fake.job(job).status is JobStatus.PENDING
    assert clock.monotonic() <= 35


@pytest.mark.parametrize("ends", ["scored", "interrupted"])
async def test_what_cannot_be_told_by_the_end_is_in_the_log(clock, ends):
    it = make_world(clock, run=None if ends == "scored" else lambda _: ENDLESS, takes_s=90)
    it.start()
    job = it.submit("a")
    await clock.sleep(5)
    it.fake.wire.break_down()
    await clock.sleep(100)
    assert not it.node.state.in_session
    asked_s = clock.monotonic()
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == pytest.approx(asked_s + 30)
    (event,) = it.told(events.NOT_DELIVERED_STOPPED)
    assert event.level is Level.ERROR
    assert event.fields["job_id"] == job
    if ends == "scored":
        assert event.fields["score"] == it.expected[job]
        assert "vmaf" in event.fields["features"]
    else:
        assert event.fields["failure"] == INTERRUPTED.format(job)
    assert it.telemetry.messages[-1] == events.CLIENT_STOPPED
    assert_nothing_left(it)


async def test_a_report_that_hangs_does_not_hold_the_stop(clock):
    it = make_world(clock, takes_s=3)
    it.fake.wire.cue(Call.REPORT, *[Hang()] * 9)
    it.start()
    it.submit("a")
    await clock.sleep(5)
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == pytest.approx(35)
    assert len(it.told(events.NOT_DELIVERED_STOPPED)) == 1


async def test_stopping_at_once_interrupts_everything(clock):
    it = make_world(clock, slots=3, run=lambda request: ENDLESS)
    it.sources.add("/clips/b.y4m", FakeSource(takes_s=1e9))
    it.start()
    jobs = {it.submit("a"), it.submit("b")}
    await clock.sleep(5)
    it.node.stop()
    await clock.sleep(1)
    it.node.stop_now()
    it.node.stop_now()
    await it.ended()
    assert clock.monotonic() == 6
    assert not it.reports()
    lost = it.told(events.NOT_DELIVERED_STOPPED)
    assert {event.fields["job_id"] for event in lost} == jobs
    assert_nothing_left(it)


async def test_a_stop_waits_for_what_a_run_has_to_clean_up(clock):
    it = make_world(clock, run=lambda _: ENDLESS)
    it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=3))
    it.start()
    it.submit("a")
    await clock.sleep(5)
    it.node.stop_now()
    await it.ended()
    assert clock.monotonic() == 8
    assert it.sources.held == ()


async def test_a_run_that_cleans_up_after_a_cancel_is_not_disturbed_by_the_stop(clock):
    it = make_world(clock, run=lambda _: ENDLESS)
    it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=8))
    it.start()
    job = it.submit("a")
    await clock.sleep(3)
    it.fake.cancel(job)
    await clock.sleep(9)
    assert it.told(events.CANCELLED)
    it.node.stop_now()
    await it.ended()
    assert clock.monotonic() == pytest.approx(18)
    assert (
        it.told(events.NOT_DELIVERED_STOPPED)[0].fields["failure"].startswith("cancelled by the controller")
    )


async def test_stopping_at_once_while_a_refused_report_is_judged(clock):
    it = make_world(clock, takes_s=3)
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.PERMISSION_DENIED))
    it.fake.wire.cue(Call.HEARTBEAT, Hang())
    it.start()
    it.submit("a")
    await clock.sleep(5)
    assert it.fake.wire.hanging == 1
    it.node.stop_now()
    await it.ended()
    assert len(it.told(events.NOT_DELIVERED_STOPPED)) == 1
    assert_nothing_left(it)


async def test_faults_of_the_machine_while_stopping_begin_no_self_test(clock):
    it = make_world(clock, slots=3, takes_s=5)
    killed = ScorerError("killed", machine_fault=True)
    it.scorer.cue(*[FakeRun(takes_s=5, error=killed)] * 3)
    it.start()
    jobs = [it.submit(name) for name in "abc"]
    await clock.sleep(2)
    it.node.stop()
    await it.ended()
    assert [len(it.reports(job)) for job in jobs] == [1, 1, 1]
    assert it.scorer.self_tests == 1
    assert not it.told(events.PULLING_SUSPENDED)


async def test_a_cancelled_run_leaves_nothing(clock):
    it = make_world(clock, slots=2, run=lambda _: ENDLESS)
    task = it.start()
    it.submit("a")
    await clock.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(it.told(events.NOT_DELIVERED_STOPPED)) == 1
    assert it.telemetry.value("vmafx_node_session_up") == 0
    assert_nothing_left(it)


async def test_a_stop_while_registering_ends_at_once(clock):
    it = make_world(clock)
    it.fake.wire.cue(Call.REGISTER, Hang())
    it.start()
    await clock.sleep(4)
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == 4
    assert_nothing_left(it)


async def test_a_stop_while_waiting_to_register_again_ends_at_once(clock):
    it = make_world(clock)
    it.fake.wire.break_down()
    it.start()
    await clock.sleep(100)
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == 100


async def test_a_stop_during_the_self_test_ends_it(clock):
    it = make_world(clock)
    cleaned = []

    async def slow():
        try:
            await clock.sleep(1000)
        finally:
            await clock.sleep(1)
            cleaned.append(clock.monotonic())

    it.watched.self_test = slow
    it.start()
    await clock.sleep(2)
    it.node.stop()
    await it.ended()
    assert cleaned == [3]
    assert it.fake.wire.received == []


async def test_a_scorer_that_does_not_work_refuses_the_start(clock):
    it = make_world(clock)
    it.scorer.break_down("no GPU")
    it.start()
    with pytest.raises(ScorerUnavailableError, match="no GPU"):
        await it.ended()
    assert it.fake.wire.received == []
    assert not it.node.state.fit


async def test_stopping_early_often_and_late_is_safe(clock):
    it = make_world(clock)
    it.node.stop()
    it.node.stop()
    it.start()
    await it.ended()
    it.node.stop()
    it.node.stop_now()
    assert it.scorer.self_tests == 0
    assert it.fake.wire.received == []
    with pytest.raises(RuntimeError, match="once"):
        await it.node.run()


async def test_a_job_that_came_with_the_word_to_stop_is_given_back_unbegun(clock):
    it = make_world(clock)
    it.start()
    await clock.sleep(1)

    def stop_and_hand_out(call):
        if call.kind is Call.PULL:
            it.node.stop()

    pull = it.fake.pull

    async def pulled(session, capability, *, timeout_s):
        answer = await pull(session, capability, timeout_s=timeout_s)
        asyncio.get_running_loop().call_soon(it.node.stop)
        return answer

    it.fake.pull = pulled
    await clock.sleep(6)
    job = it.submit("a")
    await it.ended()
    assert it.scorer.requests == []
    assert it.status(job) is JobStatus.PENDING
    assert it.reports(job) == [] or it.reports(job)[0].report.content.retry is Retry.AT_ONCE


async def test_a_job_that_would_run_afresh_is_given_back_when_the_node_stops(clock):
    it = make_world(clock, slots=2, takes_s=5)
    it.fake.wire.cue(Call.REPORT, Hang())
    async with running(it):
        job = it.submit("a", model="x")
        await until(lambda: it.reports(job) != [], clock)
        held = it.node._jobs.get(job)
        held.outcome = Failure(error="as if it had failed")
        held.pulled_again(Pulled(assignment=held.assignment, node_id=held.node_id))
        it.node.stop()
        it.fake.wire.release()
        await it.ended()
        first, second = (call.report.content for call in it.reports(job))
        assert isinstance(first, JobResult)
        assert second == Failure(error=INTERRUPTED.format(job), retry=Retry.AT_ONCE)
        assert len(it.scorer.requests) == 1


async def test_no_time_to_stop_means_at_once(clock):
    it = make_world(clock, slots=2, policy=NodePolicy(slots=2, shutdown_timeout_s=0), run=lambda _: ENDLESS)
    it.start()
    it.submit("a")
    await clock.sleep(5)
    it.node.stop()
    await it.ended()
    assert clock.monotonic() == 5
    assert len(it.told(events.DEADLINE_REACHED)) == 1
    assert_nothing_left(it)


async def test_a_stop_bounds_a_node_whose_machine_is_unfit(clock):
    it = make_world(clock, takes_s=1)
    it.start()
    await clock.sleep(1)
    it.scorer.break_down()
    for name in "abc":
        it.submit(name)
    await until(lambda: not it.node.state.fit, clock)
    asked_s = clock.monotonic()
    it.node.stop()
    await it.ended()
    assert clock.monotonic() - asked_s < 1
    assert_nothing_left(it)
