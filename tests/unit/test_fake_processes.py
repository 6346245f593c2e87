"""FakeProcesses: programs go as they were told, and are gone when their contexts are left (ADR 0014)."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Callable, Mapping

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.processes import STDERR_BYTES_MAX, FakeProcesses, FakeProgram
from vmafx.domain.errors import ScorerError
from vmafx.domain.process import Command, Exit, Listener

pytestmark = pytest.mark.virtual_time


def command(*arguments: str, listeners: Mapping[int, Listener] | None = None) -> Command:
    return Command(
        argv=("/bin/scorer", *arguments), environment={}, run_id="run-1", listeners=listeners or {}
    )


def each(program: FakeProgram) -> Callable[[Command], FakeProgram]:
    return lambda _: program


async def test_without_a_rule_every_program_ends_well_at_once(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock)
    async with processes.running(command("-v")) as child:
        assert await child.wait() == Exit(status=0)
    assert clock.monotonic() == 0
    assert processes.commands == [command("-v")]
    assert (processes.killed, processes.alive) == ([], ())


async def test_a_rule_goes_by_the_command_and_cues_come_first(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock, lambda asked: FakeProgram(status=len(asked.argv)))
    processes.cue(FakeProgram(status=-signal.SIGSEGV), FakeProgram(status=77))
    statuses = []
    for _ in range(3):
        async with processes.running(command("-v")) as child:
            statuses.append((await child.wait()).status)
    assert statuses == [-signal.SIGSEGV, 77, 2]


async def test_a_program_takes_its_time_and_tells_how_it_ended_as_often_as_asked(
    clock: VirtualClock,
) -> None:
    processes = FakeProcesses(clock, each(FakeProgram(status=3, takes_s=8)))
    async with processes.running(command()) as child:
        waiting = [asyncio.create_task(child.wait()) for _ in range(2)]
        await clock.advance(7)
        assert processes.alive == (command(),)
        assert not any(task.done() for task in waiting)
        assert await asyncio.gather(*waiting) == [Exit(status=3)] * 2
        assert await child.wait() == Exit(status=3)
        assert processes.alive == ()
    assert clock.monotonic() == 8
    assert processes.killed == []


async def test_listeners_hear_what_is_written_evenly_and_before_the_end(clock: VirtualClock) -> None:
    heard: list[tuple[float, int, bytes]] = []

    def listener(descriptor: int) -> Listener:
        return lambda data: heard.append((clock.monotonic(), descriptor, data))

    writes = ((3, b"1/3"), (2, b"warning: "), (3, b"2/3"), (2, b"slow"), (9, b"lost"))
    processes = FakeProcesses(clock, each(FakeProgram(status=1, writes=writes, takes_s=12)))
    async with processes.running(command(listeners={2: listener(2), 3: listener(3)})) as child:
        ended = await child.wait()
    assert heard == [(2, 3, b"1/3"), (4, 2, b"warning: "), (6, 3, b"2/3"), (8, 2, b"slow")]
    assert ended == Exit(status=1, stderr=b"warning: slow")
    assert clock.monotonic() == 12


def test_an_exit_carries_the_last_of_a_flood() -> None:
    flood = FakeProgram(writes=((2, b"x" * STDERR_BYTES_MAX), (2, b"the end")))
    assert len(flood.exit.stderr) == STDERR_BYTES_MAX
    assert flood.exit.stderr.endswith(b"xthe end")


async def test_what_a_program_does_is_done_at_its_end(clock: VirtualClock) -> None:
    done: list[tuple[float, str]] = []
    program = FakeProgram(takes_s=5, does=lambda asked: done.append((clock.monotonic(), asked.run_id)))
    processes = FakeProcesses(clock, each(program))
    async with processes.running(command()) as child:
        await child.wait()
    async with processes.running(command()):
        await clock.sleep(1)  # killed before its end: it leaves no report
    assert done == [(5, "run-1")]


async def test_a_program_that_hangs_writes_and_waits_to_be_killed(clock: VirtualClock) -> None:
    heard: list[bytes] = []
    program = FakeProgram(writes=((2, b"waiting"),), takes_s=math.inf)
    processes = FakeProcesses(clock, each(program))
    asked = command(listeners={2: heard.append})

    async def wait_briefly() -> None:
        async with processes.running(asked) as child, clock.timeout(30):
            await child.wait()

    with pytest.raises(TimeoutError):
        await wait_briefly()
    assert heard == [b"waiting"]
    assert processes.killed == [asked]
    assert (processes.alive, clock.sleepers) == ((), 0)


async def test_cancelling_a_wait_leaves_the_program_running(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock, each(FakeProgram(status=4, takes_s=60)))
    async with processes.running(command()) as child:
        with pytest.raises(TimeoutError):
            async with clock.timeout(5):
                await child.wait()
        assert processes.alive == (command(),)
        assert (await child.wait()).status == 4
    assert clock.monotonic() == 60


async def test_one_who_waits_hears_of_the_kill(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock, each(FakeProgram(takes_s=math.inf)))
    async with processes.running(command()) as child:
        waiting = asyncio.create_task(child.wait())
        await clock.sleep(1)
    assert await waiting == Exit(status=-signal.SIGKILL)
    assert await child.wait() == Exit(status=-signal.SIGKILL)


async def test_a_program_killed_before_its_first_moment_is_gone(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock, each(FakeProgram(takes_s=5)))
    async with processes.running(command()) as child:
        pass
    assert await child.wait() == Exit(status=-signal.SIGKILL)
    assert processes.killed == [command()]
    assert clock.sleepers == 0


async def test_a_program_that_cannot_be_started_is_no_child(clock: VirtualClock) -> None:
    error = ScorerError("cannot start", machine_fault=True)
    processes = FakeProcesses(clock, each(FakeProgram(error=error)))
    with pytest.raises(ScorerError) as caught:
        await processes.running(command()).__aenter__()
    assert caught.value is error
    assert processes.commands == [command()]
    assert processes.alive == ()


async def test_the_error_of_a_listener_reaches_who_waits(clock: VirtualClock) -> None:
    def listener(_: bytes) -> None:
        raise LookupError("a mistake of the test")

    processes = FakeProcesses(clock, each(FakeProgram(writes=((3, b"x"),))))
    async with processes.running(command(listeners={3: listener})) as child:
        with pytest.raises(LookupError, match="a mistake"):
            await child.wait()


async def test_children_have_numbers_of_their_own(clock: VirtualClock) -> None:
    processes = FakeProcesses(clock, each(FakeProgram(takes_s=1)))
    async with processes.running(command()) as one, processes.running(command()) as two:
        assert one.pid != two.pid
        assert len(processes.alive) == 2


def test_a_time_below_zero_is_refused() -> None:
    for seconds in (-1.0, math.nan):
        with pytest.raises(ValueError, match="takes_s"):
            FakeProgram(takes_s=seconds)
