"""PosixProcesses: starts programs on Linux and macOS and leaves nothing of them behind (ADR 0007)."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vmafx.adapters.processes.child import PosixChild
from vmafx.adapters.processes.launch import (
    TOOL_FOLDERS,
    Launcher,
    Tools,
    find_tools,
    launch,
    passes_shell,
    plainly_native,
    probe,
    probe_passed,
)
from vmafx.adapters.processes.spawn import spawn
from vmafx.domain.errors import ConfigurationError, ScorerError
from vmafx.domain.faults import WANT_OF_SYSTEM
from vmafx.domain.process import Command
from vmafx.domain.text import printable, quoted
from vmafx.ports.clock import Clock

if TYPE_CHECKING:
    from vmafx.ports.processes import Processes

__all__ = ["STDERR_BYTES_MAX", "PosixProcesses"]

STDERR_BYTES_MAX: Final = 8192


class PosixProcesses:
    """The `Processes` of a real machine.

    Used from an event loop whose thread lives as long as the children: the parent-death signal is sent when
    the thread that started a child ends.

    Args:
        clock: Bounds the wait for processes that were killed.
        stderr_bytes_max: How much of a child's standard error is kept, in bytes.
        launcher: How programs are started; None takes the shell's way where it works.
        tool_folders: Where `setpriv` and a shell are looked for.
        pidfds: Whether to use pidfds where the system has them.

    Raises:
        ConfigurationError: This platform is not supported.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        stderr_bytes_max: int = STDERR_BYTES_MAX,
        launcher: Launcher | None = None,
        tool_folders: tuple[str, ...] = TOOL_FOLDERS,
        pidfds: bool = True,
    ) -> None:
        if os.name != "posix" or sys.platform == "win32":
            raise ConfigurationError("platform", f"{sys.platform} is not supported: Linux and macOS are")
        self._clock = clock
        self._stderr_bytes_max = stderr_bytes_max
        self._tool_folders = tool_folders
        self._pidfds = pidfds and hasattr(os, "pidfd_open")
        self._launcher = launcher
        self._tools = find_tools(tool_folders) if launcher is Launcher.SHELL else None

    @asynccontextmanager
    async def running(self, command: Command) -> AsyncGenerator[PosixChild, None]:
        """Start the program, and end everything of it on leaving.

        Yields:
            The child.

        Raises:
            ScorerError: It cannot be started.
        """
        with _starting(command):
            _check(command)
        if self._launcher is None:
            self._tools = await self._shell_way()
            self._launcher = Launcher.PYTHON if self._tools is None else Launcher.SHELL
        async with self._started(command, self._tools_for(command)) as child:
            yield child

    @asynccontextmanager
    async def _started(self, command: Command, tools: Tools | None) -> AsyncGenerator[PosixChild, None]:
        # Nothing is awaited between the start and the block whose end kills.
        with _starting(command):
            how = launch(command, tools)
            spawned = spawn(how, command)
        child = PosixChild(
            spawned, how, command, stderr_bytes_max=self._stderr_bytes_max, pidfds=self._pidfds
        )
        try:
            with _starting(command):
                child.begin()
            yield child
        finally:
            await child.end(self._clock)

    def _tools_for(self, command: Command) -> Tools | None:
        through_shell = passes_shell(command.environment) and plainly_native(command.argv[0])
        return self._tools if through_shell else None

    async def _shell_way(self) -> Tools | None:
        """Return what the shell's way needs, seen to work; None when it does not.

        Raises:
            ScorerError: The machine is short of something just now.
        """
        tools = find_tools(self._tool_folders)
        if sys.platform != "linux" or tools is None:
            return None
        command = probe(tools)
        try:
            async with self._clock.timeout(_PROBE_S), self._started(command, tools) as child:
                end = await child.wait()
        except ScorerError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in WANT_OF_SYSTEM:
                raise
            return None
        except TimeoutError:
            return None
        return tools if probe_passed(command, end.status, end.stderr) else None


@contextmanager
def _starting(command: Command) -> Generator[None, None, None]:
    """Turn what the system or Python says of a start into our error.

    Yields:
        Nothing.

    Raises:
        ScorerError: The program cannot be started.
    """
    try:
        yield
    except (OSError, ValueError, OverflowError, NotImplementedError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        program = quoted(command.argv[0]) if command.argv else "no program"
        raise ScorerError(f"{program}: {printable(reason)}", machine_fault=True) from error


def _check(command: Command) -> None:
    """Refuse what would fail only later, in the child, or would lose its exit status.

    Raises:
        OSError: The program is missing, or not ours to execute.
        ValueError: The command is no command, or this process cannot see a child end.
    """
    if not _RUN_ID.fullmatch(command.run_id):
        raise ValueError(f"run id {quoted(command.run_id)}: letters, digits and - only")
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise ValueError("this process ignores SIGCHLD, so that exit statuses are lost")
    program = command.argv[0] if command.argv else ""
    path = Path(program)
    if not path.is_absolute():
        raise ValueError("not an absolute path")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("a directory" if path.is_dir() else "not a regular file")
    if not os.access(program, os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


_PROBE_S: Final = 10.0
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]+")

if TYPE_CHECKING:
    _port: type[Processes] = PosixProcesses
