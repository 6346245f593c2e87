"""The channel to the controller: its limits, and what grpc must not do by itself (ADR 0017).

Retries are the caller's, so grpc's are off. Names of options are grpc's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import grpc
import grpc.aio

from vmafx.domain.address import HostPort
from vmafx.domain.version import __version__

__all__ = ["MESSAGE_BYTES_MAX", "ChannelLimits", "Options", "Secured", "new_channel", "target_of"]

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest message in bytes, either way, unless set otherwise."""
_PINGS_WITHOUT_DATA_MAX: Final = 2  # a stock server counts the third as a strike, and three are too many

Options: TypeAlias = tuple[tuple[str, str | int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimits:
    """The limits of one channel.

    Attributes:
        receive_bytes_max: Largest answer in bytes.
        send_bytes_max: Largest request in bytes.
        ping_after_s: How long a call may hear nothing before the connection is tried with a ping, in seconds.
        ping_timeout_s: How long a ping, or bytes that were sent, may stay unacknowledged before the
            connection counts as dead, in seconds.
        connect_timeout_s: How long one try to connect may take, in seconds.
        reconnect_base_s: The first pause between tries to connect, in seconds.
        reconnect_cap_s: The longest, in seconds: after an outage the controller is found again within it.
        resolve_pause_s: How soon a name may be looked up again, in seconds.
    """

    receive_bytes_max: int = MESSAGE_BYTES_MAX
    send_bytes_max: int = MESSAGE_BYTES_MAX
    ping_after_s: float = 30.0
    ping_timeout_s: float = 10.0
    connect_timeout_s: float = 10.0
    reconnect_base_s: float = 0.5
    reconnect_cap_s: float = 5.0
    resolve_pause_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """What a channel over TLS needs.

    Attributes:
        roots: The certificates to trust, as PEM.
        server_name: What the certificate must name; None means the host of the address.
    """

    roots: bytes = field(repr=False)
    server_name: str | None


def new_channel(address: HostPort, secured: Secured | None, limits: ChannelLimits) -> grpc.aio.Channel:
    """Return a channel; nothing is dialled before the first call.

    Args:
        address: Where the controller listens.
        secured: How TLS is spoken; None speaks plaintext.
        limits: The channel's limits.
    """
    if secured is None:
        return grpc.aio.insecure_channel(target_of(address), options=_options(limits))
    credentials = grpc.ssl_channel_credentials(root_certificates=secured.roots)
    options = _options(limits) + _named(secured.server_name)
    return grpc.aio.secure_channel(target_of(address), credentials, options=options)


def target_of(address: HostPort) -> str:
    """Return an address in grpc's form, with the resolver named: a host called `unix` or `xds` is a host."""
    return f"dns:///{address}"


def _options(limits: ChannelLimits) -> Options:
    return (
        ("grpc.primary_user_agent", f"vmafx/{__version__}"),
        # Nothing behind our back: no proxy from the environment, no retries, no settings from DNS, and no
        # connection or backoff shared with another channel of the process.
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", limits.receive_bytes_max),
        ("grpc.max_send_message_length", limits.send_bytes_max),
        ("grpc.keepalive_time_ms", _ms(limits.ping_after_s)),
        # The first is how long the kernel waits for an acknowledgement, the second how long grpc waits for
        # the answer to a ping: 60 s unless it is set, whatever the first says.
        ("grpc.keepalive_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.http2.ping_timeout_ms", _ms(limits.ping_timeout_s)),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_pings_without_data", _PINGS_WITHOUT_DATA_MAX),
        ("grpc.initial_reconnect_backoff_ms", _ms(limits.reconnect_base_s)),
        ("grpc.max_reconnect_backoff_ms", _ms(limits.reconnect_cap_s)),
        ("grpc.min_reconnect_backoff_ms", _ms(limits.connect_timeout_s)),  # despite its name
        ("grpc.dns_min_time_between_resolutions_ms", _ms(limits.resolve_pause_s)),
    )


def _named(server_name: str | None) -> Options:
    if server_name is None:
        return ()
    return (("grpc.ssl_target_name_override", server_name), ("grpc.default_authority", server_name))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
