"""Jobs: a client's view of a controller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from vmafx.domain.job import JobId, JobSpec, JobStatus, NodeName
from vmafx.domain.nodesession import Capability

__all__ = ["CancelAnswer", "JobView", "Jobs", "NodeView", "Nodes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as a controller shows it to its owner, at one moment.

    Attributes:
        id: The job.
        status: How far it has come.
        spec: What it asks for; None when the controller shows something that no job can ask for.
        created_at: When it was submitted.
        updated_at: When it last changed.
        assigned_node: The node of the running or last attempt; None when there is none.
        score: The pooled score of a completed job; None before.
        features: The pooled value of each metric by name; None when the controller does not tell.
        error: Why it failed; empty when it did not.
    """

    id: JobId
    status: JobStatus
    spec: JobSpec | None
    created_at: datetime
    updated_at: datetime
    assigned_node: NodeName | None = None
    score: float | None = None
    features: Mapping[str, float] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """The answer to a wish to cancel.

    Attributes:
        ok: Whether the job exists and is the caller's, whatever has become of it.
        message: What the controller says about it.
    """

    ok: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node with a live session.

    Attributes:
        name: What it is called.
        capability: What it can run.
        registered_at: When its session was opened.
        last_heartbeat_at: When its last heartbeat was accepted; None before the first.
        jobs: The jobs that it runs.
    """

    name: NodeName
    capability: Capability
    registered_at: datetime
    last_heartbeat_at: datetime | None
    jobs: tuple[JobId, ...]


class Jobs(Protocol):
    """Takes jobs and shows what became of them.

    Every call is about the tenant of the caller's token. It is tried once, fails with `ControllerError` and
    nothing else, and ends within `timeout_s` or fails with `DEADLINE_EXCEEDED`.
    """

    async def submit(self, spec: JobSpec, *, idempotency_key: str | None = None, timeout_s: float) -> JobId:
        """Hand in a job; when this returns, the controller has stored it.

        Args:
            spec: What is asked for; both clips must lie under the tenant's scoring roots.
            idempotency_key: The same key and the same `spec` give the job of the first call, also when its
                answer was lost. Controllers that do not know keys store a job for every call.
            timeout_s: How long the call may take, in seconds.

        Returns:
            The job's id.

        Raises:
            ControllerError: `PERMISSION_DENIED` for clips outside the roots, `ALREADY_EXISTS` for a key that
                was used with another `spec`, `RESOURCE_EXHAUSTED` when the tenant has too many waiting, and
                whatever else a call can fail with.
        """
        ...

    async def get(self, job_id: JobId, *, timeout_s: float) -> JobView:
        """Return a job.

        Args:
            job_id: The job.
            timeout_s: How long the call may take, in seconds.

        Raises:
            ControllerError: `NOT_FOUND` when there is none, `PERMISSION_DENIED` when it is another tenant's.
        """
        ...

    async def cancel(self, job_id: JobId, *, timeout_s: float) -> CancelAnswer:
        """Cancel a job that has not ended; one that has is left as it is, and that is no error.

        Args:
            job_id: The job.
            timeout_s: How long the call may take, in seconds.

        Raises:
            ControllerError: `NOT_FOUND` when there is none, `PERMISSION_DENIED` when it is another tenant's.
        """
        ...

    def listed(
        self, statuses: frozenset[JobStatus] = frozenset(), *, timeout_s: float
    ) -> AsyncIterator[JobView]:
        """Iterate over all jobs, the oldest first, then end; each is as it was at an instant meanwhile.

        Args:
            statuses: Only these; none means all.
            timeout_s: How long the whole may take, in seconds.

        Raises:
            ControllerError: While iterating: the call failed.
        """
        ...

    def followed(self, statuses: frozenset[JobStatus] = frozenset()) -> AsyncIterator[JobView]:
        """Iterate over the jobs as they are, then over each job that changes, until the caller stops.

        A job that changes twice in quick succession may be shown once; its last state is always shown.

        Args:
            statuses: Only these; none means all.

        Raises:
            ControllerError: While iterating: the connection ended; beginning again misses no last state.
                `UNIMPLEMENTED` when the controller shows no changes.
        """
        ...


class Nodes(Protocol):
    """Shows the nodes of the tenant of the caller's token; calls fail as those of `Jobs` do."""

    async def nodes(self, *, timeout_s: float) -> tuple[NodeView, ...]:
        """Return the tenant's nodes that have a live session, the earliest registered first.

        Args:
            timeout_s: How long the call may take, in seconds.

        Raises:
            ControllerError: `UNIMPLEMENTED` when the controller does not show them.
        """
        ...
