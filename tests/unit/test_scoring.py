"""A result holds finite numbers only, and a request only what a scorer can be asked."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.domain.errors import NotFiniteError
from vmafx.domain.scoring import (
    MODEL_NAME_LENGTH_MAX,
    SUBSAMPLE_MAX,
    THREADS_MAX,
    Backend,
    ClipFile,
    Failure,
    FrameScore,
    LengthMismatch,
    Retry,
    ScoreRequest,
    ScoreResult,
    finite,
    model_name_problem,
)

REF = ClipFile(path="/r.y4m", name="r.y4m")
DIS = ClipFile(path="/d.y4m", name="d.y4m")

NOT_NUMBERS: list[object] = [
    *(None, math.nan, math.inf, -math.inf, "93.7", "NaN", b"1", True, False),
    *([], {}, 1j, Decimal(1), Fraction(1, 2), object(), float("1e400"), 10**400, -(10**400), 10**5000),
]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda value: f"{type(value).__name__}")
def test_what_is_no_finite_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(NotFiniteError, match=r"^non-finite value for vmaf: .+") as caught:
        finite("vmaf", value)
    assert caught.value.name == "vmaf"
    assert len(str(caught.value)) < 128


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**1000), 2**1000))
def test_finite_numbers_pass_unchanged(value: float) -> None:
    assert finite("vmaf", value) == float(value)
    assert type(finite("vmaf", value)) is float


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_float_but_a_finite_one_passes(value: float) -> None:
    if math.isfinite(value):
        assert finite("x", value) == value
    else:
        with pytest.raises(NotFiniteError):
            finite("x", value)


def test_null_is_named_as_the_report_has_it() -> None:
    with pytest.raises(NotFiniteError, match=r"^non-finite value for vmaf: null$"):
        finite("vmaf", None)


def result(
    *,
    score: float = 95.0,
    features: Mapping[str, float] | None = None,
    frame_scores: tuple[FrameScore, ...] | None = None,
) -> ScoreResult:
    return ScoreResult(score=score, features=features or {}, frames=6, frame_scores=frame_scores)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "95", True])
def test_result_with_a_number_that_is_none_cannot_be_made(bad: float) -> None:
    with pytest.raises(NotFiniteError) as caught:
        result(score=bad)
    assert caught.value.name == "score"
    with pytest.raises(NotFiniteError) as caught:
        result(features={"vmaf": 95.0, "integer_adm2": bad})
    assert caught.value.name == "feature integer_adm2"
    with pytest.raises(NotFiniteError) as caught:
        result(frame_scores=(FrameScore(frame=0, score=1.0), FrameScore(frame=1, score=bad)))
    assert caught.value.name == "score of frame 1"
    with pytest.raises(NotFiniteError) as caught:
        result(frame_scores=(FrameScore(frame=7, score=1.0, features={"motion": bad}),))
    assert caught.value.name == "motion of frame 7"


def test_zero_and_negative_scores_are_values() -> None:
    made = result(score=0.0, features={"vmaf": -1.5}, frame_scores=(FrameScore(frame=0, score=0.0),))
    assert (made.score, made.features["vmaf"]) == (0.0, -1.5)


def test_whole_numbers_count_as_scores() -> None:
    assert result(score=95, frame_scores=(FrameScore(frame=0, score=95),)).score == 95.0


@pytest.mark.parametrize("threads", [1, THREADS_MAX, None])
@pytest.mark.parametrize("subsample", [1, SUBSAMPLE_MAX])
@pytest.mark.parametrize("timeout_s", [0.0, 0.001, 86400, None])
def test_request_takes_everything_within_its_ranges(
    threads: int | None, subsample: int, timeout_s: float | None
) -> None:
    request = ScoreRequest(
        reference=REF, distorted=DIS, threads=threads, subsample=subsample, timeout_s=timeout_s
    )
    assert copy.copy(request) == request


@pytest.mark.parametrize("threads", [0, -1, THREADS_MAX + 1])
def test_number_of_threads_outside_its_range_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match=rf"threads={threads} must be from 1 to 1024"):
        ScoreRequest(reference=REF, distorted=DIS, threads=threads)


@pytest.mark.parametrize("subsample", [0, -1, SUBSAMPLE_MAX + 1])
def test_subsample_outside_its_range_is_refused(subsample: int) -> None:
    with pytest.raises(ValueError, match=rf"subsample={subsample} must be from 1 to 1000000"):
        ScoreRequest(reference=REF, distorted=DIS, subsample=subsample)


@pytest.mark.parametrize("timeout_s", [-0.001, math.nan, math.inf, -math.inf])
def test_timeout_that_is_no_time_is_refused(timeout_s: float) -> None:
    with pytest.raises(ValueError, match=r"timeout_s=\S+ must be 0 or more seconds"):
        ScoreRequest(reference=REF, distorted=DIS, timeout_s=timeout_s)


def test_failure_without_a_reason_cannot_be_made() -> None:
    assert Failure(error="no space left").retry is Retry.NO
    with pytest.raises(ValueError, match="needs a reason"):
        Failure(error="")


def test_words_of_the_wire_are_what_they_are() -> None:
    assert {b.value: b.vendor for b in Backend} == {
        "cpu": "cpu",
        "cuda": "nvidia",
        "hip": "amd",
        "sycl": "intel",
        "metal": "apple",
    }
    assert [r.value for r in Retry] == ["", "true", "shutdown"]
    assert [m.value for m in LengthMismatch] == ["fail", "shortest"]


def test_numbers_of_frames_that_nobody_counted_are_not_zero() -> None:
    assert (result().reference_frames, result().distorted_frames) == (None, None)


@pytest.mark.parametrize(
    "name", ["vmaf_v0.6.1", "a", "9", "A-b_c.d", "vmaf_v0.6.1neg", "m" * MODEL_NAME_LENGTH_MAX]
)
def test_names_of_models_have_no_problem(name: str) -> None:
    assert model_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "a model name is needed, found nothing"),
        ("m" * (MODEL_NAME_LENGTH_MAX + 1), "longer than 128 characters"),
        *((name, "is no model name: letters, digits") for name in ("../m", "a/b", ".m", "-r", "a..b", "a b")),
        *((name, "is no model name: letters, digits") for name in ("m\n", "é", "a:b", "a=b", "\udcff", "٣")),
    ],
)
def test_what_is_no_name_of_a_model_is_said_why_in_one_line(name: str, problem: str) -> None:
    found = model_name_problem(name)
    assert found is not None
    assert problem in found
    assert found.isprintable() or not found.isascii()
    assert "\n" not in found


@given(st.text())
def test_a_problem_with_any_name_is_bounded(name: str) -> None:
    assert len(model_name_problem(name) or "") < 1200


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        result().score = 1.0  # type: ignore[misc]
