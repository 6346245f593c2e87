"""Status codes of gRPC and our errors, both ways (ADR 0016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc

from vmafx.domain.errors import (
    ControllerError,
    ForeignJobError,
    JobNotFoundError,
    NotFiniteError,
    OutsideRootsError,
    QueueFullError,
    ScorerUnavailableError,
    SessionNotFoundError,
    SourceSyntaxError,
    StoreUnavailableError,
    SubmissionConflictError,
    TokenError,
    VmafxError,
)
from vmafx.domain.retry import StatusCode, controller_error, status_code
from vmafx.domain.text import bounded, printable

__all__ = [
    "PEER_MESSAGE_BYTES_MAX",
    "REFUSAL_BYTES_MAX",
    "UNEXPECTED",
    "Refusal",
    "error_of",
    "our_code",
    "refusal_of",
    "wire_code",
]

PEER_MESSAGE_BYTES_MAX: Final = 4096
"""How much of a peer's own words is kept, in bytes."""
REFUSAL_BYTES_MAX: Final = 2048
"""How long the message of a refusal may be, in bytes; on the wire, where a byte may take three, it must stay
within the 8 KiB that peers take for all metadata."""
UNEXPECTED: Final = "internal error"
"""What a peer is told of an error that nobody foresaw; its own words may hold anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How a call ends that has no answer.

    Attributes:
        code: Never `OK`.
        message: Printable and bounded.
    """

    code: StatusCode
    message: str


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


def refusal_of(error: Exception, *, about: str = "") -> Refusal:
    """Return how a call ends whose work raised `error`.

    Args:
        error: What was raised; of one that is no `VmafxError` nothing is told.
        about: What the call was doing, put before the message; empty for nothing.
    """
    if not isinstance(error, VmafxError):
        return Refusal(code=StatusCode.INTERNAL, message=UNEXPECTED)
    message = error.message if isinstance(error, ControllerError) else str(error)
    told = f"{about}: {message}" if about else message
    return Refusal(code=_code_of(error), message=bounded(printable(told), REFUSAL_BYTES_MAX))


def _code_of(error: VmafxError) -> StatusCode:
    if isinstance(error, ControllerError | TokenError):
        named = status_code(error.code)
        return StatusCode.UNKNOWN if named is StatusCode.OK else named
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


_CODES: Final[Mapping[type, StatusCode]] = {
    # bad input
    NotFiniteError: StatusCode.INVALID_ARGUMENT,
    # an input that is no path of ours lies outside all roots, as far as its owner is concerned
    SourceSyntaxError: StatusCode.PERMISSION_DENIED,
    OutsideRootsError: StatusCode.PERMISSION_DENIED,
    # the store: what may succeed later is never refused for good
    StoreUnavailableError: StatusCode.UNAVAILABLE,
    JobNotFoundError: StatusCode.NOT_FOUND,
    ForeignJobError: StatusCode.PERMISSION_DENIED,
    SessionNotFoundError: StatusCode.PERMISSION_DENIED,
    SubmissionConflictError: StatusCode.ALREADY_EXISTS,
    QueueFullError: StatusCode.RESOURCE_EXHAUSTED,
    # a process without a scorer
    ScorerUnavailableError: StatusCode.FAILED_PRECONDITION,
    # anything else is this side's trouble
    VmafxError: StatusCode.INTERNAL,
}
