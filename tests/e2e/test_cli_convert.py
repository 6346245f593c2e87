"""A video that is no Y4M: the command that is shown makes one, whatever the names, and that scores."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.e2e.program import HANG_S
from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Containers with the same short video, whose frames are at uneven times."""
    folder = tmp_path_factory.mktemp("videos")
    made = {}
    for ending, more in (
        ("mp4", ["-c:v", "libx264"]),
        ("mkv", ["-c:v", "libx264"]),
        ("avi", ["-c:v", "mpeg4"]),
    ):
        path = folder / f"video.{ending}"
        times = [] if ending == "avi" else ["-vf", "setpts=N*N/(25*TB)", "-fps_mode", "passthrough"]
        command = [ffmpeg_path(), "-nostdin", "-loglevel", "error", "-f", "lavfi"]
        command += [
            "-i",
            "testsrc2=size=176x144:rate=25:duration=0.24",
            *times,
            *more,
            "-pix_fmt",
            "yuv420p",
            path,
        ]
        subprocess.run(command, check=True, timeout=HANG_S)
        made[ending] = path.read_bytes()
    return made


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plain.mp4", "MP4"),
        ("two words & 'quotes' $(id).mkv", "Matroska or WebM"),
        ("-dash.avi", "AVI"),
        ("new\nline\x1b[31m.mp4", "MP4"),
        ("100%d.mp4", "MP4"),
        ("12:34.mkv", "Matroska or WebM"),
        ("liar.y4m", "MP4"),
    ],
)
def test_the_command_that_is_shown_makes_a_clip_that_scores(program, videos, name, kind):
    ending = {"MP4": "mp4", "AVI": "avi"}.get(kind, "mkv")
    program.write(name, videos[ending])
    done = program.run("score", "--", name, name)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"not Y4M: it is {kind}" in done.stderr
    command = done.stderr.split("to make a Y4M of it: ")[1]
    subprocess.run(
        ["bash", "-c", command],
        cwd=program.folder,
        capture_output=True,
        check=True,
        timeout=HANG_S,
        stdin=subprocess.DEVNULL,
    )
    target = f"{name}.y4m" if name.endswith(".y4m") else f"{name.rpartition('.')[0]}.y4m"
    scored = program.run("score", "--json", "--", target, target)
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["frames"] == 6


def test_an_ffmpeg_on_the_path_is_shown_by_its_name(program, videos):
    (program.folder / "bin").mkdir()
    tool = program.folder / "bin" / "ffmpeg"
    tool.write_text("#!/bin/sh\n", encoding="utf-8")
    tool.chmod(0o755)
    program.write("a.mp4", videos["mp4"])
    done = program.call("score", "a.mp4", "ref.y4m", PATH=f"{tool.parent}:/usr/bin:/bin")
    assert "to make a Y4M of it: ffmpeg -i file:a.mp4 " in done.stderr


def test_a_clip_that_is_nothing_known_gets_no_command(program):
    program.write("page.html", b"<html></html>")
    assert "to make a Y4M" not in program.call("score", "page.html", "ref.y4m").stderr
