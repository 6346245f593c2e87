"""The wiring of a scorer: plain functions, since `vmafx score` must start fast (ADR 0001)."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from vmafx.app.container.platform import available_processors, platform_problem
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import ScorerUnavailableError

if TYPE_CHECKING:
    from vmafx.adapters.vmaf_cli.options import ScorerOptions
    from vmafx.adapters.vmaf_cli.scorer import CliScorer
    from vmafx.ports.scorer import Scorer

__all__ = ["cli_scorer", "ffmpeg_path", "open_program_scorer", "open_scorer", "scorer_options"]


@asynccontextmanager
async def open_scorer(settings: ScorerSettings | None = None) -> AsyncGenerator[Scorer]:
    """Open a scorer for the running event loop; it is proven to work before the body runs (ADR 0003).

    Must be entered on the event loop's own thread, which then starts the scorer's processes: they die with
    that thread, so that none outlives the process.

    Args:
        settings: How to score; None reads them from the environment of this process.

    Yields:
        The scorer.

    Raises:
        ConfigurationError: A setting in the environment cannot be understood.
        ScorerUnavailableError: Nothing on this machine can score as the settings ask; names the setting.
    """
    environment = dict(os.environ)
    if settings is None:
        settings = ScorerSettings.from_environment(environment)
    scorer = cli_scorer(settings, environment)
    await scorer.self_test()
    yield scorer


@asynccontextmanager
async def open_program_scorer(
    settings: ScorerSettings, environment: Mapping[str, str]
) -> AsyncGenerator[Scorer]:
    """Open a scorer for a program of ours, which then also reaps what a run leaves behind (ADR 0007).

    The scorer proves itself with its first run.

    Args:
        settings: How to score.
        environment: The environment of this process.

    Yields:
        The scorer.
    """
    from vmafx.adapters.processes import become_subreaper  # noqa: PLC0415 - not on every platform

    become_subreaper()
    yield cli_scorer(settings, environment)


def cli_scorer(settings: ScorerSettings, environment: Mapping[str, str]) -> CliScorer:
    """Return a scorer for the running event loop; nothing is started yet.

    Args:
        settings: How to score.
        environment: The environment of this process.

    Raises:
        ScorerUnavailableError: The platform is not supported.
    """
    problem = platform_problem(str(sys.platform))
    if problem is not None:
        raise ScorerUnavailableError("platform", problem)
    from vmafx.adapters.clock.system import SystemClock  # noqa: PLC0415 - not on every platform
    from vmafx.adapters.processes import PosixProcesses  # noqa: PLC0415 - the same
    from vmafx.adapters.vmaf_cli.scorer import CliScorer  # noqa: PLC0415 - the same

    clock = SystemClock()
    return CliScorer(
        scorer_options(settings, environment),
        processes=PosixProcesses(clock),
        clock=clock,
        new_run_id=lambda: os.urandom(16).hex(),
    )


def scorer_options(settings: ScorerSettings, environment: Mapping[str, str]) -> ScorerOptions:
    """Return the settings as the scorer takes them.

    Args:
        settings: How to score.
        environment: The environment of this process.
    """
    from vmafx.adapters.vmaf_cli.options import ScorerOptions  # noqa: PLC0415 - not on every platform

    return ScorerOptions(
        vmaf_binary=settings.vmaf_binary,
        vmaf_bin=settings.vmaf_bin,
        search_path=settings.search_path,
        model_dir=settings.model_dir,
        default_model=settings.default_model,
        backend=settings.backend,
        backend_unverified=settings.backend_unverified,
        length_mismatch=settings.length_mismatch,
        score_timeout_s=settings.timeout_s,
        score_threads=settings.threads or available_processors(),
        cache_dir=settings.cache_dir,
        environment=environment,
    )


def ffmpeg_path(environment: Mapping[str, str]) -> str:
    """Return how a command line names FFmpeg here: by its name, else by the path of the embedded engine's.

    Args:
        environment: The environment of this process.
    """
    from vmafx.adapters.vmaf_cli import engine_ffmpeg  # noqa: PLC0415 - needed for a hint only

    if shutil.which("ffmpeg", path=environment.get("PATH", "")) is None:
        with contextlib.suppress(ScorerUnavailableError):
            return engine_ffmpeg.ffmpeg_path()
    return "ffmpeg"
