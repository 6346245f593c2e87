"""What the engine says when FFmpeg does not take over, and what FFmpeg is given when it does (ADR 0009)."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.engine import Pairs, whole_model
from vmafx.adapters.vmaf_cli import engine_run
from vmafx.adapters.vmaf_cli.engine_options import USAGE
from vmafx.domain.errors import ScorerUnavailableError

SIGNALS = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)


class Replaced(BaseException):
    """FFmpeg took over."""

    def __init__(self, path, words, environment):
        self.path, self.words, self.environment = path, words, environment
        self.signals = {number: signal.getsignal(number) for number in SIGNALS}
        named = re.findall(r"/dev/fd/(\d+)", " ".join(words).replace("\\", ""))
        self.inherited = {int(fd) for fd in named if os.get_inheritable(int(fd))}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """FFmpeg does not really take over, and the signals of the test's own process stay as they are."""

    def replace(path, words, environment):
        raise Replaced(path, words, environment)

    monkeypatch.setattr(engine_run.os, "execve", replace)
    kept = {n: signal.getsignal(n) for n in SIGNALS}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def pairs(tmp_path):
    return Pairs(tmp_path)


def replaced(*arguments) -> Replaced:
    before = descriptors()
    with pytest.raises(Replaced) as caught:
        engine_run.run(arguments)
    caught.value.files = {str(Path(f"/dev/fd/{fd}").readlink()) for fd in caught.value.inherited}
    for fd in descriptors() - before:  # FFmpeg would own them now
        with contextlib.suppress(OSError):
            os.close(fd)
    return caught.value


def descriptors() -> set[int]:
    return {int(link.name) for link in Path("/dev/fd").iterdir()}


def test_ffmpeg_gets_report_and_model_as_inherited_descriptors(pairs, tmp_path):
    ref, dis = pairs.pair()
    model = pairs.write("model", json.dumps(whole_model()).encode())
    got = replaced("-r", ref, "-d", dis, "-o", str(tmp_path / "report"), "-m", f"path={model}")
    assert got.words[0] == got.path
    assert len(got.inherited) == 2
    assert got.files == {model, str(tmp_path / "report")}
    assert got.environment["LC_ALL"] == "C"


def test_ffmpeg_has_the_signals_that_a_shell_would_give_it(pairs):
    ref, dis = pairs.pair()
    assert set(replaced("-r", ref, "-d", dis).signals.values()) == {signal.SIG_DFL}


def test_an_interrupt_ends_the_checks_without_a_traceback(monkeypatch):
    seen = []
    monkeypatch.setattr(
        engine_run, "read_options", lambda _: seen.append(signal.getsignal(signal.SIGINT)) or {}
    )
    assert engine_run.run([]) == 1
    assert seen == [signal.SIG_DFL]


def test_misuse_shows_the_usage_text_and_then_the_reason(capfd):
    assert engine_run.run(["--nope"]) == 1
    assert capfd.readouterr().err == f'{USAGE}\nvmafx-vmaf: "--nope": unknown option\n'


def test_help_shows_the_usage_text_and_succeeds(capfd):
    assert engine_run.run(["--help"]) == 0
    assert capfd.readouterr() == (USAGE, "")


def test_any_other_failure_is_one_line(capfd, pairs):
    assert engine_run.run(["-r", "missing\n\x1b[2J", "-d", "x"]) == 255
    assert capfd.readouterr() == (
        "",
        'vmafx-vmaf: could not open file "missing\\n\\x1b[2J": No such file or directory\n',
    )


def test_a_missing_engine_is_told_in_one_line(capfd, monkeypatch):
    def missing():
        raise ScorerUnavailableError("VMAFX_VMAF_BINARY", "not here")

    monkeypatch.setattr(engine_run, "ffmpeg_path", missing)
    for arguments in (["--version"], ["-r", "a", "-d", "b"]):
        assert engine_run.run(arguments) == 255
        assert capfd.readouterr().err == "vmafx-vmaf: VMAFX_VMAF_BINARY: not here\n"


def test_the_version_needs_libvmaf(capfd, monkeypatch):
    monkeypatch.setattr(engine_run, "ffmpeg_path", lambda: "/bin/true")
    assert engine_run.run(["-v"]) == 255
    assert "has no libvmaf (true)" in capfd.readouterr().err


def test_the_version_names_the_engine_and_its_ffmpeg(capfd):
    assert engine_run.run(["-q", "--version", "--json"]) == 0
    assert capfd.readouterr().err.startswith("vmafx-vmaf 0.")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), '"{dis}" ended before "{ref}". 4 of 6 frames are scored.\n'),
        (("--frame_cnt", "5"), '"{dis}" ended before "{ref}". 4 of 6 frames are scored.\n'),
        (("--frame_cnt", "4"), ""),
    ],
)
def test_the_clip_that_ends_first_is_named(capfd, pairs, options, told):
    ref, dis = pairs.pair(other={"frames": 4})
    replaced("-r", ref, "-d", dis, *options)
    assert capfd.readouterr().err == told.format(ref=ref, dis=dis)
    replaced("-r", dis, "-d", ref, *options)
    assert capfd.readouterr().err == told.format(ref=ref, dis=dis)


def test_clips_of_one_length_need_no_words(capfd, pairs):
    replaced("-r", pairs.pair()[0], "-d", pairs.pair()[1])
    assert capfd.readouterr().err == ""


def test_progress_needs_a_descriptor_that_can_be_written_to(capfd, pairs):
    ref, dis = pairs.pair()
    reader, writer = os.pipe()
    assert "-progress" in replaced("-r", ref, "-d", dis, "--progress-fd", str(writer)).words
    assert engine_run.run(["-r", ref, "-d", dis, "--progress-fd", str(reader)]) == 255
    assert "cannot be written to" in capfd.readouterr().err
    os.close(reader)
    os.close(writer)
    assert engine_run.run(["-r", ref, "-d", dis, "--progress-fd", str(writer)]) == 255
    assert f"--progress-fd: descriptor {writer} is not open" in capfd.readouterr().err


def test_a_refused_run_leaves_no_stale_report(pairs, tmp_path):
    report = Path(pairs.write("report", b"stale"))
    assert engine_run.run(["-r", "missing", "-d", "missing", "-o", str(report)]) == 255
    assert report.read_bytes() == b""


def test_a_command_line_that_is_refused_touches_nothing(pairs):
    report = Path(pairs.write("report", b"kept"))
    assert engine_run.run(["-r", "a", "-d", "b", "-o", str(report), "--nope"]) == 1
    assert report.read_bytes() == b"kept"


@pytest.mark.parametrize("later", [0, 1])
def test_a_descriptor_that_was_never_open_names_no_file_of_the_engine(capfd, pairs, tmp_path, later):
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)  # the engine's next file gets this number
    ref, _dis = pairs.pair()
    number = lowest + later
    assert engine_run.run(["-r", ref, "-d", f"/dev/fd/{number}", "-o", str(tmp_path / "out")]) == 255
    assert f'"/dev/fd/{number}": No such file or directory' in capfd.readouterr().err
