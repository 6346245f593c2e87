"""What a run reads and writes, open: the pair, the model, and the report to come."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vmafx.adapters.vmaf_cli.argv import RunArguments, descriptor_path, run_arguments
from vmafx.adapters.vmaf_cli.capabilities import Capabilities
from vmafx.adapters.vmaf_cli.engine_clips import clip_problem
from vmafx.adapters.vmaf_cli.frames import OpenClip, OpenPair, look_at, open_pair
from vmafx.adapters.vmaf_cli.models import Model, ModelFile, model_argument, open_model
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.unnamed import unnamed_file
from vmafx.domain.scoring import ClipDescriptor, ClipFile, ScoreRequest
from vmafx.domain.y4m import Y4mHeader

__all__ = ["PROGRESS_FD", "RunFiles", "descriptor_names", "open_files", "path_names"]

REFERENCE_FD: Final = 3
DISTORTED_FD: Final = 4
REPORT_FD: Final = 5
MODEL_FD: Final = 6
PROGRESS_FD: Final = 7
"""The descriptors of a child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """What a run reads and writes, open.

    Attributes:
        pair: The clips.
        model: The model.
        report: A descriptor of the report, which is empty before the run.
    """

    pair: OpenPair
    model: Model
    report: int

    def close(self) -> None:
        """Close all of it; the report is gone with that."""
        os.close(self.report)
        self.pair.close()
        _close_model(self.model)

    def descriptors(self) -> dict[int, int]:
        """Return the child's descriptors to ours."""
        ours = {REPORT_FD: self.report}
        for number, opened in ((REFERENCE_FD, self.pair.reference), (DISTORTED_FD, self.pair.distorted)):
            if opened.by_descriptor:
                ours[number] = opened.descriptor
        if isinstance(self.model, ModelFile):
            ours[MODEL_FD] = self.model.descriptor
        return ours

    def arguments(
        self, request: ScoreRequest, options: ScorerOptions, capabilities: Capabilities, *, progress: bool
    ) -> tuple[str, ...]:
        """Return the arguments of the run.

        Args:
            request: What to score and how.
            options: What holds where the request says nothing.
            capabilities: What the executable knows.
            progress: Whether somebody hears of progress.
        """
        run = RunArguments(
            reference=_clip_path(self.pair.reference, REFERENCE_FD),
            distorted=_clip_path(self.pair.distorted, DISTORTED_FD),
            model=model_argument(self.model, MODEL_FD),
            report=descriptor_path(REPORT_FD),
            threads=request.threads or options.score_threads,
            subsample=request.subsample,
            backend=options.backend,
            progress_fd=PROGRESS_FD if progress else None,
        )
        return run_arguments(run, capabilities)


def open_files(
    request: ScoreRequest, options: ScorerOptions, check: Callable[[], None], *, engine: bool
) -> RunFiles:
    """Open what a run needs; blocks.

    Args:
        request: What to score.
        options: What holds where the request says nothing.
        check: Called often; ends the work by raising.
        engine: Whether the embedded engine scores it, which takes fewer kinds of clips.

    Raises:
        ModelError: The model cannot be used.
        ScorerUnavailableError: The model directory is not there.
        ClipError: A clip cannot be scored, or the two cannot be compared.
        OSError: This process or this machine is out of something.
    """
    for clip in (request.reference, request.distorted):
        look_at(clip)
    model = open_model(options.default_model if request.model is None else request.model, options.model_dir)
    try:
        pair = open_pair(
            request.reference,
            request.distorted,
            length_mismatch=options.length_mismatch,
            problem=clip_problem if engine else _nothing,
            check=check,
        )
        try:
            return RunFiles(pair=pair, model=model, report=unnamed_file("vmafx-report"))
        except BaseException:
            pair.close()
            raise
    except BaseException:
        _close_model(model)
        raise


def descriptor_names(request: ScoreRequest) -> dict[int, str]:
    """Return what stands behind a child's descriptors, for words of the child that name them."""
    names = {REPORT_FD: "the report", MODEL_FD: "the model file"}
    for number, clip in ((REFERENCE_FD, request.reference), (DISTORTED_FD, request.distorted)):
        names[number] = clip.path if isinstance(clip, ClipDescriptor) else clip.name
    return names


def path_names(request: ScoreRequest) -> dict[str, str]:
    """Return the paths that only we know to the names of their clips, for words of the child."""
    clips = (request.distorted, request.reference)
    return {clip.path: clip.name for clip in clips if isinstance(clip, ClipFile)}


def _nothing(_: Y4mHeader) -> str:
    return ""


def _clip_path(opened: OpenClip, child_descriptor: int) -> str:
    return descriptor_path(child_descriptor) if opened.by_descriptor else opened.clip.path


def _close_model(model: Model) -> None:
    if isinstance(model, ModelFile):
        os.close(model.descriptor)
