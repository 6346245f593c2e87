"""Processes: starts children and leaves none behind."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from vmafx.domain.process import Command, Exit

__all__ = ["Child", "Processes"]


class Child(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """The process id; it is not given to another process before the context of the child ended."""
        ...

    async def wait(self) -> Exit:
        """Return how the process ended, once it has and everything it wrote was heard; may be called again.

        Cancellation leaves the process running: leaving its context ends it.

        Raises:
            ScorerError: The program could not be started after all, or how it ended cannot be known;
                `machine_fault` is set.
        """
        ...


class Processes(Protocol):
    """Starts programs (ADR 0007)."""

    def running(self, command: Command) -> AbstractAsyncContextManager[Child]:
        """Return a context that starts the program on entry.

        On leaving the context, for whatever reason, the process and its whole group are killed, processes
        of the same run that left the group are killed where they can be found, what is ours is reaped, and
        pipes are closed. If our process dies, the child dies with it, however early in its life.

        Args:
            command: What to start.

        Raises:
            ScorerError: On entry, when it cannot be started; `machine_fault` is set. What only the start
                itself can show (an executable for another machine) may come from `wait` instead.
        """
        ...
