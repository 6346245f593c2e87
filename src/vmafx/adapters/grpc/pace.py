"""Pace: how fast the answers of streams go out together, so that the calls beside them go on (ADR 0026)."""

from __future__ import annotations

from typing import Final

from vmafx.ports.clock import Clock

__all__ = ["BURST_S", "FOLLOWED_PER_S", "LISTED_PER_S", "Pace"]

FOLLOWED_PER_S: Final = 4000.0
"""How many jobs are sent in a second to all those together who follow: a third of what a process can do."""
LISTED_PER_S: Final = 8000.0
"""How many jobs are sent in a second to all those together who list."""
BURST_S: Final = 0.05
"""How much of what was not sent before may be sent at once, in seconds."""


class Pace:
    """Lets answers go, one after another in the order in which they were ready, so many in a second.

    Args:
        clock: Whose seconds.
        per_s: How many, above 0.
    """

    def __init__(self, clock: Clock, per_s: float) -> None:
        self._clock = clock
        self._each_s = 1.0 / per_s
        self._due_s = clock.monotonic() - BURST_S

    async def one(self) -> None:
        """Return when the next answer may go: at once as long as there are fewer than that."""
        now_s = self._clock.monotonic()
        self._due_s = max(self._due_s, now_s - BURST_S) + self._each_s
        if self._due_s > now_s:
            await self._clock.sleep(self._due_s - now_s)
