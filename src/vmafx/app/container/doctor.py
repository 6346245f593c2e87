"""What this machine can do: every probe is bounded in time and changes nothing."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import PosixProcesses
from vmafx.adapters.processes.launch import TOOL_FOLDERS, find_tools
from vmafx.app.container.checkup import Check, Checkup
from vmafx.app.container.fuse import DEVICE, fuse_helper, fuse_problem
from vmafx.app.container.platform import available_processors
from vmafx.app.container.scorer_checks import models_check, scorer_checks
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import VmafxError
from vmafx.domain.process import Command
from vmafx.domain.text import bounded, printable, quoted

__all__ = ["examine", "machine_checks"]

PROGRAM_TIMEOUT_S: Final = 10.0
"""How long a program may take to tell its version, in seconds."""
RCLONE_NEEDED: Final = (1, 71)
"""The first rclone that tells on which port it serves."""
_RCLONE_SETTING: Final = "VMAFX_RCLONE_BIN"


async def examine(settings: ScorerSettings, environment: Mapping[str, str]) -> Checkup:
    """Look at everything that scoring needs, and at what remote clips and mounts will need.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    scorer = await scorer_checks(settings, environment)
    return Checkup(checks=(*scorer, *await machine_checks(settings, environment)))


async def machine_checks(settings: ScorerSettings, environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Look at everything but the scorer.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    parts = (_platform(), models_check(settings), _threads(settings), _launcher())
    return (*parts, await _rclone(environment), _fuse(environment))


# ---------------------------------------------------------------- what scoring needs


def _platform() -> Check:
    system, machine = platform.system(), platform.machine()
    found = f"{system} {machine}, Python {platform.python_version()}"
    match system, machine:
        case "Linux", "x86_64":
            note = "complete"
        case "Linux", _:
            note = "complete with a vmaf of your own: the embedded engine is for x86-64"
        case "Darwin", _:
            note = "the library and vmafx score, with a vmaf of your own"
        case _:
            note = "not tested"
    return Check(name="platform", ok=True, needed=False, found=f"{found}: {note}")


def _threads(settings: ScorerSettings) -> Check:
    if settings.threads is not None:
        found = f"{settings.threads} (VMAFX_SCORE_THREADS)"
    else:
        found = f"{available_processors()} (the processors that this process may use)"
    return Check(name="threads", ok=True, needed=False, found=found)


def _launcher() -> Check:
    if sys.platform != "linux":
        return Check(name="setpriv", ok=True, needed=False, found="not used on this platform")
    tools = find_tools(TOOL_FOLDERS)
    if tools is not None:
        return Check(name="setpriv", ok=True, needed=False, found=tools.setpriv)
    return Check(
        name="setpriv",
        ok=False,
        needed=False,
        found="missing: scorers start the slower way, 10 ms later",
        advice="install util-linux",
    )


# ---------------------------------------------------------------- what remote clips and mounts will need


async def _rclone(environment: Mapping[str, str]) -> Check:
    named = environment.get(_RCLONE_SETTING, "").strip()
    wanted = ".".join(map(str, RCLONE_NEEDED))
    advice = f"pip install 'vmafx[rclone]', or install rclone {wanted} or later"
    if named:
        advice = f"correct {_RCLONE_SETTING}: an rclone {wanted} or later; or unset it"
    path = _find_rclone(named or "rclone", environment)
    if path is None:
        found = f"{_RCLONE_SETTING}={quoted(named)} names no executable" if named else "missing"
        return Check(name="rclone", ok=False, needed=False, found=found, advice=advice)
    told = await _told_version(path, environment)
    match = re.search(r"rclone v(\d+)\.(\d+)[^\s]*", told)
    if match is None:
        words = " ".join(told.split())
        found = f"{path}: tells no version: {bounded(printable(words), 200) or 'nothing'}"
        return Check(name="rclone", ok=False, needed=False, found=found, advice=advice)
    ok = (int(match[1]), int(match[2])) >= RCLONE_NEEDED
    found = f"{path} ({match[0]}){'' if ok else f', older than {wanted}: it cannot serve clips over HTTP'}"
    return Check(name="rclone", ok=ok, needed=False, found=found, advice=None if ok else advice)


def _find_rclone(named: str, environment: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program: of the name itself, else beside Python, else on PATH."""
    folders = [str(Path(sys.executable).parent), *environment.get("PATH", "").split(os.pathsep)]
    absolute = os.pathsep.join(folder for folder in folders if folder.startswith("/"))
    found = shutil.which(named, path=absolute)
    return found if found is not None and found.startswith("/") else None


async def _told_version(path: str, environment: Mapping[str, str]) -> str:
    clock = SystemClock()
    command = Command(
        argv=("/bin/sh", "-c", 'exec "$0" version --config "" 1>&2', path),
        environment={name: environment[name] for name in ("HOME", "PATH") if name in environment},
        run_id=secrets.token_hex(16),
    )
    try:
        async with clock.timeout(PROGRAM_TIMEOUT_S), PosixProcesses(clock).running(command) as child:
            return (await child.wait()).stderr.decode(errors="replace")
    except TimeoutError:
        return f"no answer within {PROGRAM_TIMEOUT_S:g} s"
    except VmafxError as error:
        return str(error)


def _fuse(environment: Mapping[str, str]) -> Check:
    advice = "for mounts only: install fuse3; in a container also --device /dev/fuse --cap-add SYS_ADMIN"
    if sys.platform != "linux":
        return Check(name="fuse", ok=True, needed=False, found="mounts are for Linux")
    problem = fuse_problem(environment)
    if problem is not None:
        return Check(name="fuse", ok=False, needed=False, found=problem, advice=advice)
    return Check(name="fuse", ok=True, needed=False, found=f"{DEVICE}, {fuse_helper(environment)}")
