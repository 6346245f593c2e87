"""Calls of ports whose cancellation is ours alone: one that cancels itself breaks its word (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["ours_to_cancel"]

_T = TypeVar("_T")


async def ours_to_cancel(call: Awaitable[_T]) -> _T:
    """Return what `call` returns.

    A task that ends cancelled is missed by nobody, and whoever waits for its answer waits for ever. So a
    cancellation that this task was not told of is an error like any other.

    Raises:
        CancelledError: This task is being cancelled.
        RuntimeError: It is not, and yet the call ended so.
    """
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("a call ended as cancelled, and nobody had cancelled it") from cancelled
