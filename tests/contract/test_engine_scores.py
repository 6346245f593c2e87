"""The embedded engine gives the scores of a stock `vmaf`, whatever the clips say of time (ADR 0009)."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.clips import PLAIN_SCORE, y4m
from tests.engine import Pairs, built_in_model, clip, engine, mean, report_of, through_pipes
from tests.names import plant

NEAR = 0.05  # small pictures depend on the processor
KNOWN = {
    "plain": ({}, 6, PLAIN_SCORE),
    "c422": ({"sub": "422", "frames": 3}, 3, 93.724),
    "c444": ({"sub": "444", "frames": 3}, 3, 93.724),
    "p10_50x48": ({"size": (50, 48), "depth": 10, "frames": 3}, 3, 90.433),
    "p12": ({"depth": 12}, 6, 95.206),
    "one_frame": ({"frames": 1}, 1, 88.470),
}


@pytest.fixture
def pairs(tmp_path) -> Pairs:
    return Pairs(tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> dict:
    """The report of the plain pair."""
    pairs = Pairs(tmp_path_factory.mktemp("plain"))
    return pairs.score(*pairs.pair(), frames=6)


@pytest.mark.parametrize("name", KNOWN)
def test_known_pairs_have_their_known_scores(pairs, name):
    more, frames, score = KNOWN[name]
    assert mean(pairs.score(*pairs.pair(**more), frames=frames)) == pytest.approx(score, abs=NEAR)


@pytest.mark.parametrize("name", ["plain", "c422", "p10_50x48", "p12"])
def test_raw_clips_score_like_y4m_clips(pairs, name):
    more, frames, _score = KNOWN[name]
    width, height = more.get("size", (64, 48))
    form = (
        "-w",
        str(width),
        "-h",
        str(height),
        "-p",
        more.get("sub", "420"),
        "-b",
        str(more.get("depth", 8)),
    )
    assert pairs.score(*pairs.raw_pair(**more), *form, frames=frames) == pairs.score(*pairs.pair(**more))


@pytest.mark.parametrize(
    "other",
    [
        {"rate": "F50:1"},
        {"rate": "F30000:1001"},
        {"rate": "F1:100"},
        {"interlace": "I?"},
        {"interlace": ""},
        {"tag": "C420mpeg2"},
        {"tag": "C420jpeg"},
        {"tag": ""},
        {"extra": "XCOLORRANGE=LIMITED"},
        {"extra": "Xnote=one Xother"},
        {"extra": "X" + "y" * 78},
        {"marker": b"FRAME Ip Xnote=1\n"},
        {"marker": b"FRAME " + b"x" * 73 + b"\n"},
    ],
    ids=str,
)
def test_what_a_header_says_of_other_things_changes_nothing(pairs, plain, other):
    assert pairs.score(*pairs.pair(other=other)) == plain
    ref, dis = pairs.pair(**other)
    assert pairs.score(ref, dis) == plain


def test_a_header_of_the_greatest_length_is_read(pairs, plain):
    def filled(*, distorted):
        header = y4m(distorted=distorted).index(b"\n") + 1
        made = y4m(distorted=distorted, extra="X" + "y" * (128 - header - 2))
        assert made.index(b"\n") + 1 == 128
        return made

    ref, dis = (pairs.write(name, filled(distorted=name == "dis")) for name in ("ref", "dis"))
    assert pairs.score(ref, dis) == plain


def test_two_full_range_clips_score_like_two_limited_ones(pairs, plain):
    assert pairs.score(*pairs.pair(extra="XCOLORRANGE=FULL")) == plain


def test_a_file_is_like_itself(pairs):
    ref, _dis = pairs.pair()
    report = pairs.score(ref, ref, frames=6)
    assert mean(report) > 97
    assert mean(report, "integer_vif_scale3") == pytest.approx(1.0)


def test_the_clips_are_not_interchangeable(pairs, plain):
    ref, dis = pairs.pair()
    assert mean(pairs.score(dis, ref)) != pytest.approx(mean(plain), abs=0.01)


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_threads_do_not_change_the_score(pairs, plain, threads):
    assert pairs.score(*pairs.pair(), "--threads", threads) == plain


@pytest.mark.parametrize(("every", "scored"), [(1, 6), (2, 3), (4, 2), (5, 2), (6, 1), (100, 1)])
def test_subsampling_scores_every_nth_frame(pairs, every, scored):
    report = pairs.score(*pairs.pair(), "--subsample", str(every), frames=scored)
    assert [frame["frameNum"] for frame in report["frames"]] == list(range(0, 6, every))


@pytest.mark.parametrize(("limit", "scored"), [("0", 6), ("1", 1), ("4", 4), ("6", 6), ("99", 6)])
def test_the_number_of_frames_can_be_limited(pairs, limit, scored):
    report = pairs.score(*pairs.pair(), "--frame_cnt", limit, frames=scored)
    assert report == pairs.score(*pairs.pair(frames=scored))


def test_a_shorter_clip_ends_the_run_as_with_a_stock_command(pairs):
    ref, dis = pairs.pair(other={"frames": 4})
    ended = pairs.run(ref, dis)
    assert ended.status == 0
    assert f'"{dis}" ended before "{ref}".' in ended.err
    report = report_of(pairs.folder / "report.json", frames=4)
    assert mean(report) == pytest.approx(94.516, abs=NEAR)
    assert mean(pairs.score(*pairs.pair(), "--frame_cnt", "4", frames=4)) == mean(report)
    more = pairs.pair(frames=4, other={"frames": 6})
    assert mean(pairs.score(*more, frames=4)) == mean(report)


# ---------------------------------------------------------------- models and features


def test_the_default_model_is_that_of_a_stock_command(pairs, plain):
    assert pairs.score(*pairs.pair(), "-m", "version=vmaf_v0.6.1") == plain


def test_other_built_in_models_can_be_chosen_and_named(pairs, plain):
    report = pairs.score(
        *pairs.pair(), "-m", "version=vmaf_v0.6.1", "--model=version=vmaf_v0.6.1neg:name=neg"
    )
    assert mean(report) == mean(plain)
    assert mean(report, "neg") == pytest.approx(92.136, abs=NEAR)


def test_settings_of_a_model_reach_it(pairs, plain):
    gain = "adm.adm_enhn_gain_limit=1.0:vif.vif_enhn_gain_limit=1.0"
    neg = pairs.score(*pairs.pair(), "-m", "version=vmaf_v0.6.1neg")
    assert mean(pairs.score(*pairs.pair(), "-m", f"version=vmaf_v0.6.1:{gain}")) == mean(neg)
    transformed = pairs.score(*pairs.pair(), "-m", "version=vmaf_v0.6.1:enable_transform")
    assert mean(transformed) > mean(plain) + 1
    clipless = pairs.score(*pairs.pair(), "-m", "version=vmaf_v0.6.1:disable_clip=true")
    assert mean(clipless) == pytest.approx(mean(plain), abs=0.01)


def test_a_model_that_the_library_does_not_have_is_named(pairs):
    ended = pairs.run(*pairs.pair(), "-m", "version=vmaf_v9.9.9")
    assert ended.status not in {0, 1}
    assert "could not load libvmaf model with version: vmaf_v9.9.9" in ended.err
    assert not (pairs.folder / "report.json").read_bytes()


def test_features_are_added_to_the_report(pairs):
    report = pairs.score(*pairs.pair(), "--feature", "psnr=enable_mse=true", "--feature", "float_ssim")
    assert {"psnr_y", "psnr_cb", "mse_y", "float_ssim"} <= set(report["pooled_metrics"])


def test_a_value_that_a_feature_cannot_have_is_an_error(pairs):
    assert pairs.run(*pairs.pair(), "--feature", "psnr=enable_mse=maybe").status not in {0, 1}


# ---------------------------------------------------------------- reports


def test_each_format_of_a_report_can_be_written(pairs, plain):
    ref, dis = pairs.pair()
    texts = {}
    for form in ("xml", "csv", "sub", "json"):
        out = pairs.folder / form
        assert engine("-r", ref, "-d", dis, f"--{form}", "-o", str(out)).status == 0
        texts[form] = out.read_text()
    assert report_of(pairs.folder / "json") == plain
    assert len(ET.fromstring(texts["xml"]).findall(".//frame")) == 6
    assert len([row for row in csv.DictReader(io.StringIO(texts["csv"])) if row["Frame"]]) == 6
    assert texts["sub"].count("{") == 12


def test_xml_is_written_when_no_format_is_chosen(pairs):
    ref, dis = pairs.pair()
    out = pairs.folder / "report"
    assert engine("--reference", ref, "--distorted", dis, "--output", str(out)).status == 0
    assert ET.fromstring(out.read_text()).tag == "VMAF"


def test_a_report_replaces_an_older_longer_one(pairs, plain):
    (pairs.folder / "report.json").write_text("x" * 100_000)
    assert pairs.score(*pairs.pair()) == plain


def test_a_report_may_go_to_a_pipe(pairs, plain):
    ref, dis = pairs.pair()
    reader, writer = os.pipe()
    ended = engine("-r", ref, "-d", dis, "--json", "-o", f"/dev/fd/{writer}", descriptors=(writer,))
    os.close(writer)
    with os.fdopen(reader, "rb") as end:
        (pairs.folder / "copy").write_bytes(end.read())
    assert ended.status == 0
    assert report_of(pairs.folder / "copy") == plain


def test_without_a_report_the_score_is_told(pairs, plain):
    ref, dis = pairs.pair()
    ended = engine("-r", ref, "-d", dis)
    assert ended.status == 0
    assert f"VMAF score: {mean(plain):f}" in ended.err


def test_a_report_that_cannot_be_written_fails_before_any_work(pairs):
    ref, dis = pairs.pair()
    ended = engine("-r", ref, "-d", dis, "-o", str(pairs.folder / "missing" / "report"))
    assert ended.refusal.startswith("--output: ")


# ---------------------------------------------------------------- names


def test_clips_and_models_may_have_any_name(pairs):
    single = pairs.score(*pairs.pair(frames=1))
    places = [pairs.folder / kind for kind in ("ref", "dis", "model")]
    for place in places:
        place.mkdir()
    names = plant(places[0], clip(distorted=False, frames=1))
    assert plant(places[1], clip(distorted=True, frames=1)) == plant(places[2], built_in_model()) == names
    for name in names:
        model = "".join("\\" + char if char in "\\:=" else char for char in str(places[2] / name.name))
        pair = (f"ref/{name.name}", str(places[1] / name.name))
        assert pairs.score(*pair, "-m", f"path={model}", cwd=pairs.folder) == single, name
    assert not list(pairs.folder.rglob("made-by-shell"))


@pytest.mark.parametrize("part", ["slopes", "model", "feature_names"])
def test_an_incomplete_model_gives_no_score(pairs, part):
    content = json.loads(built_in_model())
    del content["model_dict"][part]
    model = pairs.write("model.json", json.dumps(content).encode())
    assert pairs.run(*pairs.pair(), "-m", f"path={model}").refusal == f'--model: "{model}": malformed: {part}'


def test_what_only_the_library_sees_in_a_model_is_an_error_too(pairs):
    content = json.loads(built_in_model())
    content["model_dict"]["model"] = content["model_dict"]["model"][:500]
    model = pairs.write("model.json", json.dumps(content).encode())
    ended = pairs.run(*pairs.pair(), "-m", f"path={model}")
    assert ended.status not in {0, 1, 255}
    assert "could not load libvmaf model" in ended.err


def test_a_clip_whose_name_looks_like_an_option_can_be_given(pairs, plain):
    shutil.copy(pairs.pair()[0], pairs.folder / "-x")
    ended = engine("--reference=-x", "-ddis.y4m", "--json", "-o", "--json", cwd=pairs.folder)
    assert ended.status == 0, ended
    assert report_of(pairs.folder / "--json") == plain


def test_a_clip_may_be_an_open_descriptor_wherever_its_position_is(pairs, plain):
    ref, dis = pairs.pair()
    with Path(ref).open("rb") as first, Path(dis).open("rb") as second:
        first.seek(1000)
        second.seek(0, os.SEEK_END)
        numbers = (first.fileno(), second.fileno())
        report = pairs.score(*(f"/dev/fd/{n}" for n in numbers), descriptors=numbers)
        assert (first.tell(), second.tell()) == (1000, len(clip(distorted=True)))
    assert report == plain


def test_a_clip_may_be_a_link(pairs, plain):
    ref, dis = pairs.pair()
    (pairs.folder / "link").symlink_to(ref)
    assert pairs.score(str(pairs.folder / "link"), dis) == plain


def test_streams_score_bit_for_bit_like_files(pairs, plain):
    for rate in ("F25:1", "F50:1", "F30000:1001"):
        ended = through_pipes(clip(distorted=False), clip(distorted=True, rate=rate), pairs.folder / "report")
        assert ended.status == 0, ended
        assert report_of(pairs.folder / "report") == plain
