"""What the contract suite of `Controller` needs around one, and the makers of those it is run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Protocol, TypeAlias

from tests.controller_server import serve
from tests.desks import DEV, an_office, move
from vmafx.adapters.auth.bearer import NoToken
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.client import open_controller
from vmafx.domain.address import HostPort
from vmafx.domain.attempt import violations
from vmafx.domain.job import JobId, JobSpec, JobStatus
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Controller, Desk, HeartbeatAnswer, NodeIdentity, Registration

ROOTS = ("/clips", "https://clips.invalid/")
MARGIN_S = 60.0
ROUNDING_S = 0.2  # deadlines travel with three digits or so, rounded up
HANG_GUARD_S = 30.0


class Trait(Enum):
    """Where controllers may differ, and why: the original knows no metadata."""

    WAITS_FOR_WORK = "a pull that finds nothing waits for work"
    NUMBERS_ATTEMPTS = "assignments carry the number of the attempt"
    NAMES_CANCELLED = "heartbeats name cancelled jobs"
    FIRST_SUCCESS_WINS = "a success counts although the lease was lost"
    TAKES_OVER = "a newer session of the same process takes an attempt over"
    TAKES_BACK = "an assignment whose node is gone is undone"
    RETRIES_FAILURES = "a failure may ask for another try"
    GIVES_BACK_UNSTARTED = "a job that no heartbeat ever lists goes back"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A job as its owner sees it."""

    status: JobStatus
    score: float | None
    error: str


class Harness(Protocol):
    """A controller with an empty queue, one tenant whose roots are `ROOTS`, and a hand on its time."""

    @property
    def controller(self) -> Controller: ...

    @property
    def traits(self) -> frozenset[Trait]: ...

    async def submit(self, spec: JobSpec) -> JobId: ...

    async def cancel(self, job_id: JobId) -> None: ...

    async def look(self, job_id: JobId) -> Seen: ...

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the controller and for the calls that wait; 0 lets them come to rest."""
        ...


Maker: TypeAlias = Callable[[VirtualClock], AbstractAsyncContextManager[Harness]]


class FakeHarness:
    """A `FakeController` on a virtual clock."""

    def __init__(self, clock: VirtualClock, mode: ControllerMode) -> None:
        self.controller = FakeController(clock, mode=mode, roots=ROOTS)
        self.traits = frozenset(Trait) if mode is ControllerMode.CURRENT else frozenset[Trait]()
        self._clock = clock

    async def submit(self, spec: JobSpec) -> JobId:
        return self.controller.submit(spec)

    async def cancel(self, job_id: JobId) -> None:
        self.controller.cancel(job_id)

    async def look(self, job_id: JobId) -> Seen:
        assert self.controller.violations() == ()
        job = self.controller.job(job_id)
        return Seen(
            status=job.status, score=None if job.result is None else job.result.score, error=job.error or ""
        )

    async def pass_time(self, seconds: float) -> None:
        await self._clock.advance(seconds)


class DeskHarness:
    """A `Desk` of our own controller over a store in memory, on a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.office = an_office(clock)
        self.controller = self.office.desk()
        self.traits = frozenset(Trait)
        self._clock = clock

    async def submit(self, spec: JobSpec) -> JobId:
        return await self.office.submit(spec)

    async def cancel(self, job_id: JobId) -> None:
        await self.office.cancel(job_id)

    async def look(self, job_id: JobId) -> Seen:
        history = await self.office.store.history(DEV, job_id)
        assert violations(history) == ()
        job = history.job
        return Seen(
            status=job.status, score=None if job.result is None else job.result.score, error=job.error or ""
        )

    async def pass_time(self, seconds: float) -> None:
        await move(self._clock, seconds, self.office)


class Calls:
    """The calls under way at both ends of a wire, by which it shows when nothing is between them."""

    def __init__(self) -> None:
        self.under_way = {"node": 0, "controller": 0}
        self._changed = asyncio.Event()

    @contextmanager
    def one(self, end: str) -> Iterator[None]:
        self._count(end, 1)
        try:
            yield
        finally:
            self._count(end, -1)

    async def at_rest(self, clock: VirtualClock) -> None:
        """Return when every call that the node waits for is one that the controller waits in."""
        async with asyncio.timeout(HANG_GUARD_S):
            while True:
                await clock.settle()
                if self.under_way["node"] == self.under_way["controller"]:
                    return
                self._changed.clear()
                await self._changed.wait()

    def _count(self, end: str, by: int) -> None:
        self.under_way[end] += by
        self._changed.set()


