"""Pulls wait for work, and each job that comes wakes one that can run it (ADR 0025)."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.desks import CPU, DEV, RIVAL, a_caller, an_office
from tests.histories import a_job
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.errors import StoreUnavailableError
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import Claim

CUDA = frozenset({Backend.CUDA})
BOTH = CPU | CUDA
NONE = frozenset[Backend]()
WAIT_S = 100.0


# ---------------------------------------------------------------- a queue that answers in its own time


@dataclass
class Queue:
    """Jobs of one tenant, claims that take time, and the pulls that make them."""

    clock: VirtualClock
    waits: PullWaits
    jobs: list[tuple[Backend | None, datetime]] = field(default_factory=list)
    pulls: dict[asyncio.Task, frozenset[Backend]] = field(default_factory=dict)
    claims: list[int] = field(default_factory=list)
    failures: int = 0
    takes_s: float = 0.0
    numbers: itertools.count = field(default_factory=itertools.count)

    def add(self, backend: Backend | None = None, *, later_s: float = 0.0) -> None:
        available_at = self.clock.now() + timedelta(seconds=later_s)
        self.jobs.append((backend, available_at))
        self.waits.work_arrived(DEV, backend, available_at)

    def pull(self, backends: frozenset[Backend] = CPU, *, wait_s: float = WAIT_S) -> asyncio.Task:
        number = next(self.numbers)
        until_s = self.clock.monotonic() + wait_s

        async def claim() -> Claim | None:
            return await self._claim(number, backends)

        task = asyncio.create_task(self.waits.claimed(DEV, backends, claim, until_s=until_s))
        self.pulls[task] = backends
        return task

    def fits(self, backends: frozenset[Backend]) -> list[tuple[Backend | None, datetime]]:
        now = self.clock.now()
        return [job for job in self.jobs if job[1] <= now and (job[0] is None or job[0] in backends)]

    def waiting(self) -> list[frozenset[Backend]]:
        return [backends for task, backends in self.pulls.items() if not task.done()]

    async def _claim(self, number: int, backends: frozenset[Backend]) -> Claim | None:
        self.claims.append(number)
        await self.clock.sleep(self.takes_s)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("busy")
        fits = self.fits(backends)
        if not fits:
            await self.clock.sleep(self.takes_s)
            return None
        self.jobs.remove(fits[0])
        try:
            await self.clock.sleep(self.takes_s)
        except asyncio.CancelledError:
            self.add(fits[0][0])  # the assignment is undone
            raise
        return Claim(job=a_job(backend=fits[0][0]), attempt=None)  # type: ignore[arg-type]


@pytest.fixture
def queue(clock):
    return Queue(clock, PullWaits(clock))


pytestmark = pytest.mark.virtual_time


# ---------------------------------------------------------------- who is woken


async def test_one_job_wakes_one_of_two_hundred_waiting_pulls(clock):
    office = an_office(clock)
    callers = [await a_caller(office, f"node-{n}") for n in range(200)]
    pulls = [asyncio.create_task(caller.pull(timeout_s=10)) for caller in callers]
    await clock.sleep(1)
    assert office.store.claims == 200
    await office.submit()
    await clock.sleep(1)
    assert office.store.claims == 201
    assert [pull.done() for pull in pulls] == [True, *[False] * 199]
    await asyncio.gather(*pulls)


async def test_pulls_are_woken_in_the_order_they_began_to_wait(clock, queue):
    pulls = [queue.pull() for _ in range(5)]
    await clock.sleep(1)
    for served in range(1, 6):
        queue.add()
        await clock.sleep(1)
        assert [pull.done() for pull in pulls] == [*[True] * served, *[False] * (5 - served)]


async def test_who_cannot_run_the_job_is_passed_over_and_keeps_its_place(clock, queue):
    first, second, third = queue.pull(CPU), queue.pull(CUDA), queue.pull(BOTH)
    await clock.sleep(1)
    queue.add(Backend.CUDA)
    await clock.sleep(1)
    assert [task.done() for task in (first, second, third)] == [False, True, False]
    assert queue.claims == [0, 1, 2, 1]
    queue.add(None)
    await clock.sleep(1)
    assert [task.done() for task in (first, third)] == [True, False]
    await asyncio.gather(third)


async def test_who_lists_no_backend_is_woken_only_for_jobs_that_ask_for_none(clock, queue):
    pull = queue.pull(NONE)
    await clock.sleep(1)
    queue.add(Backend.CPU)
    await clock.sleep(1)
    assert queue.claims == [0]
    queue.add(None)
    await clock.sleep(1)
    assert pull.done()


async def test_who_was_woken_in_vain_keeps_its_place(clock, queue):
    first, second = queue.pull(), queue.pull()
    await clock.sleep(1)
    queue.waits.work_arrived(DEV, None, clock.now())  # somebody else was faster
    await clock.sleep(1)
    assert queue.claims == [0, 1, 0]
    queue.add()
    await clock.sleep(1)
    assert (first.done(), second.done()) == (True, False)
    await second


async def test_other_tenants_work_wakes_nobody(clock, queue):
    pull = queue.pull(wait_s=5)
    await clock.sleep(1)
    queue.waits.work_arrived(RIVAL, None, clock.now())
    await clock.sleep(1)
    assert queue.claims == [0]
    assert await pull is None


# ---------------------------------------------------------------- what is not used up is passed on


async def test_a_cancelled_pull_passes_the_job_on(clock, queue):
    queue.takes_s = 1.0
    first, second = queue.pull(), queue.pull()
    await clock.sleep(10)
    queue.add()
    await clock.sleep(0.5)
    first.cancel()  # while it claims what it was woken for
    await clock.sleep(10)
    assert second.done()
    assert first.cancelled()


async def test_a_pull_cancelled_before_it_looks_passes_the_job_on(clock, queue):
    first, second = queue.pull(), queue.pull()
    await clock.sleep(10)
    queue.add()
    first.cancel()  # woken, and gone before it runs
    await clock.sleep(1)
    assert second.done()


async def test_a_pull_whose_store_failed_passes_the_job_on(clock, queue):
    first, second = queue.pull(), queue.pull()
    await clock.sleep(1)
    queue.failures = 1
    queue.add()
    await clock.sleep(1)
    with pytest.raises(StoreUnavailableError):
        await first
    assert second.done()


async def test_a_pull_that_takes_another_job_passes_on_the_one_it_was_woken_for(clock, queue):
    queue.takes_s = 1.0
    able, only_cuda = queue.pull(BOTH), queue.pull(CUDA)
    await clock.sleep(10)
    queue.jobs.append((None, clock.now()))  # one that nobody waits for any more
    queue.add(Backend.CUDA)
    await clock.sleep(10)
    assert (await able).job.spec.backend is None
    assert only_cuda.done()


async def test_work_that_comes_while_a_pull_looks_is_not_missed(clock, queue):
    queue.takes_s = 1.0
    pull = queue.pull()
    await clock.sleep(1.5)  # it found nothing, and does not know yet
    queue.add()
    await clock.sleep(5)
    assert pull.done()
    assert queue.claims == [0, 0]


# ---------------------------------------------------------------- time


async def test_a_job_that_becomes_available_later_wakes_a_pull_then(clock, queue):
    pulls = [queue.pull() for _ in range(3)]
    await clock.sleep(1)
    queue.add(later_s=20)
    await clock.sleep(19.9)
    assert len(queue.claims) == 3
    await clock.sleep(0.2)
    assert queue.claims == [0, 1, 2, 0]
    assert pulls[0].done()


async def test_who_comes_later_is_woken_too_when_the_time_has_come(clock, queue):
    queue.add(later_s=20)
    await clock.sleep(5)
    pull = queue.pull()
    await clock.sleep(15.1)
    assert pull.done()
    assert queue.claims == [0, 0]


async def test_an_earlier_instant_is_kept_before_a_later_one(clock, queue):
    first, second = queue.pull(), queue.pull()
    await clock.sleep(1)
    queue.add(later_s=30)
    queue.add(later_s=10)
    await clock.sleep(10.1)
    assert (first.done(), second.done()) == (True, False)
    await clock.sleep(20)
    assert second.done()


async def test_a_job_that_comes_later_wakes_nobody_who_cannot_run_it(clock, queue):
    unable, able = queue.pull(CPU), queue.pull(CUDA)
    await clock.sleep(1)
    queue.add(Backend.CUDA, later_s=20)
    await clock.sleep(30)
    assert queue.claims == [0, 1, 1]
    assert (unable.done(), able.done()) == (False, True)
    await unable


async def test_a_wait_ends_with_one_more_look(clock, queue):
    pull = queue.pull(wait_s=5)
    assert await pull is None
    assert clock.monotonic() == 5
    assert queue.claims == [0, 0]


async def test_who_may_not_wait_looks_once(clock, queue):
    assert await queue.pull(wait_s=0) is None
    assert queue.claims == [0]
    assert clock.monotonic() == 0


# ---------------------------------------------------------------- the end


async def test_the_end_answers_all_and_lets_nobody_wait(clock, queue):
    pulls = [queue.pull() for _ in range(3)]
    await clock.sleep(1)
    queue.waits.end()
    assert await asyncio.gather(*pulls) == [None] * 3
    assert await queue.pull() is None
    assert clock.monotonic() == 1


async def test_nothing_is_kept_of_pulls_that_have_ended(clock, queue):
    pulls = [queue.pull(backends) for backends in (CPU, BOTH, NONE)]
    queue.add(later_s=2)
    await clock.sleep(1)
    assert len(queue.waits) == 3
    pulls[0].cancel()
    await asyncio.wait(pulls)
    assert len(queue.waits) == 0
    assert queue.waits._rooms == {}


async def test_instants_that_nobody_waited_for_are_forgotten_with_the_next_work(clock, queue):
    for _ in range(100):
        queue.waits.work_arrived(DEV, None, clock.now() + timedelta(seconds=1))
    await clock.sleep(2)
    queue.waits.work_arrived(DEV, None, clock.now())
    assert queue.waits._rooms == {}


# ---------------------------------------------------------------- all of it at once

BACKENDS = st.sampled_from([CPU, CUDA, BOTH, NONE])
ASKED = st.sampled_from([None, Backend.CPU, Backend.CUDA])
ADD = st.tuples(st.just("add"), ASKED, st.sampled_from([0.0, 0.0, 0.0, 0.05, 3.0]))
ACTIONS = st.lists(
    st.one_of(
        ADD,
        ADD,
        st.tuples(st.just("pull"), BACKENDS, st.sampled_from([0.0, 5.0, 400.0, 400.0])),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.none()),
        st.tuples(st.just("fail"), st.integers(1, 2), st.none()),
        st.tuples(st.just("pass"), st.sampled_from([0.05, 0.1, 0.15, 2.0]), st.none()),
    ),
    min_size=3,
    max_size=30,
)


@pytest.mark.no_cover
@given(first=st.lists(BACKENDS, min_size=2, max_size=5), actions=ACTIONS, takes_s=st.sampled_from([0.0, 0.1]))
@settings(max_examples=400, deadline=None)
def test_no_job_is_left_while_somebody_waits_who_could_run_it(first, actions, takes_s):
    async def scene(clock: VirtualClock) -> None:
        queue = Queue(clock, PullWaits(clock), takes_s=takes_s)
        for backends in first:
            queue.pull(backends)
        await clock.sleep(1)
        for action, what, how in actions:
            await act(queue, action, what, how)
        await clock.sleep(4)  # the last instant has come, and no claim is under way
        queue.failures = 0
        for backends in queue.waiting():
            assert not queue.fits(backends)
        assert len(queue.waits) == len(queue.waiting())
        await clock.sleep(1000)
        assert queue.waiting() == []
        assert len(queue.waits) == 0
        for task in queue.pulls:
            with suppress(StoreUnavailableError, asyncio.CancelledError):
                await task

    run_virtual(scene)


async def act(queue: Queue, action: str, what: object, how: object) -> None:
    match action, what, how:
        case "add", asked, float(later_s):
            queue.add(asked, later_s=later_s)
        case "pull", frozenset() as backends, float(wait_s):
            queue.pull(backends, wait_s=wait_s)
        case "cancel", int(number), _:
            under_way = [task for task in queue.pulls if not task.done()]
            if under_way:
                under_way[number % len(under_way)].cancel()
        case "fail", int(times), _:
            queue.failures = times
        case "pass", float(seconds), _:
            await queue.clock.sleep(seconds)
