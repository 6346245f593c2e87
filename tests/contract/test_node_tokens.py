"""A node whose calls show a token from a file, over a connection (`Trait.WIRE`; ADR 0017)."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from pathlib import Path

import pytest

from vmafx.adapters.auth.bearer import InlineToken, TokenFile
from vmafx.adapters.processes.waiting import in_thread
from vmafx.app.node import events
from vmafx.domain.job import JobStatus


def jwt(expires_at: datetime) -> str:
    parts = [{"alg": "HS256"}, {"exp": expires_at.timestamp()}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "signature"])


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_the_file_is_read_anew_for_every_call(wire_stage, clock, token_file):
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread), takes_s=30) as it:
        job = it.world.submit("a")
        await it.advance(15)
        token_file.write_text("second")
        shown = len(it.line.tokens)
        await it.until_ended(job)
        assert set(it.line.tokens[:shown]) == {"first"}
        assert set(it.line.tokens[shown:]) == {"second"}
        assert it.world.told("the bearer token is sent in plaintext: VMAFX_CONTROLLER_TLS is off")


async def test_a_token_that_was_replaced_at_both_ends_costs_no_session(wire_stage, clock, token_file):
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread), takes_s=30) as it:
        job = it.world.submit("a")
        it.line.token = "first"
        await it.advance(5)
        it.line.token = "second"
        await it.advance(20)
        assert it.world.told(events.HEARTBEAT_FAILED)
        token_file.write_text("second")
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert len(it.world.registers()) == 1


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.write_text(" \n\t\n"), "is empty"),
        (lambda path: path.unlink(), "read controller token file: "),
        (lambda path: path.write_text("two words"), "more than a token"),
    ],
    ids=["empty", "blank", "missing", "two words"],
)
async def test_a_file_without_a_token_fails_calls_until_it_has_one(
    wire_stage, clock, token_file, break_it, words
):
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread), takes_s=12) as it:
        job = it.world.submit("a")
        await it.advance(5)
        break_it(token_file)
        reached = len(it.line.tokens)
        await it.advance(30)
        assert len(it.line.tokens) == reached
        told = [*it.world.told(events.HEARTBEAT_FAILED), *it.world.told(events.REPORT_FAILED)]
        assert told
        assert all(words in event.fields["error"] for event in told)
        assert all(str(token_file) in event.fields["error"] for event in told)
        token_file.write_text("third")
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert len(it.scorer.requests) == 1
        assert set(it.line.tokens[reached:]) == {"third"}


async def test_a_node_starts_before_its_token_is_there(wire_stage, clock, token_file):
    token_file.unlink()
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread)) as it:
        await it.advance(30)
        assert it.line.tokens == []
        missed = it.world.told(events.REGISTER_FAILED)
        assert {event.fields["code"] for event in missed} == {"UNAUTHENTICATED"}
        token_file.write_text("late")
        job = it.world.submit("a")
        await it.until_ended(job)


async def test_a_token_that_expires_mid_run_is_not_shown_and_its_successor_is(wire_stage, clock, token_file):
    start = clock.now()
    first = jwt(start.replace(minute=1))
    token_file.write_text(first)
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread), takes_s=90) as it:
        job = it.world.submit("a")
        await it.advance(59)
        shown = len(it.line.tokens)
        await it.advance(40)
        assert set(it.line.tokens) == {first}
        assert len(it.line.tokens) == shown
        expired = it.world.told(events.HEARTBEAT_FAILED)[-1].fields["error"]
        assert "holds a token that expired at 2024-01-01T00:01:00Z" in expired
        assert first not in expired
        second = jwt(start.replace(hour=1))
        token_file.write_text(second)
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert set(it.line.tokens[shown:]) == {second}


async def test_an_inline_token_that_expires_is_not_shown_any_more(wire_stage, clock):
    token = jwt(clock.now().replace(minute=1))
    async with wire_stage(tokens=InlineToken(token, clock)) as it:
        await it.advance(59)
        shown = len(it.line.tokens)
        await it.advance(60)
        assert it.line.tokens == [token] * shown
        assert "controller.token holds a token" in it.world.told(events.HEARTBEAT_FAILED)[-1].fields["error"]


async def test_no_token_is_in_any_line_of_the_log(wire_stage, clock, token_file):
    secret = "s3cr3t-of-the-file"
    token_file.write_text(secret)
    async with wire_stage(tokens=TokenFile(token_file, clock, in_thread), takes_s=5) as it:
        it.line.token = "another"
        await it.advance(60)
        it.line.token = secret
        job = it.world.submit("a")
        await it.until_ended(job)
        assert secret not in repr(it.world.telemetry.events)
