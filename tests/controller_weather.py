"""A controller among nodes and clients that crash, hang and lose each other's words, all from one seed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from tests.controller_world import DISK_FULL, ControllerWorld, Reader, TappedStore
from tests.desks import DEV, POLICY
from tests.node_world import World, make_world, score_of, spec
from vmafx.adapters.clock.steady import SteadyClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.app.controller import metrics
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.attempt import JobHistory, violations
from vmafx.domain.errors import ClipError, ControllerError, ScorerError, StoreError
from vmafx.domain.job import JobId, JobResult, JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, JobEffect, Requeued
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report, ReportVerdict
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.scoring import ScoreRequest
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Desk, HeartbeatAnswer, NodeIdentity, Registration
from vmafx.ports.jobs import Jobs
from vmafx.ports.jobstore import Change, ReportAnswer, Submission, SweepAnswer
from vmafx.ports.jobstore import HeartbeatAnswer as Beaten

T = TypeVar("T")
SLOTS = 2
JOB_MAX_S = 200.0


class WatchedStore(TappedStore):
    """A store that sees to it that what is written obeys the rules, and counts what happened."""

    def __init__(self, policy: ControllerPolicy) -> None:
        super().__init__(policy)
        self.known: dict[JobId, JobHistory] = {}
        self.happened: Counter[str] = Counter()
        write = self.tap._inner.write

        async def watched(work: Callable[[Any], Any], *, surely: bool = False) -> Any:
            answer = await write(work, surely=surely)
            await self._watch(getattr(work, "func", work).__name__, work, answer)
            return answer

        self.tap._inner.write = watched  # type: ignore[method-assign]

    async def _watch(self, name: str, work: Any, answer: Any) -> None:
        if isinstance(answer, Submission):
            self.happened["submitted"] += answer.created
        for effect in effects_of(answer):
            match effect:
                case Requeued(reason=reason):
                    self.happened[reason.value] += 1
                case Finished(status=status):
                    self.happened[status.value] += 1
                case _:
                    pass
        for job_id in jobs_of(answer):
            await self._check(job_id)
        if name == "report":
            report: Report = work.keywords["said"]
            if isinstance(report.content, JobResult) and answer.verdict is not ReportVerdict.REFUSE:
                assert answer.change.job.status.terminal, "the first success wins"

    async def _check(self, job_id: JobId) -> None:
        history = await self.tap._inner.read(lambda books: books.history(job_id))
        assert history is not None
        assert violations(history) == ()
        before, self.known[job_id] = self.known.get(job_id), history
        if before is None:
            return
        assert history.job.attempt - before.job.attempt in {0, 1}
        assert history.job.updated_at >= before.job.updated_at
        if before.job.status.terminal:
            assert history == before


def effects_of(answer: object) -> list[JobEffect]:
    return [effect for change in changes_of(answer) for effect in change.effects]


def changes_of(answer: object) -> tuple[Change, ...]:
    match answer:
        case Change():
            return (answer,)
        case ReportAnswer(change=change):
            return () if change is None else (change,)
        case SweepAnswer(changes=changes) | Beaten(changes=changes):
            return changes
        case _:
            return ()


def jobs_of(answer: object) -> list[JobId]:
    own = [answer.job.id] if hasattr(answer, "job") else []
    return own + [change.job.id for change in changes_of(answer)]


class Link:
    """What lies between a node or a client and the controller, until the sky clears."""

    def __init__(self, weather: Weather, chance: Random) -> None:
        self._weather = weather
        self._chance = chance
        self.cut = False

    async def carry(
        self,
        call: Callable[[ControllerWorld], Awaitable[T]],
        timeout_s: float,
        *,
        lost: Callable[[T], Awaitable[None]] | None = None,
    ) -> T:
        """Make a call, or not, or make it and lose its answer."""
        try:
            async with self._weather.clock.timeout(timeout_s):
                await self._travel()
                answer = await call(self._weather.up())
                try:
                    await self._travel()
                except BaseException:
                    if lost is not None and self._chance.random() < 0.5:
                        await lost(answer)
                    raise
                return answer
        except TimeoutError:
            raise controller_error(StatusCode.DEADLINE_EXCEEDED, "no answer in time") from None

    async def _travel(self) -> None:
        clock, chance = self._weather.clock, self._chance
        while self.cut:
            await clock.sleep(1)
        if self._weather.clear:
            await clock.sleep(0.01)
            return
        await clock.sleep(chance.choice([0.001, 0.01, 0.1, chance.uniform(0, 3)]))
        if chance.random() < 0.03:
            raise controller_error(StatusCode.UNAVAILABLE, "the connection broke")
        if chance.random() < 0.005:
            await clock.sleep(1000)


class LinkedController:
    """A `Controller` at the other end of a link."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        return await self.link.carry(
            lambda it: desk(it).register(identity, capability, timeout_s=timeout_s), timeout_s
        )

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        return await self.link.carry(
            lambda it: desk(it).heartbeat(session, heartbeat, timeout_s=timeout_s), timeout_s
        )

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        async def lost(assignment: Assignment | None) -> None:
            if assignment is not None:
                await desk(self.link._weather.world).take_back(session, assignment)

        return await self.link.carry(
            lambda it: desk(it).pull(session, capability, timeout_s=timeout_s), timeout_s, lost=lost
        )

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        await self.link.carry(
            lambda it: desk(it).report(session, job_id, report, timeout_s=timeout_s), timeout_s
        )


