"""One tree of errors: as drawn, and each says what it is about."""

from __future__ import annotations

import inspect
import re
import signal

import pytest

from vmafx.domain import errors
from vmafx.domain.process import Exit


def classes() -> dict[str, type[BaseException]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    }


def drawn() -> dict[str, str | None]:
    """Each class of the drawing and the one it hangs from."""
    tree: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^((?:[│ ]   )*(?:[├└]── )?)(\w+Error)\b(.*)$", line):
            depth = len(found[1]) // 4
            above = above[:depth]
            tree[found[2]] = above[-1] if above else None
            above.append(found[2])
            assert depth == 0 or found[3].strip(), f"{found[2]} is drawn without a word"
    return tree


def test_drawing_in_the_docstring_is_the_tree_of_classes() -> None:
    real = {
        name: None if value.__base__ is Exception else getattr(value.__base__, "__name__", None)
        for name, value in classes().items()
    }
    assert drawn() == real
    assert len(real) > 10


def test_every_error_is_public_ends_in_error_and_says_what_it_is() -> None:
    assert errors.__all__ == sorted(classes())
    for name, value in classes().items():
        assert name.endswith("Error")
        assert value.__doc__
        assert issubclass(value, errors.VmafxError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.ConfigurationError("VMAFX_BACKEND", "no such backend"), "VMAFX_BACKEND: no such backend"),
        (
            errors.ConfigurationError("VMAFX_BACKEND", "is none", value="a\nb"),
            'VMAFX_BACKEND="a\\nb" is none',
        ),
        (errors.IllegalTransitionError("closed", "pull"), "pull is not allowed in state closed"),
        (errors.SourceError("a.y4m", "a.y4m: gone"), "a.y4m: gone"),
        (errors.SourceSyntaxError("a", "empty"), "empty"),
        (errors.SourceSyntaxError("a", "empty", subject='scoring root "a"'), 'scoring root "a": empty'),
        (errors.NotFiniteError("vmaf", None), "non-finite value for vmaf: null"),
        (errors.NotFiniteError("vmaf", "\u202e\n"), "non-finite value for vmaf: '\\u202e\\n'"),
        (errors.NotFiniteError("vmaf", 10**5000), "non-finite value for vmaf: an integer of more digits"),
        (errors.ScorerUnavailableError("VMAF_BIN", "is a folder"), "VMAF_BIN: is a folder"),
        (errors.BackendMismatchError("cuda", "cpu", "scored on cpu"), "scored on cpu"),
        (errors.ControllerError("UNAVAILABLE", "gone", retryable=True), "UNAVAILABLE: gone"),
        (errors.JobNotFoundError("a\n"), 'job "a\\n" not found'),
        (errors.ForeignJobError("a"), "resource belongs to another tenant"),
        (errors.SessionNotFoundError("a\n"), 'invalid session for node "a\\n"'),
        (errors.SubmissionConflictError("k\n"), 'idempotency key "k\\n" was used for another submission'),
        (errors.QueueFullError(7), "the tenant has 7 pending jobs, which is the limit"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_message_names_what_the_error_is_about(error: errors.VmafxError, text: str) -> None:
    assert str(error).startswith(text)


def test_callers_learn_the_facts_from_attributes_and_not_from_the_message() -> None:
    syntax = errors.SourceSyntaxError("a", "empty", subject="x")
    assert (syntax.source, syntax.reason) == ("a", "empty")
    assert not errors.SourceError("a", "gone").machine_fault
    for broken in (errors.SourceError, errors.ClipError, errors.OutsideRootsError):
        assert broken("a", "stale", machine_fault=True).machine_fault
    scorer = errors.ScorerError("failed", exit_status=-11, stderr="last words")
    assert (scorer.exit_status, scorer.stderr, scorer.machine_fault) == (-11, "last words", False)
    assert errors.ScorerUnavailableError("VMAF_BIN", "gone").machine_fault
    mismatch = errors.BackendMismatchError("cuda", "cpu", "scored on cpu")
    assert (mismatch.asked, mismatch.used) == ("cuda", "cpu")
    assert errors.ModelError("vmaf_x", "no such model").model == "vmaf_x"
    assert errors.JobNotFoundError("j").job_id == errors.ForeignJobError("j").job_id == "j"
    assert errors.SessionNotFoundError("s").session_id == "s"
    assert errors.SubmissionConflictError("k").key == "k"
    assert errors.QueueFullError(7).pending_max == 7
    refused = errors.ControllerError("UNAVAILABLE", "gone", retryable=True)
    assert (refused.code, refused.message, refused.retryable) == ("UNAVAILABLE", "gone", True)


def test_all_wrong_settings_are_told_together_and_each_on_its_own() -> None:
    second = errors.ConfigurationError("B", "is no number", value="x")
    both = errors.ConfigurationError("A", "is missing", others=(second,))
    assert str(both) == 'A: is missing; B="x" is no number'
    assert [str(error) for error in both.all] == ["A: is missing", 'B="x" is no number']


# ---------------------------------------------------------------- how a process ended


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exit status 0"),
        (255, "exit status 255"),
        (-int(signal.SIGSEGV), "signal: segmentation fault (SIGSEGV)"),
        (-int(signal.SIGKILL), "signal: killed (SIGKILL)"),
        (-int(signal.SIGUSR1), "signal: SIGUSR1"),
        (-99, "signal 99"),
    ],
)
def test_end_of_a_process_is_told_in_words_with_the_name_of_the_signal(status: int, words: str) -> None:
    assert Exit(status=status).words == words


@pytest.mark.parametrize("number", list(signal.Signals), ids=lambda number: number.name)
def test_every_signal_has_words_and_is_a_fault_of_the_machine_or_not(number: signal.Signals) -> None:
    end = Exit(status=-number)
    assert number.name in end.words
    of_the_machine = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGILL}
    assert end.machine_fault is (number in of_the_machine)


def test_exit_status_is_never_a_fault_of_the_machine() -> None:
    assert not any(Exit(status=status).machine_fault for status in range(256))
