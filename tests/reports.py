"""JSON reports of `vmaf` for tests, good ones and damaged ones; the same bytes on every run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

SCORES: Final = (88.1, 91.2, 90.3, 89.4, 92.5, 90.6)
"""The scores of the six frames of the good report."""
SCORE: Final = 90.35
"""Their mean."""


def report(
    scores: Sequence[object] = SCORES,
    *,
    mean: object = None,
    fps: object = 412.5,
    step: int = 1,
    extra: Mapping[str, object] | None = None,
    features: Mapping[str, object] | None = None,
) -> str:
    """A report; `mean` defaults to that of the scores, and every value can be any JSON value."""
    if mean is None:
        numbers = [s for s in scores if isinstance(s, float)]
        mean = sum(numbers) / len(numbers) if numbers else 0.0
    frames = [
        {"frameNum": number * step, "metrics": {"integer_motion2": 3.25 if number else 0.0, "vmaf": score}}
        for number, score in enumerate(scores)
    ]
    pooled = {"integer_motion2": _pooled(2.708333), "vmaf": _pooled(mean)}
    pooled |= {name: _pooled(value) for name, value in (features or {}).items()}
    document: dict[str, object] = {"version": "3.0.0", "fps": fps, "frames": frames}
    document |= {"pooled_metrics": pooled, "aggregate_metrics": {}}
    return json.dumps(document | dict(extra or {}), indent=2)


def _pooled(mean: object) -> dict[str, object]:
    return {"min": mean, "max": mean, "mean": mean, "harmonic_mean": mean}


def _with_literal(mark: str, literal: str, **parts: object) -> str:
    """A report in which the text `mark` stands as the bare `literal`."""
    return report(**parts).replace(json.dumps(mark), literal)  # type: ignore[arg-type]


def _last(value: object) -> Sequence[object]:
    return (*SCORES[:-1], value)


def _without_pooled() -> str:
    document = json.loads(report())
    del document["pooled_metrics"]
    return json.dumps(document)


def _with_empty_pooled() -> str:
    document = json.loads(report())
    document["pooled_metrics"] = {"vmaf": {}}
    return json.dumps(document)


def _with_pooled_twice() -> str:
    return report().replace('"pooled_metrics": {', '"pooled_metrics": {"vmaf": {"mean": 12.0},', 1)


MADE: Final[Mapping[str, Callable[[], str]]] = {
    "good": report,
    "fps_null": lambda: _with_literal("?", "null", fps="?"),
    "fps_infinity": lambda: _with_literal("?", "Infinity", fps="?"),
    "fps_c_inf": lambda: _with_literal("?", "inf", fps="?"),
    "nan_token": lambda: _with_literal("?", "NaN", scores=_last("?"), mean="?"),
    "infinity_token": lambda: _with_literal("?", "Infinity", scores=_last("?"), mean="?"),
    "minus_infinity": lambda: _with_literal("?", "-Infinity", scores=_last("?"), mean="?"),
    "null_score": lambda: _with_literal("?", "null", scores=_last("?"), mean="?"),
    "huge_exponent": lambda: _with_literal("?", "1e400", scores=_last("?"), mean="?"),
    "huge_integer": lambda: _with_literal("?", "9" * 5000, scores=_last("?"), mean="?"),
    "nan_c_style": lambda: _with_literal("?", "-nan", scores=_last("?"), mean="?"),
    "string_score": lambda: report([str(score) for score in SCORES], mean=SCORE),
    "string_mean": lambda: report(mean=str(SCORE)),
    "true_score": lambda: report([True] * 6, mean=SCORE),
    "true_mean": lambda: report([1.0] * 6, mean=True),
    "missing_pooled": _without_pooled,
    "empty_pooled": _with_empty_pooled,
    "pooled_differs": lambda: report(mean=88.1),
    "no_frames": lambda: report([], mean=SCORE),
    "five_of_six_frames": lambda: report(SCORES[:5]),
    "seven_of_six_frames": lambda: report((*SCORES, 90.0)),
    "duplicate_keys": _with_pooled_twice,
    "leading_comma": lambda: report().replace('"frames": [', '"frames": [,', 1),
    "cut_short": lambda: report()[: len(report()) // 2],
    "rubbish_after": lambda: report() + "\nvmaf_v0.6.1: 90.350000\n",
    "list_at_top": lambda: f"[{report()}]",
    "empty": lambda: "",
    "with_bom": lambda: "\ufeff" + report(),
    "nested": lambda: '{"frames": ' + "[" * 100_000,
    "null_feature": lambda: report(features={"psnr_y": None}),
}
"""Every report of the list by its name."""


def made(name: str) -> bytes:
    """The bytes of a report of the list."""
    return MADE[name]().encode()
