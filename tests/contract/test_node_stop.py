"""How a node stops before any controller: with time and without, at any moment (ADR 0018)."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.node_harness import Trait
from tests.node_world import ENDLESS, make_world
from vmafx.adapters.fakes.controller_faults import Fail, Hang, Substitute
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.job import JobId, JobResult, JobStatus
from vmafx.domain.retry import Call
from vmafx.domain.scoring import Failure, Retry
from vmafx.ports.controller import HeartbeatAnswer

INTERRUPTED = "node shutting down, job interrupted: executor: score job {}: the run was stopped"
SHUTDOWN_S, RESERVE_S = 30.0, 10.0


def interrupted(job: str) -> Failure:
    """What every controller is told of an interrupted job; the original passes over its word."""
    return Failure(error=INTERRUPTED.format(job), retry=Retry.AT_ONCE)


async def test_an_idle_node_stops_at_once_and_its_pulls_are_ended(stage):
    async with stage(slots=3) as it:
        await it.advance(2)
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() == 2
        under_way = [call for call in it.wire.ended if call.call.kind is Call.PULL and call.cancelled]
        assert len(under_way) == (3 if Trait.WAITS_FOR_WORK in it.traits else 0)
        assert it.world.telemetry.messages[-1] == events.CLIENT_STOPPED


async def test_a_stop_with_time_lets_jobs_end_and_takes_no_new_ones(stage):
    async with stage(slots=2, takes_s=15) as it:
        first, second = it.world.submit("a"), it.world.submit("b")
        await it.until(lambda: it.scorer.running == 2)
        it.node.stop()
        late = it.world.submit("c")
        await it.ended()
        assert [it.world.status(job) for job in (first, second)] == [JobStatus.COMPLETED] * 2
        assert it.world.status(late) is JobStatus.PENDING
        assert it.world.told(events.DEADLINE_REACHED) == ()


async def test_a_stop_without_enough_time_interrupts_jobs_and_tells_of_them(stage):
    async with stage(slots=3, run=lambda _: ENDLESS) as it:
        jobs = [it.world.submit(clip) for clip in "abc"]
        await it.until(lambda: it.scorer.running == 3)
        asked_s = it.clock.monotonic()
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() - asked_s == pytest.approx(SHUTDOWN_S - RESERVE_S)
        (told,) = it.world.told(events.DEADLINE_REACHED)
        assert told.fields["running"] == 3
        for job in jobs:
            (report,) = it.reports(job)
            assert report.report.content == interrupted(job)
            again = Trait.REQUEUES_INTERRUPTED in it.traits
            assert it.world.status(job) is (JobStatus.PENDING if again else JobStatus.FAILED)
            if not again:
                assert it.world.error(job) == INTERRUPTED.format(job)


async def test_no_time_at_all_gives_up_at_once(stage):
    async with stage(run=lambda _: ENDLESS, policy=NodePolicy(shutdown_timeout_s=0)) as it:
        it.world.submit("a")
        await it.until(lambda: it.scorer.running == 1)
        asked_s = it.clock.monotonic()
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() == asked_s
        assert it.scorer.running == 0


async def test_the_report_of_an_interrupted_job_arrives_although_tries_fail(stage):
    async with stage(run=lambda _: ENDLESS) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.scorer.running == 1)
        it.wire.cue(Call.REPORT, Fail(), Fail())
        it.node.stop()
        await it.ended()
        assert len(it.reports(job)) == 3
        assert it.world.told(events.NOT_DELIVERED_STOPPED) == ()
        assert it.world.status(job) is not JobStatus.RUNNING


async def test_the_report_of_an_interrupted_job_arrives_under_a_session_opened_for_it(stage):
    async with stage(run=lambda _: ENDLESS) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.scorer.running == 1)
        it.node.stop()
        await it.advance(3)
        it.fake.end_sessions(jobs_lost=False)
        await it.ended()
        assert len(it.world.registers()) == 2
        assert it.reports(job)[-1].session.node_id == "session-2"
        if Trait.TAKES_OVER in it.traits:
            assert it.world.status(job) is JobStatus.PENDING


async def test_the_order_of_a_stop_is_pulls_then_jobs_then_reports_then_the_session(stage):
    async with stage(slots=2, takes_s=15) as it:
        jobs = [it.world.submit("a"), it.world.submit("b")]
        await it.until(lambda: it.scorer.running == 2)
        it.wire.cue(Call.REPORT, Hang(), Hang())
        asked_s = it.clock.monotonic()
        it.node.stop()
        await it.until(lambda: it.wire.hanging == 2)
        assert it.clock.monotonic() == pytest.approx(it.scorer.ended[-1].ended_s)
        ended_s = it.clock.monotonic()
        await it.ended()
        assert {it.world.status(job) for job in jobs} == {JobStatus.COMPLETED}
        assert all(call.at_s <= asked_s for call in it.world.pulls())
        during = [beat for beat in it.world.beats() if beat.at_s > ended_s]
        assert during
        assert {len(beat.heartbeat.listed) for beat in during} <= {1, 2}
        assert it.world.telemetry.messages[-1] == events.CLIENT_STOPPED
        assert it.clock.monotonic() == it.wire.ended[-1].ended_s


async def test_what_cannot_be_told_by_the_end_is_in_the_log(stage):
    async with stage(takes_s=5) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.scorer.running == 1)
        if Trait.WIRE in it.traits:
            await it.kill()
        else:
            it.wire.break_down()
        asked_s = it.clock.monotonic()
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() - asked_s <= SHUTDOWN_S
        (lost,) = it.world.told(events.NOT_DELIVERED_STOPPED)
        assert (lost.fields["job_id"], lost.fields["score"]) == (job, it.world.expected[job])


async def test_a_stop_while_registering_ends_at_once(stage):
    def before(it):
        it.wire.cue(Call.REGISTER, Hang())

    async with stage(before=before) as it:
        await it.advance(2)
        assert it.wire.hanging == 1
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() == 2
        assert len(it.world.registers()) == 1


async def test_a_stop_while_waiting_to_register_again_ends_at_once(stage):
    def before(it):
        it.wire.break_down()

    async with stage(before=before) as it:
        await it.advance(100)
        it.node.stop()
        await it.ended()
        assert it.clock.monotonic() == 100
        assert it.world.beats() == it.world.pulls() == []


async def test_a_stop_during_the_self_test_makes_no_call(stage):
    def before(it):
        async def endless():
            await asyncio.Event().wait()

        it.world.watched.self_test = endless

    async with stage(before=before) as it:
        await it.advance(2)
        it.node.stop()
        await it.ended()
        assert it.wire.received == []


async def test_a_stop_before_the_start_makes_no_call(stage):
    async with stage(before=lambda it: it.node.stop()) as it:
        await it.ended()
        assert it.wire.received == []
        assert it.scorer.self_tests == 0


async def test_a_stop_while_a_job_is_prepared_interrupts_it(stage):
    def before(it):
        it.sources.add("/clips/a.y4m", FakeSource(takes_s=1000, release_takes_s=2))

    async with stage(before=before) as it:
        job = it.world.submit("a")
        await it.advance(3)
        it.node.stop()
        await it.ended()
        assert it.reports(job)[0].report.content == interrupted(job)
        assert it.scorer.requests == []


async def test_a_stop_while_a_job_is_reported_waits_for_the_report(stage):
    def before(it):
        it.wire.cue(Call.REPORT, Hang())

    async with stage(before=before, takes_s=5) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.wire.hanging == 1)
        it.node.stop()
        await it.ended()
        assert it.world.status(job) is JobStatus.COMPLETED
        assert [type(call.report.content) for call in it.reports(job)] == [JobResult] * 2


@pytest.mark.parametrize("stops_first", [True, False], ids=["second signal", "at once"])
async def test_a_second_signal_interrupts_everything_and_tells_the_log(stage, stops_first):
    async with stage(slots=2, run=lambda _: ENDLESS) as it:
        jobs = [it.world.submit("a"), it.world.submit("b")]
        await it.until(lambda: it.scorer.running == 2)
        if stops_first:
            it.node.stop()
            await it.advance(3)
        asked_s = it.clock.monotonic()
        it.node.stop_now()
        await it.ended()
        assert it.clock.monotonic() == asked_s
        assert it.scorer.running == 0
        assert it.reports() == []
        lost = it.world.told(events.NOT_DELIVERED_STOPPED)
        assert sorted(told.fields["job_id"] for told in lost) == sorted(jobs)


async def test_a_second_signal_ends_a_report_that_hangs(stage):
    async with stage(takes_s=5) as it:
        job = it.world.submit("a")
        it.wire.cue(Call.REPORT, Hang())
        await it.until(lambda: it.wire.hanging == 1)
        it.node.stop()
        await it.advance(1)
        asked_s = it.clock.monotonic()
        it.node.stop_now()
        await it.ended()
        assert it.clock.monotonic() == asked_s
        (lost,) = it.world.told(events.NOT_DELIVERED_STOPPED)
        assert (lost.fields["job_id"], lost.fields["score"]) == (job, it.world.expected[job])


async def test_a_job_interrupted_by_a_stop_is_had_at_once_by_the_next_node(stage):
    async with stage(run=lambda _: ENDLESS) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.scorer.running == 1)
        it.node.stop()
        await it.ended()
        stopped_s = it.clock.monotonic()
        other = make_world(it.clock, fake=it.fake, controller=it.world.controller, name="node-2", takes_s=3)
        other.expected = it.world.expected
        task = other.start()
        await it.until_ended(job)
        if Trait.REQUEUES_INTERRUPTED in it.traits:
            assert it.world.status(job) is JobStatus.COMPLETED
            assert it.clock.monotonic() == pytest.approx(stopped_s + 3)
        else:
            assert it.world.status(job) is JobStatus.FAILED
        other.node.stop_now()
        await it.until(task.done)


async def test_a_stop_does_not_disturb_a_job_that_is_being_cancelled(stage):
    def before(it):
        it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=30))
        cancels = HeartbeatAnswer(ok=True, cancel_job_ids=(JobId("job-1"),))
        it.wire.cue(Call.HEARTBEAT, Substitute(answer=cancels))

    async with stage(run=lambda _: ENDLESS, before=before) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.world.told(events.CANCELLED) != ())
        cancelled_s = it.clock.monotonic()
        await it.advance(2)
        it.node.stop()
        await it.ended()
        (report,) = it.reports(job)
        assert report.at_s == pytest.approx(cancelled_s + 30)
        assert report.report.content.error.startswith("cancelled by the controller: ")


async def test_whoever_asks_for_a_session_after_the_stop_waits_in_vain(stage):
    async with stage() as it:
        await it.until(lambda: it.node.state.in_session)
        it.node.stop()
        await it.ended()
        waits = asyncio.create_task(it.node._keeper.session())
        await it.at_rest()
        assert not waits.done()
        waits.cancel()
        await asyncio.wait({waits})
