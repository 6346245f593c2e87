"""A child's end is seen, and its number is let go of, at the right time (ADR 0007)."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.children import children, descriptors
from vmafx.adapters.processes.exits import Ended, PidfdWatch, ThreadWatch, kill_group


class Seen:
    """A watch that saw something."""

    def __init__(self, ended: Ended | None) -> None:
        self._ended = ended

    def look(self) -> Ended | None:
        return self._ended

    def reap(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("ended", "killed"),
    [
        (None, [(77, signal.SIGKILL)]),
        (Ended(status=0, held=True), [(77, signal.SIGKILL)]),
        (Ended(status=0, held=False), []),
        (Ended(status=None, held=False), []),
    ],
)
def test_group_is_killed_only_while_its_number_is_its_own(monkeypatch, ended, killed):
    calls = []
    monkeypatch.setattr(os, "killpg", lambda *call: calls.append(call))
    kill_group(77, Seen(ended))
    assert calls == killed


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_group_of_the_dead_may_be_killed(monkeypatch, error):
    def killpg(_pid, _signal):
        raise error

    monkeypatch.setattr(os, "killpg", killpg)
    kill_group(77, Seen(None))


@pytest.mark.parametrize("kind", [PidfdWatch, ThreadWatch])
async def test_end_is_told_once_and_the_child_kept_until_reaped(kind):
    before = children(), descriptors()
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {}, setsid=True)
    heard = []
    first = asyncio.Event()

    def hear():
        heard.append(watch.look())
        first.set()

    watch = kind(pid, hear)
    await first.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert heard == [Ended(status=3, held=True)]
    assert watch.look() == Ended(status=3, held=True)
    assert pid in children()
    watch.reap()
    watch.reap()
    assert watch.look() == Ended(status=None, held=False)
    assert (children(), descriptors()) == before


@pytest.mark.parametrize("kind", [PidfdWatch, ThreadWatch])
async def test_running_child_has_not_ended(kind):
    pid = os.posix_spawn("/bin/sleep", ["sleep", "300"], {}, setsid=True)
    ended = asyncio.Event()
    watch = kind(pid, ended.set)
    assert watch.look() is None
    kill_group(pid, watch)
    await ended.wait()
    assert watch.look() == Ended(status=-signal.SIGKILL, held=True)
    watch.reap()
