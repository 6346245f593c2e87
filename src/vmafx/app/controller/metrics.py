"""The metrics of a controller: every family that it serves, declared once (ADR 0025)."""

from __future__ import annotations

from typing import Final

from vmafx.domain.job import JobStatus, RequeueReason
from vmafx.ports.metrics import HEALTH_REQUESTS, LABEL_NONE, READY_REQUESTS, Kind, MetricFamily

__all__ = [
    "BUILD_INFO",
    "CONTROLLER_FAMILIES",
    "JOBS_CANCELLED",
    "JOBS_COMPLETED",
    "JOBS_FAILED",
    "JOBS_PENDING",
    "JOBS_REQUEUED",
    "JOBS_RUNNING",
    "JOBS_SUBMITTED",
    "JOB_DURATION",
    "MODELS_MAX",
    "NODES_LIVE",
    "OLDEST_JOB_AGE",
    "QUALITY_SCORE",
    "QUEUE_WAIT",
    "READ_ERRORS",
    "SCORE_DURATION",
    "SCORE_ERRORS",
    "SCORE_REQUESTS",
    "SOURCE_QUEUE",
    "TENANTS_MAX",
]

TENANTS_MAX: Final = 256
"""How many tenants are kept apart; the later ones are `other`."""
MODELS_MAX: Final = 64
"""How many models are kept apart; the later ones are `other`."""

BUILD_INFO: Final = "vmafx_build_info"
READ_ERRORS: Final = "vmafx_metrics_read_errors_total"
SOURCE_QUEUE: Final = "queue"
"""The source of `READ_ERRORS` that stands for the store."""
SCORE_REQUESTS: Final = "vmafx_server_score_requests_total"
SCORE_ERRORS: Final = "vmafx_server_score_errors_total"
SCORE_DURATION: Final = "vmafx_server_score_duration_seconds"
JOBS_SUBMITTED: Final = "vmafx_controller_jobs_submitted_total"
JOBS_COMPLETED: Final = "vmafx_controller_jobs_completed_total"
JOBS_FAILED: Final = "vmafx_controller_jobs_failed_total"
JOBS_CANCELLED: Final = "vmafx_controller_jobs_cancelled_total"
JOBS_REQUEUED: Final = "vmafx_controller_jobs_requeued_total"
JOBS_PENDING: Final = "vmafx_controller_jobs_pending"
JOBS_RUNNING: Final = "vmafx_controller_jobs_running"
OLDEST_JOB_AGE: Final = "vmafx_controller_queue_oldest_job_age_seconds"
NODES_LIVE: Final = "vmafx_controller_nodes_live"
QUEUE_WAIT: Final = "vmafx_controller_job_queue_wait_seconds"
JOB_DURATION: Final = "vmafx_controller_job_duration_seconds"
QUALITY_SCORE: Final = "vmafx_quality_score"

_TENANTS: Final = {"tenant": TENANTS_MAX}
_REQUEST_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_JOB_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
_SCORES: Final = (
    20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 88.0, 90.0, 92.0, 94.0, 96.0, 98.0, 100.0,
)  # fmt: skip


def _counter(name: str, told: str) -> MetricFamily:
    return MetricFamily(name=name, kind=Kind.COUNTER, help=told)


def _by_tenant(name: str, kind: Kind, told: str, *, merged_by_max: bool = False) -> MetricFamily:
    return MetricFamily(
        name=name, kind=kind, help=told, labels=("tenant",), limits=_TENANTS, merged_by_max=merged_by_max
    )


CONTROLLER_FAMILIES: Final[tuple[MetricFamily, ...]] = (
    MetricFamily(
        name=BUILD_INFO,
        kind=Kind.GAUGE,
        help="Constant 1, labelled with the version that runs.",
        labels=("version",),
        limits={"version": 1},
    ),
    MetricFamily(
        name=READ_ERRORS,
        kind=Kind.COUNTER,
        help="Scrapes that could not read a source; its families are absent from their answers.",
        labels=("source",),
        closed={"source": (SOURCE_QUEUE,)},
    ),
    _counter(SCORE_REQUESTS, "Direct requests for a score."),
    _counter(SCORE_ERRORS, "Direct requests for a score that failed."),
    MetricFamily(
        name=SCORE_DURATION,
        kind=Kind.HISTOGRAM,
        help="How long direct requests took that reached the scorer, in seconds.",
        buckets=_REQUEST_S,
    ),
    _counter(HEALTH_REQUESTS, "Questions whether the process lives."),
    _counter(READY_REQUESTS, "Questions whether the process is ready."),
    _by_tenant(JOBS_SUBMITTED, Kind.COUNTER, "Jobs that were stored."),
    _by_tenant(JOBS_COMPLETED, Kind.COUNTER, "Jobs that were completed."),
    _by_tenant(JOBS_FAILED, Kind.COUNTER, "Jobs that failed, by a report or by their last lost attempt."),
    _by_tenant(JOBS_CANCELLED, Kind.COUNTER, "Jobs that were cancelled."),
    MetricFamily(
        name=JOBS_REQUEUED,
        kind=Kind.COUNTER,
        help="Times that a running job went back to pending, by reason.",
        labels=("reason",),
        closed={"reason": tuple(reason.value for reason in RequeueReason)},
    ),
    _by_tenant(JOBS_PENDING, Kind.GAUGE, "Jobs that are pending."),
    _by_tenant(JOBS_RUNNING, Kind.GAUGE, "Jobs that run."),
    _by_tenant(
        OLDEST_JOB_AGE,
        Kind.GAUGE,
        "How long ago the oldest pending job was submitted, in seconds.",
        merged_by_max=True,
    ),
    MetricFamily(name=NODES_LIVE, kind=Kind.GAUGE, help="Sessions of nodes that are live."),
    MetricFamily(
        name=QUEUE_WAIT,
        kind=Kind.HISTOGRAM,
        help="How long jobs waited for each assignment, in seconds, from when they could be claimed.",
        labels=("tenant",),
        limits=_TENANTS,
        buckets=_JOB_S,
    ),
    MetricFamily(
        name=JOB_DURATION,
        kind=Kind.HISTOGRAM,
        help="How long jobs took from submission to end, in seconds, by how they ended.",
        labels=("tenant", "outcome"),
        closed={"outcome": tuple(status.value for status in JobStatus if status.terminal)},
        limits=_TENANTS,
        buckets=_JOB_S,
    ),
    MetricFamily(
        name=QUALITY_SCORE,
        kind=Kind.HISTOGRAM,
        help="Pooled scores of completed jobs.",
        labels=("tenant", "model", "profile"),
        closed={"profile": (LABEL_NONE,)},
        limits={"tenant": TENANTS_MAX, "model": MODELS_MAX},
        buckets=_SCORES,
    ),
)
"""Every family, in the order in which they are documented."""
