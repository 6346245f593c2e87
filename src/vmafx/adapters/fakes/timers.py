"""Timers: what is due when, for clocks and loops on virtual time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

__all__ = ["Cancellable", "Timer", "Timers"]

_PURGE_TIMERS_MIN: Final = 64


class Cancellable(Protocol):
    """A call to come that can be called off."""

    def cancel(self) -> None:
        """Call it off; again, or after the call, changes nothing."""
        ...

    def cancelled(self) -> bool:
        """Return whether it was called off."""
        ...


_TimerT = TypeVar("_TimerT", bound=Cancellable)


class Timers(Generic[_TimerT]):
    """Timers by deadline, among equals in the order they were set; cancelled ones do not count."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _TimerT]] = []
        self._numbers = itertools.count()
        self._purge_at = _PURGE_TIMERS_MIN

    def __len__(self) -> int:
        return sum(not timer.cancelled() for _, _, timer in self._heap)

    def add(self, deadline_s: float, timer: _TimerT) -> None:
        """Set `timer` for the instant `deadline_s`, which is finite."""
        if len(self._heap) >= self._purge_at:
            self._heap = [entry for entry in self._heap if not entry[2].cancelled()]
            heapq.heapify(self._heap)
            self._purge_at = max(_PURGE_TIMERS_MIN, 2 * len(self._heap))
        heapq.heappush(self._heap, (deadline_s, next(self._numbers), timer))

    @property
    def next_s(self) -> float | None:
        """The earliest deadline; None when no timer is set."""
        while self._heap and self._heap[0][2].cancelled():
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_s: float) -> list[_TimerT]:
        """Take out and return, in order, the timers due at `now_s` or before."""
        due: list[_TimerT] = []
        while (next_s := self.next_s) is not None and next_s <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due


class Timer:
    """A call that is due at some instant of a clock that is moved by hand."""

    __slots__ = ("_callback", "_cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._cancelled = False

    def fire(self) -> None:
        """Make the call, unless it was called off."""
        if not self._cancelled:
            self._callback()

    def cancel(self) -> None:
        """Call it off."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Return whether it was called off."""
        return self._cancelled
