"""What a run's end means, and whose fault it is (ADR 0010)."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.faults import (
    STDERR_BYTES_MAX,
    STDERR_SHOWN_BYTES_MAX,
    Tail,
    duration_words,
    failed_run,
    last_words,
    machine_faults,
    stderr_words,
    timeout_text,
)
from vmafx.domain.errors import ReportError, ScorerError
from vmafx.domain.process import Exit


def failed(status: int, words: str = "words") -> ScorerError:
    return failed_run(Exit(status=status), words, inputs='reference "r", distorted "d"')


def test_error_of_a_run_tells_status_words_and_inputs() -> None:
    error = failed(255)
    assert str(error) == (
        'libvmaf: vmaf binary failed: exit status 255\nstderr: words\nreference "r", distorted "d"'
    )
    assert (error.exit_status, error.stderr, error.machine_fault) == (255, "words", False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGILL])
def test_signals_that_others_send_are_the_machines_fault(number: signal.Signals) -> None:
    error = failed(-number)
    assert error.machine_fault
    assert number.name in str(error)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE])
def test_crashes_are_the_inputs_fault(number: signal.Signals) -> None:
    error = failed(-number)
    assert not error.machine_fault
    assert number.name in str(error)


@pytest.mark.parametrize(
    "words",
    [
        "x: Cannot allocate memory",
        "No space left on device",
        "Too many open files",
        "Too many open files in system",
    ],
)
def test_want_that_a_run_tells_of_is_the_machines_fault(words: str) -> None:
    assert failed(1, words).machine_fault


def test_report_that_grew_past_the_limit_is_a_bad_report() -> None:
    assert isinstance(failed(-signal.SIGXFSZ), ReportError)


def test_limit_of_this_process_below_a_reports_is_named_and_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (512, 1024))
    error = failed(-signal.SIGXFSZ)
    assert error.machine_fault
    assert "at most 1024 bytes (ulimit -f)" in str(error)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOENT])
def test_words_that_programs_have_for_a_cut_clip_too_are_the_inputs(number: int) -> None:
    assert not failed(1, f"cannot read: {os.strerror(number)}").machine_fault


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (FileNotFoundError("No usable temporary directory"), "No usable temporary directory"),
        (MemoryError(), "out of memory"),
    ],
)
def test_system_errors_become_faults_of_the_machine(error: Exception, words: str) -> None:
    with pytest.raises(ScorerError, match=f"^doing: {words}") as caught, machine_faults("doing"):
        raise error
    assert caught.value.machine_fault
    assert caught.value.__cause__ is error


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(KeyError), machine_faults("doing"):
        raise KeyError


@pytest.mark.parametrize(("started", "run"), [(True, "signal: killed"), (False, "not started")])
def test_timeout_tells_limit_and_words(*, started: bool, run: str) -> None:
    text = timeout_text(0.5, "v\nw", doing="the pair", setting="LIMIT", started=started)
    assert text == (
        "500ms (LIMIT) exceeded: the pair: "
        f"libvmaf: vmaf subprocess cancelled: deadline exceeded (run err: {run}, stderr: v; w)"
    )
    assert timeout_text(90, "", doing="it", started=started).startswith("1m30s exceeded: it: libvmaf: ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "0s"), (1e-9, "1ns"), (1.5e-6, "1.5us"), (0.3, "300ms"), (1, "1s"), (1.25, "1.25s")),
        *((60, "1m"), (90, "1m30s"), (1800, "30m"), (3600, "1h"), (3601.5, "1h1.5s"), (86400 * 9, "216h")),
    ],
)
def test_durations_are_written_as_settings_are(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


@given(st.integers(0, 10**18))
def test_words_of_a_duration_say_what_it_is(nanoseconds: int) -> None:
    units = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    words = duration_words(nanoseconds / 1e9)
    parts = re.findall(r"([0-9.]+)(h|ms|m|s|us|ns)", words)
    assert "".join(number + unit for number, unit in parts) == words
    told = sum(Fraction(number) * units[unit] for number, unit in parts)
    assert abs(told - round(nanoseconds / 1e9 * 1e9)) < 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"\r 10 frames\r 20 frames\r\n\n\ndone", " 10 frames\n 20 frames\ndone"),
        (b"latin1-\xe9t\xe9", "latin1-\ufffdt\ufffd"),
        (b"\x1b[31mred\x00\x7f", "\\x1b[31mred\\x00\\x7f"),
        ("turn\u202ed".encode(), "turn\\u202ed"),
        (b"", ""),
        (b"bad /dev/fd/3, /proc/self/fd/4: x", "bad /real/ref.y4m, the other: x"),
        (b"/dev/fd/30 /dev/fd/7 /dev/fd/3", "/dev/fd/30 /dev/fd/7 /real/ref.y4m"),
        (b"/dev/fd/3.y4m and /dev/fd/3", "/real/ref.y4m.y4m and /real/ref.y4m"),
    ],
)
def test_words_are_printable_lines_with_real_paths(data: bytes, words: str) -> None:
    assert stderr_words(data, {3: "/real/ref.y4m", 4: "the other"}) == words


def test_real_path_cannot_smuggle_anything_in() -> None:
    assert stderr_words(b"/dev/fd/3", {3: "/a\nb\x1b\\1\udcff"}) == "/a\\nb\\x1b\\1\\xff"


def test_paths_are_shown_by_the_names_of_their_clips() -> None:
    paths = {"/spool/a": "s3:ref", "/spool/a/b": "/spool/a", "/odd\n\udcff": "odd"}
    data = b'"/spool/a" file:/spool/a/b: /spool/ax /dev/fd/3 "/odd\\n\\xff" /odd\n\xff'
    assert stderr_words(data, {3: "/spool/a"}, paths) == (
        '"s3:ref" file:/spool/a: s3:refx /spool/a "odd" odd'
    )


@pytest.mark.parametrize("line_end", [b"\n", b""])
@pytest.mark.parametrize("cut", range(1, 14))
def test_no_second_half_of_a_path_is_shown(line_end: bytes, cut: int) -> None:
    path = "/private/clip"
    tail = path.encode()[cut:] + line_end
    data = tail + b"x" * (STDERR_BYTES_MAX - len(tail))
    assert set(stderr_words(data, {}, {path: "name"})) <= set("x … ")


@pytest.mark.parametrize("before", ["", "vmaf: bad option\n"])
@pytest.mark.parametrize("after", ["", "vmafx-vmaf: --backend: no\n"])
def test_usage_text_is_not_shown_but_what_stands_around_it(before: str, after: str) -> None:
    usage = "Usage: vmaf [options]\n\nSupported options:\n --reference/-r $path:\n  -x, --y\n"
    words = stderr_words((before + usage + after).encode(), {})
    assert words == (before + after).rstrip("\n")


def test_end_of_the_words_is_one_bounded_line() -> None:
    assert last_words("a\nb\nc\nd") == "b; c; d"
    assert len(last_words("x" * 10_000).encode()) < 1024


@given(st.binary(max_size=10_000))
def test_any_words_are_bounded_and_printable(data: bytes) -> None:
    words = stderr_words(data, {3: "/x"})
    assert len(words.encode()) <= STDERR_SHOWN_BYTES_MAX
    assert all(line.isprintable() or not line.isascii() for line in words.split("\n"))


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40))
def test_tail_is_the_end_of_everything(pieces: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.feed(piece)
    assert tail.data == b"".join(pieces)[-limit:]
