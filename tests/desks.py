"""A controller's desks over a store in memory, on virtual time: what tests of the controller start from."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.store.memory import MemoryStore
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.desk import Desks
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.outage import Outage
from vmafx.app.controller.policy import ControllerPolicy
from vmafx.app.controller.readiness import Readiness
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.job import Job, JobId, JobSpec, JobStatus, NodeName, TenantId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId, SessionKey
from vmafx.domain.report import Report, ReportContent
from vmafx.domain.roots import RootTemplates
from vmafx.domain.scoring import Backend
from vmafx.domain.session_state import Session
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Assignment, Desk, HeartbeatAnswer, NodeIdentity
from vmafx.ports.jobstore import Claim

DEV = TenantId("dev")
RIVAL = TenantId("rival")
ROOTS = ("/clips", "https://clips.invalid/")
SPEC = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m")
POLICY = ControllerPolicy(roots=RootTemplates.parse(ROOTS))
CPU = frozenset({Backend.CPU})
TIMEOUT_S = 10.0
AT_ONCE_S = 1.0  # too short for a pull to wait


class WatchedStore(MemoryStore):
    """A `MemoryStore` that counts what is asked of it, may take its time, and fails when it is told to."""

    def __init__(self, policy: ControllerPolicy) -> None:
        super().__init__(policy.lease)
        self.claims = 0
        self.failing: Exception | None = None
        self.before: Callable[[], object] = lambda: None
        self.gate: asyncio.Event | None = None  # what answers wait for

    async def claim(
        self,
        key: SessionKey,
        backends: frozenset[Backend],
        *,
        now: datetime,
        pull_deadline_at: datetime | None = None,
    ) -> Claim | None:
        self.claims += 1
        self._fail()
        claim = await super().claim(key, backends, now=now, pull_deadline_at=pull_deadline_at)
        await self._held()
        return claim

    async def report(self, key: SessionKey, job_id: JobId, report: Report, *, now: datetime):
        self._fail()
        answer = await super().report(key, job_id, report, now=now)
        await self._held()
        return answer

    async def heartbeat(self, key: SessionKey, heartbeat: Heartbeat, *, now: datetime):
        self._fail()
        answer = await super().heartbeat(key, heartbeat, now=now)
        await self._held()
        return answer

    async def register(self, session, *, token_sha256: bytes):
        self._fail()
        return await super().register(session, token_sha256=token_sha256)

    async def undo(self, key, *, now: datetime):
        self._fail()
        return await super().undo(key, now=now)

    async def counts(self):
        self._fail()
        return await super().counts()

    def _fail(self) -> None:
        if self.failing is not None:
            raise self.failing

    async def _held(self) -> None:
        if self.gate is not None:
            await self.gate.wait()


@dataclass(kw_only=True)
class Office:
    """The desks of a controller, and a hand on its store."""

    clock: Clock
    store: WatchedStore
    telemetry: RecordingTelemetry
    waits: PullWaits
    feed: JobFeed
    aftermath: Aftermath
    desks: Desks
    policy: ControllerPolicy
    numbers: itertools.count[int]

    def desk(self, tenant: TenantId = DEV) -> Desk:
        return self.desks.of(tenant)

    async def submit(self, spec: JobSpec = SPEC, *, tenant: TenantId = DEV) -> JobId:
        job = Job.submitted(
            job_id=JobId(f"job-{next(self.numbers):04}"), tenant=tenant, spec=spec, at=self.clock.now()
        )
        self.aftermath.submitted(await self.store.submit(job))
        return job.id

    async def cancel(self, job_id: JobId, tenant: TenantId = DEV) -> None:
        self.aftermath.changed(await self.store.cancel(tenant, job_id, now=self.clock.now()))

    async def sweep(self) -> None:
        self.aftermath.swept(await self.store.sweep(now=self.clock.now()))

    async def keep_sweeping(self) -> None:
        while True:
            await self.sweep()
            await self.clock.sleep(self.policy.sweep_interval_s)

    async def job(self, job_id: JobId, tenant: TenantId = DEV) -> Job:
        return await self.store.get(tenant, job_id)

    async def status(self, job_id: JobId) -> JobStatus:
        return (await self.job(job_id)).status

    def value(self, family: str, **labels: str) -> float | None:
        return self.telemetry.value(family, labels)


def an_office(clock: Clock, policy: ControllerPolicy = POLICY) -> Office:
    telemetry, waits, feed = RecordingTelemetry(), PullWaits(clock), JobFeed()
    store, aftermath = WatchedStore(policy), Aftermath(telemetry, waits, feed)
    ids = itertools.count(1)
    desks = Desks(
        store,
        store,
        policy=policy,
        clock=clock,
        telemetry=telemetry,
        outage=Outage(Readiness(), clock=clock, telemetry=telemetry),
        waits=waits,
        aftermath=aftermath,
        new_id=lambda: f"session-{next(ids)}",
        new_secret=lambda length: sha256(b"%d" % next(ids)).digest()[:length],
    )
    return Office(
        clock=clock,
        store=store,
        telemetry=telemetry,
        waits=waits,
        feed=feed,
        aftermath=aftermath,
        desks=desks,
        policy=policy,
        numbers=itertools.count(1),
    )


@asynccontextmanager
async def swept(office: Office) -> AsyncIterator[Office]:
    """An office in which attempts and sessions end in time."""
    task = asyncio.create_task(office.keep_sweeping(), name="sweeps")
    try:
        yield office
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Caller:
    """A node with one session at a time, and no mind of its own."""

    def __init__(self, desk: Desk, name: str = "node-a", instance: str | None = "process-1") -> None:
        self.desk = desk
        told = None if instance is None else InstanceId(instance)
        self.identity = NodeIdentity(name=NodeName(name), instance=told)
        self.capability = Capability(backends=CPU, gpu_vendor="cpu", concurrency=2)
        self.session = Session(generation=0, node_id="none", session_token="none")  # type: ignore[arg-type]

    async def register(self) -> Caller:
        answer = await self.desk.register(self.identity, self.capability, timeout_s=TIMEOUT_S)
        self.session = Session(
            generation=self.session.generation + 1,
            node_id=answer.node_id,
            session_token=answer.session_token,
        )
        return self

    async def beat(self, *jobs: JobId) -> HeartbeatAnswer:
        heartbeat = Heartbeat(jobs_running=len(jobs), listed=jobs)
        return await self.desk.heartbeat(self.session, heartbeat, timeout_s=TIMEOUT_S)

    async def pull(self, *backends: Backend, timeout_s: float = AT_ONCE_S) -> Assignment | None:
        capability = replace(self.capability, backends=frozenset(backends or CPU))
        return await self.desk.pull(self.session, capability, timeout_s=timeout_s)

    async def pull_job(self) -> Assignment:
        assignment = await self.pull()
        assert assignment is not None
        return assignment

    async def report(self, assignment: Assignment, content: ReportContent) -> None:
        report = Report(content=content, attempt=assignment.attempt)
        await self.desk.report(self.session, assignment.job_id, report, timeout_s=TIMEOUT_S)


async def a_caller(office: Office, name: str = "node-a", *, tenant: TenantId = DEV) -> Caller:
    return await Caller(office.desk(tenant), name, f"{name}-process").register()


async def move(clock: VirtualClock, seconds: float, office: Office) -> None:
    """Let time pass by hand, with a sweep at each second."""
    whole, rest = divmod(seconds, 1)
    for _ in range(int(whole)):
        await clock.advance(1)
        await office.sweep()
    await clock.advance(rest)
    await office.sweep()
