"""Status codes of gRPC and our errors, both ways (ADR 0016)."""

from __future__ import annotations

from typing import Final

import grpc

from vmafx.domain.errors import ControllerError
from vmafx.domain.retry import StatusCode, controller_error, status_code
from vmafx.domain.text import bounded, printable

__all__ = ["PEER_MESSAGE_BYTES_MAX", "error_of", "our_code", "wire_code"]

PEER_MESSAGE_BYTES_MAX: Final = 4096
"""How much of a peer's own words is kept, in bytes."""


def our_code(code: grpc.StatusCode) -> StatusCode:
    """Return our name for a status code of gRPC; `UNKNOWN` for one that came after us."""
    return status_code(code.name)


def wire_code(code: StatusCode) -> grpc.StatusCode:
    """Return gRPC's status code."""
    return grpc.StatusCode[code.value]


def error_of(code: grpc.StatusCode, details: str | None) -> ControllerError:
    """Return the error of a call that a peer or the wire ended with `code`.

    Args:
        code: The status code; `OK` is none of a failed call and counts as `UNKNOWN`.
        details: The peer's own words, made printable and cut to 4 KiB; None or empty for none.
    """
    ours = our_code(code)
    message = bounded(printable(details or "no details"), PEER_MESSAGE_BYTES_MAX)
    return controller_error(StatusCode.UNKNOWN if ours is StatusCode.OK else ours, message)
