"""What a heartbeat means for a job: renewal, takeover, a job that never started, older nodes (ADR 0012)."""

from __future__ import annotations

import pytest

from tests.histories import RIVAL, TICK_S, Life, a_job, a_session, after
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.job import JobId, JobStatus, RequeueReason, SessionId
from vmafx.domain.job_events import Finished, LeaseRenewed, LossCounted, Requeued, TakenOver
from vmafx.domain.lease import Heartbeat, Sight
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.scoring import Retry

A1 = a_session("a1", node="node-a", at_s=0, instance="p1")
A2 = a_session("a2", node="node-a", at_s=100, instance="p1")
B1 = a_session("b1", node="node-b", at_s=0)
OLD_A1 = a_session("a1", node="node-a", at_s=0)
OLD_A2 = a_session("a2", node="node-a", at_s=100)
OTHER_PROCESS = a_session("a2", node="node-a", at_s=100, instance="p2")


def ids(*names: str) -> tuple[JobId, ...]:
    return tuple(JobId(name) for name in names)


def sight(heartbeat: Heartbeat, job: str = "j", *, held: int = 1) -> Sight:
    return heartbeat.sight(JobId(job), held=held)


# ---------------------------------------------------------------- what a heartbeat says


def test_a_listed_job_is_listed_whatever_the_count_says():
    for count in (-1, 0, 1, 2, 64):
        assert sight(Heartbeat(jobs_running=count, listed=ids("i", "j")), held=9) is Sight.LISTED


def test_a_job_is_absent_only_when_count_and_list_agree():
    assert sight(Heartbeat(jobs_running=0)) is Sight.ABSENT
    assert sight(Heartbeat(jobs_running=2, listed=ids("h", "i"))) is Sight.ABSENT
    assert sight(Heartbeat(jobs_running=3, listed=ids("h", "i"))) is Sight.UNKNOWN
    assert sight(Heartbeat(jobs_running=1, listed=ids("h", "i"))) is Sight.UNKNOWN
    assert sight(Heartbeat(jobs_running=-1)) is Sight.UNKNOWN


@pytest.mark.parametrize(
    ("running", "held", "expected"),
    [(1, 1, Sight.VOUCHED), (2, 1, Sight.VOUCHED), (1, 2, Sight.UNKNOWN), (64, 64, Sight.VOUCHED)],
)
def test_a_node_that_lists_nothing_vouches_for_no_more_jobs_than_it_runs(
    running: int, held: int, expected: Sight
):
    assert sight(Heartbeat(jobs_running=running), held=held) is expected


def test_a_node_that_lists_some_jobs_vouches_for_no_other():
    assert sight(Heartbeat(jobs_running=5, listed=ids("i")), held=1) is Sight.UNKNOWN


def test_64_ids_are_accepted_and_65_refused_in_the_words_of_the_wire():
    names = ids(*(f"j{n}" for n in range(65)))
    assert len(Heartbeat(jobs_running=64, listed=names[:64]).listed) == 64
    with pytest.raises(ValueError, match="running_job_ids has 65 entries, at most 64 are accepted"):
        Heartbeat(jobs_running=65, listed=names)


def test_cancelled_jobs_are_named_in_the_order_of_the_request_each_once():
    heartbeat = Heartbeat(jobs_running=6, listed=ids("z", "run", "a", "gone", "z", "done", "failed"))
    statuses = {
        JobId("a"): JobStatus.CANCELLED,
        JobId("z"): JobStatus.CANCELLED,
        JobId("run"): JobStatus.RUNNING,
        JobId("done"): JobStatus.COMPLETED,
        JobId("failed"): JobStatus.FAILED,
        JobId("unlisted"): JobStatus.CANCELLED,
    }
    assert heartbeat.cancelled(statuses) == ids("z", "a")


# ---------------------------------------------------------------- renewal


def test_a_listed_job_has_its_lease_anew():
    life = Life().claim(A1, 0).beat(A1, 30)
    assert life.latest.lease_expires_at == after(90)
    assert life.latest.listed
    assert life.effects == (LeaseRenewed(expires_at=after(90)),)


