"""What a failed call to the controller means: try again, give up, or doubt the session (ADR 0013)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from vmafx.domain.errors import ControllerError

__all__ = [
    "Call",
    "ReportStep",
    "StatusCode",
    "Verdict",
    "controller_error",
    "invalidates_session",
    "report_step",
    "report_step_after",
    "retryable",
    "status_code",
]


class StatusCode(Enum):
    """The status codes of gRPC by name; the list is closed."""

    OK = "OK"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class Call(Enum):
    """The calls that a node makes; the values are the method names of the wire."""

    REGISTER = "RegisterNode"
    HEARTBEAT = "Heartbeat"
    PULL = "PullWork"
    REPORT = "ReportResult"


class ReportStep(Enum):
    """What follows a try to report a final result."""

    DELIVERED = "delivered"
    """The controller has it; nothing is left to do."""
    RETRY = "retry"
    """Try again after a wait, under the session that is current then."""
    RETRY_WITH_NEW_SESSION = "retry with new session"
    """The session is gone: wait for the next one, then try again."""
    ASK = "ask"
    """A heartbeat sent at once tells whether the session or only this report is refused."""
    REJECT = "reject"
    """The controller will never take it: set it aside and say so."""
    GIVE_UP = "give up"
    """The node is stopping: stop trying; what is in the spool stays there."""


class Verdict(Enum):
    """What the heartbeat sent after a refused report showed."""

    SESSION_LIVES = "session lives"
    SESSION_LOST = "session lost"
    UNKNOWN = "unknown"


def report_step(code: StatusCode) -> ReportStep:
    """Return what follows a try to report a final result that ended with `code`.

    An answer that says `ok=false` counts as `FAILED_PRECONDITION`.
    """
    return _REPORT_STEPS[code]


def report_step_after(verdict: Verdict) -> ReportStep:
    """Return what follows `ReportStep.ASK`, once the heartbeat was answered or failed."""
    return _AFTER_ASKING[verdict]


def invalidates_session(call: Call, code: StatusCode) -> bool:
    """Return whether `code` on `call` alone means that the controller does not know the session.

    A refused report does not: it may be about the job (`ReportStep.ASK`).
    """
    return code is StatusCode.PERMISSION_DENIED and call in {Call.HEARTBEAT, Call.PULL}


def retryable(code: StatusCode) -> bool:
    """Return whether the same call may succeed later, the same session or another."""
    return _REPORT_STEPS[code] in {ReportStep.RETRY, ReportStep.ASK}


def status_code(name: str) -> StatusCode:
    """Return the code of that name; `UNKNOWN` for a name that is none, as gRPC has it."""
    return _BY_NAME.get(name, StatusCode.UNKNOWN)


def controller_error(code: StatusCode, message: str) -> ControllerError:
    """Return the error of a call that failed with `code`, marked retryable by this module's rule."""
    return ControllerError(code.value, message, retryable=retryable(code))


_BY_NAME: Final[Mapping[str, StatusCode]] = {code.value: code for code in StatusCode}

_REPORT_STEPS: Final[Mapping[StatusCode, ReportStep]] = {
    StatusCode.OK: ReportStep.DELIVERED,
    StatusCode.CANCELLED: ReportStep.GIVE_UP,
    StatusCode.PERMISSION_DENIED: ReportStep.ASK,
    StatusCode.INVALID_ARGUMENT: ReportStep.REJECT,
    StatusCode.NOT_FOUND: ReportStep.REJECT,
    StatusCode.ALREADY_EXISTS: ReportStep.REJECT,
    StatusCode.FAILED_PRECONDITION: ReportStep.REJECT,
    StatusCode.OUT_OF_RANGE: ReportStep.REJECT,
    StatusCode.UNIMPLEMENTED: ReportStep.REJECT,
    StatusCode.UNKNOWN: ReportStep.RETRY,
    StatusCode.DEADLINE_EXCEEDED: ReportStep.RETRY,
    StatusCode.RESOURCE_EXHAUSTED: ReportStep.RETRY,
    StatusCode.ABORTED: ReportStep.RETRY,
    StatusCode.INTERNAL: ReportStep.RETRY,
    StatusCode.UNAVAILABLE: ReportStep.RETRY,
    StatusCode.DATA_LOSS: ReportStep.RETRY,
    StatusCode.UNAUTHENTICATED: ReportStep.RETRY,
}

_AFTER_ASKING: Final[Mapping[Verdict, ReportStep]] = {
    Verdict.SESSION_LIVES: ReportStep.REJECT,
    Verdict.SESSION_LOST: ReportStep.RETRY_WITH_NEW_SESSION,
    Verdict.UNKNOWN: ReportStep.RETRY,
}
