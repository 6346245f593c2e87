"""How a file comes to the newest version: from an older one, and from the original platform's (ADR 0024)."""

from __future__ import annotations

import json

import pytest

from tests.contract.store_sqlite_harness import ORIGINAL_TABLE, desk_at, open_store, original_file, raw
from tests.histories import ACME
from vmafx.adapters.store.sqlite_original import Imported
from vmafx.adapters.store.sqlite_schema import MIGRATIONS, Migration
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import JobResult, JobSpec, JobStatus, TenantId
from vmafx.domain.scoring import Backend

NEXT = MIGRATIONS[-1].version + 1
DEV = TenantId("dev")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


def version(path):
    with raw(path) as other:
        return other.execute("PRAGMA user_version").fetchone()[0]


def tables(path):
    with raw(path) as other:
        return {name for (name,) in other.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


# ---------------------------------------------------------------- versions of our own


def test_versions_count_from_one_without_a_gap():
    assert [step.version for step in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


async def test_an_older_file_is_brought_to_the_newest_version_with_all_it_holds(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        key = await desk.register()
        await desk.submit()
        await desk.claim(key)
        before = await desk.history()
    script = (
        "-- a note\nALTER TABLE jobs ADD COLUMN note TEXT;\n\nUPDATE jobs\n   SET note = 'old; but; good';\n"
    )
    newer = (*MIGRATIONS, Migration(version=NEXT, script=script))
    async with open_store(path, migrations=newer) as store:
        desk = desk_at(store)
        assert await desk.history() == before
        await desk.succeed(key)
    assert version(path) == NEXT
    with raw(path) as other:
        assert other.execute("SELECT note FROM jobs").fetchall() == [("old; but; good",)]


async def test_an_upgrade_that_fails_changes_nothing(path):
    async with open_store(path) as store:
        await desk_at(store).submit()
    script = "ALTER TABLE jobs ADD COLUMN note TEXT;\nUPDATE jobs SET note = no_such_function();\n"
    newer = (*MIGRATIONS, Migration(version=NEXT, script=script))
    with pytest.raises(ConfigurationError, match="no_such_function"):
        open_store(path, migrations=newer)
    assert version(path) == MIGRATIONS[-1].version
    async with open_store(path) as store:
        assert await desk_at(store).listed() == ["job-1"]


def test_a_step_that_ends_in_the_middle_is_refused(path):
    newer = (*MIGRATIONS, Migration(version=NEXT, script="CREATE TABLE notes (\n"))
    with pytest.raises(ValueError, match="middle of a statement"):
        open_store(path, migrations=newer)
    assert tables(path) == set()


# ---------------------------------------------------------------- the original's file


async def test_every_job_of_the_original_is_taken_over(path):
    original_file(
        path,
        {"id": "waits"},
        {"id": "ran", "status": "running", "assigned_node": "0123abcd"},
        {
            "id": "done",
            "status": "completed",
            "assigned_node": "0123abcd",
            "score": 93.25,
            "features": '{"vmaf": 93.25, "psnr_y": 40}',
        },
        {"id": "broke", "status": "failed", "error": "no such clip", "assigned_node": "0123abcd"},
        {"id": "stopped", "status": "cancelled"},
    )
    async with open_store(path) as store:
        assert store.imported == Imported(jobs=5, requeued=1, left_out=0)
        desk = desk_at(store)
        assert await desk.listed() == ["waits", "ran", "done", "broke", "stopped"]
        ran, done = await desk.job("ran"), await desk.job("done")
        assert (ran.status, ran.assigned_node, ran.attempt) == (JobStatus.PENDING, None, 0)
        assert done.result == JobResult(score=93.25, features={"vmaf": 93.25, "psnr_y": 40.0})
        assert (done.assigned_node, done.finished_at) == ("0123abcd", done.updated_at)
        assert done.created_at.timestamp() == 1_700_000_002
        assert (await desk.job("broke")).error == "no such clip"
        assert (await desk.job("stopped")).status is JobStatus.CANCELLED
        key = await desk.register()
        assert [(await desk.claim(key)).job.id for _ in range(2)] == ["waits", "ran"]
        await desk.check()
    assert tables(path) == {"jobs", "attempts", "sessions"}
    async with open_store(path) as store:
        assert store.imported is None


async def test_what_a_job_asks_for_is_taken_over(path):
    scoring = {"reference": "s3:b/r.y4m", "distorted": "/d.y4m", "model": "vmaf_4k_v0.6.1", "backend": "cuda"}
    original_file(
        path,
        {"scoring": json.dumps(scoring)},
        {"scoring": json.dumps({**scoring, "model": "", "backend": ""})},
    )
    async with open_store(path) as store:
        desk = desk_at(store)
        spec = JobSpec(
            reference="s3:b/r.y4m", distorted="/d.y4m", model="vmaf_4k_v0.6.1", backend=Backend.CUDA
        )
        assert (await desk.job("job-0")).spec == spec
        assert (await desk.job("job-1")).spec == JobSpec(reference="s3:b/r.y4m", distorted="/d.y4m")


async def test_jobs_without_a_tenant_go_to_the_tenant_that_is_named_for_them(path, tmp_path):
    original_file(path, {"tenant_id": ""}, {})
    async with open_store(path) as store:
        assert [job.id for job in await store.page(DEV)] == ["job-0"]
        assert [job.id for job in await store.page(ACME)] == ["job-1"]
    other = tmp_path / "other.db"
    original_file(other, {"tenant_id": ""})
    async with open_store(other, tenantless=ACME) as store:
        assert [job.id for job in await store.page(ACME)] == ["job-0"]


async def test_a_table_from_before_tenants_is_taken_over(path):
    table = ORIGINAL_TABLE.replace("tenant_id TEXT NOT NULL DEFAULT '',", "").replace("tenant_id, ", "")
    original_file(path, {"tenant_id": ...}, table=table)
    async with open_store(path) as store:
        assert [job.id for job in await store.page(DEV)] == ["job-0"]


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "abandoned"},
        {"scoring": "{"},
        {"scoring": "[]"},
        {"scoring": "{}"},
        {"scoring": '{"reference": 7, "distorted": "/d.y4m"}'},
        {"scoring": '{"reference": "/r.y4m", "distorted": "/d.y4m", "backend": "abacus"}'},
        {"id": ""},
        {"created_at": "yesterday"},
        {"created_at": 10**15},
        {"status": "completed", "score": 1.0, "features": "{"},
    ],
    ids=str,
)
async def test_a_row_that_cannot_be_understood_is_counted_and_kept_in_the_copy(path, changes):
    original_file(path, changes, {"id": "good"})
    async with open_store(path) as store:
        assert store.imported == Imported(jobs=1, requeued=0, left_out=1)
        assert await desk_at(store).listed() == ["good"]
    with raw(path.with_name("jobs.db.original")) as copy:
        assert copy.execute("SELECT count(*) FROM jobs").fetchone() == (2,)


