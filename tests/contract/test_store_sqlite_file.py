"""The file of the SQLite store: what is refused and how, and what becomes of it under way (ADR 0024)."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sqlite3
import stat
import sys
from contextlib import contextmanager

import pytest

from tests.contract.store_sqlite_harness import desk_at, open_store, raw, turns
from tests.histories import ACME
from vmafx.adapters.store import sqlite as sqlite_module
from vmafx.adapters.store.sqlite_books import RowDamagedError
from vmafx.adapters.store.sqlite_faults import meaning
from vmafx.adapters.store.sqlite_schema import APPLICATION_ID, MIGRATIONS
from vmafx.domain.errors import ConfigurationError, StoreUnavailableError
from vmafx.domain.job import JobSpec, JobStatus


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


async def made(path, jobs=1):
    """A file of a store with so many jobs, closed."""
    async with open_store(path) as store:
        for number in range(jobs):
            await desk_at(store).submit(f"job-{number + 1}")


def refusal(path, **options):
    with pytest.raises(ConfigurationError) as caught:
        open_store(path, **options)
    assert caught.value.setting == "VMAFX_DB_PATH"
    assert caught.value.value == str(path)
    return str(caught.value)


# ---------------------------------------------------------------- opening


async def test_a_new_file_is_for_its_owner_only(path):
    async with open_store(path) as store:
        await desk_at(store).submit()
        for name in ("jobs.db", "jobs.db-wal", "jobs.db.lock"):
            assert stat.S_IMODE((path.parent / name).stat().st_mode) == 0o600


async def test_every_commit_is_synced(path):
    async with open_store(path) as store:
        _, writer = store._file._connections
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert writer.execute("PRAGMA foreign_keys").fetchone() == (1,)


async def test_jobs_attempts_and_sessions_outlive_a_restart(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        key = await desk.register(instance="process-1")
        await desk.submit()
        await desk.claim(key)
        before = await desk.history()
    async with open_store(path) as store:
        desk = desk_at(store)
        assert await desk.history() == before
        assert await desk.live() == ["s1"]
        await desk.succeed(key)
        assert await desk.status() is JobStatus.COMPLETED


async def test_a_second_controller_is_refused_until_the_first_has_gone(path):
    async with open_store(path) as store:
        await desk_at(store).submit()
        text = refusal(path)
        assert f"is served by another controller (process {os.getpid()})" in text
        link = path.with_name("link.db")
        link.symlink_to(path)
        with pytest.raises(ConfigurationError, match="is served by another controller"):
            open_store(link)
        await desk_at(store).submit("job-2")
    async with open_store(path) as store:
        assert await desk_at(store).listed() == ["job-1", "job-2"]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_path_is_refused(name):
    with pytest.raises(ConfigurationError, match=r"VMAFX_DB_PATH.*is no path"):
        sqlite_module.SqliteStore.open(name, sqlite_module.LeasePolicy())


def test_a_directory_is_refused(tmp_path):
    assert refusal(tmp_path).endswith("is a directory")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_refused_without_waiting_for_a_writer(path):
    os.mkfifo(path)
    assert refusal(path).endswith("is no regular file")


def test_a_directory_that_is_missing_is_refused_by_name(tmp_path):
    text = refusal(tmp_path / "missing" / "jobs.db")
    assert f'lies in a directory that does not exist: make "{tmp_path / "missing"}"' in text
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes no files")
def test_a_place_that_takes_no_files_is_refused():
    with pytest.raises(ConfigurationError, match=r"VMAFX_DB_PATH.*cannot be used"):
        sqlite_module.SqliteStore.open("/proc/self/jobs.db", sqlite_module.LeasePolicy())


@pytest.mark.parametrize(
    "content", [b"no database at all\n" * 100, b"SQLite format 3\0" + b"\xff" * 4080, b"x"]
)
def test_what_is_no_database_is_refused_and_left_as_it_is(path, content):
    path.write_bytes(content)
    assert "is no SQLite database" in refusal(path)
    assert path.read_bytes() == content


async def test_a_damaged_page_is_found_when_the_file_is_opened(path):
    await made(path, jobs=200)
    content = bytearray(path.read_bytes())
    content[4096 * 2 : 4096 * 6] = b"\xa5" * 4096 * 4
    path.write_bytes(content)
    assert "damaged" in refusal(path)


async def test_a_file_cut_short_is_refused(path):
    await made(path, jobs=200)
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)
    assert "damaged" in refusal(path)


async def test_a_large_file_is_not_read_for_damage_at_the_start(path, monkeypatch):
    await made(path)
    monkeypatch.setattr(sqlite_module, "CHECKED_BYTES_MAX", 1)
    asked = []
    monkeypatch.setattr(sqlite_module, "_check", lambda *arguments: asked.append(arguments))
    async with open_store(path):
        assert asked == []


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path):
    with raw(path) as other:
        other.execute("CREATE TABLE jobs (id INTEGER, title TEXT)")
    before = path.read_bytes()
    assert refusal(path).endswith("is the database of another program")
    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused_by_number_and_left_as_it_is(path):
    await made(path)
    with raw(path) as other:
        other.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    newest = MIGRATIONS[-1].version
    assert f"newer vmafx: schema 7, this one knows up to {newest}; upgrade it" in refusal(path)
    assert path.read_bytes() == before


async def test_a_file_that_lacks_a_table_of_its_version_is_refused(path):
    await made(path)
    with raw(path) as other:
        other.execute("DROP TABLE sessions")
    assert "does not hold the tables of this version" in refusal(path)


async def test_an_empty_file_becomes_a_store(path):
    path.touch()
    async with open_store(path):
        pass
    with raw(path) as other:
        assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_an_old_sqlite_is_refused_by_version(path, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert "needs SQLite 3.37 or later" in refusal(path)
    assert not path.exists()


async def test_a_file_that_another_program_has_locked_is_refused_after_the_wait(path):
    await made(path)
    with raw(path) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "is locked by another process (SQLITE_BUSY" in refusal(path, busy_timeout_s=0.01)
    await made(path)  # the refusal holds nothing


# ---------------------------------------------------------------- under way


async def test_a_call_waits_out_another_program(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            call = asyncio.create_task(desk.submit("job-2"))
            await turns()
            assert not call.done()
            assert await desk.listed() == ["job-1"]  # readers wait for nobody
            other.execute("ROLLBACK")
        assert (await call).created


async def test_a_lock_that_stays_is_an_error_that_passes(path):
    async with open_store(path, busy_timeout_s=0.01) as store:
        desk = desk_at(store)
        await desk.submit()
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(
                StoreUnavailableError, match=f'database "{path}" is locked by another process'
            ):
                await desk.submit("job-2")
        assert (await desk.submit("job-2")).created


@pytest.mark.parametrize("name", ["jobs.db", "jobs.db-wal"])
async def test_a_file_that_is_removed_takes_no_more_writes(path, name):
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        path.with_name(name).unlink()
        for call in (desk.submit("job-2"), desk.listed()):
            with pytest.raises(StoreUnavailableError, match=re.escape(f'database "{path}"')):
                await call


async def test_a_file_that_is_moved_away_is_missed_and_found_again(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        path.rename(path.with_name("elsewhere.db"))
        with pytest.raises(
            StoreUnavailableError, match="was removed while in use; move it and its -wal back"
        ):
            await desk.submit()
        path.with_name("elsewhere.db").rename(path)
        assert (await desk.submit()).created


def test_a_log_without_its_file_is_refused_and_no_new_file_is_made(path):
    log = path.with_name(f"{path.name}-wal")
    log.write_bytes(b"jobs")
    assert f'is missing, but its log "{log}" is there' in refusal(path)
    assert list(path.parent.iterdir()) == [log]


async def test_a_file_that_is_replaced_is_not_written(path, tmp_path):
    other = tmp_path / "other.db"
    await made(other)
    async with open_store(path) as store:
        desk = desk_at(store)
        before = other.read_bytes()
        other.replace(path)
        with pytest.raises(StoreUnavailableError, match="was replaced while in use; restart the controller"):
            await desk.submit()
        assert path.read_bytes() == before


async def test_a_file_removed_during_a_commit_is_not_answered_for(path):
    async with open_store(path) as store:
        with pytest.raises(StoreUnavailableError, match="was removed while in use"):
            await store._file.write(lambda _books: path.unlink())


@contextmanager
def full_disk(path, room):
    """No file may grow beyond what the log has now, and a little."""
    size = path.with_name("jobs.db-wal").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_an_error_that_passes_and_loses_nothing(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        key = await desk.register()
        await desk.submit("job-0")
        stored = ["job-0"]
        large = JobSpec(reference="/clips/" + "r" * 20_000, distorted="/clips/dis.y4m")
        with full_disk(path, room=300_000):
            for number in range(1, 200):
                try:
                    await desk.submit(f"job-{number}", spec=large)
                except StoreUnavailableError as error:
                    assert f'database "{path}"' in str(error)  # noqa: PT017 -- one of them comes, which is open
                    break
                stored.append(f"job-{number}")
            else:
                pytest.fail("the disk was never full")
            with pytest.raises(StoreUnavailableError):
                await asyncio.gather(*(desk.submit(f"more-{number}", spec=large) for number in range(5)))
            assert sorted(await desk.listed()) == sorted(stored)
        await desk.claim(key)
        await desk.submit("after")
        assert sorted(await desk.listed()) == sorted([*stored, "after"])
        await desk.check()


async def test_a_sweep_that_finds_nothing_still_tells_that_the_disk_is_full(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        await store.sweep(now=desk.now)
        with (
            full_disk(path, room=-path.with_name("jobs.db-wal").stat().st_size),
            pytest.raises(StoreUnavailableError),
        ):
            await store.sweep(now=desk.now)
        await store.sweep(now=desk.now)
        await desk.check()


async def test_the_log_is_written_back_rather_than_that_it_fills_the_disk(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        with full_disk(path, room=50_000):  # of which each commit takes some pages
            for number in range(60):
                await desk.submit(f"job-{number:02}")
        assert len(await desk.listed()) == 60


async def test_a_row_that_makes_no_sense_is_named_and_spoils_no_other(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        await desk.submit("job-2")
        with raw(path) as other:
            other.execute("UPDATE jobs SET backend = 'abacus' WHERE id = 'job-1'")
        with pytest.raises(StoreUnavailableError, match=r"holds a row that cannot be used.*job-1.*abacus"):
            await desk.job()
        with pytest.raises(StoreUnavailableError, match="abacus"):
            await desk.cancel()
        assert (await desk.cancel("job-2")).job.status is JobStatus.CANCELLED


async def test_damage_that_comes_later_is_answered_and_named(path):
    await made(path, jobs=300)
    async with open_store(path) as store:
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (path.stat().st_size - 4096))
        with pytest.raises(StoreUnavailableError, match=r'database ".*jobs\.db" is damaged'):
            await store.page(ACME)


# ---------------------------------------------------------------- words


CODES_MAX = 26
"""SQLite's errors are numbered from 1 to this."""
OUR_OWN_FAULTS = {"INTERNAL", "ABORT", "INTERRUPT", "NOTFOUND", "EMPTY", "MISMATCH", "MISUSE", "RANGE"}
"""What no file and no disk can cause."""


def told(code, name="its name"):
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return meaning(error)


@pytest.mark.parametrize("code", range(1, CODES_MAX + 1))
def test_each_error_that_a_file_can_cause_has_words(code):
    ours = code in {getattr(sqlite3, f"SQLITE_{name}") for name in OUR_OWN_FAULTS}
    assert told(code).startswith("failed (") == ours
    assert told(code).endswith("(its name: its own words)")


def test_extended_codes_mean_what_their_kind_does():
    assert told(sqlite3.SQLITE_IOERR_FSYNC).startswith("cannot be read or written (")
    assert told(sqlite3.SQLITE_BUSY_SNAPSHOT).startswith("is locked by another process (")


def test_an_error_without_a_code_is_told_as_it_is():
    assert meaning(sqlite3.ProgrammingError("closed")) == "failed (closed)"
    assert "cannot be used" in meaning(RowDamagedError("row 7"))
