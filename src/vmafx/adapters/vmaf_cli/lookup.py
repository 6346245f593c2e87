"""Which executable scores on this machine, and why that one (ADR 0003)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from vmafx.adapters.vmaf_cli.engine_ffmpeg import Engine
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.domain.errors import ScorerUnavailableError
from vmafx.domain.text import quoted

__all__ = ["BINARY_SETTING", "LAST_PATH", "EngineFinder", "Executable", "find_executable"]

BINARY_SETTING: Final = "VMAFX_VMAF_BINARY"
LAST_PATH: Final = "/usr/local/bin/vmaf"
"""Looked at after the search path."""
_PROGRAM: Final = "vmaf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A program that is to speak the `vmaf` command line.

    Attributes:
        argv: The program and the arguments that come before those of a run.
        files: The files that, together, are the program; a change of one makes it another program.
        setting: The setting that errors about it name.
        why: Why it was chosen, in words.
        engine: Whether it is the embedded engine.
    """

    argv: tuple[str, ...]
    files: tuple[str, ...]
    setting: str
    why: str
    engine: bool = False

    def __str__(self) -> str:
        return " ".join(self.argv)


EngineFinder: TypeAlias = Callable[[], Engine | str]
"""Finds the embedded engine, or says in words why there is none."""


def find_executable(
    options: ScorerOptions, *, find_engine: EngineFinder, last_path: str = LAST_PATH
) -> Executable:
    """Return the executable to score with.

    The order is `VMAFX_VMAF_BINARY`, `VMAF_BIN`, `vmaf` on the search path, `last_path`, the embedded engine.
    A setting that names no usable executable is an error, never a reason to look further. Nothing is ever
    found relative to the working directory.

    Args:
        options: Where to look.
        find_engine: Finds the embedded engine.
        last_path: Looked at after the search path.

    Raises:
        ScorerUnavailableError: A setting names no usable executable, or there is none to be found.
    """
    for setting, path in ((BINARY_SETTING, options.vmaf_binary), ("VMAF_BIN", options.vmaf_bin)):
        if path is not None:
            return _named(setting, path)
    for path in _on_search_path(options.search_path):
        if _unusable(path) is None:
            return _found(path, "the first vmaf on PATH")
    if _unusable(last_path) is None:
        return _found(last_path, f"{last_path} is there, no vmaf is on PATH")
    engine = find_engine()
    if isinstance(engine, str):
        raise ScorerUnavailableError(
            BINARY_SETTING,
            f"no vmaf executable: it is not set, VMAF_BIN is not set, no vmaf is on PATH or at {last_path}, "
            f"and the embedded engine is not available: {engine}",
        )
    why = f"the embedded engine; no vmaf is on PATH or at {last_path}"
    return Executable(argv=engine.argv, files=engine.files, setting=BINARY_SETTING, why=why, engine=True)


def _named(setting: str, path: str) -> Executable:
    reason = "not an absolute path" if not path.startswith("/") else _unusable(path)
    if reason is not None:
        raise ScorerUnavailableError(
            setting, f"libvmaf: vmaf binary not accessible at {quoted(path)}: {reason}"
        )
    return Executable(argv=(path,), files=(path,), setting=setting, why=f"{setting} names it")


def _found(path: str, why: str) -> Executable:
    return Executable(argv=(path,), files=(path,), setting=BINARY_SETTING, why=why)


def _on_search_path(search_path: str) -> Iterator[str]:
    for entry in search_path.split(":"):
        if entry.startswith("/"):  # an empty or relative entry means the working directory
            yield f"{entry.rstrip('/')}/{_PROGRAM}"


def _unusable(path: str) -> str | None:
    """Return why the path cannot be executed; None when it can."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        return error.strerror or str(error) if isinstance(error, OSError) else "not a path"
    if stat.S_ISDIR(mode):
        return "a directory"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return None if os.access(path, os.X_OK) else "not executable"
