"""What `vmafx doctor` says of the scorer: its proof, its backends, its models, and what would mend each."""

from __future__ import annotations

import dataclasses
import itertools
import os
import platform
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.vmaf_cli.engine_ffmpeg import find_engine
from vmafx.adapters.vmaf_cli.lookup import Executable, find_executable
from vmafx.adapters.vmaf_cli.models import ModelFile, open_model
from vmafx.adapters.vmaf_cli.selftest import ScorerInfo
from vmafx.app.container.checkup import Check
from vmafx.app.container.score import cli_scorer, scorer_options
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import ModelError, ScorerUnavailableError
from vmafx.domain.scoring import Backend, model_name_problem

__all__ = ["models_check", "scorer_checks"]

PROBE_TIMEOUT_S: Final = 60.0
"""How long the proof of one backend may take, in seconds; the first start of a graphics device takes many."""
MODELS_SHOWN_MAX: Final = 50
MODEL_FILES_MAX: Final = 200
"""How many files of the model directory are looked into."""


async def scorer_checks(settings: ScorerSettings, environment: Mapping[str, str]) -> tuple[Check, Check]:
    """Look for the scorer, and prove it on every backend.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    proof = await _proof(settings, environment)
    if isinstance(proof, ScorerInfo):
        scorer = _working(proof, settings)
    else:
        scorer = Check(
            name="scorer",
            ok=False,
            needed=True,
            found=_one_line(str(proof)),
            advice=_advice(proof, settings, environment),
        )
    if isinstance(proof, ScorerUnavailableError) and proof.setting != "VMAFX_BACKEND":
        found, advice = "not tested: the scorer does not work", "make the scorer work first"
        return scorer, Check(name="backends", ok=False, needed=False, found=found, advice=advice)
    return scorer, await _backends(settings, environment, proof, advice=scorer.advice)


async def _proof(
    settings: ScorerSettings, environment: Mapping[str, str]
) -> ScorerInfo | ScorerUnavailableError:
    scorer = cli_scorer(dataclasses.replace(settings, cache_dir=None), environment)
    try:
        async with SystemClock().timeout(PROBE_TIMEOUT_S):
            await scorer.self_test()
    except TimeoutError:
        setting = "VMAFX_VMAF_BINARY" if settings.backend is Backend.CPU else "VMAFX_BACKEND"
        return ScorerUnavailableError(setting, f"no answer to the self-test within {PROBE_TIMEOUT_S:g} s")
    except ScorerUnavailableError as error:
        return error
    return scorer.info or ScorerUnavailableError("VMAFX_VMAF_BINARY", "not proven")


def _working(info: ScorerInfo, settings: ScorerSettings) -> Check:
    executable, version = info.tool.executable, info.version or "no version told"
    name = "embedded engine" if executable.engine else str(executable)
    why = executable.why.removeprefix("the embedded engine; ")
    found = f"{name} ({version}); {why}; scores with {settings.default_model}"
    return Check(name="scorer", ok=True, needed=True, found=found, command=executable.argv)


# ---------------------------------------------------------------- what would mend a scorer


def _advice(error: ScorerUnavailableError, settings: ScorerSettings, environment: Mapping[str, str]) -> str:
    match error.setting:
        case "VMAFX_DEFAULT_MODEL":
            return (
                "correct VMAFX_DEFAULT_MODEL: a model of VMAFX_MODEL_DIR, or one that the scorer has built in"
            )
        case "VMAFX_MODEL_DIR":
            return "correct VMAFX_MODEL_DIR: a directory of model files; or unset it"
        case "VMAFX_BACKEND":
            backend = settings.backend.value
            return f"correct or unset VMAFX_BACKEND, or name a vmaf that runs {backend} in VMAFX_VMAF_BINARY"
        case _:
            return _scorer_advice(error, settings, environment)


def _scorer_advice(
    error: ScorerUnavailableError, settings: ScorerSettings, environment: Mapping[str, str]
) -> str:
    named = settings.vmaf_binary or settings.vmaf_bin
    setting = "VMAF_BIN" if settings.vmaf_bin and not settings.vmaf_binary else "VMAFX_VMAF_BINARY"
    executable = _executable(settings, environment)
    if executable is None:
        return _install_advice() if named is None else f"correct {setting}: an executable vmaf; or unset it"
    other = f"name another vmaf in {setting}" + ("" if named is None else ", or unset it")
    if executable.engine:
        other = f"install the engine again (pip install --force-reinstall 'vmafx[engine]'), or {other}"
    how = _signal_words(error.exit_status)
    return f"{how}; if it stays so, {other}" if how else other


def _executable(settings: ScorerSettings, environment: Mapping[str, str]) -> Executable | None:
    try:
        return find_executable(scorer_options(settings, environment), find_engine=find_engine)
    except ScorerUnavailableError:
        return None


def _install_advice() -> str:
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return "pip install 'vmafx[engine]', or install a vmaf and name it in VMAFX_VMAF_BINARY"
    return "install a vmaf (macOS: brew install libvmaf) and name it in VMAFX_VMAF_BINARY"


def _signal_words(exit_status: int | None) -> str:
    if exit_status is None or exit_status >= 0:
        return ""
    try:
        name = signal.Signals(-exit_status).name
    except ValueError:
        name = f"signal {-exit_status}"
    return f"the scorer was ended by {name}{_SIGNAL_HINTS.get(name, '')}"


_SIGNAL_HINTS: Final = {
    "SIGKILL": ": the machine or the container may have too little memory",
    "SIGILL": ": it may be built for another processor",
}


# ---------------------------------------------------------------- backends


async def _backends(
    settings: ScorerSettings,
    environment: Mapping[str, str],
    proof: ScorerInfo | ScorerUnavailableError,
    *,
    advice: str | None,
) -> Check:
    """Prove every other backend than the configured one, of which the proof is there."""
    here: list[str] = []
    others: list[str] = []
    for backend in Backend:
        asked = dataclasses.replace(settings, backend=backend, backend_unverified=False)
        known = proof if backend is settings.backend else await _proof(asked, environment)
        if not isinstance(known, ScorerInfo):
            others.append(backend.value)
        elif backend is Backend.CPU or known.verified:
            here.append(backend.value)
        else:
            here.append(f"{backend.value} (not verified)")
    found = f"{', '.join(here) or 'none'}; not here: {', '.join(others) or 'none'}"
    works = isinstance(proof, ScorerInfo)
    return Check(name="backends", ok=works, needed=False, found=found, advice=None if works else advice)


# ---------------------------------------------------------------- models


def models_check(settings: ScorerSettings) -> Check:
    """Look at the directory of model files; only those that a name can choose are listed.

    Args:
        settings: How to score.
    """
    folder = settings.model_dir
    if folder is None:
        found = "VMAFX_MODEL_DIR is unset: the models that the scorer has built in"
        return Check(name="models", ok=True, needed=False, found=found)
    try:
        files = list(itertools.islice(_model_files(folder), MODEL_FILES_MAX))
    except OSError as error:
        names, problem = [], error.strerror or "cannot be read"
    else:
        names = sorted({stem for stem, path in files if _is_usable(stem, path, folder)})
        problem = "no usable model file (.json) in it" if files else "no model file (.json) in it"
    shown = ", ".join(names[:MODELS_SHOWN_MAX]) or problem
    more = f" and {len(names) - MODELS_SHOWN_MAX} more" if len(names) > MODELS_SHOWN_MAX else ""
    advice = None if names else "correct VMAFX_MODEL_DIR: a directory of model files; or unset it"
    found = f"{folder}: {shown}{more}"
    return Check(name="models", ok=bool(names), needed=False, found=found, advice=advice)


def _model_files(folder: str) -> Iterator[tuple[str, str]]:
    """Walk through the directory and the folders in it.

    Yields:
        The stem and the path of each file that is named like a model file.
    """
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".json"):
                yield entry.name.removesuffix(".json"), entry.path
            elif entry.is_dir():
                for path in sorted(Path(entry.path).glob("*.json")):
                    yield path.name.removesuffix(".json"), str(path)


def _is_usable(name: str, path: str, folder: str) -> bool:
    """Whether the name chooses this very file, and the file is good."""
    if model_name_problem(name) is not None:
        return False
    try:
        model = open_model(name, folder)
    except (ModelError, ScorerUnavailableError):
        return False
    if not isinstance(model, ModelFile):
        return False
    os.close(model.descriptor)
    return model.path == os.path.realpath(path)


def _one_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "; ".join(line for line in lines if line not in {"", "stderr:"})
