"""The engine becomes FFmpeg: one process, with the signals and descriptors of a scorer (ADR 0009)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clips import PLAIN_SCORE
from tests.engine import ENGINE, GUARD_S, Pairs, clip, engine, mean, report_of
from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
ENGINE_FILE = ENGINE[-1]


@pytest.fixture
def pairs(tmp_path) -> Pairs:
    return Pairs(tmp_path)


@pytest.fixture
def waiting(tmp_path):
    """An engine that became FFmpeg and waits for the rest of its reference."""
    reader, writer = os.pipe()
    progress, told = os.pipe()
    dis = Pairs(tmp_path).pair()[1]
    child = subprocess.Popen(
        [
            *ENGINE,
            "-r",
            f"/dev/fd/{reader}",
            "-d",
            dis,
            "--progress-fd",
            str(told),
            "-o",
            str(tmp_path / "out"),
        ],
        pass_fds=[reader, told],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reader)
    os.close(told)
    os.write(writer, clip(distorted=False, frames=3))
    with os.fdopen(progress, "rb") as lines, os.fdopen(writer, "wb", buffering=0) as reference:
        assert lines.readline().startswith(b"frame=")  # only FFmpeg writes this
        yield child, reference
        child.kill()
        child.wait()


@LINUX
def test_ffmpeg_is_the_process_that_was_started(waiting):
    child, _reference = waiting
    assert Path(f"/proc/{child.pid}/exe").readlink() == Path(ffmpeg_path()).resolve()
    assert Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text() == ""


@LINUX
def test_ffmpeg_inherits_nothing_but_what_it_needs(waiting):
    child, _reference = waiting
    links = {path.readlink() for path in Path(f"/proc/{child.pid}/fd").iterdir()}
    files = {link.name for link in links if link.is_absolute() and link.parts[1] != "dev"}
    assert files == {"out", "dis.y4m"}


def test_sigkill_ends_it_at_once(waiting):
    child, _reference = waiting
    child.send_signal(signal.SIGKILL)
    assert child.wait(GUARD_S) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_end_is_heard_when_the_next_picture_comes(waiting, number):
    child, reference = waiting
    child.send_signal(number)
    with contextlib.suppress(BrokenPipeError):
        while child.poll() is None:
            reference.write(clip(distorted=False)[-4614:])
    assert child.wait(GUARD_S) == 255


def test_progress_tells_frames_and_the_end(pairs):
    ref, dis = pairs.pair()
    reader, writer = os.pipe()
    ended = engine("-r", ref, "-d", dis, "--progress-fd", str(writer), descriptors=(writer,))
    os.close(writer)
    with os.fdopen(reader, "rb") as end:
        lines = end.read().decode("ascii").splitlines()
    assert ended.status == 0
    frames = [int(line.removeprefix("frame=")) for line in lines if line.startswith("frame=")]
    assert frames == sorted(frames)
    assert frames[-1] == 6
    assert lines[-1] == "progress=end"


def test_a_reader_of_progress_that_goes_away_does_not_end_the_run(pairs):
    ref, dis = pairs.pair()
    reader, writer = os.pipe()
    os.close(reader)
    report = pairs.score(ref, dis, "--progress-fd", str(writer), descriptors=(writer,), frames=6)
    os.close(writer)
    assert mean(report) == pytest.approx(PLAIN_SCORE, abs=0.05)


@LINUX
def test_a_report_cut_by_a_limit_on_file_size_does_not_end_in_success(pairs):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    assert pairs.run(*pairs.pair(), before=limit).status not in {0, 1}


def test_the_environment_makes_no_files(pairs, tmp_path):
    before = {path.name for path in tmp_path.iterdir()}
    environment = {"FFREPORT": "file=log.txt:level=48", "AV_LOG_FORCE_COLOR": "1"}
    ended = pairs.run(*pairs.pair(), "-m", "version=nope", environment=environment, cwd=tmp_path)
    assert ended.status not in {0, 1}
    assert "\x1b" not in ended.err
    assert {path.name for path in tmp_path.iterdir()} == before | {"ref.y4m", "dis.y4m", "report.json"}


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_closed_standard_descriptors_do_no_harm(pairs, closed):
    def close():
        for descriptor in closed:
            os.close(descriptor)

    report = pairs.score(*pairs.pair(), before=close, frames=6)
    assert mean(report) == pytest.approx(PLAIN_SCORE, abs=0.05)


def test_a_terminal_sees_progress_unless_it_is_to_be_quiet(pairs):
    ref, dis = pairs.pair()
    for options, seen in (((), True), (("-q",), False)):
        master, terminal = os.openpty()
        fcntl.fcntl(master, fcntl.F_SETFL, os.O_NONBLOCK)
        done = subprocess.run(
            [*ENGINE, "-r", ref, "-d", dis, "-o", str(pairs.folder / "out"), *options],
            stderr=terminal,
            timeout=GUARD_S,
            check=False,
        )
        try:
            shown = os.read(master, 10_000)
        except BlockingIOError:
            shown = b""
        os.close(master)
        os.close(terminal)
        assert done.returncode == 0
        assert (b"frame=" in shown) == seen


def test_the_console_script_is_the_same_program(pairs):
    program = Path(sys.executable).with_name("vmafx-vmaf")
    if not program.exists():
        pytest.skip("the package is not installed here")
    ref, dis = pairs.pair()
    out = pairs.folder / "out"
    done = subprocess.run([program, "-r", ref, "-d", dis, "--json", "-o", out], timeout=GUARD_S, check=False)
    assert done.returncode == 0
    assert report_of(out) == pairs.score(ref, dis)


def test_refusals_come_from_the_program_as_from_its_parts(pairs):
    assert engine("--nope").misuse == '"--nope": unknown option'
    assert "odd size 35x27" in pairs.run(*pairs.pair(size=(35, 27))).refusal
    assert "videos are incompatible" in pairs.run(*pairs.pair(other={"depth": 10})).refusal
    assert engine("--version").status == 0


def test_only_the_domain_and_the_standard_library_are_imported():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", ENGINE_FILE, "-r", "a", "-d", "b"],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    names = {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    ours = {name for name in names if name.startswith("vmafx.")}
    assert {n for n in ours if not n.startswith("vmafx.domain")} == {
        "vmafx.adapters",
        "vmafx.adapters.vmaf_cli",
        *(f"vmafx.adapters.vmaf_cli.engine_{part}" for part in PARTS),
    }
    assert {n for n in ours if n.startswith("vmafx.domain.")} <= {
        f"vmafx.domain.{part}" for part in ("errors", "text", "version", "y4m")
    }
    assert {"argparse", "json", "pathlib", "subprocess", "asyncio", "imageio_ffmpeg"}.isdisjoint(names)


PARTS = ("arguments", "clips", "command", "features", "ffmpeg", "files", "options", "run")
