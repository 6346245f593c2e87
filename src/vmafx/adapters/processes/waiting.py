"""Waits that see something through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from vmafx.ports.clock import Clock

__all__ = ["Patience", "in_thread"]

_T = TypeVar("_T")


class Patience:
    """Waits to the end whatever is cancelled meanwhile, and passes the cancellation on afterwards."""

    def __init__(self) -> None:
        self._cancelled: asyncio.CancelledError | None = None

    async def until(self, *futures: asyncio.Future[Any]) -> None:
        """Return once one of `futures` is done."""
        while not any(future.done() for future in futures):
            try:
                await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                self._cancelled = error

    async def within(self, future: asyncio.Future[Any], clock: Clock, seconds: float) -> bool:
        """Return whether `future` was done within a time.

        Args:
            future: What to wait for.
            clock: Tells the time.
            seconds: How long at most, in seconds.
        """
        if future.done():
            return True
        timer = asyncio.ensure_future(clock.sleep(seconds))
        await self.until(future, timer)
        while not future.done() and timer.cancelled():  # by a loop that ends all its tasks
            timer = asyncio.ensure_future(clock.sleep(seconds))
            await self.until(future, timer)
        timer.cancel()
        await self.until(timer)
        return future.done()

    def pass_on(self) -> None:
        """Let a cancellation that came meanwhile take effect.

        Raises:
            CancelledError: There was one.
        """
        if self._cancelled is not None:
            raise self._cancelled


def in_thread(work: Callable[[], _T], name: str) -> asyncio.Future[_T]:
    """Return the future result of `work`, done in a thread of its own, or here when there can be none.

    The loop's executor would make us wait for whatever else was given to it.

    Args:
        work: What to do.
        name: The name of the thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def run() -> None:
        try:
            deliver = partial(future.set_result, work())
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            deliver = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(deliver)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        run()
    return future
