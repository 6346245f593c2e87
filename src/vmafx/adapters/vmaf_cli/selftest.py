"""The proof that an executable can do what will be asked of it: existence is not ability (ADR 0003)."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from vmafx.adapters.vmaf_cli.capabilities import Capabilities, parse_usage, parse_version
from vmafx.adapters.vmaf_cli.faults import FAILED, last_words, machine_faults
from vmafx.adapters.vmaf_cli.lookup import Executable
from vmafx.adapters.vmaf_cli.models import ModelFile, open_model
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.run import PairRuns, Tool
from vmafx.adapters.vmaf_cli.selftest_cache import SelfTestCache, file_facts
from vmafx.adapters.vmaf_cli.unnamed import unnamed_file
from vmafx.domain.errors import (
    BackendMismatchError,
    ModelError,
    ScorerError,
    ScorerUnavailableError,
    VmafxError,
)
from vmafx.domain.process import Exit
from vmafx.domain.scoring import Backend, Clip, ClipDescriptor, ScoreRequest

__all__ = ["BACKEND_SETTING", "SELF_TEST_TIMEOUT_S", "ScorerInfo", "prove"]

BACKEND_SETTING: Final = "VMAFX_BACKEND"
MODEL_SETTING: Final = "VMAFX_DEFAULT_MODEL"
SELF_TEST_TIMEOUT_S: Final = 60.0
"""How long each step may take, in seconds; the first start of a graphics device takes many."""

_NOTHING_KNOWN: Final = Capabilities(version="", options=frozenset())
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
        _check_backend(Tool(executable=executable, capabilities=_NOTHING_KNOWN), options)
        try:
            return await _tried(executable, options, runs)
        except ScorerError as error:
            if not _ended_by_machine(error):
                raise
        return await _tried(executable, options, runs)


async def _tried(executable: Executable, options: ScorerOptions, runs: PairRuns) -> ScorerInfo:
    usage = await runs.ask(executable, timeout_s=SELF_TEST_TIMEOUT_S)
    version = await runs.ask(executable, "--version", timeout_s=SELF_TEST_TIMEOUT_S)
    capabilities = Capabilities(version=parse_version(version), options=parse_usage(usage))
    tool = Tool(executable=executable, capabilities=capabilities)
    _check_backend(tool, options)
    _check_flag(tool, options)
    with machine_faults("make the clips of the self-test"), _clips() as (reference, distorted):
        request = ScoreRequest(reference=reference, distorted=distorted, timeout_s=SELF_TEST_TIMEOUT_S)
        # How many frames a report tells is a matter between it and the clips of each job.
        scored = await runs.score(tool, request, any_length=True, progress=_nobody)
    return ScorerInfo(tool=tool, backend=options.backend, verified=scored.backend_used is not None)


def _check_backend(tool: Tool, options: ScorerOptions) -> None:
    if tool.is_engine and options.backend is not Backend.CPU:
        asked = options.backend.value
        raise ScorerUnavailableError(
            BACKEND_SETTING, f"the embedded engine runs cpu only; {asked} was asked for"
        )


def _check_flag(tool: Tool, options: ScorerOptions) -> None:
    if options.backend is not Backend.CPU and not tool.capabilities.has("backend"):
        raise ScorerUnavailableError(
            BACKEND_SETTING,
            f"{tool.executable} has no --backend option, so only cpu can be honoured; "
            f"{options.backend.value} was asked for",
        )


def _ended_by_machine(error: VmafxError) -> bool:
    """Whether the machine ended a process that had started (ADR 0010)."""
    return isinstance(error, ScorerError) and error.machine_fault and error.exit_status is not None


@contextmanager
def _unavailable(executable: Executable, options: ScorerOptions) -> Generator[None]:
    """Say of each failure which setting decides it, in one line.

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
        by_machine = _ended_by_machine(error)
        of_backend = options.backend is not Backend.CPU and not by_machine
        status = error.exit_status if isinstance(error, ScorerError) else None
        failed = "failed its self-test twice" if by_machine else "failed its self-test"
        raise ScorerUnavailableError(
            BACKEND_SETTING if of_backend else executable.setting,
            f"{_cause(error, executable)}; {executable} ({executable.why}) {failed} on backend "
            f"{options.backend.value} with model {options.default_model}",
            exit_status=status,
        ) from error


def _cause(error: VmafxError, executable: Executable) -> str:
    """The cause of a failed self-test in one line; what the executable said comes before how it ended."""
    first = str(error).split("\n", 1)[0]
    words = last_words(error.stderr) if isinstance(error, ScorerError) else ""
    if isinstance(error, ScorerError) and error.exit_status is not None and error.exit_status < 0:
        how = Exit(status=error.exit_status)
        ended = "was killed" if how.machine_fault else "crashed"
        return f"{executable} {ended} ({how.words})" + (f": {words}" if words else "")
    if words and first.startswith(FAILED):
        return f"{words} ({first.removeprefix(FAILED)})"
    return f"{first} ({words})" if words and words not in first else first


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
