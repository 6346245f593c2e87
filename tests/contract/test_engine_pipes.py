"""Clips through pipes cannot be checked before FFmpeg starts: FFmpeg refuses what differs (ADR 0009)."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from tests.clips import raw
from tests.engine import ENGINE, GUARD_S, Pairs, clip, mean, report_of, through_pipes

PLAIN = {"distorted": False}


@pytest.fixture
def report(tmp_path):
    return tmp_path / "report"


def no_score(report):
    """Whether a run left nothing that could be taken for a report."""
    return b'"vmaf"' not in report.read_bytes()


@pytest.mark.parametrize(
    ("reference", "distorted"),
    [
        ({}, {"depth": 10}),
        ({"depth": 10}, {}),
        ({"depth": 10}, {"depth": 12}),
        ({}, {"size": (48, 64)}),
        ({}, {"size": (64, 50)}),
        ({}, {"sub": "422"}),
        ({"sub": "444"}, {"sub": "422"}),
        ({}, {"extra": "XCOLORRANGE=FULL"}),
        ({"extra": "XCOLORRANGE=FULL"}, {"extra": "XCOLORRANGE=LIMITED"}),
        ({"size": (35, 27)}, {"size": (35, 27)}),
        ({"size": (16, 16)}, {"size": (16, 16)}),
        ({"sub": "mono", "tag": "Cmono"}, {"sub": "mono", "tag": "Cmono"}),
        ({"sub": "411"}, {"sub": "411"}),
        ({"depth": 9}, {"depth": 9}),
        ({"depth": 14}, {"depth": 14}),
        ({"depth": 16}, {"depth": 16}),
        ({"sub": "444", "tag": "C444alpha"}, {"sub": "444", "tag": "C444alpha"}),
        ({}, {"interlace": "It"}),
        ({"interlace": "Ib"}, {"interlace": "Ib"}),
        ({}, {"frames": 0}),
        ({"frames": 0}, {"frames": 0}),
        ({}, {"extra": "X" + "y" * 100}),
        ({}, {"magic": "NO"}),
    ],
    ids=str,
)
def test_ffmpeg_refuses_what_the_engine_could_not_look_at(report, reference, distorted):
    ended = through_pipes(clip(distorted=False, **reference), clip(distorted=True, **distorted), report)
    assert ended.status not in {0, 1}
    assert ended.err
    assert no_score(report)


@pytest.mark.parametrize("reference", [{"frames": 0}, {"interlace": "It"}], ids=str)
def test_a_reference_of_which_nothing_is_left_leaves_no_score(report, reference):
    through_pipes(clip(distorted=False, **reference), clip(distorted=True), report)
    assert no_score(report)


@pytest.mark.parametrize(
    "other", [{"extra": "XCOLORRANGE=LIMITED"}, {"interlace": "I?"}, {"interlace": ""}], ids=str
)
def test_ffmpeg_takes_what_may_differ(report, other):
    ended = through_pipes(clip(distorted=False), clip(distorted=True, **other), report)
    assert ended.status == 0, ended
    report_of(report, frames=6)


@pytest.mark.parametrize("size", [(18, 18), (18, 64), (64, 18)])
def test_the_filters_take_every_size_that_the_engine_takes(tmp_path, report, size):
    pairs = Pairs(tmp_path)
    ended = through_pipes(clip(distorted=False, size=size), clip(distorted=True, size=size), report)
    assert ended.status == 0, ended
    assert report_of(report) == pairs.score(*pairs.pair(size=size))


def test_a_pipe_and_a_file_can_be_compared_and_refused(tmp_path, report):
    pairs = Pairs(tmp_path)
    ref, _dis = pairs.pair()
    for other, good in (({}, True), ({"depth": 10}, False), ({"extra": "XCOLORRANGE=FULL"}, False)):
        reader, writer = os.pipe()
        os.write(writer, clip(distorted=True, frames=1, **other))  # fits into the pipe
        os.close(writer)
        ended = pairs.run(ref, f"/dev/fd/{reader}", descriptors=(reader,))
        os.close(reader)
        assert (ended.status == 0) == good, ended


def test_raw_pictures_come_through_pipes(report):
    form = ("-w", "64", "-h", "48", "-p", "420", "-b", "8")
    ended = through_pipes(raw(distorted=False), raw(distorted=True), report, *form)
    assert ended.status == 0, ended
    assert mean(report_of(report, frames=6)) == pytest.approx(95.227, abs=0.05)


def test_a_raw_stream_cut_within_a_picture_fails(report):
    form = ("-w", "64", "-h", "48", "-p", "420", "-b", "8")
    assert through_pipes(raw(distorted=False), raw(distorted=True)[:-100], report, *form).status not in {0, 1}


@pytest.mark.parametrize("frames", [0, 3])
def test_a_stream_that_turns_into_rubbish_fails(report, frames):
    good = clip(distorted=True, frames=frames)
    assert through_pipes(clip(distorted=False), good + b"rubbish" * 1000, report).status not in {0, 1}


def test_empty_streams_fail(report):
    assert through_pipes(b"", b"", report).status not in {0, 1}


def test_a_frame_limit_ends_the_reading_of_endless_streams(report):
    many = b"".join(clip(distorted=False)[-4614:] for _ in range(200))
    ended = through_pipes(
        clip(distorted=False) + many, clip(distorted=True) + many, report, "--frame_cnt", "6"
    )
    assert ended.status == 0, ended
    assert mean(report_of(report, frames=6)) == pytest.approx(95.227, abs=0.05)


def test_one_writer_may_fill_both_pipes_in_turn(report):
    size = (640, 480)  # a picture is larger than a pipe
    ref, dis = (clip(distorted=d, size=size, frames=2) for d in (False, True))
    header = ref.index(b"\n") + 1
    step = (len(ref) - header) // 2
    ends = [os.pipe(), os.pipe()]

    def fill():
        for at in (slice(0, header), slice(header, header + step), slice(header + step, None)):
            for (_, writer), data in zip(ends, (ref, dis), strict=True):
                rest = data[at]
                while rest:
                    rest = rest[os.write(writer, rest) :]
        for _, writer in ends:
            os.close(writer)

    child = subprocess.Popen(
        [*ENGINE, "-r", f"/dev/fd/{ends[0][0]}", "-d", f"/dev/fd/{ends[1][0]}", "--json", "-o", str(report)],
        pass_fds=[end[0] for end in ends],
    )
    for reader, _ in ends:
        os.close(reader)
    filler = threading.Thread(target=fill, daemon=True)
    filler.start()
    try:
        assert child.wait(GUARD_S) == 0
    finally:
        child.kill()
        child.wait()
        filler.join(GUARD_S)
    report_of(report, frames=2)


def test_a_named_pipe_is_waited_for_as_a_stock_command_does(tmp_path):
    paths = [tmp_path / name for name in ("ref", "dis")]
    for path in paths:
        os.mkfifo(path)
    report = tmp_path / "report"
    child = subprocess.Popen([*ENGINE, "-r", str(paths[0]), "-d", str(paths[1]), "--json", "-o", str(report)])

    def fill(path, distorted):
        path.write_bytes(clip(distorted=distorted))  # waits in its turn until FFmpeg opens the pipe

    fillers = [threading.Thread(target=fill, args=(path, path.name == "dis"), daemon=True) for path in paths]
    for filler in fillers:
        filler.start()
    try:
        assert child.wait(GUARD_S) == 0
    finally:
        child.kill()
        child.wait()
    report_of(report, frames=6)
