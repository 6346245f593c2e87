"""SystemClock: the machine's time and the running event loop's timers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vmafx.ports.clock import Clock

__all__ = ["SystemClock"]


class SystemClock:
    """The `Clock` of a real process."""

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of the system's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop's timer.

        Raises:
            ValueError: `seconds` is not finite.
        """
        await asyncio.sleep(max(_finite(seconds), 0.0))

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncGenerator[None, None]:
        """Cancel the body when it takes longer than `seconds`.

        Yields:
            Nothing; the body runs under the limit.

        Raises:
            ValueError: `seconds` is not finite.
        """
        async with asyncio.timeout(None if seconds is None else _finite(seconds)):
            yield


def _finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is no time in seconds")
    return seconds


if TYPE_CHECKING:
    _port: type[Clock] = SystemClock
