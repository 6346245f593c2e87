"""HttpListener: probes, metrics and further routes over HTTP (ADR 0027)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NoReturn, cast

from aiohttp import hdrs, web

from vmafx.adapters.http.answers import SERVER, refusal, refusal_of, too_large
from vmafx.adapters.http.connection import Connection, Connections, Handler
from vmafx.adapters.http.limits import HttpLimits
from vmafx.adapters.http.probes import probe_routes
from vmafx.adapters.http.sockets import BACKLOG, listening
from vmafx.domain.address import HostPort
from vmafx.ports.clock import Clock
from vmafx.ports.metrics import MetricsPage
from vmafx.ports.telemetry import Level, Telemetry

if TYPE_CHECKING:
    from vmafx.ports.listener import Listener

__all__ = ["REQUEST_CUT_OFF", "REQUEST_FAILED", "HttpListener"]

REQUEST_FAILED: Final = "http: request failed"
REQUEST_CUT_OFF: Final = "http: answer took too long"

_CUT_S: Final = 1.0
"""How long a handler that was cut off may take to clean up, in seconds."""


class HttpListener:
    """A `Listener` that serves `/healthz`, `/readyz`, `/metrics` and whatever else it is given.

    What a handler raises is logged and answered with 500, without details. A handler is cancelled when its
    client goes away, and when its answer takes too long, in which case the connection is cut.

    Args:
        address: Where it listens; without a host on every address, IPv4 and IPv6.
        setting: Where the address comes from, for errors.
        limits: What a client may take up.
        ready: Says why the program is not ready; None when it is.
        metrics: Returns the page of metrics.
        telemetry: Counts probes, and takes what goes wrong.
        clock: Measures the limits, but for that of idle connections.
        routes: Further routes.
    """

    def __init__(  # noqa: PLR0913 - each is needed, and none has company
        self,
        address: HostPort,
        *,
        setting: str = "VMAFX_HTTP_ADDR",
        limits: HttpLimits,
        ready: Callable[[], str | None],
        metrics: Callable[[], Awaitable[MetricsPage]],
        telemetry: Telemetry,
        clock: Clock,
        routes: Iterable[web.AbstractRouteDef] = (),
    ) -> None:
        self._address = address
        self._setting = setting
        self._limits = limits
        self._telemetry = telemetry
        self._clock = clock
        self._routes = (*probe_routes(ready=ready, metrics=metrics, telemetry=telemetry), *routes)
        self._undo = AsyncExitStack()
        self._servers: list[asyncio.Server] = []
        self._connections: Connections | None = None

    @property
    def address(self) -> HostPort:
        """Where it listens: once started, with the port that was really bound."""
        return self._address

    async def start(self) -> None:
        """Take requests from now on.

        Raises:
            ConfigurationError: The address cannot be listened on.
        """
        async with AsyncExitStack() as undo:
            sockets = await listening(self._setting, self._address)
            for one in sockets:
                undo.callback(one.close)
            connections = self._connections = await self._set_up(undo)
            loop = asyncio.get_running_loop()
            # One at a time: when descriptors run out, asyncio tries, and logs, as often as its backlog says.
            self._servers = [await loop.create_server(connections, sock=one, backlog=1) for one in sockets]
            for one in sockets:
                one.listen(BACKLOG)
            self._address = replace(self._address, port=sockets[0].getsockname()[1])
            self._undo = undo.pop_all()

    async def stop(self, *, grace_s: float) -> None:
        """Take no new requests, let those that run end, and cut off what still runs after the grace."""
        if self._connections is None:
            return
        for server in self._servers:
            server.close()
        await self._connections.drain(grace_s)
        await self._connections.shutdown(_CUT_S)
        await self._undo.aclose()

    async def _set_up(self, undo: AsyncExitStack) -> Connections:
        application = web.Application(client_max_size=self._limits.body_bytes_max or 0)
        application.add_routes(self._routes)
        application.on_response_prepare.append(_sign)
        runner = web.AppRunner(application)
        undo.push_async_callback(runner.cleanup)
        await runner.setup()
        inner = cast("web.Server", runner.server)
        connections = Connections(
            inner,
            partial(self._handle, inner.request_handler),
            limits=self._limits,
            clock=self._clock,
            telemetry=self._telemetry,
        )
        for name, watch in (("headers", connections.headers), ("bodies", connections.bodies)):
            undo.push_async_callback(_end, asyncio.create_task(watch.run(), name=f"http {name}"))
        return connections

    async def _handle(self, inner: Handler, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast("Connection", request.protocol)
        connection.begins(request)
        try:
            async with self._clock.timeout(self._limits.write_s):
                response = await self._answer(inner, request)
                if connection.closing:
                    response.force_close()
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError as error:
            self._tell(Level.WARN, REQUEST_CUT_OFF, request, error)
            connection.abort()
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE)  # which nobody gets
        finally:
            connection.ends()
        return response

    async def _answer(self, inner: Handler, request: web.BaseRequest) -> web.StreamResponse:
        bytes_max = self._limits.body_bytes_max
        if bytes_max is not None and (request.content_length or 0) > bytes_max:
            return too_large(bytes_max)
        if _header_bytes(request) > self._limits.header_bytes_max:
            return refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        try:
            return await inner(request)
        except web.HTTPException as error:
            return refusal_of(error, bytes_max)
        except web.RequestPayloadError:
            return refusal(HTTPStatus.BAD_REQUEST)
        except Exception as error:
            self._tell(Level.ERROR, REQUEST_FAILED, request, error)
            if request.writer.output_size > 0:
                raise ConnectionError("an answer was begun") from error  # which the client must see as broken
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _tell(self, level: Level, message: str, request: web.BaseRequest, error: Exception) -> None:
        told = {"method": request.method, "path": request.path}
        self._telemetry.event(level, message, told, error=error)


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[hdrs.SERVER] = SERVER


async def _end(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _header_bytes(request: web.BaseRequest) -> int:
    return sum(len(name) + len(value) for name, value in request.raw_headers)


if TYPE_CHECKING:
    _port: type[Listener] = HttpListener
