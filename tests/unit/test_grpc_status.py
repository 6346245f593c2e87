"""Status codes of gRPC and errors of ours: every one has its place (ADR 0016)."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.grpc.status import (
    PEER_MESSAGE_BYTES_MAX,
    error_of,
    our_code,
    wire_code,
)
from vmafx.domain.retry import StatusCode, retryable
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
