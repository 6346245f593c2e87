"""An HttpListener to be tried: plain sockets as its clients, and routes that wait, fail and stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.http.limits import HttpLimits
from vmafx.adapters.http.listener import HttpListener
from vmafx.domain.address import HostPort
from vmafx.ports.metrics import MetricsPage
from vmafx.ports.telemetry import Level

HANG_S = 20.0
LIMITS = HttpLimits(header_bytes_max=2000, body_bytes_max=5000)
HERE = HostPort(host="127.0.0.1", port=0)
PAGE = MetricsPage(content=b"x_total 1\n", content_type="text/plain; version=0.0.4; charset=utf-8")
GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: here\r\n"


@dataclass(frozen=True)
class Answer:
    version: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        assert self.headers["content-type"].startswith("application/json")
        return json.loads(self.body)


@dataclass
class Client:
    """A client that sends what it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, body: bool = True) -> Answer:
        async with asyncio.timeout(HANG_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            version, status, _ = first.split(" ", 2)
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            content = await self.reader.readexactly(int(headers["content-length"])) if body else b""
        return Answer(version, int(status), headers, content)

    async def asked(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def ended(self) -> bytes:
        """What comes until the other side closes or cuts off."""
        got = b""
        async with asyncio.timeout(HANG_S):
            try:
                while more := await self.reader.read(65_536):
                    got += more
            except ConnectionError:
                pass
        return got

    async def is_open(self) -> bool:
        """Whether the other side takes another request."""
        return (await self.asked(GET)).status == 200


@dataclass
class World:
    """What a test may turn and look at."""

    clock: VirtualClock
    telemetry: RecordingTelemetry = field(default_factory=RecordingTelemetry)
    unready: str | None = None
    metrics: Callable[[], MetricsPage] = field(default=lambda: PAGE)
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def listener(self, address: HostPort = HERE, limits: HttpLimits = LIMITS, **more) -> HttpListener:
        async def metrics() -> MetricsPage:
            return self.metrics()

        return HttpListener(
            address,
            limits=limits,
            ready=lambda: self.unready,
            metrics=metrics,
            telemetry=self.telemetry,
            clock=self.clock,
            routes=[
                web.post("/echo", self.echo),
                web.get("/wait", self.wait),
                web.get("/fail", self.fail),
                web.get("/stream", self.stream),
            ],
            **more,
        )

    async def echo(self, request: web.Request) -> web.Response:
        self.begun.append("echo")
        try:
            return web.Response(text=str(len(await request.read())))
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise

    async def wait(self, _: web.Request) -> web.Response:
        self.begun.append("wait")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return web.Response(text="done")

    async def fail(self, _: web.Request) -> web.Response:
        raise RuntimeError("a secret of ours")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        await self.go.wait()
        if request.query.get("fail"):
            raise RuntimeError("a secret of ours")
        await response.write(b"done")
        return response

    @property
    def said(self) -> list[tuple[Level, str]]:
        return [(event.level, event.message) for event in self.telemetry.events]


@asynccontextmanager
async def serving(world: World, **more) -> AsyncIterator[HttpListener]:
    listener = world.listener(**more)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(grace_s=0)
        assert {task for task in asyncio.all_tasks() if task.get_name().startswith("http ")} == set()


@asynccontextmanager
async def connected(listener: HttpListener, host: str = "127.0.0.1") -> AsyncIterator[Client]:
    async with asyncio.timeout(HANG_S):
        reader, writer = await asyncio.open_connection(host, listener.address.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(HANG_S):
        while not true():
            await asyncio.sleep(0)


def request(path: str, method: str = "GET", *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: here", *headers, "", ""]).encode()
