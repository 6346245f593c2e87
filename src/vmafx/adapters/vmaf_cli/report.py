"""The JSON report of a `vmaf` run, read strictly: what contradicts itself is no report (ADR 0005)."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from vmafx.adapters.vmaf_cli.json_stream import JsonStream, JsonStreamError
from vmafx.domain.errors import NotFiniteError, ReportError
from vmafx.domain.scoring import FrameScore, finite
from vmafx.domain.text import bounded, printable, quoted

__all__ = ["POOLED_TOLERANCE", "REPORT_BYTES_MAX", "SCORE", "Report", "check_report", "read_report"]

REPORT_BYTES_MAX: Final = 512 * 1024 * 1024
"""Largest report, in bytes."""
POOLED_TOLERANCE: Final = 1e-5
"""How far the pooled score may be from the mean of its frames, for reports with six decimals."""
SCORE: Final = "vmaf"

_CONTRADICTION: Final = "libvmaf: the report contradicts itself"
_NAME_CHARACTERS_MAX: Final = 256
_SHOWN_BYTES_MAX: Final = 512
_WORD_BYTES_MAX: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report says.

    Attributes:
        score: The pooled score.
        features: The pooled value of every metric by lower-case name, the score among them.
        frame_numbers: The number of each frame, in order.
        frame_values: The score of each frame; NaN stands for what is no number.
        bad_frame: The first frame whose score is no finite number, with what stands there; None when all are.
        frame_scores: Every frame with its features; None when they were not asked for.
        version: The version that the executable gave of itself; empty when it gave none.
        backend_used: The backend that the whole run is said to have used; None when nothing is said.
        feature_backends: The backend of each feature; empty when nothing is said.
    """

    score: float
    features: Mapping[str, float]
    frame_numbers: array[float]
    frame_values: array[float]
    bad_frame: tuple[int, object] | None = None
    frame_scores: tuple[FrameScore, ...] | None = None
    version: str = ""
    backend_used: str | None = None
    feature_backends: tuple[str, ...] = ()


def read_report(
    chunks: Iterable[bytes], *, keep_frames: bool = False, check: Callable[[], None] = lambda: None
) -> Report:
    """Read a report.

    Args:
        chunks: The report's bytes, in order.
        keep_frames: Whether the features of every frame are kept.
        check: Called once per frame; ends the reading by raising.

    Raises:
        ReportError: The report is empty, damaged, of another shape, or gives a key twice.
        NotFiniteError: The pooled score or a pooled feature is no finite number; names it.
    """
    try:
        return _Reading(keep_frames=keep_frames, check=check).read(JsonStream(chunks))
    except JsonStreamError as error:
        raise ReportError(f"libvmaf: parse JSON output: {error}") from None


def check_report(report: Report, *, frames: int | None, subsample: int = 1) -> None:
    """Check that a report does not contradict itself or the clips.

    Args:
        report: What to check.
        frames: How many frames the run must have scored; None leaves their number open, but not at 0.
        subsample: Every how many frames the run scored.

    Raises:
        ReportError: There are fewer or more frames, their numbers do not rise or are not
            those that were to be scored, or the pooled score is not
            the mean of its frames.
        NotFiniteError: The score of a frame is no finite number.
    """
    found = len(report.frame_values)
    if found == 0 or (frames is not None and found != frames):
        expected = "at least one" if frames is None else str(frames)
        raise ReportError(f"{_CONTRADICTION}: {found} frame entries, {expected} expected")
    if any(a >= b for a, b in zip(report.frame_numbers, report.frame_numbers[1:], strict=False)):
        raise ReportError(f"{_CONTRADICTION}: frame numbers do not rise")
    if frames is not None and any(n != i * subsample for i, n in enumerate(report.frame_numbers)):
        raise ReportError(f"{_CONTRADICTION}: frame numbers are not those of every {subsample}. frame from 0")
    if report.bad_frame is not None:
        number, value = report.bad_frame
        raise NotFiniteError(f"{SCORE} of frame {number}", value)
    mean = math.fsum(report.frame_values) / found
    if not abs(report.score - mean) <= POOLED_TOLERANCE:
        raise ReportError(
            f"{_CONTRADICTION}: the pooled score is {report.score!r}, the mean of its frames {mean!r}"
        )


