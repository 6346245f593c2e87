"""A controller that restarts, hangs or resets between any two calls: no result is lost, none is wrong."""

from __future__ import annotations

import pytest

from tests.node_world import MODES, make_world, running
from vmafx.adapters.fakes.controller_faults import Fail, Hang, LoseAnswer
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import JobStatus
from vmafx.domain.retry import Call, StatusCode

pytestmark = pytest.mark.virtual_time

CALLS = 24
"""How many calls a node makes, with two slots, for the jobs of a story."""


class AtCall:
    """Something happens right before the call of a number, from 1."""

    def __init__(self, number, happening):
        self.number = number
        self.happening = happening
        self.seen = 0

    def __call__(self, call):
        self.seen += 1
        return self.happening(call) if self.seen == self.number else None


async def story(it, clock):
    """Four jobs, one after the other handed in; they end although something happens."""
    jobs = []
    for name in "abcd":
        jobs.append(it.submit(name))
        await clock.sleep(11)
    async with clock.timeout(1200):
        await it.fake.until_ended(*jobs)
    return jobs


@pytest.mark.parametrize("number", range(1, CALLS + 1))
@pytest.mark.parametrize("jobs_lost", [True, False], ids=["jobs lost", "jobs kept"])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_a_restart_between_any_two_calls_loses_nothing(clock, mode, jobs_lost, number):
    def restart(_call):
        it.fake.end_sessions(jobs_lost=jobs_lost)

    it = make_world(clock, mode=mode, slots=2, rule=AtCall(number, restart), takes_s=17)
    async with running(it):
        jobs = await story(it, clock)
        assert {it.status(job) for job in jobs} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("number", range(1, CALLS + 1))
@pytest.mark.parametrize(
    "fault",
    [Hang(), Hang(answered=True), LoseAnswer(), Fail(code=StatusCode.INTERNAL, message="reset")],
    ids=["hangs", "hangs answered", "answer lost", "reset"],
)
async def test_a_fault_of_any_one_call_loses_nothing(clock, fault, number):
    it = make_world(clock, slots=2, rule=AtCall(number, lambda _: fault), takes_s=17)
    async with running(it):
        jobs = await story(it, clock)
        assert {it.status(job) for job in jobs} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("kind", [Call.HEARTBEAT, Call.PULL])
async def test_one_slot_goes_on_while_the_calls_of_another_hang(clock, kind):
    it = make_world(clock, slots=2, takes_s=5)
    it.fake.wire.cue(kind, *[Hang()] * 3)
    async with running(it):
        await clock.sleep(1)
        jobs = [it.submit(name) for name in "abc"]
        await it.fake.until_ended(*jobs)
        assert clock.monotonic() < 40


@pytest.mark.parametrize("slots", [1, 64])
async def test_every_slot_works(clock, slots):
    it = make_world(clock, slots=slots, takes_s=25)
    async with running(it):
        jobs = [it.submit(f"n{n}") for n in range(slots * 2)]
        await clock.sleep(12)
        assert it.node.state.jobs_running == slots
        assert len(it.beats()[0].heartbeat.listed) == slots
        await it.fake.until_ended(*jobs)
        assert {it.status(job) for job in jobs} == {JobStatus.COMPLETED}
        assert it.scorer.running_max == slots


@pytest.mark.parametrize("slots", [0, 65, -1])
def test_no_slots_and_too_many_are_refused(slots):
    with pytest.raises(ConfigurationError, match="must be an integer from 1 to 64"):
        NodePolicy(slots=slots)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_intervals_are_positive(value):
    with pytest.raises(ConfigurationError, match="VMAFX_CONTROLLER_POLL_INTERVAL"):
        NodePolicy(poll_interval_s=value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_stop_takes_no_negative_time(value):
    with pytest.raises(ConfigurationError, match="VMAFX_SHUTDOWN_TIMEOUT"):
        NodePolicy(shutdown_timeout_s=value)


async def test_two_nodes_share_a_queue(clock):
    first = make_world(clock, takes_s=20, name="one", seed=1)
    second = make_world(clock, takes_s=20, name="two", seed=2, fake=first.fake)
    second.expected = first.expected
    async with running(first):
        task = second.start()
        jobs = [first.submit(name) for name in "abcdef"]
        await first.fake.until_ended(*jobs)
        assert first.scorer.requests
        assert second.scorer.requests
        second.node.stop()
        await task
