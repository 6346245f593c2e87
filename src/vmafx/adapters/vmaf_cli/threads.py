"""Blocking work off the event loop that can be stopped, and that owns what it opened until it is handed over.

The standard executor would do neither: a cancelled wait leaves its function running with descriptors that
were closed under it, and an application may have filled it with work of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from vmafx.domain.errors import ScorerError
from vmafx.ports.clock import Clock

__all__ = ["STOP_WAIT_S", "StopSign", "StoppedError", "in_thread"]

T = TypeVar("T")

STOP_WAIT_S: Final = 2.0
"""How long a cancelled call waits for its thread, in seconds; a dead network mount may hold one for ever."""


class StoppedError(Exception):
    """The work was told to stop."""


class StopSign:
    """Tells work in a thread that nobody waits for it any more."""

    __slots__ = ("_raised",)

    def __init__(self) -> None:
        self._raised = False

    def put_up(self) -> None:
        """Tell the work to stop."""
        self._raised = True

    def check(self) -> None:
        """Do nothing unless the sign is up; cheap enough for inner loops.

        Raises:
            StoppedError: It is.
        """
        if self._raised:
            raise StoppedError


async def in_thread(
    work: Callable[[StopSign], T], *, clock: Clock, discard: Callable[[T], None] = lambda _: None
) -> T:
    """Return what `work` returns, run in a thread of its own.

    When the call is cancelled, the work is told to stop and waited for, `STOP_WAIT_S` at most. A result that
    nobody takes any more is discarded, whenever it comes.

    Args:
        work: Blocking work; it checks the sign often.
        clock: Limits the wait.
        discard: Releases a result.

    Raises:
        CancelledError: The call was cancelled.
        ScorerError: No thread can be started; a fault of the machine.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    sign = StopSign()

    def run() -> None:
        try:
            result = work(sign)
        except BaseException as error:  # noqa: BLE001 - handed to the waiting task
            _deliver(loop, _fail, outcome, error)
        else:
            if not _deliver(loop, _succeed, outcome, result):
                discard(result)

    try:
        threading.Thread(target=run, name="vmafx-scorer-io", daemon=True).start()
    except RuntimeError as error:
        raise ScorerError(f"libvmaf: cannot start a thread: {error}", machine_fault=True) from error
    try:
        await asyncio.wait({outcome})
    except asyncio.CancelledError:
        sign.put_up()
        outcome.add_done_callback(lambda done: _drop(done, discard))
        await _settled(outcome, clock)
        raise
    return outcome.result()


async def _settled(outcome: asyncio.Future[T], clock: Clock) -> None:
    try:
        async with clock.timeout(STOP_WAIT_S):
            await asyncio.wait({outcome})
    except TimeoutError:
        return


def _deliver(loop: asyncio.AbstractEventLoop, how: Callable[..., None], *arguments: object) -> bool:
    try:
        loop.call_soon_threadsafe(how, *arguments)
    except RuntimeError:  # the loop was closed: nobody waits
        return False
    return True


def _succeed(outcome: asyncio.Future[T], result: T) -> None:
    outcome.set_result(result)


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    outcome.set_exception(error)


def _drop(outcome: asyncio.Future[T], discard: Callable[[T], None]) -> None:
    if outcome.exception() is None:
        discard(outcome.result())
