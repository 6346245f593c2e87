"""Runs the installed `vmafx` program as a user would."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from vmafx.app.cli.main import run

__all__ = ["HANG_S", "VMAFX", "Program", "alive", "eventually", "processes_about", "processes_with"]

VMAFX: Final = Path(sys.executable).parent / "vmafx"
HANG_S: Final = 60.0
"""After this many seconds a program counts as hanging."""


class Program:
    """`vmafx` in a folder of its own, with a small environment of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(cache),
            "TMPDIR": str(self.temporary),
        }

    def run(self, *arguments: str | bytes, **options: object) -> subprocess.CompletedProcess[str]:
        """Run to the end; `env` adds to the environment."""
        with self.start(*arguments, **options) as process:
            out, err = process.communicate(timeout=HANG_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(
        self, *arguments: str | bytes, env: Mapping[str, str] | None = None, **options: object
    ) -> subprocess.Popen[str]:
        """Start in the folder, with output in pipes unless told otherwise."""
        command: Sequence[str | bytes] = [str(VMAFX), *arguments]
        return subprocess.Popen(
            command,
            env=self.environment | dict(env or {}),
            text=True,
            **{  # type: ignore[call-overload]
                "cwd": self.folder,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "errors": "backslashreplace",
                **options,
            },
        )

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the program's `run` in this process: the same code, without the time that a start takes.

        The working directory, and what becomes of the answer and the messages, are those of this process.
        """
        with contextlib.chdir(self.folder), pytest.MonkeyPatch.context() as patch:
            out, err = io.StringIO(), io.StringIO()
            patch.setattr("vmafx.adapters.processes.become_subreaper", lambda: True)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(arguments, self.environment | environment, platform="linux")
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def write(self, name: str, data: bytes) -> str:
        """Write a file into the folder and return its name."""
        Path(self.folder, name).write_bytes(data)
        return name

    def leftovers(self) -> list[str]:
        """What is in the folder for temporary files."""
        return sorted(path.name for path in self.temporary.iterdir())


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] not in {"Z", "X"}


def processes_with(temporary: Path) -> list[int]:
    """The processes that have a folder for temporary files, dead ones not counted."""
    mark = f"TMPDIR={temporary}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            marked = mark in path.read_bytes().split(b"\0")
        except OSError:  # gone meanwhile
            continue
        if marked and alive(int(path.parent.name)):
            found.append(int(path.parent.name))
    return found


def processes_about(path: Path) -> list[str]:
    """The command lines of all processes that name a path."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes()
        except OSError:  # gone meanwhile
            continue
        if bytes(path) in words:
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def eventually(condition: Callable[[], bool], *, what: str) -> None:
    """Return once the condition holds; a test that waits for too long fails."""
    end = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < end, f"still not so: {what}"
        time.sleep(0.01)
