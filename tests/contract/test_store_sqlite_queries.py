"""What the queries of the SQLite store cost, by the plans that SQLite makes for them (ADR 0024)."""

from __future__ import annotations

import re

import pytest

from tests.contract.store_sqlite_harness import open_store, raw
from vmafx.adapters.store.sqlite_queries import QUERIES, named_queries

EXPECTED = {
    "job": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)",
    "submitted_as": "SEARCH jobs USING INDEX jobs_submissions (tenant=? AND idempotency_key=?)",
    "next_claimable": "SEARCH jobs USING INDEX jobs_queue (tenant=? AND backend=?)",
    "page": "SEARCH jobs USING INDEX jobs_listing (tenant=? AND status=? AND (created_us,id)>(?,?))",
    "pending": "SEARCH jobs USING COVERING INDEX jobs_listing (tenant=? AND status=?)",
    "write_job": "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)",
    "purge": "SEARCH jobs USING COVERING INDEX jobs_finished (finished_us>? AND finished_us<?)",
    "history": "SEARCH attempts USING PRIMARY KEY (job=?) LEFT-JOIN",
    "held": "SEARCH attempts USING COVERING INDEX attempts_open (session=?)",
    "leases": "SEARCH attempts USING COVERING INDEX attempts_open ((session,job)>(?,?))",
    "leases_over": "SCAN attempts USING COVERING INDEX attempts_open",
    "write_attempt": "SEARCH attempts USING PRIMARY KEY (job=? AND number=?)",
    "sessions": "SEARCH sessions USING PRIMARY KEY (id>?)",
    "session": "SEARCH sessions USING PRIMARY KEY (id=?)",
    "live_sessions": "SEARCH sessions USING INDEX sessions_names (tenant=?)",
    "live_count": "SEARCH sessions USING COVERING INDEX sessions_expiry (expires_us>?)",
    "sessions_over": "SEARCH sessions USING INDEX sessions_expiry (expires_us<?)",
    "newest_registration": "SEARCH sessions USING COVERING INDEX sessions_names (tenant=? AND node=?)",
    "write_session": "SEARCH sessions USING PRIMARY KEY (id=?)",
    "remove_session": "SEARCH sessions USING PRIMARY KEY (id=?)",
}
MAY_SORT = {"leases_over", "live_sessions"}
"""What runs and what is registered is never much; what waits or has ended may be."""


@pytest.fixture
async def plan(tmp_path):
    path = tmp_path / "jobs.db"
    async with open_store(path):
        pass
    with raw(path) as connection:

        def plan(name):
            query = QUERIES[name]
            nothing = (None,) * query.count("?")
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", nothing)]

        yield plan


@pytest.mark.parametrize("name", EXPECTED)
def test_a_query_goes_the_way_it_was_written_for(plan, name):
    assert EXPECTED[name] in plan(name)


@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - MAY_SORT))
def test_no_query_sorts_what_may_be_many(plan, name):
    assert [step for step in plan(name) if "TEMP B-TREE" in step or step.startswith("SCAN jobs")] == []


def test_counts_read_no_job(plan):
    read = [step for step in plan("counts") if " jobs " in step]
    assert read
    assert [step for step in read if "USING COVERING INDEX jobs_listing" not in step] == []
    assert [
        step
        for step in read
        if step.startswith("SCAN") and step != "SCAN jobs USING COVERING INDEX jobs_listing"
    ] == []


def test_waits_that_are_too_long_are_found_without_reading_a_job(plan):
    assert plan("waits_beyond") == [
        "SCAN jobs USING INDEX jobs_queue"
    ]  # of which the instant is the last column


def test_waiting_jobs_are_found_by_steps_through_the_queue(plan):
    read = [step for step in plan("waiting") if " jobs " in step]
    assert read
    assert [
        step for step in read if not re.match(r"SEARCH jobs USING (COVERING )?INDEX jobs_queue", step)
    ] == []


def test_every_query_that_reads_or_changes_rows_has_a_plan():
    inserts = {name for name in QUERIES if name.startswith("add_")}
    assert QUERIES.keys() == EXPECTED.keys() | inserts | {"counts", "waiting", "waits_beyond"}


def test_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match="two queries of one name"):
        named_queries("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_a_query_is_what_follows_its_name_without_the_comments():
    text = "-- all\n-- name: one\n-- why\nSELECT 1\n  FROM t; -- and how\n-- name: two\nSELECT 2;\n"
    assert named_queries(text) == {"one": "SELECT 1\n  FROM t;", "two": "SELECT 2;"}
