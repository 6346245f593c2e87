"""The states of a node's session, and what they hold (ADR 0013)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

from vmafx.domain.backoff import Backoff
from vmafx.domain.job import JobId, SessionId

__all__ = [
    "InSession",
    "New",
    "NoSession",
    "Phase",
    "Session",
    "State",
    "Stopping",
    "Work",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What registering opened.

    Attributes:
        generation: The node's own number of it, from 1; it never goes back.
        node_id: The controller's name for it; opaque.
        session_token: Its secret; never shown.
    """

    generation: int
    node_id: SessionId
    session_token: str = field(repr=False)


class Work(Enum):
    """How far a job that the node holds has come."""

    RUNNING = "running"
    """It is being prepared or scored."""
    CANCELLING = "cancelling"
    """The controller cancelled it; it is being stopped."""
    REPORTING = "reporting"
    """It has ended; its report is under way."""


class Phase(Enum):
    """Where the session stands."""

    NEW = "new"
    NO_SESSION = "no session"
    SESSION = "session"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """Nothing was started."""

    phase: ClassVar[Phase] = Phase.NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSession:
    """The node registers, or waits to.

    Attributes:
        generation: The last session's; 0 before the first.
        jobs: The jobs held; losing a session stops none of them.
        attempt: The number of the try to register that is under way or waited for, from 1.
        backoff: The waits between tries.
        due_s: When the try is due, in monotonic seconds; None while it is under way.
    """

    phase: ClassVar[Phase] = Phase.NO_SESSION
    generation: int
    jobs: Mapping[JobId, Work]
    attempt: int
    backoff: Backoff
    due_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InSession:
    """The node has a session and beats.

    Attributes:
        session: The session.
        jobs: The jobs held.
        accepted_at_s: When the last heartbeat was accepted, the registration counting as one, in monotonic
            seconds.
        due_s: When the next heartbeat is due, in monotonic seconds.
        beat: The number of the last heartbeat sent in this session; 0 before the first.
        in_flight: Whether that heartbeat is still unanswered.
        judging: Refused reports by job, each with the number of the heartbeat that will judge it.
        backoff: The waits between tries to register, for when this session is lost.
        relapse_wait_s: How long to wait before registering again if this session is lost, in seconds. Above
            0 until a heartbeat is accepted: a controller that takes registrations and refuses heartbeats is
            not hammered.
        unclaimed: The jobs that were held when it was opened; none once a heartbeat is accepted.
    """

    phase: ClassVar[Phase] = Phase.SESSION
    session: Session
    jobs: Mapping[JobId, Work]
    accepted_at_s: float
    due_s: float
    beat: int
    in_flight: bool
    judging: Mapping[JobId, int]
    backoff: Backoff
    relapse_wait_s: float
    unclaimed: frozenset[JobId]

    @property
    def generation(self) -> int:
        """The session's generation."""
        return self.session.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """No call is made any more; late events are heard and change nothing.

    Attributes:
        generation: The last session's; 0 when there was none.
        jobs: The jobs still held.
    """

    phase: ClassVar[Phase] = Phase.STOPPING
    generation: int
    jobs: Mapping[JobId, Work]


State: TypeAlias = New | NoSession | InSession | Stopping