def desk(it: ControllerWorld) -> Desk:
    return it.desks.of(DEV)


class Weather:
    """One store, one controller after another on it, some nodes and clients, and what befalls them."""

    def __init__(self, clock: VirtualClock, seed: int, *, nodes: int = 3) -> None:
        self.clock = clock
        self.chance = Random(seed)
        self.clear = False  # whether calls go through as they should
        self.store = WatchedStore(POLICY)
        self.telemetry = RecordingTelemetry()
        self.expected: dict[JobId, float] = {}
        self.readers: list[Reader] = []
        self.processes = 0
        self.sweeper: asyncio.Task[None] | None = None
        self.world = self._born()
        self.nodes = [self._node(f"node-{number}") for number in range(nodes)]

    # ------------------------------------------------------------ the controller

    def up(self) -> ControllerWorld:
        if self.sweeper is None:
            raise controller_error(StatusCode.UNAVAILABLE, "connection refused")
        return self.world

    def _born(self) -> ControllerWorld:
        self.processes += 1
        return ControllerWorld(
            clock=SteadyClock(self.clock),
            policy=POLICY,
            store=self.store,
            telemetry=self.telemetry,
            born=self.processes,
        )

    async def open(self) -> None:
        while True:
            with suppress(StoreError):
                await self.world.sweeper.resume()
                break
            await self.clock.sleep(1)
        self.sweeper = asyncio.create_task(self.world.sweeper.run(), name="sweeper")
        self.readers.append(Reader(self.world.jobs()))

    async def close(self) -> None:
        assert self.sweeper is not None
        self.sweeper.cancel()
        with suppress(asyncio.CancelledError):
            await self.sweeper
        self.sweeper = None
        self.world.waits.end()
        self.world.feed.end()
        self.world = self._born()

    # ------------------------------------------------------------ nodes

    def _node(self, name: str) -> tuple[Link, World]:
        self.processes += 1
        link = Link(self, Random(f"{name} {self.processes} {self.chance.random()}"))
        it = make_world(
            self.clock,
            slots=SLOTS,
            run=self._run_of,
            seed=self.processes,
            controller=LinkedController(link),
            policy=NodePolicy(slots=SLOTS, poll_interval_s=5),
            name=name,
        )
        it.start()
        return link, it

    def _run_of(self, request: ScoreRequest) -> FakeRun:
        takes_s = self.chance.uniform(1, JOB_MAX_S)
        if "torn" in request.distorted.name:
            return FakeRun(takes_s=takes_s, error=ClipError(request.distorted.name, "a frame is torn"))
        if self.chance.random() < 0.05 and not self.clear:
            return FakeRun(takes_s=takes_s, error=ScorerError("killed", machine_fault=True))
        return FakeRun(takes_s=takes_s, score=score_of(request.distorted.name))

    async def end_node(self, number: int, *, softly: bool) -> None:
        _, it = self.nodes[number]
        assert it.task is not None
        if softly:
            it.node.stop()
        else:
            it.task.cancel()
        with suppress(asyncio.CancelledError):
            await it.task
        assert it.watched.faults == []
        it.telemetry.assert_no_misuse()

    # ------------------------------------------------------------ clients

    async def client(self, number: int, jobs: int) -> None:
        chance = Random(f"client {number} {self.chance.random()}")
        link, mine = Link(self, chance), list[JobId]()
        for index in range(jobs):
            await self.clock.sleep(chance.uniform(0, 60))
            name = f"{'torn' if chance.random() < 0.1 else 'fine'}-{number}-{index}"
            asked = spec(name)

            async def submit(jobs: Jobs, asked=asked, key=name) -> JobId:
                return await jobs.submit(asked, idempotency_key=key, timeout_s=10)

            mine.append(await self._surely(link, submit))
            self.expected[mine[-1]] = score_of(asked.distorted)
            if chance.random() < 0.15:
                chosen = chance.choice(mine)
                await self._surely(link, lambda jobs, chosen=chosen: jobs.cancel(chosen, timeout_s=10))

    async def _surely(self, link: Link, call: Callable[[Jobs], Awaitable[T]]) -> T:
        while True:
            try:
                return await link.carry(lambda it: call(it.jobs()), 10.0)
            except ControllerError as error:
                if not error.retryable:
                    raise
            await self.clock.sleep(1)

    # ------------------------------------------------------------ what befalls them

    async def misfortune(self) -> None:
        number = self.chance.randrange(len(self.nodes))
        link, _ = self.nodes[number]
        match self.chance.randrange(6):
            case 0:
                link.cut = True
                await self.clock.sleep(self.chance.choice([5, 61, 130, 400]))
                link.cut = False
            case 1:
                await self.end_node(number, softly=self.chance.random() < 0.5)
                await self.clock.sleep(self.chance.uniform(0, 90))
                self.nodes[number] = self._node(f"node-{number}")
            case 2:
                await self.close()
                await self.clock.sleep(self.chance.choice([0.5, 20, 120, 600]))
                await self.open()
            case 3:
                self.store.tap.failing = DISK_FULL
                await self.clock.sleep(self.chance.choice([1, 10, 90]))
                self.store.tap.failing = None
            case 4:
                await self._slow_store(self.chance.uniform(0, 2))
            case _:
                self.clock.step_wall(self.chance.choice([12 * 3600.0, self.chance.uniform(-2, 2)]))

    async def _slow_store(self, seconds: float) -> None:
        async def slow(_name: str) -> None:
            await self.clock.sleep(self.chance.uniform(0, seconds))

        self.store.tap.before = self.store.tap.after = slow
        await self.clock.sleep(60)
        self.store.tap.quieten()

    # ------------------------------------------------------------ what must hold

    async def unfinished(self) -> bool:
        open_now = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
        return bool(await self.store.page(DEV, statuses=open_now, limit=1))

    def assert_alive(self) -> None:
        assert self.sweeper is not None
        assert not self.sweeper.done()
        for _, it in self.nodes:
            assert it.task is not None
            assert not it.task.done()
            assert it.watched.faults == []

    def assert_counted(self) -> None:
        """Each transition that was stored was counted, once."""
        happened, value = self.store.happened, self.telemetry.value
        for word, family in (
            ("submitted", metrics.JOBS_SUBMITTED),
            ("completed", metrics.JOBS_COMPLETED),
            ("failed", metrics.JOBS_FAILED),
            ("cancelled", metrics.JOBS_CANCELLED),
        ):
            assert (value(family, {"tenant": DEV}) or 0) == happened[word], word
        for reason in RequeueReason:
            counted = value(metrics.JOBS_REQUEUED, {"reason": reason.value}) or 0
            assert counted == happened[reason.value], reason
        self.telemetry.assert_no_misuse()

    async def assert_ended(self) -> None:
        """Each job has ended, as it must."""
        for job_id, score in self.expected.items():
            history = await self.store.history(DEV, job_id)
            job = history.job
            assert job.status.terminal
            if job.status is JobStatus.COMPLETED:
                assert job.result is not None
                assert job.result.score == score
            if job.status is JobStatus.FAILED:
                assert "torn" in job.spec.distorted or job.lost_attempts == job.max_lost_attempts
        last = {view.id: view.status for view in self.readers[-1].views}
        assert last == {job.id: job.status for job in await self.store.page(DEV)}
