"""Those who follow jobs: no gap, no state twice, none older after a newer, and a bound on all (ADR 0025)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller_world import ControllerWorld, a_controller, reading
from tests.desks import DEV, RIVAL
from tests.histories import a_job
from vmafx.app.controller import feed as feeds
from vmafx.app.controller.feed import CHANGED_JOBS_MAX, FOLLOWERS_MAX, Follower, JobFeed
from vmafx.app.controller.following import LISTING_PAGE_JOBS, STATES_REMEMBERED
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import Job, JobCursor, JobId, JobResult, JobStatus, TenantId

S = 10.0
LIVES = (JobStatus.PENDING, JobStatus.RUNNING, JobStatus.COMPLETED)
ACME = TenantId("acme")


@pytest.fixture
def it(clock) -> ControllerWorld:
    return a_controller(clock)


def states(name: str = "job-1", *, at_s: float = 0.0) -> list[Job]:
    """A job as it is submitted, assigned and completed, a second apart."""
    job = a_job(name, at_s=at_s)
    running = replace(
        job, status=JobStatus.RUNNING, attempt=1, updated_at=job.updated_at + timedelta(seconds=1)
    )
    done_at = job.updated_at + timedelta(seconds=2)
    done = replace(
        running,
        status=JobStatus.COMPLETED,
        updated_at=done_at,
        finished_at=done_at,
        result=JobResult(score=1.0),
    )
    return [job, running, done]


def taken(follower: Follower) -> list[tuple[JobId, JobStatus]]:
    seen = []
    while (job := follower.take()) is not None:
        seen.append((job.id, job.status))
    return seen


# ------------------------------------------------------------------ one follower


async def test_of_each_job_the_latest_state_is_kept_and_the_first_to_change_comes_first():
    follower = Follower()
    one, two = states("job-1"), states("job-2")
    for job in (one[0], two[0], two[1], one[1], one[2]):
        follower.show(job)
    assert taken(follower) == [("job-1", JobStatus.COMPLETED), ("job-2", JobStatus.RUNNING)]


@given(st.permutations(range(3)))
def test_states_that_come_in_any_order_leave_the_latest(order):
    follower = Follower()
    for index in order:
        follower.show(states()[index])
    assert taken(follower) == [("job-1", JobStatus.COMPLETED)]


async def test_a_job_that_leaves_the_asked_statuses_is_not_shown():
    follower = Follower(frozenset({JobStatus.PENDING, JobStatus.RUNNING}))
    for job in states():
        follower.show(job)
    assert taken(follower) == []


async def test_a_follower_that_waits_is_woken_by_a_change():
    follower = Follower()
    waiting = asyncio.create_task(follower.next())
    await asyncio.sleep(0)
    follower.show(states()[0])
    assert (await waiting).id == "job-1"


async def test_a_follower_that_falls_too_far_behind_is_told_and_holds_nothing():
    follower = Follower()
    for number in range(CHANGED_JOBS_MAX + 1):
        assert len(follower) == number
        follower.show(a_job(f"job-{number}"))
    assert len(follower) == 0
    with pytest.raises(ControllerError, match="begin again") as caught:
        await follower.next()
    assert (caught.value.code, caught.value.retryable) == ("RESOURCE_EXHAUSTED", True)
    follower.show(a_job("one more"))
    assert len(follower) == 0


async def test_changes_of_one_job_never_make_a_follower_fall_behind():
    follower = Follower()
    for number in range(CHANGED_JOBS_MAX + 1):
        follower.show(replace(a_job(), attempt=number))
    assert len(follower) == 1


async def test_what_a_listing_will_come_to_is_not_kept():
    follower = Follower()
    for at_s in range(4):
        follower.show(a_job(f"job-{at_s}", at_s=at_s))
    second = a_job("job-1", at_s=1)
    follower.keep_until(JobCursor(created_at=second.created_at, job_id=second.id))
    follower.show(a_job("job-9", at_s=9))
    assert [name for name, _ in taken(follower)] == ["job-0", "job-1"]
    follower.keep_until(None)
    follower.show(a_job("job-9", at_s=9))
    assert [name for name, _ in taken(follower)] == ["job-9"]


# ------------------------------------------------------------------ the feed


async def test_one_tenant_is_never_shown_anothers_jobs():
    feed = JobFeed()
    with feed.subscribe(ACME) as mine, feed.subscribe(RIVAL) as theirs:
        feed.publish(a_job())
        assert len(taken(mine)) == 1
        assert taken(theirs) == []


async def test_every_follower_of_a_tenant_is_shown_a_change_and_none_after_it_left():
    feed = JobFeed()
    with feed.subscribe(ACME) as one:
        with feed.subscribe(ACME) as two:
            feed.publish(a_job("job-1"))
        feed.publish(a_job("job-2"))
        assert len(taken(one)) == 2
        assert len(taken(two)) == 1
    assert feed._followers == {}


async def test_one_follower_too_many_is_refused_until_another_leaves():
    feed = JobFeed()
    with ExitStack() as others:
        for number in range(FOLLOWERS_MAX - 1):
            others.enter_context(feed.subscribe(TenantId(f"tenant-{number}")))
        with feed.subscribe(ACME):
            with pytest.raises(ControllerError) as caught, feed.subscribe(RIVAL):
                pass
            assert (caught.value.code, caught.value.retryable) == ("RESOURCE_EXHAUSTED", True)
            assert caught.value.message == f"{FOLLOWERS_MAX} followers are served already; try again later"
        with feed.subscribe(RIVAL) as follower:
            feed.publish(replace(a_job(), tenant=RIVAL))
            assert len(taken(follower)) == 1


async def test_the_end_of_the_feed_ends_followers_now_and_later():
    feed = JobFeed()
    with feed.subscribe(ACME) as early:
        waiting = asyncio.create_task(early.next())
        await asyncio.sleep(0)
        feed.end()
        with pytest.raises(ControllerError) as caught:
            await waiting
        assert (caught.value.code, caught.value.message) == ("UNAVAILABLE", "the controller is stopping")
        with feed.subscribe(ACME) as late, pytest.raises(ControllerError):
            late.take()


# ------------------------------------------------------------------ following jobs


@pytest.mark.virtual_time
async def test_a_reader_is_shown_what_is_there_and_then_each_change(it):
    first = await it.submit()
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        node = await it.node()
        pulled = await node.pull_job()
        await it.clock.settle()
        await node.report(pulled, JobResult(score=1.0))
        second = await it.submit()
        await it.clock.settle()
        assert reader.shown(first) == ["pending", "running", "completed"]
        assert reader.shown(second) == ["pending"]


@pytest.mark.virtual_time
async def test_a_slow_reader_is_shown_the_last_state_and_not_each(it):
    job_id = await it.submit()
    async with reading(it.jobs()) as reader:
        reader.may_read.clear()
        await it.clock.settle()
        node = await it.node()
        await node.report(await node.pull_job(), JobResult(score=1.0))
        reader.may_read.set()
        await it.clock.settle()
        assert reader.shown(job_id) == ["pending", "completed"]


@pytest.mark.virtual_time
async def test_a_reader_of_some_statuses_is_shown_no_others(it):
    first, second = await it.submit(), await it.submit()
    async with reading(it.jobs(), JobStatus.RUNNING, JobStatus.COMPLETED) as reader:
        await it.clock.settle()
        node = await it.node()
        pulled = await node.pull_job()
        await it.clock.settle()
        await node.report(pulled, JobResult(score=1.0))
        await it.jobs().cancel(second, timeout_s=S)
        await it.clock.settle()
        assert [(view.id, view.status) for view in reader.views] == [
            (first, JobStatus.RUNNING),
            (first, JobStatus.COMPLETED),
        ]


@pytest.mark.virtual_time
async def test_a_reader_of_another_tenant_is_shown_nothing(it):
    await it.submit()
    async with reading(it.jobs(RIVAL)) as reader:
        await it.clock.settle()
        await it.submit()
        await it.clock.settle()
        assert reader.views == []


@pytest.mark.virtual_time
async def test_a_change_while_a_page_is_read_is_neither_missed_nor_shown_twice(it):
    job_id = await it.submit()
    node = await it.node()

    async def change(name: str) -> None:
        if name == "page":
            it.store.tap.before = it.store.tap.after = quiet
            await node.pull_job()

    async def quiet(_name: str) -> None:
        pass

    for moment in ("before", "after"):  # the read sees the change, or does not
        setattr(it.store.tap, moment, change)
        async with reading(it.jobs()) as reader:
            await it.clock.settle()
            assert reader.shown(job_id) == ["running"]
        await it.jobs().cancel(job_id, timeout_s=S)
        job_id = await it.submit()


@pytest.mark.virtual_time
async def test_what_is_told_late_is_not_shown_again(it):
    job_id = await it.submit()
    pending = await it.job(job_id)
    await (await it.node()).pull_job()
    running = await it.job(job_id)
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        for late in (running, pending, running):
            it.feed.publish(late)
            await it.clock.settle()
        assert reader.shown(job_id) == ["running"]


@pytest.mark.virtual_time
async def test_the_states_that_are_remembered_are_bounded(it, monkeypatch):
    monkeypatch.setattr("vmafx.app.controller.following.STATES_REMEMBERED", 2)
    ids = [await it.submit() for _ in range(3)]
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        for job_id in ids:
            it.feed.publish(await it.job(job_id))
            await it.clock.settle()
        assert [len(reader.shown(job_id)) for job_id in ids] == [2, 2, 2]
    assert STATES_REMEMBERED > LISTING_PAGE_JOBS


@pytest.mark.virtual_time
async def test_changes_are_shown_between_pages_and_what_comes_later_only_by_its_page(it):
    ids = [await it.submit() for _ in range(LISTING_PAGE_JOBS + 2)]
    async with reading(it.jobs()) as reader:
        reader.may_read.clear()
        await it.clock.settle()
        early, late = ids[0], ids[-1]
        for job_id in (early, late):
            await it.jobs().cancel(job_id, timeout_s=S)
        reader.may_read.set()
        await it.clock.settle()
        assert reader.shown(early) == ["pending", "cancelled"]
        assert reader.shown(late) == ["cancelled"]
        assert [view.id for view in reader.views] == [*ids[:LISTING_PAGE_JOBS], early, *ids[-2:]]


@pytest.mark.virtual_time
async def test_a_change_just_after_a_later_page_was_read_is_not_missed(it):
    ids = [await it.submit() for _ in range(LISTING_PAGE_JOBS + 1)]
    pages = 0

    async def cancel_the_last(name: str) -> None:
        nonlocal pages
        pages += name == "page"
        if name == "page" and pages == 2:
            await it.jobs().cancel(ids[-1], timeout_s=S)

    it.store.tap.after = cancel_the_last
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        assert reader.shown(ids[-1])[-1] == "cancelled"


@pytest.mark.virtual_time
async def test_a_reader_that_stands_still_is_ended_and_beginning_again_misses_no_last_state(it, monkeypatch):
    monkeypatch.setattr(feeds, "CHANGED_JOBS_MAX", 3)
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        await it.submit()
        await it.clock.settle()
        reader.may_read.clear()
        await it.submit()
        await it.clock.settle()
        ids = [await it.submit() for _ in range(4)]
        reader.may_read.set()
        await it.clock.settle()
        assert isinstance(reader.error, ControllerError)
        assert reader.error.code == "RESOURCE_EXHAUSTED"
    await it.jobs().cancel(ids[0], timeout_s=S)
    async with reading(it.jobs()) as again:
        await it.clock.settle()
        assert again.shown(ids[0]) == ["cancelled"]
        assert len(again.views) == 6


@pytest.mark.virtual_time
async def test_the_end_of_the_controller_ends_readers(it):
    async with reading(it.jobs()) as reader:
        await it.clock.settle()
        it.feed.end()
        await it.clock.settle()
        assert isinstance(reader.error, ControllerError)
        assert reader.error.code == "UNAVAILABLE"


@pytest.mark.virtual_time
async def test_a_reader_too_many_is_refused_and_those_before_it_go_on(it, monkeypatch):
    monkeypatch.setattr(feeds, "FOLLOWERS_MAX", 1)
    async with reading(it.jobs()) as first:
        await it.clock.settle()
        async with reading(it.jobs()) as second:
            await it.clock.settle()
            assert isinstance(second.error, ControllerError)
            assert second.error.code == "RESOURCE_EXHAUSTED"
        job_id = await it.submit()
        await it.clock.settle()
        assert first.shown(job_id) == ["pending"]


@pytest.mark.virtual_time
async def test_readers_of_a_change_are_shown_one_and_the_same_view(it):
    async with reading(it.jobs()) as one, reading(it.jobs()) as two:
        await it.clock.settle()
        await it.submit()
        await it.clock.settle()
        assert one.views
        assert one.views[-1] is two.views[-1]


@pytest.mark.virtual_time
async def test_a_reader_that_leaves_leaves_nothing_behind(it):
    async with reading(it.jobs()):
        await it.clock.settle()
        assert it.feed._followers
    assert it.feed._followers == {}


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", range(5))
async def test_readers_at_any_speed_see_each_jobs_states_in_order_and_its_last(it, seed, monkeypatch):
    monkeypatch.setattr("vmafx.app.controller.following.LISTING_PAGE_JOBS", 7)
    chance = Random(seed)
    node = await it.node()

    async def pace(_name: str) -> None:
        await it.clock.sleep(chance.random() * 0.2)

    it.store.tap.before = it.store.tap.after = pace

    async def live() -> None:
        for _ in range(30):
            await it.submit()
            await it.clock.sleep(chance.random())
            if chance.random() < 0.7 and (pulled := await node.pull(timeout_s=1)) is not None:
                await it.clock.sleep(chance.random())
                await node.report(pulled, JobResult(score=1.0))

    living = asyncio.create_task(live())
    readers = []
    for _ in range(6):
        await it.clock.sleep(chance.random() * 8)
        readers.append(reading(it.jobs()))
    entered = [await reader.__aenter__() for reader in readers]
    while not living.done():
        slow = chance.choice(entered)
        slow.may_read.clear()
        await it.clock.sleep(chance.random() * 3)
        slow.may_read.set()
        await it.clock.sleep(0.1)
    await living
    await it.clock.sleep(10)
    page = await it.store.page(DEV)
    for reader in entered:
        assert reader.error is None
        last = {view.id: view.status for view in reader.views}
        assert last == {job.id: job.status for job in page}
        for job in page:
            seen = [LIVES.index(view.status) for view in reader.views if view.id == job.id]
            assert seen == sorted(set(seen))
    for reader in readers:
        await reader.__aexit__(None, None, None)
