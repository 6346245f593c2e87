"""What a run's end means, and whose fault it is (ADR 0010)."""

from __future__ import annotations

import errno
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.faults import (
    STDERR_SHOWN_BYTES_MAX,
    Tail,
    failed_run,
    is_machine_fault,
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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EDQUOT])
def test_want_of_the_system_is_the_machines_fault(number: int) -> None:
    assert is_machine_fault(OSError(number, "x"))


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "x"), OSError(errno.ENOENT, "x"), ValueError("x"), OSError("x")]
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_machine_fault(error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (FileNotFoundError("No usable temporary directory"), "No usable temporary directory"),
        (MemoryError(), "out of memory"),
    ],
)
def test_system_errors_become_faults_of_the_machine(error: Exception, words: str) -> None:
    with pytest.raises(ScorerError, match=f"libvmaf: doing: {words}") as caught, machine_faults("doing"):
        raise error
    assert caught.value.machine_fault
    assert caught.value.__cause__ is error


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(KeyError), machine_faults("doing"):
        raise KeyError


@pytest.mark.parametrize(("started", "run"), [(True, "signal: killed"), (False, "not started")])
def test_timeout_tells_limit_and_words(*, started: bool, run: str) -> None:
    assert timeout_text(0.5, "w", started=started) == (
        f"libvmaf: vmaf subprocess cancelled: deadline of 0.5 s exceeded (run err: {run}, stderr: w)"
    )


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
