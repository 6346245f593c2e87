"""SystemClock: the machine's time and the running event loop's timers."""

from __future__ import annotations

import asyncio
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
        """Wait on the running loop's timer."""
        await asyncio.sleep(max(seconds, 0.0))

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncGenerator[None, None]:
        """Cancel the body when it takes longer than `seconds`.

        Yields:
            Nothing; the body runs under the limit.
        """
        async with asyncio.timeout(seconds):
            yield


if TYPE_CHECKING:
    _port: type[Clock] = SystemClock
