"""Outage: since when the store fails, as calls and the upkeep find out, and until when (ADR 0025).

A call that fails shows at once what a sweep would find an interval later, and upkeep alone shows that it is
over: it writes, whether anybody calls or not. The log is told of a beginning, of an end, and of the failures
in between once in a while: under load each of them would be a line.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from vmafx.app.controller import events
from vmafx.app.controller.readiness import Readiness
from vmafx.domain.errors import StoreError, StoreUnavailableError
from vmafx.domain.refusals import refusal_of
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["FAILURES_TOLD_EVERY_S", "Outage"]

FAILURES_TOLD_EVERY_S: Final = 60.0
"""How often the log hears of calls that the store failed, in seconds."""


class Outage:
    """Whether the store works.

    Args:
        readiness: Is told why the controller is not ready.
        clock: Measures how long it lasts.
        telemetry: Is told of it.
    """

    def __init__(self, readiness: Readiness, *, clock: Clock, telemetry: Telemetry) -> None:
        self._readiness = readiness
        self._clock = clock
        self._telemetry = telemetry
        self._begun = asyncio.Event()
        self._since_s = 0.0
        self._upkeep_told = False
        self._calls = 0  # that failed and were not told
        self._tell_from_s = -inf
        self.failures: int = 0
        """How often the store was found not to work."""

    def call_failed(self, error: StoreError, about: Fields) -> None:
        """Note a call that failed by the store; one that may work later means that the store does not work.

        Args:
            error: Why.
            about: Which call it was, and for whom.
        """
        if isinstance(error, StoreUnavailableError):
            self._failed(error)
        self._calls += 1
        now_s = self._clock.monotonic()
        if now_s < self._tell_from_s:
            return
        self._telemetry.event(Level.WARN, events.STORE_FAILED, {**about, "calls": self._calls}, error=error)
        self._tell_from_s, self._calls = now_s + FAILURES_TOLD_EVERY_S, 0

    def upkeep_failed(self, error: StoreError) -> None:
        """Note that the upkeep failed by the store, whatever the reason."""
        self._failed(error)
        if not self._upkeep_told:
            self._upkeep_told = True
            self._telemetry.event(Level.ERROR, events.UPKEEP_FAILED, error=error)

    def upkeep_worked(self, *, failures: int) -> None:
        """Note that the upkeep has written; the outage is over unless a call has failed meanwhile.

        Args:
            failures: How many `failures` there were when it began.
        """
        if not self._begun.is_set() or failures != self.failures:
            return
        self._begun.clear()
        self._upkeep_told = False
        self._readiness.store_problem = None
        failed_s = self._clock.monotonic() - self._since_s
        self._telemetry.event(Level.INFO, events.STORE_WORKS_AGAIN, {"failed_for": events.seconds(failed_s)})

    async def begun(self) -> None:
        """Return as soon as the store does not work."""
        await self._begun.wait()

    def _failed(self, error: StoreError) -> None:
        self.failures += 1
        self._readiness.store_problem = refusal_of(error).message
        if not self._begun.is_set():
            self._begun.set()
            self._since_s = self._clock.monotonic()
            self._tell_from_s = -inf  # a beginning is always told
