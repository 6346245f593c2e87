"""Clock: the only source of time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """Tells time and waits for it (ADR 0002)."""

    def now(self) -> datetime:
        """Return the wall time, aware and in UTC, for instants that leave the process; it may step."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; they never go back, nor follow steps of the wall clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once at least `seconds` have passed on `monotonic`.

        A time of 0 or less still lets every other task that is ready run once. Cancellation ends the wait
        at once and leaves nothing behind.

        Args:
            seconds: How long, in seconds; finite.

        Raises:
            ValueError: `seconds` is not finite.
        """
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[None]:
        """Return a context whose body is cancelled when it takes longer than `seconds`.

        Args:
            seconds: The limit in seconds; None sets none; 0 or less ends the body at its first wait.

        Raises:
            ValueError: On entering the context: `seconds` is not finite.
            TimeoutError: On leaving the context, when the limit ended the body. A cancellation from outside
                stays a cancellation.
        """
        ...
