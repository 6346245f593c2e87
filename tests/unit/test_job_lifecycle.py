"""The steps of a job's life: claims, cancels, losses, releases, and the table of legal moves (ADR 0012)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from tests.histories import RIVAL, TICK_S, Life, a_job, a_session, after
from vmafx.domain.attempt import AttemptOutcome, JobHistory, violations
from vmafx.domain.errors import IllegalTransitionError
from vmafx.domain.job import JobResult, JobStatus, NodeName, RequeueReason
from vmafx.domain.job_events import (
    MOVES,
    Assigned,
    CancelAsked,
    Finished,
    JobEvent,
    LeaseExpired,
    LeaseRenewed,
    LossCounted,
    Requeued,
    SessionLost,
)
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.lifecycle import step
from vmafx.domain.scoring import Backend, Retry

A1 = a_session("a1", node="node-a", at_s=0)
A2 = a_session("a2", node="node-a", at_s=100)
B1 = a_session("b1", node="node-b", at_s=0)

P, R = JobStatus.PENDING, JobStatus.RUNNING
COMPLETED, FAILED, CANCELLED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED


# ---------------------------------------------------------------- claims


def test_a_claim_opens_the_first_attempt_under_a_lease():
    life = Life().claim(A1, 7, deadline_s=17)
    attempt = life.latest
    assert (life.status, life.job.attempt, life.job.assigned_node) == (R, 1, "node-a")
    assert (attempt.number, attempt.node, attempt.session) == (1, "node-a", "a1")
    assert attempt.started_at == after(7)
    assert attempt.lease_expires_at == after(67)
    assert attempt.pull_deadline_at == after(17)
    assert (attempt.listed, attempt.outcome, attempt.ended_at) == (False, None, None)
    assert life.effects == (Assigned(attempt=1),)


def test_a_claim_keeps_the_process_with_the_attempt():
    life = Life().claim(a_session("s", instance="p7"), 1)
    assert life.latest.instance == "p7"


def test_the_lease_lasts_as_the_policy_says():
    life = Life(policy=LeasePolicy(lease_ttl_s=3)).claim(A1, 0)
    assert life.latest.lease_expires_at == after(3)


def test_the_next_claim_has_the_next_number():
    life = Life().claim(A1, 0).release(A1, 1, attempt=1).claim(B1, 2)
    assert [a.number for a in life.history.attempts] == [1, 2]
    assert life.job.assigned_node == "node-b"


def test_a_claim_needs_none_of_the_attempts_before():
    job = Life().claim(A1, 0).release(A1, 1, attempt=1).job
    life = Life(job).claim(B1, 2)
    assert [a.number for a in life.history.attempts] == [2]


@pytest.mark.parametrize(
    "claim",
    [
        lambda: Life().claim(A1, 0).claim(B1, 1),
        lambda: Life().cancel(0).claim(A1, 1),
        lambda: Life().claim(A1, 0).succeed(A1, 1).claim(A1, 2),
        lambda: Life().claim(A1, 0).fail(A1, 1).claim(A1, 2),
        lambda: Life().claim(a_session(tenant=RIVAL), 0),
        lambda: Life(a_job(backend=Backend.CUDA)).claim(A1, 0, backends=[Backend.CPU]),
        lambda: Life(a_job(at_s=5)).claim(A1, 5 - TICK_S),
        lambda: Life().claim(a_session(live_s=60), 60 + TICK_S),
    ],
    ids=["running", "cancelled", "completed", "failed", "tenant", "backend", "too early", "dead session"],
)
def test_a_claim_that_must_not_be_is_an_error_and_not_an_answer(claim: Callable[[], Life]):
    with pytest.raises(IllegalTransitionError, match="Claimed is not allowed in state"):
        claim()


def test_a_session_may_claim_at_its_last_instant():
    assert Life().claim(a_session(live_s=60), 60).status is R


# ---------------------------------------------------------------- cancels


def test_a_pending_job_is_cancelled_at_once():
    life = Life().cancel(3)
    assert (life.status, life.job.finished_at, life.job.assigned_node) == (CANCELLED, after(3), None)
    assert life.effects == (Finished(status=CANCELLED),)


def test_a_running_job_is_cancelled_at_once_and_its_attempt_with_it():
    life = Life().claim(A1, 1).cancel(3)
    assert (life.status, life.job.assigned_node) == (CANCELLED, "node-a")
    assert (life.latest.outcome, life.latest.ended_at) == (AttemptOutcome.CANCELLED, after(3))


def test_a_job_that_kills_every_node_can_be_cancelled_at_any_time():
    for losses in range(3):
        life = Life()
        for n in range(losses):
            life.claim(A1, 1000 * n).lose(A1, 1000 * n + 61)
        assert life.cancel(5000).status is CANCELLED


@pytest.mark.parametrize("end", ["succeed", "fail", "cancel"])
def test_cancelling_an_ended_job_changes_nothing(end: str):
    life = Life().claim(A1, 1)
    _ = life.cancel(2) if end == "cancel" else getattr(life, end)(A1, 2)
    assert life.cancel(3).unchanged
    assert life.effects == ()


# ---------------------------------------------------------------- losses


def test_at_its_last_instant_a_lease_holds_and_just_after_it_does_not():
    life = Life().claim(A1, 0)
    assert life.latest.lease_holds(after(60))
    assert not life.latest.lease_holds(after(60 + TICK_S))
    assert life.expire(60).unchanged
    assert life.expire(60 + TICK_S).status is P


def test_an_ended_attempt_has_no_lease_that_could_hold():
    assert not Life().claim(A1, 0).release(A1, 5, attempt=1).latest.lease_holds(after(6))


def test_a_lost_lease_sends_the_job_back_after_a_wait():
    life = Life().claim(A1, 0).expire(62)
    assert (life.status, life.job.lost_attempts, life.job.assigned_node) == (P, 1, None)
    assert life.job.available_at == after(67)
    assert life.job.created_at == after(0)
    assert (life.latest.outcome, life.latest.ended_at) == (AttemptOutcome.EXPIRED, after(62))
    assert life.latest.lease_expires_at is None
    assert life.effects == (
        LossCounted(lost_attempts=1),
        Requeued(reason=RequeueReason.LEASE_EXPIRED, available_at=after(67)),
    )


def test_the_waits_are_5_s_then_10_s_and_the_third_loss_fails_the_job():
    life = Life().claim(A1, 0).expire(100)
    assert life.job.available_at == after(105)
    life.claim(A1, 105).expire(200)
    assert life.job.available_at == after(210)
    life.claim(A1, 210).expire(300)
    assert (life.status, life.job.error) == (FAILED, "lease of attempt 3 expired (3 of 3)")
    assert (life.job.assigned_node, life.latest.outcome) == ("node-a", AttemptOutcome.EXPIRED)
    assert life.effects == (LossCounted(lost_attempts=3), Finished(status=FAILED))


def test_a_lost_session_sends_its_job_back_though_the_lease_still_holds():
    life = Life().claim(A1, 50).lose(A1, 61)
    assert (life.status, life.job.lost_attempts) == (P, 1)
    assert life.effects[-1] == Requeued(reason=RequeueReason.NODE_LOST, available_at=after(66))


def test_the_third_lost_session_fails_the_job():
    life = Life()
    for n in range(3):
        life.claim(A1, 100 * n).lose(A1, 100 * n + 61)
    assert (life.status, life.job.error) == (FAILED, "session of attempt 3 ended (3 of 3)")


def test_the_number_of_losses_is_the_jobs_own():
    life = Life(a_job(max_lost_attempts=1)).claim(A1, 0).expire(61)
    assert (life.status, life.job.error) == (FAILED, "lease of attempt 1 expired (1 of 1)")


def test_the_end_of_another_session_changes_nothing():
    assert Life().claim(A1, 0).lose(B1, 61).unchanged
    assert Life().claim(A1, 0).lose(A2, 61).unchanged


def test_an_expiry_of_another_attempt_or_session_changes_nothing():
    life = Life().claim(A1, 0).expire(61).claim(B1, 70)
    stale_number = LeaseExpired(at=after(500), attempt=1, session=B1.id)
    stale_session = LeaseExpired(at=after(500), attempt=2, session=A1.id)
    assert life.play(stale_number).unchanged
    assert life.play(stale_session).unchanged


@pytest.mark.parametrize(
    "event",
    [
        LeaseExpired(at=after(500), attempt=1, session=A1.id),
        SessionLost(at=after(500), session=A1.id),
    ],
)
def test_a_late_loss_changes_no_job_that_does_not_run(event: JobEvent):
    for life in (
        Life(),
        Life().claim(A1, 0).expire(61),
        Life().claim(A1, 0).succeed(A1, 1),
        Life().claim(A1, 0).fail(A1, 1),
        Life().claim(A1, 0).cancel(1),
    ):
        assert life.play(event).unchanged


# ---------------------------------------------------------------- given back


def test_a_released_attempt_leaves_the_job_available_at_once_and_counts_as_nothing():
    life = Life().claim(A1, 0).release(A1, 9, attempt=1)
    assert (life.status, life.job.lost_attempts, life.job.available_at) == (P, 0, after(9))
    assert life.latest.outcome is AttemptOutcome.RELEASED
    assert life.effects == (Requeued(reason=RequeueReason.RELEASED, available_at=after(9)),)


def test_an_undone_assignment_leaves_the_job_at_its_place_and_counts_as_nothing():
    life = Life().claim(A1, 8).undo(A1, 9, attempt=1)
    assert (life.status, life.job.lost_attempts, life.job.available_at) == (P, 0, after(9))
    assert life.job.created_at == after(0)
    assert life.latest.outcome is AttemptOutcome.UNDONE
    assert life.effects == (Requeued(reason=RequeueReason.ASSIGN_ROLLBACK, available_at=after(9)),)


@pytest.mark.parametrize("call", ["release", "undo"])
def test_giving_back_is_fenced_by_attempt_and_session(call: str):
    life = Life().claim(A1, 0).expire(61).claim(B1, 70)
    for session, number in ((A1, 1), (A1, 2), (B1, 1), (A2, 2)):
        assert getattr(life, call)(session, 80, attempt=number).unchanged
    assert getattr(life, call)(B1, 80, attempt=2).status is P


@pytest.mark.parametrize("call", ["release", "undo"])
def test_giving_back_twice_changes_nothing_the_second_time(call: str):
    life = Life().claim(A1, 0)
    getattr(life, call)(A1, 5, attempt=1)
    assert getattr(life, call)(A1, 6, attempt=1).unchanged


# ---------------------------------------------------------------- the controller was away


def test_after_an_absence_a_running_job_has_its_lease_anew():
    life = Life().claim(A1, 0).extend(500)
    assert life.latest.lease_expires_at == after(560)
    assert not life.latest.listed
    assert life.effects == (LeaseRenewed(expires_at=after(560)),)
    assert life.expire(560).unchanged


def test_after_an_absence_an_immortal_lease_is_mortal_again():
    life = Life().claim(A1, 43_200).extend(100)
    assert life.latest.lease_expires_at == after(160)


def test_an_absence_changes_no_job_that_does_not_run():
    assert Life().extend(500).unchanged
    assert Life().claim(A1, 0).expire(61).extend(500).unchanged
    assert Life().claim(A1, 0).cancel(61).extend(500).unchanged


# ---------------------------------------------------------------- clocks that step back


def test_a_job_that_was_never_lost_waits_for_no_clock_that_went_back():
    life = Life(a_job(at_s=3600)).judge_wait(0)
    assert (life.job.available_at, life.job.status) == (after(0), JobStatus.PENDING)
    assert (life.job.created_at, life.job.updated_at) == (after(3600), after(3600))
    assert life.effects == ()
    assert life.claim(A1, 0).job.status is JobStatus.RUNNING


def test_a_lost_job_waits_no_longer_than_after_its_loss_when_the_clock_went_back():
    life = Life().claim(A1, 3600).expire(3661)
    assert life.job.available_at == after(3666)
    assert life.judge_wait(0).job.available_at == after(5)


def test_a_wait_that_a_loss_can_explain_is_left_alone():
    assert Life(a_job(at_s=300)).judge_wait(0).unchanged
    assert Life(a_job(at_s=300 + TICK_S)).judge_wait(0).job.available_at == after(0)
    assert Life().claim(A1, 0).expire(61).judge_wait(61).unchanged


def test_only_jobs_that_wait_have_their_wait_judged():
    assert Life(a_job(at_s=3600)).cancel(3600).judge_wait(0).unchanged
    assert Life().claim(A1, 3600).judge_wait(0).unchanged


def test_no_instant_of_a_job_goes_back_with_the_clock():
    life = Life(a_job(at_s=10)).claim(A1, 20).succeed(A1, 15)
    assert life.job.updated_at == life.job.finished_at == after(20)
    assert life.latest.ended_at == after(20)


# ---------------------------------------------------------------- the table of moves


def lost_twice() -> Life:
    return Life().claim(A1, 0).expire(61).claim(A1, 100).expire(161).claim(A1, 200, deadline_s=201)


def started_never_often() -> Life:
    life = lost_twice()
    life.history = replace(life.history, job=replace(life.job, never_started=2))
    return life.absent(A1, 202)


ROADS: dict[tuple[JobStatus, JobStatus, str], Callable[[], Life]] = {
    (P, R, "Claimed"): lambda: Life().claim(A1, 0),
    (P, R, "HeartbeatSeen"): lambda: Life().claim(A1, 0).expire(61).beat(A2, 101),
    (P, COMPLETED, "ReportReceived"): lambda: Life().claim(A1, 0).expire(61).succeed(A1, 62),
    (P, CANCELLED, "CancelAsked"): lambda: Life().cancel(0),
    (R, P, "HeartbeatSeen"): lambda: Life().claim(A1, 0, deadline_s=1).absent(A1, 2).absent(A1, 3),
    (R, P, "ReportReceived"): lambda: Life().claim(A1, 0).fail(A1, 1, retry=Retry.ELSEWHERE),
    (R, P, "LeaseExpired"): lambda: Life().claim(A1, 0).expire(61),
    (R, P, "SessionLost"): lambda: Life().claim(A1, 0).lose(A1, 61),
    (R, P, "Released"): lambda: Life().claim(A1, 0).release(A1, 1, attempt=1),
    (R, P, "AssignmentUndone"): lambda: Life().claim(A1, 0).undo(A1, 1, attempt=1),
    (R, COMPLETED, "ReportReceived"): lambda: Life().claim(A1, 0).succeed(A1, 1),
    (R, FAILED, "HeartbeatSeen"): lambda: started_never_often().absent(A1, 203),
    (R, FAILED, "ReportReceived"): lambda: Life().claim(A1, 0).fail(A1, 1),
    (R, FAILED, "LeaseExpired"): lambda: lost_twice().expire(261),
    (R, FAILED, "SessionLost"): lambda: lost_twice().lose(A1, 261),
    (R, CANCELLED, "CancelAsked"): lambda: Life().claim(A1, 0).cancel(1),
}


@pytest.mark.parametrize("road", ROADS, ids=str)
def test_every_move_of_the_table_can_happen(road: tuple[JobStatus, JobStatus, str]):
    start, end, _ = road
    life = ROADS[road]()
    assert (life.before.job.status, life.status) == (start, end)
    assert violations(life.history) == ()


def test_the_table_holds_the_moves_that_can_happen_and_no_others():
    table = {(a, b, event.__name__) for (a, b), events in MOVES.items() for event in events}
    assert table == set(ROADS)


def test_nothing_leaves_a_terminal_status():
    assert not {start for start, _ in MOVES if start.terminal}


def test_a_move_that_the_table_does_not_have_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("vmafx.domain.lifecycle.MOVES", {})
    with pytest.raises(
        IllegalTransitionError, match="CancelAsked to cancelled is not allowed in state pending"
    ):
        step(JobHistory(job=a_job()), CancelAsked(at=after(0)), LeasePolicy())


def test_every_event_of_a_life_is_in_the_table_or_changes_no_status():
    in_table = {event for events in MOVES.values() for event in events}
    assert {e.__name__ for e in set(get_args(JobEvent)) - in_table} == {"LeaseExtended", "WaitJudged"}


# ---------------------------------------------------------------- what cannot be true


def test_a_sound_history_has_no_violation():
    life = Life().claim(A1, 0).expire(61).claim(B1, 70).succeed(A1, 80)
    assert violations(life.history) == ()


RUNNING = Life().claim(A1, 0).history
ENDED = Life().claim(A1, 0).expire(61).history


@pytest.mark.parametrize(
    ("history", "claim"),
    [
        (replace(RUNNING, job=replace(RUNNING.job, status=P, assigned_node=None)), "runs exactly when"),
        (replace(ENDED, job=replace(ENDED.job, status=R)), "runs exactly when"),
        (
            replace(RUNNING, attempts=(*RUNNING.attempts, replace(RUNNING.attempts[0], number=2))),
            "only the latest attempt is open",
        ),
        (replace(RUNNING, attempts=(replace(RUNNING.attempts[0], lease_expires_at=None),)), "has a lease"),
        (replace(ENDED, attempts=(replace(ENDED.attempts[0], ended_at=None),)), "has an end exactly"),
        (replace(ENDED, attempts=ENDED.attempts * 2), "numbers grow"),
        (replace(ENDED, job=replace(ENDED.job, attempt=7)), "knows its latest attempt"),
        (
            replace(ENDED, job=replace(ENDED.job, finished_at=after(1))),
            "has an end exactly when it is terminal",
        ),
        (replace(ENDED, job=replace(ENDED.job, result=JobResult(score=1.0))), "has a result"),
        (replace(ENDED, job=replace(ENDED.job, error="no")), "has an error"),
        (
            replace(ENDED, attempts=(replace(ENDED.attempts[0], outcome=AttemptOutcome.COMPLETED),)),
            "one attempt at most completed",
        ),
        (replace(ENDED, job=replace(ENDED.job, lost_attempts=3)), "losses stay below"),
        (replace(ENDED, job=replace(ENDED.job, lost_attempts=-1)), "losses stay below"),
        (replace(ENDED, job=replace(ENDED.job, assigned_node=NodeName("node-a"))), "assigned to nobody"),
        (replace(RUNNING, job=replace(RUNNING.job, assigned_node=NodeName("node-b"))), "to the node of its"),
    ],
)
def test_each_violation_is_named(history: JobHistory, claim: str):
    assert any(claim in found for found in violations(history)), violations(history)
