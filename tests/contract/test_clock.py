"""What every `Clock` promises (ADR 0002, 0014): the system's, the steady one, the virtual in both uses."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final, TypeAlias

import pytest

from vmafx.adapters.clock.steady import SteadyClock
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.ports.clock import Clock

GAP_S: Final = 0.01
AMPLE_S: Final = 0.4  # of the system's clock: a busy machine gets on with a step within that
HOUR_S: Final = 3600.0  # never passes on the system's clock: a test that waits for it hangs and is stopped

Scenario: TypeAlias = Callable[[Clock], Coroutine[Any, Any, None]]
Run: TypeAlias = Callable[[Scenario], None]


def on_the_system(scenario: Scenario) -> None:
    asyncio.run(scenario(SystemClock()))


def steadily_on_the_system(scenario: Scenario) -> None:
    async def steadily() -> None:
        await scenario(SteadyClock())

    asyncio.run(steadily())


def by_hand(scenario: Scenario) -> None:
    asyncio.run(_moved_along(scenario))


async def _moved_along(scenario: Scenario) -> None:
    clock = VirtualClock()
    playing = asyncio.create_task(scenario(clock))
    await clock.settle()
    while not playing.done():
        next_s = clock.next_wake_s
        assert next_s is not None, "the scenario waits for what never comes"
        await clock.advance(next_s - clock.monotonic())
    await playing


def on_the_virtual_loop(scenario: Scenario) -> None:
    run_virtual(scenario)


@pytest.fixture(
    params=[on_the_system, steadily_on_the_system, by_hand, on_the_virtual_loop], ids=lambda use: use.__name__
)
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


def test_wall_time_is_aware_and_in_utc(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        assert clock.now().utcoffset() == timedelta(0)

    run(scenario)


def test_a_sleep_lasts_at_least_its_time(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        for seconds in (0.003, 0.01, 0.0007):
            deadline_s = clock.monotonic() + seconds
            await clock.sleep(seconds)
            assert clock.monotonic() >= deadline_s

    run(scenario)


def test_monotonic_time_never_goes_back(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        seen = []
        for seconds in (0.0, 0.001, -1.0, 0.0, 0.002):
            seen.append(clock.monotonic())
            await clock.sleep(seconds)
            seen.append(clock.monotonic())
        assert seen == sorted(seen)

    run(scenario)


@pytest.mark.parametrize("seconds", [0.0, -0.0, -5.0])
def test_a_sleep_of_no_time_lets_each_ready_task_run_once(run: Run, seconds: float) -> None:
    async def scenario(clock: Clock) -> None:
        ran: list[int] = []

        async def step(number: int) -> None:
            ran.append(number)

        tasks = [asyncio.create_task(step(n)) for n in range(3)]
        await clock.sleep(seconds)
        assert ran == [0, 1, 2]
        await asyncio.gather(*tasks)

    run(scenario)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_not_finite_is_refused(run: Run, seconds: float) -> None:
    async def scenario(clock: Clock) -> None:
        with pytest.raises(ValueError, match="seconds"):
            await clock.sleep(seconds)
        with pytest.raises(ValueError, match="seconds"):
            async with clock.timeout(seconds):
                pytest.fail("the body ran")

    run(scenario)


async def ends_of(clock: Clock, wait: Callable[[float], Coroutine[Any, Any, None]]) -> list[float]:
    """The order in which waits of several lengths, begun at one moment, come to their ends."""

    async def note_the_end(number: int, ended: list[float]) -> None:
        await wait(number * GAP_S)
        ended.append(number)

    for _ in range(100):
        ended: list[float] = []
        start_s = clock.monotonic()
        waiting = [asyncio.create_task(note_the_end(number, ended)) for number in (3, 1, 4, 2)]
        await clock.sleep(0)
        at_one_moment = clock.monotonic() - start_s < GAP_S
        await asyncio.gather(*waiting)
        if at_one_moment:  # else a busy machine held us up between them
            return ended
    pytest.fail("the machine is too busy to begin four waits at one moment")


def test_sleepers_wake_in_the_order_of_their_deadlines(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        assert await ends_of(clock, clock.sleep) == [1, 2, 3, 4]

    run(scenario)


def test_cancellation_ends_a_sleep_at_once(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        sleeping = asyncio.create_task(clock.sleep(HOUR_S))
        await clock.sleep(0)
        sleeping.cancel()
        before_s = clock.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert clock.monotonic() - before_s < HOUR_S

    run(scenario)


def test_a_limit_ends_a_body_that_takes_longer(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        deadline_s = clock.monotonic() + 0.01
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.01):
                await clock.sleep(HOUR_S)
        assert deadline_s <= clock.monotonic() < deadline_s + HOUR_S

    run(scenario)


def test_after_a_limit_struck_the_task_goes_on_as_before(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(0.001):
                await clock.sleep(HOUR_S)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await clock.sleep(0.001)

    run(scenario)


def test_a_body_within_its_limit_is_not_disturbed_then_or_later(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        async with clock.timeout(AMPLE_S):
            await clock.sleep(0.0)
        await clock.sleep(AMPLE_S + GAP_S)

    run(scenario)


def test_no_limit_is_none(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        async with clock.timeout(None):
            await clock.sleep(0.01)

    run(scenario)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_limit_of_no_time_ends_the_body_at_its_first_wait(run: Run, seconds: float) -> None:
    async def scenario(clock: Clock) -> None:
        steps: list[str] = []

        async def limited() -> None:
            async with clock.timeout(seconds):
                steps.append("before the wait")
                await clock.sleep(0)
                steps.append("after the wait")

        with pytest.raises(TimeoutError):
            await limited()
        assert steps == ["before the wait"]

    run(scenario)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_limit_of_no_time_spares_a_body_without_a_wait(run: Run, seconds: float) -> None:
    async def scenario(clock: Clock) -> None:
        async with clock.timeout(seconds):
            pass
        await clock.sleep(0)

    run(scenario)


def test_cancellation_from_outside_stays_a_cancellation(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        async def limited() -> None:
            async with clock.timeout(HOUR_S):
                await clock.sleep(HOUR_S)

        task = asyncio.create_task(limited())
        await clock.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(scenario)


def test_cancellation_from_outside_wins_over_a_limit_at_the_same_moment(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        async def limited() -> None:
            async with clock.timeout(0):
                me = asyncio.current_task()
                assert me is not None
                me.cancel()
                await clock.sleep(HOUR_S)

        task = asyncio.create_task(limited())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(scenario)


@pytest.mark.parametrize("error", [LookupError("its own"), TimeoutError("its own")], ids=repr)
def test_the_error_of_a_body_passes_through_a_limit(run: Run, error: Exception) -> None:
    async def scenario(clock: Clock) -> None:
        async def limited() -> None:
            async with clock.timeout(HOUR_S):
                await clock.sleep(0)
                raise error

        with pytest.raises(type(error)) as caught:
            await limited()
        assert caught.value is error

    run(scenario)


def test_an_inner_limit_leaves_the_outer_one_in_force(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        steps: list[str] = []

        async def limited_twice() -> None:
            async with clock.timeout(AMPLE_S):
                with pytest.raises(TimeoutError):
                    async with clock.timeout(0.001):
                        await clock.sleep(HOUR_S)
                steps.append("inner")
                await clock.sleep(HOUR_S)
                steps.append("never")

        with pytest.raises(TimeoutError):
            await limited_twice()
        assert steps == ["inner"]

    run(scenario)


def test_an_outer_limit_is_no_timeout_of_the_inner_one(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        seen: list[type[BaseException]] = []

        async def limited_twice() -> None:
            async with clock.timeout(0.001):
                try:
                    async with clock.timeout(HOUR_S):
                        await clock.sleep(HOUR_S)
                except BaseException as error:
                    seen.append(type(error))
                    raise

        with pytest.raises(TimeoutError):
            await limited_twice()
        assert seen == [asyncio.CancelledError]

    run(scenario)


def test_limits_of_many_tasks_strike_in_the_order_of_their_deadlines(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        async def limited(seconds: float) -> None:
            with pytest.raises(TimeoutError):
                async with clock.timeout(seconds):
                    await clock.sleep(HOUR_S)

        assert await ends_of(clock, limited) == [1, 2, 3, 4]

    run(scenario)


def test_one_clock_serves_many_waits_at_once(run: Run) -> None:
    async def scenario(clock: Clock) -> None:
        done: list[int] = []

        async def worker(number: int) -> None:
            async with clock.timeout(HOUR_S):
                for _ in range(3):
                    await clock.sleep(0.001)
            done.append(number)

        await asyncio.gather(*map(worker, range(20)))
        assert sorted(done) == list(range(20))

    run(scenario)


@pytest.mark.parametrize("step_s", [12 * HOUR_S, -HOUR_S])
def test_a_steady_clock_takes_no_notice_when_the_machines_is_set(step_s: float) -> None:
    machine = VirtualClock()
    steady, started_at = SteadyClock(machine), machine.now()
    machine.step_wall(step_s)
    machine.move_to(5.0)
    assert steady.now() == started_at + timedelta(seconds=5)
    assert steady.monotonic() == machine.monotonic()


def test_a_steady_clock_starts_with_the_machines_time() -> None:
    machine = VirtualClock(monotonic_s=77.0)
    machine.step_wall(HOUR_S)
    assert SteadyClock(machine).now() == machine.now()
