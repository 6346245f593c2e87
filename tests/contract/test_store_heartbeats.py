"""AttemptStore: what heartbeats do to sessions and jobs (ADR 0012, 0023)."""

from __future__ import annotations

import pytest

from tests.contract.store_harness import POLICY, Desk
from tests.histories import ACME, RIVAL, TICK_S, after
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import SessionNotFoundError
from vmafx.domain.job import HEARTBEAT_JOBS_MAX, JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, LeaseRenewed, LossCounted, Requeued, TakenOver
from vmafx.domain.scoring import Retry

LEASE_S = POLICY.lease_ttl_s
SESSION_S = POLICY.session_ttl_s

# ---------------------------------------------------------------- sessions


async def test_a_heartbeat_renews_its_session_and_no_other(desk: Desk) -> None:
    key = await desk.register("s1")
    other = await desk.register("s2", node="node-b")
    desk.now_s = 30.0
    answer = await desk.beat(key)
    assert answer.session.expires_at == after(30.0 + SESSION_S)
    assert answer.session.last_heartbeat_at == after(30.0)
    assert await desk.sessions.look_up(key, now=after(30.0 + SESSION_S)) == answer.session
    with pytest.raises(SessionNotFoundError):
        await desk.sessions.look_up(other, now=after(SESSION_S + TICK_S))


async def test_a_heartbeat_without_jobs_looks_nothing_up(desk: Desk) -> None:
    await desk.submit()
    answer = await desk.beat(await desk.register())
    assert (answer.cancelled, answer.changes) == ((), ())


# ---------------------------------------------------------------- cancelled jobs


