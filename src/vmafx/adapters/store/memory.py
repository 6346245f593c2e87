"""MemoryStore: jobs, attempts and sessions for as long as the process lives (ADR 0023).

What a call costs depends on what it touches and hardly on how much is stored: for every question that is
asked of many jobs or sessions there is an index that keeps them in the order of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from vmafx.adapters.store.memory_jobs import JobTable
from vmafx.adapters.store.memory_sessions import SessionTable
from vmafx.adapters.store.shared import Store
from vmafx.adapters.store.transaction import Reading, Transaction, Transactions
from vmafx.domain.lease import LeasePolicy

__all__ = ["MemoryStore"]

T = TypeVar("T")


class MemoryStore(Store):
    """A store in memory, for one event loop; it is empty at first.

    A call never waits, so it is whole, and cancelling its caller comes before it or after it.

    Args:
        policy: How long leases, sessions and waits last.
    """

    def __init__(self, policy: LeasePolicy) -> None:
        super().__init__(_MemoryTransactions(), policy)


class _Books(JobTable, SessionTable):
    def __init__(self) -> None:
        JobTable.__init__(self)
        SessionTable.__init__(self)


class _MemoryTransactions:
    def __init__(self) -> None:
        self._books = _Books()

    async def read(self, work: Callable[[Reading], T]) -> T:
        return work(self._books)

    async def write(self, work: Callable[[Transaction], T], *, surely: bool = False) -> T:
        del surely  # no caller can be cancelled before the work began
        return work(self._books)


if TYPE_CHECKING:
    _books: type[Transaction] = _Books
    _port: type[Transactions] = _MemoryTransactions
