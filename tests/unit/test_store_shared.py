"""A claim whose caller is cancelled, over transactions that take their time (ADR 0023)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.contract.store_harness import POLICY, Desk, Stores
from vmafx.adapters.store.memory import MemoryStore
from vmafx.adapters.store.shared import Store
from vmafx.adapters.store.transaction import Reading, Transaction, Transactions
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import StoreUnavailableError
from vmafx.domain.job import JobStatus

T = TypeVar("T")


class SlowTransactions:
    """Those of a store in memory; the next write waits at a gate, before its work or after it."""

    def __init__(self, inner: Transactions) -> None:
        self._inner = inner
        self.gate: asyncio.Event | None = None
        self.work_first = True
        self.failing_undo = False
        self.asked = asyncio.Event()
        self.sure: list[bool] = []

    async def read(self, work: Callable[[Reading], T]) -> T:
        return await self._inner.read(work)

    async def write(self, work: Callable[[Transaction], T], *, surely: bool = False) -> T:
        self.sure.append(surely)
        gate, self.gate = self.gate, None
        if gate is None:
            if surely and self.failing_undo:
                raise StoreUnavailableError("the disk is gone")
            return await self._inner.write(work)
        self.asked.set()
        if not self.work_first:
            await gate.wait()  # cancelled here, the work is never done
        answer = await self._inner.write(work)
        try:
            await gate.wait()
        except asyncio.CancelledError:
            await gate.wait()  # it is too late: the call goes on until the outcome is known
            raise
        return answer


@pytest.fixture
def slow() -> SlowTransactions:
    return SlowTransactions(MemoryStore(POLICY)._transactions)


@pytest.fixture
async def desk(slow: SlowTransactions) -> Desk:
    store = Store(slow, POLICY)
    desk = Desk(Stores(jobs=store, attempts=store, upkeep=store, sessions=store, traits=frozenset()))
    await desk.submit()
    return desk


async def cancelled_pull(desk: Desk, slow: SlowTransactions) -> None:
    """Pull, be cancelled while the store is at work, and let it end its work."""
    key = await desk.register()
    gate = slow.gate = asyncio.Event()
    pull = asyncio.create_task(desk.pull(key), name="pull")
    await slow.asked.wait()
    pull.cancel()
    if slow.work_first:
        await asyncio.sleep(0)
        assert await desk.status() is JobStatus.RUNNING
        gate.set()
    with pytest.raises(asyncio.CancelledError):
        await pull


async def test_an_assignment_that_was_stored_is_undone_before_the_cancellation_goes_on(
    desk: Desk, slow: SlowTransactions
) -> None:
    await cancelled_pull(desk, slow)
    assert await desk.status() is JobStatus.PENDING
    assert (await desk.latest()).outcome is AttemptOutcome.UNDONE
    assert slow.sure[-1]


async def test_what_was_never_begun_leaves_nothing_to_undo(desk: Desk, slow: SlowTransactions) -> None:
    slow.work_first = False
    await cancelled_pull(desk, slow)
    assert (await desk.history()).attempts == ()
    assert not slow.sure[-1]


async def test_an_assignment_that_cannot_be_undone_is_left_to_heartbeats(
    desk: Desk, slow: SlowTransactions
) -> None:
    slow.failing_undo = True
    await cancelled_pull(desk, slow)
    assert await desk.status() is JobStatus.RUNNING
