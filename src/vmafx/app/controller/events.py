"""What a controller says in its log: fixed messages to search for, values as fields (ADR 0025)."""

from __future__ import annotations

from typing import Final

from vmafx.domain.job import Job
from vmafx.domain.text import bounded
from vmafx.ports.telemetry import Fields

__all__ = [
    "AWAY",
    "BACKEND_UNSERVED",
    "JOBS_PURGED",
    "JOB_ASSIGNED",
    "JOB_CANCELLED",
    "JOB_COMPLETED",
    "JOB_FAILED",
    "JOB_REQUEUED",
    "JOB_SUBMITTED",
    "JOB_TAKEN_OVER",
    "METRICS_READ_FAILED",
    "NAME_SHARED",
    "NODE_REGISTERED",
    "REPORT_REFUSED",
    "ROOTS_FAILED",
    "SESSION_ENDED",
    "STARTED",
    "STOPPED",
    "STOPPING",
    "STORE_FAILED",
    "STORE_WORKS_AGAIN",
    "SUBMISSIONS_REFUSED",
    "SWEEPER_DIED",
    "TAKE_BACK_FAILED",
    "UPKEEP_FAILED",
    "about_job",
    "seconds",
    "shown_id",
]

JOB_SUBMITTED: Final = "job submitted"
JOB_ASSIGNED: Final = "job assigned"
JOB_COMPLETED: Final = "job completed"
JOB_FAILED: Final = "job failed"
JOB_CANCELLED: Final = "job cancelled"
JOB_REQUEUED: Final = "job requeued"
JOB_TAKEN_OVER: Final = "job taken over by a newer session of its node"
NODE_REGISTERED: Final = "node registered"
NAME_SHARED: Final = "two nodes live under one name"
SESSION_ENDED: Final = "session of a node ended"
REPORT_REFUSED: Final = "report refused: the job is not the node's"
TAKE_BACK_FAILED: Final = "assignment not taken back; heartbeats will find it"
ROOTS_FAILED: Final = "scoring roots cannot be computed; the job is sent without any"
STORE_FAILED: Final = "store failed"
METRICS_READ_FAILED: Final = "metrics of the queue not read"
AWAY: Final = "the controller was away; sessions and leases last anew"
BACKEND_UNSERVED: Final = "jobs wait for a backend that no live node runs"
JOBS_PURGED: Final = "jobs deleted that ended long ago"
STARTED: Final = "controller started"
STOPPED: Final = "controller stopped"
STOPPING: Final = "controller is stopping"
STORE_WORKS_AGAIN: Final = "store works again"
SUBMISSIONS_REFUSED: Final = "job refused: its clips lie below no scoring root"
SWEEPER_DIED: Final = "sweeper died; the controller stops"
UPKEEP_FAILED: Final = "upkeep failed; attempts that are lost stay as they are until it works"

_ID_SHOWN_BYTES_MAX: Final = 512
_ID_SURELY_SHORT: Final = 128  # characters; none takes more than four bytes


def about_job(job: Job, fields: Fields | None = None) -> Fields:
    """Return the fields of a line about a job: whose and which it is, then `fields`."""
    return {"tenant": shown_id(job.tenant), "job_id": shown_id(job.id), **(fields or {})}


def shown_id(name: str) -> str:
    """Return an id or a name as the log shows it: an overlong one is cut."""
    return name if len(name) <= _ID_SURELY_SHORT else bounded(name, _ID_SHOWN_BYTES_MAX)


def seconds(duration_s: float) -> float:
    """Return a duration as the log shows it: seconds, to the millisecond."""
    return round(duration_s, 3)
