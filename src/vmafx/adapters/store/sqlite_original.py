"""The original platform's table of jobs, taken over (ADR 0024)."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from vmafx.adapters.store.sqlite_books import SqliteTransaction
from vmafx.adapters.store.sqlite_values import Row, instant
from vmafx.domain.errors import NotFiniteError
from vmafx.domain.job import Job, JobId, JobResult, JobSpec, JobStatus, NodeName, TenantId
from vmafx.domain.scoring import Backend

__all__ = ["COPY_SUFFIX", "Imported", "keep_copy", "move_aside", "take_over"]

COPY_SUFFIX: Final = ".original"
"""What the copy of the original's file is called, after the name of the file itself."""

_ASIDE: Final = "original_jobs"
_SECOND_US: Final = 1_000_000
_READ: Final = f"""
SELECT id, status, scoring, assigned_node, score, features, error, {{tenant}}, created_at, updated_at
  FROM {_ASIDE}
 ORDER BY created_at, rowid
"""  # noqa: S608 -- names of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What was taken over from the original's table.

    Attributes:
        jobs: How many jobs.
        requeued: How many of them ran, and are pending now.
        left_out: How many rows could not be understood; the copy of the file still has them.
    """

    jobs: int = 0
    requeued: int = 0
    left_out: int = 0


def keep_copy(connection: sqlite3.Connection, path: str) -> str:
    """Copy the original's file as it is, so that there is a way back; an older copy is replaced.

    Args:
        connection: The file's connection, in no transaction.
        path: The file.

    Returns:
        Where the copy lies.

    Raises:
        sqlite3.Error: It could not be written; nothing is left of it.
        OSError: The same.
    """
    copy, unfinished = path + COPY_SUFFIX, Path(f"{path}{COPY_SUFFIX}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            connection.execute("VACUUM INTO ?", (str(unfinished),))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(copy)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    return copy


def move_aside(connection: sqlite3.Connection) -> None:
    """Clear the names that our tables need; to be called in a transaction.

    Raises:
        sqlite3.Error: It could not be done.
    """
    connection.execute(f"ALTER TABLE jobs RENAME TO {_ASIDE}")
    indexes = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (_ASIDE,)
    ).fetchall()
    for (name,) in indexes:
        quoted_name = name.replace('"', '""')
        connection.execute(f'DROP INDEX "{quoted_name}"')


def take_over(connection: sqlite3.Connection, *, tenantless: TenantId) -> Imported:
    """Fill our tables from the one that was moved aside, and remove that; to be called in a transaction.

    Jobs that ran are pending again, at their old place. Ended ones stay as they are.

    Args:
        connection: The file's connection.
        tenantless: Whose the jobs without a tenant are.

    Raises:
        sqlite3.Error: It could not be done.
    """
    books = SqliteTransaction(connection)
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info({_ASIDE})")}
    query = _READ.format(tenant="tenant_id" if "tenant_id" in columns else "''")
    jobs = requeued = left_out = 0
    for row in connection.execute(query):
        try:
            job = _job(row, tenantless)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
            left_out += 1
            continue
        books.add_job(job)
        jobs += 1
        requeued += row[1].lower() == JobStatus.RUNNING.value
    connection.execute(f"DROP TABLE {_ASIDE}")
    return Imported(jobs=jobs, requeued=requeued, left_out=left_out)


def _job(row: Row, tenantless: TenantId) -> Job:
    """Return the job that a row of the original stands for.

    Raises:
        KeyError: Something is missing in it.
        TypeError: Something in it is of another kind.
        AttributeError: The same.
        ValueError: Something in it is not to be understood.
        OverflowError: A time in it is none.
    """
    job_id, word, scoring, node, score, features, error, tenant, created, updated = row
    created_at, updated_at = _instant(created), _instant(max(created, updated))
    status, result, why = _ending(JobStatus(word.lower()), score, features, error)
    return Job(
        id=JobId(_text(job_id)),
        tenant=TenantId(_text(tenant or tenantless)),
        spec=_spec(scoring),
        created_at=created_at,
        updated_at=updated_at,
        available_at=created_at,
        status=status,
        assigned_node=NodeName(_text(node)) if node and status.terminal else None,
        result=result,
        error=why,
        finished_at=updated_at if status.terminal else None,
    )


def _ending(
    status: JobStatus, score: object, features: str | None, error: str | None
) -> tuple[JobStatus, JobResult | None, str | None]:
    """Return how far the job has come for us, with its result and its error."""
    match status:
        case JobStatus.RUNNING | JobStatus.PENDING:
            return JobStatus.PENDING, None, None
        case JobStatus.COMPLETED:
            return _result(score, features)
        case JobStatus.FAILED:
            return status, None, error or "failed without an error text"
        case JobStatus.CANCELLED:
            return status, None, None


def _result(score: object, features: str | None) -> tuple[JobStatus, JobResult | None, str | None]:
    """Return the ending of a completed job; one whose numbers are none failed, by our rule."""
    if not isinstance(score, float):  # SQLite keeps NaN as NULL
        return JobStatus.FAILED, None, "completed without a finite score"
    found: dict[str, float] = (json.loads(features) if features else None) or {}
    try:
        return JobStatus.COMPLETED, JobResult(score=score, features=found), None
    except NotFiniteError as error:
        return JobStatus.FAILED, None, str(error)


def _spec(scoring: str) -> JobSpec:
    asked: dict[str, Any] = json.loads(scoring)
    backend = asked.get("backend")
    return JobSpec(
        reference=_text(asked["reference"]),
        distorted=_text(asked["distorted"]),
        model=_text(asked["model"]) if asked.get("model") else None,
        backend=Backend(backend) if backend else None,
    )


def _instant(seconds: int) -> datetime:
    return instant(seconds * _SECOND_US)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    value.encode()
    return value
