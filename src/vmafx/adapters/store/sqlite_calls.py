"""Calls of tasks that one thread serves, all that wait at once together (ADR 0024)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

__all__ = ["BATCH_CALLS_MAX", "Call", "Server"]

T = TypeVar("T")
B = TypeVar("B")

BATCH_CALLS_MAX: Final = 256
"""How many calls are served together at most."""


class Call(Generic[B, T]):
    """One call: what to do, and what came of it.

    The thread that serves takes a call before it begins it, and a caller that gives up takes it back: the
    one that comes first has it.

    Args:
        work: What to do, with the books that the serving thread has.
        surely: Whether the call cannot be taken back.
    """

    __slots__ = ("_result", "_tokens", "error", "future", "settled", "surely", "work")

    def __init__(self, work: Callable[[B], T], *, surely: bool) -> None:
        self.work: Final = work
        self.surely: Final = surely
        self.error: BaseException | None = None
        self.settled: bool = False
        self.future: asyncio.Future[None] | None = None
        self._result: T | None = None
        self._tokens = [None]

    def take(self) -> bool:
        """Return whether the call is the caller's of this method; to anybody else it is gone."""
        try:
            self._tokens.pop()  # one step for all threads
        except IndexError:
            return False
        return True

    def do(self, books: B) -> None:
        """Do the work and keep what it returns.

        Raises:
            Exception: What the work raised.
        """
        self.error = None
        self._result = self.work(books)

    def outcome(self) -> T:
        """Return what the work returned.

        Raises:
            BaseException: What it raised.
        """
        if self.error is not None:
            raise self.error
        return cast("T", self._result)


class Server(Generic[B]):
    """A thread that serves calls.

    It waits for no company: it takes what waits when it is free. What comes while it works is the next batch.
    Calls that are made in one turn of the event loop come together, at the turn's end: a thread that woke for
    the first of them would contend with the loop for the interpreter, and take it alone.

    Args:
        name: The thread's name.
        serve: Does the work of calls and settles each with a result or an error; raises nothing.
        refusal: What a call is told when it comes too late.
    """

    def __init__(
        self,
        name: str,
        *,
        serve: Callable[[Sequence[Call[B, Any]]], None],
        refusal: Callable[[], Exception],
    ) -> None:
        self._serve = serve
        self._refusal = refusal
        self._made: list[Call[B, Any]] = []  # in this turn of the loop
        self._waiting: SimpleQueue[Sequence[Call[B, Any]] | None] = SimpleQueue()
        self._next: list[Call[B, Any]] = []  # that the thread has come for
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[B], T], *, surely: bool = False) -> T:
        """Return what `work` returns.

        Args:
            work: What to do; called on the thread.
            surely: Whether it is done also when the caller is cancelled before it began.

        Raises:
            CancelledError: The caller was cancelled; the work is done, or will never be.
            Exception: What the work raised.
        """
        if self._closing:
            raise self._refusal()
        loop = self._loop = asyncio.get_running_loop()
        call = Call(work, surely=surely)
        call.future = loop.create_future()
        if not self._made:
            loop.call_soon(self._hand_over)
        self._made.append(call)
        cancelled: asyncio.CancelledError | None = None
        while not call.settled:
            try:
                await call.future
            except asyncio.CancelledError as error:
                cancelled = error
                if not call.settled:
                    if not surely and call.take():
                        raise
                    call.future = loop.create_future()
        if cancelled is not None:
            raise cancelled
        return call.outcome()

    def stop(self) -> None:
        """Serve what waits, and nothing that comes later."""
        if not self._closing:
            self._closing = True
            self._hand_over()
            self._waiting.put(None)

    def join(self) -> None:
        """Return when the thread has ended."""
        self._thread.join()

    def _hand_over(self) -> None:
        if self._made:
            self._waiting.put(self._made)
            self._made = []

    def _run(self) -> None:
        going = True
        while going:
            calls, going = self._batch()
            taken = [call for call in calls if call.take()]
            if taken:
                try:
                    self._serve(taken)
                except BaseException as error:  # noqa: BLE001 -- a caller that is never answered waits for ever
                    for call in taken:
                        call.error = error
                self._deliver(taken)
            del calls, taken  # while it waits it keeps nothing alive

    def _batch(self) -> tuple[list[Call[B, Any]], bool]:
        """Return the calls that wait, once there is one, and whether more may come."""
        going = True
        with suppress(Empty):
            while going and len(self._next) < BATCH_CALLS_MAX:
                made = self._waiting.get(block=not self._next)
                if made is None:
                    going = False
                else:
                    self._next += made
        calls, self._next = self._next[:BATCH_CALLS_MAX], self._next[BATCH_CALLS_MAX:]
        return calls, going

    def _deliver(self, calls: list[Call[B, Any]]) -> None:
        loop = self._loop
        with suppress(RuntimeError):  # the loop is closed, and with it everybody who waits
            if loop is not None:
                loop.call_soon_threadsafe(_settle, calls)


def _settle(calls: list[Call[Any, Any]]) -> None:
    for call in calls:
        call.settled = True
        if call.future is not None and not call.future.done():
            call.future.set_result(None)
