"""Starts a process with exactly the descriptors that it should have."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

from vmafx.adapters.processes.launch import Launch
from vmafx.domain.process import Command

if sys.platform != "win32":
    import fcntl
    import resource

__all__ = ["Spawned", "spawn"]

_Action: TypeAlias = tuple[int, int, str, int, int] | tuple[int, int, int] | tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A new process.

    Attributes:
        pid: Its process id, which is also the number of its session and its process group.
        pipes: The child's descriptor number to our end of a pipe, which does not block.
    """

    pid: int
    pipes: Mapping[int, int]


def spawn(launch: Launch, command: Command) -> Spawned:
    """Start `launch` in a session of its own, with the command's descriptors.

    It must be called in the thread that will wait: the parent-death signal is sent when the thread ends.
    Nothing is left behind when it fails.

    Args:
        launch: What to start.
        command: Says which descriptors the child gets.

    Raises:
        OSError: The system refused.
        ValueError: The command is no command: descriptor numbers below 3 or named twice, a zero byte.
    """
    _check_numbers(command)
    with ExitStack() as ours, ExitStack() as theirs:
        pipes: dict[int, int] = {}
        sources = dict(command.descriptors)
        for number in {2, *command.listeners}:
            pipes[number], sources[number] = _pipe(ours, theirs)
        pid = os.posix_spawn(
            launch.path,
            launch.argv,
            dict(launch.environment),
            file_actions=[*_placed(sources, theirs), *_closed(sources)],
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
        ours.pop_all()
        return Spawned(pid=pid, pipes=pipes)


def _check_numbers(command: Command) -> None:
    numbers = [*command.descriptors, *(n for n in command.listeners if n != 2)]
    if len(set(numbers)) != len(numbers) or any(number < 3 for number in numbers):
        raise ValueError(f"descriptors {sorted(numbers)}: numbers of the child are 3 or more, each once")


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    os.set_blocking(read, False)
    return read, write


def _placed(sources: Mapping[int, int], moved: ExitStack) -> Iterable[_Action]:
    """Yield what puts each source at its number; `moved` closes the copies.

    Every source is first copied above all the numbers, so that placing one never covers the next.

    Yields:
        The file actions.
    """
    yield (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    yield (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    for number, source in sources.items():
        copy = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, max(sources) + 1)
        moved.callback(os.close, copy)
        yield (os.POSIX_SPAWN_DUP2, copy, number)


def _closed(sources: Mapping[int, int]) -> Iterable[_Action]:
    """Yield what closes descriptors of ours that the child would inherit.

    Python's own are never inherited; those of our parent and of some C libraries are.

    Yields:
        The file actions.
    """
    number_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # posix_spawn knows no greater numbers
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers, not paths
        number = int(name)
        if number < 3 or number in sources or number >= number_max != resource.RLIM_INFINITY:
            continue
        try:
            inherited = os.get_inheritable(number)
        except OSError:  # the descriptor of the listing itself
            continue
        if inherited:
            yield (os.POSIX_SPAWN_CLOSE, number)
