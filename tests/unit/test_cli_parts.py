"""The parts of the command line that need no process: tables, quoting, exit codes, messages (ADR 0015)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.app.cli import commands, doctor, main
from vmafx.app.cli.answer import as_json, as_table
from vmafx.app.cli.arguments import DoctorArguments, ScoreArguments
from vmafx.app.cli.convert import shell_word, y4m_command
from vmafx.app.cli.exits import InterruptedRunError, OutputError, ReaderGoneError
from vmafx.app.cli.interrupts import until_signalled
from vmafx.app.cli.log import log_to_stderr
from vmafx.app.cli.progress import progress_bar
from vmafx.app.cli.streams import say, write_out
from vmafx.app.cli.table import labelled
from vmafx.app.container.checkup import Check, Checkup
from vmafx.domain.errors import ClipError, ConfigurationError, ScorerUnavailableError
from vmafx.domain.scoring import Backend, FrameScore, ScoreResult

ASKED = ScoreArguments(reference="ref.y4m", distorted="dis.y4m")
RESULT = ScoreResult(
    score=95.2269784,
    features={"vmaf": 95.2269784, "integer_adm2": 0.1 + 0.2},
    frames=2,
    model="vmaf_v0.6.1",
    scorer="vmaf 3.0.0",
    frame_scores=(
        FrameScore(frame=0, score=95.0, features={"integer_adm2": 0.1}),
        FrameScore(frame=1, score=95.4539568),
    ),
)


def columns(text):
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


NAMES = st.text(alphabet="ab/. é漢字ｶ😀e\u0301\x1b\n\u202e", max_size=60)


@given(
    rows=st.lists(st.tuples(st.sampled_from(["VMAF", "reference", "x"]), NAMES), max_size=5),
    width=st.integers(2, 90),
)
@settings(max_examples=300)
def test_no_line_of_a_table_is_wider_than_the_terminal(rows, width):
    for line in labelled(rows, width).splitlines():
        assert columns(line) <= width


@given(text=st.text(alphabet="abcdefgh/._-", min_size=1, max_size=80), width=st.integers(2, 40))
def test_folding_loses_no_character_of_a_name(text, width):
    folded = labelled([("reference", text)], width)
    assert "".join(folded.split()).removeprefix("reference") == text


@given(
    rows=st.lists(st.tuples(st.text("ab_", min_size=1, max_size=35), st.text("0123456789.", max_size=9))),
    width=st.integers(12, 60),
)
def test_a_value_stands_beside_its_name_wherever_both_fit(rows, width):
    lines = labelled(rows, width).splitlines()
    for label, text in rows:
        if len(label) + 2 + len(text) <= width:
            assert [label, *text.split()] in [line.split() for line in lines]


def test_one_long_name_does_not_disturb_the_column_of_the_others():
    rows = [("feature", "mean"), ("integer_adm2", "0.956028"), ("x" * 35, "1.5"), ("vmaf", "80.6")]
    assert labelled(rows, 36).splitlines() == [
        "feature       mean",
        "integer_adm2  0.956028",
        "x" * 35,
        "              1.5",
        "vmaf          80.6",
    ]


def test_a_table_for_no_terminal_is_one_line_a_row():
    text = labelled([("VMAF", "1"), ("reference", "x" * 500)], None)
    assert text == f"VMAF       1\nreference  {'x' * 500}\n"


def test_a_table_shows_names_escaped():
    assert labelled([("reference", "a\x1b[31m\n.y4m")], None) == "reference  a\\x1b[31m\\n.y4m\n"


def test_the_table_has_the_score_first():
    table = as_table(ASKED, RESULT, Backend.CPU, None)
    assert table.splitlines()[0].split() == ["VMAF", "95.226978"]
    assert "integer_adm2" not in table


def test_the_table_has_features_and_frames_where_asked():
    asked = ScoreArguments(reference="r", distorted="d", features=True, frames=True, subsample=3)
    table = as_table(asked, RESULT, Backend.CPU, None)
    assert ["integer_adm2", "0.300000"] in [line.split() for line in table.splitlines()]
    assert ["1", "95.453957"] in [line.split() for line in table.splitlines()]
    assert "one of every 3" in table


def test_json_keeps_every_digit_and_every_byte_of_a_name():
    name = os.fsdecode(b"caf\xc3\xa9 \xff\x1b\n\"'.y4m")
    asked = ScoreArguments(reference=name, distorted="d", features=True, frames=True)
    answer = json.loads(as_json(asked, RESULT, Backend.CPU))
    assert answer["reference"] == name
    assert answer["score"] == RESULT.score
    assert answer["features"]["integer_adm2"] == 0.1 + 0.2
    assert answer["frame_scores"] == [
        {"frame": 0, "score": 95.0, "features": {"integer_adm2": 0.1}},
        {"frame": 1, "score": 95.4539568, "features": {}},
    ]


def test_json_tells_the_frames_of_both_clips_where_they_are_known():
    counted = dataclasses.replace(RESULT, reference_frames=6, distorted_frames=2)
    answer = json.loads(as_json(ASKED, counted, Backend.CPU))
    assert (answer["frames"], answer["reference_frames"], answer["distorted_frames"]) == (2, 6, 2)


@pytest.mark.parametrize(
    ("reference", "distorted", "subsample", "shown"),
    [
        (None, None, 1, "2"),
        (2, 2, 1, "2"),
        (6, 2, 1, "2 (of 6 in the reference and 2 in the distorted)"),
        (6, 4, 2, "2 (one of every 2, of 6 in the reference and 4 in the distorted)"),
    ],
)
def test_the_table_tells_the_frames_of_both_clips_when_they_differ(reference, distorted, subsample, shown):
    result = dataclasses.replace(RESULT, reference_frames=reference, distorted_frames=distorted)
    table = as_table(dataclasses.replace(ASKED, subsample=subsample), result, Backend.CPU, None)
    assert f"frames     {shown}\n" in table


def test_json_has_only_what_was_asked_for():
    answer = json.loads(as_json(ASKED, RESULT, Backend.CPU))
    assert list(answer) == [
        "vmafx",
        "reference",
        "distorted",
        "score",
        "frames",
        "subsample",
        "model",
        "backend",
        "scorer",
    ]


NAMES = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=30
)


@given(name=NAMES)
@settings(max_examples=60)
def test_a_quoted_name_reaches_the_command_byte_for_byte(name):
    word = shell_word(name)
    assert word.isprintable() or all(not unicodedata.category(c).startswith(("C", "Zl", "Zp")) for c in word)
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=20)
    assert done.stdout == os.fsencode(name)


def test_a_name_that_is_no_utf8_is_quoted_byte_for_byte():
    name = os.fsdecode(b"-a b\xff'\\\n$(x)`y`")
    done = subprocess.run(
        ["bash", "-c", f"printf %s {shell_word(name)}"], capture_output=True, check=True, timeout=20
    )
    assert done.stdout == b"-a b\xff'\\\n$(x)`y`"


def conversion_target(clip, other="ref.y4m"):
    words = shlex.split(y4m_command(clip, other=other))
    assert words[:3] == ["ffmpeg", "-i", f"file:{clip}"]
    assert words[-1].startswith("file:")
    return words[-1].removeprefix("file:")


@pytest.mark.parametrize(
    ("clip", "other", "target"),
    [
        ("a b.mp4", "ref.y4m", "a b.y4m"),
        ("-x.mkv", "ref.y4m", "-x.y4m"),
        ("clip.y4m", "ref.y4m", "clip.y4m.y4m"),
        ("d.d/clip", "ref.y4m", "d.d/clip.y4m"),
        ("a.mp4", "a.mp4", "a.y4m"),
        ("a.mp4", "./a.mp4", "a.y4m"),
        ("a.mp4", "a.y4m", "a.mp4.y4m"),
        ("a.mp4", "./a.mkv", "a.mp4.y4m"),
    ],
)
def test_the_conversion_writes_beside_the_clip_and_never_over_an_input(clip, other, target):
    assert conversion_target(clip, other) == target


NEAR = st.lists(st.sampled_from(["a", "b", ".mp4", ".mkv", ".y4m", ".1"]), min_size=1, max_size=3).map(
    "".join
)


@given(pair=st.tuples(NEAR, NEAR).filter(lambda pair: pair[0] != pair[1]), there=st.sets(NEAR))
def test_the_conversions_of_a_pair_write_two_new_files(tmp_path_factory, pair, there):
    folder = tmp_path_factory.mktemp("pair")
    for name in (*pair, *there):
        (folder / name).touch()
    with contextlib.chdir(folder):
        targets = {conversion_target(*pair), conversion_target(*pair[::-1])}
    assert len(targets) == 2
    assert not [name for name in targets if (folder / name).exists()]


def run(*arguments, environment=None, platform="linux"):
    return main.run(arguments, environment or {}, platform=platform)


def told(monkeypatch, capsys, error, environment=None):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(commands, "execute", fail)
    code = run("score", environment=environment)
    out, err = capsys.readouterr()
    assert not out
    return code, err


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (ClipError("a", '"a": empty: 0 bytes'), 1, ['vmafx: "a": empty: 0 bytes']),
        (ScorerUnavailableError("VMAFX_BACKEND", "no"), 1, ["vmafx: VMAFX_BACKEND: no"]),
        (ConfigurationError("A", "is bad", value="x"), 2, ['vmafx: A="x" is bad']),
        (
            ConfigurationError("A", "is bad", value="x", others=(ConfigurationError("B", "is worse"),)),
            2,
            ['vmafx: A="x" is bad', "vmafx: B: is worse"],
        ),
        (OutputError("full"), 1, ["vmafx: full"]),
        (ReaderGoneError(), 1, []),
        (InterruptedRunError(signal.SIGINT), 130, ["vmafx: interrupted (SIGINT)"]),
        (InterruptedRunError(signal.SIGTERM), 143, ["vmafx: interrupted (SIGTERM)"]),
        (InterruptedRunError(signal.SIGHUP), 129, ["vmafx: interrupted (SIGHUP)"]),
        (KeyboardInterrupt(), 130, ["vmafx: interrupted (SIGINT)"]),
        (
            ZeroDivisionError("by\nzero"),
            1,
            ["vmafx: unexpected ZeroDivisionError: by zero (VMAFX_LOG_LEVEL=debug shows where it happened)"],
        ),
        (MemoryError(), 1, ["vmafx: unexpected MemoryError (VMAFX_LOG_LEVEL=debug shows where it happened)"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_its_exit_code_and_its_lines(monkeypatch, capsys, error, code, lines):
    assert told(monkeypatch, capsys, error) == (code, "".join(f"{line}\n" for line in lines))


def test_a_traceback_is_shown_to_who_asks_for_it(monkeypatch, capsys):
    code, err = told(monkeypatch, capsys, ValueError("x"), {"VMAFX_LOG_LEVEL": "DEBUG"})
    assert code == 1
    assert "Traceback" in err


def test_windows_is_refused_in_one_line(capsys):
    assert run("--version", platform="win32") == 1
    out, err = capsys.readouterr()
    assert not out
    assert err == ("vmafx: Windows is not supported; use Linux, macOS or the Windows Subsystem for Linux\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Usage: vmafx"),
        (("scroe",), "No such command"),
        (("score",), "Missing argument 'REF'"),
        (("score", "a"), "Missing argument 'DIS'"),
        (("score", "a", ""), "empty"),
        (("score", "a", "b", "c"), "unexpected extra argument"),
        (("score", "a", "b", "--thread", "1"), "No such option"),
        (("score", "a", "b", "--threads", "0"), "must be a whole number from 1 to 1024, not '0'"),
        (("score", "a", "b", "--threads", "1025"), "must be a whole number from 1 to 1024, not '1025'"),
        (("score", "a", "b", "--threads", "many"), "must be a whole number from 1 to 1024, not 'many'"),
        (("score", "a", "b", "--threads", "9" * 5000), "must be a whole number from 1 to 1024"),
        (("score", "a", "b", "--subsample", "0"), "must be a whole number from 1 to 1000000, not '0'"),
        (("score", "-a.y4m", "b"), "a clip that begins with a dash goes behind --"),
        (("score", "a", "b", "--model", "../x"), "Invalid value for '--model'"),
        (("score", "a", "b", "--model", "a b"), "Invalid value for '--model'"),
        (("score", "a", "b", "--model", ""), "Invalid value for '--model'"),
        (("completion",), "Missing argument 'SHELL'"),
        (("score", "a", "b", "--backend", "auto"), "'auto' is not one of 'cpu', 'cuda'"),
        (("score", "a", "b", "--model"), "requires an argument"),
        (("completion", "tcsh"), "'tcsh' is not one of"),
        (("score", "a", "b", "\x1b[2J"), r"\x1b[2J"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(capsys, arguments, words):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert words in err
    assert "\x1b" not in err
    assert not re.search(r"\\[nt]", err)
    if arguments:
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", [(), ("score",), ("doctor",), ("completion",)])
def test_no_line_of_the_help_is_cut(capsys, command):
    assert run(*command, "--help") == 0
    assert "..." not in capsys.readouterr().out.replace("[ARGS]...", "")


@pytest.mark.parametrize("command", ["score", "doctor"])
def test_the_help_tells_every_exit_code(capsys, command):
    assert run(command, "--help") == 0
    told = capsys.readouterr().out.split("Exit status:")[1].split("Options:")[0]
    assert re.findall(r"\b\d+\b", told) == ["0", "1", "2", "129", "130", "143"]


def test_what_was_written_is_what_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr("vmafx.app.cli.score.score", lambda arguments, _: asked.append(arguments) or 0)
    monkeypatch.setattr("vmafx.app.cli.doctor.doctor", lambda arguments, _: asked.append(arguments) or 0)
    assert run("score", "r", "d") == 0
    options = ["--threads", "2", "--subsample", "3", "--model", "m", "--backend", "hip"]
    assert run("score", "--json", "--frames", "--features", *options, "--", "-r", "d") == 0
    assert run("doctor", "--json") == 0
    assert asked == [
        ScoreArguments(reference="r", distorted="d"),
        ScoreArguments(
            reference="-r",
            distorted="d",
            model="m",
            threads=2,
            subsample=3,
            backend=Backend.HIP,
            as_json=True,
            frames=True,
            features=True,
        ),
        DoctorArguments(as_json=True),
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_the_program(capsys, shell):
    assert run("completion", shell) == 0
    assert "_VMAFX_COMPLETE" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        super().isatty()
        return True


def test_a_bar_is_shown_on_a_terminal_and_removed():
    stream = Terminal()
    with progress_bar(stream, {"TERM": "xterm"}) as progress:
        progress(1, 4)
        progress(4, 4)
    assert "1/4" in stream.getvalue()
    assert "4/4" in stream.getvalue()


def test_no_bar_before_the_first_news():
    stream = Terminal()
    with progress_bar(stream, {"TERM": "xterm"}) as progress:
        assert not stream.getvalue()
    assert progress is not None
    assert not stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "term"), [(io.StringIO(), "xterm"), (Terminal(), "dumb"), (Terminal(), None), (None, "xterm")]
)
def test_no_bar_elsewhere(stream, term):
    with progress_bar(stream, {} if term is None else {"TERM": term}) as progress:
        assert progress is None
    assert stream is None or not stream.getvalue()


def test_no_bar_on_a_closed_stream():
    stream = Terminal()
    stream.close()
    with progress_bar(stream, {"TERM": "xterm"}) as progress:
        assert progress is None or progress(1, 2) is None


def test_messages_that_nobody_can_get_are_dropped(monkeypatch):
    for stream in (None, Path("/dev/full").open("w", encoding="utf-8")):  # noqa: SIM115 - closed below
        monkeypatch.setattr(sys, "stderr", stream)
        say("lost")
        if stream is not None:
            with pytest.raises(OSError, match="space"):
                stream.close()


def test_an_answer_that_cannot_be_written_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OutputError, match="standard output is closed"):
        write_out("95")


def test_a_full_disk_is_an_error_and_the_rest_is_dropped(monkeypatch):
    stream = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closed below
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(OutputError, match="cannot write the answer: No space left on device"):
        write_out("95")
    stream.close()  # what was left in the buffer went nowhere


def test_a_reader_that_is_gone_is_told_apart_from_a_full_disk(monkeypatch):
    ours, theirs = os.pipe()
    os.close(ours)
    stream = os.fdopen(theirs, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(ReaderGoneError):
        write_out("95")
    stream.close()


CHECKUP = Checkup(
    checks=(
        Check(name="scorer", ok=True, needed=True, found="/opt/vmaf (3.0.0)"),
        Check(name="fuse", ok=False, needed=False, found="no /dev/fuse", advice="install fuse3"),
    )
)
SICK = Checkup(checks=(Check(name="scorer", ok=False, needed=True, found="none", advice="install one"),))


def test_only_what_scoring_needs_decides_whether_a_machine_can_score():
    assert CHECKUP.can_score
    assert not SICK.can_score


def test_a_checkup_for_people_says_what_to_do():
    lines = doctor.as_table(CHECKUP, None).splitlines()
    assert lines[1] == "scorer     ok      /opt/vmaf (3.0.0)"
    assert lines[2] == "fuse       not ok  no /dev/fuse"
    assert lines[3] == "                   to do: install fuse3"
    assert lines[4] == "can score  yes"
    assert "scorer     NOT OK  none" in doctor.as_table(SICK, None)
    assert all(len(line) <= 30 for line in doctor.as_table(CHECKUP, 30).splitlines())


def test_a_checkup_for_programs_has_every_check():
    answer = json.loads(doctor.as_json(CHECKUP))
    assert answer["can_score"] is True
    assert answer["checks"][1] == {
        "name": "fuse",
        "ok": False,
        "needed": False,
        "found": "no /dev/fuse",
        "advice": "install fuse3",
        "command": None,
    }


def test_messages_are_printable_line_by_line(capsys):
    say("one\x1b[2J\ntwo")
    assert capsys.readouterr().err == "one\\x1b[2J\ntwo\n"


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (None, ["warning"]),
        ("debug", ["debug", "info", "warning"]),
        ("INFO", ["info", "warning"]),
        ("error", []),
        ("?", ["warning", "warning"]),
    ],
)
def test_the_log_level_decides_what_is_shown(capsys, level, shown):
    import logging  # noqa: PLC0415

    logger = logging.getLogger("vmafx.somewhere")
    with log_to_stderr({} if level is None else {"VMAFX_LOG_LEVEL": level}):
        logger.debug("a debug")
        logger.info("an info")
        logger.warning("a warning\n", extra={"job_id": "7"})
    logger.warning("after")
    err = capsys.readouterr().err
    assert [line.split(":")[1].strip() for line in err.splitlines()] == shown
    assert ("a warning" in err) == ("warning" in shown)
    assert ("job_id=7" in err) == ("warning" in shown)


def warnings_of(capsys, **environment):
    with log_to_stderr(environment):
        pass
    return capsys.readouterr().err.splitlines()


def test_an_unknown_log_level_is_told_and_counts_as_the_default(capsys):
    assert warnings_of(capsys, VMAFX_LOG_LEVEL="loud\n!") == [
        r'vmafx: warning: VMAFX_LOG_LEVEL="loud\n!" is none of debug, info, warn, error; showing warnings'
    ]


def test_each_misspelt_name_is_told_once_with_the_nearest_one(capsys):
    wrong = {"VMAFX_BAKEND": "cuda", "VMAFX_SPOL_DIR": "/s", "VMAFX_\x1bQQQ": "", "OTHER": "1"}
    assert warnings_of(capsys, VMAFX_BACKEND="cpu", **wrong) == [
        r"vmafx: warning: VMAFX_\x1bQQQ is not a setting, and is ignored",
        "vmafx: warning: VMAFX_BAKEND is not a setting, and is ignored; did you mean VMAFX_BACKEND?",
        "vmafx: warning: VMAFX_SPOL_DIR is not a setting, and is ignored; did you mean VMAFX_SPOOL_DIR?",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_cancels_the_run_and_waits_for_its_end(number):
    ended = []

    async def work():
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), number)  # the second one, at once, changes nothing
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(InterruptedRunError) as caught:
        asyncio.run(until_signalled(work()))
    assert caught.value.signal == number
    assert ended == [True]


def test_an_error_on_the_way_out_does_not_hide_the_signal():
    async def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            raise ClipError("a", "the clip is gone")

    with pytest.raises(InterruptedRunError) as caught:
        asyncio.run(until_signalled(work()))
    assert caught.value.signal == signal.SIGTERM


def test_an_error_without_a_signal_stays_that_error():
    async def work():
        raise ClipError("a", "the clip is gone")

    with pytest.raises(ClipError):
        asyncio.run(until_signalled(work()))


def test_a_signal_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        async def work():
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            return 5

        assert asyncio.run(until_signalled(work())) == 5
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_cancellation_from_elsewhere_stays_one():
    async def outer():
        task = asyncio.ensure_future(until_signalled(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(outer())
