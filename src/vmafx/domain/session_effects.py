"""What a node's session wants done (ADR 0013).

Every effect names the cause it springs from, so that the effects of a session, written down in order, tell
why each call was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from vmafx.domain.job import JobId
from vmafx.domain.retry import StatusCode, Verdict
from vmafx.domain.session_state import Session

__all__ = [
    "CancelJob",
    "Cause",
    "Effect",
    "EndCalls",
    "HeartbeatMissed",
    "Register",
    "RegistrationMissed",
    "ReportJudged",
    "SendHeartbeat",
    "SessionLost",
    "SessionOpened",
    "WakeAt",
]


class Cause(Enum):
    """Why an effect is to be performed."""

    STARTED = "started"
    RETRY_DUE = "retry due"
    REGISTER_FAILED = "register failed"
    REGISTERED = "registered"
    JOBS_HELD = "registered while holding jobs"
    HEARTBEAT_DUE = "heartbeat due"
    HEARTBEAT_ACCEPTED = "heartbeat accepted"
    HEARTBEAT_REFUSED = "heartbeat answered with ok=false"
    HEARTBEAT_DENIED = "heartbeat denied"
    HEARTBEAT_FAILED = "heartbeat failed"
    WINDOW_PASSED = "no heartbeat accepted within the loss window"
    PULL_REFUSED = "pull refused"
    REPORT_REFUSED = "report refused"
    WOKE_EARLY = "woke early"
    STOP_ASKED = "stop asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Call `RegisterNode`; `Registered` or `RegisterFailed` answers."""

    attempt: int
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    """Call `Heartbeat`; `HeartbeatAccepted`, `HeartbeatRefused` or `HeartbeatFailed` answers.

    Attributes:
        session: The session it is sent under.
        beat: Its number within the session, from 1.
        job_ids: The jobs held, sorted; their number is the number of jobs running.
    """

    session: Session
    beat: int
    job_ids: tuple[JobId, ...]
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send `Woke` at this time; takes the place of every earlier one.

    Attributes:
        at_s: The monotonic time, in seconds.
    """

    at_s: float
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened:
    """Give the session to whoever waits for one.

    Attributes:
        attempt: How many tries it took.
    """

    session: Session
    attempt: int
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost:
    """Withdraw the session: nothing more is called under it.

    Attributes:
        error: The words of the refusal; empty when there were none.
    """

    session: Session
    error: str
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Stop a running job: the controller cancelled it. Told once for each job taken."""

    job_id: JobId
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportJudged:
    """Tell the reporter of a refused report what the refusal was about."""

    job_id: JobId
    verdict: Verdict
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationMissed:
    """Say that a try to register failed.

    Attributes:
        attempt: Which try.
        retry_in_s: Seconds to the next.
    """

    attempt: int
    retry_in_s: float
    code: StatusCode
    error: str
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatMissed:
    """Say that a heartbeat failed; the session lives on.

    Attributes:
        failing_for_s: Seconds since the last accepted one.
    """

    session: Session
    failing_for_s: float
    code: StatusCode
    error: str
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCalls:
    """End the calls under way; their answers no longer matter."""

    cause: Cause


Effect: TypeAlias = (
    Register
    | SendHeartbeat
    | WakeAt
    | SessionOpened
    | SessionLost
    | CancelJob
    | ReportJudged
    | RegistrationMissed
    | HeartbeatMissed
    | EndCalls
)
