"""Blocking calls to file systems, off the event loop: bounded in number and in time (ADR 0021).

A dead network or FUSE mount holds a call for ever, and nothing can end it. So each call has a thread of its
own that nobody has to wait for, neither the caller nor the end of the process; what a call brings after its
caller has gone is given back by the thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from vmafx.domain.errors import SourceError
from vmafx.domain.text import quoted
from vmafx.ports.clock import Clock

__all__ = ["THREAD_NAME", "BlockingCalls", "CallLimits"]

T = TypeVar("T")

ANSWER_TIMEOUT_S: Final = 60.0
"""How long a file system may take to answer one call, in seconds."""
STOP_WAIT_S: Final = 1.0
"""How long a cancelled call waits for its thread, in seconds."""
CALLS_MAX: Final = 256
"""Most calls at once: two for each of 64 slots, and as many again that will never return."""
THREAD_NAME: Final = "vmafx-source-io"
"""What the threads are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """How many calls there may be, and how long one may take.

    Attributes:
        answer_timeout_s: How long a call may take, the wait for its turn included, in seconds.
        stop_wait_s: How long a cancelled call waits for its thread, in seconds.
        calls_max: How many calls go on at once.

    Raises:
        ValueError: A limit is not above 0.
    """

    answer_timeout_s: float = ANSWER_TIMEOUT_S
    stop_wait_s: float = STOP_WAIT_S
    calls_max: int = CALLS_MAX

    def __post_init__(self) -> None:
        for name in ("answer_timeout_s", "stop_wait_s", "calls_max"):
            value: float = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name}={value} must be above 0")


class BlockingCalls:
    """Makes blocking calls in threads of their own.

    Args:
        clock: Limits them.
        limits: How.
    """

    def __init__(self, clock: Clock, limits: CallLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._room = asyncio.Semaphore(limits.calls_max)

    async def make(
        self, call: Callable[[], T], *, shown: str, discard: Callable[[T], None] = lambda _: None
    ) -> T:
        """Return what `call` returns.

        Args:
            call: What blocks.
            shown: The source that it is about, for errors.
            discard: Releases a result that nobody takes any more; it may block.

        Raises:
            CancelledError: The call was cancelled; its thread was given a moment to end.
            SourceError: There was no answer in time, or no thread; a fault of the machine.
        """
        return await self._made(call, shown, discard, room=self._room)

    async def finish(self, call: Callable[[], T], *, shown: str) -> T:
        """Return what `call` returns, which is called whatever happens: it does not wait for its turn.

        Args:
            call: What blocks, and gives back what another call brought.
            shown: The source that it is about, for errors.

        Raises:
            CancelledError: The call was cancelled; its thread goes on.
            SourceError: There was no answer in time; a fault of the machine.
        """
        return await self._made(call, shown, lambda _: None, room=None)

    async def _made(
        self,
        call: Callable[[], T],
        shown: str,
        discard: Callable[[T], None],
        *,
        room: asyncio.Semaphore | None,
    ) -> T:
        pending: _Pending[T] | None = None
        try:
            async with self._clock.timeout(self._limits.answer_timeout_s):
                if room is not None:
                    await room.acquire()
                pending = _Pending(call, discard, room)
                pending.start()
                await pending.ended()
        except TimeoutError:
            if pending is not None:
                pending.abandon()
            limit_s = self._limits.answer_timeout_s
            text = f"{quoted(shown)}: the file system did not answer within {limit_s:g}s"
            raise SourceError(shown, text, machine_fault=True) from None
        except _NoThreadError as error:
            text = f"{quoted(shown)}: cannot start a thread: {error}"
            raise SourceError(shown, text, machine_fault=True) from error
        except asyncio.CancelledError:
            if pending is not None:
                pending.abandon()
                await self._settled(pending)
            raise
        return pending.taken()

    async def _settled(self, pending: _Pending[T]) -> None:
        try:
            async with self._clock.timeout(self._limits.stop_wait_s):
                await pending.ended()
        except TimeoutError:
            return


class _NoThreadError(Exception):
    """No thread can be started."""


class _Pending(Generic[T]):
    """One call while it goes on, and what it brought until somebody takes it."""

    def __init__(
        self, call: Callable[[], T], discard: Callable[[T], None], room: asyncio.Semaphore | None
    ) -> None:
        self._call = call
        self._discard = discard
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._handing_over = threading.Lock()
        self._abandoned = False
        self._brought: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start it; where no thread can be had, a call that needs no room is made here and now.

        Raises:
            _NoThreadError: It cannot be started.
        """
        try:
            self._begin(self._bring, self._free_room)
        except RuntimeError as error:
            if self._room is None:  # it gives something back, and that must not be left undone
                self._bring()
                self._end.set_result(None)
                return
            self._room.release()
            raise _NoThreadError(str(error)) from error

    async def ended(self) -> None:
        """Return when it has ended, and what nobody takes was given back."""
        await asyncio.wait({self._end})

    def taken(self) -> T:
        """Return what it brought, or raise its error; for a call that ended."""
        if self._error is not None:
            raise self._error
        return self._brought.pop()

    def abandon(self) -> None:
        """Say that nobody takes what it brings, or brought."""
        with self._handing_over:
            self._abandoned = True
        if self._brought:
            self._end = self._loop.create_future()
            try:
                self._begin(self._give_back, lambda: None)
            except RuntimeError:  # no thread to be had
                self._give_back()
                self._end.set_result(None)

    def _begin(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        end = self._end

        def finish() -> None:
            end.set_result(None)
            then()

        def run() -> None:
            work()
            try:
                self._loop.call_soon_threadsafe(finish)
            except RuntimeError:  # the loop was closed: nobody will take it
                self._give_back()

        threading.Thread(target=run, name=THREAD_NAME, daemon=True).start()

    def _free_room(self) -> None:
        if self._room is not None:
            self._room.release()

    def _bring(self) -> None:
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - handed to the waiting task
            self._error = error
            return
        with self._handing_over:
            self._brought.append(result)
            unwanted = self._abandoned
        if unwanted:
            self._give_back()

    def _give_back(self) -> None:
        while self._brought:
            self._discard(self._brought.pop())
