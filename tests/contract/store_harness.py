"""What the contract suite of the stores needs: the makers of those it is run on, and a desk to work at.

To run the suite on another store, add its maker to `MAKERS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from hashlib import sha256
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from tests.histories import ACME, RIVAL, a_job, a_session, after
from vmafx.adapters.store.memory import MemoryStore
from vmafx.adapters.store.sqlite import SqliteStore
from vmafx.domain.attempt import Attempt, JobHistory, violations
from vmafx.domain.job import Job, JobId, JobResult, JobStatus, SessionId, TenantId
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.nodesession import NodeSession, SessionKey
from vmafx.domain.report import Report, ReportContent
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.ports.jobstore import (
    AttemptStore,
    Change,
    Claim,
    HeartbeatAnswer,
    JobStore,
    ReportAnswer,
    StoreUpkeep,
    Submission,
    SweepAnswer,
)
from vmafx.ports.sessionstore import SessionStore

POLICY: Final = LeasePolicy(lease_ttl_s=60.0, session_ttl_s=90.0, backoff_base_s=5.0, backoff_max_s=300.0)
"""Sessions outlive leases, so that each can run out alone."""
TENANTS: Final = (ACME, RIVAL)
NOBODYS: Final = (
    "no-such-job", "", " ", "job-1 ", "JOB-1", "job-1\x00", "%", "job_1", "j*", "' OR 1=1 --", "ö" * 5000,
    "\ud800",
)  # fmt: skip
"""Ids that name nothing, some of which a careless query would take for "job-1"."""


class Trait(Enum):
    """Where stores may differ, and why."""

    WAITS = "a call waits for something else than the event loop, so its caller can be cancelled meanwhile"


@dataclass(frozen=True, kw_only=True)
class Stores:
    """One store by its ports, empty, with the policy it was made with."""

    jobs: JobStore
    attempts: AttemptStore
    upkeep: StoreUpkeep
    sessions: SessionStore
    traits: frozenset[Trait]


Maker: TypeAlias = Callable[[LeasePolicy], AbstractAsyncContextManager[Stores]]


@asynccontextmanager
async def memory(policy: LeasePolicy) -> AsyncIterator[Stores]:
    store = MemoryStore(policy)
    yield Stores(jobs=store, attempts=store, upkeep=store, sessions=store, traits=frozenset())


@asynccontextmanager
async def sqlite(policy: LeasePolicy) -> AsyncIterator[Stores]:
    with TemporaryDirectory(prefix="vmafx-store-") as folder:
        async with SqliteStore.open(f"{folder}/jobs.db", policy) as store:
            yield Stores(
                jobs=store, attempts=store, upkeep=store, sessions=store, traits=frozenset({Trait.WAITS})
            )


MAKERS: Final[Mapping[str, Maker]] = {"memory": memory, "sqlite": sqlite}


def digest(name: str) -> bytes:
    """The digest of the secret of the session of that name."""
    return sha256(f"secret of {name}".encode()).digest()


def key_of(session: NodeSession) -> SessionKey:
    return SessionKey(tenant=session.tenant, session=session.id, token_sha256=digest(session.id))


class Desk:
    """A store in the hands of everybody: each method is one call, made at `now_s` seconds after the start."""

    def __init__(self, stores: Stores, policy: LeasePolicy = POLICY) -> None:
        self.stores = stores
        self.jobs, self.attempts = stores.jobs, stores.attempts
        self.upkeep, self.sessions = stores.upkeep, stores.sessions
        self.policy = policy
        self.now_s = 0.0

    @property
    def now(self) -> datetime:
        return after(self.now_s)

    # ------------------------------------------------------------ clients

    async def submit(
        self,
        job_id: str = "job-1",
        *,
        tenant: TenantId = ACME,
        backend: Backend | None = None,
        pending_max: int | None = None,
        **changes: object,
    ) -> Submission:
        job = a_job(job_id, at_s=self.now_s, backend=backend, tenant=tenant, **changes)
        return await self.jobs.submit(job, pending_max=pending_max)

    async def cancel(self, job_id: str = "job-1", *, tenant: TenantId = ACME) -> Change:
        return await self.jobs.cancel(tenant, JobId(job_id), now=self.now)

    async def job(self, job_id: str = "job-1", *, tenant: TenantId = ACME) -> Job:
        return await self.jobs.get(tenant, JobId(job_id))

    async def history(self, job_id: str = "job-1", *, tenant: TenantId = ACME) -> JobHistory:
        return await self.jobs.history(tenant, JobId(job_id))

    async def latest(self, job_id: str = "job-1") -> Attempt:
        latest = (await self.history(job_id)).latest
        assert latest is not None
        return latest

    async def status(self, job_id: str = "job-1") -> JobStatus:
        return (await self.job(job_id)).status

    # ------------------------------------------------------------ nodes

    async def register(
        self,
        name: str = "s1",
        *,
        node: str = "node-a",
        tenant: TenantId = ACME,
        instance: str | None = None,
    ) -> SessionKey:
        session = a_session(
            name,
            node=node,
            at_s=self.now_s,
            tenant=tenant,
            instance=instance,
            live_s=self.policy.session_ttl_s,
        )
        return key_of(await self.sessions.register(session, token_sha256=digest(name)))

    async def pull(
        self, key: SessionKey, *backends: Backend, deadline_s: float | None = None
    ) -> Claim | None:
        deadline = None if deadline_s is None else after(deadline_s)
        return await self.attempts.claim(key, frozenset(backends), now=self.now, pull_deadline_at=deadline)

    async def claim(self, key: SessionKey, *backends: Backend, deadline_s: float | None = None) -> Claim:
        """Pull, and get something."""
        claim = await self.pull(key, *backends, deadline_s=deadline_s)
        assert claim is not None
        return claim

    async def beat(self, key: SessionKey, *listed: str, running: int | None = None) -> HeartbeatAnswer:
        heartbeat = Heartbeat(
            jobs_running=len(listed) if running is None else running,
            listed=tuple(JobId(job_id) for job_id in listed),
        )
        return await self.attempts.heartbeat(key, heartbeat, now=self.now)

    async def report(
        self, key: SessionKey, content: ReportContent, job_id: str = "job-1", *, attempt: int | None = None
    ) -> ReportAnswer:
        report = Report(content=content, attempt=attempt)
        return await self.attempts.report(key, JobId(job_id), report, now=self.now)

    async def succeed(
        self, key: SessionKey, job_id: str = "job-1", *, score: float = 95.0, attempt: int | None = None
    ) -> ReportAnswer:
        result = JobResult(score=score, features={"vmaf": score})
        return await self.report(key, result, job_id, attempt=attempt)

    async def fail(
        self,
        key: SessionKey,
        job_id: str = "job-1",
        *,
        error: str = "no such clip",
        retry: Retry = Retry.NO,
        attempt: int | None = None,
    ) -> ReportAnswer:
        return await self.report(key, Failure(error=error, retry=retry), job_id, attempt=attempt)

    async def release(self, claim: Claim) -> Change:
        return await self.attempts.release(claim.key, now=self.now)

    async def undo(self, claim: Claim) -> Change:
        return await self.attempts.undo(claim.key, now=self.now)

    # ------------------------------------------------------------ upkeep

    async def sweep(self) -> SweepAnswer:
        return await self.upkeep.sweep(now=self.now)

    async def resume(self) -> int:
        """Resume to the end; returns in how many steps."""
        steps, place = 1, await self.upkeep.resume(now=self.now)
        while place is not None:
            steps, place = steps + 1, await self.upkeep.resume(now=self.now, after=place)
        return steps

    async def live(self, tenant: TenantId = ACME) -> list[SessionId]:
        return [session.id for session in await self.sessions.live(tenant, now=self.now)]

    async def listed(self, tenant: TenantId = ACME, *statuses: JobStatus) -> list[JobId]:
        return [job.id for job in await self.jobs.page(tenant, statuses=frozenset(statuses))]

    async def everything(self) -> list[JobHistory]:
        """Every job of both tenants with its attempts."""
        return [
            await self.jobs.history(tenant, job.id)
            for tenant in TENANTS
            for job in await self.jobs.page(tenant)
        ]

    async def check(self) -> None:
        """Nothing that is stored is impossible, and each view of it agrees with the others."""
        histories = await self.everything()
        assert [claim for history in histories for claim in violations(history)] == []
        for history in histories:
            assert await self.jobs.get(history.job.tenant, history.job.id) == history.job
        counted = {(counts.tenant, counts.pending, counts.running) for counts in await self.jobs.counts()}
        assert counted == {
            (tenant, pending, running)
            for tenant in TENANTS
            if (pending := _how_many(histories, tenant, JobStatus.PENDING))
            + (running := _how_many(histories, tenant, JobStatus.RUNNING))
        }


def _how_many(histories: list[JobHistory], tenant: TenantId, status: JobStatus) -> int:
    return sum(1 for it in histories if it.job.tenant == tenant and it.job.status is status)
