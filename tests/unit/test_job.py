"""Jobs: what a submission makes, which one a node gets, and who may not have one (ADR 0012)."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories import ACME, RIVAL, TICK_S, a_job, after
from vmafx.domain.errors import (
    ForeignJobError,
    JobNotFoundError,
    NotFiniteError,
    QueueFullError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    SubmissionConflictError,
)
from vmafx.domain.job import (
    Job,
    JobCursor,
    JobId,
    JobResult,
    JobSpec,
    JobStatus,
    RequeueReason,
    TenantId,
    claimable,
    next_claimable,
    same_submission,
)
from vmafx.domain.scoring import Backend

CPU = frozenset({Backend.CPU})


def may(job: Job, *, tenant: TenantId = ACME, backends: frozenset[Backend] = CPU, at_s: float = 0.0) -> bool:
    return claimable(job, tenant=tenant, backends=backends, at=after(at_s))


def first(*jobs: Job, backends: frozenset[Backend] = CPU, at_s: float = 1000.0) -> str | None:
    job = next_claimable(jobs, tenant=ACME, backends=backends, at=after(at_s))
    return None if job is None else job.id


def test_status_values_are_the_stored_words():
    assert [s.value for s in JobStatus] == ["pending", "running", "completed", "failed", "cancelled"]


def test_exactly_the_three_ends_are_terminal():
    assert {s for s in JobStatus if s.terminal} == {
        JobStatus.COMPLETED,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
    }


def test_requeue_reasons_are_the_labels_of_the_metric():
    assert {r.value for r in RequeueReason} == {
        "node_lost",
        "lease_expired",
        "never_started",
        "retryable_failure",
        "released",
        "assign_rollback",
        "controller_restart",
    }


def test_a_submitted_job_is_pending_and_available_at_once():
    job = a_job(at_s=5)
    assert job.status is JobStatus.PENDING
    assert job.created_at == job.updated_at == job.available_at == after(5)
    assert (job.attempt, job.lost_attempts, job.never_started) == (0, 0, 0)
    assert (job.assigned_node, job.result, job.error, job.finished_at) == (None, None, None, None)
    assert job.max_lost_attempts == 3
    assert may(job, at_s=5)


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": TenantId("")},
        {"at": datetime(2031, 1, 1)},  # noqa: DTZ001 -- the point
        {"max_lost_attempts": 0},
    ],
)
def test_a_job_without_tenant_time_zone_or_tries_is_refused(changes: dict[str, object]):
    with pytest.raises(ValueError, match=r"tenant|created_at|max_lost_attempts"):
        a_job(**changes)


def test_a_job_without_an_id_is_refused():
    with pytest.raises(ValueError, match="id"):
        a_job("")


@pytest.mark.parametrize(("reference", "distorted"), [("", "/d"), ("/r", ""), ("", "")])
def test_a_pair_without_both_clips_is_refused(reference: str, distorted: str):
    with pytest.raises(ValueError, match="reference and distorted paths are required"):
        JobSpec(reference=reference, distorted=distorted)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_result_holds_finite_numbers_only(bad: float):
    with pytest.raises(NotFiniteError, match="score"):
        JobResult(score=bad)
    with pytest.raises(NotFiniteError, match="feature psnr_y"):
        JobResult(score=90.0, features={"psnr_y": bad})


# ---------------------------------------------------------------- who may claim


def test_a_job_is_available_from_its_instant_on_and_not_before():
    job = replace(a_job(), available_at=after(10))
    assert not may(job, at_s=10 - TICK_S)
    assert may(job, at_s=10)


@pytest.mark.parametrize("status", [s for s in JobStatus if s is not JobStatus.PENDING])
def test_only_a_pending_job_may_be_claimed(status: JobStatus):
    assert not may(replace(a_job(), status=status))


def test_a_job_of_another_tenant_may_not_be_claimed():
    assert not may(a_job(), tenant=RIVAL)
    assert not may(a_job(), tenant=TenantId("Acme"))


@pytest.mark.parametrize(
    ("asked", "offered", "fits"),
    [
        (None, set(), True),
        (None, {Backend.CUDA}, True),
        (Backend.CPU, set(), False),
        (Backend.CPU, {Backend.CUDA}, False),
        (Backend.CUDA, {Backend.CPU, Backend.CUDA}, True),
    ],
)
def test_a_named_backend_must_be_offered_and_no_backends_get_only_jobs_that_name_none(
    asked: Backend | None, offered: set[Backend], *, fits: bool
):
    assert may(a_job(backend=asked), backends=frozenset(offered)) is fits


# ---------------------------------------------------------------- the order


def test_older_jobs_come_first():
    assert first(a_job("young", at_s=2), a_job("old", at_s=1)) == "old"


def test_priority_comes_before_age():
    assert first(a_job("old", at_s=1), a_job("urgent", at_s=9, priority=1)) == "urgent"


def test_the_id_decides_between_jobs_of_one_instant():
    assert first(a_job("b"), a_job("a"), a_job("B")) == "B"


def test_a_job_that_does_not_fit_is_skipped_and_keeps_its_place():
    gpu, cpu = a_job("gpu", backend=Backend.CUDA), a_job("cpu", at_s=5)
    assert first(gpu, cpu) == "cpu"
    assert first(gpu, cpu, backends=frozenset({Backend.CUDA})) == "gpu"


def test_a_waiting_job_is_skipped_until_it_is_available():
    waiting, ready = replace(a_job("waiting"), available_at=after(10)), a_job("ready", at_s=5)
    assert first(waiting, ready, at_s=10 - TICK_S) == "ready"
    assert first(waiting, ready, at_s=10) == "waiting"


def test_nothing_fits_nobody():
    assert first() is None
    assert first(a_job(backend=Backend.CUDA)) is None


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(-1, 1), st.integers(0, 3), st.sampled_from("abc")),
        min_size=1,
        max_size=8,
        unique_by=lambda row: row[2],
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_a_store_reads_jobs_does_not_matter(
    rows: list[tuple[int, int, str]], chance: random.Random
):
    jobs = [a_job(name, at_s=age, priority=priority) for priority, age, name in rows]
    shuffled = jobs.copy()
    chance.shuffle(shuffled)
    assert first(*jobs) == first(*shuffled)


def test_the_cursor_of_a_job_is_its_place_by_submission():
    assert a_job("x", at_s=3, priority=9).cursor == JobCursor(created_at=after(3), job_id=JobId("x"))


# ---------------------------------------------------------------- submissions under one key


def test_the_same_content_under_another_id_and_time_is_the_same_submission():
    assert same_submission(a_job("a", at_s=0), a_job("b", at_s=99))


@pytest.mark.parametrize(
    "other",
    [
        a_job(backend=Backend.CPU),
        a_job(priority=1),
        a_job(spec=JobSpec(reference="/clips/ref.y4m", distorted="/clips/other.y4m")),
        a_job(spec=JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="m")),
    ],
)
def test_other_content_is_another_submission(other: Job):
    assert not same_submission(a_job(), other)


# ---------------------------------------------------------------- what a store cannot answer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (JobNotFoundError("no\nsuch"), 'job "no\\nsuch" not found'),
        (ForeignJobError("j-1"), "resource belongs to another tenant"),
        (SessionNotFoundError("s-1"), 'invalid session for node "s-1"'),
        (SubmissionConflictError("k"), 'idempotency key "k" was used for another submission'),
        (QueueFullError(7), "the tenant has 7 pending jobs, which is the limit"),
    ],
)
def test_a_store_error_says_what_the_wire_says_and_is_told_apart_by_its_class(error: StoreError, words: str):
    assert str(error) == words
    assert not isinstance(error, StoreUnavailableError)
