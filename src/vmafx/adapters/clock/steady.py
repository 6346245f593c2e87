"""SteadyClock: wall time that does not step while the process lives."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vmafx.adapters.clock.system import SystemClock

if TYPE_CHECKING:
    from vmafx.ports.clock import Clock

__all__ = ["SteadyClock"]


class SteadyClock:
    """A `Clock` whose wall time is the one of its start, and what has passed on monotonic time since.

    Leases that are kept by it neither run out nor live for ever when somebody sets the machine's clock
    (ADR 0025).

    Args:
        clock: Where time comes from; None for the machine's.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = SystemClock() if clock is None else clock
        self._started_at = self._clock.now()
        self._started_s = self._clock.monotonic()

    def now(self) -> datetime:
        """Return the wall time in UTC, steps since the start left out."""
        return self._started_at + timedelta(seconds=self.monotonic() - self._started_s)

    def monotonic(self) -> float:
        """Return the seconds of the inner clock's monotonic time."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait by the inner clock.

        Raises:
            ValueError: `seconds` is not finite.
        """
        await self._clock.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[None]:
        """Return a limit of the inner clock.

        Raises:
            ValueError: On entering the context: `seconds` is not finite.
            TimeoutError: On leaving the context, when the limit ended the body.
        """
        return self._clock.timeout(seconds)


if TYPE_CHECKING:
    _port: type[Clock] = SteadyClock
