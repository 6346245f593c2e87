"""A job: what was asked for, how far it has come, who may run it next and in which order (ADR 0012)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, NewType

from vmafx.domain.scoring import Backend, finite
from vmafx.domain.text import has_control

__all__ = [
    "HEARTBEAT_JOBS_MAX",
    "ID_BYTES_MAX",
    "LOST_ATTEMPTS_MAX",
    "NODE_NAME_BYTES_MAX",
    "Job",
    "JobCursor",
    "JobId",
    "JobResult",
    "JobSpec",
    "JobStatus",
    "NodeName",
    "RequeueReason",
    "SessionId",
    "TenantId",
    "claimable",
    "next_claimable",
    "node_name_problem",
    "same_submission",
]

JobId = NewType("JobId", str)
"""Names a job; opaque."""
TenantId = NewType("TenantId", str)
"""Names a tenant; opaque, compared exactly, never empty."""
NodeName = NewType("NodeName", str)
"""The name that a node registers with; several sessions may carry it, one after another or at once."""
SessionId = NewType("SessionId", str)
"""Names a session of a node; on the wire it is the `node_id`. Opaque."""

ID_BYTES_MAX: Final = 256
"""Longest id of a job or of a session, in bytes of UTF-8."""
NODE_NAME_BYTES_MAX: Final = 256
"""Longest name of a node, in bytes of UTF-8."""
HEARTBEAT_JOBS_MAX: Final = 64
"""How many jobs a heartbeat may list, and so how many a node may run at once."""
LOST_ATTEMPTS_MAX: Final = 3
"""How many attempts of a job may be lost; the last of them fails it."""


def node_name_problem(name: str) -> str | None:
    """Return why nothing can be registered under a name, in words for its node; None when it can be."""
    if not name:
        return "node name is required"
    length = len(name.encode(errors="surrogatepass"))
    if length > NODE_NAME_BYTES_MAX:
        return f"node name has {length} bytes, at most {NODE_NAME_BYTES_MAX} are accepted"
    return "node name holds a control character" if has_control(name) else None


class JobStatus(Enum):
    """How far a job has come; the values are the stored words."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended; an ended job never changes again."""
        return self in _TERMINAL


_TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})


