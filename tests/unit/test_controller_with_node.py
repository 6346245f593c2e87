"""A node at a desk of our own: what is out of reach for a while is not run twice (ADR 0012, 0025)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from tests.desks import DEV, Office, an_office, swept
from tests.node_world import World, make_world, score_of, spec
from vmafx.adapters.clock.steady import SteadyClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.app.controller import metrics
from vmafx.app.node.events import REGISTERED
from vmafx.domain.job import JobId, JobStatus, RequeueReason
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, Controller, HeartbeatAnswer, NodeIdentity, Registration

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")
LONG_S = 400.0


class Link:
    """A connection that can be cut: calls under way end with it, and later ones fail at once."""

    def __init__(self, far: Controller) -> None:
        self.far = far
        self._cut = asyncio.Event()

    def cut(self) -> None:
        self._cut.set()

    def mend(self, far: Controller | None = None) -> None:
        self.far = far or self.far
        self._cut = asyncio.Event()

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        return await self._carried(self.far.register(identity, capability, timeout_s=timeout_s))

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        return await self._carried(self.far.heartbeat(session, heartbeat, timeout_s=timeout_s))

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        return await self._carried(self.far.pull(session, capability, timeout_s=timeout_s))

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        await self._carried(self.far.report(session, job_id, report, timeout_s=timeout_s))

    async def _carried(self, call: Coroutine[object, object, T]) -> T:
        if self._cut.is_set():
            call.close()
            raise controller_error(StatusCode.UNAVAILABLE, "the link is cut")
        calling = asyncio.create_task(call, name="call")
        watching = asyncio.create_task(self._cut.wait(), name="watch the link")
        try:
            await asyncio.wait((calling, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            calling.cancel()
            await asyncio.wait((calling, watching))
        if calling.cancelled():
            raise controller_error(StatusCode.UNAVAILABLE, "the link is cut")
        return calling.result()


@dataclass(kw_only=True)
class Site:
    """A node, its link, and the office of the controller at the other end."""

    world: World
    link: Link
    office: Office
    runs: Counter[str] = field(default_factory=Counter)

    async def submit(self, name: str) -> JobId:
        return await self.office.submit(spec(name))

    async def until_ended(self, *jobs: JobId) -> None:
        while not all([(await self.office.status(job)).terminal for job in jobs]):
            await self.world.clock.sleep(1)

    def requeued(self, reason: RequeueReason) -> float:
        return self.office.value(metrics.JOBS_REQUEUED, reason=reason.value) or 0

    async def assert_each_ran_once(self, *jobs: JobId, attempts: int = 1) -> None:
        assert list(self.runs.values()) == [1] * len(jobs)
        for job in jobs:
            history = await self.office.store.history(DEV, job)
            assert history.job.status is JobStatus.COMPLETED
            assert history.job.result.score == score_of(history.job.spec.distorted)
            assert len(history.attempts) <= attempts
            assert history.job.lost_attempts <= attempts - 1
        assert self.world.watched.faults == []


@asynccontextmanager
async def a_site(clock: VirtualClock, *, slots: int = 3) -> AsyncIterator[Site]:
    office = an_office(SteadyClock(clock))
    link, runs = Link(office.desk()), Counter()

    def run(request) -> FakeRun:
        runs[request.job_id] += 1
        return FakeRun(score=score_of(request.distorted.name), takes_s=LONG_S)

    world = make_world(clock, controller=link, slots=slots, run=run)
    task = world.start()
    try:
        yield Site(world=world, link=link, office=office, runs=runs)
    finally:
        world.node.stop()
        await task


@pytest.mark.parametrize("phase_s", [0.0, 1.0, 4.5, 9.9])
@pytest.mark.parametrize("outage_s", [61.0, 90.0])
async def test_an_outage_of_a_minute_makes_no_job_run_twice(clock, phase_s, outage_s):
    async with a_site(clock, slots=2) as site, swept(site.office):
        jobs = [await site.submit("a"), await site.submit("b")]
        await clock.sleep(30 + phase_s)
        site.link.cut()
        await clock.sleep(outage_s)
        site.link.mend()
        assert len(site.world.telemetry.events_of(REGISTERED)) == 1
        await site.until_ended(*jobs)
        await site.assert_each_ran_once(*jobs)
        assert len(site.world.telemetry.events_of(REGISTERED)) == 2


@pytest.mark.parametrize("slots", [2, 3, 5])
async def test_a_node_takes_its_lost_jobs_over_before_it_pulls(clock, slots):
    """With a slot to spare it could pull its own lost job before its heartbeat tells that it runs."""
    async with a_site(clock, slots=slots) as site, swept(site.office):
        jobs = [await site.submit("a"), await site.submit("b")]
        await clock.sleep(30)
        site.link.cut()
        await clock.sleep(90)
        assert [await site.office.status(job) for job in jobs] == [JobStatus.PENDING] * 2
        assert site.requeued(RequeueReason.NODE_LOST) == 2
        site.link.mend()
        await site.until_ended(*jobs)
        await site.assert_each_ran_once(*jobs)


async def test_a_controller_that_was_down_for_two_minutes_makes_no_job_run_twice(clock):
    async with a_site(clock) as site:
        async with swept(site.office):
            jobs = [await site.submit("a"), await site.submit("b")]
            await clock.sleep(30)
            site.link.cut()
        await clock.sleep(120)
        again = await restarted(site)
        async with swept(again):
            site.link.mend(again.desk())
            await site.until_ended(*jobs)
            await site.assert_each_ran_once(*jobs)
            assert site.requeued(RequeueReason.NODE_LOST) == 0


async def test_a_job_from_before_a_restart_does_not_wait_for_a_clock_that_went_back(clock):
    async with a_site(clock) as site:
        site.link.cut()
        job = await site.submit("a")
        clock.step_wall(-3600.0)
        again = await restarted(site)
        began_s = clock.monotonic()
        async with swept(again):
            site.link.mend(again.desk())
            await site.until_ended(job)
            await site.assert_each_ran_once(job)
        assert clock.monotonic() - began_s < LONG_S + 60


async def restarted(site: Site) -> Office:
    """The site's office on the same store, with a clock that was read anew."""
    again = an_office(SteadyClock(site.world.clock))
    again.desks.attempts = again.desks.sessions = again.store = site.office.store
    await resume(again)
    site.office = again
    return again


