"""The virtual-time event loop: time jumps, deadlocks show, histories repeat (ADR 0014)."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import signal
import socket
import threading
import weakref
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.adapters.fakes import loop as loop_module
from vmafx.adapters.fakes.clock import VirtualClock, VirtualTimeError
from vmafx.adapters.fakes.loop import VirtualTimeLoop, run_virtual

YEAR_S = 365 * 86_400.0


def the_loop() -> VirtualTimeLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop


# ---------------------------------------------------------------- time jumps


@pytest.mark.virtual_time
async def test_the_fixture_is_the_clock_of_the_loop(clock: VirtualClock) -> None:
    assert the_loop().clock is clock
    await clock.sleep(YEAR_S)
    assert the_loop().time() == clock.monotonic() == YEAR_S


async def test_without_the_marker_the_loop_is_an_ordinary_one() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


@pytest.mark.virtual_time
async def test_everything_that_asyncio_does_with_time_follows(clock: VirtualClock) -> None:
    await asyncio.sleep(10)
    assert clock.monotonic() == 10
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20):
            await asyncio.sleep(YEAR_S)
    assert clock.monotonic() == 30
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), timeout=5)
    assert clock.monotonic() == 35
    called: list[float] = []
    the_loop().call_later(7, lambda: called.append(clock.monotonic()))
    the_loop().call_at(41, lambda: called.append(clock.monotonic()))
    await clock.sleep(100)
    assert called == [41, 42]
    assert clock.monotonic() == 135


@pytest.mark.virtual_time
async def test_a_day_with_a_thousand_sleepers_wakes_them_all_in_order(clock: VirtualClock) -> None:
    woken: list[tuple[float, int]] = []
    naps = [(n * 7919) % 86_400 + 0.5 for n in range(1000)]

    async def sleeper(number: int) -> None:
        await clock.sleep(naps[number])
        woken.append((clock.monotonic(), number))

    async with asyncio.TaskGroup() as group:
        for number in range(1000):
            group.create_task(sleeper(number))
    assert woken == sorted(zip(naps, range(1000), strict=True))
    await clock.sleep(86_400 - clock.monotonic())
    assert clock.monotonic() == 86_400


@settings(max_examples=50)
@given(st.lists(st.floats(1e-12, 1e6), min_size=1, max_size=20), st.floats(0, 1e6))
def test_no_sleeper_wakes_early_and_none_late(naps: list[float], start_s: float) -> None:
    woken: list[float] = []

    async def sleeper(clock: VirtualClock, nap: float) -> None:
        deadline_s = clock.monotonic() + nap
        await clock.sleep(nap)
        assert clock.monotonic() >= deadline_s
        assert clock.monotonic() - deadline_s < 1e-8
        woken.append(clock.monotonic())

    async def main(clock: VirtualClock) -> None:
        await asyncio.gather(*(sleeper(clock, nap) for nap in naps))

    run_virtual(main, clock=VirtualClock(monotonic_s=start_s))
    assert woken == sorted(woken)
    assert len(woken) == len(naps)


@pytest.mark.virtual_time
async def test_advancing_the_clock_is_sleeping(clock: VirtualClock) -> None:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await clock.sleep(10)
            beats.append(clock.monotonic())

    beating = asyncio.create_task(beat())
    await clock.advance(30)
    assert beats == [10, 20, 30]
    assert clock.monotonic() == 30
    await clock.advance(0)
    assert (clock.sleepers, clock.next_wake_s) == (1, 40.0)
    beating.cancel()


@pytest.mark.virtual_time
async def test_wall_steps_are_no_time(clock: VirtualClock) -> None:
    start = clock.now()
    clock.step_wall(12 * 3600)
    clock.step_wall(-3600)
    await clock.sleep(60)
    assert (clock.now() - start).total_seconds() == 11 * 3600 + 60
    assert clock.monotonic() == 60


@pytest.mark.virtual_time
async def test_limits_within_limits_strike_at_their_instants(clock: VirtualClock) -> None:
    struck: list[float] = []

    async def limited_twice() -> None:
        async with clock.timeout(10):
            with pytest.raises(TimeoutError):
                async with clock.timeout(3):
                    await clock.sleep(YEAR_S)
            struck.append(clock.monotonic())
            await clock.sleep(YEAR_S)

    with pytest.raises(TimeoutError):
        await limited_twice()
    assert [*struck, clock.monotonic()] == [3, 10]
    assert clock.sleepers == 0


@pytest.mark.virtual_time
async def test_cancelled_timers_neither_move_time_nor_pile_up(clock: VirtualClock) -> None:
    alive: list[weakref.ref[Any]] = []
    for _ in range(5_000):
        handle = the_loop().call_later(YEAR_S, print)
        handle.cancel()
        alive.append(weakref.ref(handle))
    del handle
    await clock.sleep(1)
    gc.collect()
    assert clock.monotonic() == 1
    assert clock.sleepers == 0
    assert sum(ref() is not None for ref in alive) < 300


@pytest.mark.virtual_time
async def test_a_sleeper_cancelled_at_its_very_instant_does_not_wake(clock: VirtualClock) -> None:
    problems: list[dict[str, Any]] = []
    the_loop().set_exception_handler(lambda _loop, problem: problems.append(problem))
    sleeping = asyncio.create_task(clock.sleep(5))
    the_loop().call_at(5, sleeping.cancel)  # set first: the sleep begins when its task runs
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert clock.monotonic() == 5
    assert problems == []


@pytest.mark.virtual_time
async def test_another_virtual_clock_is_moved_by_hand(clock: VirtualClock) -> None:
    other = VirtualClock()
    sleeping = asyncio.create_task(other.sleep(5))
    await clock.sleep(100)
    assert not sleeping.done()
    await other.advance(5)
    assert sleeping.done()
    assert (clock.monotonic(), other.monotonic()) == (100, 5)


# ---------------------------------------------------------------- deadlocks


def test_when_nothing_can_ever_happen_the_waiting_tasks_are_named() -> None:
    async def keeper() -> None:
        await asyncio.Event().wait()

    async def main(clock: VirtualClock) -> None:
        await clock.sleep(5)
        async with asyncio.TaskGroup() as group:
            group.create_task(keeper(), name="session keeper")

    clock = VirtualClock()
    with pytest.raises(VirtualTimeError, match="deadlock") as caught:
        run_virtual(main, clock=clock)
    assert clock.monotonic() == 5
    keeper_line, main_line = sorted(caught.value.waiting, key=lambda line: "session" not in line)
    assert keeper_line.startswith("session keeper: ")
    assert "keeper waits in Event.wait (locks.py:" in keeper_line
    assert "main waits in TaskGroup.__aexit__" in main_line
    assert keeper_line in str(caught.value)


def test_a_sleep_without_end_is_a_deadlock_of_its_own() -> None:
    async def main(_: VirtualClock) -> None:
        await asyncio.sleep(math.inf)

    clock = VirtualClock()
    with pytest.raises(VirtualTimeError, match=r"deadlock(.|\n)*main waits in sleep"):
        run_virtual(main, clock=clock)
    assert clock.monotonic() == 0


def test_a_long_list_of_waiting_tasks_is_cut() -> None:
    async def main(_: VirtualClock) -> None:
        await asyncio.gather(*(asyncio.Event().wait() for _ in range(100)))

    with pytest.raises(VirtualTimeError, match="and 81 more") as caught:
        run_virtual(main)
    assert len(caught.value.waiting) == 101
    assert str(caught.value).count("\n") == 21


def test_after_a_deadlock_the_waiting_tasks_clean_up() -> None:
    cleaned: list[str] = []

    async def main(clock: VirtualClock) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(3)
            cleaned.append(f"at {clock.monotonic():g}")

    with pytest.raises(VirtualTimeError):
        run_virtual(main)
    assert cleaned == ["at 3"]


def test_a_task_that_never_waits_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TURNS_MAX", 500)

    async def main(_: VirtualClock) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(VirtualTimeError, match=r"stuck(.|\n)*main waits in sleep"):
        run_virtual(main)


def test_many_turns_are_fine_while_time_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "TURNS_MAX", 50)

    async def main(clock: VirtualClock) -> float:
        for _ in range(300):
            await clock.sleep(1)
        return clock.monotonic()

    assert run_virtual(main) == 300


def test_an_interrupt_ends_the_run() -> None:
    async def main(clock: VirtualClock) -> None:
        signal.raise_signal(signal.SIGINT)
        await clock.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main)


def test_the_error_of_the_main_task_is_raised() -> None:
    async def main(clock: VirtualClock) -> None:
        await clock.sleep(1)
        raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        run_virtual(main)


def test_debug_mode_works_too() -> None:
    async def main(clock: VirtualClock) -> float:
        async with clock.timeout(5):
            await asyncio.sleep(2)
        return clock.monotonic()

    clock = VirtualClock()
    with asyncio.Runner(loop_factory=partial(VirtualTimeLoop, clock), debug=True) as runner:
        assert runner.run(main(clock)) == 2


# ---------------------------------------------------------------- threads and the world outside


@pytest.mark.virtual_time
async def test_calls_in_executors_take_no_virtual_time(clock: VirtualClock) -> None:
    go_on = threading.Event()
    passed: list[float] = []

    async def meanwhile() -> None:
        the_loop().call_soon(go_on.set)
        await clock.sleep(5)
        passed.append(clock.monotonic())

    task = asyncio.create_task(meanwhile())
    assert await asyncio.to_thread(go_on.wait, 60)
    assert clock.monotonic() == 0
    assert passed == []
    await task
    assert passed == [5]


@pytest.mark.virtual_time
async def test_the_error_of_a_call_in_an_executor_arrives_and_time_goes_on(clock: VirtualClock) -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 / 0)
    await clock.sleep(1)
    assert clock.monotonic() == 1


@pytest.mark.virtual_time
async def test_a_call_in_an_executor_that_was_given_up_holds_time_no_longer(clock: VirtualClock) -> None:
    go_on = threading.Event()
    calling = asyncio.create_task(asyncio.to_thread(go_on.wait, 60))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await clock.sleep(1)
    assert clock.monotonic() == 1
    go_on.set()


@pytest.mark.virtual_time
async def test_a_thread_may_run_coroutines_on_the_loop(clock: VirtualClock) -> None:
    loop = the_loop()

    def from_a_thread() -> str:
        async def answer() -> str:
            return threading.current_thread().name

        return asyncio.run_coroutine_threadsafe(answer(), loop).result(60)

    assert await asyncio.to_thread(from_a_thread) == threading.current_thread().name


@pytest.mark.virtual_time
async def test_a_thread_that_was_announced_is_waited_for(clock: VirtualClock) -> None:
    loop, heard = the_loop(), asyncio.Event()
    waiting, go_on = asyncio.Event(), threading.Event()

    def thread() -> None:
        loop.call_soon_threadsafe(waiting.set)
        go_on.wait(60)
        loop.call_soon_threadsafe(heard.set)

    calling = threading.Thread(target=thread)
    with loop.standing_still():
        calling.start()
        await waiting.wait()
        go_on.set()
        async with asyncio.timeout(5):
            await heard.wait()
    assert clock.monotonic() == 0
    calling.join()


@pytest.mark.virtual_time
async def test_calls_from_unannounced_threads_are_served_when_they_come(clock: VirtualClock) -> None:
    loop, heard = the_loop(), asyncio.Event()
    calling = threading.Thread(target=loop.call_soon_threadsafe, args=(heard.set,))
    calling.start()
    calling.join()
    async with asyncio.timeout(5):
        await heard.wait()
    assert clock.monotonic() == 0


@pytest.mark.virtual_time
async def test_a_signal_is_handled_at_the_instant_it_comes(clock: VirtualClock) -> None:
    heard = asyncio.Event()
    the_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    the_loop().call_at(3, signal.raise_signal, signal.SIGUSR1)
    try:
        async with asyncio.timeout(50):
            await heard.wait()
    finally:
        the_loop().remove_signal_handler(signal.SIGUSR1)
    assert clock.monotonic() == 3


@pytest.mark.virtual_time
async def test_files_and_children_are_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0)
        with pytest.raises(NotImplementedError, match="moved by hand"):
            the_loop().add_reader(ours, print)
        with pytest.raises(NotImplementedError, match="moved by hand"):
            await the_loop().sock_recv(ours, 1)
        with pytest.raises(NotImplementedError, match="moved by hand"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotImplementedError, match="moved by hand"):
            await asyncio.create_subprocess_shell("true")


# ---------------------------------------------------------------- histories repeat


def history(seed: int, *, junk: int = 0) -> list[str]:
    """A busy life with chance, limits, races, and groups that are torn down."""
    rng, log = random.Random(seed), []
    hoard: list[object] = []

    async def beat(clock: VirtualClock, name: str) -> None:
        while True:
            async with clock.timeout(rng.uniform(0.5, 3)):
                try:
                    await clock.sleep(rng.uniform(0.1, 2))
                except asyncio.CancelledError:
                    log.append(f"{clock.monotonic()} {name} cancelled")
                    raise
            log.append(f"{clock.monotonic()} {name} beats")

    async def main(clock: VirtualClock) -> None:
        for _ in range(3):
            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(12):
                        hoard.append(bytearray(rng.randrange(50) + junk))
                        group.create_task(beat(clock, f"node {number}"))
            except* TimeoutError as group_error:
                log.append(f"{clock.monotonic()} {len(group_error.exceptions)} timed out")

    run_virtual(main)
    return log


def test_the_same_seed_gives_the_same_history() -> None:
    first = history(7)
    assert len(first) > 40
    assert [history(7, junk=junk) for junk in (1, 64, 5000)] == [first] * 3
    assert history(8) != first


def test_sets_of_tasks_have_one_order() -> None:
    async def main(_: VirtualClock) -> list[str]:
        keep = []
        tasks = set()
        for _ in range(40):
            keep.append(bytearray(random.randrange(5000)))
            tasks.add(asyncio.create_task(asyncio.sleep(0)))
        await asyncio.wait(tasks)
        return [task.get_name() for task in tasks]

    first, second, third = (run_virtual(main) for _ in range(3))
    assert first == second == third


@pytest.mark.virtual_time
async def test_tasks_are_numbered_by_the_loop_and_keep_given_names() -> None:
    async def main(_: VirtualClock) -> list[str]:
        given = asyncio.create_task(asyncio.sleep(0), name="given")
        numbered = asyncio.create_task(asyncio.sleep(0))
        await asyncio.wait({given, numbered})
        keeps_its_number = numbered.get_name()
        numbered.set_name(None)  # as Python 3.13.0 does with every task without a name
        assert numbered.get_name() == keeps_its_number == "Task-2"
        numbered.set_name("renamed")
        me = asyncio.current_task()
        assert me is not None
        return [me.get_name(), given.get_name(), numbered.get_name()]

    names = await asyncio.to_thread(run_virtual, main)
    assert names == ["Task-0", "given", "renamed"]