class Counted:
    """A `Controller` whose calls are counted, and have more time or less than they were given.

    Real calls have real deadlines, and virtual time does not pass while a slow machine carries them: so the
    node's end adds a margin, and the controller's takes it off again.
    """

    def __init__(self, inner: Controller, calls: Calls, end: str, more_s: float) -> None:
        self._inner = inner
        self._one = partial(calls.one, end)
        self._more_s = more_s

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        with self._one():
            return await self._inner.register(identity, capability, timeout_s=timeout_s + self._more_s)

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        with self._one():
            return await self._inner.heartbeat(session, heartbeat, timeout_s=timeout_s + self._more_s)

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        with self._one():
            return await self._inner.pull(session, capability, timeout_s=timeout_s + self._more_s)

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        with self._one():
            await self._inner.report(session, job_id, report, timeout_s=timeout_s + self._more_s)


class CountedDesk(Counted):
    """The same of a `Desk`."""

    def __init__(self, inner: Desk, calls: Calls, end: str, more_s: float) -> None:
        super().__init__(inner, calls, end, more_s)
        self.take_back = inner.take_back


class WireHarness:
    """A `FakeController` on a virtual clock, and a `GrpcController` that calls it over a real connection."""

    def __init__(
        self, behind: FakeHarness, controller: Controller, calls: Calls, clock: VirtualClock
    ) -> None:
        self.controller = controller
        self.traits = behind.traits
        self._behind = behind
        self._calls = calls
        self._clock = clock

    async def submit(self, spec: JobSpec) -> JobId:
        await self._calls.at_rest(self._clock)
        return await self._behind.submit(spec)

    async def cancel(self, job_id: JobId) -> None:
        await self._calls.at_rest(self._clock)
        await self._behind.cancel(job_id)

    async def look(self, job_id: JobId) -> Seen:
        await self._calls.at_rest(self._clock)
        return await self._behind.look(job_id)

    async def pass_time(self, seconds: float) -> None:
        await self._calls.at_rest(self._clock)
        await self._clock.advance(seconds)
        await self._calls.at_rest(self._clock)


@asynccontextmanager
async def fake(clock: VirtualClock) -> AsyncIterator[Harness]:
    yield FakeHarness(clock, ControllerMode.CURRENT)


@asynccontextmanager
async def fake_original(clock: VirtualClock) -> AsyncIterator[Harness]:
    yield FakeHarness(clock, ControllerMode.ORIGINAL)


@asynccontextmanager
async def desk(clock: VirtualClock) -> AsyncIterator[Harness]:
    harness = DeskHarness(clock)
    yield harness
    harness.office.telemetry.assert_no_misuse()


@asynccontextmanager
async def grpc(clock: VirtualClock) -> AsyncIterator[Harness]:
    async with over_grpc(clock, ControllerMode.CURRENT) as harness:
        yield harness


@asynccontextmanager
async def grpc_original(clock: VirtualClock) -> AsyncIterator[Harness]:
    async with over_grpc(clock, ControllerMode.ORIGINAL) as harness:
        yield harness


@asynccontextmanager
async def over_grpc(clock: VirtualClock, mode: ControllerMode) -> AsyncIterator[Harness]:
    behind, calls, telemetry = FakeHarness(clock, mode), Calls(), RecordingTelemetry()
    served = CountedDesk(behind.controller, calls, "controller", -MARGIN_S - ROUNDING_S)
    async with (
        serve(served, telemetry=telemetry) as address,
        open_controller(
            HostPort.parse("the address", address),
            tls=None,
            tokens=NoToken(),
            clock=SystemClock(),
            telemetry=telemetry,
        ) as controller,
    ):
        yield WireHarness(behind, Counted(controller, calls, "node", MARGIN_S), calls, clock)
    assert telemetry.events == []


MAKERS: tuple[Maker, ...] = (fake, fake_original, desk, grpc, grpc_original)
DESKS: tuple[Maker, ...] = (fake, fake_original, desk)
"""Those that are a `Desk` as well: a node at the other end of a wire takes nothing back."""
