"""Rows of the SQLite store and the values that they stand for (ADR 0024)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeAlias

from vmafx.adapters.store.transaction import KeptSession
from vmafx.domain.attempt import Attempt, AttemptOutcome
from vmafx.domain.job import Job, JobId, JobResult, JobSpec, JobStatus
from vmafx.domain.nodesession import Capability, NodeSession
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import Waiting

__all__ = [
    "ANY_BACKEND",
    "JOB_COLUMNS",
    "Row",
    "attempt_changes",
    "attempt_of",
    "attempt_row",
    "instant",
    "job_changes",
    "job_of",
    "job_row",
    "micros",
    "session_of",
    "session_row",
    "waiting_of",
]

Row: TypeAlias = tuple[Any, ...]
"""A row as the driver gives and takes it; the columns are those of the query that it belongs to."""

ANY_BACKEND: Final = ""
"""What the column of the backend holds for a job that runs anywhere."""

JOB_COLUMNS: Final = 21
"""How many columns a job has."""

_SESSIONS_KEPT: Final = 1024
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_STATUSES: Final[Mapping[str, JobStatus]] = {status.value: status for status in JobStatus}
_OUTCOMES: Final[Mapping[str | None, AttemptOutcome | None]] = {
    None: None,
    **{outcome.value: outcome for outcome in AttemptOutcome},
}
_BACKENDS: Final[Mapping[str, Backend | None]] = {
    ANY_BACKEND: None,
    **{backend.value: backend for backend in Backend},
}


def micros(at: datetime) -> int:
    """Return an aware instant in whole microseconds since 1970, exactly."""
    return (at - _EPOCH) // _MICROSECOND


def instant(micros: int) -> datetime:
    """Return the instant that `micros` made a number of, in UTC."""
    return _EPOCH + micros * _MICROSECOND


# ---------------------------------------------------------------- jobs


def job_of(row: Row) -> Job:
    """Return the job that a row holds, in the columns of the query `job`.

    Raises:
        KeyError: A word in it is none of ours.
        ValueError: It is no job.
    """
    return Job(
        id=row[0],
        tenant=row[1],
        status=_STATUSES[row[2]],
        spec=JobSpec(reference=row[3], distorted=row[4], model=row[5], backend=_BACKENDS[row[6]]),
        priority=row[7],
        idempotency_key=row[8],
        max_lost_attempts=row[9],
        created_at=instant(row[10]),
        updated_at=instant(row[11]),
        available_at=instant(row[12]),
        finished_at=_instant_or_none(row[13]),
        attempt=row[14],
        lost_attempts=row[15],
        never_started=row[16],
        assigned_node=row[17],
        result=None if row[18] is None else JobResult(score=row[18], features=json.loads(row[19])),
        error=row[20],
    )


def waiting_of(row: Row) -> Waiting:
    """Return what a row of the query `waiting` tells.

    Raises:
        ValueError: Its backend is none of ours.
    """
    return Waiting(tenant=row[0], backend=Backend(row[1]), pending=row[2])


def job_row(job: Job) -> Row:
    """Return the row of a job, in the columns of the query `add_job`."""
    spec = job.spec
    return (
        job.id,
        job.tenant,
        job.status.value,
        spec.reference,
        spec.distorted,
        spec.model,
        ANY_BACKEND if spec.backend is None else spec.backend.value,
        job.priority,
        job.idempotency_key,
        job.max_lost_attempts,
        micros(job.created_at),
        micros(job.updated_at),
        micros(job.available_at),
        _micros_or_none(job.finished_at),
        job.attempt,
        job.lost_attempts,
        job.never_started,
        job.assigned_node,
        *_result_columns(job.result),
        job.error,
    )


def job_changes(before: Job, after: Job) -> Row:
    """Return what the query `write_job` is told: what may have changed, and what it must still be."""
    return (
        after.status.value,
        micros(after.updated_at),
        micros(after.available_at),
        _micros_or_none(after.finished_at),
        after.attempt,
        after.lost_attempts,
        after.never_started,
        after.assigned_node,
        *_result_columns(after.result),
        after.error,
        before.id,
        before.tenant,
        before.status.value,
        before.attempt,
    )


# ---------------------------------------------------------------- attempts


def attempt_of(row: Row) -> Attempt:
    """Return the attempt that a row holds, in the columns of the query `history` after those of the job.

    Raises:
        KeyError: A word in it is none of ours.
    """
    return Attempt(
        number=row[0],
        node=row[1],
        session=row[2],
        session_registered_at=instant(row[3]),
        first_registered_at=instant(row[4]),
        instance=row[5],
        started_at=instant(row[6]),
        pull_deadline_at=instant(row[7]),
        lease_expires_at=_instant_or_none(row[8]),
        listed=bool(row[9]),
        unlisted_heartbeats=row[10],
        outcome=_OUTCOMES[row[11]],
        ended_at=_instant_or_none(row[12]),
        error=row[13],
    )


def attempt_row(job_id: JobId, attempt: Attempt) -> Row:
    """Return the row of an attempt, in the columns of the query `add_attempt`."""
    return (
        job_id,
        attempt.number,
        attempt.node,
        attempt.session,
        micros(attempt.session_registered_at),
        micros(attempt.first_registered_at),
        attempt.instance,
        micros(attempt.started_at),
        micros(attempt.pull_deadline_at),
        _micros_or_none(attempt.lease_expires_at),
        attempt.listed,
        attempt.unlisted_heartbeats,
        _word(attempt.outcome),
        _micros_or_none(attempt.ended_at),
        attempt.error,
    )


def attempt_changes(job_id: JobId, before: Attempt, after: Attempt) -> Row:
    """Return what the query `write_attempt` is told: what may have changed, and what it must still be."""
    return (
        after.session,
        micros(after.session_registered_at),
        after.instance,
        _micros_or_none(after.lease_expires_at),
        after.listed,
        after.unlisted_heartbeats,
        _word(after.outcome),
        _micros_or_none(after.ended_at),
        after.error,
        job_id,
        before.number,
        before.session,
        _word(before.outcome),
    )


# ---------------------------------------------------------------- sessions


@lru_cache(
    maxsize=_SESSIONS_KEPT
)  # every call of a node shows the same one; to make it costs more than to find it
def session_of(row: Row) -> KeptSession:
    """Return the session that a row holds, in the columns of the query `session`.

    Raises:
        ValueError: It is no session.
    """
    return KeptSession(
        session=NodeSession(
            id=row[0],
            tenant=row[1],
            node=row[2],
            registered_at=instant(row[3]),
            expires_at=instant(row[4]),
            last_heartbeat_at=_instant_or_none(row[5]),
            instance=row[6],
            capability=Capability(
                backends=frozenset(Backend(word) for word in row[7].split(",") if word),
                gpu_vendor=row[8],
                concurrency=row[9],
            ),
        ),
        token_sha256=row[10],
    )


def session_row(kept: KeptSession) -> Row:
    """Return the row of a session, in the columns of the query `add_session`."""
    session = kept.session
    capability = session.capability
    return (
        session.id,
        session.tenant,
        session.node,
        micros(session.registered_at),
        micros(session.expires_at),
        _micros_or_none(session.last_heartbeat_at),
        session.instance,
        ",".join(sorted(backend.value for backend in capability.backends)),
        capability.gpu_vendor,
        capability.concurrency,
        kept.token_sha256,
    )


# ---------------------------------------------------------------- columns


def _result_columns(result: JobResult | None) -> tuple[float | None, str | None]:
    return (None, None) if result is None else (result.score, json.dumps(dict(result.features)))


def _instant_or_none(micros: int | None) -> datetime | None:
    return None if micros is None else instant(micros)


def _micros_or_none(at: datetime | None) -> int | None:
    return None if at is None else micros(at)


def _word(outcome: AttemptOutcome | None) -> str | None:
    return None if outcome is None else outcome.value
