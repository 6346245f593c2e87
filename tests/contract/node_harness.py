"""What the behaviour suite of a node needs: a stage for one node before each kind of controller.

Every stage is on a `VirtualClock` that is moved by hand, on an ordinary event loop, so that one suite serves
the fakes and a real connection alike. Virtual time moves to its next timer when all is at rest: every task
waits, and each call that the node waits for is one that the controller waits in. Both ends of the connection
know a call by a number in its metadata, so nothing is guessed from the machine's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from typing import Any, Protocol, TypeAlias

from tests.contract.node_line import LOOPBACK, Line, NodeEnd, NumberedChannel, Traffic
from tests.node_world import World, assert_nothing_left, make_world
from vmafx.adapters.auth.bearer import NoToken
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import ControllerMode, FakeController
from vmafx.adapters.fakes.controller_calls import ReportCall
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.channel import ChannelLimits, new_channel
from vmafx.adapters.grpc.client import GrpcController
from vmafx.domain.address import HostPort
from vmafx.domain.job import JobId
from vmafx.ports.tokens import TokenSource

QUICKLY = ChannelLimits(reconnect_base_s=0.1, reconnect_cap_s=0.1)


class Trait(Enum):
    """Where nodes before different controllers differ, and why."""

    NAMES_CANCELLED = "heartbeats name cancelled jobs; the original's do not"
    TAKES_OVER = "a result is taken under a later session; the original refuses it, and the job runs again"
    NUMBERS_ATTEMPTS = "reports carry the number of an attempt; the original tells none"
    REQUEUES_INTERRUPTED = (
        "an interrupted job is pending again; the original knows no failure but a final one"
    )
    WAITS_FOR_WORK = "a pull waits for work; the original answers at once, and the node polls"
    WIRE = "calls cross a connection: they have bytes, tokens and a peer that can be gone"


CURRENT = frozenset(Trait) - {Trait.WIRE}


# -------------------------------------------------------------------- stages


class Stage:
    """A world whose node runs, and a hand on its time; every method that waits leaves it at rest."""

    def __init__(
        self,
        world: World,
        traits: frozenset[Trait],
        *,
        traffic: Traffic | None = None,
        line: Line | None = None,
        channel: NumberedChannel | None = None,
    ) -> None:
        self.world = world
        self.traits = traits
        self.clock = world.clock
        self.fake = world.fake
        self.wire = world.fake.wire
        self.node = world.node
        self.scorer = world.scorer
        self.sources = world.sources
        self._traffic = traffic
        self._line = line
        self._channel = channel
        self._upheavals: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------ time

    async def at_rest(self) -> None:
        if self._traffic is None:
            await self.clock.settle()
        else:
            await self._traffic.at_rest(self.clock)

    async def advance(self, seconds: float) -> None:
        target_s = self.clock.monotonic() + seconds
        await self.at_rest()
        while (next_s := self.clock.next_wake_s) is not None and next_s <= target_s:
            await self._jump(next_s)
        await self._jump(target_s)

    async def until(self, condition: Callable[[], bool], *, within_s: float = 3600.0) -> None:
        """Let time pass to the first instant at which anything happens and something is true."""
        deadline_s = self.clock.monotonic() + within_s
        await self.at_rest()
        while not condition():
            next_s = self.clock.next_wake_s
            assert next_s is not None, "nothing will ever happen"
            assert next_s <= deadline_s, "it never came"
            await self._jump(next_s)

    async def until_ended(self, *jobs: JobId) -> None:
        await self.until(lambda: all(self.fake.job(job).status.terminal for job in jobs))

    async def ended(self) -> None:
        """Wait for the node's end; its error is the test's."""
        task = self.world.task
        assert task is not None
        await self.until(task.done)
        await task

    async def _jump(self, at_s: float) -> None:
        await self.clock.advance(max(at_s - self.clock.monotonic(), 0.0))
        await self.at_rest()

    # ------------------------------------------------------------ the other end

    @property
    def line(self) -> Line:
        assert self._line is not None
        return self._line

    def restart(self, *, jobs_lost: bool) -> None:
        """The controller forgets all sessions, and connections end where there are any."""
        self.fake.end_sessions(jobs_lost=jobs_lost)
        if self._line is not None:
            self.reset()

    def reset(self) -> None:
        """Connections end, and the controller knows what it knew."""
        task = asyncio.create_task(self._replaced(), name="reset")
        self._upheavals.add(task)
        task.add_done_callback(self._upheavals.discard)

    async def kill(self) -> None:
        """Nothing listens any more, and connections are reset."""
        assert self._traffic is not None
        with self._traffic.upheaval():
            await self.line.kill()

    async def revive(self) -> None:
        assert self._traffic is not None
        assert self._channel is not None
        with self._traffic.upheaval():
            await self.line.start()
            await self._channel.connected()

    async def _replaced(self) -> None:
        await self.kill()
        await self.revive()

    # ------------------------------------------------------------ seeing

    def reports(self, job_id: str | None = None) -> list[ReportCall]:
        return self.world.reports(None if job_id is None else JobId(job_id))


Before: TypeAlias = Callable[[Stage], None]


class Maker(Protocol):
    """Makes a stage; takes the arguments of `make_world`, and what is done to it before its node starts."""

    def __call__(self, clock: VirtualClock, *, before: Before | None = None, **arguments: Any) -> Any: ...


def _on_fake(mode: ControllerMode, traits: frozenset[Trait]) -> Maker:
    @asynccontextmanager
    async def made(
        clock: VirtualClock, *, before: Before | None = None, **arguments: Any
    ) -> AsyncIterator[Stage]:
        async with _playing(Stage(make_world(clock, mode=mode, **arguments), traits), before) as stage:
            yield stage

    return made


@asynccontextmanager
async def on_grpc(
    clock: VirtualClock,
    *,
    before: Before | None = None,
    tokens: TokenSource | None = None,
    **arguments: Any,
) -> AsyncIterator[Stage]:
    rule, roots = arguments.pop("rule", None), arguments.pop("roots", ("/clips",))
    fake = FakeController(clock, rule=rule, roots=roots)
    traffic, telemetry = Traffic(), RecordingTelemetry()
    line = Line(fake, traffic)
    async with AsyncExitStack() as cleanup:
        await line.start()
        cleanup.push_async_callback(line.kill)
        address = HostPort(host=LOOPBACK, port=line.port)
        channel = NumberedChannel(new_channel(address, None, QUICKLY), traffic)
        controller = GrpcController(
            channel,
            name=str(address),
            tls=False,
            proof=None,
            tokens=tokens or NoToken(),
            clock=clock,
            telemetry=telemetry,
        )
        cleanup.push_async_callback(controller.close)
        world = make_world(
            clock, fake=fake, controller=NodeEnd(controller, traffic), telemetry=telemetry, **arguments
        )
        traits = CURRENT | {Trait.WIRE}
        made = Stage(world, traits, traffic=traffic, line=line, channel=channel)
        async with _playing(made, before) as stage:
            yield stage
    assert line.telemetry.events == [], line.telemetry.events


@asynccontextmanager
async def _playing(stage: Stage, before: Before | None) -> AsyncIterator[Stage]:
    if before is not None:
        before(stage)
    task = stage.world.start()
    try:
        await stage.at_rest()
        yield stage
    finally:
        stage.node.stop_now()
        await stage.until(task.done)
    await task
    assert_nothing_left(stage.world)


MAKERS: dict[str, Maker] = {
    "current": _on_fake(ControllerMode.CURRENT, CURRENT),
    "original": _on_fake(ControllerMode.ORIGINAL, frozenset()),
    "grpc": on_grpc,
}
