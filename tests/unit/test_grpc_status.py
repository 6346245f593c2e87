"""Status codes and errors: every one of either has its place (ADR 0016)."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.grpc.status import (
    PEER_MESSAGE_BYTES_MAX,
    REFUSAL_BYTES_MAX,
    UNEXPECTED,
    Refusal,
    error_of,
    our_code,
    refusal_of,
    wire_code,
)
from vmafx.domain import errors
from vmafx.domain.retry import StatusCode, controller_error, retryable
from vmafx.domain.text import printable

# ---------------------------------------------------------------- codes


def test_both_lists_of_codes_are_the_same() -> None:
    assert {code.name for code in grpc.StatusCode} == {code.value for code in StatusCode}


@pytest.mark.parametrize("code", grpc.StatusCode)
def test_a_code_is_the_same_there_and_back(code: grpc.StatusCode) -> None:
    assert wire_code(our_code(code)) is code


@pytest.mark.parametrize("code", grpc.StatusCode)
def test_every_status_is_an_error_of_ours(code: grpc.StatusCode) -> None:
    error = error_of(code, "words of the peer")
    expected = "UNKNOWN" if code is grpc.StatusCode.OK else code.name
    assert (error.code, error.message) == (expected, "words of the peer")
    assert error.retryable is retryable(StatusCode(expected))


@pytest.mark.parametrize("details", [None, ""])
def test_a_peer_without_words_is_an_error_all_the_same(details: str | None) -> None:
    assert str(error_of(grpc.StatusCode.ABORTED, details)) == "ABORTED: no details"


@given(st.text())
def test_the_words_of_a_peer_are_printable(details: str) -> None:
    message = error_of(grpc.StatusCode.INTERNAL, details).message
    assert message
    assert printable(message) == message


def test_the_words_of_a_peer_are_cut() -> None:
    message = error_of(grpc.StatusCode.INTERNAL, "start " + "é\x07" * 100_000 + " end").message
    assert len(message.encode()) <= PEER_MESSAGE_BYTES_MAX
    assert message.startswith("start ")
    assert message.endswith(" end")


# ---------------------------------------------------------------- refusals

REFUSALS: dict[type[errors.VmafxError], tuple[errors.VmafxError, StatusCode, str]] = {
    type(error): (error, code, message)
    for error, code, message in [
        (errors.VmafxError("odd"), StatusCode.INTERNAL, "odd"),
        (errors.ConfigurationError("VMAFX_X", "is wrong"), StatusCode.INTERNAL, "VMAFX_X: is wrong"),
        (
            errors.IllegalTransitionError("NEW", "Stop"),
            StatusCode.INTERNAL,
            "Stop is not allowed in state NEW",
        ),
        (errors.SourceError("/a", "unreadable"), StatusCode.INTERNAL, "unreadable"),
        (errors.SourceSyntaxError("a", "relative"), StatusCode.PERMISSION_DENIED, "relative"),
        (errors.OutsideRootsError("/a", "outside"), StatusCode.PERMISSION_DENIED, "outside"),
        (errors.ClipError("/a", "no Y4M"), StatusCode.INTERNAL, "no Y4M"),
        (
            errors.NotFiniteError("vmaf", float("nan")),
            StatusCode.INVALID_ARGUMENT,
            "non-finite value for vmaf: nan",
        ),
        (errors.ScorerError("exit 3"), StatusCode.INTERNAL, "exit 3"),
        (errors.ModelError("m", "no model"), StatusCode.INTERNAL, "no model"),
        (
            errors.ScorerUnavailableError("VMAF_BIN", "missing"),
            StatusCode.FAILED_PRECONDITION,
            "VMAF_BIN: missing",
        ),
        (errors.ScoreTimeoutError("too long"), StatusCode.INTERNAL, "too long"),
        (errors.BackendMismatchError("cuda", "cpu", "cpu used"), StatusCode.INTERNAL, "cpu used"),
        (errors.ReportError("damaged"), StatusCode.INTERNAL, "damaged"),
        (controller_error(StatusCode.ABORTED, "again"), StatusCode.ABORTED, "again"),
        (errors.SpoolError("full"), StatusCode.INTERNAL, "full"),
        (errors.TokenError("no role", code="PERMISSION_DENIED"), StatusCode.PERMISSION_DENIED, "no role"),
        (errors.StoreError("bad page"), StatusCode.INTERNAL, "bad page"),
        (errors.StoreUnavailableError("locked"), StatusCode.UNAVAILABLE, "locked"),
        (errors.JobNotFoundError("j"), StatusCode.NOT_FOUND, 'job "j" not found'),
        (
            errors.ForeignJobError("j"),
            StatusCode.PERMISSION_DENIED,
            "resource belongs to another tenant",
        ),
        (
            errors.SessionNotFoundError("s"),
            StatusCode.PERMISSION_DENIED,
            'invalid session for node "s"',
        ),
        (
            errors.SubmissionConflictError("k"),
            StatusCode.ALREADY_EXISTS,
            'idempotency key "k" was used for another submission',
        ),
        (
            errors.QueueFullError(5),
            StatusCode.RESOURCE_EXHAUSTED,
            "the tenant has 5 pending jobs, which is the limit",
        ),
    ]
}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_of_ours_has_its_status(name: str) -> None:
    error, code, message = REFUSALS[getattr(errors, name)]
    assert refusal_of(error) == Refusal(code=code, message=message)


@pytest.mark.parametrize("code", StatusCode)
def test_an_error_with_a_code_of_its_own_keeps_it(code: StatusCode) -> None:
    expected = StatusCode.UNKNOWN if code is StatusCode.OK else code
    assert refusal_of(controller_error(code, "why")).code is expected
    assert refusal_of(errors.TokenError("why", code=code.value)).code is expected


def test_a_transient_failure_never_tells_a_node_to_register_again() -> None:
    assert refusal_of(errors.StoreUnavailableError("down")).code is StatusCode.UNAVAILABLE


def test_a_class_that_comes_later_is_refused_like_its_parent() -> None:
    class LaterError(errors.QueueFullError):
        pass

    assert refusal_of(LaterError(1)).code is StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("error", [RuntimeError("password=hunter2"), ValueError("/etc/secret"), KeyError(1)])
def test_nothing_is_told_of_an_error_that_nobody_foresaw(error: Exception) -> None:
    assert refusal_of(error, about="pull work") == Refusal(code=StatusCode.INTERNAL, message=UNEXPECTED)


def test_a_refusal_says_what_was_done() -> None:
    assert refusal_of(errors.StoreError("bad page"), about="pull work").message == "pull work: bad page"


def test_a_refusal_is_printable_and_cut() -> None:
    message = refusal_of(errors.StoreError("\x00" + "ü" * 90_000)).message
    assert message.startswith(r"\x00ü")
    assert message.isprintable()
    assert len(message.encode()) <= REFUSAL_BYTES_MAX