async def resume(office: Office) -> None:
    now = office.clock.now()
    place = await office.store.resume(now=now)
    while place is not None:
        place = await office.store.resume(now=now, after=place)


@pytest.mark.parametrize("step_s", [12 * 3600.0, -3600.0], ids=["twelve hours ahead", "an hour back"])
async def test_a_step_of_the_clock_loses_no_lease(clock, step_s):
    async with a_site(clock) as site, swept(site.office):
        job = await site.submit("a")
        await clock.sleep(30)
        clock.step_wall(step_s)
        await site.until_ended(job)
        await site.assert_each_ran_once(job)
        assert len(site.world.telemetry.events_of(REGISTERED)) == 1


@pytest.mark.parametrize("step_s", [12 * 3600.0, -3600.0], ids=["twelve hours ahead", "an hour back"])
async def test_a_step_of_the_clock_makes_no_lease_immortal(clock, step_s):
    async with a_site(clock) as site, swept(site.office):
        job = await site.submit("a")
        await clock.sleep(30)
        clock.step_wall(step_s)
        site.link.cut()
        await clock.sleep(60 + site.office.policy.sweep_interval_s)
        assert await site.office.status(job) is JobStatus.PENDING
        assert site.requeued(RequeueReason.NODE_LOST) == 1
        site.link.mend()
        await site.until_ended(job)


async def test_a_job_starts_as_soon_as_it_is_submitted(clock):
    async with a_site(clock, slots=1) as site, swept(site.office):
        await clock.sleep(23)
        await site.submit("a")
        await clock.sleep(0)
        await clock.sleep(0.001)
        assert sum(site.runs.values()) == 1
