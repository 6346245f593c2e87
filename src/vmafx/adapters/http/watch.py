"""Watch: ends what takes longer than it may."""

from __future__ import annotations

import asyncio
from typing import NoReturn, Protocol

from vmafx.ports.clock import Clock

__all__ = ["Abortable", "Watch"]


class Abortable(Protocol):
    """What can be cut off."""

    def abort(self) -> None:
        """Cut it off at once."""
        ...


class Watch:
    """Cuts off whatever it is given that is not taken back in time.

    Everything has the same time, so what was given first is due first: one task watches any number.

    Args:
        clock: The time.
        limit_s: How long each may take, in seconds.
    """

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._due_s: dict[Abortable, float] = {}
        self._some = asyncio.Event()

    def begin(self, one: Abortable) -> None:
        """Watch it from now on; where it is watched already, its time goes on."""
        self._due_s.setdefault(one, self._clock.monotonic() + self._limit_s)
        self._some.set()

    def end(self, one: Abortable) -> None:
        """Watch it no more."""
        self._due_s.pop(one, None)

    async def run(self) -> NoReturn:
        """Watch until cancelled."""
        while True:
            await self._some.wait()
            now_s = self._clock.monotonic()
            for one in [one for one, due_s in self._due_s.items() if due_s <= now_s]:
                self.end(one)
                one.abort()
            first_due_s = next(iter(self._due_s.values()), None)
            if first_due_s is None:
                self._some.clear()
            else:
                await self._clock.sleep(first_due_s - now_s)
