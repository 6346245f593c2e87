"""What an operator can do about a connection that fails, told from grpc's own words (ADR 0017)."""

from __future__ import annotations

import re
from typing import Final

from vmafx.adapters.grpc.credentials import CA_FILE, SERVER_NAME

__all__ = ["hinted", "unanswered"]

_TLS: Final = "VMAFX_CONTROLLER_TLS"
_ADDRESS: Final = "VMAFX_CONTROLLER_ADDR"
_ISSUER: Final = f"the controller's certificate is not trusted: check {CA_FILE}"
_NAME: Final = f"the controller's certificate names another host: check {SERVER_NAME}"
_VERSION: Final = "the controller must speak TLS 1.3"
_ENDED: Final = "the controller ended the TLS handshake: it speaks no TLS, or less than 1.3"
_OVER_TLS: Final = (
    ("unable to get local issuer certificate", _ISSUER),
    ("unable to get issuer certificate", _ISSUER),
    ("self signed certificate", _ISSUER),
    ("self-signed certificate", _ISSUER),
    ("certificate has expired", "a certificate of the controller has expired, or the clock here is wrong"),
    (
        "certificate is not yet valid",
        "a certificate of the controller is not valid yet, or the clock here is wrong",
    ),
    ("Hostname Verification", _NAME),
    ("ostname mismatch", _NAME),
    ("IP address mismatch", _NAME),
    ("WRONG_VERSION_NUMBER", f"the controller does not speak TLS: check {_TLS}"),
    ("PROTOCOL_VERSION", _VERSION),
    ("HANDSHAKE_FAILURE", _VERSION),
    ("Handshake read failed (Socket closed", _ENDED),
    ("Handshake read failed (recvmsg:Connection reset", _ENDED),
    ("the peer hung up", _ENDED),
    ("missing selected ALPN property", f"whoever answers there speaks no gRPC: check {_ADDRESS}"),
)
_HUNG_UP: Final = re.compile(r"failed to connect to all addresses; last error: UNAVAILABLE: .*Socket closed")
"""What a peer that speaks TLS makes of plaintext, as others may: one that resets the connection does not."""


_PLACES: Final = (
    ("Connection refused", f"nothing listens there: check {_ADDRESS}, and whether the controller runs"),
    ("DNS resolution failed", f"the host cannot be found: check {_ADDRESS}"),
    ("Domain name not found", f"the host cannot be found: check {_ADDRESS}"),
    ("onnection timed out", f"nothing answers there: check {_ADDRESS}, and the network"),
    ("etwork is unreachable", f"no way leads there: check {_ADDRESS}, and the network"),
    ("o route to host", f"no way leads there: check {_ADDRESS}, and the network"),
    ("connect an http1.x server", f"whoever answers there speaks no gRPC: check {_ADDRESS}"),
    ("Failed parsing HTTP/2", f"whoever answers there speaks no gRPC: check {_ADDRESS}"),
)


def unanswered(details: str) -> str:
    """Return `details` of a call whose time ran out before there was a connection, with what to check."""
    return f"{details}; there is no connection yet: check {_ADDRESS}, and whether a controller answers there"


def hinted(details: str, *, tls: bool) -> str:
    """Return `details` with what to check: before them where it is certain, behind them where it is likely.

    Args:
        details: What grpc says about an unavailable peer.
        tls: Whether the channel speaks TLS.
    """
    for words, hint in _PLACES:
        if words.lower() in details.lower():
            return f"{details}; {hint}"
    if not tls:
        return f"{details}; if the controller speaks TLS, set {_TLS}" if _HUNG_UP.search(details) else details
    for words, hint in _OVER_TLS:
        if words in details:
            return f"{hint} ({details})"
    return details
