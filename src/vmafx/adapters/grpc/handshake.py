"""A TLS handshake of our own, for a grpc that could not be told to refuse what is below 1.3 (ADR 0017)."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from vmafx.domain.address import HostPort
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.ports.clock import Clock

__all__ = ["PROOF_AGE_MAX_S", "Tls13Proof"]

PROOF_AGE_MAX_S: Final = 10.0
"""How long a handshake speaks for connections to come, in seconds; many calls at once need one."""
_HTTP2: Final = "h2"


class Tls13Proof:
    """Shows that a peer speaks TLS 1.3 and has a certificate that is trusted.

    A peer that can do 1.3 agrees on 1.3 with every client that can, grpc's among them; the protocol itself
    lets nobody in between talk the two down. So a handshake with 1.3 as the least speaks for the connections
    that grpc makes to the same peer.

    Args:
        peer: The address.
        roots: The certificates to trust, as PEM.
        server_name: What the certificate must name; None means the host of the address.
        clock: Whose time proofs age by.
    """

    def __init__(self, peer: HostPort, *, roots: bytes, server_name: str | None, clock: Clock) -> None:
        self._peer = peer
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._given_s: float | None = None
        self._name = server_name or peer.host
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_verify_locations(cadata=roots.decode("ascii"))
        self._context.set_alpn_protocols([_HTTP2])

    async def give(self) -> None:
        """Return once a handshake has succeeded that is not older than `PROOF_AGE_MAX_S`.

        Raises:
            ControllerError: `UNAVAILABLE`: there is no connection, or the handshake failed.
        """
        async with self._one_at_a_time:
            now_s = self._clock.monotonic()
            if self._given_s is None or now_s - self._given_s > PROOF_AGE_MAX_S:
                await self._shake_hands()
                self._given_s = now_s

    async def _shake_hands(self) -> None:
        # One connection that is hung up again; nothing else is sent.
        try:
            _, writer = await asyncio.open_connection(
                self._peer.host, self._peer.port, ssl=self._context, server_hostname=self._name
            )
        except (OSError, ValueError) as error:  # ssl.SSLError is the one; a name without IDNA form the other
            raise controller_error(StatusCode.UNAVAILABLE, _in_words(error)) from error
        writer.transport.abort()


def _in_words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS handshake failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake failed: {error.reason or error}"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "TLS handshake failed: the peer hung up"
    return f"no connection: {str(error) or type(error).__name__}"
