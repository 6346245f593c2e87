"""Programs for tests of child processes, and an independent look at which processes there are."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from vmafx.domain.process import Command, Listener

GUARD_S = 30.0
"""A limit on hangs in seconds; nothing is asserted about speed."""

_numbers = itertools.count()


def run_id() -> str:
    """Return a run id that no other test uses."""
    return f"t{os.getpid()}-{next(_numbers)}-end"


def program(
    *argv: str,
    run: str | None = None,
    environment: Mapping[str, str] | None = None,
    descriptors: Mapping[int, int] | None = None,
    listeners: Mapping[int, Listener] | None = None,
    file_bytes_max: int | None = None,
) -> Command:
    """Return a command under a fresh run id."""
    return Command(
        argv=argv,
        environment={"PATH": "/usr/bin:/bin"} if environment is None else environment,
        run_id=run or run_id(),
        descriptors=descriptors or {},
        listeners=listeners or {},
        file_bytes_max=file_bytes_max,
    )


def shell(script: str, **more) -> Command:
    """Return a command that runs a few words of shell."""
    return program("/bin/sh", "-c", script, **more)


def python(script: str, *arguments: str, **more) -> Command:
    """Return a command that runs a few lines of Python."""
    return program(sys.executable, "-I", "-S", "-c", script, *arguments, **more)


class Heard:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.data = b""

    def __call__(self, data: bytes) -> None:
        self.data += data


def alive(run: str) -> list[int]:
    """Return the processes that carry a run id or a prefix of it ending in `-`, and are not dead."""
    found = []
    for pid in pids():
        try:
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        mark = f"VMAFX_RUN_ID={run}".encode()
        if any(e == mark or (run.endswith("-") and e.startswith(mark)) for e in entries):
            found.append(pid)
    return found


def pids() -> Iterator[int]:
    """Return the ids of all processes."""
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def state(pid: int) -> str:
    """Return the kernel's letter for the state of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][:1]
    except OSError:
        return ""


def gone(pid: int) -> bool:
    """Return whether a process ended, reaped or not."""
    return state(pid) in {"", "Z", "X"}


def children() -> set[int]:
    """Return the children of this process, the dead among them."""
    found = set()
    for pid in pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(pid)
    return found


def descriptors() -> dict[str, str]:
    """Return what this process has open."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found[path.name] = str(path.readlink())
    return found


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the body leaves neither a child nor a descriptor of this process behind.

    What is gone afterwards was another test's, which threads of gRPC, say, close when they come to it.
    """
    before = children(), descriptors().items()
    yield
    left = children() - before[0], descriptors().items() - before[1]
    assert not any(left), f"left: children and descriptors {left}"


def until(condition: Callable[[], bool]) -> None:
    """Return once a condition holds; for what another process does, which nothing tells us of."""
    end = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)
