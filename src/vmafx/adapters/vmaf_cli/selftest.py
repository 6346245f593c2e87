"""The proof that an executable can do what will be asked of it: existence is not ability (ADR 0003)."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from vmafx.adapters.vmaf_cli.capabilities import Capabilities, parse_usage, parse_version
from vmafx.adapters.vmaf_cli.faults import machine_faults
from vmafx.adapters.vmaf_cli.lookup import Executable
from vmafx.adapters.vmaf_cli.models import ModelFile, open_model
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.run import PairRuns, Tool
from vmafx.adapters.vmaf_cli.selftest_cache import SelfTestCache, file_facts
from vmafx.adapters.vmaf_cli.unnamed import unnamed_file
from vmafx.domain.errors import (
    BackendMismatchError,
    ModelError,
    ScorerUnavailableError,
    VmafxError,
)
from vmafx.domain.scoring import Backend, Clip, ClipDescriptor, ScoreRequest

__all__ = ["BACKEND_SETTING", "SELF_TEST_TIMEOUT_S", "ScorerInfo", "prove"]

BACKEND_SETTING: Final = "VMAFX_BACKEND"
MODEL_SETTING: Final = "VMAFX_DEFAULT_MODEL"
SELF_TEST_TIMEOUT_S: Final = 60.0
"""How long each step may take, in seconds; the first start of a graphics device takes many."""

_WIDTH: Final = 176
_HEIGHT: Final = 144
_FRAMES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerInfo:
    """A scorer that was proven to work.

    Attributes:
        tool: The executable and what it knows.
        backend: What it runs on.
        verified: Whether it gave a receipt for the backend; where not, the backend is `cpu`, or the operator
            vouches for it.
        remembered: Whether the proof is that of an earlier start.
    """

    tool: Tool
    backend: Backend
    verified: bool
    remembered: bool = False

    @property
    def executable(self) -> str:
        """The program, with the arguments that come before those of a run."""
        return str(self.tool.executable)

    @property
    def why(self) -> str:
        """Why it was chosen, in words."""
        return self.tool.executable.why

    @property
    def version(self) -> str:
        """The version in its own words; empty when it gave none."""
        return self.tool.capabilities.version


async def prove(executable: Executable, options: ScorerOptions, runs: PairRuns) -> ScorerInfo:
    """Prove that an executable scores with the options that requests will use, or remember that it did.

    Args:
        executable: What to prove.
        options: How to score.
        runs: Runs it.

    Raises:
        ScorerUnavailableError: It does not; names the setting that decides it.
    """
    cache = SelfTestCache(directory=options.cache_dir) if options.cache_dir else None
    facts = _facts(executable, options) if cache else None
    if cache and facts and (remembered := cache.load(facts)):
        tool = Tool(executable=executable, capabilities=remembered)
        return ScorerInfo(tool=tool, backend=options.backend, verified=False, remembered=True)
    info = await _prove(executable, options, runs)
    if cache and facts:
        cache.store(facts, info.tool.capabilities)
    return info


async def _prove(executable: Executable, options: ScorerOptions, runs: PairRuns) -> ScorerInfo:
    with _unavailable(executable, options):
        usage = await runs.ask(executable, timeout_s=SELF_TEST_TIMEOUT_S)
        version = await runs.ask(executable, "--version", timeout_s=SELF_TEST_TIMEOUT_S)
        capabilities = Capabilities(version=parse_version(version), options=parse_usage(usage))
        _check_flag(capabilities, executable, options)
        tool = Tool(executable=executable, capabilities=capabilities)
        with machine_faults("make the clips of the self-test"), _clips() as (reference, distorted):
            request = ScoreRequest(reference=reference, distorted=distorted, timeout_s=SELF_TEST_TIMEOUT_S)
            # How many frames a report tells is a matter between it and the clips of each job.
            scored = await runs.score(tool, request, any_length=True, progress=_nobody)
        return ScorerInfo(tool=tool, backend=options.backend, verified=scored.backend_used is not None)


def _check_flag(capabilities: Capabilities, executable: Executable, options: ScorerOptions) -> None:
    if options.backend is not Backend.CPU and not capabilities.has("backend"):
        raise ScorerUnavailableError(
            BACKEND_SETTING,
            f"{options.backend.value} was asked for, but {executable} has no --backend option: "
            "nothing but cpu can be honoured",
        )


@contextmanager
def _unavailable(executable: Executable, options: ScorerOptions) -> Generator[None]:
    """Say of each failure which setting decides it.

    Yields:
        Nothing; the body runs.

    Raises:
        ScorerUnavailableError: Something failed.
    """
    try:
        yield
    except ScorerUnavailableError:
        raise
    except ModelError as error:
        raise ScorerUnavailableError(MODEL_SETTING, str(error)) from error
    except BackendMismatchError as error:
        raise ScorerUnavailableError(BACKEND_SETTING, f"{executable}: {error}") from error
    except VmafxError as error:
        setting = executable.setting if options.backend is Backend.CPU else BACKEND_SETTING
        raise ScorerUnavailableError(
            setting,
            f"{executable} ({executable.why}) fails its self-test on backend {options.backend.value} "
            f"with model {options.default_model}: {error}",
        ) from error


def _facts(executable: Executable, options: ScorerOptions) -> dict[str, object] | None:
    """Return everything that a remembered proof depends on; None when it must not be remembered."""
    if options.backend is not Backend.CPU:
        return None
    try:
        model = open_model(options.default_model, options.model_dir)
    except VmafxError:
        return None
    files = [*executable.files]
    if isinstance(model, ModelFile):
        os.close(model.descriptor)
        files.append(model.path)
    facts = file_facts(files)
    if facts is None:
        return None
    machine = os.uname()
    return {
        "argv": list(executable.argv),
        "files": facts,
        "machine": [machine.nodename, machine.machine, machine.release],
        "model": model.name,
        "options": [options.backend.value, options.backend_unverified, options.score_threads],
    }


@contextmanager
def _clips() -> Generator[tuple[Clip, Clip]]:
    """Make the built-in pair, of which nothing is ever on disk.

    Yields:
        The reference and the distorted clip.
    """
    with ExitStack() as resources:
        clips: list[Clip] = []
        for name, coarse in (("built-in reference", False), ("built-in distorted", True)):
            descriptor = unnamed_file("vmafx-self-test", _clip(coarse=coarse))
            resources.callback(os.close, descriptor)
            clips.append(ClipDescriptor(descriptor=descriptor, name=name, path=f"<{name}>"))
        yield clips[0], clips[1]


def _clip(*, coarse: bool) -> bytes:
    """Return a moving gradient in Y4M, or a coarser version of it."""
    step = 16 if coarse else 1
    wave = bytes((value // step * step) % 256 for value in range(_WIDTH + _HEIGHT + _FRAMES))
    chroma = bytes([128]) * (_WIDTH * _HEIGHT // 2)
    frames = (
        b"FRAME\n" + b"".join(wave[y + n : y + n + _WIDTH] for y in range(_HEIGHT)) + chroma
        for n in range(_FRAMES)
    )
    return f"YUV4MPEG2 W{_WIDTH} H{_HEIGHT} F25:1 Ip A1:1 C420\n".encode() + b"".join(frames)


def _nobody(frames_done: int, frames_total: int) -> None:
    """Hear of progress, so that the option for it is part of the proof."""
