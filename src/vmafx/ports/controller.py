"""Controller: a node's view of whoever hands out work (ADR 0013)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from vmafx.domain.job import JobId, NodeName, SessionId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Report
from vmafx.domain.session_state import Session

__all__ = ["Assignment", "Controller", "Desk", "HeartbeatAnswer", "NodeIdentity", "Registration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """Who registers.

    Attributes:
        name: What the node is called; it keeps this over its sessions and over restarts.
        instance: What this process of it is called; None when it does not say.
    """

    name: NodeName
    instance: InstanceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The answer to a registration, as it came: either may be empty, and then no session was opened.

    Attributes:
        node_id: The controller's name for the session; opaque.
        session_token: Its secret; never shown.
    """

    node_id: SessionId
    session_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """The answer to a heartbeat.

    Attributes:
        ok: Whether it was accepted; if not, the controller does not know the session.
        cancel_job_ids: Jobs that were cancelled, as they came: opaque, and possibly none that was listed.
    """

    ok: bool
    cancel_job_ids: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A job for this node, as it came: nothing in it was checked, and what cannot be run is reported so.

    Attributes:
        job_id: The job; opaque, never part of a path.
        reference: The clip that the other is compared with; empty when the answer has none.
        distorted: The clip that is scored; empty when the answer has none.
        model: The model's name; empty means the scorer's default.
        backend: The backend that must be used; empty means the node's own.
        scoring_roots: The prefixes that both clips must lie under; none means that none is admitted.
        attempt: The number of the attempt, to be repeated with every report of it; None when the controller
            does not tell.
    """

    job_id: JobId
    reference: str = ""
    distorted: str = ""
    model: str = ""
    backend: str = ""
    scoring_roots: tuple[str, ...] = ()
    attempt: int | None = None


class Controller(Protocol):
    """Hands out work and takes results.

    For every call:

    - It is tried once. Whether and when to try again is the caller's decision.
    - It ends within `timeout_s`, waiting for work included, or fails with `DEADLINE_EXCEEDED`.
    - It fails with `ControllerError` and nothing else; a bearer token that cannot be had is
      `UNAUTHENTICATED`, an answer that cannot be read is `INTERNAL`.
    - After a failure that is `retryable`, and after a cancellation, it may have taken effect or not.
    - Calls may run side by side, under one session or several.
    """

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        """Open a session.

        It differs from every other, also of the same node name, and ends none of them.

        Args:
            identity: Who registers.
            capability: What the node can run, for people to see.
            timeout_s: How long the call may take, in seconds.

        Raises:
            ControllerError: The call failed; `INVALID_ARGUMENT` when the name is empty.
        """
        ...

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        """Keep the session, and the leases of the listed jobs.

        Args:
            session: The session to keep.
            heartbeat: The jobs held, and their number, taken at one moment.
            timeout_s: How long the call may take, in seconds.

        Returns:
            Whether it was accepted, and which of the listed jobs were cancelled; a job is named in every
            answer to a heartbeat that lists it.

        Raises:
            ControllerError: The call failed; `PERMISSION_DENIED` says that the session is not valid.
        """
        ...

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        """Ask for one job.

        The controller may hold the answer back for a while when it has none. Each job goes to one caller; if
        the answer is lost, later heartbeats that do not list the job give it back.

        Args:
            session: The session that the job will be held under.
            capability: What the node can run now; this decides what it gets.
            timeout_s: How long the call may take, in seconds.

        Returns:
            The job; None when there is nothing to do.

        Raises:
            ControllerError: The call failed; `PERMISSION_DENIED` says that the session is not valid.
        """
        ...

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        """Tell how a job ended, or how far it has come.

        The first success of a job counts, under this session or a later one of the same node name; telling it
        again, or telling of a job that has ended, changes nothing and is no error.

        Args:
            session: The session that is current now; it need not be the one the job was pulled under.
            job_id: The job, as it was assigned.
            report: A result, a failure or partial scores, with the attempt's number if it was told.
            timeout_s: How long the call may take, in seconds.

        Raises:
            ControllerError: The call failed. `PERMISSION_DENIED` says that the session is not valid, or that
                the job is not this node's to report; an answer that says `ok=false` is
                `FAILED_PRECONDITION`.
        """
        ...


class Desk(Controller, Protocol):
    """A controller as the one who carries its answers to nodes sees it."""

    async def take_back(self, session: Session, assignment: Assignment) -> None:
        """Undo a pull whose answer did not reach its node: the job is pending again, nothing counts as lost.

        Nothing changes when the attempt is no longer the one that runs; what cannot be undone, heartbeats
        find later.

        Args:
            session: The session that pulled.
            assignment: What the pull returned.
        """
        ...
