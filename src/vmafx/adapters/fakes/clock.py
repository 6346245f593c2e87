"""VirtualClock: time that passes only when it is told to (ADR 0014)."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncGenerator, Callable, Generator, Sized
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from vmafx.adapters.fakes.timers import Cancellable, Timer, Timers

if TYPE_CHECKING:
    from vmafx.ports.clock import Clock

__all__ = ["STUCK", "TURNS_MAX", "Driver", "VirtualClock", "VirtualTimeError", "waiting_tasks"]

TURNS_MAX: Final = 200_000
"""How many turns an event loop may make at one instant before time counts as stuck."""
STUCK: Final = f"virtual time is stuck: after {TURNS_MAX} turns at one instant some task still does not wait:"
_WAITING_SHOWN_MAX: Final = 20
_START: Final = datetime(2024, 1, 1, tzinfo=UTC)


class VirtualTimeError(RuntimeError):
    """Virtual time cannot go on.

    Attributes:
        waiting: One line for each task that waits: its name, what it runs and where it waits.
    """

    def __init__(self, problem: str, waiting: tuple[str, ...] = ()) -> None:
        shown = waiting[:_WAITING_SHOWN_MAX]
        more = len(waiting) - len(shown)
        lines = [*shown, f"and {more} more"] if more else shown
        super().__init__("".join([problem, *(f"\n  {line}" for line in lines)]))
        self.waiting = waiting


class Driver(Protocol):
    """An event loop that moves a clock by itself; it names the clock in its attribute `clock`."""

    @property
    def timers(self) -> int:
        """How many timers of the loop are set."""
        ...

    @property
    def next_wake_s(self) -> float | None:
        """The instant of the next of them; None when none is set."""
        ...

    def call_at(self, when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        """Call `callback` when the clock has come to `when`."""
        ...


class VirtualClock:
    """A `Clock` whose time passes only when it is told to.

    On an ordinary event loop it is moved by hand with `advance`. On a `VirtualTimeLoop` it moves by itself,
    straight to the next timer, whenever every task waits. Wall time follows monotonic time and can be
    stepped apart from it.

    A clock belongs to one event loop at a time.

    Args:
        now: The wall time to start from, aware.
        monotonic_s: The monotonic time to start from, in seconds.

    Raises:
        ValueError: `now` is naive.
    """

    def __init__(self, *, now: datetime = _START, monotonic_s: float = 0.0) -> None:
        if now.tzinfo is None:
            raise ValueError("the wall time must be aware")
        self._monotonic_s = monotonic_s
        self._wall_at_zero = now.astimezone(UTC) - timedelta(seconds=monotonic_s)
        self._timers = Timers[Timer]()
        self._advancing = False

    def now(self) -> datetime:
        """Return the wall time in UTC."""
        return self._wall_at_zero + timedelta(seconds=self._monotonic_s)

    def monotonic(self) -> float:
        """Return the seconds of virtual time, steps of the wall clock left out."""
        return self._monotonic_s

    async def sleep(self, seconds: float) -> None:
        """Wait until virtual time has moved on by `seconds`.

        Raises:
            ValueError: `seconds` is not finite.
        """
        deadline_s = self._monotonic_s + _finite(seconds)
        if deadline_s > self._monotonic_s:
            await self._reached(deadline_s)
        else:
            await asyncio.sleep(0)

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncGenerator[None, None]:
        """Cancel the body when it takes longer than `seconds` of virtual time.

        Yields:
            Nothing; the body runs under the limit.

        Raises:
            ValueError: `seconds` is not finite.
        """
        async with asyncio.timeout(None) as limit:
            timer = None if seconds is None else self._expiring(limit, _finite(seconds))
            try:
                yield
            finally:
                if timer is not None:
                    timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Move time forward, waking sleepers in the order of their deadlines on the way.

        Between two instants, and before returning, every task runs until it waits again, so that sleeps
        begun on the way are part of it. Those that share a deadline wake together, in the order they went
        to sleep. When cancelled, time stays where it has come to.

        Args:
            seconds: How far, in seconds; finite and not negative. 0 lets the tasks run.

        Raises:
            ValueError: `seconds` is negative or not finite.
            VirtualTimeError: Another `advance` of this clock is under way, or a task never waits.
        """
        if _finite(seconds) < 0:
            raise ValueError("time does not go back")
        target_s = self._monotonic_s + seconds
        with self._only_mover():
            await self.settle()
            if self._driver() is not None:
                await self._reached(target_s)
                await self.settle()
                return
            await self._wake_until(target_s)

    async def settle(self) -> None:
        """Return when every other task waits for time, for another task or for the world outside.

        Raises:
            VirtualTimeError: A task never waits.
        """
        ready: Sized = _ready_callbacks(asyncio.get_running_loop())
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if not ready:
                return
        raise VirtualTimeError(STUCK, waiting_tasks(asyncio.get_running_loop()))

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock, as an operator or NTP does; monotonic time and sleepers take no notice.

        Args:
            seconds: By how much, in seconds; negative steps back.
        """
        self._wall_at_zero += timedelta(seconds=seconds)

    def move_to(self, monotonic_s: float) -> None:
        """Set monotonic time, waking nobody: for an event loop that drives this clock and its own timers.

        Raises:
            ValueError: The instant lies in the past.
        """
        if not monotonic_s >= self._monotonic_s:
            raise ValueError("time does not go back")
        self._monotonic_s = monotonic_s

    @property
    def sleepers(self) -> int:
        """How many timers are set: sleeps, limits and, on a `VirtualTimeLoop`, the loop's other timers."""
        driver = self._driver()
        return len(self._timers) + (0 if driver is None else driver.timers)

    @property
    def next_wake_s(self) -> float | None:
        """The monotonic instant of the next timer; None when none is set."""
        driver = self._driver()
        return self._timers.next_s if driver is None else driver.next_wake_s

    async def _reached(self, deadline_s: float) -> None:
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._timer(deadline_s, partial(_resolve, reached))
        try:
            await reached
        finally:
            timer.cancel()

    def _expiring(self, limit: asyncio.Timeout, seconds: float) -> Cancellable | None:
        deadline_s = self._monotonic_s + seconds
        if deadline_s > self._monotonic_s:
            return self._timer(deadline_s, partial(_expire, limit))
        _expire(limit)
        return None

    def _timer(self, deadline_s: float, callback: Callable[[], None]) -> Cancellable:
        driver = self._driver()
        if driver is not None:
            return driver.call_at(deadline_s, callback)
        timer = Timer(callback)
        self._timers.add(deadline_s, timer)
        return timer

    async def _wake_until(self, target_s: float) -> None:
        while (next_s := self._timers.next_s) is not None and next_s <= target_s:
            self.move_to(next_s)
            for timer in self._timers.pop_due(next_s):
                timer.fire()
            await self.settle()
        self.move_to(target_s)

    @contextmanager
    def _only_mover(self) -> Generator[None, None, None]:
        if self._advancing:
            raise VirtualTimeError("another task is advancing this clock")
        self._advancing = True
        try:
            yield
        finally:
            self._advancing = False

    def _driver(self) -> Driver | None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return cast("Driver", running) if getattr(running, "clock", None) is self else None


