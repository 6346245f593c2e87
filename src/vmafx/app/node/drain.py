"""The order of stopping: jobs may end, are interrupted, are reported; the session ends last (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from vmafx.app.node import events
from vmafx.app.node.events import EventLog
from vmafx.app.node.jobs import HeldJobs
from vmafx.app.node.outcome import CancelCause
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Level

__all__ = ["drain"]


async def drain(  # noqa: PLR0913 -- one argument per thing that it works with
    slots: Collection[asyncio.Task[None]],
    jobs: HeldJobs,
    *,
    deadline_s: float,
    reserve_s: float,
    clock: Clock,
    log: EventLog,
) -> None:
    """Return when the slots have ended; nothing is pulled any more.

    Jobs may end and report until the deadline. Those that still run then are interrupted, and their reports
    have the reserve to arrive. What is not delivered by then is given up.

    Args:
        slots: The tasks of the slots.
        jobs: The jobs held.
        deadline_s: Until when jobs may run, in monotonic seconds.
        reserve_s: How long the reports of interrupted jobs may take after that, in seconds.
        clock: What is waited with.
        log: Hears of events.
    """
    await _ended_by(deadline_s, slots, clock)
    if jobs.running:
        log.tell(Level.WARN, events.DEADLINE_REACHED, {"running": jobs.running})
        for job in jobs:
            job.stop(CancelCause.SHUTDOWN)
    await _ended_by(deadline_s + reserve_s, slots, clock)
    left = [slot for slot in slots if not slot.done()]
    if left:
        held = len(tuple(jobs))
        if held:
            log.tell(Level.WARN, events.DEADLINE_REPORTS, {"undelivered": held})
        for slot in left:
            slot.cancel("the stop took too long")
        await asyncio.wait(left)


async def _ended_by(at_s: float, slots: Collection[asyncio.Task[None]], clock: Clock) -> None:
    with suppress(TimeoutError):
        async with clock.timeout(at_s - clock.monotonic()):
            await asyncio.wait(slots)
