"""StoreUpkeep: lost attempts, ended sessions, a controller that was away, and old jobs (ADR 0012, 0023)."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.store_harness import POLICY, Desk
from tests.histories import ACME, RIVAL, TICK_S, after
from vmafx.adapters.store import upkeep
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import JobNotFoundError, SessionNotFoundError
from vmafx.domain.job import JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, LossCounted, Requeued
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import SWEEP_JOBS_MAX

LEASE_S = POLICY.lease_ttl_s
SESSION_S = POLICY.session_ttl_s

# ---------------------------------------------------------------- sweep


async def test_a_lease_is_not_lost_at_its_last_instant_and_is_just_after(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    desk.now_s = LEASE_S
    assert (await desk.sweep()).changes == ()
    desk.now_s = LEASE_S + TICK_S
    answer = await desk.sweep()
    available_at = after(LEASE_S + TICK_S + POLICY.backoff_base_s)
    assert [change.effects for change in answer.changes] == [
        (
            LossCounted(lost_attempts=1),
            Requeued(reason=RequeueReason.LEASE_EXPIRED, available_at=available_at),
        )
    ]
    assert answer.changes[0].job == await desk.job()
    assert (answer.sessions_ended, answer.more) == ((), False)
    attempt = await desk.latest()
    assert (attempt.outcome, attempt.error) == (
        AttemptOutcome.EXPIRED,
        "lease of attempt 1 expired (1 of 3)",
    )


async def test_a_session_ends_with_its_attempts_just_after_its_last_instant(desk: Desk) -> None:
    key = await desk.register()
    await desk.submit("job-1")
    await desk.submit("job-2")
    desk.now_s = SESSION_S - 1.0
    for _ in range(2):
        await desk.claim(key)
    desk.now_s = SESSION_S
    answer = await desk.sweep()
    assert (answer.changes, answer.sessions_ended) == ((), ())
    desk.now_s = SESSION_S + TICK_S
    answer = await desk.sweep()
    assert [session.id for session in answer.sessions_ended] == ["s1"]
    assert sorted(change.job.id for change in answer.changes) == ["job-1", "job-2"]
    assert {change.effects[1].reason for change in answer.changes} == {RequeueReason.NODE_LOST}
    assert (await desk.latest()).error == "session of attempt 1 ended (1 of 3)"
    with pytest.raises(SessionNotFoundError):
        await desk.sessions.look_up(key, now=after(0.0))


async def test_a_session_and_its_lease_over_together_is_a_lost_node(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    desk.now_s = SESSION_S + TICK_S
    (change,) = (await desk.sweep()).changes
    assert change.effects[0] == LossCounted(lost_attempts=1)
    assert change.effects[1].reason is RequeueReason.NODE_LOST


async def test_an_attempt_whose_session_ran_out_before_its_lease_is_lost_once(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    desk.now_s = SESSION_S
    await desk.claim(key)
    desk.now_s = SESSION_S + LEASE_S + 1.0
    (change,) = (await desk.sweep()).changes
    assert change.effects[1].reason is RequeueReason.NODE_LOST
    assert (await desk.job()).lost_attempts == 1


async def test_a_live_lease_does_not_outlive_its_session(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    desk.now_s = SESSION_S
    await desk.claim(key)
    desk.now_s = SESSION_S + TICK_S
    assert len((await desk.sweep()).changes) == 1
    assert await desk.status() is JobStatus.PENDING


async def test_sweeping_again_changes_nothing(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    desk.now_s = 500.0
    await desk.sweep()
    before = await desk.everything()
    answer = await desk.sweep()
    assert (answer.changes, answer.sessions_ended, answer.more) == ((), (), False)
    assert await desk.everything() == before


async def test_sweeps_side_by_side_end_each_attempt_once(desk: Desk) -> None:
    key = await desk.register()
    for number in range(10):
        await desk.submit(f"job-{number}")
        await desk.claim(key)
    desk.now_s = 500.0
    async with asyncio.TaskGroup() as group:
        sweeps = [group.create_task(desk.sweep(), name=f"sweep {number}") for number in range(4)]
    assert sorted(change.job.id for sweep in sweeps for change in sweep.result().changes) == [
        f"job-{number}" for number in range(10)
    ]
    assert [it.id for sweep in sweeps for it in sweep.result().sessions_ended] == ["s1"]


async def test_a_sweep_is_for_all_tenants_and_leaves_the_rest_alone(desk: Desk) -> None:
    for tenant in (ACME, RIVAL):
        await desk.submit(f"lost-{tenant}", tenant=tenant)
        await desk.claim(await desk.register(f"old-{tenant}", tenant=tenant))
    desk.now_s = 50.0
    key = await desk.register("new", node="node-b")
    for job_id in ("runs", "done"):
        await desk.submit(job_id)
        await desk.claim(key)
    await desk.succeed(key, "done")
    await desk.submit("waits")
    desk.now_s = SESSION_S + TICK_S
    answer = await desk.sweep()
    assert sorted(change.job.id for change in answer.changes) == ["lost-acme", "lost-rival"]
    assert sorted(session.id for session in answer.sessions_ended) == ["old-acme", "old-rival"]
    assert await desk.live() == ["new"]
    assert await desk.listed(ACME, JobStatus.RUNNING) == ["runs"]


async def test_what_ran_out_first_comes_first(desk: Desk) -> None:
    for number, at_s in enumerate((3.0, 1.0, 2.0)):
        desk.now_s = at_s
        await desk.submit(f"job-{number}")
        await desk.claim(await desk.register(f"s{number}", node=f"node-{number}"))
    desk.now_s = 70.0
    assert [change.job.id for change in (await desk.sweep()).changes] == ["job-1", "job-2", "job-0"]
    desk.now_s = 500.0
    assert [session.id for session in (await desk.sweep()).sessions_ended] == ["s1", "s2", "s0"]


async def test_leases_and_sessions_come_in_the_order_in_which_they_ran_out(desk: Desk) -> None:
    for job_id in ("job-1", "job-2"):
        await desk.submit(job_id)
    first = await desk.register("s1")
    desk.now_s = 20.0
    await desk.claim(await desk.register("s2", node="node-b"))  # its lease ends at 80 s, its session at 110 s
    desk.now_s = 85.0
    await desk.claim(first)  # its session ends at 90 s
    desk.now_s = 100.0
    answer = await desk.sweep()
    assert [(change.job.id, change.effects[1].reason) for change in answer.changes] == [
        ("job-1", RequeueReason.LEASE_EXPIRED),
        ("job-2", RequeueReason.NODE_LOST),
    ]


async def test_an_attempt_is_lost_three_times_with_growing_waits_and_then_fails(desk: Desk) -> None:
    await desk.submit()
    waits: list[float] = []
    for number in (1, 2, 3):
        key = await desk.register(f"s{number}", node=f"node-{number}")
        claim = await desk.claim(key)
        assert claim.attempt.number == number
        desk.now_s += LEASE_S + TICK_S
        (change,) = (await desk.sweep()).changes
        assert change.effects[0] == LossCounted(lost_attempts=number)
        if number < 3:
            waits.append((change.job.available_at - desk.now).total_seconds())
            desk.now_s += waits[-1]
    assert waits == [5.0, 10.0]
    assert change.effects[1:] == (Finished(status=JobStatus.FAILED),)
    job = await desk.job()
    assert (job.status, job.lost_attempts) == (JobStatus.FAILED, 3)
    assert job.error == "lease of attempt 3 expired (3 of 3)"
    assert job.assigned_node == "node-3"


async def test_a_sweep_writes_so_many_jobs_and_tells_that_there_are_more(desk: Desk) -> None:
    key = await desk.register()
    count = SWEEP_JOBS_MAX + 5
    await asyncio.gather(*(desk.submit(f"job-{number:04}") for number in range(count)))
    await asyncio.gather(*(desk.claim(key) for _ in range(count)))
    desk.now_s = 500.0
    first = await desk.sweep()
    assert (len(first.changes), first.more, first.sessions_ended) == (SWEEP_JOBS_MAX, True, ())
    second = await desk.sweep()
    assert (len(second.changes), second.more) == (5, False)
    assert [session.id for session in second.sessions_ended] == ["s1"]
    lost = [change.job.id for answer in (first, second) for change in answer.changes]
    assert len(set(lost)) == count


# ---------------------------------------------------------------- resume


async def test_after_an_absence_leases_and_sessions_have_their_whole_time_anew(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 3600.0
    await desk.resume()
    assert (await desk.latest()).lease_expires_at == after(3600.0 + LEASE_S)
    session = await desk.sessions.look_up(key, now=desk.now)
    assert session.expires_at == after(3600.0 + SESSION_S)
    assert session.last_heartbeat_at is None
    answer = await desk.sweep()
    assert (answer.changes, answer.sessions_ended) == ((), ())
    assert len((await desk.beat(key, "job-1")).changes) == 1
    assert (await desk.job()).attempt == 1


async def test_after_an_absence_what_is_not_renewed_is_lost_in_time(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    desk.now_s = 3600.0
    await desk.resume()
    desk.now_s += SESSION_S + TICK_S
    assert len((await desk.sweep()).changes) == 1


async def test_a_clock_that_stepped_back_leaves_nothing_immortal(desk: Desk) -> None:
    desk.now_s = 43_200.0
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 0.0
    await desk.resume()
    assert (await desk.latest()).lease_expires_at == after(LEASE_S)
    assert (await desk.sessions.look_up(key, now=desk.now)).expires_at == after(SESSION_S)


async def test_jobs_from_before_the_clock_went_back_do_not_wait_for_it(desk: Desk) -> None:
    desk.now_s = 3600.0
    await desk.submit("new")
    await desk.submit("asks", backend=Backend.CPU)
    await desk.submit("theirs", tenant=RIVAL)
    await desk.submit("lost", priority=1)
    await desk.claim(await desk.register())
    desk.now_s = 3661.0
    assert len((await desk.sweep()).changes) == 1
    desk.now_s = 0.0
    key = await desk.register("s2")
    assert await desk.pull(key, Backend.CPU) is None
    await desk.resume()
    assert (await desk.job("lost")).available_at == after(POLICY.backoff_base_s)
    claims = [await desk.claim(key, Backend.CPU) for _ in range(2)]
    assert {claim.job.id for claim in claims} == {"new", "asks"}
    assert await desk.pull(key, Backend.CPU) is None
    assert (await desk.claim(await desk.register("s3", tenant=RIVAL))).job.id == "theirs"
    desk.now_s = POLICY.backoff_base_s
    assert (await desk.claim(key)).job.id == "lost"
    await desk.check()


async def test_a_wait_after_a_loss_goes_on_as_it_was(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    desk.now_s = SESSION_S + TICK_S
    await desk.sweep()
    before = await desk.everything()
    await desk.resume()
    assert await desk.everything() == before
    desk.now_s += POLICY.backoff_base_s - POLICY.backoff_max_s  # as far ahead as the longest wait
    await desk.resume()
    assert await desk.everything() == before


async def test_a_clock_that_went_back_does_no_other_harm_to_a_job(desk: Desk) -> None:
    desk.now_s = 3600.0
    await desk.submit("a")
    await desk.submit("b")
    desk.now_s = 0.0
    await desk.resume()
    key = await desk.register()
    given = {claim.job.id: claim for claim in [await desk.claim(key), await desk.claim(key)]}
    await desk.succeed(key, "a")
    await desk.release(given["b"])
    jobs = [await desk.job("a"), await desk.job("b")]
    assert {job.updated_at for job in jobs} == {after(3600.0)}  # no follower takes them for older states
    assert await desk.listed(ACME, JobStatus.COMPLETED) == ["a"]
    assert await desk.upkeep.purge(finished_before=after(0.0)) == 0
    assert await desk.upkeep.purge(finished_before=after(3600.0 + TICK_S)) == 1
    await desk.check()


async def test_jobs_that_wait_too_long_are_reached_in_steps(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SWEEP_JOBS_MAX", 2)
    desk.now_s = 3600.0
    for number in range(5):
        await desk.submit(f"job-{number}")
    desk.now_s = 0.0
    keys = [await desk.register(f"s{number}", node=f"node-{number}") for number in range(2)]
    assert await desk.resume() == 4  # two jobs, two, one and a session, the other one
    assert {job.job.available_at for job in await desk.everything()} == {after(0.0)}
    for key in keys:
        await desk.claim(key)


async def test_resuming_leaves_jobs_that_do_not_run_alone(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("done", "waits"):
        await desk.submit(job_id)
    await desk.claim(key)
    await desk.succeed(key, "done")
    before = await desk.everything()
    desk.now_s = 3600.0
    await desk.resume()
    assert await desk.everything() == before


async def test_resuming_does_not_count_as_listing_a_job(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key, deadline_s=10.0)
    await desk.resume()
    assert not (await desk.latest()).listed
    desk.now_s = 20.0
    await desk.beat(key)
    await desk.beat(key)
    assert await desk.status() is JobStatus.PENDING


async def test_resuming_is_for_all_tenants(desk: Desk) -> None:
    await desk.submit(tenant=RIVAL)
    await desk.claim(await desk.register(tenant=RIVAL))
    desk.now_s = 3600.0
    await desk.resume()
    assert (await desk.sweep()).changes == ()
    assert await desk.live(RIVAL) == ["s1"]


async def test_resuming_goes_on_in_steps_and_reaches_everything_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SWEEP_JOBS_MAX", 2)
    keys = [await desk.register(f"s{number}", node=f"node-{number}") for number in range(3)]
    for number in range(5):
        await desk.submit(f"job-{number}")
        await desk.claim(keys[number % 2])
    desk.now_s = 3600.0
    assert await desk.resume() == 5  # two sessions, one and a lease, two leases, two, none
    assert {job.attempts[0].lease_expires_at for job in await desk.everything()} == {after(3600.0 + LEASE_S)}
    assert await desk.live() == ["s0", "s1", "s2"]


async def test_what_is_registered_and_claimed_between_two_steps_does_not_hold_them_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SWEEP_JOBS_MAX", 1)
    keys = [await desk.register(f"s{number}", node=f"node-{number}") for number in (2, 4)]
    for number in range(4):
        await desk.submit(f"job-{number}")
    await desk.claim(keys[1])
    desk.now_s = 60.0
    first = await desk.upkeep.resume(now=desk.now)
    early = await desk.register("s1", node="node-1")
    await desk.register("s3", node="node-3")
    await desk.claim(early)
    place, steps = first, 1
    while place is not None:
        desk.now_s += 1.0
        place, steps = await desk.upkeep.resume(now=desk.now, after=place), steps + 1
    assert steps < 10
    desk.now_s = 60.0 + LEASE_S
    assert (await desk.sweep()).changes == ()


# ---------------------------------------------------------------- purge


async def ended_at(desk: Desk, job_id: str, at_s: float, **changes: object) -> None:
    await desk.submit(job_id, **changes)  # type: ignore[arg-type]
    desk.now_s = at_s
    await desk.cancel(job_id)


async def test_jobs_that_ended_before_an_instant_are_deleted_with_their_attempts(desk: Desk) -> None:
    key = await desk.register()
    await desk.submit("old")
    await desk.claim(key)
    desk.now_s = 10.0 - TICK_S
    await desk.succeed(key, "old")
    await ended_at(desk, "kept", 10.0)
    assert await desk.upkeep.purge(finished_before=after(10.0)) == 1
    assert await desk.listed() == ["kept"]
    with pytest.raises(JobNotFoundError):
        await desk.history("old")
    assert (await desk.succeed(key, "old")).change is None
    assert (await desk.beat(key, "old")).cancelled == ()
    assert (await desk.submit("old")).created
    assert (await desk.history("old")).attempts == ()


async def test_jobs_that_have_not_ended_are_never_deleted(desk: Desk) -> None:
    await desk.submit("runs")
    await desk.submit("waits")
    await desk.claim(await desk.register())
    assert await desk.upkeep.purge(finished_before=after(1e6)) == 0
    assert await desk.listed() == ["runs", "waits"]


async def test_those_that_ended_first_are_deleted_first_and_so_many_at_once(desk: Desk) -> None:
    for job_id, at_s in (("c", 1.0), ("a", 2.0), ("b", 3.0), ("d", 4.0)):
        await ended_at(desk, job_id, at_s)
    assert await desk.upkeep.purge(finished_before=after(4.0), limit=2) == 2
    assert sorted(await desk.listed()) == ["b", "d"]
    assert await desk.upkeep.purge(finished_before=after(4.0), limit=2) == 1
    assert await desk.upkeep.purge(finished_before=after(4.0), limit=2) == 0
    assert await desk.listed() == ["d"]


async def test_a_key_of_a_deleted_job_may_be_used_again(desk: Desk) -> None:
    await ended_at(desk, "job-1", 1.0, idempotency_key="k")
    await desk.upkeep.purge(finished_before=after(2.0))
    assert (await desk.submit("job-2", idempotency_key="k", priority=9)).created


async def test_deleting_is_for_all_tenants(desk: Desk) -> None:
    await ended_at(desk, "ours", 1.0)
    await ended_at(desk, "theirs", 2.0, tenant=ACME)
    await desk.submit("rivals", tenant=RIVAL)
    await desk.cancel("rivals", tenant=RIVAL)
    assert await desk.upkeep.purge(finished_before=after(9.0)) == 3


@pytest.mark.parametrize("limit", [0, -1, SWEEP_JOBS_MAX + 1])
async def test_deleting_no_jobs_or_too_many_is_refused(desk: Desk, limit: int) -> None:
    await ended_at(desk, "job-1", 1.0)
    with pytest.raises(ValueError, match="limit"):
        await desk.upkeep.purge(finished_before=after(9.0), limit=limit)
    assert await desk.listed() == ["job-1"]