def test_a_renewal_leaves_the_attempts_before_alone():
    life = Life().claim(A1, 0).expire(61).claim(B1, 70).beat(B1, 80)
    assert life.history.attempts[:-1] == life.before.attempts[:-1]
    assert [a.number for a in life.history.attempts] == [1, 2]


def test_a_renewal_is_no_change_of_the_job():
    life = Life().claim(A1, 5).beat(A1, 30)
    assert life.job == life.before.job
    assert life.job.updated_at == after(5)


def test_at_the_expiry_instant_a_lease_is_renewed_and_just_after_it_is_not():
    assert Life().claim(A1, 0).beat(A1, 60).latest.lease_expires_at == after(120)
    assert Life().claim(A1, 0).beat(A1, 60 + TICK_S).unchanged


def test_a_session_does_not_renew_what_a_sweep_has_ended():
    assert Life().claim(A1, 0).expire(61).beat(A1, 62).unchanged


@pytest.mark.parametrize("seen", list(Sight))
def test_a_session_says_nothing_of_an_attempt_of_its_own_that_has_ended(seen: Sight):
    life = Life().claim(A1, 0, deadline_s=10).expire(61)
    for at_s in (62, 63, 64):
        assert life.beat(A1, at_s, seen).unchanged


@pytest.mark.parametrize(
    "stranger",
    [
        B1,
        a_session("b2", node="node-b", at_s=9, instance="p1"),
        a_session("a9", node="node-a", at_s=9, instance="p1", tenant=RIVAL),
    ],
    ids=["other name", "other name, later", "other tenant"],
)
@pytest.mark.parametrize("seen", list(Sight))
def test_a_heartbeat_of_a_stranger_changes_nothing(stranger: NodeSession, seen: Sight):
    assert Life().claim(A1, 0).beat(stranger, 10, seen).unchanged
    assert Life().claim(A1, 0).expire(61).beat(stranger, 62, seen).unchanged


@pytest.mark.parametrize("seen", list(Sight))
def test_a_heartbeat_changes_no_ended_job_and_none_never_claimed(seen: Sight):
    assert Life().beat(A1, 10, seen).unchanged
    assert Life().claim(A1, 0).cancel(5).beat(A1, 10, seen).unchanged
    assert Life().claim(A1, 0).succeed(A1, 5).beat(A2, 110, seen).unchanged
    assert Life().claim(A1, 0).fail(A1, 5).beat(A2, 110, seen).unchanged


def test_an_older_session_does_not_renew_what_a_newer_one_took_over():
    life = Life().claim(A1, 0).beat(A2, 101)
    assert life.beat(A1, 102).unchanged
    assert life.absent(A1, 103).unchanged


# ---------------------------------------------------------------- older nodes


def test_a_node_that_lists_nothing_keeps_the_leases_of_the_jobs_it_vouches_for():
    life = Life().claim(A1, 0).beat(A1, 30, Sight.VOUCHED)
    assert life.latest.lease_expires_at == after(90)


def test_a_job_that_an_older_node_vouched_for_ends_only_by_its_lease():
    life = Life().claim(A1, 0, deadline_s=10).beat(A1, 20, Sight.VOUCHED)
    life.absent(A1, 30).absent(A1, 40).absent(A1, 50)
    assert life.status is JobStatus.RUNNING


def test_an_unclear_heartbeat_renews_nothing():
    assert Life().claim(A1, 0).beat(A1, 30, Sight.UNKNOWN).unchanged


# ---------------------------------------------------------------- never started


def never_started(life: Life, session: NodeSession, at_s: float) -> Life:
    """Claim, and let two heartbeats after the pull's deadline not list the job."""
    life.claim(session, at_s, deadline_s=at_s + 1)
    return life.absent(session, at_s + 2).absent(session, at_s + 3)


def test_a_job_that_two_heartbeats_after_the_deadline_do_not_list_goes_back_uncounted():
    life = Life().claim(A1, 0, deadline_s=10).absent(A1, 11)
    assert (life.status, life.latest.unlisted_heartbeats) == (JobStatus.RUNNING, 1)
    life.absent(A1, 21)
    assert (life.status, life.job.never_started, life.job.lost_attempts) == (JobStatus.PENDING, 1, 0)
    assert life.latest.outcome is AttemptOutcome.NEVER_STARTED
    assert life.effects == (Requeued(reason=RequeueReason.NEVER_STARTED, available_at=after(21)),)


