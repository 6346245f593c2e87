"""Finds and ends what a run left behind on Linux: processes of its session, and those that carry its name.

Everything here waits and reads files: it is called in a thread. Bounded by `SCANS_MAX`.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

__all__ = ["SCANS_MAX", "Run", "Stat", "Swept", "parse_stat", "sweep"]

SCANS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the processes of a run have in common.

    Attributes:
        run_id: Their `VMAFX_RUN_ID`.
        leader: The process id of the child, which leads the session and the group of that number and is not
            reaped yet; None when the number may be another's by now.
    """

    run_id: str
    leader: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What the kernel says of a process.

    Attributes:
        dead: Whether it ended and waits to be reaped.
        parent: Its parent's process id.
        group: Its process group.
        session: Its session.
        started: When it was started, in ticks since the machine was.
    """

    dead: bool
    parent: int
    group: int
    session: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What came of a sweep.

    Attributes:
        left: Process ids of the run that did not end.
        problem: Why one could not look; empty when one could.
    """

    left: tuple[int, ...] = ()
    problem: str = ""


def sweep(run: Run, *, pidfds: bool) -> Swept:
    """Kill the run's processes until none is found, and reap those that fell to us.

    The leader itself is left alone. A process that fell to us and ended is reaped only when it is of the
    leader's session or group, or was found alive before.

    Args:
        run: Which processes.
        pidfds: Whether to kill by pidfd, so that no other process of the same number can be hit.
    """
    found: dict[int, Stat] = {}
    restless = 0
    try:
        for _ in range(SCANS_MAX):
            newest = _newest()
            found = dict(_scan(run))
            if found:
                _end(run, found, pidfds=pidfds)
            elif newest == _newest() or restless == _RESTLESS_MAX:
                break
            else:  # one was started while we looked: by one of the run that had gone when we came to it?
                restless += 1
    except OSError as error:
        return Swept(left=tuple(found), problem=str(error))
    return Swept(left=tuple(found))


def parse_stat(text: bytes) -> Stat:
    """Return what a line of `/proc/PID/stat` says; the name in it may hold anything."""
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        dead=fields[0] in {b"Z", b"X"},
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def _scan(run: Run) -> Iterator[tuple[int, Stat]]:
    leader = None if run.leader is None else _stat(run.leader)
    not_before = 0 if leader is None else leader.started
    for name in os.listdir("/proc"):  # noqa: PTH208 - numbers, not paths
        if not name.isdecimal() or int(name) in {os.getpid(), run.leader}:
            continue
        stat = _stat(int(name))
        if stat is not None and stat.started >= not_before and _belongs(int(name), stat, run):
            yield int(name), stat


def _belongs(pid: int, stat: Stat, run: Run) -> bool:
    """Return whether a process is of the run and there is something to do about it."""
    if stat.dead and stat.parent != os.getpid():
        return False
    if run.leader is not None and run.leader in {stat.group, stat.session}:
        return True
    return not stat.dead and _carries(pid, run.run_id)


def _carries(pid: int, run_id: str) -> bool:
    environment = _read(f"/proc/{pid}/environ")
    return f"VMAFX_RUN_ID={run_id}".encode() in environment.split(b"\0")


def _end(run: Run, found: dict[int, Stat], *, pidfds: bool) -> None:
    """Kill what was found, wait until it is dead, then reap what is ours: parents may die after children."""
    with ExitStack() as stack:
        held = {pid: _pidfd(pid, stack) if pidfds else None for pid in found}
        for pid, descriptor in held.items():
            stat = _stat(pid)
            if stat is None or stat.started != found[pid].started:
                continue  # another process of the same number
            if _belongs(pid, stat, run):
                _kill(pid, descriptor)
        _wait(held.values())
        for pid, descriptor in held.items():
            _reap(pid, descriptor, found[pid])


def _pidfd(pid: int, stack: ExitStack) -> int | None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    return descriptor


def _kill(pid: int, descriptor: int | None) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _wait(held: Iterable[int | None]) -> None:
    """Wait until all are dead, or nothing happens for a while."""
    poller = select.poll()
    left = set(held)
    for descriptor in left:
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
    while left - {None} and (ready := poller.poll(_DEATH_WAIT_MS)):
        for descriptor, _ in ready:
            poller.unregister(descriptor)
            left.discard(descriptor)
    if left:
        select.poll().poll(_PAUSE_MS)


def _reap(pid: int, descriptor: int | None, found: Stat) -> None:
    with suppress(ChildProcessError):  # not our child
        if descriptor is not None:
            os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
            return
        stat = _stat(pid)
        if stat is not None and stat.dead and stat.started == found.started:
            os.waitpid(pid, os.WNOHANG)


def _stat(pid: int) -> Stat | None:
    text = _read(f"/proc/{pid}/stat")
    return parse_stat(text) if text else None


def _newest() -> bytes:
    """Return the process id given out last."""
    return _read("/proc/loadavg").rpartition(b" ")[2]


def _read(path: str) -> bytes:
    """Return a file of a process; empty when the process is gone or not ours to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, _READ_BYTES), b""))
    except (PermissionError, ProcessLookupError):
        return b""
    finally:
        os.close(descriptor)


_DEATH_WAIT_MS: Final = 250
_PAUSE_MS: Final = 10
_RESTLESS_MAX: Final = 1
_READ_BYTES: Final = 65_536