async def test_a_heartbeat_names_listed_jobs_that_were_cancelled_each_once_as_listed(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("job-1", "job-2", "job-3", "job-4"):
        await desk.submit(job_id)
    await desk.submit("theirs", tenant=RIVAL)
    await desk.cancel("theirs", tenant=RIVAL)
    for job_id in ("job-1", "job-3", "job-4"):
        await desk.cancel(job_id)
    answer = await desk.beat(key, "job-3", "none", "job-1", "job-3", "theirs", "job-2")
    assert answer.cancelled == ("job-3", "job-1")


async def test_a_cancelled_job_is_named_as_often_as_it_is_listed(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await desk.cancel()
    for _ in range(3):
        assert (await desk.beat(key, "job-1")).cancelled == ("job-1",)


async def test_jobs_that_ended_otherwise_are_not_named(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("done", "failed"):
        await desk.submit(job_id)
        await desk.claim(key)
    await desk.succeed(key, "done")
    await desk.fail(key, "failed")
    before = await desk.everything()
    assert (await desk.beat(key, "done", "failed")).cancelled == ()
    assert await desk.everything() == before


async def test_as_many_jobs_as_a_heartbeat_may_list_are_looked_at(desk: Desk) -> None:
    key = await desk.register()
    ids = [f"job-{number:02}" for number in range(HEARTBEAT_JOBS_MAX)]
    for job_id in ids:
        await desk.submit(job_id)
        await desk.claim(key)
    desk.now_s = 10.0
    answer = await desk.beat(key, *reversed(ids))
    assert len(answer.changes) == HEARTBEAT_JOBS_MAX
    assert {(await desk.latest(job_id)).lease_expires_at for job_id in ids} == {after(10.0 + LEASE_S)}


# ---------------------------------------------------------------- renewals


async def test_a_listed_job_has_its_lease_renewed(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    updated_at = (await desk.job()).updated_at
    desk.now_s = 10.0
    answer = await desk.beat(key, "job-1")
    attempt = await desk.latest()
    assert attempt.lease_expires_at == after(10.0 + LEASE_S)
    assert attempt.listed
    assert [change.effects for change in answer.changes] == [
        (LeaseRenewed(expires_at=after(10.0 + LEASE_S)),)
    ]
    assert answer.changes[0].job == await desk.job()
    assert (await desk.job()).updated_at == updated_at


async def test_a_lease_is_renewed_at_its_last_instant_and_not_after_it(desk: Desk) -> None:
    key = await desk.register()
    await desk.submit("job-1")
    await desk.claim(key)
    desk.now_s = LEASE_S
    await desk.beat(key, "job-1")
    assert (await desk.latest()).lease_expires_at == after(2 * LEASE_S)
    desk.now_s = 2 * LEASE_S + TICK_S
    before = await desk.history()
    assert (await desk.beat(key, "job-1")).changes == ()
    assert await desk.history() == before


async def test_a_job_of_another_session_is_not_renewed_by_listing_it(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1"))
    other = await desk.register("s2", node="node-b")
    before = await desk.history()
    desk.now_s = 10.0
    assert (await desk.beat(other, "job-1")).changes == ()
    assert await desk.history() == before


async def test_a_job_of_another_tenant_is_not_touched_by_listing_it(desk: Desk) -> None:
    await desk.submit("theirs", tenant=RIVAL)
    await desk.claim(await desk.register("s1", tenant=RIVAL))
    before = await desk.history("theirs", tenant=RIVAL)
    desk.now_s = 100.0
    answer = await desk.beat(await desk.register("s2"), "theirs")
    assert (answer.changes, answer.cancelled) == ((), ())
    assert await desk.history("theirs", tenant=RIVAL) == before


async def test_a_node_that_names_no_jobs_vouches_for_as_many_as_its_session_holds(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("job-1", "job-2"):
        await desk.submit(job_id)
        await desk.claim(key)
    desk.now_s = 10.0
    assert (await desk.beat(key, running=1)).changes == ()
    assert (await desk.latest()).lease_expires_at == after(LEASE_S)
    answer = await desk.beat(key, running=2)
    assert {change.job.id for change in answer.changes} == {"job-1", "job-2"}
    assert (await desk.latest("job-2")).lease_expires_at == after(10.0 + LEASE_S)
    assert (await desk.latest("job-2")).listed


# ---------------------------------------------------------------- jobs that never started


async def never_listed(desk: Desk, *, deadline_s: float = 15.0):
    await desk.submit()
    key = await desk.register()
    await desk.claim(key, deadline_s=deadline_s)
    return key


async def test_a_job_that_two_heartbeats_after_the_deadline_do_not_list_goes_back(desk: Desk) -> None:
    key = await never_listed(desk)
    desk.now_s = 15.0 + TICK_S
    assert (await desk.beat(key)).changes == ()
    assert (await desk.latest()).unlisted_heartbeats == 1
    desk.now_s = 20.0
    answer = await desk.beat(key)
    assert [change.effects for change in answer.changes] == [
        (Requeued(reason=RequeueReason.NEVER_STARTED, available_at=after(20.0)),)
    ]
    job = await desk.job()
    assert (job.status, job.lost_attempts, job.never_started) == (JobStatus.PENDING, 0, 1)
    assert (await desk.latest()).outcome is AttemptOutcome.NEVER_STARTED


async def test_a_heartbeat_at_the_deadline_does_not_count(desk: Desk) -> None:
    key = await never_listed(desk)
    for at_s in (10.0, 15.0):
        desk.now_s = at_s
        await desk.beat(key)
    assert (await desk.latest()).unlisted_heartbeats == 0
    for at_s in (20.0, 25.0):
        assert await desk.status() is JobStatus.RUNNING
        desk.now_s = at_s
        await desk.beat(key)
    assert await desk.status() is JobStatus.PENDING


async def test_heartbeats_whose_count_and_list_differ_break_the_row(desk: Desk) -> None:
    key = await never_listed(desk)
    desk.now_s = 20.0
    await desk.beat(key)
    await desk.beat(key, "another", running=2)
    assert (await desk.latest()).unlisted_heartbeats == 0
    await desk.beat(key)
    assert await desk.status() is JobStatus.RUNNING
    await desk.beat(key)
    assert await desk.status() is JobStatus.PENDING


async def test_a_job_once_listed_ends_only_by_its_lease(desk: Desk) -> None:
    key = await never_listed(desk)
    desk.now_s = 5.0
    await desk.beat(key, "job-1")
    for at_s in (20.0, 30.0, 40.0, 65.0):
        desk.now_s = at_s
        await desk.beat(key)
    assert await desk.status() is JobStatus.RUNNING
    desk.now_s = 65.0 + TICK_S
    assert len((await desk.sweep()).changes) == 1


async def test_from_the_third_time_on_a_job_that_never_started_is_counted_as_lost(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    effects = []
    for _ in range(3):
        await desk.claim(key, deadline_s=desk.now_s)
        desk.now_s += 10.0
        await desk.beat(key)
        effects.append((await desk.beat(key)).changes[0].effects)
    assert [len(it) for it in effects] == [1, 1, 2]
    assert effects[2][0] == LossCounted(lost_attempts=1)
    assert (await desk.job()).available_at == after(desk.now_s + POLICY.backoff_base_s)
    assert (await desk.job()).never_started == 3


async def test_a_job_that_never_starts_fails_at_last(desk: Desk) -> None:
    await desk.submit(max_lost_attempts=1)
    key = await desk.register()
    for _ in range(3):
        await desk.claim(key, deadline_s=desk.now_s)
        desk.now_s += 10.0
        await desk.beat(key)
        answer = await desk.beat(key)
    assert Finished(status=JobStatus.FAILED) in answer.changes[0].effects
    assert (await desk.job()).error == "attempt 3 was never started (1 of 1)"


# ---------------------------------------------------------------- take-over


async def test_a_newer_session_of_the_process_takes_over_what_it_lists(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    desk.now_s = 10.0
    newer = await desk.register("s2", instance="p")
    answer = await desk.beat(newer, "job-1")
    assert answer.changes[0].effects == (TakenOver(attempt=1, lost_from="s1", loss_forgiven=False),)
    attempt = await desk.latest()
    assert (attempt.number, attempt.session, attempt.node) == (1, "s2", "node-a")
    assert attempt.lease_expires_at == after(10.0 + LEASE_S)
    assert (attempt.session_registered_at, attempt.first_registered_at) == (after(10.0), after(0.0))


@pytest.mark.parametrize(
    ("at_s", "reason"),
    [
        (LEASE_S + TICK_S, RequeueReason.LEASE_EXPIRED),
        (SESSION_S + TICK_S, RequeueReason.NODE_LOST),
    ],
)
async def test_a_newer_session_takes_a_lost_attempt_back_and_the_loss_is_forgiven(
    desk: Desk, at_s: float, reason: RequeueReason
) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    desk.now_s = at_s
    swept = await desk.sweep()
    assert swept.changes[0].effects[0] == LossCounted(lost_attempts=1)
    assert swept.changes[0].effects[1].reason is reason
    newer = await desk.register("s2", instance="p")
    answer = await desk.beat(newer, "job-1")
    assert answer.changes[0].effects == (TakenOver(attempt=1, lost_from="s1", loss_forgiven=True),)
    job, attempt = await desk.job(), await desk.latest()
    assert (job.status, job.lost_attempts, job.assigned_node) == (JobStatus.RUNNING, 0, "node-a")
    assert (attempt.outcome, attempt.ended_at, attempt.error) == (None, None, None)
    assert await desk.pull(newer) is None


async def test_a_session_does_not_take_over_its_own_lost_attempt(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register("s1", instance="p")
    await desk.claim(key)
    desk.now_s = LEASE_S + TICK_S
    await desk.sweep()
    await desk.beat(key, "job-1")
    assert await desk.status() is JobStatus.PENDING


async def test_a_lost_attempt_is_not_taken_back_once_a_newer_one_was_opened(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    desk.now_s = SESSION_S + TICK_S
    await desk.sweep()
    newer = await desk.register("s2", instance="p")
    other = await desk.register("s3", node="node-b", instance="q")
    desk.now_s += POLICY.backoff_base_s
    await desk.claim(other)
    before = await desk.history()
    assert (await desk.beat(newer, "job-1")).changes == ()
    assert await desk.history() == before


@pytest.mark.parametrize("instance", ["q", "P"])
async def test_another_process_of_the_name_takes_nothing_over(desk: Desk, instance: str) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    newer = await desk.register("s2", instance=instance)
    assert (await desk.beat(newer, "job-1")).changes == ()
    assert (await desk.latest()).session == "s1"


async def test_the_same_process_under_another_name_takes_nothing_over(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    newer = await desk.register("s2", node="node-b", instance="p")
    assert (await desk.beat(newer, "job-1")).changes == ()


async def test_an_earlier_session_takes_nothing_over(desk: Desk) -> None:
    await desk.submit()
    earlier = await desk.register("s1", instance="p")
    await desk.claim(await desk.register("s2", instance="p"))
    assert (await desk.beat(earlier, "job-1")).changes == ()
    assert (await desk.latest()).session == "s2"


@pytest.mark.parametrize(("heard_s", "passes"), [(None, True), (10.0 - TICK_S, True), (10.0, False)])
async def test_without_a_process_named_the_earlier_session_must_be_silent(
    desk: Desk, heard_s: float | None, *, passes: bool
) -> None:
    await desk.submit()
    old = await desk.register("s1")
    await desk.claim(old)
    desk.now_s = 10.0
    newer = await desk.register("s2", instance="p")
    if heard_s is not None:
        desk.now_s = heard_s
        await desk.beat(old, "job-1")
    desk.now_s = 11.0
    await desk.beat(newer, "job-1")
    assert (await desk.latest()).session == ("s2" if passes else "s1")


@pytest.mark.parametrize("end", ["released", "undone", "failed"])
async def test_an_attempt_that_was_not_lost_is_not_taken_back(desk: Desk, end: str) -> None:
    await desk.submit()
    key = await desk.register("s1", instance="p")
    claim = await desk.claim(key)
    match end:
        case "released":
            await desk.release(claim)
        case "undone":
            await desk.undo(claim)
        case _:
            await desk.fail(key, retry=Retry.ELSEWHERE)
    newer = await desk.register("s2", instance="p")
    assert (await desk.beat(newer, "job-1")).changes == ()
    assert await desk.status() is JobStatus.PENDING


async def test_a_job_that_failed_with_its_last_loss_is_not_taken_back(desk: Desk) -> None:
    await desk.submit(max_lost_attempts=1)
    await desk.claim(await desk.register("s1", instance="p"))
    desk.now_s = LEASE_S + TICK_S
    await desk.sweep()
    newer = await desk.register("s2", instance="p")
    assert (await desk.beat(newer, "job-1")).changes == ()
    assert await desk.status() is JobStatus.FAILED


async def test_what_was_taken_over_is_held_by_the_newer_session(desk: Desk) -> None:
    """The earlier session's end does not touch it, and its own end does."""
    await desk.submit()
    await desk.claim(await desk.register("s1", instance="p"))
    desk.now_s = 50.0
    newer = await desk.register("s2", instance="p")
    await desk.beat(newer, "job-1")
    desk.now_s = SESSION_S + TICK_S
    swept = await desk.sweep()
    assert [session.id for session in swept.sessions_ended] == ["s1"]
    assert swept.changes == ()
    assert (await desk.latest()).session == "s2"
    assert await desk.listed(ACME, JobStatus.RUNNING) == ["job-1"]
