"""`vmafx score` and bad input: one line, exit code 1 or 2, no number, nothing left (ADR 0015)."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess

import pytest

from tests import clips
from tests.e2e.program import VMAFX
from tests.reports import made


@pytest.fixture(autouse=True)
def _scorer(fake):
    """No clip here gets as far as a scorer."""


def refused(program, *arguments, code=1, lines=1, **environment):
    done = program.call(*arguments, **environment)
    assert done.returncode == code, done.stderr
    assert not done.stdout
    assert len(done.stderr.splitlines()) == lines, done.stderr
    assert "Traceback" not in done.stderr
    assert program.leftovers() == []
    return done.stderr


@pytest.fixture(scope="module")
def bad():
    """Clips that cannot be scored against the plain reference, by name."""
    dis = clips.y4m(distorted=True)
    return {
        "empty": (b"", "empty: 0 bytes"),
        "page": (b"<html>please sign in</html>", "not Y4M"),
        "magic": (clips.y4m(distorted=True, magic="YUV4MPEG1"), "not Y4M"),
        "no-newline": (clips.y4m(distorted=True, frames=0, end=""), "damaged Y4M header"),
        "no-rate": (clips.y4m(distorted=True, rate=""), "no frame rate"),
        "header-only": (clips.y4m(distorted=True, frames=0), "no frames"),
        "interlaced": (clips.y4m(distorted=True, interlace="It"), "interlaced"),
        "cut-frame": (dis[:-100], "partial frame"),
        "cut-marker": (dis[: -clips.SIZE[0] * clips.SIZE[1] * 3 // 2 - 3], "partial frame"),
        "fewer": (clips.y4m(distorted=True, frames=4), "4"),
        "more": (clips.y4m(distorted=True, frames=8), "8"),
        "size": (clips.y4m(distorted=True, size=(48, 64)), "48x64"),
        "depth": (clips.y4m(distorted=True, depth=10), "10 bit"),
        "chroma": (clips.y4m(distorted=True, sub="444"), "4:4:4"),
        "range": (clips.y4m(distorted=True, extra="XCOLORRANGE=FULL"), "full range"),
        "huge": (clips.y4m(distorted=True, frames=0).replace(b"W64 H48", b"W65536 H65536"), "not supported"),
        "mkv": (b"\x1a\x45\xdf\xa3" + bytes(600), "it is Matroska or WebM"),
        "avi": (b"RIFF" + bytes(600), "it is AVI"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "empty", "page", "magic", "no-newline", "no-rate", "header-only", "interlaced", "cut-frame",
        "cut-marker", "fewer", "more", "size", "depth", "chroma", "range", "huge", "mkv", "avi",
    ],
)  # fmt: skip
def test_a_clip_that_cannot_be_scored_is_refused_by_name(program, bad, name):
    data, words = bad[name]
    program.write(f"{name}.y4m", data)
    err = refused(program, "score", "ref.y4m", f"{name}.y4m")
    assert f'"{name}.y4m"' in err
    assert words in err


def test_a_missing_clip_is_named_as_it_was_written(program):
    assert '"./no/such.y4m": cannot be read: No such file' in refused(
        program, "score", "./no/such.y4m", "dis.y4m"
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "directory"),
        (os.mkfifo, "pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "device"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "No such file"),
    ],
    ids=["folder", "pipe", "device", "loop", "dangling"],
)
def test_what_is_no_regular_file_is_refused_at_once(program, make, words):
    make(program.folder / "odd.y4m")
    for arguments in (("odd.y4m", "dis.y4m"), ("ref.y4m", "odd.y4m")):
        err = refused(program, "score", *arguments)
        assert '"odd.y4m"' in err
        assert words in err


def test_a_name_with_escape_sequences_is_shown_escaped(program):
    name = "\x1b]0;title\x07\x1b[31m\nred.y4m"
    err = refused(program, "score", name, "dis.y4m")
    assert r"\x1b]0;title\x07\x1b[31m\nred.y4m" in err


def test_a_name_that_is_no_utf8_is_shown_escaped(program):
    assert r"caf\xe9.y4m" in refused(program, "score", os.fsdecode(b"caf\xe9.y4m"), "dis.y4m")


def test_the_program_itself_says_one_line_and_ends_with_1(program):
    done = program.run("score", b"caf\xe9\n.y4m", "dis.y4m")
    assert done.returncode == 1
    assert not done.stdout
    assert done.stderr == 'vmafx: "caf\\xe9\\n.y4m": cannot be read: No such file or directory\n'


def test_no_name_at_all_is_a_usage_error(program):
    assert "empty" in refused(program, "score", "ref.y4m", "", code=2)


def test_an_unknown_option_is_a_usage_error(program):
    assert "--thread" in refused(program, "score", "--thread", "2", "ref.y4m", "dis.y4m", code=2)


def test_a_working_folder_that_is_gone_is_named(program):
    gone = program.folder / "gone"
    gone.mkdir()
    command = f"cd {shlex.quote(str(gone))} && rmdir ../gone && exec {shlex.quote(str(VMAFX))} score r d"
    done = subprocess.run(
        ["sh", "-c", command], env=program.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]  # a shell that starts the program may complain first
    assert told == "vmafx: the working directory cannot be found: No such file or directory"


def test_wrong_settings_are_all_named_at_once(program):
    wrong = {
        "VMAFX_BACKEND": "auto",
        "VMAFX_BACKEND_UNVERIFIED": "maybe",
        "VMAFX_LENGTH_MISMATCH": "longest",
        "VMAFX_SCORE_TIMEOUT": "ten",
        "VMAFX_SCORE_THREADS": "0",
    }
    err = refused(program, "score", "ref.y4m", "dis.y4m", code=2, lines=5, **wrong)
    for line, (name, value) in zip(err.splitlines(), wrong.items(), strict=True):
        assert line.startswith(f'vmafx: {name}="{value}" ')


@pytest.mark.parametrize("name", ["VMAFX_VMAF_BINARY", "VMAF_BIN"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/no/such/vmaf", "No such file"),
        ("/tmp", "a directory"),
        ("/etc/passwd", "not executable"),
    ],
)
def test_a_scorer_that_cannot_be_run_is_never_replaced(program, name, value, words):
    program.environment.pop("VMAFX_VMAF_BINARY")
    err = refused(program, "score", "ref.y4m", "dis.y4m", **{name: value})
    assert err.startswith(f"vmafx: {name}: ")
    assert words in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VMAFX_VMAF_BINARY", "vmaf"),
        ("VMAF_BIN", "./vmaf"),
        ("VMAFX_DEFAULT_MODEL", "../x"),
        ("VMAFX_DEFAULT_MODEL", "a b"),
    ],
)
@pytest.mark.parametrize("command", [("score", "ref.y4m", "dis.y4m"), ("doctor",)], ids=lambda c: c[0])
def test_a_value_that_can_never_be_right_is_a_usage_error(program, command, name, value):
    assert refused(program, *command, code=2, **{name: value}).startswith(f"vmafx: {name}")


@pytest.mark.parametrize("name", ["../x", "a b", "", "/etc/passwd", "-x", "..", "a..b"])
def test_a_model_is_never_a_path(program, name):
    assert "--model" in refused(program, "score", f"--model={name}", "ref.y4m", "dis.y4m", code=2)


def test_a_misspelt_setting_is_told_beside_the_error(program):
    err = refused(program, "score", "no", "no", lines=2, VMAFX_SCORE_TIMEOT="1s")
    assert "VMAFX_SCORE_TIMEOT is not a setting, and is ignored; did you mean VMAFX_SCORE_TIMEOUT?" in err


def test_a_missing_model_folder_is_named(program):
    err = refused(program, "score", "ref.y4m", "dis.y4m", VMAFX_MODEL_DIR="/no/such")
    assert err.startswith("vmafx: VMAFX_MODEL_DIR: ")


@pytest.mark.parametrize(
    "report", ["nan_token", "missing_pooled", "five_of_six_frames", "cut_short", "empty"]
)
def test_a_report_that_cannot_be_believed_gives_no_score(program, fake, report):
    path = program.folder / "bad.json"
    path.write_bytes(made(report))
    program.call("score", "ref.y4m", "dis.y4m")  # the self-test passes first
    fake.tell(report=str(path))
    refused(program, "score", "ref.y4m", "dis.y4m")


@pytest.mark.parametrize("mode", ["no_report", "fails", "dies", "fails_after_report"])
def test_a_scorer_that_fails_gives_no_score(program, fake, mode):
    program.call("score", "ref.y4m", "dis.y4m")  # the self-test passes first
    fake.tell(mode=mode, signal=signal.SIGKILL)
    done = program.call("score", "ref.y4m", "dis.y4m")
    assert done.returncode == 1
    assert not done.stdout
    assert done.stderr.startswith("vmafx: libvmaf: ")
    assert "src/vmafx" not in done.stderr
    assert program.leftovers() == []


def test_a_run_ends_by_its_own_limit(program, fake):
    program.call("score", "ref.y4m", "dis.y4m")  # the self-test passes first
    fake.tell(mode="ignores_term")
    err = refused(program, "score", "ref.y4m", "dis.y4m", VMAFX_SCORE_TIMEOUT="300ms")
    assert "300ms (VMAFX_SCORE_TIMEOUT) exceeded" in err
