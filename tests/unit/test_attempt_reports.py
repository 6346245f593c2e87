"""Which report counts: first success wins, a stale failure ends nothing, strangers are refused (ADR 0012)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories import ACME, RIVAL, TICK_S, Life, a_job, a_session, after
from vmafx.domain.attempt import AttemptOutcome, JobHistory
from vmafx.domain.error_text import ERROR_BYTES_MAX
from vmafx.domain.errors import NotFiniteError
from vmafx.domain.job import JobResult, JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, LossCounted, ReportJudged, Requeued
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.report import Partial, Report, ReportContent, ReportVerdict, judge_report
from vmafx.domain.scoring import Failure, Retry

A1 = a_session("a1", node="node-a", at_s=0)
A2 = a_session("a2", node="node-a", at_s=100)
B1 = a_session("b1", node="node-b", at_s=0)
FOREIGN = a_session("f1", node="node-a", at_s=0, tenant=RIVAL)

RECORDED = (ReportVerdict.RECORD_SUCCESS, JobStatus.COMPLETED)


def test_of_a_failure_its_words_are_kept_printable_and_cut():
    report = Report(content=Failure(error="a\x1b[31m\n" + "ö" * 9000, retry=Retry.ELSEWHERE), attempt=3)
    stored = report.storable()
    assert isinstance(stored.content, Failure)
    assert stored.content.error.startswith(r"a\x1b[31m\n")
    assert ERROR_BYTES_MAX - 4 <= len(stored.content.error.encode()) <= ERROR_BYTES_MAX
    assert (stored.content.retry, stored.attempt) == (Retry.ELSEWHERE, 3)
    assert stored.storable() == stored


@pytest.mark.parametrize("content", [JobResult(score=1.0), Partial(scores=(1.0,))])
def test_other_reports_are_kept_as_they_are(content: ReportContent):
    report = Report(content=content)
    assert report.storable() is report


def lost_and_pending() -> Life:
    """A1 held attempt 1, whose lease ran out; the job waits."""
    return Life().claim(A1, 1).expire(62)


def running_elsewhere() -> Life:
    """A1 lost attempt 1; B1 runs attempt 2."""
    return lost_and_pending().claim(B1, 70)


# ---------------------------------------------------------------- success


def test_the_success_of_the_running_attempt_is_recorded():
    life = Life().claim(A1, 1).succeed(A1, 30, 95.5)
    assert (life.verdict, life.status) == RECORDED
    assert life.job.result == JobResult(score=95.5, features={"vmaf": 95.5})
    assert life.job.assigned_node == "node-a"
    assert life.job.finished_at == life.latest.ended_at == after(30)
    assert life.latest.outcome is AttemptOutcome.COMPLETED
    assert life.effects == (
        ReportJudged(verdict=ReportVerdict.RECORD_SUCCESS),
        Finished(status=JobStatus.COMPLETED),
    )


def test_a_late_success_is_recorded_while_the_job_waits():
    life = lost_and_pending().succeed(A1, 63, 95.5)
    assert (life.verdict, life.status) == RECORDED
    assert life.latest.outcome is AttemptOutcome.COMPLETED
    assert life.latest.error is None
    assert life.job.assigned_node == "node-a"


def test_a_late_success_is_recorded_while_the_job_runs_elsewhere():
    life = running_elsewhere().succeed(A1, 80, 95.5)
    assert (life.verdict, life.status) == RECORDED
    assert life.job.assigned_node == "node-a"
    assert [a.outcome for a in life.history.attempts] == [AttemptOutcome.COMPLETED, AttemptOutcome.SUPERSEDED]
    assert life.latest.ended_at == after(80)


def test_the_second_success_changes_nothing():
    life = running_elsewhere().succeed(A1, 80, 95.5).succeed(B1, 90, 12.0)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged
    assert life.job.result == JobResult(score=95.5, features={"vmaf": 95.5})


def test_the_same_success_twice_is_recorded_once():
    life = Life().claim(A1, 1).succeed(A1, 30).succeed(A1, 31)
    assert life.unchanged
    assert life.effects == (ReportJudged(verdict=ReportVerdict.IGNORE),)


def test_a_success_under_a_later_session_of_the_name_is_recorded():
    life = Life().claim(A1, 1).succeed(A2, 110)
    assert (life.verdict, life.status) == RECORDED


def test_a_success_counts_under_the_session_an_attempt_was_taken_over_from():
    life = Life().claim(A1, 1).beat(A2, 101).succeed(A1, 102)
    assert (life.verdict, life.status) == RECORDED


def test_a_success_counts_under_any_session_between_the_first_and_the_last_holder():
    a3 = a_session("a3", node="node-a", at_s=200)
    life = Life().claim(A1, 1).beat(A2, 101).beat(a3, 201).succeed(A2, 202)
    assert (life.verdict, life.status) == RECORDED


def test_a_success_under_a_session_older_than_every_holder_is_refused():
    life = Life().claim(A2, 101).succeed(A1, 110)
    assert life.verdict is ReportVerdict.REFUSE
    assert life.unchanged


@pytest.mark.parametrize("number", [None, 1, 2, 99])
def test_a_success_counts_whatever_attempt_it_names(number: int | None):
    life = running_elsewhere().succeed(A1, 80, attempt=number)
    assert (life.verdict, life.status) == RECORDED
    assert life.history.attempts[0].outcome is AttemptOutcome.COMPLETED


def test_a_success_is_credited_to_the_attempt_it_names():
    life = lost_and_pending().claim(A1, 70).succeed(A1, 80, attempt=1)
    assert [a.outcome for a in life.history.attempts] == [AttemptOutcome.COMPLETED, AttemptOutcome.SUPERSEDED]


def test_a_success_that_names_no_attempt_is_credited_to_the_latest_of_its_node():
    life = lost_and_pending().claim(A1, 70).succeed(A1, 80)
    assert [a.outcome for a in life.history.attempts] == [AttemptOutcome.EXPIRED, AttemptOutcome.COMPLETED]


@pytest.mark.parametrize(
    "end",
    [
        lambda life: life.absent(A1, 100).absent(A1, 110),
        lambda life: life.release(A1, 5, attempt=1),
        lambda life: life.undo(A1, 5, attempt=1),
        lambda life: life.fail(A1, 5, retry=Retry.ELSEWHERE),
        lambda life: life.fail(A1, 5, retry=Retry.AT_ONCE),
        lambda life: life.lose(A1, 61),
        lambda life: life.expire(62),
    ],
)
def test_a_success_counts_however_its_attempt_ended(end):
    life = end(Life().claim(A1, 1))
    assert life.status is JobStatus.PENDING
    assert life.succeed(A1, 120).verdict is ReportVerdict.RECORD_SUCCESS


# ---------------------------------------------------------------- failure


def test_the_failure_of_the_running_attempt_is_recorded():
    life = Life().claim(A1, 1).fail(A1, 30, "no such clip")
    assert life.verdict is ReportVerdict.RECORD_FAILURE
    assert life.status is JobStatus.FAILED
    assert life.job.error == life.latest.error == "no such clip"
    assert life.latest.outcome is AttemptOutcome.FAILED
    assert life.effects[1:] == (Finished(status=JobStatus.FAILED),)


def test_a_stale_failure_does_not_end_a_run_elsewhere():
    life = running_elsewhere().fail(A1, 80, attempt=1)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_a_failure_after_the_job_went_back_changes_nothing():
    life = lost_and_pending().fail(A1, 63, attempt=1)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_a_numbered_failure_of_an_earlier_attempt_of_the_same_session_changes_nothing():
    life = lost_and_pending().claim(A1, 70).fail(A1, 80, attempt=1)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_a_numbered_failure_counts_under_any_session_of_the_name():
    assert Life().claim(A2, 101).fail(A1, 110, attempt=1).verdict is ReportVerdict.RECORD_FAILURE
    seen_since = Life().claim(A1, 1).fail(A2, 110, attempt=1, holder_seen_s=105)
    assert seen_since.verdict is ReportVerdict.RECORD_FAILURE


def test_the_running_attempts_number_does_not_help_another_name():
    life = running_elsewhere().fail(A1, 80, attempt=2)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_an_unnumbered_failure_counts_under_the_session_that_holds_the_attempt():
    life = lost_and_pending().claim(A1, 70).fail(A1, 80)
    assert life.verdict is ReportVerdict.RECORD_FAILURE


@pytest.mark.parametrize(
    ("seen_s", "verdict"),
    [
        (None, ReportVerdict.RECORD_FAILURE),
        (100 - TICK_S, ReportVerdict.RECORD_FAILURE),
        (100, ReportVerdict.IGNORE),
        (100 + TICK_S, ReportVerdict.IGNORE),
    ],
)
def test_an_unnumbered_failure_speaks_for_an_earlier_session_only_when_that_one_is_silent_since(
    seen_s: float | None, verdict: ReportVerdict
):
    life = Life().claim(A1, 1).fail(A2, 110, holder_seen_s=seen_s)
    assert life.verdict is verdict


def test_an_unnumbered_failure_under_an_older_session_than_the_holders_changes_nothing():
    life = Life().claim(A2, 101).fail(A1, 110)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_a_failure_after_a_success_changes_nothing():
    life = Life().claim(A1, 1).succeed(A1, 30).fail(A1, 31)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


def test_a_success_after_a_failure_changes_nothing():
    life = Life().claim(A1, 1).fail(A1, 30).succeed(A1, 31)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


@pytest.mark.parametrize("retry", list(Retry))
def test_reports_of_a_cancelled_job_are_ignored(retry: Retry):
    life = Life().claim(A1, 1).cancel(10)
    assert life.fail(A1, 11, retry=retry).verdict is ReportVerdict.IGNORE
    assert life.unchanged
    assert life.succeed(A1, 12).verdict is ReportVerdict.IGNORE
    assert life.unchanged


# ---------------------------------------------------------------- failures that may be retried


def test_a_retryable_failure_sends_the_job_back_after_a_wait_and_counts_as_lost():
    life = Life().claim(A1, 1).fail(A1, 30, "no space", retry=Retry.ELSEWHERE)
    assert life.verdict is ReportVerdict.REQUEUE_RETRYABLE
    assert life.status is JobStatus.PENDING
    assert life.job.error is None
    assert (life.latest.outcome, life.latest.error) == (AttemptOutcome.FAILED, "no space")
    assert life.effects[1:] == (
        LossCounted(lost_attempts=1),
        Requeued(reason=RequeueReason.RETRYABLE_FAILURE, available_at=after(35)),
    )


def test_the_third_retryable_failure_fails_the_job_with_its_error():
    life = Life().claim(A1, 0).fail(A1, 1, "one", retry=Retry.ELSEWHERE)
    life.claim(A1, 10).fail(A1, 11, "two", retry=Retry.ELSEWHERE)
    assert (life.verdict, life.status) == (ReportVerdict.REQUEUE_RETRYABLE, JobStatus.PENDING)
    life.claim(A1, 30).fail(A1, 31, "three", retry=Retry.ELSEWHERE)
    assert life.verdict is ReportVerdict.RECORD_FAILURE
    assert (life.status, life.job.error, life.job.lost_attempts) == (JobStatus.FAILED, "three", 3)
    assert life.effects[1:] == (LossCounted(lost_attempts=3), Finished(status=JobStatus.FAILED))


def test_lost_leases_and_retryable_failures_use_up_one_count():
    life = Life().claim(A1, 0).expire(61).claim(A1, 70).lose(A1, 75)
    life.claim(A2, 200).fail(A2, 210, "no space", retry=Retry.ELSEWHERE)
    assert (life.status, life.job.error) == (JobStatus.FAILED, "no space")


def test_a_job_interrupted_by_shutdown_goes_back_at_once_and_counts_as_nothing():
    life = Life().claim(A1, 1).fail(A1, 30, "node shutting down", retry=Retry.AT_ONCE)
    assert life.verdict is ReportVerdict.REQUEUE_RELEASED
    assert life.job.lost_attempts == 0
    assert life.latest.outcome is AttemptOutcome.RELEASED
    assert life.effects[1:] == (Requeued(reason=RequeueReason.RELEASED, available_at=after(30)),)


def test_a_job_may_be_interrupted_by_shutdowns_without_end():
    life = Life()
    for n in range(20):
        life.claim(A1, n).fail(A1, n, "node shutting down", retry=Retry.AT_ONCE)
    assert (life.status, life.job.lost_attempts) == (JobStatus.PENDING, 0)


@pytest.mark.parametrize("retry", [Retry.ELSEWHERE, Retry.AT_ONCE])
def test_only_the_current_attempt_can_send_the_job_back(retry: Retry):
    life = running_elsewhere().fail(A1, 80, retry=retry, attempt=1)
    assert life.verdict is ReportVerdict.IGNORE
    assert life.unchanged


# ---------------------------------------------------------------- strangers


CONTENTS = [
    JobResult(score=95.0),
    Failure(error="no"),
    Failure(error="no", retry=Retry.ELSEWHERE),
    Failure(error="no", retry=Retry.AT_ONCE),
    Partial(scores=(1.0,)),
]
LIVES = {
    "never claimed": Life,
    "running": lambda: Life().claim(A1, 1),
    "waiting again": lost_and_pending,
    "completed": lambda: Life().claim(A1, 1).succeed(A1, 30),
    "failed": lambda: Life().claim(A1, 1).fail(A1, 30),
    "cancelled": lambda: Life().claim(A1, 1).cancel(30),
}


@pytest.mark.parametrize("content", CONTENTS, ids=repr)
@pytest.mark.parametrize("stranger", [B1, FOREIGN], ids=["other name", "other tenant"])
@pytest.mark.parametrize("state", LIVES)
def test_a_name_that_never_held_the_job_is_refused(state: str, stranger: NodeSession, content: ReportContent):
    life = LIVES[state]()
    for number in (None, 1):
        life.report(stranger, 200, content, attempt=number)
        assert life.verdict is ReportVerdict.REFUSE
        assert life.effects == (ReportJudged(verdict=ReportVerdict.REFUSE),)
        assert life.unchanged


# ---------------------------------------------------------------- partial reports


@pytest.mark.parametrize("number", [None, 1])
def test_a_partial_report_of_the_holder_is_accepted_and_changes_nothing(number: int | None):
    life = Life().claim(A1, 1).partial(A1, 10, attempt=number)
    assert life.verdict is ReportVerdict.ACCEPT_PARTIAL
    assert life.unchanged


def test_a_partial_report_is_fenced_by_session():
    assert Life().claim(A1, 1).partial(A2, 110).verdict is ReportVerdict.REFUSE
    assert Life().claim(A1, 1).beat(A2, 101).partial(A1, 110).verdict is ReportVerdict.REFUSE


def test_a_partial_report_is_fenced_by_attempt():
    life = lost_and_pending().claim(A1, 70)
    assert life.partial(A1, 80, attempt=1).verdict is ReportVerdict.REFUSE
    assert life.partial(A1, 80, attempt=2).verdict is ReportVerdict.ACCEPT_PARTIAL


@pytest.mark.parametrize("state", ["waiting again", "completed", "failed", "cancelled"])
def test_a_partial_report_of_a_job_that_does_not_run_is_refused(state: str):
    assert LIVES[state]().partial(A1, 90).verdict is ReportVerdict.REFUSE


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_partial_scores_are_finite(bad: float):
    with pytest.raises(NotFiniteError, match="partial score"):
        Partial(scores=(90.0, bad))


# ---------------------------------------------------------------- what a store needs to read


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from([A1, A2, B1]), st.sampled_from(["expire", "release"])), max_size=5),
    st.booleans(),
    st.sampled_from([A1, A2, B1]),
    st.sampled_from(CONTENTS),
    st.sampled_from([None, 1, 2, 3, 4, 5, 6]),
)
def test_the_latest_attempt_and_those_of_the_reporters_name_are_enough(
    past: list[tuple[NodeSession, str]],
    running: bool,  # noqa: FBT001 -- drawn by hypothesis
    reporter: NodeSession,
    content: ReportContent,
    number: int | None,
):
    life = Life(a_job(tenant=ACME, max_lost_attempts=99))
    at_s = 200.0
    for session, end in past:
        life.claim(session, at_s)
        if end == "expire":
            life.expire(at_s + 61)
        else:
            life.release(session, at_s + 61, attempt=life.latest.number)
        at_s += 1000
    if running:
        life.claim(A1, at_s)
    whole = life.history
    needed = tuple(a for a in whole.attempts if a is whole.latest or a.node == reporter.node)
    report = Report(content=content, attempt=number)
    assert judge_report(whole, report, reporter, holder_seen_at=None) is judge_report(
        JobHistory(job=whole.job, attempts=needed), report, reporter, holder_seen_at=None
    )
