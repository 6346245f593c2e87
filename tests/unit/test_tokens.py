"""Bearer tokens: read anew each time, refused when they would be refused, and never shown."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.adapters.auth.bearer import InlineToken, NoToken, TokenFile
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.domain.bearer import TOKEN_BYTES_MAX
from vmafx.domain.errors import TokenError

pytestmark = pytest.mark.virtual_time

NOW_S = 1_704_067_200  # where virtual clocks begin: 2024-01-01T00:00:00Z


def jwt(claims: object) -> str:
    return coded(json.dumps(claims).encode())


def coded(payload: bytes) -> str:
    return f"head.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.signature"


def in_executor(work, _name):
    """Where the virtual loop waits for work: it does not know of threads of ours."""
    return asyncio.get_running_loop().run_in_executor(None, work)


async def refusal_of(token: str, clock: VirtualClock) -> str:
    with pytest.raises(TokenError) as refusal:
        await InlineToken(token, clock).token()
    assert refusal.value.code == "UNAUTHENTICATED"
    return str(refusal.value)


async def test_no_token_is_none() -> None:
    assert await NoToken().token() is None


@pytest.mark.parametrize("text", ["secret", "  secret\n", "\r\n\tsecret \n\n"])
async def test_file_is_read_anew_for_every_call_and_trimmed(
    tmp_path: Path, clock: VirtualClock, text: str
) -> None:
    path = tmp_path / "token"
    tokens = TokenFile(path, clock, in_executor)
    path.write_text(text)
    assert await tokens.token() == "secret"
    path.write_text("fresh")
    assert await tokens.token() == "fresh"
    path.unlink()
    with pytest.raises(TokenError):
        await tokens.token()


async def test_file_behind_a_link_that_is_swapped_is_read(tmp_path: Path, clock: VirtualClock) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "token"
    link.symlink_to("old")
    tokens = TokenFile(link, clock, in_executor)
    assert await tokens.token() == "old"
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(link)
    assert await tokens.token() == "new"


async def file_refusal(path: Path, clock: VirtualClock) -> str:
    with pytest.raises(TokenError) as refusal:
        await TokenFile(path, clock, in_executor).token()
    assert refusal.value.code == "UNAUTHENTICATED"
    return str(refusal.value)


async def test_file_that_cannot_be_read_is_named(tmp_path: Path, clock: VirtualClock) -> None:
    missing = tmp_path / "missing"
    assert await file_refusal(missing, clock) == (
        f"read controller token file: {missing}: No such file or directory"
    )
    assert (await file_refusal(tmp_path, clock)).endswith(f"{tmp_path} is no regular file")
    assert (await file_refusal(Path("a\0b"), clock)) == "read controller token file: a\\x00b is no path"


@pytest.mark.parametrize("text", ["", " \n\t "])
async def test_blank_file_is_empty(tmp_path: Path, clock: VirtualClock, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    assert await file_refusal(path, clock) == f"controller token file {path} is empty"


async def test_pipe_that_nobody_writes_keeps_nobody_waiting(tmp_path: Path, clock: VirtualClock) -> None:
    path = tmp_path / "token"
    os.mkfifo(path)
    assert "is no regular file" in await file_refusal(path, clock)


async def test_endless_and_overlong_files_are_refused(tmp_path: Path, clock: VirtualClock) -> None:
    assert "no regular file" in await file_refusal(Path("/dev/zero"), clock)
    path = tmp_path / "token"
    path.write_text("x" * TOKEN_BYTES_MAX)
    assert await TokenFile(path, clock, in_executor).token() == "x" * TOKEN_BYTES_MAX
    path.write_text("x" * (TOKEN_BYTES_MAX + 1))
    assert "is larger than 65536 bytes" in await file_refusal(path, clock)


async def test_token_is_refused_from_the_second_it_expires(tmp_path: Path, clock: VirtualClock) -> None:
    path = tmp_path / "token"
    path.write_text(jwt({"exp": NOW_S + 60}))
    tokens = TokenFile(path, clock, in_executor)
    await clock.advance(59.5)
    assert await tokens.token() == path.read_text()
    await clock.advance(0.5)
    assert await file_refusal(path, clock) == (
        f"controller token file {path} holds a token that expired at 2024-01-01T00:01:00Z; "
        "whatever writes it did not refresh it"
    )


async def test_inline_token_that_expired_names_its_setting(clock: VirtualClock) -> None:
    assert await refusal_of(jwt({"exp": 0}), clock) == (
        "controller.token holds a token that expired at 1970-01-01T00:00:00Z; "
        "whatever writes it did not refresh it"
    )
    assert await refusal_of(" ", clock) == "controller.token is empty"


@pytest.mark.parametrize(
    ("exp", "told"),
    [
        (NOW_S - 0.5, "2023-12-31T23:59:59Z"),
        (-1e300, "0001-01-01T00:00:00Z"),
        (-(10**400), "0001-01-01T00:00:00Z"),
        (float("-inf"), "0001-01-01T00:00:00Z"),
    ],
)
async def test_odd_numbers_of_the_past_are_expired(clock: VirtualClock, exp: float, told: str) -> None:
    assert f"expired at {told};" in await refusal_of(jwt({"exp": exp}), clock)


@pytest.mark.parametrize(
    "token",
    [
        "opaque",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "..",
        "a.!!!!.c",
        jwt({}),
        jwt({"exp": None}),
        jwt({"exp": "0"}),
        jwt({"exp": True}),
        jwt({"exp": [0]}),
        jwt({"exp": float("nan")}),
        jwt({"exp": float("inf")}),
        jwt({"exp": 10**400}),
        jwt({"exp": NOW_S + 0.5}),
        jwt([0]),
        jwt("exp"),
        coded(b"\xff\xfe"),
        coded(b'{"exp": ' + b"9" * 5000 + b"}"),
        coded(b"[" * 20_000),
    ],
)
async def test_what_cannot_be_told_to_have_expired_is_sent(clock: VirtualClock, token: str) -> None:
    assert await InlineToken(token, clock).token() == token


async def test_expiry_follows_the_wall_clock(clock: VirtualClock) -> None:
    tokens = InlineToken(jwt({"exp": NOW_S + 60}), clock)
    clock.step_wall(3600)
    with pytest.raises(TokenError):
        await tokens.token()
    clock.step_wall(-3600)
    assert await tokens.token() is not None


@pytest.mark.parametrize(
    "odd", ["sec ret", "sec\nret", "sec\r\nx-evil: 1", "sec\0ret", "sec\x7fret", "s\u00e9cret"]
)
async def test_token_that_no_header_can_carry_is_refused_unseen(
    tmp_path: Path, clock: VirtualClock, odd: str
) -> None:
    path = tmp_path / "token"
    path.write_text(odd, newline="")
    for message in (await refusal_of(odd, clock), await file_refusal(path, clock)):
        assert "sec" not in message
        assert "ret" not in message
        assert message.isprintable()


@settings(max_examples=50)
@given(st.text(max_size=40) | st.binary(max_size=60).map(coded) | st.builds(jwt, st.integers() | st.floats()))
def test_any_text_is_a_header_or_refused(text: str) -> None:
    async def one(clock: VirtualClock) -> str | None:
        try:
            return await InlineToken(text, clock).token()
        except TokenError as refusal:
            refusals.append(str(refusal))
            return None

    refusals: list[str] = []
    token = run_virtual(one)
    assert all(refusal.startswith("controller.token ") for refusal in refusals)
    if token is not None:
        assert token == text.strip()
        assert token.isascii()
        assert token.isprintable()
        assert " " not in token


async def test_tokens_are_not_in_what_a_source_shows(clock: VirtualClock) -> None:
    assert "secret" not in repr(InlineToken("secret", clock))
