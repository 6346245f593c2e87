"""Peers for the gRPC client that do what no controller should: raw bytes in, raw bytes or any trouble out."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio
import trustme

from vmafx.domain.address import HostPort
from vmafx.domain.retry import Call

SERVICE = "vmafx.controller.v1.VmafxController"
REGISTERED = b"\x0a\x04node\x12\x05token"  # node_id "node", session_token "token"
LOOPBACK = "127.0.0.1"

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Answer: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def registered(request: bytes, context: Context) -> bytes:
    return REGISTERED


@asynccontextmanager
async def peer(
    answer: Answer = registered,
    *,
    certificate: trustme.LeafCert | None = None,
    port: int = 0,
    options: Sequence[tuple[str, int]] = (),
) -> AsyncGenerator[HostPort, None]:
    """A gRPC server that answers every call of the service with `answer`; stock but for `options`."""

    async def one(request: bytes, context: Context) -> bytes:
        return await answer(request, context)  # grpc takes no object with a `__call__`

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *options])
    methods = {call.value: grpc.unary_unary_rpc_method_handler(one) for call in Call}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    place = f"{LOOPBACK}:{port}"
    if certificate is None:
        bound = server.add_insecure_port(place)
    else:
        pair = (
            certificate.private_key_pem.bytes(),
            b"".join(pem.bytes() for pem in certificate.cert_chain_pems),
        )
        bound = server.add_secure_port(place, grpc.ssl_server_credentials([pair]))
    await server.start()
    try:
        yield HostPort(host=LOOPBACK, port=bound)
    finally:
        await server.stop(0)


@asynccontextmanager
async def listener(
    serve: Serve,
    context: ssl.SSLContext | None = None,
) -> AsyncGenerator[HostPort, None]:
    """A plain listener; connections that are open at the end are cut."""
    writers: list[asyncio.StreamWriter] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(one, LOOPBACK, 0, ssl=context)
    try:
        yield HostPort(host=LOOPBACK, port=server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve like somebody who makes nothing of what is said."""
    await reader.read(1)
    writer.close()


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve like a balancer without anybody behind it."""
    await reader.read(1)
    endpoint: socket.socket = writer.get_extra_info("socket")
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def unused_address() -> HostPort:
    """An address that nothing listens on."""
    return HostPort(host=LOOPBACK, port=1)


def ca_file(ca: trustme.CA, directory: Path) -> Path:
    path = directory / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return path


def tls_context(certificate: trustme.LeafCert, newest: ssl.TLSVersion) -> ssl.SSLContext:
    """The server side of TLS up to the version `newest`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.set_alpn_protocols(["h2"])
    certificate.configure_cert(context)
    return context


def expired(ca: trustme.CA) -> trustme.LeafCert:
    return ca.issue_cert(LOOPBACK, not_after=datetime.now(UTC) - timedelta(days=1))
