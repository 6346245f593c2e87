"""A token file on a file system that does not answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vmafx.adapters.auth import bearer
from vmafx.adapters.auth.bearer import TokenFile
from vmafx.adapters.processes.waiting import in_thread

HANG_S = 60.0


async def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0)


async def test_read_that_hangs_holds_one_thread_and_later_calls_read_anew(tmp_path, clock, monkeypatch):
    path = tmp_path / "token"
    path.write_text("first", encoding="utf-8")
    answered, reads = threading.Event(), []

    def read(of: Path) -> str:
        reads.append(of)
        answered.wait(HANG_S)
        return of.read_text(encoding="utf-8")

    monkeypatch.setattr(bearer, "_read", read)
    tokens = TokenFile(path, clock, in_thread)
    given_up = [asyncio.create_task(tokens.token()) for _ in range(20)]
    await eventually(lambda: bool(reads))
    for task in given_up:
        task.cancel()
    await asyncio.wait(given_up)
    waiting = [asyncio.create_task(tokens.token()) for _ in range(3)]
    await asyncio.sleep(0)
    assert len(reads) == 1, "a file system that does not answer is asked once"
    path.write_text("second", encoding="utf-8")
    answered.set()
    assert await asyncio.gather(*waiting) == ["second"] * 3
    assert len(reads) == 4, "what was read for somebody else counts for nobody"


def test_a_read_that_hangs_keeps_no_process_from_ending(tmp_path):
    script = """
import asyncio, threading
from pathlib import Path
from vmafx.adapters.auth import bearer
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes.waiting import in_thread

began = threading.Event()

def never(path):
    began.set()
    threading.Event().wait()

bearer._read = never

async def main():
    task = asyncio.create_task(bearer.TokenFile(Path("x"), SystemClock(), in_thread).token())
    while not began.is_set():
        await asyncio.sleep(0)
    task.cancel()

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANG_S, cwd=tmp_path)
