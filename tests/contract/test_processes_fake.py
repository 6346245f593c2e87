"""The contract of `Processes` as far as a fake can keep it, on the real thing too (ADR 0007, 0014).

It keeps the fake honest; `test_processes.py` has what only real processes can show.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.children import GUARD_S, Heard, children, program, shell
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.processes import FakeProcesses, FakeProgram
from vmafx.adapters.processes import PosixProcesses
from vmafx.domain.errors import ScorerError
from vmafx.domain.process import Command, Exit
from vmafx.ports.processes import Processes

ENDS: Final = "printf frames >&3; printf 'last words' >&2; exit 7"
HANGS: Final = "exec sleep 300"
SLOW: Final = "sleep 0.2; exit 5"
NOT_THERE: Final = "/nowhere/scorer"


@dataclass(frozen=True)
class Subject:
    processes: Processes
    alive: Callable[[], int]


def posix() -> Subject:
    before = children()
    return Subject(PosixProcesses(SystemClock()), lambda: len(children() - before))


def fake() -> Subject:
    def rule(command: Command) -> FakeProgram:
        return {
            ENDS: FakeProgram(status=7, writes=((3, b"frames"), (2, b"last words"))),
            HANGS: FakeProgram(takes_s=math.inf),
            SLOW: FakeProgram(status=5, takes_s=0.2),
            NOT_THERE: FakeProgram(error=ScorerError("cannot start", machine_fault=True)),
        }[command.argv[-1]]

    processes = FakeProcesses(SystemClock(), rule)
    return Subject(processes, lambda: len(processes.alive))


@pytest.fixture(params=[posix, fake], ids=lambda maker: maker.__name__)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param()


@pytest.fixture
def processes(subject: Subject) -> Processes:
    return subject.processes


async def test_exit_and_words_are_told_and_heard_before_that(processes: Processes) -> None:
    frames, words = Heard(), Heard()
    command = shell(ENDS, listeners={2: words, 3: frames})
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        assert await child.wait() == Exit(status=7, stderr=b"last words")
        assert (frames.data, words.data) == (b"frames", b"last words")


async def test_wait_may_be_called_again_by_many_and_afterwards(processes: Processes) -> None:
    command = shell(ENDS, listeners={3: Heard()})
    async with asyncio.timeout(GUARD_S), processes.running(command) as child:
        ends = await asyncio.gather(child.wait(), child.wait())
    assert [end.status for end in [*ends, await child.wait()]] == [7, 7, 7]


async def test_cancelled_wait_leaves_the_program_running(processes: Processes) -> None:
    async with asyncio.timeout(GUARD_S), processes.running(shell(SLOW)) as child:
        waiting = asyncio.create_task(child.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await child.wait()).status == 5


async def test_leaving_kills_what_still_runs(subject: Subject) -> None:
    async with asyncio.timeout(GUARD_S), subject.processes.running(shell(HANGS)) as child:
        waiting = asyncio.create_task(child.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert subject.alive() == 0
    assert (await child.wait()).status == -signal.SIGKILL
    assert (await waiting).status == -signal.SIGKILL


async def test_cancelling_the_body_kills_and_stays_a_cancellation(subject: Subject) -> None:
    entered = asyncio.Event()

    async def run() -> None:
        async with subject.processes.running(shell(HANGS)) as child:
            entered.set()
            await child.wait()

    running = asyncio.create_task(run())
    async with asyncio.timeout(GUARD_S):
        await entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert subject.alive() == 0


async def test_error_of_the_body_passes(subject: Subject) -> None:
    error = LookupError("its own")

    async def run() -> None:
        async with asyncio.timeout(GUARD_S), subject.processes.running(shell(HANGS)):
            raise error

    with pytest.raises(LookupError) as caught:
        await run()
    assert caught.value is error
    assert subject.alive() == 0


async def test_what_cannot_be_started_is_a_fault_of_the_machine(processes: Processes) -> None:
    with pytest.raises(ScorerError) as caught:
        await processes.running(program(NOT_THERE)).__aenter__()
    assert caught.value.machine_fault
    assert caught.value.exit_status is None


async def test_children_side_by_side_have_numbers_of_their_own(processes: Processes) -> None:
    async with (
        asyncio.timeout(GUARD_S),
        processes.running(shell(HANGS)) as one,
        processes.running(shell(SLOW)) as two,
    ):
        assert one.pid != two.pid
        assert (await two.wait()).status == 5
