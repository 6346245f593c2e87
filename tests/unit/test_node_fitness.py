"""Three faults of the machine in a row: the node pulls no more until its scorer has proved itself again."""

from __future__ import annotations

import pytest

from tests.node_world import make_world, running, until
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.app.node import events
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ClipError, ScorerError, SourceError
from vmafx.domain.job import JobId, JobStatus
from vmafx.domain.retry import Call
from vmafx.domain.scoring import Failure, Retry
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

KILLED = FakeRun(error=ScorerError("killed by SIGKILL", machine_fault=True), takes_s=1)
TORN = FakeRun(error=ClipError("/clips/a.y4m", "torn"), takes_s=1)
FINE = FakeRun(takes_s=1)


async def test_faults_of_the_machine_are_told_as_such(clock):
    it = make_world(clock)
    it.scorer.cue(KILLED)
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        failure = it.reports()[0].report.content
        assert failure == Failure(
            error=f"executor: score job {job}: killed by SIGKILL", retry=Retry.ELSEWHERE
        )
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED


async def test_three_in_a_row_stop_all_pulls_until_the_self_test_passes(clock):
    it = make_world(clock, slots=2)
    async with running(it):
        await clock.sleep(1)
        it.scorer.break_down("the GPU fell off")
        jobs = [it.submit(name) for name in "abcdef"]
        await until(lambda: not it.node.state.fit, clock)
        assert not it.node.state.ready
        await clock.sleep(1)
        asked = len(it.scorer.requests)
        assert asked <= 4
        pulls = len(it.pulls())
        await clock.sleep(2000)
        assert len(it.pulls()) == pulls
        assert len(it.scorer.requests) == asked
        assert len(it.beats()) > 190
        it.scorer.heal()
        await it.fake.until_ended(*jobs)
        assert it.node.state.ready
        assert {it.status(job) for job in jobs} == {JobStatus.COMPLETED}
    assert len(it.told(events.PULLING_SUSPENDED)) == 1
    assert len(it.told(events.PULLING_AGAIN)) == 1
    waits = [event.fields["retry_in"] for event in it.told(events.SELF_TEST_FAILED)]
    for wait_s, window_s in zip(waits, [5, 10, 20, 40, 80, 160, 300], strict=False):
        assert window_s / 2 <= wait_s <= window_s
    assert "the GPU fell off" in it.told(events.SELF_TEST_FAILED)[0].fields["error"]
    assert it.told(events.PULLING_SUSPENDED)[0].level is Level.ERROR


@pytest.mark.parametrize("between", [TORN, FINE], ids=["a fault of the input", "a success"])
async def test_anything_else_between_them_starts_the_count_anew(clock, between):
    it = make_world(clock, run=lambda _: FINE)
    it.scorer.cue(KILLED, KILLED, between, KILLED, KILLED)
    async with running(it):
        for name in "abcde":
            it.expected[it.submit(name)] = FINE.score
        await until(lambda: len(it.scorer.requests) >= 5, clock)
        await clock.sleep(2)
        assert not it.told(events.PULLING_SUSPENDED)


async def test_a_cancelled_job_between_them_does_not_start_the_count_anew(clock):
    it = make_world(clock)
    it.scorer.cue(KILLED, KILLED, FakeRun(takes_s=10_000), KILLED)
    async with running(it):
        for name in "abcd":
            it.submit(name)
        await until(lambda: it.watched.jobs != [] and len(it.scorer.requests) == 3, clock)
        it.fake.cancel(JobId(it.watched.jobs[0]))
        await until(lambda: it.told(events.PULLING_SUSPENDED) != (), clock, within_s=60)


async def test_pulls_under_way_are_turned_back_when_the_machine_is_unfit(clock):
    it = make_world(clock, slots=4)
    it.scorer.cue(KILLED, KILLED, KILLED)
    async with running(it):
        await clock.sleep(1)
        it.scorer.break_down()
        for name in "abc":
            it.submit(name)
        await until(lambda: not it.node.state.fit, clock)
        await clock.sleep(0.1)
        assert [call for call in it.fake.wire.ended if call.call.kind is Call.PULL and call.cancelled]
        asked = len(it.scorer.requests)
        it.submit("d")
        await clock.sleep(4.5)
        assert len(it.scorer.requests) == asked


async def test_a_machine_fault_of_a_source_counts_and_one_of_the_input_does_not(clock):
    it = make_world(clock)
    failing = [SourceError("/clips/a.y4m", "no descriptors left", machine_fault=True)] * 3
    it.scorer.cue(*(FakeRun(error=error) for error in failing))
    async with running(it):
        for name in "abc":
            it.submit(name)
        await until(lambda: it.told(events.PULLING_SUSPENDED) != (), clock)


async def test_jobs_in_other_slots_go_on(clock):
    it = make_world(clock, slots=2)
    it.scorer.cue(FakeRun(takes_s=500), KILLED, KILLED, KILLED)
    async with running(it):
        long = it.fake.submit(job_id="long")
        it.expected[long] = 95.0
        await clock.sleep(2)
        it.scorer.break_down()
        for name in "abc":
            it.submit(name)
        await until(lambda: not it.node.state.fit, clock)
        assert it.node.state.jobs_running == 1
        await it.fake.until_ended(long)
        assert it.status(long) is JobStatus.COMPLETED
        assert not it.node.state.fit


async def test_jobs_that_were_cancelled_or_interrupted_tell_nothing_of_the_machine(clock):
    it = make_world(clock, slots=3, run=lambda _: FakeRun(takes_s=10_000))
    async with running(it):
        jobs = [it.submit(name) for name in "abc"]
        await clock.sleep(3)
        for job in jobs:
            it.fake.cancel(job)
        await clock.sleep(20)
        more = [it.submit(name) for name in "def"]
        await clock.sleep(3)
        assert set(it.watched.jobs) == set(more)
        it.node.stop()
        await it.ended()
    assert not it.told(events.PULLING_SUSPENDED)


async def test_a_self_test_that_fails_in_another_way_is_repeated_too(clock):
    it = make_world(clock, policy=NodePolicy())
    answers = [ZeroDivisionError(), None]

    async def tested():
        error = answers.pop(0)
        if error is not None:
            raise error

    async with running(it):
        await clock.sleep(1)
        it.watched.self_test = tested
        it.scorer.cue(KILLED, KILLED, KILLED)
        jobs = [it.submit(name) for name in "abc"]
        await it.fake.until_ended(*jobs)
    assert it.told(events.SELF_TEST_FAILED)[0].fields["error"] == "ZeroDivisionError"
