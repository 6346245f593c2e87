"""What keeps a database from a second controller, and from a log that is not its own (ADR 0024)."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import re
import sqlite3

import pytest

from tests.contract.store_sqlite_harness import desk_at, open_store, raw
from vmafx.adapters.store import sqlite_locks
from vmafx.adapters.store.sqlite_look import look_at
from vmafx.domain.errors import ConfigurationError, StoreUnavailableError

ELSEWHERE = "is served by another controller under another name of the file"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


def refusal(path):
    with pytest.raises(ConfigurationError) as caught:
        open_store(path)
    assert caught.value.setting == "VMAFX_DB_PATH"
    return str(caught.value)


def beside(path):
    return {entry.name for entry in path.parent.iterdir()}


async def killed(path, jobs=3):
    """A file with its log, as a controller leaves them that is killed."""
    copies = {}
    async with open_store(path) as store:
        for number in range(jobs):
            await desk_at(store).submit(f"job-{number + 1}")
        for name in ("jobs.db", "jobs.db-wal"):
            copies[name] = path.with_name(name).read_bytes()
    for name, content in copies.items():
        path.with_name(name).write_bytes(content)


# ---------------------------------------------------------------- a second controller


def _refusal_elsewhere(path, answers):
    try:
        look_at(path)
    except ConfigurationError as error:
        answers.put(str(error))
    else:
        answers.put("")


def in_another_process(path):
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=_refusal_elsewhere, args=(str(path), answers))
    process.start()
    process.join(60)
    return answers.get()


async def test_a_served_file_is_refused_under_a_hard_link(path):
    link = path.with_name("link.db")
    async with open_store(path) as store:
        await desk_at(store).submit()
        os.link(path, link)
        assert ELSEWHERE in refusal(link)
        assert ELSEWHERE in in_another_process(link)
        assert "link.db-wal" not in beside(path)
        await desk_at(store).submit("job-2")
        with raw(path) as other:  # our refusal left SQLite's locks alone
            assert other.execute("SELECT count(*) FROM jobs").fetchone() == (2,)


async def test_a_file_with_two_names_is_refused_under_both_until_one_is_gone(path):
    await killed(path)
    link = path.with_name("link.db")
    os.link(path, link)
    for name in (path, link):
        assert "has a second name (a hard link)" in refusal(name)
    link.unlink()
    async with open_store(path) as store:
        assert len(await desk_at(store).listed()) == 3


async def test_a_lock_that_was_removed_lets_no_second_controller_in(path):
    async with open_store(path):
        path.with_name("jobs.db.lock").unlink()
        assert ELSEWHERE in refusal(path)
        with pytest.raises(ConfigurationError, match=ELSEWHERE):
            look_at(str(path))


async def test_a_file_that_was_closed_can_be_served_again(path):
    for _ in range(3):
        async with open_store(path):
            pass
    assert beside(path) == {"jobs.db", "jobs.db.lock"}


async def test_where_the_lock_would_keep_sqlite_away_there_is_none(path, monkeypatch):
    real = fcntl.lockf

    def lockf(descriptor, command, *rest):
        if command & fcntl.LOCK_EX:
            raise BlockingIOError(errno.EAGAIN, "emulated")
        real(descriptor, command, *rest)

    monkeypatch.setattr(sqlite_locks.fcntl, "lockf", lockf)
    async with open_store(path) as store:
        await desk_at(store).submit()
        with path.open("r+b") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert "is served by another controller (process" in refusal(path)


def test_a_file_system_without_locks_is_refused(path, monkeypatch):
    def flock(_descriptor, _command):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(sqlite_locks.fcntl, "flock", flock)
    assert "cannot be used: No locks available" in refusal(path)


# ---------------------------------------------------------------- the lock's file


def _as_link(lock):
    target = lock.with_name("precious")
    target.write_text("precious")
    lock.symlink_to(target)


def _as_hard_link(lock):
    target = lock.with_name("precious")
    target.write_text("precious")
    os.link(target, lock)


@pytest.mark.parametrize(
    "make", [_as_link, _as_hard_link, os.mkfifo, os.mkdir], ids=["link", "hard link", "pipe", "directory"]
)
def test_what_is_no_lock_is_refused_by_name_and_left_as_it_is(path, make):
    lock = path.with_name("jobs.db.lock")
    make(lock)
    before = beside(path)
    assert f'cannot be locked: "{lock}" is no regular file of one name; remove that' in refusal(path)
    assert beside(path) == before
    if "precious" in before:
        assert path.with_name("precious").read_text() == "precious"


def test_what_is_refused_gets_no_lock_beside_it(path):
    path.write_bytes(b"no database")
    assert "is no SQLite database" in refusal(path)
    assert beside(path) == {"jobs.db"}


# ---------------------------------------------------------------- a log without its file


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "empty"])
async def test_a_log_is_not_lost_to_a_new_file(path, empty):
    await killed(path)
    log = path.with_name("jobs.db-wal")
    kept = path.rename(path.with_name("kept.db"))
    if empty:
        path.touch()
    before = log.read_bytes()
    what = "is empty" if empty else "is missing"
    assert f'{what}, but its log "{log}" is there: put it back' in refusal(path)
    assert log.read_bytes() == before
    kept.replace(path)
    async with open_store(path) as store:
        assert len(await desk_at(store).listed()) == 3


async def test_an_empty_log_does_not_keep_a_new_file_away(path):
    path.with_name("jobs.db-wal").touch()
    async with open_store(path) as store:
        assert (await desk_at(store).submit()).created


async def test_a_log_whose_file_was_moved_away_outlives_the_stop(path):
    log, kept = path.with_name("jobs.db-wal"), path.with_name("kept.db")
    async with open_store(path) as store:
        await desk_at(store).submit()
        path.rename(kept)
        before = log.read_bytes()
        with pytest.raises(StoreUnavailableError, match="was removed while in use"):
            await desk_at(store).submit("job-2")
    assert log.read_bytes() == before
    assert "is missing, but its log" in refusal(path)
    kept.rename(path)
    async with open_store(path) as store:
        assert await desk_at(store).listed() == ["job-1"]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "file::memory:", "a?mode=ro#x%41.db"])
async def test_a_name_is_a_file_whatever_sqlite_would_make_of_it(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    async with open_store(name) as store:
        await desk_at(store).submit()
        assert store.path == str(tmp_path / name)
    async with open_store(tmp_path / name) as store:
        assert await desk_at(store).listed() == ["job-1"]


def test_links_that_lead_nowhere_but_to_each_other_are_refused(path):
    path.symlink_to(path)
    assert "cannot be used" in refusal(path)


async def test_a_file_replaced_by_a_link_to_itself_is_noticed(path):
    async with open_store(path) as store:
        path.rename(path.with_name("kept.db"))
        path.symlink_to(path)
        with pytest.raises(StoreUnavailableError, match="cannot be used"):
            await desk_at(store).submit()


# ---------------------------------------------------------------- a log cut under way

CUT = "has a log that was cut or overwritten while in use; restart the controller"


@pytest.mark.parametrize("keep", [0, 32, 5000, -1], ids=["all", "frames", "most", "a byte"])
async def test_a_log_that_is_cut_is_not_written_to_or_read(path, keep):
    log = path.with_name("jobs.db-wal")
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        size = keep if keep >= 0 else log.stat().st_size + keep
        os.truncate(log, size)
        for call in (desk.submit("job-2"), desk.listed()):
            with pytest.raises(StoreUnavailableError, match=re.escape(f'database "{path}" {CUT}')):
                await call
        assert log.stat().st_size == size


async def test_a_log_cut_during_a_commit_is_not_answered_for(path):
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()

        def cut_and_write(books):
            os.truncate(path.with_name("jobs.db-wal"), 0)
            books._connection.execute("UPDATE jobs SET priority = priority")

        with pytest.raises(StoreUnavailableError, match=CUT):
            await store._file.write(cut_and_write)


async def test_a_log_that_is_moved_or_replaced_is_noticed_and_may_come_back(path):
    log, kept = path.with_name("jobs.db-wal"), path.with_name("kept-wal")
    async with open_store(path) as store:
        desk = desk_at(store)
        log.rename(kept)
        with pytest.raises(StoreUnavailableError, match="was removed while in use"):
            await desk.submit()
        log.write_bytes(kept.read_bytes())
        with pytest.raises(StoreUnavailableError, match="was replaced while in use"):
            await desk.submit()
        kept.replace(log)
        assert (await desk.submit()).created


@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
async def test_a_log_that_another_program_writes_back_is_whole(path, mode):
    async with open_store(path) as store:
        desk = desk_at(store)
        for number in range(4):
            await desk.submit(f"job-{number}")
            with raw(path) as other:
                other.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            assert len(await desk.listed()) == number + 1


async def test_pages_of_the_largest_size_are_understood(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA page_size = 65536")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("DROP TABLE t")
    connection.close()
    async with open_store(path) as store:
        desk = desk_at(store)
        await desk.submit()
        os.truncate(path.with_name("jobs.db-wal"), 65_536)
        with pytest.raises(StoreUnavailableError, match=CUT):
            await desk.submit("job-2")
