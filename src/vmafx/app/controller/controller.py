"""ReferenceController: the order in which the parts of a controller start and stop (ADR 0025)."""

from __future__ import annotations

import asyncio

from vmafx.app.controller import events
from vmafx.app.controller.desk import Desks
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.jobs import JobDesks
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.readiness import Phase, Readiness
from vmafx.app.controller.sweeper import Sweeper
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.job import TenantId
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Desk
from vmafx.ports.jobs import Jobs
from vmafx.ports.listener import Listener
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["ReferenceController"]


class ReferenceController:
    """A controller from its start to its end.

    It opens no store and closes none: whoever opened it closes it after `run` has returned.

    Args:
        desks: What it is for nodes.
        jobs: What it is for clients.
        grpc: Where nodes and clients call.
        http: Where its health, readiness and metrics are read.
        sweeper: Does its upkeep.
        waits: The pulls that wait for work.
        feed: Those who follow the jobs.
        readiness: What the HTTP listener asks, and the sweeper tells; the same for both.
        policy: How long calls may take to end at a stop.
        clock: Says how long that has taken.
        telemetry: Is told of start and stop.
        about: What else the line of the start says, such as which database is served.
    """

    def __init__(  # noqa: PLR0913 -- one argument per part
        self,
        *,
        desks: Desks,
        jobs: JobDesks,
        grpc: Listener,
        http: Listener,
        sweeper: Sweeper,
        waits: PullWaits,
        feed: JobFeed,
        readiness: Readiness,
        policy: ControllerPolicy,
        clock: Clock,
        telemetry: Telemetry,
        about: Fields | None = None,
    ) -> None:
        self._desks = desks
        self._jobs = jobs
        self._grpc = grpc
        self._http = http
        self._sweeper = sweeper
        self._waits = waits
        self._feed = feed
        self._readiness = readiness
        self._policy = policy
        self._clock = clock
        self._telemetry = telemetry
        self._about: Fields = about or {}
        self._began = False
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()
        self._death: Exception | None = None

    def desk_of(self, tenant: TenantId) -> Desk:
        """Return the controller as the nodes of a tenant see it, for a way in that knows who calls."""
        return self._desks.of(tenant)

    def jobs_of(self, tenant: TenantId) -> Jobs:
        """Return the jobs of a tenant, for a way in that knows who calls, and for this process itself."""
        return self._jobs.of(tenant)

    def ready_problem(self) -> str | None:
        """Return why the controller is not ready, in words; None when it is."""
        return self._readiness.problem()

    async def run(self) -> None:
        """Serve until stopped, and return when nothing of it is left: no listener, no call, no task.

        Probes are answered first. Sessions and leases get their whole time anew before calls are taken. Told
        to stop, the controller is no longer ready, takes no new calls, lets those that run end, and ends its
        upkeep last. A cancellation cuts calls off.

        Raises:
            StoreError: The store does not work: no call was taken.
            ConfigurationError: A listener cannot be started: names its setting.
            Exception: The upkeep died of it, and so the whole was ended.
            RuntimeError: It ran before.
        """
        if self._began:
            raise RuntimeError("a controller runs once")
        self._began = True
        try:
            await self._serve()
        finally:
            self._readiness.phase = Phase.STOPPING
        self._telemetry.event(Level.INFO, events.STOPPED)
        if self._death is not None:
            raise self._death

    def stop(self) -> None:
        """Begin to stop; any time, also before `run`, and any number of times."""
        if not self._stopping.is_set():
            self._readiness.phase = Phase.STOPPING
            self._stopping.set()

    def stop_now(self) -> None:
        """Stop without letting calls end."""
        self.stop()
        self._at_once.set()

    async def _serve(self) -> None:
        try:
            if await self._started():
                async with asyncio.TaskGroup() as tasks:
                    sweeping = tasks.create_task(self._sweep(), name="sweeper")
                    await self._stopping.wait()
                    await self._drain()
                    sweeping.cancel()
        finally:  # nothing is left to be cut off, unless the start was not ended or this was cancelled
            await self._grpc.stop(grace_s=0)
            await self._http.stop(grace_s=0)

    async def _started(self) -> bool:
        """Start; return whether that came to its end. Otherwise nothing may be swept: not all is resumed."""
        if self._stopping.is_set():
            return False
        await self._http.start()  # first, so that probes are told why nobody is served yet
        await self._sweeper.resume(wanted=lambda: not self._stopping.is_set())
        if self._stopping.is_set():
            return False
        await self._grpc.start()
        if self._stopping.is_set():
            return False
        self._readiness.phase = Phase.WORKING
        fields = {"grpc": str(self._grpc.address), "http": str(self._http.address), **self._about}
        self._telemetry.event(Level.INFO, events.STARTED, fields)
        return True

    async def _sweep(self) -> None:
        try:
            await self._sweeper.run()
        except Exception as error:  # noqa: BLE001 -- raised by `run`, once nothing is left
            self._death = error
            self._telemetry.event(Level.ERROR, events.SWEEPER_DIED, error=error)
            self.stop()

    async def _drain(self) -> None:
        """Stop the listeners, within the time that calls may take to end."""
        until_s = self._clock.monotonic() + self._policy.shutdown_s
        self._telemetry.event(Level.INFO, events.STOPPING, {"within": self._policy.shutdown_s})
        self._waits.end()
        self._feed.end()
        await self._stop_listener(self._grpc, until_s)
        await self._stop_listener(self._http, until_s)

    async def _stop_listener(self, listener: Listener, until_s: float) -> None:
        """Stop a listener; at once when there is no time left, or when that is asked for meanwhile."""
        async with asyncio.TaskGroup() as tasks:
            left_s = 0.0 if self._at_once.is_set() else until_s - self._clock.monotonic()
            stopping = tasks.create_task(listener.stop(grace_s=max(0.0, left_s)), name="stop a listener")
            cutting = tasks.create_task(self._at_once.wait(), name="wait to cut calls off")
            await asyncio.wait((stopping, cutting), return_when=asyncio.FIRST_COMPLETED)
            cutting.cancel()
            if not stopping.done():
                await listener.stop(grace_s=0)
