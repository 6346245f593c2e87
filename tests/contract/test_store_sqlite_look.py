"""Looking at a database file says what a start would do with it, and changes nothing (ADR 0028)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from vmafx.adapters.store import sqlite_look
from vmafx.adapters.store.sqlite import SqliteStore, examine
from vmafx.adapters.store.sqlite_look import look_at
from vmafx.adapters.store.sqlite_schema import MIGRATIONS
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.lease import LeasePolicy

NEWEST = MIGRATIONS[-1].version
ORIGINAL = (
    "CREATE TABLE jobs (id, status, scoring, assigned_node, score, features, error, created_at, updated_at)"
)


def execute(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


async def make(path):
    await SqliteStore.open(str(path), LeasePolicy()).close()


async def test_a_file_of_this_version_is_told_by_its_schema(path):
    await make(path)
    before = path.read_bytes()
    assert look_at(str(path)) == f"has schema {NEWEST}"
    assert path.read_bytes() == before
    await make(path)  # it was let go


def test_a_file_that_is_not_there_is_not_made(path, tmp_path):
    assert look_at(str(path)) == "is not there yet; a start makes it"
    assert look_at(str(tmp_path / "a/b/jobs.db"), folder_is_made=True) == "is not there yet; a start makes it"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        ((), "is empty; a start makes the tables"),
        ((ORIGINAL,), "is the original platform's; a start takes it over and leaves a copy beside it"),
        (
            ("CREATE TABLE jobs (id)", "PRAGMA application_id = 1986881144", "PRAGMA user_version = 0"),
            f"has schema 0; a start brings it to {NEWEST}",
        ),
    ],
    ids=["empty", "original", "older"],
)
def test_what_a_start_would_change_is_told_and_left(path, statements, words):
    path.touch()
    execute(path, *statements)
    before = path.read_bytes()
    assert look_at(str(path)) == words
    assert path.read_bytes() == before


def foreign(path):
    execute(path, "CREATE TABLE others (id)")


def newer(path):
    execute(path, "CREATE TABLE jobs (id)", "PRAGMA application_id = 1986881144", "PRAGMA user_version = 999")


def damaged(path):
    execute(
        path, "CREATE TABLE jobs (id)", *(f"INSERT INTO jobs VALUES (zeroblob({n + 900}))" for n in range(9))
    )
    data = bytearray(path.read_bytes())
    data[4096:4128] = b"\xff" * 32
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b"x" * 99), "is no SQLite database"),
        (foreign, "is the database of another program"),
        (newer, "was written by a newer vmafx: schema 999"),
        (damaged, "is damaged"),
    ],
    ids=["folder", "text", "foreign", "newer", "damaged"],
)
def test_what_a_start_would_refuse_is_refused_by_the_name_of_the_setting(path, spoil, words):
    spoil(path)
    with pytest.raises(ConfigurationError, match=words) as refused:
        look_at(str(path))
    assert refused.value.setting == "VMAFX_DB_PATH"
    assert refused.value.value == str(path)


def test_a_file_of_which_the_folder_is_missing_or_none_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for place, made in (("typo/jobs.db", False), ("file/jobs.db", False), ("file/a/jobs.db", True)):
        with pytest.raises(ConfigurationError, match="VMAFX_DB_PATH"):
            look_at(str(tmp_path / place), folder_is_made=made)


def test_a_log_without_its_file_is_refused(path):
    path.with_name("jobs.db-wal").write_bytes(b"changes")
    with pytest.raises(ConfigurationError, match="is missing, but its log"):
        look_at(str(path))


async def test_no_lock_stays_behind_that_was_not_there(path, monkeypatch):
    await make(path)
    path.with_name("jobs.db.lock").unlink()
    look_at(str(path))
    assert list(path.parent.iterdir()) == [path]
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(ConfigurationError, match="may not write to"):
        look_at(str(path))


def test_a_folder_that_may_not_be_written_to_is_refused(path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(ConfigurationError, match="may not write to"):
        look_at(str(path))


async def test_the_file_of_a_running_controller_is_refused(path):
    async with SqliteStore.open(str(path), LeasePolicy()):
        with pytest.raises(ConfigurationError, match="is served by another controller"):
            look_at(str(path))
    assert Path(path).exists()


async def test_a_controller_that_starts_meanwhile_is_not_kept_from_the_file(path, monkeypatch):
    await make(path)
    started: list[SqliteStore] = []

    def examine_and_start(connection, name):
        started.append(SqliteStore.open(str(path), LeasePolicy()))
        return examine(connection, name)

    monkeypatch.setattr(sqlite_look, "examine", examine_and_start)
    assert look_at(str(path)) == f"has schema {NEWEST}"
    await started[0].close()
