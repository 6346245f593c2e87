"""Sees a child end without letting go of its process id, and reaps it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

__all__ = ["Ended", "PidfdWatch", "ThreadWatch", "Watch", "kill_group", "watch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is known of a child that ended.

    Attributes:
        status: As in `Exit`; None when somebody else in this process took it.
        held: Whether its process id is still its own.
    """

    status: int | None
    held: bool


class Watch(Protocol):
    """Watches one child. All calls are made in the loop's thread."""

    def look(self) -> Ended | None:
        """Return how the child ended; None while it runs."""
        ...

    def reap(self) -> None:
        """Let go of a child that ended, and of what the watch holds; may be called again."""
        ...


def watch(pid: int, heard: Callable[[], None], *, pidfds: bool) -> Watch:
    """Return a watch that calls `heard` in the loop when the child may have ended.

    Args:
        pid: The child, which leads a process group.
        heard: Called at least once after the end, while the child is not reaped.
        pidfds: Whether to try a pidfd; else, and where the system gives none, a thread waits.

    Raises:
        OSError: There is neither a descriptor nor a thread left; the child was killed and reaped.
    """
    if pidfds:
        with suppress(OSError):
            return PidfdWatch(pid, heard)
    try:
        return ThreadWatch(pid, heard)
    except RuntimeError as error:
        with suppress(ProcessLookupError, ChildProcessError):
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise OSError(errno.EAGAIN, "no thread to wait for it") from error


def kill_group(pid: int, watch: Watch) -> None:
    """Kill every process of the child's group, unless the number may be another group's by now."""
    ended = watch.look()
    if ended is None or ended.held:
        with suppress(ProcessLookupError, PermissionError):  # macOS forbids it when only the dead are left
            os.killpg(pid, signal.SIGKILL)


class PidfdWatch:
    """Watches a child by a descriptor that stands for it (Linux 5.4).

    Args:
        pid: The child.
        heard: Called when the child may have ended.

    Raises:
        OSError: The system has no such descriptors, or none left.
    """

    def __init__(self, pid: int, heard: Callable[[], None]) -> None:
        self._descriptor: int | None = os.pidfd_open(pid)
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(self._descriptor, self._readable)
        except OSError:
            os.close(self._descriptor)
            raise

    def look(self) -> Ended | None:
        """Ask the kernel."""
        if self._descriptor is None:
            return _GONE
        return _ended(os.P_PIDFD, self._descriptor, os.WNOHANG)

    def reap(self) -> None:
        """Reap the child and close the descriptor."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)

    def _readable(self) -> None:
        if self._descriptor is not None and self.look() is not None:
            self._loop.remove_reader(self._descriptor)
            self._heard()


class ThreadWatch:
    """Watches a child by a thread that waits.

    Args:
        pid: The child.
        heard: Called when the child ended.

    Raises:
        RuntimeError: The system has no thread left.
    """

    def __init__(self, pid: int, heard: Callable[[], None]) -> None:
        self._pid = pid
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._ended: Ended | None = None
        threading.Thread(target=self._wait, name=f"vmafx-wait-{pid}", daemon=True).start()

    def look(self) -> Ended | None:
        """Return what the thread saw."""
        return self._ended

    def reap(self) -> None:
        """Reap the child, where waiting did not."""
        ended, self._ended = self._ended, _GONE
        if ended is not None and ended.held:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG)

    def _wait(self) -> None:
        ended = _ended(os.P_PID, self._pid, 0) if hasattr(os, "waitid") else _reaped(self._pid)
        self._ended = ended
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            self._loop.call_soon_threadsafe(self._heard)


def _ended(kind: int, number: int, options: int) -> Ended | None:
    try:
        result = os.waitid(kind, number, os.WEXITED | os.WNOWAIT | options)
    except ChildProcessError:
        return _GONE
    if result is None:
        return None
    exited = result.si_code == os.CLD_EXITED
    return Ended(status=result.si_status if exited else -result.si_status, held=True)


def _reaped(pid: int) -> Ended:
    """Wait for the child where one cannot look without reaping (macOS before Python 3.13).

    Its group is killed at the same moment, while the number can hardly be another's.
    """
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return _GONE
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return Ended(status=os.waitstatus_to_exitcode(status), held=False)


_GONE: Final = Ended(status=None, held=False)

if TYPE_CHECKING:
    _watches: tuple[type[Watch], type[Watch]] = (PidfdWatch, ThreadWatch)
