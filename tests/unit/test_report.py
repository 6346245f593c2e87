"""Reports of `vmaf`: what is believed, and every damage that is not (ADR 0005)."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import reports
from vmafx.adapters.vmaf_cli import json_stream
from vmafx.adapters.vmaf_cli.report import Report, check_report, read_report
from vmafx.domain.errors import NotFiniteError, ReportError, VmafxError

FRAMES = len(reports.SCORES)


def believed(
    data: bytes, *, frames: int | None = FRAMES, keep_frames: bool = False, subsample: int = 1
) -> Report:
    report = read_report([data], keep_frames=keep_frames)
    check_report(report, frames=frames, subsample=subsample)
    return report


def made(text: str) -> Report:
    return believed(text.encode())


@pytest.mark.parametrize("name", ["good", "fps_null", "fps_infinity", "with_bom"])
def test_good_report_is_believed(name: str) -> None:
    report = believed(reports.made(name))
    assert report.score == pytest.approx(reports.SCORE)
    assert report.features == {"integer_motion2": 2.708333, "vmaf": report.score}
    assert list(report.frame_values) == list(reports.SCORES)
    assert (report.version, report.backend_used, report.feature_backends) == ("3.0.0", None, ())
    assert report.frame_scores is None


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("nan_token", "vmaf: nan"),
        ("infinity_token", "vmaf: inf"),
        ("minus_infinity", "vmaf: -inf"),
        ("null_score", "vmaf: null"),
        ("huge_exponent", "vmaf: inf"),
        ("huge_integer", "vmaf: inf"),
        ("string_score", "vmaf of frame 0: '88.1'"),
        ("string_mean", "vmaf: '90.35'"),
        ("true_score", "vmaf of frame 0: True"),
        ("true_mean", "vmaf: True"),
        ("empty_pooled", "vmaf: null"),
        ("null_feature", "feature psnr_y: null"),
    ],
)
def test_value_that_is_no_finite_number_is_named(name: str, named: str) -> None:
    with pytest.raises(NotFiniteError, match="non-finite value for " + named.replace("(", "\\(")) as caught:
        believed(reports.made(name))
    assert caught.value.name in named


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("empty", "libvmaf: read output file: the scorer wrote no report"),
        ("fps_c_inf", "libvmaf: parse JSON output: Expecting value at character 3"),
        ("nan_c_style", "libvmaf: parse JSON output: "),
        ("leading_comma", "libvmaf: parse JSON output: Expecting value"),
        ("cut_short", "libvmaf: parse JSON output: "),
        ("rubbish_after", "libvmaf: parse JSON output: extra data after the document"),
        ("list_at_top", "libvmaf: parse JSON output: not an object at the top"),
        ("nested", "libvmaf: parse JSON output: nested too deeply"),
        ("duplicate_keys", "libvmaf: parse JSON output: key 'vmaf' is given twice"),
        ("missing_pooled", "libvmaf: 'vmaf' key not found in pooled_metrics; output: None"),
        ("no_frames", "the report contradicts itself: 0 frame entries, 6 expected"),
        ("five_of_six_frames", "the report contradicts itself: 5 frame entries, 6 expected"),
        ("seven_of_six_frames", "the report contradicts itself: 7 frame entries, 6 expected"),
        ("pooled_differs", "the report contradicts itself: the pooled score is 88.1, the mean of its"),
    ],
)
def test_damaged_report_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ReportError) as caught:
        believed(reports.made(name))
    assert reason in str(caught.value)


def test_every_report_of_the_list_is_judged_by_a_test() -> None:
    judged = {"good", "fps_null", "fps_infinity", "with_bom"}
    for test in (
        test_value_that_is_no_finite_number_is_named,
        test_damaged_report_is_refused_with_the_reason,
    ):
        judged |= {case[0] for mark in test.pytestmark for case in mark.args[1]}  # type: ignore[attr-defined]
    assert judged == set(reports.MADE)


GOOD = json.loads(reports.report())


def with_frame(frame: object) -> str:
    """The good report with another first frame."""
    return json.dumps(GOOD | {"frames": [frame, *GOOD["frames"][1:]]})


def with_pooled(name: str, value: object) -> str:
    """The good report with one more pooled metric."""
    return json.dumps(GOOD | {"pooled_metrics": GOOD["pooled_metrics"] | {name: value}})


@pytest.mark.parametrize("frames", [{}, None, 7, "x"])
def test_frames_must_be_a_list(frames: object) -> None:
    with pytest.raises(ReportError, match="frames is no list"):
        made(json.dumps(GOOD | {"frames": frames}))


@pytest.mark.parametrize(
    "frame",
    [1, None, {}, {"frameNum": 0}, {"metrics": {"vmaf": 88.1}}, {"frameNum": 0, "metrics": []}],
)
def test_frame_must_have_a_number_and_metrics(frame: object) -> None:
    with pytest.raises(ReportError, match="frame entry 0 has no number or no metrics"):
        made(with_frame(frame))


@pytest.mark.parametrize("number", ["0", 0.5, -1, 1e300, 2**53, math.nan, math.inf, True, None])
def test_number_of_a_frame_must_be_whole(number: object) -> None:
    with pytest.raises(ReportError, match="frame entry 0 has no number or no metrics"):
        made(with_frame({"frameNum": number, "metrics": {"vmaf": 88.1}}))


@pytest.mark.parametrize("name", ["", "\0", "a\nb", "\u202e", "\ud800", "x" * 257])
def test_name_of_a_metric_must_be_short_and_printable(name: str) -> None:
    with pytest.raises(ReportError, match="is no name of a metric"):
        made(with_pooled(name, {"mean": 1.0}))


def test_name_of_a_metric_may_have_256_characters() -> None:
    assert made(with_pooled("x" * 256, {"mean": 1.0})).features["x" * 256] == 1.0


@pytest.mark.parametrize("value", [1, None, [], "x"])
def test_pooled_metric_must_be_an_object(value: object) -> None:
    with pytest.raises(ReportError, match=r"pooled_metrics\.psnr is no object"):
        made(with_pooled("PSNR", value))


def test_pooled_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(ReportError, match="case of its letters"):
        made(with_pooled("VMAF", {"mean": reports.SCORE}))


@pytest.mark.parametrize("pooled", [[], None, 3, {"VMAF_HD": {"mean": 1.0}}])
def test_report_without_the_score_is_refused(pooled: object) -> None:
    with pytest.raises(ReportError, match="'vmaf' key not found in pooled_metrics"):
        made(json.dumps(GOOD | {"pooled_metrics": pooled}))


def test_receipts_must_be_a_list() -> None:
    with pytest.raises(ReportError, match="feature_backends is no list"):
        made(json.dumps(GOOD | {"feature_backends": "cpu"}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"frames": [], "frames": []}', "key 'frames' is given twice"),
        ('{"a": {"c": 2, "b": 1, "b": 1}}', "key 'b' is given twice"),
        ("{", "expecting a key in double quotes at character 1"),
        ('{"a"}', "expecting ':' at character 4"),
        ('{"a": }', "Expecting value at character 6"),
        ('{"a": 1,}', "expecting a key in double quotes at character 8"),
        ('{"a": 1 "b": 2}', "expecting ',' at character 8"),
        ("{1: 2}", "expecting a key in double quotes at character 1"),
        ('"vmaf"', "not an object at the top"),
        ("90.35", "not an object at the top"),
        ('{"frames": [{"frameNum": 0, "metrics": {"vmaf": 1}} {}]}', "expecting ','"),
        ('{"frames": [{"frameNum": 0, "metrics": {"vmaf": 1}},]}', "Expecting value"),
    ],
)
def test_text_that_is_no_strict_json_is_refused_where_it_goes_wrong(text: str, reason: str) -> None:
    with pytest.raises(ReportError, match="libvmaf: parse JSON output: ") as caught:
        made(text)
    assert reason in str(caught.value)


def test_position_of_an_error_is_that_in_the_whole_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", 8)
    with pytest.raises(ReportError, match=r"at character 1006$"):
        read_report(chunked(b'{"a": ' + b" " * 1000 + b"x", 8))


@pytest.mark.parametrize("data", [b'{"a": "\xff"}', b"\xff\xfe{\x00}\x00", b'{"a": 1}\xc3'])
def test_report_that_is_no_utf8_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError, match="libvmaf: parse JSON output: not UTF-8"):
        believed(data)


def test_report_of_nothing_but_space_is_none() -> None:
    with pytest.raises(ReportError, match="the scorer wrote no report"):
        believed(b" \n\t ")


def test_missing_score_shows_what_there_was_bounded() -> None:
    text = json.dumps({"frames": [], "pooled_metrics": {"psnr\x1b": {"mean": 1}} | {"x" * 100: {"mean": 1}}})
    with pytest.raises(ReportError):
        made(text)
    many = json.dumps({"frames": [], "pooled_metrics": {f"name{n}": {"mean": 1} for n in range(10_000)}})
    with pytest.raises(ReportError, match=r"key not found in pooled_metrics; output: .*name0") as caught:
        made(many)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("difference", [0.9e-5, -0.9e-5, 0.0])
def test_pooled_score_may_be_rounded(difference: float) -> None:
    assert made(reports.report(mean=reports.SCORE + difference)).score == reports.SCORE + difference


@pytest.mark.parametrize("difference", [1.1e-5, -1.1e-5])
def test_pooled_score_off_the_mean_is_refused(difference: float) -> None:
    with pytest.raises(ReportError, match="contradicts itself"):
        made(reports.report(mean=reports.SCORE + difference))


def test_frames_that_are_left_out_need_no_entry() -> None:
    data = reports.report(reports.SCORES[:3], step=2).encode()
    report = believed(data, frames=3, keep_frames=True, subsample=2)
    assert report.frame_scores is not None
    assert [frame.frame for frame in report.frame_scores] == [0, 2, 4]


@pytest.mark.parametrize(("told", "asked"), [(1, 2), (2, 1), (3, 2)])
def test_frames_other_than_those_that_were_to_be_scored_are_refused(told: int, asked: int) -> None:
    data = reports.report(reports.SCORES[:3], step=told).encode()
    with pytest.raises(ReportError, match="frame numbers are not those"):
        believed(data, frames=3, subsample=asked)


@pytest.mark.parametrize("numbers", [[0, 0], [1, 0]])
def test_frames_that_are_told_twice_or_out_of_order_are_refused(numbers: list[int]) -> None:
    document = json.loads(reports.report([90.0, 90.0]))
    for frame, number in zip(document["frames"], numbers, strict=True):
        frame["frameNum"] = number
    with pytest.raises(ReportError, match="frame numbers do not rise"):
        believed(json.dumps(document).encode(), frames=2)


def test_any_number_of_frames_may_be_believed_but_not_none() -> None:
    assert believed(reports.report(reports.SCORES[:2]).encode(), frames=None).score == pytest.approx(89.65)
    with pytest.raises(ReportError, match="0 frame entries, at least one expected"):
        believed(reports.made("no_frames"), frames=None)


def test_frame_scores_leave_out_what_is_not_finite_and_lower_the_case() -> None:
    text = reports.report([90.0]).replace(
        '"integer_motion2": 0.0', '"PSNR_Y": 40.5, "b": null, "c": NaN, "d": "x"'
    )
    report = believed(text.encode(), frames=1, keep_frames=True)
    assert report.frame_scores is not None
    assert dict(report.frame_scores[0].features) == {"psnr_y": 40.5}
    assert report.frame_scores[0].score == 90.0


def test_frame_metrics_that_differ_in_case_only_are_refused() -> None:
    text = reports.report([90.0]).replace('"integer_motion2": 0.0', '"VMAF": 1.0')
    with pytest.raises(ReportError, match="case of its letters"):
        believed(text.encode(), frames=1)


def test_receipts_are_kept_as_words() -> None:
    extra = {"backend_used": "CUDA", "feature_backends": [{"extractor": "a", "backend": "cuda"}, {"x": 1}, 3]}
    report = made(reports.report(extra=extra))
    assert report.backend_used == "CUDA"
    assert report.feature_backends == ("cuda", "unknown", "unknown")


def test_odd_receipts_are_shown_not_believed() -> None:
    report = made(reports.report(extra={"backend_used": {"x": "\x1b"}, "version": 3}))
    assert report.backend_used is not None
    assert report.backend_used.isprintable()
    assert report.version == "3.0"


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("name", sorted(reports.MADE.keys() - {"nested", "huge_integer"}))
def test_pieces_of_a_report_mean_the_same_as_the_whole(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(chunks: Iterable[bytes]) -> object:
        try:
            report = read_report(chunks)
            check_report(report, frames=FRAMES)
        except VmafxError as error:
            return type(error), str(error).partition(" at character")[0].partition("expecting")[0]
        return report

    data = reports.made(name)
    whole = outcome([data])
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", size)
    pieces = outcome(chunked(data, size))
    if name in {"cut_short", "nan_c_style", "leading_comma", "fps_c_inf"}:
        assert isinstance(pieces, tuple)
        assert pieces[0] is ReportError
    else:
        assert pieces == whole


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=3))
def test_any_damage_is_refused_or_harmless(position: int, patch: bytes) -> None:
    data = bytearray(reports.made("good"))
    position %= len(data)
    data[position : position + len(patch)] = patch
    try:
        report = believed(bytes(data), frames=None)
    except (ReportError, NotFiniteError):
        return
    assert math.isfinite(report.score)
    assert abs(report.score - math.fsum(report.frame_values) / len(report.frame_values)) <= 1e-5


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=20))
def test_any_value_at_any_place_is_refused_or_harmless(value: object) -> None:
    for place in ("frames", "pooled_metrics", "version", "backend_used", "feature_backends", "fps"):
        text = reports.report(extra={place: value})
        try:
            report = made(text)
        except (ReportError, NotFiniteError):
            continue
        assert report.score == pytest.approx(reports.SCORE)


def test_work_can_be_ended_between_two_frames() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyError

    with pytest.raises(KeyError):
        read_report([reports.made("good")], check=check)
    assert calls == 3


def large_report(frames: int) -> Iterator[bytes]:
    yield b'{"version": "3", "junk": "' + b"x" * 1000 + b'", "frames": ['
    entry = ', "metrics": {"vmaf": 90.0, ' + ", ".join(f'"metric{n}": 12.345678' for n in range(20)) + "}}"
    for start in range(0, frames, 1000):
        numbers = range(start, min(start + 1000, frames))
        text = ",".join(f'{{"frameNum": {n}{entry}' for n in numbers)
        yield (text + ("," if numbers[-1] != frames - 1 else "")).encode()
    yield b'], "pooled_metrics": {"vmaf": {"mean": 90.0}}}'


def test_memory_does_not_grow_with_the_features_of_frames() -> None:
    frames = 20_000  # 11 MB of text
    tracemalloc.start()
    try:
        report = read_report(large_report(frames))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(report.frame_values) == frames
    assert peak < 4 * 1024 * 1024