def test_a_heartbeat_received_at_the_deadline_says_nothing_and_one_just_after_it_does():
    assert Life().claim(A1, 0, deadline_s=10).absent(A1, 10).unchanged
    assert Life().claim(A1, 0, deadline_s=10).absent(A1, 10 + TICK_S).latest.unlisted_heartbeats == 1


def test_both_heartbeats_must_come_after_the_deadline():
    life = Life().claim(A1, 0, deadline_s=10).absent(A1, 9).absent(A1, 11)
    assert life.status is JobStatus.RUNNING


def test_a_pull_without_a_deadline_is_given_60_s():
    life = Life().claim(A1, 0)
    assert life.latest.pull_deadline_at == after(60)
    assert life.absent(A1, 60).unchanged


def test_a_job_once_listed_ends_only_by_its_lease():
    life = Life().claim(A1, 0, deadline_s=10).beat(A1, 11)
    for at_s in (20, 30, 40):
        assert life.absent(A1, at_s).unchanged
    assert life.expire(72).status is JobStatus.PENDING


def test_a_listing_between_two_absences_keeps_the_job():
    life = Life().claim(A1, 0, deadline_s=10).absent(A1, 11).beat(A1, 12).absent(A1, 13)
    assert (life.status, life.latest.unlisted_heartbeats) == (JobStatus.RUNNING, 0)


def test_an_unclear_heartbeat_between_two_absences_breaks_the_row():
    life = Life().claim(A1, 0, deadline_s=10).absent(A1, 11).beat(A1, 12, Sight.UNKNOWN)
    assert life.latest.unlisted_heartbeats == 0
    life.absent(A1, 13)
    assert life.status is JobStatus.RUNNING
    assert life.absent(A1, 14).status is JobStatus.PENDING


def test_the_third_time_a_job_never_started_is_counted_as_lost_and_waits():
    life = Life()
    for n in range(2):
        never_started(life, A1, 10 * n)
        assert life.job.lost_attempts == 0
    never_started(life, A1, 20)
    assert (life.job.never_started, life.job.lost_attempts) == (3, 1)
    assert life.effects == (
        LossCounted(lost_attempts=1),
        Requeued(reason=RequeueReason.NEVER_STARTED, available_at=after(28)),
    )


def test_a_job_that_never_starts_fails_at_the_third_counted_time():
    life = Life()
    for n in range(5):
        never_started(life, A1, 100 * n)
    assert life.status is JobStatus.FAILED
    assert life.job.error == "attempt 5 was never started (3 of 3)"
    assert life.latest.outcome is AttemptOutcome.NEVER_STARTED
    assert life.effects == (LossCounted(lost_attempts=3), Finished(status=JobStatus.FAILED))


def test_an_attempt_that_never_started_is_not_taken_over():
    life = never_started(Life(), A1, 0)
    assert life.beat(A2, 101).unchanged


# ---------------------------------------------------------------- takeover


def test_a_newer_session_of_the_process_takes_a_running_attempt_over():
    life = Life().claim(A1, 0, deadline_s=10).absent(A1, 50).beat(A2, 101)
    assert (life.status, life.latest.session, life.latest.number) == (JobStatus.RUNNING, "a2", 1)
    assert life.latest.session_registered_at == after(100)
    assert life.latest.first_registered_at == after(0)
    assert life.latest.lease_expires_at == after(161)
    assert (life.latest.listed, life.latest.unlisted_heartbeats) == (True, 0)
    assert life.effects == (TakenOver(attempt=1, lost_from=SessionId("a1"), loss_forgiven=False),)


