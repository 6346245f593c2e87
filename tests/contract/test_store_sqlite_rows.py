"""What the tables of the SQLite store hold and what they refuse, whoever writes (ADR 0024)."""

from __future__ import annotations

import sqlite3

import pytest

from tests.contract.store_sqlite_harness import desk_at, open_store, raw
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.job import JobStatus

ENDED = {
    JobStatus.COMPLETED: {"finished_us": 1, "score": 1.0, "features": "{}"},
    JobStatus.FAILED: {"finished_us": 1, "error": "it broke"},
    JobStatus.CANCELLED: {"finished_us": 1},
}
"""What an ended job has, besides its status, that another has not."""
FIELDS = {"finished_us": 1, "score": 1.0, "features": "{}", "error": "it broke"}


@pytest.fixture
async def tables(tmp_path):
    path = tmp_path / "jobs.db"
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        await desk.claim(await desk.register())
    with raw(path) as connection:
        yield connection


def write(tables, table, **fields):
    tables.execute(f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in fields)}", (*fields.values(),))


def job_fields(status, **changes):
    return {"status": status.value, **dict.fromkeys(FIELDS), **ENDED.get(status, {}), **changes}


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_of_each_status_can_be_stored(tables, status):
    write(tables, "jobs", **job_fields(status))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("status", JobStatus)
def test_a_job_with_what_its_status_does_not_have_or_without_what_it_has_cannot(tables, status, field):
    other = None if field in ENDED.get(status, {}) else FIELDS[field]
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        write(tables, "jobs", **job_fields(status, **{field: other}))


@pytest.mark.parametrize("word", ["", "done", "RUNNING"])
def test_a_status_that_is_none_of_ours_cannot_be_stored(tables, word):
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        write(tables, "jobs", status=word)


@pytest.mark.parametrize("outcome", AttemptOutcome)
def test_an_attempt_can_end_in_each_outcome(tables, outcome):
    write(tables, "attempts", outcome=outcome.value, ended_us=1, lease_expires_us=None)


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "done", "ended_us": 1, "lease_expires_us": None},
        {"outcome": "failed", "ended_us": None, "lease_expires_us": None},
        {"outcome": "failed", "ended_us": 1, "lease_expires_us": 1},
        {"outcome": None, "ended_us": 1, "lease_expires_us": 1},
        {"outcome": None, "ended_us": None, "lease_expires_us": None},
    ],
)
def test_an_attempt_that_is_neither_open_nor_ended_cannot_be_stored(tables, fields):
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        write(tables, "attempts", **fields)
