"""Calls to the SQLite store: what shares a transaction, what a cancelled caller leaves (ADR 0024)."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from tests.contract.store_harness import POLICY
from tests.contract.store_sqlite_harness import Gate, desk_at, open_store, turns
from tests.histories import ACME, a_job
from vmafx.adapters.store.sqlite_calls import BATCH_CALLS_MAX
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import JobNotFoundError, StoreUnavailableError
from vmafx.domain.job import JobId, JobStatus
from vmafx.domain.job_events import CancelAsked
from vmafx.domain.lifecycle import step


@pytest.fixture
async def store(tmp_path):
    async with open_store(tmp_path / "jobs.db") as store:
        yield store


@pytest.fixture
def commits(store):
    """What the store stored so far: one entry for each transaction."""
    told: list[str] = []
    connection = store._file._connections[1]
    connection.set_trace_callback(lambda statement: told.append(statement) if statement == "COMMIT" else None)
    return told


async def test_calls_that_wait_at_once_share_one_commit(store, commits):
    gate, desk = Gate(store), desk_at(store)
    first = gate.close()
    await gate.held()
    waiting = [asyncio.create_task(desk.submit(f"job-{n}")) for n in range(50)]
    await turns()
    gate.open()
    await asyncio.gather(first, *waiting)
    assert len(commits) == 2
    assert len(await desk.listed()) == 50


async def test_calls_of_one_turn_of_the_loop_share_one_commit(store, commits):
    desk = desk_at(store)

    async def submit(number):
        time.sleep(0.001)  # gives the interpreter away, as handlers of calls do: the writing thread may begin
        await desk.submit(f"job-{number}")

    await asyncio.gather(*map(submit, range(20)))
    assert len(commits) == 1


async def test_a_call_of_the_turn_in_which_the_store_is_closed_is_answered(tmp_path):
    async with open_store(tmp_path / "jobs.db") as store:
        desk = desk_at(store)
        submitting = asyncio.create_task(desk.submit("job-1"))
        await asyncio.sleep(0)
    await submitting
    async with open_store(tmp_path / "jobs.db") as store:
        assert await desk_at(store).listed() == ["job-1"]


async def test_more_calls_than_one_batch_takes_are_all_answered(store, commits):
    gate, desk = Gate(store), desk_at(store)
    first = gate.close()
    await gate.held()
    waiting = [asyncio.create_task(desk.submit(f"job-{n}")) for n in range(BATCH_CALLS_MAX + 1)]
    await turns()
    gate.open()
    await asyncio.gather(first, *waiting)
    assert len(commits) == 3
    assert len(await desk.listed()) == BATCH_CALLS_MAX + 1


async def test_one_caller_waits_for_no_company(store, commits):
    desk = desk_at(store)
    for number in range(3):
        await desk.submit(f"job-{number}")
        assert len(commits) == number + 1


async def test_a_call_that_fails_after_it_wrote_undoes_itself_alone(store):
    gate = Gate(store)

    def spoil(books):
        books.add_job(a_job("spoilt"))
        raise RuntimeError("too late")

    desk = desk_at(store)
    first = gate.close()
    await gate.held()
    before = asyncio.create_task(desk.submit("before"))
    spoilt = asyncio.create_task(store._file.write(spoil))
    after = asyncio.create_task(desk.submit("after"))
    await turns()
    gate.open()
    await asyncio.gather(first, before, after)
    with pytest.raises(RuntimeError, match="too late"):
        await spoilt
    assert await desk.listed() == ["after", "before"]


async def test_a_refused_call_costs_its_neighbours_nothing(store, commits):
    gate, desk = Gate(store), desk_at(store)
    first = gate.close()
    await gate.held()
    refused = asyncio.create_task(desk.cancel("no-such-job"))
    accepted = asyncio.create_task(desk.submit())
    await turns()
    gate.open()
    await asyncio.gather(first, accepted)
    with pytest.raises(JobNotFoundError):
        await refused
    assert len(commits) == 2


async def test_a_caller_cancelled_before_its_work_began_leaves_nothing(store):
    gate, desk = Gate(store), desk_at(store)
    first = gate.close()
    await gate.held()
    given_up = asyncio.create_task(desk.submit("given-up"))
    await turns()
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up  # at once: the gate is still closed
    gate.open()
    await first
    assert await desk.listed() == []


async def test_a_caller_cancelled_while_its_work_is_stored_hears_of_it_afterwards(store):
    gate, desk = Gate(store), desk_at(store)
    begun = gate.close()
    await gate.held()
    begun.cancel()
    await turns()
    assert not begun.done()
    begun.cancel()  # impatience changes nothing
    await turns()
    assert not begun.done()
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await begun
    await desk.submit()


async def test_a_claim_cancelled_too_late_is_undone_before_the_cancellation_goes_on(store):
    desk = desk_at(store)
    key = await desk.register()
    await desk.submit()
    ahead, behind = Gate(store), Gate(store)
    first = ahead.close()
    await ahead.held()
    claim = asyncio.create_task(desk.pull(key))
    await turns()
    last = behind.close()  # in the transaction of the claim, after it
    await turns()
    ahead.open()
    await behind.held()
    claim.cancel()
    await turns()
    behind.open()
    with pytest.raises(asyncio.CancelledError):
        await claim
    await asyncio.gather(first, last)
    history = await desk.history()
    assert history.job.status is JobStatus.PENDING
    assert [attempt.outcome for attempt in history.attempts] == [AttemptOutcome.UNDONE]


async def test_a_read_sees_every_write_that_was_answered(store):
    desk = desk_at(store)
    for number in range(20):
        await desk.submit(f"job-{number:02}")
        assert (await desk.listed())[-1] == f"job-{number:02}"


async def test_closing_answers_what_waits_and_refuses_what_comes_later(store):
    gate, desk = Gate(store), desk_at(store)
    first = gate.close()
    await gate.held()
    waiting = asyncio.create_task(desk.submit())
    await turns()
    closing = asyncio.create_task(store.close())
    await turns()
    with pytest.raises(StoreUnavailableError, match="is closed"):
        await desk.submit("late")
    with pytest.raises(StoreUnavailableError, match="is closed"):
        await store.get(ACME, JobId("job-1"))
    gate.open()
    await asyncio.gather(first, closing)
    assert (await waiting).created
    await store.close()


async def test_a_change_decided_on_what_is_no_longer_so_is_not_written(store):
    desk = desk_at(store)
    key = await desk.register()
    await desk.submit()
    stale = await desk.history()
    await desk.claim(key)
    now = await desk.history()
    ended = step(stale, CancelAsked(at=desk.now), POLICY).history
    with pytest.raises(StoreUnavailableError, match="the row has changed since it was read"):
        await store._file.write(lambda books: books.write_job(stale, ended))
    assert await desk.history() == now


async def test_a_fault_of_the_thread_itself_is_told_to_who_waits(store, monkeypatch):
    def fail(_calls):
        raise MemoryError("no room to answer")

    monkeypatch.setattr(store._file._writing, "_serve", fail)
    with pytest.raises(MemoryError, match="no room"):
        await desk_at(store).submit()
    monkeypatch.undo()
    assert (await desk_at(store).submit()).created


async def test_an_answered_call_is_kept_alive_by_nobody(store):
    class Answer:
        pass

    answer = await store._file.write(lambda _books: Answer())
    gone = weakref.ref(answer)
    del answer
    await store._file.write(lambda _books: None)  # the thread has come back to waiting for this one
    await turns()
    gc.collect()
    assert gone() is None


async def test_hundreds_of_callers_leave_only_what_can_be(store):
    desk = desk_at(store)
    keys = [await desk.register(f"s{n}", node=f"node-{n}") for n in range(8)]

    async def client(number):
        for turn in range(4):
            job_id = f"job-{number}-{turn}"
            await desk.submit(job_id)
            if turn % 2:
                await desk.cancel(job_id)

    async def node(key):
        for _ in range(40):
            claim = await desk.pull(key)
            if claim is not None:
                await desk.succeed(key, claim.job.id, attempt=claim.attempt.number)

    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(client(number))
        for key in keys:
            group.create_task(node(key))
    await desk.check()
    assert len(await desk.listed()) == 160
