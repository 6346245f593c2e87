"""Work in threads: it can be stopped, and what it opened has an owner at every moment."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable

import pytest

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.vmaf_cli import threads, unnamed
from vmafx.adapters.vmaf_cli.threads import StoppedError, StopSign, in_thread
from vmafx.adapters.vmaf_cli.unnamed import file_chunks, unnamed_file
from vmafx.domain.errors import ScorerError

GUARD_S = 30.0


async def run(work: Callable[[StopSign], int], discarded: list[int] | None = None) -> int:
    return await in_thread(
        work,
        clock=SystemClock(),
        discard=([] if discarded is None else discarded).append,
    )


async def test_result_and_error_come_back() -> None:
    assert await run(lambda _: 7) == 7

    def fail(_: StopSign) -> int:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        await run(fail)


async def test_work_is_off_the_event_loop() -> None:
    assert await in_thread(lambda _: threading.get_ident(), clock=SystemClock()) != threading.get_ident()


async def test_cancelled_call_returns_after_its_work_has_stopped() -> None:
    begun, stopped = threading.Event(), []

    def work(sign: StopSign) -> int:
        begun.set()
        try:
            while True:
                sign.check()
        except StoppedError:
            stopped.append(1)
            raise

    task = asyncio.create_task(run(work))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped == [1]


async def test_result_that_nobody_takes_is_discarded() -> None:
    begun, go_on, discarded = threading.Event(), threading.Event(), list[int]()

    def work(_: StopSign) -> int:
        begun.set()
        assert go_on.wait(GUARD_S)
        return 9

    task = asyncio.create_task(run(work, discarded))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert discarded == [9]


async def test_work_that_cannot_stop_is_left_to_itself_and_its_result_discarded_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "STOP_WAIT_S", 0.05)
    go_on, discarded = threading.Event(), list[int]()

    def work(_: StopSign) -> int:
        assert go_on.wait(GUARD_S)
        return 9

    task = asyncio.create_task(run(work, discarded))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert discarded == []
    go_on.set()
    async with SystemClock().timeout(GUARD_S):
        while not discarded:
            await asyncio.sleep(0.001)
    assert discarded == [9]


async def test_time_limit_of_the_caller_stops_the_work_too() -> None:
    def work(sign: StopSign) -> int:
        while True:
            sign.check()

    with pytest.raises(TimeoutError):
        async with SystemClock().timeout(0.01):
            await run(work)


def test_result_that_comes_after_the_loop_is_discarded_by_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "STOP_WAIT_S", 0.01)
    go_on, discarded = threading.Event(), queue.SimpleQueue[int]()

    def work(_: StopSign) -> int:
        assert go_on.wait(GUARD_S)
        return 9

    async def leave() -> None:
        task = asyncio.create_task(in_thread(work, clock=SystemClock(), discard=discarded.put))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(leave())
    go_on.set()
    assert discarded.get(timeout=GUARD_S) == 9


async def test_thread_that_cannot_be_started_is_a_fault_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ScorerError, match="cannot start a thread") as caught:
        await run(lambda _: 1)
    assert caught.value.machine_fault


@pytest.mark.parametrize("memory", [True, False])
def test_unnamed_file_has_its_content_and_no_name(monkeypatch: pytest.MonkeyPatch, *, memory: bool) -> None:
    if not memory:
        monkeypatch.setattr(os, "memfd_create", _forbidden)
    content = bytes(range(256)) * 3000
    descriptor = unnamed_file("label", content)
    try:
        assert b"".join(file_chunks(descriptor)) == content
        kept_in = os.readlink(f"/dev/fd/{descriptor}")  # noqa: PTH115 - not a path of a file
        assert kept_in.startswith("/memfd:label") is (memory and sys.platform == "linux")
        assert "(deleted)" in kept_in
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        assert not os.get_inheritable(descriptor)
        with open(f"/dev/fd/{descriptor}", "wb") as again:  # noqa: PTH123 - as a child does
            again.write(b"new")
        assert b"".join(file_chunks(descriptor)) == b"new"
    finally:
        os.close(descriptor)


def test_unnamed_file_that_cannot_be_filled_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    monkeypatch.setattr(unnamed.os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        unnamed_file("label", b"x")
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


def _forbidden(*_: object) -> int:
    raise PermissionError(13, "Permission denied")
