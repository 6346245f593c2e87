"""What a failed call means, code by code (ADR 0013)."""

from __future__ import annotations

import grpc
import pytest

from vmafx.domain.retry import (
    Call,
    ReportStep,
    StatusCode,
    Verdict,
    controller_error,
    invalidates_session,
    report_step,
    report_step_after,
    retryable,
    status_code,
)

STEPS = {
    "OK": ReportStep.DELIVERED,
    "CANCELLED": ReportStep.GIVE_UP,
    "UNKNOWN": ReportStep.RETRY,
    "INVALID_ARGUMENT": ReportStep.REJECT,
    "DEADLINE_EXCEEDED": ReportStep.RETRY,
    "NOT_FOUND": ReportStep.REJECT,
    "ALREADY_EXISTS": ReportStep.REJECT,
    "PERMISSION_DENIED": ReportStep.ASK,
    "RESOURCE_EXHAUSTED": ReportStep.RETRY,
    "FAILED_PRECONDITION": ReportStep.REJECT,
    "ABORTED": ReportStep.RETRY,
    "OUT_OF_RANGE": ReportStep.REJECT,
    "UNIMPLEMENTED": ReportStep.REJECT,
    "INTERNAL": ReportStep.RETRY,
    "UNAVAILABLE": ReportStep.RETRY,
    "DATA_LOSS": ReportStep.RETRY,
    "UNAUTHENTICATED": ReportStep.RETRY,
}


def test_the_list_of_codes_is_the_one_of_grpc() -> None:
    assert {code.value for code in StatusCode} == {code.name for code in grpc.StatusCode}
    assert len(StatusCode) == 17


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
def test_every_code_has_its_step(code: StatusCode) -> None:
    assert report_step(code) is STEPS[code.value]


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
def test_a_call_may_succeed_later_exactly_when_its_report_is_tried_again(code: StatusCode) -> None:
    assert retryable(code) == (STEPS[code.value] in {ReportStep.RETRY, ReportStep.ASK})


@pytest.mark.parametrize(
    ("verdict", "step"),
    [
        (Verdict.SESSION_LIVES, ReportStep.REJECT),
        (Verdict.SESSION_LOST, ReportStep.RETRY_WITH_NEW_SESSION),
        (Verdict.UNKNOWN, ReportStep.RETRY),
    ],
)
def test_the_heartbeat_after_a_refused_report_decides(verdict: Verdict, step: ReportStep) -> None:
    assert report_step_after(verdict) is step


def test_every_verdict_leads_somewhere_final() -> None:
    assert all(report_step_after(verdict) is not ReportStep.ASK for verdict in Verdict)


@pytest.mark.parametrize("call", Call, ids=lambda call: call.value)
@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
def test_only_a_denied_heartbeat_or_pull_ends_a_session(call: Call, code: StatusCode) -> None:
    denied = code is StatusCode.PERMISSION_DENIED
    assert invalidates_session(call, code) == (denied and call in {Call.HEARTBEAT, Call.PULL})


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
def test_a_code_is_found_by_its_name(code: StatusCode) -> None:
    assert status_code(code.value) is code


@pytest.mark.parametrize("name", ["", "unavailable", "Unavailable", "TEAPOT", "14"])
def test_a_name_that_is_none_counts_as_unknown(name: str) -> None:
    assert status_code(name) is StatusCode.UNKNOWN


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
def test_an_error_carries_code_words_and_whether_it_may_be_retried(code: StatusCode) -> None:
    error = controller_error(code, "words")
    assert (error.code, error.message, error.retryable) == (code.value, "words", retryable(code))
    assert str(error) == f"{code.value}: words"
