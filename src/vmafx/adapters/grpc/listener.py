"""GrpcListener: the controller's way in for calls over gRPC (ADR 0026)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import grpc.aio

from vmafx.adapters.grpc.binding import bind
from vmafx.adapters.grpc.calls import ServicePart
from vmafx.adapters.grpc.channel import MESSAGE_BYTES_MAX, Options
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.health import HEALTH_SERVICE, Health
from vmafx.adapters.grpc.reflection import Reflection
from vmafx.adapters.grpc.server_credentials import ServerTls, server_credentials
from vmafx.adapters.grpc.services import Services
from vmafx.domain.address import HostPort
from vmafx.ports.clock import Clock
from vmafx.ports.telemetry import Telemetry

if TYPE_CHECKING:
    from vmafx.ports.listener import Listener

__all__ = ["GrpcLimits", "GrpcListener"]

SETTING: Final = "VMAFX_GRPC_LISTEN"

_PENDING_MAX: Final = 2**31 - 1  # what bounds them is how many calls a connection may have
_WAIT_S: Final = 2**31 - 1  # what bounds it is the deadline of each


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """What a listener bears.

    Attributes:
        receive_bytes_max: Largest request in bytes.
        send_bytes_max: Largest answer in bytes.
        metadata_bytes_max: Most metadata with a call, the token among it, in bytes.
        streams_max: Most calls at once over one connection; further ones wait at their caller.
        ping_after_s: How long a connection may be silent before the peer is tried with a ping, in seconds.
        ping_timeout_s: How long a ping may stay unanswered before the connection counts as dead, in seconds.
        peer_ping_min_s: How far apart a peer's own pings must be, in seconds, with calls or without.
        handshake_s: How long a new connection may take to say something sensible, in seconds.
    """

    receive_bytes_max: int = MESSAGE_BYTES_MAX
    send_bytes_max: int = MESSAGE_BYTES_MAX
    metadata_bytes_max: int = 32 * 1024
    streams_max: int = 1000
    ping_after_s: float = 60.0
    ping_timeout_s: float = 20.0
    peer_ping_min_s: float = 5.0
    handshake_s: float = 20.0


class GrpcListener:
    """A `Listener` for the methods of some parts, the health service and reflection, all behind one gate.

    It is started once.

    Args:
        address: Where it listens; an empty host means every address of the machine.
        gate: Lets calls pass.
        parts: The parts.
        ready: Says why the program is not ready, for the health service; None when it is.
        telemetry: Is told of errors that nobody foresaw.
        clock: Says when those are told of it who watch the health service.
        setting: Where the address comes from, for errors.
        limits: What it bears.
        tls: Its certificate; None speaks plaintext.
    """

    def __init__(  # noqa: PLR0913 - one argument per thing that a listener is made of
        self,
        address: HostPort,
        *parts: ServicePart,
        gate: Gate,
        ready: Callable[[], str | None],
        telemetry: Telemetry,
        clock: Clock,
        setting: str = SETTING,
        limits: GrpcLimits | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self._address = address
        self._setting = setting
        self._limits = limits or GrpcLimits()
        self._tls = tls
        names = sorted({path.split("/")[1] for part in parts for path in part.methods()})
        # The first to be told of a stop is the health service, so that nobody is sent here any more.
        self._parts: tuple[ServicePart, ...] = (
            Health(names, ready=ready, clock=clock),
            *parts,
            Reflection((*names, HEALTH_SERVICE)),
        )
        self._services = Services(gate, *self._parts, telemetry=telemetry)
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> HostPort:
        """Where it listens: once started, with the port that was really bound."""
        return self._address

    @property
    def methods(self) -> frozenset[str]:
        """The paths of all methods that are served."""
        return self._services.methods

    async def start(self) -> None:
        """Take calls from now on.

        Raises:
            ConfigurationError: The address cannot be bound, or the certificate cannot be used: names the
                setting and the value.
        """
        credentials = None if self._tls is None else server_credentials(self._tls)
        server = grpc.aio.server(handlers=(self._services,), options=_options(self._limits))
        try:
            port = await bind(server, self._address, setting=self._setting, credentials=credentials)
            await server.start()
        except BaseException:
            await server.stop(None)
            raise
        self._address = replace(self._address, port=port)
        self._server = server

    async def stop(self, *, grace_s: float) -> None:
        """Take no new calls, let those that run end, and cut off what still runs after the grace.

        Args:
            grace_s: How long calls may take to end, in seconds; 0 or less cuts them off at once.
        """
        for part in self._parts:
            part.end_waits()
        if self._server is not None:
            await self._server.stop(grace_s if grace_s > 0 else None)
        for part in self._parts:
            await part.drained()


def _options(limits: GrpcLimits) -> Options:
    return (
        # Two controllers on one port would share its calls: the second is to be refused.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.receive_bytes_max),
        ("grpc.max_send_message_length", limits.send_bytes_max),
        # Between the two, grpc would refuse a call at random.
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes_max),
        ("grpc.max_concurrent_streams", limits.streams_max),
        # Calls that came faster than they can be begun wait; grpc would cancel some of them at random.
        ("grpc.server.max_pending_requests", _PENDING_MAX),
        ("grpc.server.max_pending_requests_hard_limit", _PENDING_MAX),
        # After 30 s as well: a process that was held up that long would cancel all who waited for it.
        ("grpc.server_max_unrequested_time_in_server", _WAIT_S),
        ("grpc.server_handshake_timeout_ms", _ms(limits.handshake_s)),
        # A peer that is gone without a word would hold its pulls and listings for hours.
        ("grpc.keepalive_time_ms", _ms(limits.ping_after_s)),
        ("grpc.keepalive_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.http2.ping_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.http2.max_pings_without_data", 0),
        # Peers may ping as well, also with no call under way: nodes keep connections and are long silent.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _ms(limits.peer_ping_min_s)),
    )


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


if TYPE_CHECKING:
    _port: type[Listener] = GrpcListener
