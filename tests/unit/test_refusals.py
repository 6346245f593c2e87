"""How calls end whose work raised: every error of ours has its code and its words (ADR 0016)."""

from __future__ import annotations

import pytest

from vmafx.domain import errors
from vmafx.domain.refusals import REFUSAL_BYTES_MAX, UNEXPECTED, Refusal, refusal_of, refused
from vmafx.domain.retry import StatusCode, controller_error

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
        (
            errors.RoleRequiredError(["vmafx:reader", "vmafx:admin"]),
            StatusCode.PERMISSION_DENIED,
            "role required: vmafx:reader | vmafx:admin",
        ),
        (errors.StoreError("bad page"), StatusCode.INTERNAL, "bad page"),
        (
            errors.StoreUnavailableError("/home/me/jobs.db is locked", told="it is locked"),
            StatusCode.UNAVAILABLE,
            "it is locked",
        ),
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


def test_what_a_store_did_not_say_for_callers_is_not_told_to_them() -> None:
    refusal = refusal_of(
        errors.StoreUnavailableError("connecting to db-7.internal failed"), about="pull work"
    )
    assert refusal.message == "pull work: the store cannot be used"


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


# ---------------------------------------------------------------- errors for callers


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_for_callers_says_what_the_refusal_says(name: str) -> None:
    error, code, message = REFUSALS[getattr(errors, name)]
    told = refused(error, about="pull work")
    assert told.code == code.value
    if isinstance(error, errors.ControllerError):
        assert told is error
    else:
        assert told.message == f"pull work: {message}"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [(errors.StoreUnavailableError("locked"), True), (errors.JobNotFoundError("j"), False)],
)
def test_an_error_for_callers_knows_whether_to_try_again(error: errors.VmafxError, retryable: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    assert refused(error).retryable is retryable


def test_a_method_that_nobody_may_call_is_refused_too() -> None:
    nobody = refusal_of(errors.RoleRequiredError([]))
    assert nobody == Refusal(code=StatusCode.PERMISSION_DENIED, message="no role may make this call")
