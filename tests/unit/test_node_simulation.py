"""A day of a node from a seed: safe at every step, and every job ends once the faults do (ADR 0018)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.node_world import World, assert_nothing_left, make_world, score_of
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import NodeCall
from vmafx.adapters.fakes.controller_faults import Fault, Hang, SeededFaults
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.app.node import events
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ClipError, ScorerError, SourceError
from vmafx.domain.job import JobId, JobStatus
from vmafx.domain.scoring import ScoreRequest

DAY_S = 86_400.0
JOBS = 500  # in a day
SLOTS = 4
PATIENCE_S = 6 * 3600.0


@dataclass
class Weather:
    """Faults of the wire until the sky clears."""

    seed: int
    clear: bool = False
    hang: float = 0.002
    rule: SeededFaults = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(f"hang-{self.seed}")
        self.rule = SeededFaults(self.seed, failed=0.02, lost=0.02, delayed=0.1, delay_max_s=6)

    def __call__(self, call: NodeCall) -> Fault | None:
        if self.clear:
            return None
        if self.chance.random() < self.hang:
            return Hang(answered=self.chance.random() < 0.5)
        return self.rule(call)


@dataclass
class Day:
    """One controller, and one node process after another."""

    clock: VirtualClock
    seed: int
    mode: ControllerMode

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.weather = Weather(self.seed)
        self.fake = FakeController(self.clock, mode=self.mode, rule=self.weather, roots=("/clips",))
        self.telemetry = RecordingTelemetry()
        self.expected: dict[JobId, float] = {}
        self.processes = 0
        self.world = self.born()

    def born(self) -> World:
        self.processes += 1
        it = make_world(
            self.clock,
            slots=SLOTS,
            run=self.run_of,
            seed=self.seed * 1000 + self.processes,
            fake=self.fake,
            policy=NodePolicy(slots=SLOTS, poll_interval_s=10),
            telemetry=self.telemetry,
        )
        it.expected = self.expected
        it.sources._rule = self.source_of
        it.start()
        return it

    def run_of(self, request: ScoreRequest) -> FakeRun:
        takes_s = self.chance.uniform(1, 900)
        if "torn" in request.distorted.name:
            return FakeRun(takes_s=takes_s, error=ClipError(request.distorted.name, "a frame is torn"))
        if self.chance.random() < 0.03 and not self.weather.clear:
            return FakeRun(takes_s=takes_s, error=ScorerError("killed", machine_fault=True))
        return FakeRun(takes_s=takes_s, score=score_of(request.distorted.name))

    def source_of(self, _ref: object) -> FakeSource:
        if self.chance.random() < 0.02 and not self.weather.clear:
            stalled = SourceError("a clip", "no byte for 60 s", machine_fault=True)
            return FakeSource(takes_s=5, breaks=stalled, breaks_after_s=60)
        return FakeSource(takes_s=self.chance.uniform(0, 20), release_takes_s=self.chance.uniform(0, 2))

    def submit(self, number: int) -> None:
        kind = "torn" if self.chance.random() < 0.05 else "fine"
        self.world.submit(f"{kind}-{number}")

    async def misfortune(self) -> None:
        match self.chance.randrange(12):
            case 0:
                self.fake.wire.break_down()
                await self.clock.sleep(self.chance.choice([2, 30, 100, 1000]))
                self.fake.wire.heal()
            case 1:
                self.fake.end_sessions(jobs_lost=self.chance.random() < 0.5)
            case 2 | 3:
                self.fake.cancel(self.chance.choice(list(self.expected)[-8:]))
            case 4:
                self.world.scorer.break_down()
                await self.clock.sleep(self.chance.uniform(1, 600))
                self.world.scorer.heal()
            case 5:
                await self.restart(softly=self.chance.random() < 0.7)
            case 6:
                self.clock.step_wall(self.chance.uniform(-40_000, 40_000))
            case _:
                self.fake.wire.release()

    async def restart(self, *, softly: bool) -> None:
        old, task = self.world, self.world.task
        assert task is not None
        if softly:
            old.node.stop()
            began_s = self.clock.monotonic()
            await task
            assert self.clock.monotonic() - began_s < old.policy.shutdown_timeout_s + 10
        else:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert_nothing_left(old)
        await self.clock.sleep(self.chance.uniform(0, 100))
        self.world = self.born()

    def check(self) -> None:
        task = self.world.task
        assert task is not None
        assert not task.done(), "the node has died"
        self.world.check()


async def day_of(clock: VirtualClock, seed: int, mode: ControllerMode, jobs: int) -> Day:
    day = Day(clock, seed, mode)
    for number in range(jobs):
        day.submit(number)
        await clock.sleep(day.chance.expovariate(JOBS / DAY_S))
        day.check()
        if day.chance.random() < 0.3:
            await day.misfortune()
    day.weather.clear = True
    day.fake.wire.release()
    async with clock.timeout(PATIENCE_S):
        await day.fake.until_ended(*day.expected)
    await clock.sleep(200)
    day.check()
    day.world.node.stop()
    await day.world.ended()
    assert_nothing_left(day.world)
    return day


def tell(day: Day) -> None:
    statuses = [job.status for job in day.fake.jobs]
    counts = {status.value: statuses.count(status) for status in JobStatus}
    print(  # noqa: T201 -- the seed brings a day back
        f"seed {day.seed} {day.mode.value}: {counts} processes={day.processes} "
        f"calls={len(day.fake.wire.received)} sessions={len(day.telemetry.events_of(events.REGISTERED))} "
        f"suspended={len(day.telemetry.events_of(events.PULLING_SUSPENDED))} "
        f"adopted={len(day.telemetry.events_of(events.JOB_PULLED_AGAIN))} "
        f"undelivered={len(day.telemetry.events_of(events.NOT_DELIVERED))}"
    )


def live_through(seed: int, mode: ControllerMode, *, jobs: int) -> None:
    print(f"seed {seed}, controller {mode.value}")  # noqa: T201 -- the seed brings a day back
    day = run_virtual(lambda clock: day_of(clock, seed, mode, jobs))
    tell(day)
    assert day.clock.monotonic() > 0.8 * DAY_S * jobs / JOBS
    for job in day.fake.jobs:
        assert job.status.terminal
        if job.status is JobStatus.COMPLETED:
            assert "fine" in job.spec.distorted
        if job.status is JobStatus.FAILED and mode is ControllerMode.CURRENT:
            worn_out = job.lost_attempts == job.max_lost_attempts
            assert worn_out or "a frame is torn" in (job.error or "")


@pytest.mark.no_cover  # the lines are counted by the tests of the parts, four times as fast
@pytest.mark.parametrize("mode", ControllerMode, ids=lambda mode: mode.value)
def test_half_a_day_with_half_its_jobs(mode):
    live_through(2024, mode, jobs=JOBS // 2)


def test_one_seed_is_one_day():
    def story() -> list[str]:
        day = run_virtual(lambda clock: short_day(clock, 5))
        return [repr(event) for event in day.telemetry.events]

    assert story() == story()


async def short_day(clock: VirtualClock, seed: int) -> Day:
    day = Day(clock, seed, ControllerMode.CURRENT)
    for number in range(30):
        day.submit(number)
        await clock.sleep(day.chance.uniform(1, 60))
        day.check()
        if day.chance.random() < 0.3:
            await day.misfortune()
    day.world.node.stop_now()
    await day.world.ended()
    return day


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("mode", ControllerMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("seed", range(100))
def test_many_days(seed, mode):
    live_through(seed, mode, jobs=JOBS)
