"""The virtual clock moved by hand, on an ordinary event loop (ADR 0014)."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.adapters.fakes import clock as clock_module
from vmafx.adapters.fakes.clock import VirtualClock, VirtualTimeError
from vmafx.adapters.fakes.timers import Timer, Timers

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Sleepers:
    """Tasks that sleep and then say so, with the instant."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.woken: list[tuple[str, float]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def add(self, name: str, *naps_s: float) -> asyncio.Task[None]:
        task = asyncio.create_task(self._sleep(name, naps_s))
        self.tasks.append(task)
        return task

    async def _sleep(self, name: str, naps_s: tuple[float, ...]) -> None:
        for seconds in naps_s:
            await self.clock.sleep(seconds)
            self.woken.append((name, self.clock.monotonic()))


# ---------------------------------------------------------------- moving on


async def test_time_does_not_move_by_itself(clock: VirtualClock) -> None:
    before = (clock.now(), clock.monotonic())
    for _ in range(100):
        await asyncio.sleep(0)
    assert (clock.now(), clock.monotonic()) == before


async def test_sleepers_wake_in_order_each_at_its_instant(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)
    for name, seconds in {"c": 3.0, "a": 1.0, "d": 3.5, "b": 2.5}.items():
        sleepers.add(name, seconds)
    await clock.advance(3.25)
    assert sleepers.woken == [("a", 1.0), ("b", 2.5), ("c", 3.0)]
    assert clock.monotonic() == 3.25
    await clock.advance(0.25)
    assert sleepers.woken[3:] == [("d", 3.5)]


async def test_sleepers_of_one_instant_wake_in_the_order_they_went_to_sleep(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)
    names = [str(n) for n in range(50)]
    for name in names:
        sleepers.add(name, 7.0)
    await clock.advance(7)
    assert [name for name, _ in sleepers.woken] == names


async def test_sleeps_begun_on_the_way_are_part_of_it(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)
    sleepers.add("beat", 10.0, 10.0, 10.0, 10.0)
    await clock.advance(35)
    assert sleepers.woken == [("beat", 10.0), ("beat", 20.0), ("beat", 30.0)]


async def test_tasks_run_until_they_wait_before_time_goes_on(clock: VirtualClock) -> None:
    events: list[tuple[str, float]] = []
    handed_over: asyncio.Queue[int] = asyncio.Queue()

    async def producer() -> None:
        await clock.sleep(1)
        handed_over.put_nowait(1)

    async def consumer() -> None:
        await handed_over.get()
        for _ in range(30):  # many turns of the loop at one instant
            await asyncio.sleep(0)
        events.append(("consumed", clock.monotonic()))

    async def later() -> None:
        await clock.sleep(1.001)
        events.append(("later", clock.monotonic()))

    tasks = [asyncio.create_task(work()) for work in (consumer, producer, later)]
    await clock.advance(2)
    assert events == [("consumed", 1.0), ("later", 1.001)]
    await asyncio.gather(*tasks)


async def test_advancing_by_nothing_lets_tasks_run_and_moves_nothing(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)
    sleepers.add("none", 0.0)
    sleepers.add("some", 1e-9)
    await clock.advance(0)
    assert sleepers.woken == [("none", 0.0)]
    assert clock.monotonic() == 0
    assert clock.sleepers == 1
    await clock.advance(1)


@pytest.mark.parametrize("seconds", [-1.0, -1e-300, math.nan, math.inf])
async def test_time_is_not_moved_back_or_for_ever(clock: VirtualClock, seconds: float) -> None:
    with pytest.raises(ValueError, match="time"):
        await clock.advance(seconds)
    assert clock.monotonic() == 0


@settings(max_examples=50)
@given(
    naps=st.lists(st.floats(0.001, 50), min_size=1, max_size=8),
    steps=st.lists(st.floats(0, 40), min_size=1, max_size=8),
)
def test_in_how_many_steps_time_moves_changes_no_wake_up(naps: list[float], steps: list[float]) -> None:
    async def woken(*, at_once: bool) -> list[tuple[str, float]]:
        clock = VirtualClock()
        sleepers = Sleepers(clock)
        for number, nap in enumerate(naps):
            sleepers.add(str(number), nap, nap / 3)
        for step in [] if at_once else steps:
            await clock.advance(step)
        await clock.advance(1000)
        return sleepers.woken

    in_steps = asyncio.run(woken(at_once=False))
    assert in_steps == asyncio.run(woken(at_once=True))
    assert [instant for _, instant in in_steps] == sorted(instant for _, instant in in_steps)
    assert dict(in_steps[:1]).popitem()[1] == min(naps)


async def test_a_sleep_too_short_to_be_told_ends(clock: VirtualClock) -> None:
    clock.move_to(1e9)
    await clock.sleep(1e-300)
    assert clock.monotonic() == 1e9


async def test_a_limit_too_short_to_be_told_strikes(clock: VirtualClock) -> None:
    clock.move_to(1e9)
    with pytest.raises(TimeoutError):
        async with clock.timeout(1e-300):
            await asyncio.Event().wait()


async def test_a_day_with_a_thousand_sleepers_wakes_them_all_in_order(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)
    naps = {str(n): (n * 7919) % 86_400 + 0.5 for n in range(1000)}
    for name, nap in naps.items():
        sleepers.add(name, nap)
    await clock.advance(86_400)
    assert clock.monotonic() == 86_400
    assert sleepers.woken == sorted(naps.items(), key=lambda item: item[1])


# ---------------------------------------------------------------- who moves it


async def test_only_one_task_advances_a_clock(clock: VirtualClock) -> None:
    first = asyncio.create_task(clock.advance(1))
    await asyncio.sleep(0)
    with pytest.raises(VirtualTimeError, match="another task"):
        await clock.advance(1)
    await first
    assert clock.monotonic() == 1


