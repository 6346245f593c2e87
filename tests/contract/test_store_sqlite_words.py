"""What callers are told of a database that fails: what is wrong, not where it lies (ADR 0024)."""

from __future__ import annotations

import sqlite3

import pytest

from tests.contract.store_sqlite_harness import desk_at, open_store, raw
from vmafx.adapters.store.sqlite_faults import unavailable_by
from vmafx.domain.errors import StoreUnavailableError
from vmafx.domain.refusals import refusal_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "secret-place.db"


async def told(path, call) -> str:
    """The words for the caller, of an error whose own words, for the log, name the file."""
    with pytest.raises(StoreUnavailableError) as caught:
        await call
    assert str(path) in str(caught.value)
    message = refusal_of(caught.value, about="submit job").message
    assert "secret-place" not in message
    assert "/" not in message
    return message


async def test_of_a_lock_callers_are_told_that_there_is_one(path):
    async with open_store(path, busy_timeout_s=0.01) as store:
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            message = await told(path, desk_at(store).submit())
        assert message == "submit job: the database is locked by another process"


async def test_of_a_file_that_is_gone_callers_are_told_that_it_is(path):
    async with open_store(path) as store:
        path.rename(path.with_name("secret-place-2.db"))
        message = await told(path, desk_at(store).submit())
        assert message == "submit job: the database was removed while in use"
        path.with_name("secret-place-2.db").rename(path)
        path.unlink()
        path.touch()
        message = await told(path, desk_at(store).submit())
        assert message == "submit job: the database was replaced while in use"


async def test_of_a_log_that_is_gone_callers_are_told_that_it_is(path):
    async with open_store(path) as store:
        await desk_at(store).submit()
        path.with_name(f"{path.name}-wal").unlink()
        message = await told(path, desk_at(store).submit("job-2"))
        assert message == "submit job: the database was removed while in use"


async def test_of_a_damaged_row_callers_are_not_told_what_it_holds(path):
    async with open_store(path) as store:
        await desk_at(store).submit()
        with raw(path) as other:
            other.execute("UPDATE jobs SET backend = 'abacus' WHERE id = 'job-1'")
        message = await told(path, desk_at(store).job())
        assert message == "submit job: the database holds a row that cannot be used"


async def test_of_a_closed_store_callers_are_told_that_it_is(path):
    async with open_store(path) as store:
        pass
    assert await told(path, desk_at(store).submit()) == "submit job: the database is closed"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "the database cannot grow: the disk is full"),
        (sqlite3.SQLITE_IOERR_FSYNC, "the database cannot be read or written"),
        (None, "the database failed"),
    ],
)
def test_of_sqlites_own_words_callers_are_told_none(code, words):
    error = sqlite3.OperationalError("near /secret: syntax")
    if code is not None:
        error.sqlite_errorcode, error.sqlite_errorname = code, "its name"
    refused = unavailable_by("/jobs.db", error)
    assert refused.told == words
    assert "near /secret: syntax" in str(refused)
