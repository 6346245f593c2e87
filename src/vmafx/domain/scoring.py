"""What is asked of a scorer and what it answers; a result holds finite numbers only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from vmafx.domain.errors import NotFiniteError
from vmafx.domain.text import quoted

__all__ = [
    "MODEL_NAME_LENGTH_MAX",
    "SUBSAMPLE_MAX",
    "THREADS_MAX",
    "Backend",
    "Clip",
    "ClipDescriptor",
    "ClipFile",
    "Failure",
    "FrameScore",
    "LengthMismatch",
    "Outcome",
    "Retry",
    "ScoreRequest",
    "ScoreResult",
    "finite",
    "model_name_problem",
]

THREADS_MAX: Final = 1024
SUBSAMPLE_MAX: Final = 1_000_000
MODEL_NAME_LENGTH_MAX: Final = 128
"""Longest name of a model, in characters."""

_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Backend(Enum):
    """What a scorer runs on; the values are the words of the wire."""

    CPU = "cpu"
    CUDA = "cuda"
    HIP = "hip"
    SYCL = "sycl"
    METAL = "metal"

    @property
    def vendor(self) -> str:
        """The vendor that a node with this backend advertises."""
        return _VENDORS[self]


_VENDORS: Final[Mapping[Backend, str]] = {
    Backend.CPU: "cpu",
    Backend.CUDA: "nvidia",
    Backend.HIP: "amd",
    Backend.SYCL: "intel",
    Backend.METAL: "apple",
}


class LengthMismatch(Enum):
    """What happens to a pair whose clips have different numbers of frames (ADR 0006)."""

    FAIL = "fail"
    SHORTEST = "shortest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFile:
    """A clip that the scorer opens by path.

    Attributes:
        path: An absolute path.
        name: The input as its owner wrote it; errors show it.
    """

    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipDescriptor:
    """A clip that was opened before, so that what was checked is what is read.

    The descriptor stays its owner's: a scorer neither closes it nor moves its position.

    Attributes:
        descriptor: An open descriptor of a regular file.
        name: The input as its owner wrote it; errors show it.
        path: The real path of the file; it stands in for `/dev/fd/N` in the scorer's own words.
    """

    descriptor: int
    name: str
    path: str


Clip: TypeAlias = ClipFile | ClipDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """One pair to score.

    Attributes:
        reference: The clip that the other is compared with.
        distorted: The clip that is scored.
        model: The model's name, as `model_name_problem` wants it; None means the scorer's default.
        backend: The backend that must be used; None means the scorer's own.
        threads: Threads of the scorer, 1 to 1024; None means the scorer's default.
        subsample: Every how many frames are scored, 1 (all) to 1,000,000.
        timeout_s: How long the run may take, in seconds; None means the scorer's default, 0 no limit.
        frame_scores: Whether the result carries the scores of every frame.
        job_id: The job this run belongs to; None outside a job. Opaque: never part of a path.

    Raises:
        ValueError: A number is outside its range.
    """

    reference: Clip
    distorted: Clip
    model: str | None = None
    backend: Backend | None = None
    threads: int | None = None
    subsample: int = 1
    timeout_s: float | None = None
    frame_scores: bool = False
    job_id: str | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= THREADS_MAX:
            raise ValueError(f"threads={self.threads} must be from 1 to {THREADS_MAX}")
        if not 1 <= self.subsample <= SUBSAMPLE_MAX:
            raise ValueError(f"subsample={self.subsample} must be from 1 to {SUBSAMPLE_MAX}")
        if self.timeout_s is not None and not (math.isfinite(self.timeout_s) and self.timeout_s >= 0):
            raise ValueError(f"timeout_s={self.timeout_s} must be 0 or more seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameScore:
    """The score of one frame.

    Attributes:
        frame: The frame's number, from 0.
        score: Its VMAF score.
        features: Its other metrics by lower-case name; null ones are left out.
    """

    frame: int
    score: float
    features: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """The result of one run; every number in it is finite.

    Attributes:
        score: The pooled score: the mean over the scored frames.
        features: The pooled value of every metric by lower-case name, `vmaf` among them.
        frames: How many frames were scored.
        reference_frames: How many whole frames the reference has; None where nobody counted them. They
            differ from those of the distorted clip only where the common frames were scored (ADR 0006).
        distorted_frames: The same of the distorted clip.
        model: The model's name, as resolved.
        scorer: The version that the executable gave of itself; empty when it gave none.
        backend_used: The backend that the report vouches for; None when it says nothing of it.
        frame_scores: The frames' scores in order; None when they were not asked for.

    Raises:
        NotFiniteError: The score or a feature, pooled or of a frame, is no finite number; names it.
    """

    score: float
    features: Mapping[str, float]
    frames: int
    reference_frames: int | None = None
    distorted_frames: int | None = None
    model: str = ""
    scorer: str = ""
    backend_used: Backend | None = None
    frame_scores: tuple[FrameScore, ...] | None = None

    def __post_init__(self) -> None:
        finite("score", self.score)
        for name, value in self.features.items():
            finite(f"feature {name}", value)
        for frame in self.frame_scores or ():
            for name, value in (("score", frame.score), *frame.features.items()):
                if type(value) is not float or not math.isfinite(value):  # names are made for bad ones only
                    finite(f"{name} of frame {frame.frame}", value)


class Retry(Enum):
    """Whether and how a failed job may be tried again; the values are those of the wire's metadata."""

    NO = ""
    ELSEWHERE = "true"
    AT_ONCE = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job has no result.

    Attributes:
        error: The reason in words: printable, bounded, never empty.
        retry: Whether another try may do better (ADR 0010).

    Raises:
        ValueError: `error` is empty.
    """

    error: str
    retry: Retry = Retry.NO

    def __post_init__(self) -> None:
        if not self.error:
            raise ValueError("a failure needs a reason")


Outcome: TypeAlias = ScoreResult | Failure


def finite(name: str, value: object) -> float:
    """Return `value` as a float.

    Args:
        name: What the value is, for the error.
        value: Anything; only an integer or a finite float passes.

    Raises:
        NotFiniteError: The value is None, NaN, infinite, text, a boolean or anything else that is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotFiniteError(name, value)
    try:
        number = float(value)
    except OverflowError:
        raise NotFiniteError(name, value) from None
    if not math.isfinite(number):
        raise NotFiniteError(name, value)
    return number


def model_name_problem(name: str) -> str | None:
    """Return why `name` is no name of a model, in words; None when it is one (ADR 0008).

    Args:
        name: Any text; shown quoted in the answer.
    """
    if not name:
        return "a model name is needed, found nothing"
    if len(name) > MODEL_NAME_LENGTH_MAX:
        return f"{quoted(name)} is no model name: longer than {MODEL_NAME_LENGTH_MAX} characters"
    if not _MODEL_NAME.fullmatch(name) or ".." in name:
        return (
            f"{quoted(name)} is no model name: letters, digits and . _ - only, "
            "a letter or digit first, no two dots in a row"
        )
    return None
