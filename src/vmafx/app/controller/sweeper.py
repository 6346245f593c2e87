"""Sweeper: ends what was lost, deletes what is old, and knows when the controller was away (ADR 0025)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from vmafx.app.controller import events
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.unserved import Unserved
from vmafx.app.controller.whole import whole
from vmafx.domain.errors import StoreError
from vmafx.ports.clock import Clock
from vmafx.ports.jobstore import StoreUpkeep, SweepAnswer
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["LATE_INTERVALS", "PROBE_S", "PURGE_JOBS", "Sweeper"]

LATE_INTERVALS: Final = 3
"""By how many intervals a sweep may be late; when it is later, nobody could have kept sessions and leases."""
PURGE_JOBS: Final = 200
"""How many jobs are deleted at a time: other calls wait no longer than that takes."""
PROBE_S: Final = 5.0
"""How often it is tried at least whether a store that failed works again, in seconds."""

_FIRST_INSTANT: Final = datetime.min.replace(tzinfo=UTC)


class Sweeper:
    """Does a controller's upkeep at every interval, for as long as it is left to run.

    Args:
        upkeep: Does the work.
        policy: How often, and how long jobs are kept.
        clock: Says when; one that does not step.
        aftermath: Is passed whatever was stored.
        unserved: Looks whether each job has a node.
        outage: Is told whether the store works.
        telemetry: Is told of what was done.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that upkeep needs
        self,
        upkeep: StoreUpkeep,
        *,
        policy: ControllerPolicy,
        clock: Clock,
        aftermath: Aftermath,
        unserved: Unserved,
        outage: Outage,
        telemetry: Telemetry,
    ) -> None:
        self._upkeep = upkeep
        self._policy = policy
        self._clock = clock
        self._aftermath = aftermath
        self._unserved = unserved
        self._outage = outage
        self._telemetry = telemetry
        self._kept_s: float | None = None  # when the last call of upkeep began that worked

    async def resume(self, *, wanted: Callable[[], bool] = lambda: True) -> None:
        """Give all sessions and leases their whole time anew; to be done before anybody is served.

        Args:
            wanted: Asked after each step whether to go on.

        Raises:
            StoreError: The store failed; it may be begun anew.
        """
        began_s = self._clock.monotonic()
        place = await self._upkeep.resume(now=self._clock.now())
        while place is not None and wanted():
            began_s = self._clock.monotonic()
            place = await self._upkeep.resume(now=self._clock.now(), after=place)
        self._kept_s = began_s

    async def run(self) -> NoReturn:
        """Sweep now and at every interval; a store that fails is asked again at the next one, or earlier.

        A cancellation ends it as soon as the call that is under way is over and what it did is known.
        """
        interval_s = self._policy.sweep_interval_s
        while True:
            due_s = self._clock.monotonic() + interval_s
            failures = self._outage.failures
            try:
                await self._once(until_s=due_s)
            except StoreError as error:
                self._outage.upkeep_failed(error)
            else:
                self._outage.upkeep_worked(failures=failures)
            await self._rest(due_s)

    async def _rest(self, due_s: float) -> None:
        """Return when the next sweep is due; while the store does not work, that is soon."""
        try:
            async with self._clock.timeout(due_s - self._clock.monotonic()):
                await self._outage.begun()
        except TimeoutError:
            return
        await self._clock.sleep(min(PROBE_S, due_s - self._clock.monotonic()))

    async def _once(self, *, until_s: float) -> None:
        await self._resume_when_late()
        more = True
        while more:
            began_s = self._clock.monotonic()
            more = (await whole(self._sweep(), name="sweep")).more
            self._kept_s = began_s
            await self._clock.sleep(0)
        await self._purge(until_s)
        await self._unserved.look()

    async def _resume_when_late(self) -> None:
        """Resume when no upkeep has worked for so long that nodes may not have been able to keep anything.

        A process that stood still cannot take heartbeats, and a store that fails cannot keep them.
        """
        now_s = self._clock.monotonic()
        kept_s = now_s if self._kept_s is None else self._kept_s
        away_s = now_s - kept_s
        if away_s > (LATE_INTERVALS + 1) * self._policy.sweep_interval_s:
            self._telemetry.event(Level.WARN, events.AWAY, {"away": events.seconds(away_s)})
            await self.resume()

    async def _sweep(self) -> SweepAnswer:
        answer = await self._upkeep.sweep(now=self._clock.now())
        self._aftermath.swept(answer)
        return answer

    async def _purge(self, until_s: float) -> None:
        """Delete what ended too long ago, until nothing is left or the next sweep is due."""
        before = self._kept_from()
        if before is None:
            return
        purged, deleted = 0, PURGE_JOBS
        while deleted == PURGE_JOBS and self._clock.monotonic() < until_s:
            deleted = await self._upkeep.purge(finished_before=before, limit=PURGE_JOBS)
            purged += deleted
            await self._clock.sleep(0)
        if purged:
            self._telemetry.event(Level.INFO, events.JOBS_PURGED, {"jobs": purged})

    def _kept_from(self) -> datetime | None:
        """Return the end from which on jobs are kept; None when all are."""
        retention_s, now = self._policy.retention_s, self._clock.now()
        if not 0 < retention_s < (now - _FIRST_INSTANT).total_seconds():
            return None
        return now - timedelta(seconds=retention_s)
