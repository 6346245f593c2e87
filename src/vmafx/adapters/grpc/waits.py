"""Calls that wait for something to happen, so that they can be ended before a server stops (ADR 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from vmafx.domain.errors import ControllerError
from vmafx.domain.refusals import STOPPING
from vmafx.domain.retry import StatusCode

__all__ = ["StoppingError", "Waits"]


class StoppingError(ControllerError):
    """A call was ended because its server is about to stop."""

    def __init__(self) -> None:
        super().__init__(StatusCode.UNAVAILABLE.value, STOPPING, retryable=True)


class Waits:
    """The waits of some calls; a server that stops would hold them to the end of its grace."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended = asyncio.Event()

    def end(self) -> None:
        """End all waits, and every later one where it begins."""
        self._ended.set()
        for task in self._tasks:
            task.cancel()

    @contextmanager
    def one(self) -> Generator[None]:
        """Return a context whose body waits; it belongs to one task.

        Yields:
            Nothing.

        Raises:
            StoppingError: The wait was ended, and what the body did was cancelled.
            CancelledError: The task was cancelled for another reason.
        """
        task = asyncio.current_task()
        if self._ended.is_set() or task is None:
            raise StoppingError
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._ended.is_set() and not task.uncancel():  # else the caller has gone as well
                raise StoppingError from None
            raise
        finally:
            self._tasks.discard(task)
