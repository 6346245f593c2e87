"""Blocking calls of sources: bounded in number and in time, and nothing they bring is lost (ADR 0021)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.sources.blocking import THREAD_NAME, BlockingCalls, CallLimits
from vmafx.domain.errors import SourceError


class Held:
    """A call that blocks until it is let go, and what became of its result."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.discarded: list[str] = []
        self._go = threading.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.running.set)
        assert self._go.wait(30)
        return "brought"

    def let_go(self) -> None:
        self._go.set()


async def threads_ended() -> None:
    while any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        await asyncio.sleep(0)
    await asyncio.sleep(0)


def begun(calls: BlockingCalls, held: Held) -> asyncio.Task[str]:
    return asyncio.create_task(calls.make(held, shown="/a.y4m", discard=held.discarded.append))


async def test_a_call_brings_its_result_or_its_error() -> None:
    calls = BlockingCalls(SystemClock(), CallLimits())
    assert await calls.make(lambda: "x", shown="/a") == "x"

    def fail() -> str:
        raise TimeoutError("its own")

    for make in (calls.make, calls.finish):
        with pytest.raises(TimeoutError, match="its own"):
            await make(fail, shown="/a")


async def test_the_loop_goes_on_while_a_call_blocks() -> None:
    calls, held = BlockingCalls(SystemClock(), CallLimits()), Held()
    blocked = begun(calls, held)
    await held.running.wait()
    assert await calls.make(lambda: "meanwhile", shown="/b") == "meanwhile"
    held.let_go()
    assert await blocked == "brought"
    assert held.discarded == []


async def test_a_cancelled_call_waits_for_its_thread_and_gives_back_what_it_brought() -> None:
    calls, held = BlockingCalls(VirtualClock(), CallLimits()), Held()
    cancelled = begun(calls, held)
    await held.running.wait()
    cancelled.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not cancelled.done()
    held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert held.discarded == ["brought"]


async def test_a_cancelled_call_does_not_wait_for_ever() -> None:
    clock = VirtualClock()
    calls, held = BlockingCalls(clock, CallLimits(stop_wait_s=1)), Held()
    cancelled = begun(calls, held)
    await held.running.wait()
    cancelled.cancel()
    await clock.advance(1)
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    held.let_go()
    await threads_ended()
    assert held.discarded == ["brought"]


async def test_what_comes_after_the_time_is_given_back() -> None:
    clock = VirtualClock()
    calls, held = BlockingCalls(clock, CallLimits(answer_timeout_s=5)), Held()
    late = begun(calls, held)
    await held.running.wait()
    await clock.advance(5)
    with pytest.raises(SourceError, match=r'^"/a\.y4m": the file system did not answer within 5s$') as caught:
        await late
    assert caught.value.machine_fault
    assert caught.value.source == "/a.y4m"
    held.let_go()
    await threads_ended()
    assert held.discarded == ["brought"]


async def test_no_more_threads_than_allowed_and_the_wait_for_one_is_bounded_too() -> None:
    clock = VirtualClock()
    calls = BlockingCalls(clock, CallLimits(answer_timeout_s=5, calls_max=2))
    stuck = [Held(), Held()]
    begun_calls = [begun(calls, held) for held in stuck]
    for held in stuck:
        await held.running.wait()
    waiting = Held()
    third = begun(calls, waiting)
    await clock.advance(5)
    for task in (*begun_calls, third):
        with pytest.raises(SourceError, match="did not answer"):
            await task
    assert not waiting.running.is_set()
    fourth = asyncio.create_task(calls.make(lambda: "healthy", shown="/b"))
    await clock.settle()
    assert not fourth.done()  # the stuck threads still count
    stuck[0].let_go()
    assert await fourth == "healthy"
    stuck[1].let_go()
    await threads_ended()


async def test_giving_back_does_not_wait_for_its_turn() -> None:
    calls, held = BlockingCalls(SystemClock(), CallLimits(calls_max=1)), Held()
    blocked = begun(calls, held)
    await held.running.wait()
    assert await calls.finish(lambda: "closed", shown="/b") == "closed"
    held.let_go()
    await blocked


def no_thread(*_: object, **__: object) -> Callable[[], None]:
    raise RuntimeError("can't start new thread")


async def test_want_of_threads_is_the_machines_fault_and_giving_back_is_done_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = BlockingCalls(SystemClock(), CallLimits(calls_max=1))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        for _ in range(3):
            with pytest.raises(SourceError, match="cannot start a thread") as caught:
                await calls.make(lambda: "x", shown="/a")
            assert caught.value.machine_fault
        assert await calls.finish(lambda: "closed", shown="/a") == "closed"
    assert await calls.make(lambda: "x", shown="/a") == "x"


def test_what_comes_when_the_loop_is_gone_is_given_back() -> None:
    helds: list[Held] = []

    async def leave() -> None:
        held = Held()
        helds.append(held)
        task = begun(BlockingCalls(SystemClock(), CallLimits(stop_wait_s=0.01)), held)
        await held.running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    helds[0].let_go()
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(10)
    assert helds[0].discarded == ["brought"]


async def test_threads_do_not_hold_up_the_end_of_the_process() -> None:
    calls, held = BlockingCalls(SystemClock(), CallLimits()), Held()
    blocked = begun(calls, held)
    await held.running.wait()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == THREAD_NAME)
    held.let_go()
    await blocked


@pytest.mark.parametrize("name", ["answer_timeout_s", "stop_wait_s", "calls_max"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        CallLimits(**{name: 0})
