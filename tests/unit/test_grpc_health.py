"""The health service says what the program says of itself, and those who watch hear of changes (ADR 0026)."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from grpc_health.v1 import health_pb2

from vmafx.adapters.auth.disabled import EVERYONE
from vmafx.adapters.grpc.calls import Incoming, Stream, Unary
from vmafx.adapters.grpc.health import HEALTH_SERVICE, LOOK_S, Health
from vmafx.adapters.grpc.waits import StoppingError
from vmafx.domain.errors import ControllerError

pytestmark = pytest.mark.virtual_time
SERVED = "a.Service"
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Watcher:
    """A caller, with the statuses that it was sent."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def write(self, content: bytes) -> None:
        self.seen.append(health_pb2.HealthCheckResponse.FromString(content).status)


class Program:
    """A program and its health service."""

    def __init__(self, clock) -> None:
        self.problem: str | None = None
        self.health = Health([SERVED], ready=lambda: self.problem, clock=clock)
        self.watcher = Watcher()

    def call(self, service: str) -> Incoming:
        content = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        return Incoming(caller=EVERYONE, content=content, metadata=(), context=cast("object", self.watcher))

    async def check(self, service: str = "") -> int:
        method = self.health.methods()[f"/{HEALTH_SERVICE}/Check"]
        assert isinstance(method, Unary)
        return cast("health_pb2.HealthCheckResponse", await method.work(self.call(service))).status

    def watch(self, service: str = "") -> asyncio.Task[None]:
        method = self.health.methods()[f"/{HEALTH_SERVICE}/Watch"]
        assert isinstance(method, Stream)
        return asyncio.create_task(method.work(self.call(service)), name="watch")


@pytest.fixture
def program(clock) -> Program:
    return Program(clock)


@pytest.mark.parametrize("service", ["", SERVED])
async def test_a_program_that_is_not_ready_does_not_serve(program, service):
    assert await program.check(service) == SERVING
    program.problem = "the store fails"
    assert await program.check(service) == NOT_SERVING
    program.problem = None
    assert await program.check(service) == SERVING
    program.health.end_waits()
    assert await program.check(service) == NOT_SERVING


async def test_a_service_that_nobody_knows_is_not_found(program):
    with pytest.raises(ControllerError, match="NOT_FOUND: unknown service"):
        await program.check("nobody")


async def test_whoever_watches_hears_of_each_change_once(clock, program):
    task = program.watch(SERVED)
    await clock.sleep(10 * LOOK_S)
    assert program.watcher.seen == [SERVING]
    program.problem = "the store fails"
    await clock.sleep(10 * LOOK_S)
    assert program.watcher.seen == [SERVING, NOT_SERVING]
    program.problem = None
    await clock.sleep(LOOK_S)
    assert program.watcher.seen == [SERVING, NOT_SERVING, SERVING]
    task.cancel()


@pytest.mark.parametrize(
    ("problem", "seen"), [(None, [SERVING, NOT_SERVING]), ("the store fails", [NOT_SERVING])]
)
async def test_a_stop_is_told_at_once_and_ends_the_watch(clock, program, problem, seen):
    program.problem = problem
    task = program.watch()
    await clock.sleep(1.5 * LOOK_S)
    program.health.end_waits()
    with pytest.raises(StoppingError):
        await task
    assert clock.monotonic() == 1.5 * LOOK_S
    assert program.watcher.seen == seen


async def test_whoever_watches_what_is_unknown_hears_that_once(clock, program):
    task = program.watch("nobody")
    program.problem = "the store fails"
    await clock.sleep(5 * LOOK_S)
    program.health.end_waits()
    with pytest.raises(StoppingError):
        await task
    assert program.watcher.seen == [UNKNOWN]
