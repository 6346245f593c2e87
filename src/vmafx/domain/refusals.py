"""How a call ends whose work raised: one table of our errors and their codes, for every way in (ADR 0016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vmafx.domain.errors import (
    ControllerError,
    ForeignJobError,
    JobNotFoundError,
    NotFiniteError,
    OutsideRootsError,
    QueueFullError,
    RoleRequiredError,
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

__all__ = ["REFUSAL_BYTES_MAX", "STOPPING", "UNEXPECTED", "Refusal", "refusal_of", "refused"]

REFUSAL_BYTES_MAX: Final = 2048
"""How long the message of a refusal may be, in bytes; on the wire, where a byte may take three, it must stay
within the 8 KiB that peers take for all metadata."""
STOPPING: Final = "the controller is stopping"
"""What a peer is told whose call is ended for that reason."""
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


def refusal_of(error: Exception, *, about: str = "") -> Refusal:
    """Return how a call ends whose work raised `error`.

    Args:
        error: What was raised; of one that is no `VmafxError` nothing is told, and of a store that cannot be
            used only what callers may know.
        about: What the call was doing, put before the message; empty for nothing.
    """
    if not isinstance(error, VmafxError):
        return Refusal(code=StatusCode.INTERNAL, message=UNEXPECTED)
    message = _words_of(error)
    told = f"{about}: {message}" if about else message
    return Refusal(code=_code_of(error), message=bounded(printable(told), REFUSAL_BYTES_MAX))


def refused(error: VmafxError, *, about: str = "") -> ControllerError:
    """Return the error of a call whose work raised `error`, as its caller gets it.

    Args:
        error: What was raised; a `ControllerError` is its own answer.
        about: The same as of `refusal_of`.
    """
    if isinstance(error, ControllerError):
        return error
    refusal = refusal_of(error, about=about)
    return controller_error(refusal.code, refusal.message)


def _words_of(error: VmafxError) -> str:
    if isinstance(error, ControllerError):
        return error.message
    if isinstance(error, StoreUnavailableError):
        return error.told
    return str(error)


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
    RoleRequiredError: StatusCode.PERMISSION_DENIED,
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
