"""Parts of the node: cancellations, the sessions of the log, what a part that dies leaves (ADR 0018)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.node_world import ENDLESS, MODES, assert_nothing_left, make_world, running, until
from vmafx.adapters.fakes.controller_faults import Fail, Hang
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.app.node.calls import ours_to_cancel
from vmafx.app.node.gate import Gate
from vmafx.app.node.jobs import HeldJobs, Pulled
from vmafx.app.node.outcome import CancelCause
from vmafx.domain.errors import ScorerError
from vmafx.domain.job import JobId, JobStatus, SessionId
from vmafx.domain.retry import Call, StatusCode
from vmafx.ports.controller import Assignment
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

OF_A_JOB = {
    events.JOB_PULLED,
    events.JOB_REFUSED,
    events.JOB_PULLED_AGAIN,
    events.EXECUTING,
    events.SCORING,
    events.SCORED,
    events.CANCELLED,
    events.REPORTED,
    events.REPORT_FAILED,
    events.NOT_DELIVERED,
    events.NOT_DELIVERED_STOPPED,
}


def sessions(it, message):
    return [event.fields.get("node_id") for event in it.told(message)]


# ---------------------------------------------------------------- cancellations


async def test_a_caller_that_is_cancelled_takes_its_work_along(clock):
    ended_s = []

    async def work():
        try:
            await clock.sleep(100)
        finally:
            await clock.sleep(3)
            ended_s.append(clock.monotonic())

    async with asyncio.TaskGroup() as tasks:
        gate = Gate(tasks)
        caller = tasks.create_task(gate.passing(work(), name="work"))
        await clock.sleep(1)
        caller.cancel()
        await clock.sleep(1)
        caller.cancel()  # once more, while the work cleans up
        await asyncio.wait({caller})
        assert caller.cancelled()
        assert ended_s == [clock.monotonic()] == [4.0]
    assert clock.monotonic() == 4


async def test_work_that_is_turned_back_before_it_began_is_no_waste(clock):
    async def work():
        raise AssertionError("it began")

    async with asyncio.TaskGroup() as tasks:
        gate = Gate(tasks)
        caller = tasks.create_task(gate.passing(work(), name="work"))
        asyncio.get_running_loop().call_soon(gate.close)
        assert await caller is None
    del caller
    gc.collect()  # a coroutine that never ran would be a warning


async def test_a_call_that_cancels_itself_is_an_error(clock):
    async def cancels_itself():
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="nobody had cancelled it"):
        await ours_to_cancel(cancels_itself())
    task = asyncio.create_task(ours_to_cancel(clock.sleep(10)))
    await clock.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("call", [Call.REGISTER, Call.HEARTBEAT, Call.PULL, Call.REPORT])
async def test_a_call_that_cancels_itself_does_not_leave_a_node_that_waits_for_ever(clock, call):
    it = make_world(clock, takes_s=1)

    async def cancels_itself(*_args, **_more):
        raise asyncio.CancelledError

    it.submit("a")
    setattr(it.fake, call.name.lower(), cancels_itself)
    task = it.start()
    with pytest.raises(ExceptionGroup) as caught:
        await task
    assert caught.group_contains(RuntimeError, match="nobody had cancelled it")
    assert clock.monotonic() <= 11


async def test_a_self_test_that_cancels_itself_proves_nothing(clock):
    it = make_world(clock)

    async def cancels_itself():
        raise asyncio.CancelledError

    it.watched.self_test = cancels_itself
    with pytest.raises(RuntimeError, match="nobody had cancelled it"):
        await it.node.run()
    assert it.fake.wire.received == []


async def test_a_later_self_test_that_cancels_itself_is_repeated(clock):
    it = make_world(clock, run=lambda _: FakeRun(error=ScorerError("x", machine_fault=True), takes_s=1))
    kept, tests = it.watched.self_test, []

    async def cancels_itself_twice():
        tests.append(clock.monotonic())
        if len(tests) in {2, 3}:
            raise asyncio.CancelledError
        await kept()

    it.watched.self_test = cancels_itself_twice
    async with running(it):
        for name in "abc":
            it.submit(name)
        await until(lambda: it.told(events.PULLING_AGAIN) != (), clock)
    assert len(tests) == 4


async def test_a_run_that_the_group_cancels_is_not_cancelled_once_more(clock):
    it = make_world(clock, run=lambda _: ENDLESS)
    it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=3))
    task = it.start()
    it.submit("a")
    await clock.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.monotonic() == 8
    assert_nothing_left(it)


async def test_a_run_that_cleans_up_is_stopped_without_disturbing_it(clock):
    ended_s = []

    async def run():
        try:
            await clock.sleep(100)
        finally:
            await clock.sleep(3)
            ended_s.append(clock.monotonic())

    pulled = Pulled(assignment=Assignment(job_id=JobId("j")), node_id=SessionId("s"))
    job = HeldJobs().take(pulled)
    job.run = asyncio.create_task(run())
    await clock.sleep(1)
    job.run.cancel()  # as the group does
    await clock.sleep(1)
    job.stop(CancelCause.SHUTDOWN)
    await asyncio.wait({job.run})
    assert ended_s == [4.0]
    assert job.cause is CancelCause.SHUTDOWN


# ---------------------------------------------------------------- the session of a line


async def test_every_line_of_a_job_names_its_session(clock):
    it = make_world(clock, slots=2, takes_s=30)
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.INTERNAL), Fail(code=StatusCode.INVALID_ARGUMENT))
    async with running(it):
        cancelled = it.submit("a")
        await clock.sleep(3)
        it.fake.cancel(cancelled)
        await clock.sleep(20)
        it.submit("b")
        await clock.sleep(20)
    about_jobs = [event for event in it.telemetry.events if event.message in OF_A_JOB]
    assert {event.message for event in about_jobs} > {
        events.CANCELLED,
        events.REPORT_FAILED,
        events.NOT_DELIVERED,
        events.NOT_DELIVERED_STOPPED,
    }
    assert {event.fields["node_id"] for event in about_jobs} == {"session-1"}
    assert all(span.fields["node_id"] == "session-1" for span in it.telemetry.spans)


@pytest.mark.parametrize("mode", MODES)
async def test_a_job_is_run_under_the_session_it_was_pulled_under_and_reported_under_another(clock, mode):
    async with running(make_world(clock, mode=mode, takes_s=40)) as it:
        it.submit("a")
        await clock.sleep(3)
        it.fake.end_sessions(jobs_lost=False)
        await clock.sleep(60)
    assert sessions(it, events.JOB_PULLED)[:1] == ["session-1"]
    assert sessions(it, events.SCORED)[:1] == ["session-1"]
    ends = sessions(it, events.REPORTED) + sessions(it, events.NOT_DELIVERED)
    assert ends[:1] == ["session-2"]
    assert it.telemetry.spans[0].fields["node_id"] == "session-1"


async def test_late_answers_are_told_of_the_session_that_was_asked(clock):
    it = make_world(clock, slots=2)
    async with running(it):
        await clock.sleep(2)
        it.fake.wire.cue(Call.PULL, Hang())
        it.fake.end_sessions()
        await until(lambda: len(it.told(events.REGISTERED)) == 2, clock)
        await until(lambda: len(it.told(events.PULL_FAILED)) >= 2, clock)
    for event in it.told(events.PULL_FAILED):
        assert event.fields["node_id"] == "session-1"


# ---------------------------------------------------------------- a part that dies


@pytest.mark.parametrize("call", [Call.HEARTBEAT, Call.REPORT])
async def test_a_part_that_dies_leaves_every_result_in_the_log_with_its_session(clock, call):
    def breaks(asked):
        if asked.kind is call:
            raise ZeroDivisionError("a bug")

    it = make_world(clock, slots=2, rule=breaks, takes_s=5 if call is Call.REPORT else 50)
    jobs = {it.submit("a"), it.submit("b")}
    with pytest.raises(ExceptionGroup):
        await it.start()
    lost = [*it.told(events.NOT_DELIVERED), *it.told(events.NOT_DELIVERED_STOPPED)]
    assert {event.fields["job_id"] for event in lost} == jobs
    assert {event.fields["node_id"] for event in lost} == {"session-1"}
    assert all(event.level is Level.ERROR for event in lost)
    assert all({"attempt", "error"} <= event.fields.keys() for event in lost)
    assert it.scorer.running == 0


async def test_an_error_of_a_scorer_that_cannot_be_spelled_fails_one_job(clock):
    class WordlessError(Exception):
        def __str__(self):
            raise LookupError("nothing to say")

    async def fails(*_args, **_more):
        raise WordlessError

    it = make_world(clock)
    kept, it.watched.score = it.watched.score, fails
    async with running(it):
        bad = it.submit("a")
        await it.fake.until_ended(bad)
        it.watched.score = kept
        good = it.submit("b")
        await it.fake.until_ended(good)
        assert it.status(good) is JobStatus.COMPLETED
        assert "WordlessError" in it.error(bad)
