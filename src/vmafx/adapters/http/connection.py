"""Connections: aiohttp's, with the limits that aiohttp has not (ADR 0027)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from vmafx.adapters.http.answers import refusal
from vmafx.adapters.http.limits import CONNECTIONS_MAX, HttpLimits
from vmafx.adapters.http.watch import Watch
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Level, Telemetry

__all__ = ["REQUEST_UNREADABLE", "Connection", "Connections", "Handler"]

REQUEST_UNREADABLE: Final = "http: request cannot be read"

_LINGER_S: Final = 2.0
"""How long what is left of a body is read and thrown away after its answer, so that the answer arrives."""
_TURNS: Final = 5
"""How many turns of the event loop it takes at most from a request that has arrived to its handler."""
_READ_AHEAD_BYTES: Final = 1_048_576
"""What may arrive of a body before it is known that the headers before it are complete."""

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""What answers a request."""


class Connections(web.Server):
    """The connections of a listener.

    Args:
        application: aiohttp's own server for the routes, which knows how to make their requests.
        handler: Answers requests; must call `begins` and `ends` of their connection.
        limits: The limits.
        clock: Measures them.
        telemetry: Takes what clients do wrong.
    """

    def __init__(
        self,
        application: web.Server,
        handler: Handler,
        *,
        limits: HttpLimits,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(handler, request_factory=application.request_factory, handler_cancellation=True)
        self.headers: Watch = Watch(clock, min(limits.header_s, limits.read_s))
        self.bodies: Watch = Watch(clock, limits.read_s)
        self.limits = limits
        self.telemetry = telemetry
        self.log: logging.Logger = _log(telemetry)
        self.closing: bool = False
        self.open: set[Connection] = set()
        self._clock = clock
        self._answered = asyncio.Event()

    def __call__(self) -> Connection:
        """Return what serves one more connection."""
        return Connection(self)

    def answered(self) -> None:
        """Note that a request has got its answer, or will have none."""
        self._answered.set()

    async def drain(self, grace_s: float) -> None:
        """Close what waits for a request, let the others end, and cut off what is left after the grace.

        Args:
            grace_s: How long answers may take, in seconds.
        """
        self.closing = True
        for _ in range(_TURNS):
            await self._clock.sleep(0)
        for connection in tuple(self.open):
            if not connection.at_work:
                connection.force_close()
        try:
            async with self._clock.timeout(grace_s):
                while any(connection.at_work for connection in self.open):
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            pass
        finally:
            for connection in tuple(self.open):
                connection.abort()


class Connection(web.RequestHandler):
    """One connection.

    It is cut off when the headers of a request take too long or are far too large, and when a body takes too
    long. A connection too many is cut off at once.

    Args:
        connections: Those it belongs to.
    """

    __slots__ = ("_all", "_header_bytes", "_state")

    def __init__(self, connections: Connections) -> None:
        limits = connections.limits
        super().__init__(
            connections,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_s,
            logger=connections.log,
            access_log=_SILENT,
            max_line_size=limits.header_bytes_max,
            max_field_size=limits.header_bytes_max,
            lingering_time=_LINGER_S,
        )
        self._all = connections
        self._state = _State()
        self._header_bytes = 0

    @property
    def closing(self) -> bool:
        """Whether there will be no further request."""
        return self._all.closing

    @property
    def at_work(self) -> bool:
        """Whether a request was read that has no answer yet."""
        return not self._state.answered

    def begins(self, request: web.BaseRequest) -> None:
        """Note that the headers of a request have arrived."""
        self._all.headers.end(self)
        self._header_bytes = 0
        self._state = _State(answered=False, arrived=False)
        self._all.bodies.begin(self)
        request.content.on_eof(self._body_arrived)

    def ends(self) -> None:
        """Note that the request was answered, or will not be."""
        self._state.answered = True
        self._all.answered()

    def abort(self) -> None:
        """Cut the connection off, whatever is still to be sent."""
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        super().connection_made(transport)
        self._all.open.add(self)
        # An answer counts as taken when the system has all of it: what stayed here would stay for as long as
        # the client does not read.
        cast("asyncio.Transport", transport).set_write_buffer_limits(high=0)
        if self._all.closing or len(self._all.open) > CONNECTIONS_MAX:
            self.abort()
        else:
            self._all.headers.begin(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the connection."""
        self._all.open.discard(self)
        self._all.headers.end(self)
        self._all.bodies.end(self)
        self.ends()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        if data and self._state.idle:
            self._all.headers.begin(self)
            self._header_bytes += len(data)
            if self._header_bytes > self._all.limits.header_bytes_max + _READ_AHEAD_BYTES:
                self.abort()
                return
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - holds what the client sent
    ) -> web.StreamResponse:
        """Return the answer to what is no request.

        Raises:
            ConnectionError: Another answer was begun.
        """
        self._all.telemetry.event(Level.DEBUG, REQUEST_UNREADABLE, error=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun")
        response = refusal(431 if isinstance(exc, LineTooLong) else status)
        response.force_close()
        return response

    def _body_arrived(self) -> None:
        self._all.bodies.end(self)
        self._state.arrived = True


@dataclass(slots=True, kw_only=True)
class _State:
    """What the latest request has come to.

    Attributes:
        answered: Whether its answer was sent.
        arrived: Whether it was read to its end.
    """

    answered: bool = True
    arrived: bool = True

    @property
    def idle(self) -> bool:
        """Whether what arrives now belongs to another request."""
        return self.answered and self.arrived


class _Told(logging.Handler):
    """Tells what aiohttp logs: clients that break off or break rules; our own faults never get that far."""

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__()
        self._telemetry = telemetry

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._telemetry.event(Level.DEBUG, REQUEST_UNREADABLE, error=error)


def _log(telemetry: Telemetry) -> logging.Logger:
    log = logging.Logger("aiohttp", logging.ERROR)  # noqa: LOG001 - nobody else may see or set it
    log.addHandler(_Told(telemetry))
    return log


_SILENT: Final = logging.Logger("aiohttp.access", logging.CRITICAL)  # noqa: LOG001 - the same
