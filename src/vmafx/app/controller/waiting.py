"""PullWaits: pulls that found nothing wait for work, and are woken one at a time (ADR 0025).

Each job that may be claimed from now on wakes one pull: of those that can run it, the one that began to wait
first. A woken pull makes one claim. Whatever it did not use up is passed on to the next:

- it ended without a claim: cancelled, refused, or the store failed;
- it claimed a job that asks for something else than the one it was woken for;
- more work came while it claimed, and it is content.

A pull counts as waiting from before its first claim, so that nothing can come between the two unseen. When
all who can run a job are awake already, nobody else is woken: each of them looks once more before it rests.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from heapq import heappop, heappush
from typing import Final, TypeAlias

from vmafx.domain.job import TenantId
from vmafx.domain.scoring import Backend
from vmafx.ports.clock import Clock
from vmafx.ports.jobstore import Claim

__all__ = ["PullWaits"]

_Asked: TypeAlias = Backend | None  # what a job asks for


class PullWaits:
    """Who waits for work, by tenant and by what they can run.

    What waits is lost with the process and nothing else is kept here; nodes pull again.

    Args:
        clock: Whose time jobs become available by, and waits end by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._rooms: Final[dict[TenantId, _Room]] = {}
        self._numbers: Final = itertools.count()
        self._ended = False

    def __len__(self) -> int:
        """Return how many pulls are under way, those that claim included."""
        return sum(len(room.turns) for room in self._rooms.values())

    def work_arrived(self, tenant: TenantId, backend: Backend | None, available_at: datetime) -> None:
        """Wake a pull for a job that is pending, now or as soon as it is available.

        Args:
            tenant: Whose job it is.
            backend: The backend that it asks for; None for any.
            available_at: From when on it may be claimed.
        """
        now = self._clock.now()
        room = self._rooms.get(tenant)
        if available_at > now:
            room = self._room(tenant) if room is None else room
            room.expect(backend, available_at)
        elif room is not None:
            room.wake(backend)
        if room is not None:
            room.ripen(now)
            self._tidy(tenant, room)

    async def claimed(
        self,
        tenant: TenantId,
        backends: frozenset[Backend],
        claim: Callable[[], Awaitable[Claim | None]],
        *,
        until_s: float,
    ) -> Claim | None:
        """Return what `claim` finds: at once, or when work arrives, or at the end of the wait.

        Args:
            tenant: Whose jobs.
            backends: What the node can run.
            claim: Asks the store; whatever it raises passes through.
            until_s: The instant of the clock's monotonic time at which the wait ends.

        Returns:
            The first claim found; None when there was none in all that time.
        """
        room = self._room(tenant)
        turn = _Turn(next(self._numbers), backends)
        room.join(turn)
        try:
            while True:
                room.take_up(turn)
                found = await claim()
                turn.used(found)
                if found is not None or self._ended or self._clock.monotonic() >= until_s:
                    return found
                await self._rest(room, turn, until_s)
        finally:
            room.leave(turn)
            self._tidy(tenant, room)

    def end(self) -> None:
        """Let no pull wait from now on: those that do look once more and are answered."""
        self._ended = True
        for room in self._rooms.values():
            for turn in room.turns.values():
                turn.rouse()

    async def _rest(self, room: _Room, turn: _Turn, until_s: float) -> None:
        """Return when the turn was woken, or its time is over."""
        while not (turn.woken() or self._ended):
            left_s = until_s - self._clock.monotonic()
            if left_s <= 0:
                return
            now = self._clock.now()
            room.ripen(now)
            if turn.woken():
                return
            next_at = room.next_for(turn.backends)
            if next_at is not None:
                left_s = min(left_s, (next_at - now).total_seconds())
            with suppress(TimeoutError):
                async with self._clock.timeout(left_s):
                    await turn.roused()

    def _room(self, tenant: TenantId) -> _Room:
        return self._rooms.setdefault(tenant, _Room())

    def _tidy(self, tenant: TenantId, room: _Room) -> None:
        if room.empty:
            self._rooms.pop(tenant, None)


class _Turn:
    """One pull: the work it was woken for and has not looked for yet, and what it now looks for."""

    __slots__ = ("_alarm", "backends", "in_hand", "number", "pending")

    def __init__(self, number: int, backends: frozenset[Backend]) -> None:
        self.number = number
        self.backends = backends
        self.pending: tuple[_Asked, ...] = ()
        self.in_hand: tuple[_Asked, ...] = ()
        self._alarm: asyncio.Future[None] | None = None

    def woken(self) -> bool:
        return bool(self.pending)

    def wake(self, asked: _Asked) -> None:
        self.pending = (asked,)
        self.rouse()

    def used(self, found: Claim | None) -> None:
        """Note what a claim found: nothing, so there is nothing of the kind; or a job, perhaps of another."""
        if found is None or self.in_hand == (found.job.spec.backend,):
            self.in_hand = ()

    def rouse(self) -> None:
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    async def roused(self) -> None:
        self._alarm = asyncio.get_running_loop().create_future()
        try:
            await self._alarm
        finally:
            self._alarm = None


class _Room:
    """The pulls of one tenant, and the instants at which jobs of it become available.

    Pulls that were not woken stand in lines, one for each set of backends, the earliest first.
    """

    def __init__(self) -> None:
        self.turns: dict[int, _Turn] = {}
        self._lines: dict[frozenset[Backend], list[int]] = {}
        self._expected: dict[_Asked, list[datetime]] = {}

    @property
    def empty(self) -> bool:
        return not (self.turns or self._expected)

    def join(self, turn: _Turn) -> None:
        self.turns[turn.number] = turn
        self._lines.setdefault(turn.backends, []).append(turn.number)

    def take_up(self, turn: _Turn) -> None:
        """Have a turn look for what it was woken for; it keeps its place, and may be woken again."""
        if turn.pending:
            turn.in_hand, turn.pending = turn.pending, ()
            insort(self._lines.setdefault(turn.backends, []), turn.number)

    def leave(self, turn: _Turn) -> None:
        del self.turns[turn.number]
        if not turn.pending:
            self._step_out(turn)
        for asked in (*turn.in_hand, *turn.pending):
            self.wake(asked)

    def wake(self, asked: _Asked) -> None:
        """Wake the first of those who can run such a job and were not woken; nobody when there is none."""
        fitting = (line for backends, line in self._lines.items() if asked is None or asked in backends)
        first = min((line[0] for line in fitting), default=None)
        if first is not None:
            turn = self.turns[first]
            self._step_out(turn)
            turn.wake(asked)

    def expect(self, asked: _Asked, available_at: datetime) -> None:
        """Note when a job becomes available, and let those who can run it look at the time anew."""
        instants = self._expected.setdefault(asked, [])
        heappush(instants, available_at)
        if instants[0] < available_at:
            return
        for backends, line in self._lines.items():
            if asked is None or asked in backends:
                for number in line:
                    self.turns[number].rouse()

    def ripen(self, now: datetime) -> None:
        """Wake somebody for each job that has become available."""
        for asked, instants in list(self._expected.items()):
            while instants and instants[0] <= now:
                heappop(instants)
                self.wake(asked)
            if not instants:
                del self._expected[asked]

    def next_for(self, backends: frozenset[Backend]) -> datetime | None:
        """Return when the next job that such a node can run becomes available."""
        fitting = (at for asked, (at, *_) in self._expected.items() if asked is None or asked in backends)
        return min(fitting, default=None)

    def _step_out(self, turn: _Turn) -> None:
        line = self._lines[turn.backends]
        del line[bisect_left(line, turn.number)]
        if not line:
            del self._lines[turn.backends]