async def test_a_cancelled_advance_stays_where_it_came_to_and_can_be_followed(clock: VirtualClock) -> None:
    async def stop_it_at_noon() -> None:
        await clock.sleep(12)
        advancing.cancel()

    advancing = asyncio.create_task(clock.advance(24))
    stopping = asyncio.create_task(stop_it_at_noon())
    with pytest.raises(asyncio.CancelledError):
        await advancing
    await stopping
    assert clock.monotonic() == 12
    await clock.advance(12)
    assert clock.monotonic() == 24


async def test_a_task_that_never_waits_is_named(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "TURNS_MAX", 500)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin(), name="the spinner")
    with pytest.raises(VirtualTimeError, match=r"the spinner: .*spin waits in sleep"):
        await clock.advance(1)
    spinning.cancel()


async def test_another_kind_of_loop_is_refused(clock: VirtualClock) -> None:
    own = asyncio.get_running_loop()

    class Foreign:
        pass

    settling = clock.settle()
    asyncio._set_running_loop(Foreign())
    try:
        with pytest.raises(TypeError, match="not Foreign"):
            settling.send(None)
    finally:
        asyncio._set_running_loop(own)


def test_an_instant_in_the_past_is_refused() -> None:
    clock = VirtualClock(monotonic_s=5)
    for instant in (4.9, math.nan):
        with pytest.raises(ValueError, match="back"):
            clock.move_to(instant)
    clock.move_to(5)


# ---------------------------------------------------------------- what is left behind


async def test_a_cancelled_sleep_leaves_no_sleeper(clock: VirtualClock) -> None:
    sleeping = asyncio.create_task(clock.sleep(60))
    await clock.settle()
    assert (clock.sleepers, clock.next_wake_s) == (1, 60.0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert (clock.sleepers, clock.next_wake_s) == (0, None)


async def test_a_limit_that_was_kept_leaves_no_timer(clock: VirtualClock) -> None:
    async with clock.timeout(60):
        assert clock.next_wake_s == 60.0
    assert (clock.sleepers, clock.next_wake_s) == (0, None)


async def test_a_sleeper_cancelled_at_its_very_instant_does_not_wake(clock: VirtualClock) -> None:
    sleepers = Sleepers(clock)

    async def cancel_the_other() -> None:
        await clock.sleep(5)
        victim.cancel()

    cancelling = asyncio.create_task(cancel_the_other())
    await clock.settle()
    victim = sleepers.add("victim", 5.0)
    await clock.advance(10)
    assert victim.cancelled()
    assert sleepers.woken == []
    await cancelling


def test_cancelled_timers_do_not_pile_up() -> None:
    timers: Timers[Timer] = Timers()

    class Watched(Timer):
        """A timer that takes weak references."""

    alive: list[weakref.ref[Any]] = []
    kept = Timer(lambda: None)
    timers.add(1e6, kept)
    for number in range(5_000):
        timer = Watched(lambda: None)
        timers.add(float(number), timer)
        timer.cancel()
        alive.append(weakref.ref(timer))
    del timer
    gc.collect()
    assert sum(ref() is not None for ref in alive) < 200
    assert len(timers) == 1
    assert timers.next_s == 1e6
    assert timers.pop_due(1e6) == [kept]


def test_a_timer_called_off_makes_no_call() -> None:
    calls: list[str] = []
    for name in ("kept", "called off"):
        timer = Timer(lambda name=name: calls.append(name))
        if name == "called off":
            timer.cancel()
        timer.fire()
    assert calls == ["kept"]


async def test_limits_within_limits_strike_at_their_instants(clock: VirtualClock) -> None:
    struck: list[tuple[str, float]] = []

    async def limited(name: str, seconds: float, body: Awaitable[None]) -> None:
        try:
            async with clock.timeout(seconds):
                await body
        except TimeoutError:
            struck.append((name, clock.monotonic()))
            raise

    async def inner_then_on() -> None:
        with pytest.raises(TimeoutError):
            await limited("inner", 3, clock.sleep(100))
        await clock.sleep(100)

    outer = asyncio.create_task(limited("outer", 10, inner_then_on()))
    await clock.advance(50)
    with pytest.raises(TimeoutError):
        await outer
    assert struck == [("inner", 3.0), ("outer", 10.0)]


# ---------------------------------------------------------------- wall time


def test_wall_time_starts_where_it_is_told_and_in_utc() -> None:
    clock = VirtualClock(now=NOON.astimezone(timezone(timedelta(hours=9))), monotonic_s=77)
    assert (clock.now(), clock.now().tzinfo, clock.monotonic()) == (NOON, UTC, 77)
    assert (clock.sleepers, clock.next_wake_s) == (0, None)


def test_a_naive_wall_time_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        VirtualClock(now=NOON.replace(tzinfo=None))


async def test_wall_time_follows_monotonic_time() -> None:
    clock = VirtualClock(now=NOON)
    await clock.advance(90.5)
    assert clock.now() == NOON + timedelta(seconds=90.5)


@pytest.mark.parametrize("step_s", [12 * 3600.0, -3600.0])
async def test_a_step_of_the_wall_clock_moves_nothing_else(step_s: float) -> None:
    clock = VirtualClock(now=NOON)
    sleepers = Sleepers(clock)
    sleepers.add("sleeper", 10.0)
    await clock.advance(4)
    clock.step_wall(step_s)
    assert clock.now() == NOON + timedelta(seconds=4 + step_s)
    assert clock.monotonic() == 4
    await clock.advance(5.5)
    assert sleepers.woken == []
    await clock.advance(0.5)
    assert sleepers.woken == [("sleeper", 10.0)]
    assert clock.now() == NOON + timedelta(seconds=10 + step_s)