class _Reading:
    """One report while it is read."""

    def __init__(self, *, keep_frames: bool, check: Callable[[], None]) -> None:
        self._keep_frames = keep_frames
        self._check = check
        self._numbers = array("d")
        self._values = array("d")
        self._bad: tuple[int, object] | None = None
        self._kept: list[FrameScore] = []

    def read(self, stream: JsonStream) -> Report:
        opening = stream.next_character()
        if not opening:
            raise ReportError("libvmaf: read output file: the scorer wrote no report")
        if opening != "{":
            raise ReportError("libvmaf: parse JSON output: not an object at the top")
        said: dict[str, object] = {}
        for key in stream.members():
            if key == "frames" and stream.next_character() == "[":
                for number, element in enumerate(stream.elements()):
                    self._frame(number, element)
            elif key in _SAID:
                said[key] = stream.value()
            elif key == "frames":
                raise _damaged("frames is no list")
            else:
                stream.value()
        stream.end()
        return self._report(said)

    def _frame(self, index: int, element: object) -> None:
        self._check()
        metrics = element.get("metrics") if _is_object(element) else None
        number = element.get("frameNum") if _is_object(element) else None
        if not _is_object(metrics) or not isinstance(number, float) or not _whole(number):
            raise _damaged(f"frame entry {index} has no number or no metrics")
        lowered = _lowered(metrics)
        score = lowered.get(SCORE)
        if not _finite(score):
            self._bad = self._bad or (int(number), score)
            score = math.nan
        self._numbers.append(number)
        self._values.append(score)
        if self._keep_frames:
            others = {name: v for name, v in lowered.items() if name != SCORE and _finite(v)}
            self._kept.append(FrameScore(frame=int(number), score=score, features=others))

    def _report(self, said: Mapping[str, object]) -> Report:
        pooled = said.get("pooled_metrics")
        features = _pooled(pooled)
        if SCORE not in features:
            shown = bounded(printable(ascii(pooled)[: 2 * _SHOWN_BYTES_MAX]), _SHOWN_BYTES_MAX)
            raise ReportError(f"libvmaf: 'vmaf' key not found in pooled_metrics; output: {shown}")
        return Report(
            score=features[SCORE],
            features=features,
            frame_numbers=self._numbers,
            frame_values=self._values,
            bad_frame=self._bad,
            frame_scores=tuple(self._kept) if self._keep_frames else None,
            version=_word(said.get("version")) or "",
            backend_used=_word(said.get("backend_used")),
            feature_backends=_feature_backends(said.get("feature_backends")),
        )


_SAID: Final = frozenset({"pooled_metrics", "version", "backend_used", "feature_backends"})


def _pooled(pooled: object) -> dict[str, float]:
    if not _is_object(pooled):
        return {}
    features: dict[str, float] = {}
    for name, value in _lowered(pooled).items():
        if not _is_object(value):
            raise _damaged(f"pooled_metrics.{name} is no object")
        features[name] = finite(name if name == SCORE else f"feature {name}", value.get("mean"))
    return features


def _lowered(metrics: Mapping[str, object]) -> dict[str, object]:
    lowered = {name.lower(): value for name, value in metrics.items()}
    if len(lowered) != len(metrics):
        raise _damaged("two metrics have the same name but for the case of its letters")
    for name in lowered:
        if not (name.isprintable() and 1 <= len(name) <= _NAME_CHARACTERS_MAX):
            raise _damaged(f"{quoted(name[:_NAME_CHARACTERS_MAX])} is no name of a metric")
    return lowered


def _feature_backends(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not _is_list(value):
        raise _damaged("feature_backends is no list")
    words = tuple(_word(entry.get("backend")) if _is_object(entry) else None for entry in value)
    return tuple("unknown" if word is None else word for word in words)


def _word(value: object) -> str | None:
    """Return text of the report fit to be shown; None when there is none."""
    if value is None:
        return None
    text = value if isinstance(value, str) else ascii(value)
    return bounded(printable(text[:_WORD_BYTES_MAX]), _WORD_BYTES_MAX)


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, float) and math.isfinite(value)


def _whole(number: float) -> bool:
    return 0 <= number < 2**53 and number.is_integer()


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _damaged(problem: str) -> ReportError:
    return ReportError(f"libvmaf: parse JSON output: {problem}")
