"""The answer of `vmafx score`: a short table or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from vmafx.app.cli.arguments import ScoreArguments
from vmafx.app.cli.table import labelled
from vmafx.domain.scoring import Backend, FrameScore, ScoreResult
from vmafx.domain.version import __version__

__all__ = ["as_json", "as_table"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | None"


def as_json(asked: ScoreArguments, result: ScoreResult, backend: Backend) -> str:
    """Return the result as one JSON object, as `docs/cli.md` describes it; numbers keep every digit."""
    answer: dict[str, Json] = {
        "vmafx": __version__,
        "reference": asked.reference,
        "distorted": asked.distorted,
        "score": result.score,
        "frames": result.frames,
        "subsample": asked.subsample,
        "model": result.model,
        "backend": (result.backend_used or backend).value,
        "scorer": result.scorer,
    }
    if result.reference_frames is not None:
        answer["reference_frames"] = result.reference_frames
    if result.distorted_frames is not None:
        answer["distorted_frames"] = result.distorted_frames
    if asked.features:
        answer["features"] = dict(sorted(result.features.items()))
    if asked.frames:
        answer["frame_scores"] = [
            _frame(frame, features=asked.features) for frame in result.frame_scores or ()
        ]
    return json.dumps(answer, indent=2, allow_nan=False) + "\n"


def as_table(asked: ScoreArguments, result: ScoreResult, backend: Backend, width: int | None) -> str:
    """Return the result as a table for people.

    Args:
        asked: What was asked for.
        result: The result.
        backend: What the run was told to use.
        width: Columns of the terminal; None where there is none.
    """
    rows = [
        ("VMAF", _number(result.score)),
        ("reference", asked.reference),
        ("distorted", asked.distorted),
        ("frames", _frames(result, asked.subsample)),
        ("model", result.model),
        ("backend", (result.backend_used or backend).value),
        ("scorer", result.scorer),
    ]
    parts = [labelled([row for row in rows if row[1]], width)]
    parts += [labelled(list(block), width) for block in _blocks(asked, result)]
    return "\n".join(parts)


def _blocks(asked: ScoreArguments, result: ScoreResult) -> Iterator[list[tuple[str, str]]]:
    if asked.features:
        features = [(name, _number(value)) for name, value in sorted(result.features.items())]
        yield [("feature", "mean"), *features]
    if asked.frames:
        frames = [(str(frame.frame), _number(frame.score)) for frame in result.frame_scores or ()]
        yield [("frame", "VMAF"), *frames]


def _frames(result: ScoreResult, subsample: int) -> str:
    more: list[str] = []
    if subsample != 1:
        more.append(f"one of every {subsample}")
    if result.reference_frames != result.distorted_frames:
        more.append(
            f"of {result.reference_frames} in the reference and {result.distorted_frames} in the distorted"
        )
    return f"{result.frames} ({', '.join(more)})" if more else str(result.frames)


def _frame(frame: FrameScore, *, features: bool) -> Json:
    shown: dict[str, Json] = {"frame": frame.frame, "score": frame.score}
    if features:
        shown["features"] = dict(sorted(frame.features.items()))
    return shown


def _number(value: float) -> str:
    return f"{value:.6f}"
