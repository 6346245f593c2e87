"""Whether a node pulls: whoever pulls passes a gate, and is turned back when it closes (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from vmafx.app.node.calls import ours_to_cancel

__all__ = ["Gate"]

_T = TypeVar("_T")


class Gate:
    """Open at first; it may close and open again, until it is shut for good.

    Args:
        tasks: Owns the work that passes.
    """

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._open = True
        self._shut = False
        self._changed = asyncio.Event()
        self._inside: set[asyncio.Task[Any]] = set()

    @property
    def is_open(self) -> bool:
        """Whether work may pass now."""
        return self._open and not self._shut

    @property
    def is_shut(self) -> bool:
        """Whether it is closed for good."""
        return self._shut

    async def opened(self) -> bool:
        """Wait until it is open; return False when it is shut for good."""
        while not self.is_open and not self._shut:
            await self._changed.wait()
        return not self._shut

    async def passing(self, work: Coroutine[Any, Any, _T], *, name: str) -> _T | None:
        """Return what `work` returns; None when the gate closes first, and then the work was cancelled.

        What was finished when the gate closed is returned all the same. A cancellation of the caller ends the
        work, too, and waits for that.

        Args:
            work: What passes; it is not begun while the gate is closed.
            name: The name of its task.

        Raises:
            CancelledError: The caller was cancelled; nothing of the work is left.
        """
        if not self.is_open:
            work.close()
            return None
        task = self._tasks.create_task(ours_to_cancel(work), name=name)
        self._inside.add(task)
        try:
            await _ended(task)
        finally:
            self._inside.discard(task)
            work.close()  # it did not begin if its task was cancelled before
        return None if task.cancelled() else task.result()

    def close(self) -> None:
        """Turn back whoever passes, and let nobody pass until it opens."""
        self._open = False
        self._turn_back()

    def open(self) -> None:
        """Let work pass again, unless it is shut for good."""
        self._open = True
        self._tell()

    def shut(self) -> None:
        """Close for good."""
        self._shut = True
        self._turn_back()
        self._tell()

    def _turn_back(self) -> None:
        for task in self._inside:
            task.cancel("the node takes no job now")

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _ended(task: asyncio.Task[Any]) -> None:
    given_up: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            given_up = cancelled
            if not task.cancelling():
                task.cancel("nobody waits for it any more")
    if given_up is not None:
        raise given_up
