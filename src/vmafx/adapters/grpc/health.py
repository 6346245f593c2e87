"""The standard health service: whether the controller takes calls (ADR 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2 as pb

from vmafx.adapters.grpc.calls import Incoming, Method, Stream, Unary, read
from vmafx.adapters.grpc.fields import refuse
from vmafx.adapters.grpc.waits import StoppingError
from vmafx.domain.retry import StatusCode
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.adapters.grpc.calls import ServicePart

__all__ = ["HEALTH_SERVICE", "LOOK_S", "Health"]

HEALTH_SERVICE: Final = "grpc.health.v1.Health"
LOOK_S: Final = 1.0
"""How often it is looked for changes on behalf of somebody who watches, in seconds."""
_ALL: Final = ""
"""What callers ask for who mean the whole server."""


class Health:
    """The two calls of the health service: serving while the program is ready, until the waits are ended.

    Args:
        services: The services that it speaks for, besides the whole server.
        ready: Says why the program is not ready; None when it is.
        clock: Says when to look again for those who watch.
    """

    def __init__(self, services: Collection[str], *, ready: Callable[[], str | None], clock: Clock) -> None:
        self._services = frozenset({_ALL, *services})
        self._ready = ready
        self._clock = clock
        self._stopping = asyncio.Event()

    def methods(self) -> Mapping[str, Method]:
        """Return the two calls."""
        return {
            f"/{HEALTH_SERVICE}/Check": Unary(self._check),
            f"/{HEALTH_SERVICE}/Watch": Stream(self._watch),
        }

    def end_waits(self) -> None:
        """Serve no more: whoever watches is told so, and its call ends."""
        self._stopping.set()

    async def drained(self) -> None:
        """Return at once: a call that has ended leaves nothing behind."""

    async def _check(self, call: Incoming) -> Message:
        service = read(pb.HealthCheckRequest, call.content).service
        if service not in self._services:
            refuse(StatusCode.NOT_FOUND, "unknown service")
        return self._status(service)

    async def _watch(self, call: Incoming) -> None:
        service = read(pb.HealthCheckRequest, call.content).service
        told: pb.HealthCheckResponse | None = None
        while True:
            stopping, now = self._stopping.is_set(), self._status(service)
            if now != told:
                await call.send(now)
                told = now
            if stopping:
                raise StoppingError
            with suppress(TimeoutError):
                async with self._clock.timeout(LOOK_S):
                    await self._stopping.wait()

    def _status(self, service: str) -> pb.HealthCheckResponse:
        if service not in self._services:
            return pb.HealthCheckResponse(status=pb.HealthCheckResponse.SERVICE_UNKNOWN)
        if self._stopping.is_set() or self._ready() is not None:
            return pb.HealthCheckResponse(status=pb.HealthCheckResponse.NOT_SERVING)
        return pb.HealthCheckResponse(status=pb.HealthCheckResponse.SERVING)


if TYPE_CHECKING:
    _part: type[ServicePart] = Health
