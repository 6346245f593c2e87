"""A whole controller without its listeners, over a store in memory that can be held up and made to fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar

from tests.desks import DEV, POLICY, SPEC, Caller
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.store.memory import MemoryStore
from vmafx.adapters.store.transaction import Reading, Transaction, Transactions
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.controller import ReferenceController
from vmafx.app.controller.desk import Desks
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.jobs import JobDesks
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.readiness import Readiness
from vmafx.app.controller.sweeper import Sweeper
from vmafx.app.controller.unserved import Unserved
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.address import HostPort
from vmafx.domain.errors import StoreUnavailableError
from vmafx.domain.job import Job, JobId, JobStatus, TenantId
from vmafx.domain.job import JobSpec as Spec
from vmafx.ports.clock import Clock
from vmafx.ports.jobs import Jobs, JobView
from vmafx.ports.jobstore import Waiting

T = TypeVar("T")
DISK_FULL = StoreUnavailableError('database "/secret/jobs.db": disk is full', told="database or disk is full")


async def nothing(_name: str) -> None:
    """What happens around a call when a test has nothing to say about it."""


class Tap:
    """`Transactions` that a test can hold up, before and after each, or let fail; named as their work."""

    def __init__(self, inner: Transactions) -> None:
        self._inner = inner
        self.calls: list[str] = []
        self.failing: Exception | None = None
        self.quieten()

    def quieten(self) -> None:
        """Hold nothing up any more."""
        self.before: Callable[[str], Any] = nothing
        self.after: Callable[[str], Any] = nothing

    async def read(self, work: Callable[[Reading], T]) -> T:
        name = await self._enter(work)
        answer = await self._inner.read(work)
        await self.after(name)
        return answer

    async def write(self, work: Callable[[Transaction], T], *, surely: bool = False) -> T:
        name = await self._enter(work)
        answer = await self._inner.write(work, surely=surely)
        await self.after(name)
        return answer

    async def _enter(self, work: Callable[[Any], object]) -> str:
        name: str = getattr(work, "func", work).__name__
        self.calls.append(name)
        await self.before(name)
        if self.failing is not None:
            raise self.failing
        return name


class TappedStore(MemoryStore):
    """A `MemoryStore` with a tap."""

    def __init__(self, policy: ControllerPolicy) -> None:
        super().__init__(policy.lease)
        self.tap = Tap(self._transactions)
        self._transactions = self.tap
        self.looks = 0

    async def waiting(self) -> tuple[Waiting, ...]:
        self.looks += 1
        return await super().waiting()


class FakeListener:
    """A `Listener` whose calls, when there are any, end when a test says so."""

    def __init__(self, name: str, story: list[str], clock: Clock) -> None:
        self.name = name
        self.story = story
        self.clock = clock
        self.refusal: Exception | None = None
        self.calls_take_s = 0.0
        self.up = False
        self.address = HostPort.parse("the address", "127.0.0.1:1")
        self.on_start: Callable[[], object] = lambda: None

    async def start(self) -> None:
        self.on_start()
        if self.refusal is not None:
            raise self.refusal
        self.up = True
        self.story.append(f"{self.name} up")

    async def stop(self, *, grace_s: float) -> None:
        if not self.up:
            return
        self.story.append(f"{self.name} stops within {grace_s:g} s")
        await self.clock.sleep(max(0.0, min(self.calls_take_s, grace_s)))
        if self.up:
            self.up = False
            self.story.append(f"{self.name} down")


@dataclass(kw_only=True)
class ControllerWorld:
    """The parts of one controller."""

    clock: Clock
    policy: ControllerPolicy
    store: TappedStore
    telemetry: RecordingTelemetry = field(default_factory=RecordingTelemetry)
    feed: JobFeed = field(default_factory=JobFeed)
    readiness: Readiness = field(default_factory=Readiness)
    story: list[str] = field(default_factory=list)
    born: int = 1  # which controller on the store this is

    def __post_init__(self) -> None:
        clock, policy, telemetry, store = self.clock, self.policy, self.telemetry, self.store
        sessions, numbers = itertools.count(1), itertools.count(1)
        self.waits = PullWaits(clock)
        self.aftermath = Aftermath(telemetry, self.waits, self.feed)
        self.outage = Outage(self.readiness, clock=clock, telemetry=telemetry)
        self.unserved = Unserved(store, store, clock=clock, telemetry=telemetry)
        self.sweeper = Sweeper(
            store,
            policy=policy,
            clock=clock,
            aftermath=self.aftermath,
            unserved=self.unserved,
            outage=self.outage,
            telemetry=telemetry,
        )
        self.desks = Desks(
            store,
            store,
            policy=policy,
            clock=clock,
            telemetry=telemetry,
            outage=self.outage,
            waits=self.waits,
            aftermath=self.aftermath,
            new_id=lambda: f"session-{self.born}-{next(sessions)}",
            new_secret=lambda length: sha256(b"%d" % next(sessions)).digest()[:length],
        )
        self.job_desks = JobDesks(
            store,
            policy=policy,
            clock=clock,
            telemetry=telemetry,
            outage=self.outage,
            aftermath=self.aftermath,
            feed=self.feed,
            unserved=self.unserved,
            new_job_id=lambda: JobId(f"job-{self.born}-{next(numbers):06}"),
        )
        self.grpc = FakeListener("grpc", self.story, clock)
        self.http = FakeListener("http", self.story, clock)

    def jobs(self, tenant: TenantId = DEV) -> Jobs:
        return self.job_desks.of(tenant)

    async def node(self, name: str = "node-a", *, tenant: TenantId = DEV) -> Caller:
        return await Caller(self.desks.of(tenant), name, f"{name}-process").register()

    async def submit(self, spec: Spec = SPEC, *, tenant: TenantId = DEV) -> JobId:
        return await self.jobs(tenant).submit(spec, timeout_s=10)

    async def job(self, job_id: JobId, tenant: TenantId = DEV) -> Job:
        return await MemoryStore.get(self.store, tenant, job_id)

    async def status(self, job_id: JobId) -> JobStatus:
        return (await self.job(job_id)).status

    def controller(self) -> ReferenceController:
        return ReferenceController(
            desks=self.desks,
            jobs=self.job_desks,
            grpc=self.grpc,
            http=self.http,
            sweeper=self.sweeper,
            waits=self.waits,
            feed=self.feed,
            readiness=self.readiness,
            policy=self.policy,
            clock=self.clock,
            telemetry=self.telemetry,
        )


def a_controller(
    clock: Clock, policy: ControllerPolicy = POLICY, *, store: TappedStore | None = None
) -> ControllerWorld:
    return ControllerWorld(clock=clock, policy=policy, store=store or TappedStore(policy))


@asynccontextmanager
async def sweeping(it: ControllerWorld) -> AsyncGenerator[asyncio.Task[None]]:
    """Let a sweeper run; its error is the test's."""
    await it.sweeper.resume()
    task = asyncio.create_task(it.sweeper.run(), name="sweeper")
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Reader:
    """Somebody who follows jobs, and notes what is shown."""

    def __init__(self, jobs: Jobs, *statuses: JobStatus) -> None:
        self.views: list[JobView] = []
        self.error: Exception | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._followed = jobs.followed(frozenset(statuses))
        self.task = asyncio.create_task(self._read(), name="reader")

    def shown(self, job_id: JobId | None = None) -> list[str]:
        return [view.status.value for view in self.views if job_id in {None, view.id}]

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))

    async def _read(self) -> None:
        try:
            async with aclosing(self._followed) as views:  # type: ignore[type-var]
                async for view in views:
                    self.views.append(view)
                    await self.may_read.wait()
        except Exception as error:  # noqa: BLE001 -- the test's to look at
            self.error = error


@asynccontextmanager
async def reading(jobs: Jobs, *statuses: JobStatus) -> AsyncGenerator[Reader]:
    reader = Reader(jobs, *statuses)
    try:
        yield reader
    finally:
        await reader.close()