class RequeueReason(Enum):
    """Why a running job went back to pending; the values are the labels of its metric."""

    NODE_LOST = "node_lost"
    """The session of its node ended."""
    LEASE_EXPIRED = "lease_expired"
    """Its node lives but no longer spoke for it."""
    NEVER_STARTED = "never_started"
    """Its node lives and never began it: the answer that assigned it was lost."""
    RETRYABLE_FAILURE = "retryable_failure"
    """It failed for a reason that another node may not meet."""
    RELEASED = "released"
    """Its node gave it back."""
    ASSIGN_ROLLBACK = "assign_rollback"
    """Its node was gone before it could be told of the assignment."""
    CONTROLLER_RESTART = "controller_restart"
    """Never counted: leases and sessions outlive a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What a job asks for; it never changes.

    Attributes:
        reference: The clip that the other is compared with, as its owner wrote it.
        distorted: The clip that is scored, as its owner wrote it.
        model: The model's name; None means the scorer's default.
        backend: The backend that a node must have; None means that any node will do.

    Raises:
        ValueError: A clip is not named.
    """

    reference: str
    distorted: str
    model: str | None = None
    backend: Backend | None = None

    def __post_init__(self) -> None:
        if not (self.reference and self.distorted):
            raise ValueError("reference and distorted paths are required")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """What a job found; every number in it is finite.

    Attributes:
        score: The pooled score.
        features: The pooled value of each metric by name.

    Raises:
        NotFiniteError: The score or a feature is no finite number; names it.
    """

    score: float
    features: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        finite("score", self.score)
        for name, value in self.features.items():
            finite(f"feature {name}", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCursor:
    """A place in a listing of jobs, which goes by submission, oldest first.

    Attributes:
        created_at: When the job at this place was submitted.
        job_id: Its id; decides, by code point, between jobs of the same instant.
    """

    created_at: datetime
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as a store keeps it, without its attempts.

    Attributes:
        id: Its name, given at submission.
        tenant: Whose it is.
        spec: What it asks for.
        created_at: When it was submitted; decides its place in the queue, however often it is requeued.
        updated_at: When it last changed; renewals of a lease are no change. Never goes back.
        available_at: From when on it may be claimed while it is pending.
        priority: Higher is claimed earlier.
        idempotency_key: The submitter's own name for the submission, unique within the tenant; None when
            there is none.
        status: How far it has come.
        attempt: The number of its latest attempt, 0 before the first; it only grows.
        lost_attempts: How many attempts count as lost.
        max_lost_attempts: At how many lost attempts it fails, at least 1.
        never_started: How many attempts went back because their node never began.
        assigned_node: The node that runs it, or ran it when it ended; None while it is pending, and when it
            was cancelled then.
        result: What it found; set exactly when it is completed.
        error: Why it failed; set exactly when it failed.
        finished_at: When it ended; set exactly when it has.

    Raises:
        ValueError: The tenant or the id is empty, an instant is not aware, or `max_lost_attempts` is below 1.
    """

    id: JobId
    tenant: TenantId
    spec: JobSpec
    created_at: datetime
    updated_at: datetime
    available_at: datetime
    priority: int = 0
    idempotency_key: str | None = None
    status: JobStatus = JobStatus.PENDING
    attempt: int = 0
    lost_attempts: int = 0
    max_lost_attempts: int = LOST_ATTEMPTS_MAX
    never_started: int = 0
    assigned_node: NodeName | None = None
    result: JobResult | None = None
    error: str | None = None
    finished_at: datetime | None = None

    def __post_init__(self) -> None:
        if not (self.id and self.tenant):
            raise ValueError("a job needs an id and a tenant")
        if self.created_at.tzinfo is None:
            raise ValueError(f"created_at={self.created_at} must name its time zone")
        if self.max_lost_attempts < 1:
            raise ValueError(f"max_lost_attempts={self.max_lost_attempts} must be at least 1")

    @classmethod
    def submitted(  # noqa: PLR0913 -- one argument per thing that a submission says
        cls,
        *,
        job_id: JobId,
        tenant: TenantId,
        spec: JobSpec,
        at: datetime,
        priority: int = 0,
        idempotency_key: str | None = None,
        max_lost_attempts: int = LOST_ATTEMPTS_MAX,
    ) -> Job:
        """Return a job that was submitted just now: pending, and available at once.

        Args:
            job_id: A name that no other job has.
            tenant: Whose it is.
            spec: What it asks for.
            at: The instant of the submission, aware.
            priority: Higher is claimed earlier.
            idempotency_key: The submitter's own name for the submission; None for none.
            max_lost_attempts: At how many lost attempts it fails, at least 1.

        Raises:
            ValueError: The tenant or the id is empty, `at` is not aware, or `max_lost_attempts` is below 1.
        """
        return cls(
            id=job_id,
            tenant=tenant,
            spec=spec,
            created_at=at,
            updated_at=at,
            available_at=at,
            priority=priority,
            idempotency_key=idempotency_key,
            max_lost_attempts=max_lost_attempts,
        )

    @property
    def on_last_try(self) -> bool:
        """Whether one more lost attempt fails it."""
        return self.lost_attempts + 1 >= self.max_lost_attempts

    @property
    def cursor(self) -> JobCursor:
        """Its place in a listing."""
        return JobCursor(created_at=self.created_at, job_id=self.id)


def claimable(job: Job, *, tenant: TenantId, backends: frozenset[Backend], at: datetime) -> bool:
    """Return whether a node of `tenant` that runs `backends` may claim the job at `at`.

    The job must be pending and available: from the instant `available_at` on, that instant included. One
    that names a backend goes only to a node that lists it; a node that lists none gets only jobs that name
    none.
    """
    return (
        job.status is JobStatus.PENDING
        and job.tenant == tenant
        and job.available_at <= at
        and (job.spec.backend is None or job.spec.backend in backends)
    )


def next_claimable(
    jobs: Iterable[Job], *, tenant: TenantId, backends: frozenset[Backend], at: datetime
) -> Job | None:
    """Return the job that such a node gets: of those it may claim, the first in the order of the queue.

    The order is priority, highest first, then `created_at`, then the id by code point. Jobs that the node
    cannot run are skipped and keep their place.

    Returns:
        The job; None when there is none.
    """
    fitting = (job for job in jobs if claimable(job, tenant=tenant, backends=backends, at=at))
    return min(fitting, key=lambda job: (-job.priority, job.created_at, job.id), default=None)


def same_submission(job: Job, other: Job) -> bool:
    """Return whether two submissions under one idempotency key ask for the same thing."""
    return job.spec == other.spec and job.priority == other.priority
