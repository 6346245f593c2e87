"""AttemptStore: which reports count, and what failures that may be tried again do (ADR 0012, 0023)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from tests.contract.store_harness import POLICY, Desk
from tests.histories import RIVAL, TICK_S, after
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.job import JobResult, JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, LossCounted, ReportJudged, Requeued
from vmafx.domain.nodesession import SessionKey
from vmafx.domain.report import Partial, ReportVerdict
from vmafx.domain.scoring import Retry

LOST_S = POLICY.lease_ttl_s + TICK_S

# ---------------------------------------------------------------- the running attempt reports


async def test_a_success_completes_the_job(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 8.0
    answer = await desk.succeed(key, score=91.5)
    job = await desk.job()
    assert answer.verdict is ReportVerdict.RECORD_SUCCESS
    assert answer.change is not None
    assert answer.change.job == job
    assert answer.change.effects == (
        ReportJudged(verdict=ReportVerdict.RECORD_SUCCESS),
        Finished(status=JobStatus.COMPLETED),
    )
    assert job.result == JobResult(score=91.5, features={"vmaf": 91.5})
    assert (job.assigned_node, job.error, job.finished_at) == ("node-a", None, after(8.0))
    attempt = await desk.latest()
    assert (attempt.outcome, attempt.ended_at) == (AttemptOutcome.COMPLETED, after(8.0))
    assert attempt.lease_expires_at is None


async def test_a_failure_fails_the_job_with_its_error(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 8.0
    answer = await desk.fail(key, error="no such clip: 'ä'\n")
    job, attempt = await desk.job(), await desk.latest()
    assert answer.verdict is ReportVerdict.RECORD_FAILURE
    assert (job.status, job.error, job.result) == (JobStatus.FAILED, "no such clip: 'ä'\n", None)
    assert (attempt.outcome, attempt.error) == (AttemptOutcome.FAILED, "no such clip: 'ä'\n")
    assert (job.finished_at, job.lost_attempts) == (after(8.0), 0)


async def test_partial_scores_are_accepted_and_not_stored(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    before = await desk.history()
    answer = await desk.report(key, Partial(scores=(1.0, 2.0)), attempt=1)
    assert answer.verdict is ReportVerdict.ACCEPT_PARTIAL
    assert await desk.history() == before


async def test_partial_scores_are_fenced_by_session_and_attempt(desk: Desk) -> None:
    await desk.submit()
    old = await desk.register("s1", instance="p")
    await desk.claim(old)
    newer = await desk.register("s2", instance="p")
    for key, attempt in ((newer, None), (old, 2)):
        answer = await desk.report(key, Partial(), attempt=attempt)
        assert answer.verdict is ReportVerdict.REFUSE


async def test_a_report_does_not_renew_lease_or_session(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 20.0
    await desk.report(key, Partial())
    assert (await desk.latest()).lease_expires_at == after(POLICY.lease_ttl_s)
    assert (await desk.sessions.look_up(key, now=desk.now)).expires_at == after(POLICY.session_ttl_s)


# ---------------------------------------------------------------- first success wins

Story: TypeAlias = Callable[[Desk, SessionKey], Awaitable[SessionKey]]
"""What happens after session s1 of node-a claimed job-1; returns the session that then reports."""


async def lease_ran_out(desk: Desk, key: SessionKey) -> SessionKey:
    desk.now_s = LOST_S
    return key


async def swept(desk: Desk, key: SessionKey) -> SessionKey:
    desk.now_s = LOST_S
    await desk.sweep()
    return key


async def runs_elsewhere(desk: Desk, key: SessionKey) -> SessionKey:
    await swept(desk, key)
    desk.now_s += POLICY.backoff_base_s
    await desk.claim(await desk.register("other", node="node-b"))
    return key


async def released(desk: Desk, key: SessionKey) -> SessionKey:
    await desk.fail(key, retry=Retry.AT_ONCE)
    return key


async def failed_retryably(desk: Desk, key: SessionKey) -> SessionKey:
    await desk.fail(key, retry=Retry.ELSEWHERE)
    return key


async def registered_again(desk: Desk, key: SessionKey) -> SessionKey:
    del key
    desk.now_s = 10.0
    return await desk.register("s2")


async def node_lost_then_registered_again(desk: Desk, key: SessionKey) -> SessionKey:
    del key
    desk.now_s = POLICY.session_ttl_s + TICK_S
    await desk.sweep()
    return await desk.register("s2", instance="another process")


async def taken_over(desk: Desk, key: SessionKey) -> SessionKey:
    newer = await registered_again(desk, key)
    await desk.beat(newer, "job-1")
    return newer


async def passed_on_to_a_newer_session(desk: Desk, key: SessionKey) -> SessionKey:
    await taken_over(desk, key)
    return key


STORIES: tuple[Story, ...] = (
    lease_ran_out,
    swept,
    runs_elsewhere,
    released,
    failed_retryably,
    registered_again,
    node_lost_then_registered_again,
    taken_over,
    passed_on_to_a_newer_session,
)


@pytest.mark.parametrize("attempt", [None, 1, 9])
@pytest.mark.parametrize("story", STORIES)
async def test_a_success_of_a_name_that_held_the_job_counts(
    desk: Desk, story: Story, attempt: int | None
) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    reporter = await story(desk, key)
    answer = await desk.succeed(reporter, attempt=attempt)
    assert answer.verdict is ReportVerdict.RECORD_SUCCESS
    history = await desk.history()
    assert (history.job.status, history.job.assigned_node) == (JobStatus.COMPLETED, "node-a")
    assert history.attempts[0].outcome is AttemptOutcome.COMPLETED


async def test_an_attempt_that_runs_elsewhere_is_superseded(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await runs_elsewhere(desk, key)
    await desk.succeed(key)
    history = await desk.history()
    assert [attempt.outcome for attempt in history.attempts] == [
        AttemptOutcome.COMPLETED,
        AttemptOutcome.SUPERSEDED,
    ]
    assert history.attempts[1].lease_expires_at is None
    desk.now_s += 1000.0
    assert (await desk.sweep()).changes == ()


async def test_a_success_is_credited_to_the_attempt_it_numbers_else_to_the_latest(desk: Desk) -> None:
    key = await desk.register()
    for job_id, attempt, credited in (("job-1", 1, 0), ("job-2", None, 1), ("job-3", 2, 1)):
        await desk.submit(job_id)
        await desk.release(await desk.claim(key))
        await desk.claim(key)
        await desk.succeed(key, job_id, attempt=attempt)
        outcomes = [it.outcome for it in (await desk.history(job_id)).attempts]
        assert outcomes[credited] is AttemptOutcome.COMPLETED
        assert outcomes.count(AttemptOutcome.COMPLETED) == 1


async def test_a_waiting_job_that_was_completed_late_is_not_assigned_again(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await swept(desk, key)
    await desk.succeed(key)
    desk.now_s += POLICY.backoff_base_s
    assert await desk.pull(key) is None


async def test_an_undone_assignment_may_still_deliver_its_success(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.undo(await desk.claim(key))
    assert (await desk.succeed(key)).verdict is ReportVerdict.RECORD_SUCCESS


async def test_a_second_final_report_changes_nothing(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await desk.succeed(key, score=90.0)
    before = await desk.history()
    desk.now_s = 5.0
    for call in (
        desk.succeed(key, score=10.0),
        desk.succeed(key, score=90.0, attempt=1),
        desk.fail(key),
        desk.fail(key, retry=Retry.ELSEWHERE),
        desk.fail(key, retry=Retry.AT_ONCE),
    ):
        answer = await call
        assert answer.verdict is ReportVerdict.IGNORE
        assert answer.change is not None
        assert answer.change.job == before.job
        assert answer.change.effects == (ReportJudged(verdict=ReportVerdict.IGNORE),)
    assert await desk.history() == before


async def test_a_report_of_a_cancelled_job_is_ignored(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await desk.cancel()
    assert (await desk.succeed(key)).verdict is ReportVerdict.IGNORE
    assert await desk.status() is JobStatus.CANCELLED


async def test_a_success_of_only_later_sessions_of_the_name_is_refused(desk: Desk) -> None:
    await desk.submit()
    earlier = await desk.register("s1")
    desk.now_s = 1.0
    await desk.claim(await desk.register("s2"))
    assert (await desk.succeed(earlier)).verdict is ReportVerdict.REFUSE
    assert await desk.status() is JobStatus.RUNNING


# ---------------------------------------------------------------- reports that do not count


async def test_a_name_that_never_held_the_job_is_refused(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1"))
    before = await desk.history()
    stranger = await desk.register("s2", node="node-b")
    for call in (
        desk.succeed(stranger),
        desk.succeed(stranger, attempt=1),
        desk.fail(stranger, attempt=1),
        desk.report(stranger, Partial()),
    ):
        answer = await call
        assert answer.verdict is ReportVerdict.REFUSE
        assert answer.change is not None
        assert answer.change.job == before.job
    assert await desk.history() == before


async def test_a_pending_job_that_nobody_held_is_refused(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    assert (await desk.succeed(key)).verdict is ReportVerdict.REFUSE
    assert await desk.status() is JobStatus.PENDING


async def test_a_job_of_another_tenant_is_refused_as_if_there_were_none(desk: Desk) -> None:
    await desk.submit(tenant=RIVAL)
    await desk.claim(await desk.register("s1", tenant=RIVAL))
    answer = await desk.succeed(await desk.register("s2"))
    assert (answer.verdict, answer.change) == (ReportVerdict.REFUSE, None)
    assert (await desk.job(tenant=RIVAL)).status is JobStatus.RUNNING


@pytest.mark.parametrize("retry", Retry)
@pytest.mark.parametrize("story", [swept, runs_elsewhere, released, passed_on_to_a_newer_session])
async def test_a_failure_of_an_attempt_that_no_longer_runs_changes_nothing(
    desk: Desk, story: Story, retry: Retry
) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await story(desk, key)
    before = await desk.history()
    answer = await desk.fail(key, retry=retry, attempt=None if story is not runs_elsewhere else 1)
    assert answer.verdict is ReportVerdict.IGNORE
    assert await desk.history() == before


async def test_a_stale_failure_does_not_end_a_newer_attempt_of_the_same_session(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.release(await desk.claim(key))
    await desk.claim(key)
    assert (await desk.fail(key, attempt=1)).verdict is ReportVerdict.IGNORE
    assert await desk.status() is JobStatus.RUNNING
    assert (await desk.fail(key, attempt=2)).verdict is ReportVerdict.RECORD_FAILURE


async def test_a_numbered_failure_counts_from_any_session_of_the_name(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1"))
    newer = await desk.register("s2")
    assert (await desk.fail(newer, attempt=1)).verdict is ReportVerdict.RECORD_FAILURE


@pytest.mark.parametrize(("heard_s", "counts"), [(None, True), (10.0 - TICK_S, True), (10.0, False)])
async def test_a_failure_without_number_counts_when_the_earlier_session_is_silent(
    desk: Desk, heard_s: float | None, *, counts: bool
) -> None:
    await desk.submit()
    old = await desk.register("s1")
    await desk.claim(old)
    desk.now_s = 10.0
    newer = await desk.register("s2")
    if heard_s is not None:
        desk.now_s = heard_s
        await desk.beat(old, "job-1")
    desk.now_s = 11.0
    answer = await desk.fail(newer)
    assert answer.verdict is (ReportVerdict.RECORD_FAILURE if counts else ReportVerdict.IGNORE)


# ---------------------------------------------------------------- failures that may be tried again


async def test_a_retryable_failure_is_tried_again_after_the_wait(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 7.0
    answer = await desk.fail(key, error="no space", retry=Retry.ELSEWHERE)
    assert answer.verdict is ReportVerdict.REQUEUE_RETRYABLE
    assert answer.change is not None
    assert answer.change.effects[1:] == (
        LossCounted(lost_attempts=1),
        Requeued(reason=RequeueReason.RETRYABLE_FAILURE, available_at=after(7.0 + POLICY.backoff_base_s)),
    )
    job, attempt = await desk.job(), await desk.latest()
    assert (job.status, job.error, job.assigned_node) == (JobStatus.PENDING, None, None)
    assert (attempt.outcome, attempt.error) == (AttemptOutcome.FAILED, "no space")


async def test_the_last_retryable_failure_fails_the_job_with_its_error(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    for number in (1, 2, 3):
        await desk.claim(key)
        await desk.fail(key, error=f"no space {number}", retry=Retry.ELSEWHERE)
        desk.now_s += POLICY.backoff_base_s * number
    job = await desk.job()
    assert (job.status, job.error, job.lost_attempts) == (JobStatus.FAILED, "no space 3", 3)


async def test_a_failure_by_shutdown_is_given_back_at_once_however_often(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    for number in range(1, 6):
        claim = await desk.claim(key)
        assert claim.attempt.number == number
        answer = await desk.fail(key, error="shutdown", retry=Retry.AT_ONCE)
        assert answer.verdict is ReportVerdict.REQUEUE_RELEASED
    job = await desk.job()
    assert (job.status, job.lost_attempts) == (JobStatus.PENDING, 0)
    assert (await desk.latest()).outcome is AttemptOutcome.RELEASED
