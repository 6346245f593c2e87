"""FakeProcesses: programs that run in no process, and take the time of a clock (ADR 0014)."""

from __future__ import annotations

import asyncio
import itertools
import math
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from vmafx.adapters.fakes.script import Script
from vmafx.domain.errors import ScorerError
from vmafx.domain.process import Command, Exit
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.processes import Child, Processes

__all__ = ["STDERR_BYTES_MAX", "FakeChild", "FakeProcesses", "FakeProgram", "ProgramRule"]

STDERR_BYTES_MAX: Final = 8 * 1024
"""How much of a program's standard error its exit carries."""
_STDERR: Final = 2
_FIRST_PID: Final = 1_000_000_000  # above what any system gives out


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeProgram:
    """How one program goes.

    Attributes:
        status: How it ends: an exit status from 0 to 255, or the negative number of a signal.
        writes: What it writes, in order and evenly over its time: a descriptor (2 is standard error) and
            the bytes. What goes to a descriptor without a listener is lost.
        takes_s: How long it takes, in seconds; infinite when it writes at once and never ends by itself.
        does: Called just before it ends by itself, such as to leave a report.
        error: Why it cannot be started; None when it can.

    Raises:
        ValueError: `takes_s` is below 0.
    """

    status: int = 0
    writes: tuple[tuple[int, bytes], ...] = ()
    takes_s: float = 0.0
    does: Callable[[Command], None] | None = None
    error: ScorerError | None = None

    def __post_init__(self) -> None:
        if not self.takes_s >= 0:
            raise ValueError(f"takes_s={self.takes_s} must be 0 or more seconds")

    @property
    def exit(self) -> Exit:
        """How it ends when nobody kills it."""
        stderr = b"".join(data for descriptor, data in self.writes if descriptor == _STDERR)
        return Exit(status=self.status, stderr=stderr[-STDERR_BYTES_MAX:])


ProgramRule: TypeAlias = Callable[[Command], FakeProgram]
"""Says how the program of a command goes."""


class FakeChild:
    """A `Child` without a process.

    Args:
        pid: Its number.
        ended: Holds how it ended, once it has.
    """

    def __init__(self, pid: int, ended: asyncio.Future[Exit]) -> None:
        self._pid = pid
        self._ended = ended

    @property
    def pid(self) -> int:
        """A number that neither another child of the same `FakeProcesses` nor any process has."""
        return self._pid

    async def wait(self) -> Exit:
        """Return how the program ended, once it has."""
        return await asyncio.shield(self._ended)


class FakeProcesses:
    """`Processes` that start nothing: a script and a rule say how each program goes.

    Args:
        clock: What programs take their time from.
        rule: How programs go; None lets all end at once with status 0.
    """

    commands: list[Command]
    """Every command so far, in order, those that could not be started among them."""
    killed: list[Command]
    """The commands whose programs were still running when their contexts were left."""

    def __init__(self, clock: Clock, rule: ProgramRule | None = None) -> None:
        self.commands = []
        self.killed = []
        self._clock = clock
        self._script = Script[Command, FakeProgram](rule or _ends_well)
        self._pids = itertools.count(_FIRST_PID)
        self._alive: dict[int, Command] = {}

    @asynccontextmanager
    async def running(self, command: Command) -> AsyncGenerator[FakeChild, None]:
        """Let the command's program go as its script, or else its rule, says; on leaving kill it.

        Yields:
            The child.

        Raises:
            ScorerError: The program cannot be started.
        """
        self.commands.append(command)
        program = self._script.answer(command)
        if program.error is not None:
            raise program.error.with_traceback(None)  # the same error may serve many programs
        ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        child = FakeChild(next(self._pids), ended)
        self._alive[child.pid] = command
        life = asyncio.create_task(self._live(command, program), name=f"fake process {child.pid}")
        life.add_done_callback(partial(self._end, child.pid, ended))
        try:
            yield child
        finally:
            if self._alive.pop(child.pid, None):
                self.killed.append(command)
            life.cancel()
            await asyncio.wait([life])

    def cue(self, *programs: FakeProgram) -> None:
        """Let the next programs go like `programs`, one each and in order, before the rule is asked again."""
        self._script.cue(*programs)

    @property
    def alive(self) -> tuple[Command, ...]:
        """The commands whose programs run now."""
        return tuple(self._alive.values())

    async def _live(self, command: Command, program: FakeProgram) -> Exit:
        started_s = self._clock.monotonic()
        hangs = math.isinf(program.takes_s)
        steps = len(program.writes) + 1
        for step, (descriptor, data) in enumerate(program.writes, start=1):
            if not hangs:
                await self._clock.sleep(started_s + program.takes_s * step / steps - self._clock.monotonic())
            listener = command.listeners.get(descriptor)
            if listener:
                listener(data)
        if hangs:
            await asyncio.Event().wait()
        await self._clock.sleep(started_s + program.takes_s - self._clock.monotonic())
        if program.does:
            program.does(command)
        return program.exit

    def _end(self, pid: int, ended: asyncio.Future[Exit], life: asyncio.Task[Exit]) -> None:
        self._alive.pop(pid, None)
        error = None if life.cancelled() else life.exception()
        if life.cancelled():
            ended.set_result(Exit(status=-signal.SIGKILL))
        elif error is not None:
            ended.set_exception(error)
        else:
            ended.set_result(life.result())


def _ends_well(_: Command) -> FakeProgram:
    return FakeProgram()


if TYPE_CHECKING:
    _port: type[Processes] = FakeProcesses
    _child_port: type[Child] = FakeChild
