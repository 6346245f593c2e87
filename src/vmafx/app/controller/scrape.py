"""Scrape: what a scrape of the controller's metrics is answered (ADR 0025)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from vmafx.app.controller import events
from vmafx.app.controller.metrics import (
    JOBS_PENDING,
    JOBS_RUNNING,
    NODES_LIVE,
    OLDEST_JOB_AGE,
    READ_ERRORS,
    SOURCE_QUEUE,
)
from vmafx.domain.errors import StoreError
from vmafx.ports.clock import Clock
from vmafx.ports.jobstore import JobStore, QueueCounts
from vmafx.ports.metrics import Exposition, MetricsPage
from vmafx.ports.sessionstore import SessionStore
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["Scrape"]

_READ: Final = (JOBS_PENDING, JOBS_RUNNING, OLDEST_JOB_AGE, NODES_LIVE)


class Scrape:
    """Reads what is only known to the store when somebody asks for it.

    Args:
        jobs: Counts the jobs of all tenants, in one query; no job is read.
        sessions: Counts the live sessions.
        clock: Says how old the oldest job is.
        exposition: Shows what was counted.
        telemetry: Is told of reads that failed.
    """

    def __init__(
        self,
        jobs: JobStore,
        sessions: SessionStore,
        *,
        clock: Clock,
        exposition: Exposition,
        telemetry: Telemetry,
    ) -> None:
        self._jobs = jobs
        self._sessions = sessions
        self._clock = clock
        self._exposition = exposition
        self._telemetry = telemetry

    async def page(self) -> MetricsPage:
        """Return everything as it is now; what could not be read is absent."""
        now = self._clock.now()
        try:
            counts = await self._jobs.counts()
            nodes = await self._sessions.live_count(now=now)
        except StoreError as error:
            for family in _READ:
                self._exposition.replace(family, ())
            self._telemetry.count(READ_ERRORS, {"source": SOURCE_QUEUE})
            self._telemetry.event(Level.WARN, events.METRICS_READ_FAILED, error=error)
        else:
            self._show(counts, nodes, now)
        return await self._exposition.page()

    def _show(self, counts: tuple[QueueCounts, ...], nodes: int, now: datetime) -> None:
        pending = [({"tenant": each.tenant}, float(each.pending)) for each in counts]
        running = [({"tenant": each.tenant}, float(each.running)) for each in counts]
        ages = [
            ({"tenant": each.tenant}, max(0.0, (now - each.oldest_pending_at).total_seconds()))
            for each in counts
            if each.oldest_pending_at is not None
        ]
        self._exposition.replace(JOBS_PENDING, pending)
        self._exposition.replace(JOBS_RUNNING, running)
        self._exposition.replace(OLDEST_JOB_AGE, ages)
        self._exposition.replace(NODES_LIVE, [({}, float(nodes))])