def waiting_tasks(loop: asyncio.AbstractEventLoop) -> tuple[str, ...]:
    """Return a line for each task of `loop`: its name, what it runs and where it waits."""
    return tuple(sorted(_whereabouts(task) for task in asyncio.all_tasks(loop)))


def _whereabouts(task: asyncio.Task[Any]) -> str:
    chain = _awaited(task.get_coro())
    frame = getattr(chain[-1], "cr_frame", None)
    where = "" if frame is None else f" ({PurePath(frame.f_code.co_filename).name}:{frame.f_lineno})"
    outer, inner = (getattr(c, "__qualname__", repr(c)) for c in (chain[0], chain[-1]))
    return f"{task.get_name()}: {outer} waits in {inner}{where}"


def _awaited(coroutine: object) -> list[object]:
    chain = [coroutine]
    while inspect.iscoroutine(chain[-1]) and inspect.iscoroutine(chain[-1].cr_await):
        chain.append(chain[-1].cr_await)
    return chain


def _finite(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is no time in seconds")
    return seconds


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _expire(limit: asyncio.Timeout) -> None:
    limit.reschedule(asyncio.get_running_loop().time())


def _ready_callbacks(loop: asyncio.AbstractEventLoop) -> Sized:
    # No public call tells whether a loop is idle, and counting turns only guesses.
    ready = getattr(loop, "_ready", None)
    if ready is None:
        raise TypeError(f"a virtual clock needs asyncio's own event loop, not {type(loop).__name__}")
    return cast("Sized", ready)


if TYPE_CHECKING:
    _port: type[Clock] = VirtualClock
