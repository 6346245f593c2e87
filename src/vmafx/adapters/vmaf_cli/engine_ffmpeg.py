"""Where the embedded engine and its FFmpeg are (ADR 0009).

The FFmpeg is the one file in the wheel of imageio-ffmpeg. It is found without importing that package, which
costs more than everything else the engine does, and no environment variable can put another in its place.
Only folders of installed packages are looked at, never the working directory.
"""

# pathlib would double the start-up time; subprocess is for the version only.
# ruff: noqa: PLC0415, PTH100, PTH118, PTH119, PTH120, PTH208

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from vmafx.domain.errors import ScorerUnavailableError
from vmafx.domain.text import printable

__all__ = ["SETTING", "Engine", "check_libvmaf", "ffmpeg_path", "find_engine"]

SETTING: Final = "VMAFX_VMAF_BINARY"
"""What names another scorer where the engine cannot be used."""

_PREFIXES: Final = ("ffmpeg-linux", "ffmpeg-macos")
_FOLDER: Final = ("imageio_ffmpeg", "binaries")
_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_PACKAGE: Final = os.path.dirname(os.path.dirname(_HERE))
_DOMAIN_FILES: Final = ("errors.py", "text.py", "y4m.py")
_PROBE_TIMEOUT_S: Final = 30.0


class Engine(NamedTuple):
    """An embedded engine that is installed.

    Attributes:
        argv: The program and the arguments that come before those of a run.
        files: The files that, together, are the engine; a change of one makes it another.
    """

    argv: tuple[str, ...]
    files: tuple[str, ...]


def find_engine() -> Engine | str:
    """Return the embedded engine, or in words why there is none.

    That its FFmpeg has libvmaf is not asked here, since that takes a process: a self-test shows it, and the
    engine's `--version` fails and says so.
    """
    if not sys.executable:
        return "this Python does not know its own path"
    try:
        ffmpeg = ffmpeg_path()
    except ScorerUnavailableError as error:
        return error.problem
    return Engine(
        argv=(sys.executable, "-I", "-S", os.path.join(_HERE, "engine.py")),
        files=(ffmpeg, *_own_files()),
    )


def ffmpeg_path() -> str:
    """Return the absolute path of the FFmpeg in the wheel of imageio-ffmpeg.

    Raises:
        ScorerUnavailableError: The wheel is not installed or brings no FFmpeg that can run here.
    """
    for folder in _package_folders():
        binaries = os.path.join(folder, *_FOLDER)
        try:
            names = [name for name in os.listdir(binaries) if name.startswith(_PREFIXES)]
        except OSError:
            continue
        return _only_one(binaries, names)
    raise ScorerUnavailableError(
        SETTING, "the embedded engine is not installed (pip install 'vmafx[engine]' brings it)"
    )


def check_libvmaf(ffmpeg: str) -> None:
    """Check that an FFmpeg has libvmaf, by asking it.

    Raises:
        ScorerUnavailableError: It has not, or it cannot be run.
    """
    import subprocess

    command = [ffmpeg, "-hide_banner", "-h", "filter=libvmaf"]
    try:
        told = subprocess.run(  # noqa: S603 - the program comes from the installed wheel
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ScorerUnavailableError(SETTING, f"{printable(ffmpeg)} cannot be run: {error}") from error
    if b"Filter libvmaf" not in told.stdout:
        raise ScorerUnavailableError(
            SETTING,
            f"the FFmpeg of this imageio-ffmpeg wheel has no libvmaf ({os.path.basename(ffmpeg)}): "
            f"set {SETTING} to a vmaf executable",
        )


def _only_one(binaries: str, names: list[str]) -> str:
    if len(names) != 1:
        found = ", ".join(sorted(names)) or "none"
        raise ScorerUnavailableError(
            SETTING, f"one FFmpeg is expected in {printable(binaries)}: found {found}"
        )
    path = os.path.join(binaries, names[0])
    if not os.access(path, os.X_OK):
        raise ScorerUnavailableError(SETTING, f"{printable(path)} is not executable")
    return path


def _package_folders() -> Iterator[str]:
    """Yield the folders that installed packages may be in: beside vmafx first, then those of this Python.

    `python -S` knows neither the virtual environment nor its folders, so both are worked out here.
    """
    yield os.path.dirname(_PACKAGE)
    prefixes = [sys.prefix, sys.exec_prefix]
    home = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
    if os.access(os.path.join(home, "pyvenv.cfg"), os.R_OK):
        prefixes = [home, *([] if _is_isolated(home) else prefixes)]
    yield from site.getsitepackages(prefixes)


def _is_isolated(home: str) -> bool:
    with open(os.path.join(home, "pyvenv.cfg"), "rb") as config:  # noqa: PTH123 - as above
        text = config.read().lower().replace(b" ", b"")
    return b"include-system-site-packages=true" not in text


def _own_files() -> Iterator[str]:
    names = sorted(name for name in os.listdir(_HERE) if name.startswith("engine") and name.endswith(".py"))
    yield from (os.path.join(_HERE, name) for name in names)
    yield from (os.path.join(_PACKAGE, "domain", name) for name in _DOMAIN_FILES)
