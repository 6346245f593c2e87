"""`vmafx score` as a user runs it, on the embedded engine."""

from __future__ import annotations

import json

import pytest

from tests import clips
from tests.names import AWKWARD

pytestmark = pytest.mark.usefixtures("engine")


def test_the_plain_pair_has_its_known_score(program):
    done = program.run("score", "ref.y4m", "dis.y4m")
    assert done.returncode == 0
    assert not done.stderr
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines())
    assert float(rows["VMAF"]) == pytest.approx(clips.PLAIN_SCORE, abs=0.05)
    assert rows["reference"] == "ref.y4m"
    assert rows["distorted"] == "dis.y4m"
    assert rows["frames"] == "6"
    assert rows["model"] == "vmaf_v0.6.1"
    assert rows["backend"] == "cpu"
    assert program.leftovers() == []


def test_json_has_every_documented_key_and_type(program):
    done = program.run("score", "--json", "--frames", "--features", "ref.y4m", "dis.y4m")
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    types = {key: type(value) for key, value in answer.items()}
    assert types == {
        "vmafx": str,
        "reference": str,
        "distorted": str,
        "score": float,
        "frames": int,
        "subsample": int,
        "model": str,
        "backend": str,
        "scorer": str,
        "reference_frames": int,
        "distorted_frames": int,
        "features": dict,
        "frame_scores": list,
    }
    assert answer["score"] == pytest.approx(clips.PLAIN_SCORE, abs=0.05)
    assert answer["features"]["vmaf"] == answer["score"]
    assert [frame["frame"] for frame in answer["frame_scores"]] == list(range(6))
    mean = sum(frame["score"] for frame in answer["frame_scores"]) / 6
    assert mean == pytest.approx(answer["score"], abs=1e-5)
    assert "integer_motion2" in answer["frame_scores"][1]["features"]


def test_a_clip_against_itself_scores_high(program):
    done = program.call("score", "--json", "ref.y4m", "ref.y4m")
    assert json.loads(done.stdout)["score"] > 97


def test_subsample_and_threads_are_used(program):
    done = program.run(
        "score", "--json", "--frames", "--subsample", "2", "--threads", "1", "ref.y4m", "dis.y4m"
    )
    answer = json.loads(done.stdout)
    assert answer["subsample"] == 2
    assert [frame["frame"] for frame in answer["frame_scores"]] == [0, 2, 4]


def test_subsample_shows_in_the_table(program):
    done = program.call("score", "--subsample", "2", "ref.y4m", "dis.y4m")
    assert "3 (one of every 2)" in done.stdout


def test_an_unknown_model_is_refused_by_name(program):
    done = program.call("score", "--model", "no_such_model", "ref.y4m", "dis.y4m")
    assert done.returncode == 1
    assert "no_such_model" in done.stderr
    assert not done.stdout


def test_another_backend_is_refused_and_never_replaced(program):
    done = program.call("score", "--backend", "cuda", "ref.y4m", "dis.y4m")
    assert done.returncode == 1
    assert not done.stdout
    assert "VMAFX_BACKEND" in done.stderr
    assert "cuda" in done.stderr


def test_shortest_is_said_and_scores_the_common_frames(program):
    program.write("short.y4m", clips.y4m(distorted=True, frames=4))
    refused = program.call("score", "ref.y4m", "short.y4m")
    assert refused.returncode == 1
    assert "6" in refused.stderr
    assert "4" in refused.stderr
    done = program.run("score", "--json", "ref.y4m", "short.y4m", env={"VMAFX_LENGTH_MISMATCH": "shortest"})
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert (answer["frames"], answer["reference_frames"], answer["distorted_frames"]) == (4, 6, 4)
    assert "different numbers of frames" in done.stderr


NAMES = [awkward for awkward in AWKWARD if awkward.what in {
    "space", "newline", "escape-sequence", "double-quotes", "substitution", "latin-1", "short-option",
    "percent", "cjk", "direction-override", "remote", "longest", "backslash",
}]  # fmt: skip


@pytest.mark.parametrize("awkward", NAMES, ids=str)
def test_an_awkward_name_is_scored_and_shown_escaped(program, awkward):
    program.write(awkward.name, clips.y4m(distorted=True))
    arguments = ["score", "--json", "--", "ref.y4m", awkward.name]
    done = program.run(*arguments)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["distorted"] == awkward.name
    assert answer["score"] == pytest.approx(clips.PLAIN_SCORE, abs=0.05)
    table = program.call("score", "--", "ref.y4m", awkward.name).stdout
    assert all(line.isprintable() for line in table.splitlines())
    assert len(table.splitlines()) == 7
    assert not (program.folder / "made-by-shell").exists()


def test_parent_folders_in_a_name_follow_links_as_the_system_does(program):
    (program.folder / "deep" / "inner").mkdir(parents=True)
    (program.folder / "link").symlink_to(program.folder / "deep" / "inner")
    program.write("deep/clip.y4m", clips.y4m(distorted=True))
    assert program.call("score", "ref.y4m", "link/../clip.y4m").returncode == 0
