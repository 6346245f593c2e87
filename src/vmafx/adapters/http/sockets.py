"""Sockets that listen at an address, or one refusal that says why there are none."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from typing import Final, TypeAlias

from vmafx.domain.address import ABSENT, HostPort, unbindable

__all__ = ["BACKLOG", "listening"]

BACKLOG: Final = 128
"""How many connections the system holds until they are accepted."""

_Place: TypeAlias = tuple[socket.AddressFamily, str]


async def listening(setting: str, address: HostPort) -> list[socket.socket]:
    """Return sockets that listen: on every address, IPv4 and IPv6, without a host, else on all of the host's.

    Addresses of a host that this machine has not are left out while there is another one, as with `localhost`
    where IPv6 is switched off. All sockets have one port.

    Args:
        setting: Where the address comes from, for the error.
        address: The address; port 0 takes any free one.

    Raises:
        ConfigurationError: The address cannot be listened on; no socket is open then.
    """
    try:
        return await _opened(address)
    except OSError as error:
        number = None if isinstance(error, socket.gaierror) else error.errno
        refused = unbindable(setting, address, number)
        raise refused from error


async def _opened(address: HostPort) -> list[socket.socket]:
    with ExitStack() as undo:
        sockets: list[socket.socket] = []
        absent: OSError | None = None
        for place in await _places(address):
            port = sockets[0].getsockname()[1] if sockets else address.port
            try:
                sockets.append(undo.enter_context(_listening_at(place, port)))
            except OSError as error:
                if error.errno not in ABSENT:
                    raise
                absent = error
        if absent is not None and not sockets:
            raise absent
        undo.pop_all()
        return sockets


async def _places(address: HostPort) -> list[_Place]:
    if not address.host:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        return [(family, "")]
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, str(where[0])) for family, _, _, _, where in found))


def _listening_at(place: _Place, port: int) -> socket.socket:
    family, host = place
    both = family is socket.AF_INET6 and not host
    return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
