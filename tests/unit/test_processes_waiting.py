"""Waits that see something through (ADR 0007)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes.waiting import Patience, in_thread


async def test_cancellation_is_passed_on_after_the_wait_and_not_before():
    future = asyncio.get_running_loop().create_future()
    steps = []

    async def wait():
        patience = Patience()
        await patience.until(future)
        steps.append("waited")
        patience.pass_on()
        steps.append("passed")

    task = asyncio.create_task(wait())
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert steps == []
    future.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["waited"]


async def test_wait_without_cancellation_passes_nothing_on():
    future = asyncio.get_running_loop().create_future()
    future.set_result(None)
    patience = Patience()
    await patience.until(future)
    patience.pass_on()


async def test_time_limit_ends_the_wait_and_leaves_the_future():
    future = asyncio.get_running_loop().create_future()
    assert await Patience().within(future, SystemClock(), 0.0) is False
    assert not future.cancelled()
    future.set_result(None)
    assert await Patience().within(future, SystemClock(), 0.0) is True


async def test_future_that_is_done_in_time_leaves_no_timer():
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    assert await Patience().within(future, SystemClock(), 3600.0) is True
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelled_timer_does_not_cut_the_wait_short():
    future = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(Patience().within(future, SystemClock(), 3600.0))
    await asyncio.sleep(0)
    for other in asyncio.all_tasks() - {asyncio.current_task(), task}:
        other.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    future.set_result(None)
    assert await task is True


async def test_thread_returns_its_result_or_its_error():
    assert await in_thread(lambda: threading.current_thread().name, "worker") == "worker"

    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await in_thread(fail, "worker")


async def test_without_a_thread_the_work_is_done_at_once(monkeypatch):
    def start(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert await in_thread(lambda: threading.current_thread() is threading.main_thread(), "worker")


def test_result_for_a_closed_loop_is_dropped():
    gate = threading.Event()

    async def main() -> None:
        in_thread(gate.wait, "worker")

    asyncio.run(main())
    (worker,) = [thread for thread in threading.enumerate() if thread.name == "worker"]
    gate.set()
    worker.join(30.0)
    assert not worker.is_alive()
