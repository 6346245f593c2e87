"""One child from its start to the last process of its run."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from vmafx.adapters.processes.exits import Ended, Watch, kill_group, watch
from vmafx.adapters.processes.launch import Launch, complaint
from vmafx.adapters.processes.output import Pipe, Tail
from vmafx.adapters.processes.spawn import Spawned
from vmafx.adapters.processes.strays import Run, Swept, sweep
from vmafx.adapters.processes.waiting import Patience, in_thread
from vmafx.domain.errors import ScorerError
from vmafx.domain.process import Command, Exit, Listener
from vmafx.domain.text import printable
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.processes import Child

__all__ = ["KILL_WAIT_S", "PosixChild"]

KILL_WAIT_S: Final = 10.0
"""How long a killed process may take to end, in seconds, before it is left to end in its own time."""


class PosixChild:
    """A child that was just started.

    Args:
        spawned: The new process, which is owned from here on.
        launch: How it was started.
        command: What was asked for.
        stderr_bytes_max: How much of its standard error is kept, in bytes.
        pidfds: Whether to use pidfds.
    """

    def __init__(
        self, spawned: Spawned, launch: Launch, command: Command, *, stderr_bytes_max: int, pidfds: bool
    ) -> None:
        self._pid = spawned.pid
        self._mark = launch.mark
        self._command = command
        self._stderr_bytes_max = stderr_bytes_max
        self._pidfds = pidfds
        self._tail = Tail(max(stderr_bytes_max, _COMPLAINT_BYTES))
        self._pipes = [Pipe(end, self._listeners(number)) for number, end in spawned.pipes.items()]
        self._watch: Watch | None = None
        self._left = False
        self._exit: Exit | None = None
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._pid

    def begin(self) -> None:
        """Watch the process and listen to it.

        Raises:
            OSError: The system cannot watch one more thing; `end` is needed all the same.
        """
        self._watch = watch(self._pid, self._on_exit, pidfds=self._pidfds)
        for pipe in self._pipes:
            pipe.open()

    async def wait(self) -> Exit:
        """Return how the process ended.

        Raises:
            ScorerError: That cannot be known, or the launcher could not become the program.
        """
        await asyncio.wait({self._ended})
        if self._exit is None:
            raise ScorerError(self._ended.result(), stderr=self._words(), machine_fault=True)
        if self._exit.status > 0:
            reason = complaint(self._mark, bytes(self._tail))
            if reason is not None:
                raise ScorerError(printable(reason), stderr=self._words(), machine_fault=True)
        return self._exit

    async def end(self, clock: Clock) -> None:
        """Kill the group at once, then whatever else is of the run; reap it and close what is open.

        Args:
            clock: Tells how long a killed process has been taking.

        Raises:
            CancelledError: The task was cancelled meanwhile; nothing was cut short.
        """
        patience = Patience()
        if self._watch is not None:
            kill_group(self._pid, self._watch)
            if not await patience.within(self._ended, clock, KILL_WAIT_S):
                self._leave()
        for pipe in self._pipes:
            pipe.close()
        if self._watch is not None:
            try:
                await self._sweep(self._watch, patience)
            finally:
                if not self._left:
                    self._watch.reap()
        patience.pass_on()

    async def _sweep(self, watch: Watch, patience: Patience) -> None:
        if sys.platform != "linux":
            return
        ended = watch.look()
        held = ended is None or ended.held
        run = Run(run_id=self._command.run_id, leader=self._pid if held else None)
        swept = in_thread(partial(sweep, run, pidfds=self._pidfds), f"vmafx-sweep-{self._pid}")
        await patience.until(swept)
        self._tell(swept.result())

    def _tell(self, swept: Swept) -> None:
        fields = {"run_id": self._command.run_id, "pids": swept.left, "problem": swept.problem}
        if swept.problem:
            _LOG.warning("could not look for processes left behind", extra=fields)
        elif swept.left:
            _LOG.warning("processes left behind do not end", extra=fields)

    def _leave(self) -> None:
        """Leave a process that does not end to the watch, which will reap it."""
        self._left = True
        self._ended.set_result(f"process {self._pid} was killed and does not end")
        _LOG.warning(
            "killed process does not end", extra={"run_id": self._command.run_id, "pids": (self._pid,)}
        )

    def _on_exit(self) -> None:
        ended = None if self._watch is None else self._watch.look()
        if self._watch is None or ended is None:
            return
        if self._left:
            self._watch.reap()
        elif not self._ended.done():
            self._conclude(ended)

    def _conclude(self, ended: Ended) -> None:
        try:
            for pipe in self._pipes:
                pipe.drain()
        finally:  # also when a listener breaks its word
            if ended.status is not None:
                tail = bytes(self._tail)
                kept = tail[max(0, len(tail) - self._stderr_bytes_max) :]
                self._exit = Exit(status=ended.status, stderr=kept)
            self._ended.set_result(_TAKEN)

    def _listeners(self, number: int) -> list[Listener]:
        given = self._command.listeners.get(number)
        return [*([self._tail] if number == 2 else []), *([given] if given else [])]

    def _words(self) -> str:
        return printable(bytes(self._tail).decode(errors="surrogateescape"))


_COMPLAINT_BYTES: Final = 8192
_TAKEN: Final = (
    "the exit status was taken: something else in this process ignores SIGCHLD or waits for all children"
)
_LOG: Final = logging.getLogger(__name__)

if TYPE_CHECKING:
    _port: type[Child] = PosixChild
