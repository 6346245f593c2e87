"""Clips are checked from the header to the last frame before anything is scored (ADR 0009)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.clips import raw
from tests.engine import clip
from vmafx.adapters.vmaf_cli.engine_arguments import parse_arguments
from vmafx.adapters.vmaf_cli.engine_clips import check_pair, look_at
from vmafx.adapters.vmaf_cli.engine_options import read_options
from vmafx.domain.errors import ClipError

PLAIN = clip(distorted=False)
PICTURE = 64 * 48 * 3 // 2
RAW = ("-w", "64", "-h", "48", "-p", "420", "-b", "8")


@pytest.fixture
def check(tmp_path):
    """Check two clips given as bytes or paths; the reference is a plain clip unless given."""

    def path_of(name, data):
        if not isinstance(data, bytes):
            return str(data)
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    def check(distorted, reference=PLAIN, *options):
        paths = path_of("ref", reference), path_of("dis", distorted)
        arguments = parse_arguments(read_options(["-r", paths[0], "-d", paths[1], *options]))
        return check_pair(look_at(paths[0]), look_at(paths[1]), arguments.raw)

    return check


@pytest.fixture
def refusal(check):
    def refusal(*arguments):
        with pytest.raises(ClipError) as caught:
            check(*arguments)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refusal


def headed(header, frames=1, picture=PICTURE):
    return header + (b"FRAME\n" + bytes(picture)) * frames


def test_both_clips_are_counted(check):
    ref, dis = check(clip(distorted=True, frames=4))
    assert (ref.frames, dis.frames) == (6, 4)
    assert ref.header is not None
    assert str(ref.header) == "64x48 4:2:0 8 bit limited range"


@pytest.mark.parametrize("sub", ["420", "422", "444"])
@pytest.mark.parametrize("depth", [8, 10, 12])
def test_every_format_that_can_be_scored_passes(check, sub, depth):
    made = clip(distorted=True, sub=sub, depth=depth, frames=2)
    assert [c.frames for c in check(made, made)] == [2, 2]


@pytest.mark.parametrize("size", [(18, 18), (18, 64), (64, 18), (50, 48)])
def test_every_size_that_can_be_scored_passes(check, size):
    made = clip(distorted=True, size=size, frames=1)
    assert [c.frames for c in check(made, made)] == [1, 1]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"size": (35, 27)}, "odd size 35x27"),
        ({"size": (64, 27)}, "odd size 64x27"),
        ({"size": (35, 48), "sub": "444"}, "odd size 35x48"),
        ({"size": (16, 16)}, "size 16x16 is too small"),
        ({"size": (64, 16)}, "size 64x16 is too small"),
        ({"sub": "mono", "tag": "Cmono"}, "pixel format mono"),
        ({"sub": "411"}, "pixel format 4:1:1"),
        ({"depth": 9}, "9 bit"),
        ({"depth": 14}, "14 bit"),
        ({"depth": 16}, "16 bit"),
        ({"sub": "444", "tag": "C444alpha"}, "an alpha plane"),
        ({"tag": "C440"}, 'pixel format "C440"'),
        ({"interlace": "It"}, "interlaced"),
        ({"interlace": "Im"}, "interlaced"),
        ({"rate": ""}, "no frame rate"),
        ({"extra": "X" + "y" * 100}, "Y4M header of"),
        ({"extra": "X" + "y" * 400}, "it does not end within 256 bytes"),
        ({"magic": "YUV4MPEG1"}, "not Y4M"),
        ({"frames": 0}, "no frames"),
        ({"frames": 0, "end": ""}, "it does not end"),
    ],
    ids=str,
)
def test_what_cannot_be_scored_as_a_stock_vmaf_does_is_refused_by_name(refusal, more, named):
    made = clip(distorted=True, **({"frames": 1} | more))
    told = refusal(made, made)
    assert named in told
    assert '/ref"' in told


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"size": (48, 64)}, ("64x48", "48x64")),
        ({"depth": 10}, ("8 bit", "10 bit")),
        ({"sub": "422"}, ("4:2:0", "4:2:2")),
        ({"extra": "XCOLORRANGE=FULL"}, ("limited range", "full range")),
    ],
    ids=str,
)
def test_a_pair_that_cannot_be_compared_is_refused_with_both_formats(refusal, more, named):
    told = refusal(clip(distorted=True, **more))
    assert "videos are incompatible" in told
    assert all(name in told for name in named)


@pytest.mark.parametrize("rate", ["F50:1", "F30000:1001", "F1:100"])
def test_frame_rates_may_differ(check, rate):
    assert check(clip(distorted=True, rate=rate))[1].frames == 6


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", "empty: 0 bytes"),
        (b"<html>sign in</html>", "not Y4M"),
        (b"\x1a\x45\xdf\xa3" + bytes(99), "it is Matroska or WebM"),
        (PLAIN[:-100], "partial frame"),
        (PLAIN[: -PICTURE - 3], "partial frame"),
        (PLAIN + b"FRA", "partial frame"),
        (PLAIN + b"rubbish", "no whole number of frames"),
        (clip(distorted=True, sub="mono", tag="C420"), "no whole number of frames"),
        (headed(b"YUV4MPEG2 W65536 H65536 F25:1 Ip C420\n"), "width 65536 is not supported"),
        (headed(b"YUV4MPEG2 W99999999999999 H48 F25:1 Ip C420\n"), "is not supported: 1 to 16384"),
    ],
    ids=lambda value: value[:30].hex() if isinstance(value, bytes) else "",
)
def test_damaged_clips_are_refused_on_either_side(refusal, data, named):
    assert named in refusal(data)
    assert named in refusal(PLAIN, data)


def test_a_small_file_that_claims_a_gigantic_picture_is_refused_from_its_size(refusal):
    huge = headed(b"YUV4MPEG2 W16384 H16384 F25:1 Ip C420\n", picture=1000)
    assert "partial frame" in refusal(huge, huge)


@pytest.mark.parametrize("marker", [b"FRAME Ip Xnote=1\n", b"FRAME " + b"x" * 73 + b"\n"])
def test_frame_lines_may_have_parameters(check, marker):
    assert check(clip(distorted=True, marker=marker))[1].frames == 6


def test_a_frame_line_that_ffmpeg_cannot_read_is_refused(refusal):
    assert "no whole number of frames" in refusal(clip(distorted=True, marker=b"FRAME " + b"x" * 75 + b"\n"))


# ---------------------------------------------------------------- raw


def test_raw_clips_are_counted_by_their_size(check):
    assert [c.frames for c in check(raw(distorted=True, frames=2), raw(distorted=False), *RAW)] == [6, 2]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (bytes(PICTURE * 2 - 1), f"{PICTURE * 2 - 1} bytes are 1 pictures of {PICTURE} bytes"),
        (b"", "empty: 0 bytes"),
    ],
)
def test_raw_clips_of_another_size_are_refused(refusal, data, named):
    assert named in refusal(data, bytes(PICTURE), *RAW)


def test_a_y4m_clip_is_not_taken_for_a_raw_one(refusal):
    assert "no whole number of frames" in refusal(PLAIN, PLAIN, *RAW)


@pytest.mark.parametrize(("size", "named"), [(("35", "27"), "odd size"), (("16", "64"), "too small")])
def test_raw_clips_have_the_limits_of_y4m_clips(refusal, size, named):
    assert named in refusal(bytes(9), bytes(9), "-w", size[0], "-h", size[1], "-p", "420", "-b", "8")


# ---------------------------------------------------------------- what is under the path


def test_each_thing_that_is_no_clip_is_refused_with_its_reason(refusal, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    for path, reason in {
        tmp_path / "missing": "No such file or directory",
        tmp_path: "a directory",
        "/dev/null": "neither a regular file nor a pipe",
        tmp_path / "loop": "Too many levels of symbolic links",
        tmp_path / "dangling": "No such file or directory",
        tmp_path / ("n" * 300): "File name too long",
        "nul\0byte": "no path holds a zero byte",
    }.items():
        assert reason in refusal(path)
        assert reason in refusal(PLAIN, path)


def test_a_socket_is_refused(refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "neither a regular file nor a pipe" in refusal("socket")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_an_unreadable_file_is_refused(refusal, tmp_path):
    (tmp_path / "locked").write_bytes(PLAIN)
    (tmp_path / "locked").chmod(0)
    assert "Permission denied" in refusal(tmp_path / "locked")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file here that cannot be read")
def test_a_file_that_cannot_be_read_is_refused(refusal):
    assert "could not read file" in refusal("/proc/self/mem")


def test_a_named_pipe_is_neither_opened_nor_counted(check, tmp_path):
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    ref, dis = check(tmp_path / "pipe")
    assert (ref.frames, dis.frames, dis.header) == (6, None, None)


def test_a_pipe_is_not_read_from(check):
    reader, writer = os.pipe()
    os.write(writer, b"YUV4MPEG2")
    os.close(writer)
    assert check(f"/dev/fd/{reader}")[1].frames is None
    assert os.read(reader, 100) == b"YUV4MPEG2"
    os.close(reader)


def test_one_pipe_cannot_be_both_clips(refusal, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "are the same pipe" in refusal(tmp_path / "pipe", tmp_path / "pipe")


def test_the_position_of_a_descriptor_is_left_alone(check, tmp_path):
    with (tmp_path / "clip").open("wb+") as file:
        file.write(PLAIN)
        file.flush()
        os.lseek(file.fileno(), 7, os.SEEK_SET)
        assert check(f"/dev/fd/{file.fileno()}")[1].frames == 6
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 7


def test_no_descriptor_is_left_open(check):
    before = sorted(Path("/dev/fd").iterdir())
    check(PLAIN)
    assert sorted(Path("/dev/fd").iterdir()) == before
