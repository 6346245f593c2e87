"""A node in a world of fakes on virtual time: what tests of the node's behaviour start from.

The controller may be any, so that one suite can run on the fake and over a wire; `FakeController` is what a
world makes when it is given none.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import HeartbeatCall, PullCall, RegisterCall, ReportCall
from vmafx.adapters.fakes.controller_faults import FaultRule
from vmafx.adapters.fakes.scorer import FakeRun, FakeScorer
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.adapters.fakes.telemetry import RecordedEvent, RecordingTelemetry
from vmafx.app.node.node import Node
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.job import JobId, JobResult, JobSpec, JobStatus, NodeName
from vmafx.domain.nodesession import InstanceId
from vmafx.domain.retry import Call
from vmafx.domain.scoring import Failure, ScoreRequest, ScoreResult
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller, NodeIdentity
from vmafx.ports.scorer import Progress

REFERENCE = "/clips/reference.y4m"
MODES = tuple(ControllerMode)

RunRule: TypeAlias = Callable[[ScoreRequest], FakeRun]


def spec(name: str, *, model: str | None = None) -> JobSpec:
    """A job whose score tells which clip was scored."""
    return JobSpec(reference=REFERENCE, distorted=f"/clips/{name}.y4m", model=model)


def score_of(distorted: str) -> float:
    """The score that the scorer of a world finds for a clip; no two clips of a test have the same."""
    return zlib.crc32(distorted.encode()) / 2**32 * 100


class WatchedScorer:
    """A `FakeScorer` that sees to it that no job runs twice at once, and not more jobs than slots."""

    def __init__(self, inner: FakeScorer, slots: int) -> None:
        self.inner = inner
        self.slots = slots
        self.jobs: list[str] = []
        self.faults: list[str] = []

    async def self_test(self) -> None:
        await self.inner.self_test()

    async def score(self, request: ScoreRequest, *, progress: Progress | None = None) -> ScoreResult:
        # Told later: an error raised here would be one more failed job to the node.
        job_id = request.job_id or ""
        if not job_id or job_id in self.jobs:
            self.faults.append(f"{job_id!r} runs twice at once")
        self.jobs.append(job_id)
        if len(self.jobs) > self.slots:
            self.faults.append(f"more jobs than slots: {self.jobs}")
        try:
            return await self.inner.score(request, progress=progress)
        finally:
            self.jobs.remove(job_id)


@dataclass(kw_only=True)
class World:
    """A controller and one node; `start` lets the node run."""

    clock: VirtualClock
    chance: Random
    fake: FakeController
    controller: Controller
    scorer: FakeScorer
    watched: WatchedScorer
    sources: FakeSources
    telemetry: RecordingTelemetry
    policy: NodePolicy
    node: Node
    task: asyncio.Task[None] | None = None
    takes_s: float = 10.0
    expected: dict[JobId, float] = field(default_factory=dict)
    _checked: int = 0

    # ------------------------------------------------------------ doing

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.node.run(), name="node")
        return self.task

    def submit(self, name: str, *, job_id: str | None = None, model: str | None = None) -> JobId:
        asked = spec(name, model=model)
        job = self.fake.submit(asked, job_id=job_id)
        self.expected[job] = score_of(asked.distorted)
        return job

    async def ended(self) -> None:
        """Wait for the node's end; its error is the test's."""
        assert self.task is not None
        await self.task

    # ------------------------------------------------------------ seeing

    def status(self, job_id: JobId) -> JobStatus:
        return self.fake.job(job_id).status

    def error(self, job_id: JobId) -> str:
        return self.fake.job(job_id).error or ""

    def calls(self, kind: Call) -> int:
        return sum(call.kind is kind for call in self.fake.wire.received)

    def registers(self) -> list[RegisterCall]:
        return self.fake.wire.received_as(RegisterCall)

    def beats(self) -> list[HeartbeatCall]:
        return self.fake.wire.received_as(HeartbeatCall)

    def pulls(self) -> list[PullCall]:
        return self.fake.wire.received_as(PullCall)

    def reports(self, job_id: JobId | None = None) -> list[ReportCall]:
        calls = self.fake.wire.received_as(ReportCall)
        return [call for call in calls if job_id in {None, call.job_id}]

    def told(self, message: str) -> tuple[RecordedEvent, ...]:
        return self.telemetry.events_of(message)

    def check(self) -> None:
        """What holds at every moment: no wrong score was told or kept, and no rule of a port was broken."""
        assert self.watched.faults == []
        assert self.fake.violations() == ()
        self.telemetry.assert_no_misuse()
        calls = self.fake.wire.received[self._checked :]
        self._checked += len(calls)
        for call in calls:
            if not isinstance(call, ReportCall):
                continue
            if isinstance(call.report.content, JobResult) and call.job_id in self.expected:
                assert call.report.content.score == self.expected[call.job_id]
            if isinstance(call.report.content, Failure):
                assert len(call.report.content.error.encode()) <= 4096
        for job in self.fake.jobs:
            if job.result is not None:
                assert job.result.score == self.expected[job.id]


def make_world(
    clock: VirtualClock,
    *,
    mode: ControllerMode = ControllerMode.CURRENT,
    slots: int = 1,
    rule: FaultRule | None = None,
    run: RunRule | None = None,
    seed: int = 7,
    controller: Controller | None = None,
    policy: NodePolicy | None = None,
    roots: tuple[str, ...] = ("/clips",),
    takes_s: float = 10.0,
    telemetry: RecordingTelemetry | None = None,
    fake: FakeController | None = None,
    name: str = "node-1",
) -> World:
    """Return a world whose clips all exist and whose runs take `takes_s`, unless `run` says otherwise."""

    def usual(request: ScoreRequest) -> FakeRun:
        return FakeRun(score=score_of(request.distorted.name), takes_s=takes_s)

    chance = Random(seed)
    fake = fake or FakeController(clock, mode=mode, rule=rule, roots=roots)
    scorer = FakeScorer(clock, run or usual)
    watched = WatchedScorer(scorer, slots)
    sources = FakeSources(clock, lambda _: FakeSource())
    telemetry = telemetry or RecordingTelemetry()
    policy = policy or NodePolicy(slots=slots)
    node = Node(
        identity=NodeIdentity(name=NodeName(name), instance=InstanceId(f"{name}-process-{seed}")),
        policy=policy,
        controller=controller or fake,
        scorer=watched,
        sources=sources,
        clock=clock,
        telemetry=telemetry,
        chance=chance.random,
    )
    return World(
        clock=clock,
        chance=chance,
        fake=fake,
        controller=controller or fake,
        scorer=scorer,
        watched=watched,
        sources=sources,
        telemetry=telemetry,
        policy=policy,
        node=node,
        takes_s=takes_s,
    )


@asynccontextmanager
async def running(it: World) -> AsyncIterator[World]:
    """Let the node of a world run; when the body is over it is stopped at once, and nothing may be left."""
    task = it.start()
    try:
        yield it
    finally:
        it.node.stop_now()
        await asyncio.wait({task})
    await task
    assert_nothing_left(it)


def assert_nothing_left(it: World) -> None:
    it.check()
    it.sources.assert_balanced()
    assert it.scorer.running == 0
    assert it.node.state.jobs_running == 0
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if name.startswith(("slot", "session", "register", "heartbeat"))]


async def until(condition: Callable[[], bool], clock: Clock, *, within_s: float = 3600.0) -> None:
    """Let time pass until something is the case, looked at every 50 ms."""
    deadline_s = clock.monotonic() + within_s
    while not condition():
        assert clock.monotonic() < deadline_s, "it never came"
        await clock.sleep(0.05)


ENDLESS = FakeRun(takes_s=math.inf)
