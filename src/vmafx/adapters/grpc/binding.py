"""Binding an address, with words for what grpc only calls a failure (ADR 0026)."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

import grpc
import grpc.aio

from vmafx.domain.address import ABSENT, HostPort, unbindable
from vmafx.domain.errors import ConfigurationError

__all__ = ["bind"]

_Place: TypeAlias = tuple[socket.AddressFamily, str]


async def bind(
    server: grpc.aio.Server,
    address: HostPort,
    *,
    setting: str,
    credentials: grpc.ServerCredentials | None,
) -> int:
    """Make a server listen, and return the port.

    Args:
        server: The server, not started yet.
        address: Where; a host of several addresses is listened on at each that this machine has.
        setting: Where the address comes from, for the error.
        credentials: How TLS is spoken; None speaks plaintext.

    Raises:
        ConfigurationError: The address cannot be bound; names the setting and the address.
    """
    found = await _places(address, setting)
    usable = _usable(address, setting, found)
    port = address.port
    for host in ["::"] if not address.host else [host for _, host in usable]:
        place = str(HostPort(host=host, port=port))
        try:
            if credentials is None:
                port = server.add_insecure_port(place)
            else:
                port = server.add_secure_port(place, credentials)
        except RuntimeError as error:  # somebody was faster
            _refuse(setting, address, errno.EADDRINUSE, error)
    return port


async def _places(address: HostPort, setting: str) -> Sequence[_Place]:
    """Return what a host stands for; numbers from here on, since grpc takes a host `unix` for a scheme."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        _refuse(setting, address, None, error)
    return list(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in found))


def _usable(address: HostPort, setting: str, places: Sequence[_Place]) -> Sequence[_Place]:
    """Return the places that can be bound; only absent ones are left out, and never all."""
    usable: list[_Place] = []
    absent: int | None = None
    for family, host in places:
        number = _try(family, host, address.port)
        if number is None:
            usable.append((family, host))
        elif number in ABSENT:
            absent = number
        else:
            _refuse(setting, address, number)
    if not usable:
        _refuse(setting, address, absent)
    return usable


def _try(family: socket.AddressFamily, host: str, port: int) -> int | None:
    """Bind an address for a moment, as grpc does; return the number of the error, None for none."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.errno or errno.EINVAL
    return None


def _refuse(setting: str, address: HostPort, number: int | None, cause: Exception | None = None) -> NoReturn:
    error: ConfigurationError = unbindable(setting, address, number)
    raise error from cause