@pytest.mark.parametrize("loss", ["session", "lease"])
def test_a_lost_attempt_is_taken_over_and_the_loss_is_not_counted(loss: str):
    life = Life().claim(A1, 0).beat(A1, 30)
    life = life.lose(A1, 95) if loss == "session" else life.expire(95)
    assert (life.status, life.job.lost_attempts) == (JobStatus.PENDING, 1)
    life.beat(A2, 101)
    assert (life.status, life.job.lost_attempts, life.job.attempt) == (JobStatus.RUNNING, 0, 1)
    assert life.job.assigned_node == "node-a"
    assert (life.latest.outcome, life.latest.ended_at, life.latest.error) == (None, None, None)
    assert life.effects == (TakenOver(attempt=1, lost_from=SessionId("a1"), loss_forgiven=True),)


def test_a_node_may_lose_its_session_without_end_and_keep_its_job():
    life = Life().claim(a_session("s0", instance="p"), 0)
    for n in range(1, 20):
        life.expire(100 * n)
        life.beat(a_session(f"s{n}", at_s=100 * n, instance="p"), 100 * n + 1)
    assert (life.status, life.job.attempt, life.job.lost_attempts) == (JobStatus.RUNNING, 1, 0)


def test_nothing_is_taken_over_once_a_newer_attempt_was_opened():
    life = Life().claim(A1, 0).expire(61).claim(B1, 70)
    assert life.beat(A2, 101).unchanged
    life.expire(131)
    assert life.beat(A2, 132).unchanged


@pytest.mark.parametrize("end", ["release", "undo", "retryable"])
def test_an_attempt_that_was_given_back_is_not_taken_over(end: str):
    life = Life().claim(A1, 0)
    if end == "release":
        life.release(A1, 5, attempt=1)
    elif end == "undo":
        life.undo(A1, 5, attempt=1)
    else:
        life.fail(A1, 5, retry=Retry.ELSEWHERE)
    assert life.status is JobStatus.PENDING
    assert life.beat(A2, 101).unchanged


@pytest.mark.parametrize("seen", [Sight.VOUCHED, Sight.ABSENT, Sight.UNKNOWN])
def test_only_a_listing_takes_over(seen: Sight):
    assert Life().claim(A1, 0).beat(A2, 101, seen).unchanged


def test_the_process_that_took_an_attempt_over_is_kept_with_it():
    life = Life().claim(OLD_A1, 0).beat(A2, 101)
    assert life.latest.instance == "p1"
    assert life.beat(a_session("a3", at_s=200, instance="p2"), 201).unchanged


def test_another_process_of_the_name_takes_nothing_over():
    assert Life().claim(A1, 0).beat(OTHER_PROCESS, 101, holder_seen_s=None).unchanged
    assert Life().claim(A1, 0).expire(61).beat(OTHER_PROCESS, 101).unchanged


def test_the_same_process_takes_over_even_from_a_session_that_was_seen_since():
    life = Life().claim(A1, 0).beat(A2, 110, holder_seen_s=105)
    assert life.latest.session == "a2"


@pytest.mark.parametrize(
    ("holder", "newer"), [(OLD_A1, OLD_A2), (A1, OLD_A2), (OLD_A1, A2)], ids=["neither", "first", "second"]
)
@pytest.mark.parametrize(
    ("seen_s", "passes"), [(None, True), (100 - TICK_S, True), (100, False), (100 + TICK_S, False)]
)
def test_where_a_process_is_unnamed_the_earlier_session_must_be_silent_since_the_newer_registered(
    holder: NodeSession, newer: NodeSession, seen_s: float | None, *, passes: bool
):
    life = Life().claim(holder, 0).beat(newer, 110, holder_seen_s=seen_s)
    assert (life.latest.session == newer.id) is passes
    assert life.unchanged is not passes


def test_a_takeover_may_be_followed_by_the_end_of_the_old_session():
    life = Life().claim(A1, 0).beat(A2, 59).lose(A1, 61)
    assert life.unchanged
    assert life.status is JobStatus.RUNNING


def test_an_attempt_whose_lease_ran_out_unswept_is_taken_over():
    life = Life().claim(A1, 0).beat(A2, 101)
    assert life.latest.session == "a2"


def test_a_job_that_failed_at_its_last_loss_is_not_revived():
    life = Life(a_job(max_lost_attempts=1)).claim(A1, 0).expire(61)
    assert life.status is JobStatus.FAILED
    assert life.beat(A2, 101).unchanged