@pytest.mark.parametrize(
    "changes", [{"score": None}, {"score": float("inf")}, {"score": 1.0, "features": '{"vmaf": NaN}'}]
)
async def test_a_result_that_is_no_finite_number_is_a_failure(path, changes):
    original_file(path, {"status": "completed", **changes})
    async with open_store(path) as store:
        job = await desk_at(store).job("job-0")
    assert (job.status, job.result) == (JobStatus.FAILED, None)
    assert "finite" in (job.error or "")


async def test_the_original_file_is_kept_beside_as_it_was(path):
    original_file(path, {}, {"status": "running"})
    with raw(path) as other:
        before = list(other.iterdump())
    async with open_store(path):
        pass
    copy = path.with_name("jobs.db.original")
    assert copy.stat().st_mode & 0o777 == 0o600
    with raw(copy) as kept:
        assert list(kept.iterdump()) == before


async def test_taking_over_again_replaces_the_copy(path):
    for rows in (1, 2):
        path.unlink(missing_ok=True)
        original_file(path, *({} for _ in range(rows)))
        async with open_store(path) as store:
            assert store.imported == Imported(jobs=rows)
    with raw(path.with_name("jobs.db.original")) as copy:
        assert copy.execute("SELECT count(*) FROM jobs").fetchone() == (2,)


def test_a_file_of_the_original_that_cannot_be_copied_is_left_as_it_is(path):
    original_file(path, {"status": "running"})
    path.with_name("jobs.db.original").mkdir()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="VMAFX_DB_PATH"):
        open_store(path)
    assert path.read_bytes() == before
    assert not path.with_name("jobs.db.original.unfinished").exists()


def test_taking_over_that_fails_leaves_the_original(path):
    original_file(path, {"status": "running"})
    broken = (Migration(version=1, script=MIGRATIONS[0].script + "SELECT no_such_function();\n"),)
    with pytest.raises(ConfigurationError, match="no_such_function"):
        open_store(path, migrations=broken)
    assert tables(path) == {"jobs"}
    with raw(path) as other:
        assert other.execute("SELECT status FROM jobs").fetchall() == [("running",)]
        assert len(other.execute("SELECT 1 FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()) == 3


async def test_a_file_that_the_original_left_in_the_middle_of_a_write_is_taken_over(path):
    original_file(path, {"id": "old"})
    with raw(path) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("UPDATE jobs SET id = 'new'")
        left = {name: path.with_name(name).read_bytes() for name in ("jobs.db", "jobs.db-wal")}
    for name, content in left.items():  # as after a kill: the log was not written back
        path.with_name(name).write_bytes(content)
    async with open_store(path) as store:
        assert await desk_at(store).listed() == ["new"]
    with raw(path.with_name("jobs.db.original")) as copy:
        assert copy.execute("SELECT id FROM jobs").fetchall() == [("new",)]
