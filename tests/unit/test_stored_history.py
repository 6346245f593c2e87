"""The checker of stored histories finds what it is for; end-to-end tests rely on it."""

from __future__ import annotations

import pytest

from tests.e2e.stored_history import StoredHistory, StoredJob, counted

JOB = {
    "status": "completed",
    "attempt": 2,
    "lost_attempts": 1,
    "assigned_node": "b",
    "finished_us": 9,
    "score": 90.5,
    "features": "{}",
    "error": None,
}
LOST = {
    "number": 1,
    "node": "a",
    "started_us": 1,
    "ended_us": 4,
    "lease_expires_us": None,
    "outcome": "expired",
}
DONE = {
    "number": 2,
    "node": "b",
    "started_us": 5,
    "ended_us": 9,
    "lease_expires_us": None,
    "outcome": "completed",
}
OPEN = {"ended_us": None, "lease_expires_us": 7, "outcome": None}
ENDLESS = {"status": "running", "finished_us": None, "score": None, "features": None}
PAGE = """# HELP x_total Nothing.
x_total{tenant="dev",outcome="a"} 2.0
x_total{tenant="dev",outcome="b"} 3.0
x_total_more 9.0
y 1e+02
"""


def job(*, of_job=None, first=None, second=None):
    """A job that was lost once and then completed, but for what is said."""
    return StoredJob(JOB | (of_job or {}), (LOST | (first or {}), DONE | (second or {})))


def test_a_possible_history_has_no_problem():
    assert [*job().problems()] == []
    assert [*job(of_job=ENDLESS, second=OPEN).problems()] == []
    late = job(first={"outcome": "completed", "ended_us": 9}, second={"outcome": "superseded"})
    assert [*late.problems()] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"second": {"number": 3}}, "numbered from 1"),
        ({"of_job": {"attempt": 3}}, "knows its last attempt"),
        ({"first": OPEN}, "an open attempt is the last one"),
        ({"second": OPEN}, "runs exactly while an attempt is open"),
        ({"second": {"ended_us": None}}, "an end exactly when it has an outcome"),
        ({"first": {"ended_us": 6}}, "no attempt began before"),
        ({"of_job": {"finished_us": None}}, "it has an end exactly"),
        ({"of_job": {"score": None}}, "has a score"),
        ({"of_job": {"features": None}}, "has features"),
        ({"of_job": {"error": "no"}}, "has an error"),
        ({"first": {"outcome": "completed"}}, "one attempt completed"),
        ({"of_job": {"status": "failed"}, "second": {"outcome": "superseded"}}, "superseded by a success"),
        ({"first": {"outcome": "cancelled"}}, "a cancel ends the last attempt alone"),
        ({"of_job": {"lost_attempts": 3}}, "no more attempts than were lost"),
        ({"of_job": {"lost_attempts": 3}}, "the last loss"),
        ({"of_job": {"status": "pending"}}, "a pending job is nobody's"),
        ({"of_job": {"assigned_node": "a"}, "second": OPEN}, "a running job is its attempt's node's"),
    ],
)
def test_an_impossible_one_is_told(changes, words):
    impossible = job(**changes)
    assert any(words in problem for problem in impossible.problems())
    history = StoredHistory(jobs={"j": impossible}, sessions=(), damage=("damaged",))
    assert history.problems()[0] == "damaged"
    assert any(words in problem for problem in history.problems())


def test_metrics_are_summed_over_the_labels_that_are_not_named():
    assert counted(PAGE, "x_total") == 5
    assert counted(PAGE, "x_total", outcome="b") == 3
    assert counted(PAGE, "x_total", outcome="c") == 0
    assert counted(PAGE, "y") == 100
