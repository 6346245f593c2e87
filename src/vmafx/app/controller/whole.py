"""Work that is not left half done: a caller may go away, what it began comes to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

__all__ = ["whole"]

T = TypeVar("T")


async def whole(work: Coroutine[object, object, T], *, name: str) -> T:
    """Return what `work` returns; when the caller is cancelled, the work ends first.

    What a store has written must also be counted, told and passed on: a caller that goes away between the
    two would take that with it. The work must be short, as one call of a store is.

    Args:
        work: What to do.
        name: What its task is called.

    Raises:
        CancelledError: The caller was cancelled, however the work ended.
    """
    task = asyncio.create_task(work, name=name)
    try:
        await _end(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await _end(task)
        if not task.cancelled():
            task.exception()  # seen: nobody is left to be told
        raise
    return task.result()


async def _end(task: asyncio.Task[T]) -> None:
    """Return when a task has ended; whoever waits may be cancelled without it.

    As `asyncio.wait` does, with less around it: every call passes here.
    """
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(_: asyncio.Task[T]) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(tell)
    await ended
