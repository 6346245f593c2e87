"""A controller's upkeep: in time, never dead, and no node pays for a controller that was away (ADR 0025)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.controller_world import DISK_FULL, ControllerWorld, a_controller, sweeping
from tests.desks import DEV, POLICY
from vmafx.app.controller import events, metrics
from vmafx.app.controller.sweeper import PURGE_JOBS
from vmafx.domain.errors import StoreError
from vmafx.domain.job import JobResult, JobStatus
from vmafx.domain.lease import LeasePolicy
from vmafx.ports.jobstore import SWEEP_JOBS_MAX
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time
TTL_S = POLICY.lease.session_ttl_s
INTERVAL_S = POLICY.sweep_interval_s


@pytest.fixture
def it(clock) -> ControllerWorld:
    return a_controller(clock)


def requeued(it: ControllerWorld, reason: str) -> float | None:
    return it.telemetry.value(metrics.JOBS_REQUEUED, {"reason": reason})


async def test_a_sweep_is_made_at_once_and_at_each_interval(it):
    instants = []

    async def note(name: str) -> None:
        if name == "sweep":
            instants.append(it.clock.monotonic())

    it.store.tap.before = note
    async with sweeping(it):
        await it.clock.sleep(3.5 * INTERVAL_S)
    assert instants == [0, INTERVAL_S, 2 * INTERVAL_S, 3 * INTERVAL_S]


async def test_a_sweep_that_takes_its_time_does_not_move_the_next(it):
    instants = []

    async def slow(name: str) -> None:
        if name == "sweep":
            instants.append(it.clock.monotonic())
            await it.clock.sleep(INTERVAL_S / 2)

    it.store.tap.before = slow
    async with sweeping(it):
        await it.clock.sleep(2.2 * INTERVAL_S)
    assert instants == [0, INTERVAL_S, 2 * INTERVAL_S]


async def test_what_a_lost_node_held_is_pending_again_and_counted_once(it):
    async with sweeping(it):
        job_id = await it.submit()
        await (await it.node()).pull_job()
        await it.clock.sleep(TTL_S + INTERVAL_S + 0.001)
        assert await it.status(job_id) is JobStatus.PENDING
        await it.clock.sleep(10 * INTERVAL_S)
    assert requeued(it, "node_lost") == 1
    assert len(it.telemetry.events_of(events.SESSION_ENDED)) == 1


async def test_more_losses_than_one_sweep_takes_are_all_found_in_one_turn(it):
    node = await it.node()
    for _ in range(SWEEP_JOBS_MAX + 1):
        await it.submit()
        await node.pull_job()
    await it.clock.sleep(TTL_S + 0.001)
    await it.sweeper._once(until_s=it.clock.monotonic() + 1)
    assert requeued(it, "node_lost") == SWEEP_JOBS_MAX + 1


# ------------------------------------------------------------------ away


async def test_at_a_start_everything_lasts_anew(it):
    job_id = await it.submit()
    node = await it.node()
    pulled = await node.pull_job()
    await it.clock.sleep(120)  # nobody there
    async with sweeping(it):
        await it.clock.sleep(TTL_S - 1)
        assert (await node.beat(job_id)).ok
        await it.clock.sleep(TTL_S - 1)
        await node.report(pulled, JobResult(score=1.0))
    assert await it.status(job_id) is JobStatus.COMPLETED
    assert requeued(it, "node_lost") is None
    assert not it.telemetry.events_of(events.AWAY)


async def hold_up(it: ControllerWorld, seconds: float) -> None:
    """Let the process stand still: time passes, and nobody gets to do anything."""
    loop = asyncio.get_running_loop()
    loop.clock.move_to(loop.clock.monotonic() + seconds)  # type: ignore[attr-defined]
    await it.clock.sleep(0.001)


async def test_a_controller_that_stood_still_loses_no_node(it):
    async with sweeping(it):
        job_id = await it.submit()
        node = await it.node()
        await node.pull_job()
        await it.clock.sleep(1)
        await hold_up(it, 600)
        assert await it.status(job_id) is JobStatus.RUNNING
        assert (await node.beat(job_id)).ok
        await it.clock.sleep(TTL_S + INTERVAL_S)  # once, not for ever
        assert await it.status(job_id) is JobStatus.PENDING
    (event,) = it.telemetry.events_of(events.AWAY)
    assert event.level is Level.WARN
    assert event.fields["away"] == pytest.approx(601, abs=0.1)


@pytest.mark.parametrize(("late", "away"), [(2.9, 0), (3.1, 1)])
async def test_only_a_sweep_that_is_over_three_intervals_late_says_so(it, late, away):
    async with sweeping(it):
        await it.clock.sleep(0.001)
        await hold_up(it, (1 + late) * INTERVAL_S)
    assert len(it.telemetry.events_of(events.AWAY)) == away


async def test_after_an_outage_of_the_store_no_node_is_lost_that_could_not_beat(it):
    async with sweeping(it):
        job_id = await it.submit()
        node = await it.node()
        await node.pull_job()
        it.store.tap.failing = DISK_FULL
        await it.clock.sleep(3 * TTL_S)
        it.store.tap.failing = None
        await it.clock.sleep(INTERVAL_S)
        assert (await node.beat(job_id)).ok
        assert await it.status(job_id) is JobStatus.RUNNING


async def test_after_an_outage_from_the_start_on_no_node_is_lost(it):
    job_id = await it.submit()
    node = await it.node()
    await node.pull_job()
    await it.sweeper.resume()
    it.store.tap.failing = DISK_FULL
    task = asyncio.create_task(it.sweeper.run())
    await it.clock.sleep(3 * TTL_S)
    it.store.tap.failing = None
    await it.clock.sleep(INTERVAL_S)
    task.cancel()
    assert (await node.beat(job_id)).ok
    assert requeued(it, "node_lost") is None


async def test_a_store_that_stood_still_in_a_sweep_counts_as_away(it):
    async def stall(name: str) -> None:
        if name == "sweep":
            it.store.tap.quieten()
            await it.clock.sleep(TTL_S)

    it.store.tap.before = stall
    async with sweeping(it):
        await it.clock.sleep(TTL_S + 1)
    (event,) = it.telemetry.events_of(events.AWAY)
    assert event.fields["away"] == TTL_S


async def test_a_resumption_goes_through_all_its_steps(it):
    node = await it.node()
    for _ in range(SWEEP_JOBS_MAX + 1):
        await it.submit()
        await node.pull_job()
    await it.clock.sleep(TTL_S * 2)
    it.store.tap.calls.clear()
    async with sweeping(it):
        assert it.store.tap.calls.count("resume") >= 2
        await it.clock.sleep(TTL_S / 2)
        assert requeued(it, "node_lost") is None


async def test_a_resumption_that_nobody_wants_any_more_ends_after_its_step(it):
    node = await it.node()
    for _ in range(SWEEP_JOBS_MAX + 1):
        await it.submit()
        await node.pull_job()
    await it.sweeper.resume(wanted=lambda: False)
    assert it.store.tap.calls.count("resume") == 1


# ------------------------------------------------------------------ a store that fails


async def test_an_outage_is_told_once_at_its_begin_and_once_at_its_end(it):
    async with sweeping(it) as task:
        await it.clock.sleep(0.001)
        assert it.readiness.store_problem is None
        it.store.tap.failing = DISK_FULL
        await it.clock.sleep(10 * INTERVAL_S)
        assert it.readiness.store_problem == "database or disk is full"
        (event,) = it.telemetry.events_of(events.UPKEEP_FAILED)
        assert (event.level, event.error) == (Level.ERROR, DISK_FULL)
        it.store.tap.failing = None
        await it.clock.sleep(2 * INTERVAL_S)
        assert it.readiness.store_problem is None
        (event,) = it.telemetry.events_of(events.STORE_WORKS_AGAIN)
        assert event.fields["failed_for"] == 10 * INTERVAL_S
        it.store.tap.failing = StoreError("damaged")
        await it.clock.sleep(INTERVAL_S)
        assert len(it.telemetry.events_of(events.UPKEEP_FAILED)) == 2
        assert not task.done()


async def test_a_requeue_that_could_not_be_written_is_written_later(clock):
    policy = replace(POLICY, lease=LeasePolicy(lease_ttl_s=3, session_ttl_s=3), sweep_interval_s=1.0)
    it = a_controller(clock, policy)
    async with sweeping(it):
        job_id = await it.submit()
        await (await it.node()).pull_job()
        await it.clock.sleep(2.9)
        it.store.tap.failing = DISK_FULL
        await it.clock.sleep(2)
        it.store.tap.failing = None
        await it.clock.sleep(1)
        assert await it.status(job_id) is JobStatus.PENDING
    assert requeued(it, "node_lost") == 1


async def test_a_start_is_refused_by_a_store_that_fails(it):
    it.store.tap.failing = DISK_FULL
    with pytest.raises(StoreError):
        await it.sweeper.resume()


async def test_an_error_that_nobody_foresaw_ends_the_sweeper(it):
    await it.sweeper.resume()
    it.store.tap.failing = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await it.sweeper.run()


async def test_a_cancelled_sweep_passes_on_what_it_did_and_does_no_more(clock):
    it = a_controller(clock, replace(POLICY, sweep_interval_s=TTL_S))
    job_id = await it.submit()
    await (await it.node()).pull_job()
    await it.sweeper.resume()
    await it.clock.sleep(TTL_S + 1)
    written = asyncio.Event()

    async def answer_late(name: str) -> None:
        if name == "sweep":
            written.set()
            await it.clock.sleep(1)

    it.store.tap.after = answer_late
    task = asyncio.create_task(it.sweeper.run())
    await written.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert await it.status(job_id) is JobStatus.PENDING
    assert requeued(it, "node_lost") == 1
    assert it.store.tap.calls.count("sweep") == 1


# ------------------------------------------------------------------ retention


async def test_jobs_that_ended_too_long_ago_are_deleted_in_small_batches(clock):
    it = a_controller(clock, replace(POLICY, retention_s=100.0))
    old = [await it.submit() for _ in range(PURGE_JOBS + 1)]
    for job_id in old:
        await it.jobs().cancel(job_id, timeout_s=10)
    pending = await it.submit()
    await clock.sleep(50)
    fresh = await it.submit()
    await it.jobs().cancel(fresh, timeout_s=10)
    async with sweeping(it):
        await clock.sleep(56)
    assert [job.id for job in await it.store.page(DEV)] == [pending, fresh]
    (event,) = it.telemetry.events_of(events.JOBS_PURGED)
    assert event.fields == {"jobs": PURGE_JOBS + 1}


async def test_a_purge_that_takes_long_leaves_the_next_sweep_its_time(clock):
    it = a_controller(clock, replace(POLICY, retention_s=1.0))
    for _ in range(10 * PURGE_JOBS):
        await it.jobs().cancel(await it.submit(), timeout_s=10)
    await clock.sleep(2)

    async def slow(name: str) -> None:
        if name == "purge":
            await clock.sleep(INTERVAL_S / 2)

    it.store.tap.before = slow
    async with sweeping(it):
        await clock.sleep(2.9 * INTERVAL_S)
    calls = [name for name in it.store.tap.calls if name in {"sweep", "purge"}]
    assert calls == ["sweep", "purge", "purge"] * 3


@pytest.mark.parametrize("retention_s", [0.0, 1e15])
async def test_no_job_is_deleted_that_is_to_be_kept(clock, retention_s):
    it = a_controller(clock, replace(POLICY, retention_s=retention_s))
    await it.jobs().cancel(await it.submit(), timeout_s=10)
    async with sweeping(it):
        await clock.sleep(10_000)
    assert len(await it.store.page(DEV)) == 1
    assert "purge" not in it.store.tap.calls


async def test_the_sweeper_looks_for_jobs_that_nobody_runs(it):
    async with sweeping(it):
        await it.clock.sleep(1)
    assert it.store.looks == 1
