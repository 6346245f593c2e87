"""An error of a connection names the setting to look at (ADR 0017)."""

from __future__ import annotations

import pytest

from vmafx.adapters.grpc.hints import hinted, unanswered


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("details", "words"),
    [
        ("ipv4:1.2.3.4:1: Failed to connect to remote host: Connection refused", "nothing listens there"),
        ("errors resolving c:1: address lookup failed for c:1: Domain name not found", "cannot be found"),
        ("DNS resolution failed for c:1", "the host cannot be found"),
        ("connect: No route to host", "no way leads there"),
        ("connect: Network is unreachable", "no way leads there"),
        ("connect: Connection timed out", "nothing answers there"),
        ("Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame)", "speaks no gRPC"),
        ("Trying to connect an http1.x server", "speaks no gRPC"),
    ],
)
def test_an_address_where_no_controller_is_is_told_as_such(details: str, words: str, *, tls: bool) -> None:
    told = hinted(details, tls=tls)
    assert told.startswith(f"{details}; ")
    assert words in told
    assert "check VMAFX_CONTROLLER_ADDR" in told


def test_a_call_without_a_connection_names_the_address() -> None:
    assert unanswered("Deadline Exceeded").startswith(
        "Deadline Exceeded; there is no connection yet: check VMAFX_"
    )


def test_the_words_of_a_controller_are_left_alone() -> None:
    assert hinted("the store fails", tls=False) == "the store fails"
