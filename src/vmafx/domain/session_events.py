"""What can happen to a node's session (ADR 0013).

An event that answers an effect repeats its number: the `attempt` of a `Register`, the `beat` of a
`SendHeartbeat`. One that is about a session carries its `generation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from vmafx.domain.job import JobId
from vmafx.domain.retry import StatusCode

__all__ = [
    "Event",
    "HeartbeatAccepted",
    "HeartbeatFailed",
    "HeartbeatRefused",
    "JobReleased",
    "JobReporting",
    "JobTaken",
    "PullRefused",
    "RegisterFailed",
    "Registered",
    "ReportRefused",
    "SessionEvent",
    "Started",
    "StopAsked",
    "Woke",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The node wants a session from now on.

    Attributes:
        now_s: The monotonic time, in seconds; the same in every event.
    """

    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Woke:
    """The time of the last `WakeAt` has come; waking too early or once too often is harmless."""

    now_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The controller answered `Register`.

    Attributes:
        attempt: The number of the `Register` that is answered.
        unit: Chance: a number from 0 to 1.
        node_id: As answered; an empty or overlong one makes this a failed try.
        session_token: As answered; an empty one makes this a failed try.
    """

    now_s: float
    attempt: int
    unit: float
    node_id: str
    session_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterFailed:
    """The call of `Register` failed.

    Attributes:
        attempt: The number of the `Register` that failed.
        unit: Chance: a number from 0 to 1.
    """

    now_s: float
    attempt: int
    unit: float
    code: StatusCode
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAccepted:
    """The controller answered `SendHeartbeat` with `ok=true`.

    Attributes:
        generation: The session of the heartbeat.
        beat: The number of the heartbeat.
        cancel_job_ids: What the controller named as cancelled, as answered.
    """

    now_s: float
    generation: int
    beat: int
    cancel_job_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRefused:
    """The controller answered `SendHeartbeat` with `ok=false`."""

    now_s: float
    generation: int
    beat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFailed:
    """The call of `SendHeartbeat` failed."""

    now_s: float
    generation: int
    beat: int
    code: StatusCode
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRefused:
    """A pull was refused with `PERMISSION_DENIED`.

    Attributes:
        generation: The session that the pull was made under.
    """

    now_s: float
    generation: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRefused:
    """A report was refused with `PERMISSION_DENIED`; `ReportJudged` will answer.

    Attributes:
        generation: The session that the report was made under.
        job_id: The job of the report.
    """

    now_s: float
    generation: int
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTaken:
    """A slot holds a job from now on."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReporting:
    """A held job has ended and its report begins; it can no longer be cancelled."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """A slot is done with a job, its report delivered, set aside or given up."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """The node ends; asked once its slots have ended, since their reports need a session."""


SessionEvent: TypeAlias = HeartbeatAccepted | HeartbeatRefused | HeartbeatFailed | PullRefused | ReportRefused
"""Events that carry the generation of the session they are about."""

Event: TypeAlias = (
    Started
    | Woke
    | Registered
    | RegisterFailed
    | SessionEvent
    | JobTaken
    | JobReporting
    | JobReleased
    | StopAsked
)
