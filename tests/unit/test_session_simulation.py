"""Nodes and a controller on one virtual clock: safe under faults from a seed, live after them (ADR 0013)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

import pytest

from tests.unit.session_shell import ShellNode, stopped
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import HeartbeatCall, NodeCall, PullCall, RegisterCall
from vmafx.adapters.fakes.controller_faults import Fault, LoseAnswer, SeededFaults
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.domain.job import JobStatus, RequeueReason
from vmafx.domain.retry import Call
from vmafx.domain.session_effects import SessionLost, SessionOpened

NODES = 3
JOBS = 24
FAULTS_S = 900.0
PATIENCE_S = 3600.0


@dataclass
class Weather:
    """Faults until the sky clears."""

    rule: SeededFaults
    clear: bool = False

    def __call__(self, call: NodeCall) -> Fault | None:
        return None if self.clear else self.rule(call)


@dataclass
class Cluster:
    """A controller with nodes at work on its jobs."""

    clock: VirtualClock
    controller: FakeController
    nodes: list[ShellNode]
    tasks: list[asyncio.Task[None]]


def cluster(clock: VirtualClock, seed: int, weather: Weather, mode: ControllerMode) -> Cluster:
    controller = FakeController(clock, rule=weather, mode=mode)
    nodes = [ShellNode(controller, clock, Random(f"{seed}-{n}"), f"node-{n}") for n in range(NODES)]
    tasks = [asyncio.create_task(node.run(), name=node.name) for node in nodes]
    return Cluster(clock=clock, controller=controller, nodes=nodes, tasks=tasks)


async def misfortunes(it: Cluster, chance: Random) -> None:
    until_s = it.clock.monotonic() + FAULTS_S
    while it.clock.monotonic() < until_s:
        await it.clock.sleep(chance.uniform(1, 60))
        assert it.controller.violations() == ()
        assert not any(task.done() for task in it.tasks), "a node has died"
        match chance.randrange(6):
            case 0:
                it.controller.wire.break_down()
                await it.clock.sleep(chance.uniform(1, 100))
                it.controller.wire.heal()
            case 1:
                it.controller.end_sessions(jobs_lost=chance.random() < 0.5)
            case 2:
                it.controller.cancel(chance.choice(it.controller.jobs).id)
            case _:
                it.clock.step_wall(chance.uniform(-4000, 4000))


async def storm_and_calm(clock: VirtualClock, seed: int, mode: ControllerMode) -> Cluster:
    chance = Random(seed)
    weather = Weather(SeededFaults(seed, failed=0.1, lost=0.1, delayed=0.3, delay_max_s=8))
    it = cluster(clock, seed, weather, mode)
    jobs = [it.controller.submit() for _ in range(JOBS)]
    await misfortunes(it, chance)
    weather.clear = True
    healed_s = clock.monotonic()
    async with clock.timeout(PATIENCE_S):
        await it.controller.until_ended(*jobs)
    await clock.sleep(200)
    assert clock.monotonic() - healed_s < PATIENCE_S
    await stopped(*it.tasks)
    return it


@pytest.mark.parametrize("mode", ControllerMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("seed", range(12))
def test_every_job_ends_once_the_faults_do(seed: int, mode: ControllerMode) -> None:
    async def story(clock: VirtualClock) -> None:
        it = await storm_and_calm(clock, seed, mode)
        assert it.controller.violations() == ()
        assert {job.status for job in it.controller.jobs} <= {
            JobStatus.COMPLETED,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
        }
        for job in it.controller.jobs:  # no clip is bad here: only losses can fail a job
            assert job.status is not JobStatus.FAILED or job.lost_attempts == job.max_lost_attempts
        for node in it.nodes:
            opened = [e.session.generation for _, e in node.log if isinstance(e, SessionOpened)]
            lost = [e.session.generation for _, e in node.log if isinstance(e, SessionLost)]
            assert opened == list(range(1, len(opened) + 1))
            assert lost == opened[: len(lost)]
            assert len(opened) - len(lost) <= 1
            assert node.running == {}

    run_virtual(story)


def test_same_seed_tells_the_same_story() -> None:
    async def story(clock: VirtualClock) -> list[str]:
        it = await storm_and_calm(clock, 99, ControllerMode.CURRENT)
        return [repr(entry) for node in it.nodes for entry in node.log]

    assert run_virtual(story) == run_virtual(story)


def test_under_a_healthy_controller_nodes_register_once_and_beat_every_interval() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        node = ShellNode(controller, clock, Random(1), "node")
        task = asyncio.create_task(node.run())
        controller.submit()
        await clock.sleep(3600)
        await stopped(task)
        assert len(controller.wire.received_as(RegisterCall)) == 1
        beats = [call.at_s for call in controller.wire.received_as(HeartbeatCall)]
        assert beats == [pytest.approx(10.0 * n) for n in range(1, len(beats) + 1)]
        assert len(beats) in {359, 360}

    run_virtual(story)


def test_jobs_outlive_a_session_that_is_lost() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        node = ShellNode(controller, clock, Random(2), "node", job_s_max=300.0)
        task = asyncio.create_task(node.run())
        jobs = [controller.submit() for _ in range(2)]
        for _ in range(4):
            await clock.sleep(23)
            controller.end_sessions()
        await controller.until_ended(*jobs)
        await stopped(task)
        assert all(job.status is JobStatus.COMPLETED for job in controller.jobs)
        assert all(job.attempt == 1 and job.lost_attempts == 0 for job in controller.jobs)

    run_virtual(story)


def test_cancelled_job_is_stopped_within_an_interval() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        node = ShellNode(controller, clock, Random(3), "node", job_s_max=10_000.0)
        task = asyncio.create_task(node.run())
        job_id = controller.submit()
        await clock.sleep(100)
        assert job_id in node.running
        controller.cancel(job_id)
        await clock.sleep(10.5)
        assert node.running == {}
        assert controller.job(job_id).status is JobStatus.CANCELLED
        await stopped(task)

    run_virtual(story)


def test_job_whose_assignment_was_lost_comes_again() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        controller.wire.cue(Call.PULL, LoseAnswer())
        node = ShellNode(controller, clock, Random(4), "node", slots=1, job_s_max=5.0)
        job_id = controller.submit()
        task = asyncio.create_task(node.run())
        (job,) = await controller.until_ended(job_id)
        await stopped(task)
        assert (job.status, job.attempt, job.lost_attempts) == (JobStatus.COMPLETED, 2, 0)
        assert [requeue.reason for requeue in controller.requeues] == [RequeueReason.NEVER_STARTED]

    run_virtual(story)


def test_nodes_come_back_spread_out_after_a_controller_was_away() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        nodes = [ShellNode(controller, clock, Random(n), f"node-{n}", slots=1) for n in range(50)]
        tasks = [asyncio.create_task(node.run()) for node in nodes]
        await clock.sleep(30)
        controller.wire.break_down()
        controller.end_sessions()
        await clock.sleep(150)
        before = len(controller.wire.received)
        controller.wire.heal()
        healed_s = clock.monotonic()
        await clock.sleep(60)
        back = [c.at_s - healed_s for c in controller.wire.received[before:] if isinstance(c, RegisterCall)]
        assert len(controller.sessions) == 50
        assert max(back) <= 30.5
        in_each_second = [sum(1 for at_s in back if second <= at_s < second + 1) for second in range(31)]
        assert max(in_each_second) <= 12
        await stopped(*tasks)

    run_virtual(story)


def test_idle_node_pulls_again_right_after_a_wait_for_work() -> None:
    async def story(clock: VirtualClock) -> None:
        controller = FakeController(clock)
        node = ShellNode(controller, clock, Random(5), "node", slots=1)
        task = asyncio.create_task(node.run())
        await clock.sleep(60)
        await stopped(task)
        pulls = [call.at_s for call in controller.wire.received_as(PullCall)]
        assert pulls == [pytest.approx(5.0 * n, abs=0.01) for n in range(len(pulls))]

    run_virtual(story)
