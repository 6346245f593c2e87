"""A connection between a node and a `FakeController` at which every call under way is known by its number."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import grpc
import grpc.aio

from vmafx.adapters.auth.disabled import EveryoneVerifier
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.client import GrpcController
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.services import Services
from vmafx.domain.callers import RoleTable
from vmafx.domain.retry import Call

HANG_GUARD_S = 30.0
MARGIN_S = 600.0  # real deadlines are not what ends a call here: the controller's own, on virtual time, are
CALL_KEY = "x-call"
LOOPBACK = "127.0.0.1"


class Traffic:
    """The calls under way: at the node's port, on the client's side and on the server's."""

    def __init__(self) -> None:
        self.port_calls = 0
        self.sent: dict[str, float] = {}
        self.served: set[str] = set()
        self.upheavals = 0
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    @contextmanager
    def port_call(self) -> Iterator[None]:
        self.port_calls += 1
        try:
            yield
        finally:
            self.port_calls -= 1
            self._changed.set()

    @contextmanager
    def upheaval(self) -> Iterator[None]:
        """The connection or its end is being replaced."""
        self.upheavals += 1
        try:
            yield
        finally:
            self.upheavals -= 1
            self._changed.set()

    def send(self, timeout_s: float) -> str:
        number = str(next(self._numbers))
        self.sent[number] = timeout_s
        self._changed.set()
        return number

    def returned(self, number: str) -> None:
        self.sent.pop(number, None)
        self._changed.set()

    @contextmanager
    def serving(self, number: str) -> Iterator[None]:
        self.served.add(number)
        self._changed.set()
        try:
            yield
        finally:
            self.served.discard(number)
            self._changed.set()

    async def at_rest(self, clock: VirtualClock) -> None:
        async with asyncio.timeout(HANG_GUARD_S):
            while True:
                await clock.settle()
                if (
                    not self.upheavals
                    and self.port_calls == len(self.sent)
                    and self.sent.keys() == self.served
                ):
                    return
                self._changed.clear()
                await self._changed.wait()


_TIMEOUT_S: ContextVar[float] = ContextVar("timeout of the call, as its node meant it")
_NUMBER: ContextVar[str] = ContextVar("number of the call at its server")


class NodeEnd:
    """The node's `Controller`: its calls are counted, and have more real time than they ask for."""

    def __init__(self, inner: GrpcController, traffic: Traffic) -> None:
        self._inner = inner
        self._traffic = traffic

    async def _call(self, method, *arguments, timeout_s):
        with self._traffic.port_call():
            _TIMEOUT_S.set(timeout_s)
            return await method(*arguments, timeout_s=timeout_s + MARGIN_S)

    async def register(self, identity, capability, *, timeout_s):
        return await self._call(self._inner.register, identity, capability, timeout_s=timeout_s)

    async def heartbeat(self, session, heartbeat, *, timeout_s):
        return await self._call(self._inner.heartbeat, session, heartbeat, timeout_s=timeout_s)

    async def pull(self, session, capability, *, timeout_s):
        return await self._call(self._inner.pull, session, capability, timeout_s=timeout_s)

    async def report(self, session, job_id, report, *, timeout_s):
        return await self._call(self._inner.report, session, job_id, report, timeout_s=timeout_s)


class NumberedChannel:
    """A channel that gives every call its number."""

    def __init__(self, inner: grpc.aio.Channel, traffic: Traffic) -> None:
        self.inner = inner
        self._traffic = traffic
        self.get_state = inner.get_state
        self.close = inner.close

    def unary_unary(self, path: str) -> Callable[..., Any]:
        method = self.inner.unary_unary(path)

        def call(content: bytes, *, timeout: float, metadata: tuple[tuple[str, str], ...]) -> Any:
            number = self._traffic.send(_TIMEOUT_S.get())
            rpc = method(content, timeout=timeout, metadata=(*metadata, (CALL_KEY, number)))
            rpc.add_done_callback(lambda _: self._traffic.returned(number))
            return rpc

        return call

    async def connected(self) -> None:
        async with asyncio.timeout(HANG_GUARD_S):
            while (state := self.inner.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                await self.inner.wait_for_state_change(state)


class ServerEnd:
    """The controller behind a server: a call is known to be there, and has the time that its node meant."""

    def __init__(self, inner: FakeController, traffic: Traffic) -> None:
        self._inner = inner
        self._traffic = traffic

    async def _call(self, method, *arguments):
        number = _NUMBER.get()
        with self._traffic.serving(number):
            return await method(*arguments, timeout_s=self._traffic.sent.get(number, 0.0))

    async def register(self, identity, capability, *, timeout_s):
        return await self._call(self._inner.register, identity, capability)

    async def heartbeat(self, session, heartbeat, *, timeout_s):
        return await self._call(self._inner.heartbeat, session, heartbeat)

    async def pull(self, session, capability, *, timeout_s):
        return await self._call(self._inner.pull, session, capability)

    async def report(self, session, job_id, report, *, timeout_s):
        await self._call(self._inner.report, session, job_id, report)

    async def take_back(self, session, assignment):
        await self._inner.take_back(session, assignment)


class Line(grpc.aio.ServerInterceptor):
    """A server that can be killed and started again on its port; it knows calls by their numbers.

    Attributes:
        tokens: What was shown with each call; empty when nothing was.
        token: What must be shown; None lets everybody in.
    """

    def __init__(self, fake: FakeController, traffic: Traffic) -> None:
        self.tokens: list[str] = []
        self.token: str | None = None
        self.port = 0
        self.telemetry = RecordingTelemetry()
        self._served = ServerEnd(fake, traffic)
        self._server: grpc.aio.Server | None = None
        self._garbage: defaultdict[str, list[bytes]] = defaultdict(list)

    async def start(self) -> None:
        self._server = grpc.aio.server(interceptors=[self], options=[("grpc.so_reuseport", 0)])
        calls = NodeCalls(lambda _caller: self._served, telemetry=self.telemetry)
        gate = Gate(EveryoneVerifier(), RoleTable(CONTROLLER_ROLES), self.telemetry)
        self._server.add_generic_rpc_handlers((Services(gate, calls, telemetry=self.telemetry),))
        self.port = self._server.add_insecure_port(f"{LOOPBACK}:{self.port}")
        await self._server.start()

    async def kill(self) -> None:
        assert self._server is not None
        await self._server.stop(None)

    def garble(self, call: Call, *answers: bytes) -> None:
        """Answer the next calls of that kind with these bytes."""
        self._garbage[call.value].extend(answers)

    async def intercept_service(self, continuation, handler_call_details):
        method = handler_call_details.method.rpartition("/")[2]
        metadata = dict(handler_call_details.invocation_metadata)
        handler = await continuation(handler_call_details)

        async def answer(content, context):
            _NUMBER.set(metadata[CALL_KEY])
            self.tokens.append(metadata.get("authorization", "").removeprefix("Bearer "))
            if self.token is not None and self.tokens[-1] != self.token:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "invalid or missing token")
            answered = await handler.unary_unary(content, context)
            if self._garbage[method]:
                return self._garbage[method].pop(0)
            return _without_empty_block(answered) if method == Call.PULL.value else answered

        return grpc.unary_unary_rpc_method_handler(answer)


def _without_empty_block(answered: bytes) -> bytes:
    """A job that asks for nothing has no scoring block at all."""
    response = pb.PullWorkResponse.FromString(answered)
    if response.job.HasField("scoring") and response.job.scoring == pb.ScoringParams():
        response.job.ClearField("scoring")
    return response.SerializeToString()
