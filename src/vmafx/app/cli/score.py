"""`vmafx score`: one pair of clips to one answer."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import stat
import sys
from collections.abc import Mapping

from vmafx.app.cli.answer import as_json, as_table
from vmafx.app.cli.arguments import ScoreArguments
from vmafx.app.cli.convert import y4m_command
from vmafx.app.cli.exits import OK
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.progress import progress_bar
from vmafx.app.cli.streams import require_output, write_out
from vmafx.app.container.score import ffmpeg_path, open_program_scorer
from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import ClipError, VmafxError
from vmafx.domain.scoring import ClipFile, ScoreRequest, ScoreResult
from vmafx.domain.y4m import container_of

__all__ = ["score"]


def score(asked: ScoreArguments, environment: Mapping[str, str]) -> int:
    """Score the pair, write the answer to standard output and return the exit code.

    Args:
        asked: What to score, and what to answer.
        environment: The settings.

    Raises:
        VmafxError: There is no score; says why.
        OutputError: The answer cannot be written.
        ReaderGoneError: Nobody reads the answer.
        InterruptedRunError: A signal ended the run; nothing of it is left.
    """
    require_output()
    with log_to_stderr(environment):
        settings = ScorerSettings.from_environment(environment)
        if asked.backend is not None:
            settings = dataclasses.replace(settings, backend=asked.backend)
        request = _request(asked)
        try:
            result = asyncio.run(until_signalled(_run(settings, environment, request)))
        except ClipError as error:
            told = _with_remedy(error, request, environment)
            raise told from error
    if asked.as_json:
        write_out(as_json(asked, result, settings.backend))
    else:
        write_out(as_table(asked, result, settings.backend, _terminal_width()))
    return OK


async def _run(
    settings: ScorerSettings, environment: Mapping[str, str], request: ScoreRequest
) -> ScoreResult:
    async with open_program_scorer(settings, environment) as scorer:
        with progress_bar(sys.stderr, environment) as progress:
            return await scorer.score(request, progress=progress)


def _request(asked: ScoreArguments) -> ScoreRequest:
    return ScoreRequest(
        reference=_clip(asked.reference),
        distorted=_clip(asked.distorted),
        model=asked.model,
        backend=asked.backend,
        threads=asked.threads,
        subsample=asked.subsample,
        frame_scores=asked.frames,
    )


def _clip(name: str) -> ClipFile:
    """Return the clip under an absolute path; `..` is left to the system, which knows about links.

    Raises:
        VmafxError: The path is relative, and the working directory is gone.
    """
    if name.startswith("/"):
        return ClipFile(path=name, name=name)
    try:
        folder = os.getcwd()  # noqa: PTH109 - a path from outside is passed on byte for byte
    except OSError as error:
        raise VmafxError(f"the working directory cannot be found: {error.strerror}") from error
    return ClipFile(path=f"{folder}/{name}", name=name)


def _with_remedy(error: ClipError, request: ScoreRequest, environment: Mapping[str, str]) -> ClipError:
    """The error with the command that makes a Y4M of its clip, where that is a video of another kind."""
    pair = request.reference, request.distorted
    clip, other = pair if pair[0].name == error.source else pair[::-1]
    if clip.name != error.source or not isinstance(clip, ClipFile) or container_of(_head(clip.path)) is None:
        return error
    command = y4m_command(clip.name, other=other.name, ffmpeg=ffmpeg_path(environment))
    return ClipError(error.source, f"{error}; to make a Y4M of it: {command}")


def _head(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 512) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
