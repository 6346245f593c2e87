"""A `GrpcListener` for tests, and doubles of what it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from vmafx.adapters.auth.disabled import EVERYONE
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.job_calls import JobCalls
from vmafx.adapters.grpc.listener import GrpcLimits, GrpcListener
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.server_credentials import ServerTls
from vmafx.domain.address import HostPort
from vmafx.domain.callers import Principal, RoleTable
from vmafx.domain.errors import TokenError
from vmafx.domain.job import JobId, JobStatus
from vmafx.ports.controller import Assignment
from vmafx.ports.jobs import CancelAnswer, JobView

FREE = HostPort(host="127.0.0.1", port=0)


class KnownTokens:
    """A `TokenVerifier` that was told what each token proves, or how it fails."""

    def __init__(self, known: Mapping[str | None, Principal | Exception]) -> None:
        self.known = known
        self.shown: list[str | None] = []

    async def verify(self, token: str | None) -> Principal:
        self.shown.append(token)
        proved = self.known.get(token, TokenError("unknown token"))
        if isinstance(proved, Exception):
            raise proved
        return proved


class JobsDouble:
    """`Jobs` that answer what they were told, and write down what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.timeouts_s: list[float] = []
        self.error: Exception | None = None
        self.job_id = JobId("job-1")
        self.view: JobView | None = None
        self.cancelled = CancelAnswer(ok=True, message="cancellation requested")
        self.views: tuple[JobView, ...] = ()
        self.changes: asyncio.Queue[JobView | Exception] = asyncio.Queue()
        self.iterations = 0
        self.sent = 0
        self.closed = asyncio.Event()

    async def submit(self, spec, *, idempotency_key=None, timeout_s):
        return self._answer(("submit", spec, idempotency_key), timeout_s, self.job_id)

    async def get(self, job_id, *, timeout_s):
        return self._answer(("get", job_id), timeout_s, self.view)

    async def cancel(self, job_id, *, timeout_s):
        return self._answer(("cancel", job_id), timeout_s, self.cancelled)

    async def listed(self, statuses=frozenset[JobStatus](), *, timeout_s):
        self._answer(("listed", statuses), timeout_s, None)
        try:
            for view in self.views:
                self.sent += 1
                yield view
        finally:
            self.closed.set()

    async def followed(self, statuses=frozenset[JobStatus]()):
        self.asked.append(("followed", statuses))
        try:
            if self.error is not None:
                raise self.error
            for view in self.views:
                yield view
            while True:
                change = await self.changes.get()
                if isinstance(change, Exception):
                    raise change
                yield change
        finally:
            self.closed.set()

    def _answer(self, asked, timeout_s, answer):
        self.asked.append(asked)
        self.timeouts_s.append(timeout_s)
        if self.error is not None:
            raise self.error
        return answer


class DeskDouble:
    """A `Desk` whose every call is one function of yours, and that keeps what was taken back."""

    def __init__(self, do=None) -> None:
        self.do = do
        self.timeouts_s: list[float] = []
        self.taken_back: list[Assignment] = []
        self.take_back_error: Exception | None = None
        self.take_back_may_end = asyncio.Event()
        self.take_back_may_end.set()
        self.take_back_begun = asyncio.Event()

    async def _any(self, *_arguments: object, timeout_s: float):
        self.timeouts_s.append(timeout_s)
        return await self.do()

    register = heartbeat = pull = report = _any

    async def take_back(self, session, assignment):
        self.take_back_begun.set()
        await self.take_back_may_end.wait()
        if self.take_back_error is not None:
            raise self.take_back_error
        self.taken_back.append(assignment)


class Endless:
    """Work that ends only by being cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def failing(error: Exception) -> DeskDouble:
    async def fail() -> None:
        raise error

    return DeskDouble(fail)


def listener_of(
    desk=None,
    jobs=None,
    *,
    address: HostPort = FREE,
    verifier=None,
    table: RoleTable | None = None,
    telemetry: RecordingTelemetry | None = None,
    limits: GrpcLimits | None = None,
    tls: ServerTls | None = None,
    ready: Callable[[], str | None] = lambda: None,
) -> GrpcListener:
    """A listener that serves what the controller serves; not started."""
    telemetry = telemetry or RecordingTelemetry()
    verifier = verifier or KnownTokens({None: EVERYONE})
    return GrpcListener(
        address,
        NodeCalls(lambda _caller: desk, telemetry=telemetry),
        JobCalls(lambda _caller: jobs, clock=SystemClock()),
        gate=Gate(verifier, table or RoleTable(CONTROLLER_ROLES), telemetry),
        ready=ready,
        telemetry=telemetry,
        clock=SystemClock(),
        limits=limits,
        tls=tls,
    )


@asynccontextmanager
async def listening(desk=None, jobs=None, *, grace_s: float = 0.0, **options) -> AsyncGenerator[str, None]:
    """Start such a listener for the body, and hand out its address as `host:port`."""
    listener = listener_of(desk, jobs, **options)
    await listener.start()
    try:
        yield str(listener.address)
    finally:
        await listener.stop(grace_s=grace_s)
