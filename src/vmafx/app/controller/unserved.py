"""Unserved: jobs that wait for a backend which no live node of their tenant runs (ADR 0025).

Such a job waits for ever unless somebody starts a node, and nobody sees that by looking at the job. Each pair
of tenant and backend is told once, and again only after it was served, or nothing waited for it, in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from vmafx.app.controller import events
from vmafx.domain.job import Job, TenantId
from vmafx.domain.scoring import Backend
from vmafx.ports.clock import Clock
from vmafx.ports.jobstore import JobStore, Waiting
from vmafx.ports.sessionstore import SessionStore
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["LOOK_INTERVAL_S", "Unserved"]

LOOK_INTERVAL_S: Final = 60.0
"""How often it is looked at most when nothing new is asked for, in seconds."""

_Asked: TypeAlias = tuple[TenantId, Backend]


class Unserved:
    """Warns of jobs that no node will take.

    Args:
        jobs: Knows how many jobs wait for which backend.
        sessions: Knows the live nodes, and what they said at registration that they run.
        clock: Says when to look again.
        telemetry: Is told.
    """

    def __init__(self, jobs: JobStore, sessions: SessionStore, *, clock: Clock, telemetry: Telemetry) -> None:
        self._jobs = jobs
        self._sessions = sessions
        self._clock = clock
        self._telemetry = telemetry
        self._known: set[_Asked] = set()  # that wait, as far as was seen
        self._warned: set[_Asked] = set()
        self._due_s = clock.monotonic()

    def asked(self, job: Job) -> None:
        """Note what a new job asks for; the next look is due at once when that is new."""
        if job.spec.backend is not None and (job.tenant, job.spec.backend) not in self._known:
            self._due_s = self._clock.monotonic()

    async def look(self) -> None:
        """Look whether each job that waits for a backend has a node, if it is time for that.

        Raises:
            StoreError: The store failed; the look is due as before.
        """
        if self._clock.monotonic() < self._due_s:
            return
        self._due_s = self._clock.monotonic() + LOOK_INTERVAL_S
        try:
            waiting = await self._jobs.waiting()
            unserved = await self._without_node(waiting)
        except BaseException:
            self._due_s = self._clock.monotonic()
            raise
        self._known = {(each.tenant, each.backend) for each in waiting}
        for each in unserved:
            if (each.tenant, each.backend) not in self._warned:
                self._warn(each)
        self._warned = {(each.tenant, each.backend) for each in unserved}

    async def _without_node(self, waiting: Iterable[Waiting]) -> list[Waiting]:
        served: dict[TenantId, frozenset[Backend]] = {}
        for tenant in dict.fromkeys(each.tenant for each in waiting):
            live = await self._sessions.live(tenant, now=self._clock.now())
            served[tenant] = frozenset().union(*(session.capability.backends for session in live))
        return [each for each in waiting if each.backend not in served[each.tenant]]

    def _warn(self, waiting: Waiting) -> None:
        fields = {
            "tenant": events.shown_id(waiting.tenant),
            "backend": waiting.backend.value,
            "jobs": waiting.pending,
        }
        self._telemetry.event(Level.WARN, events.BACKEND_UNSERVED, fields)
