"""How a node reports jobs, before any controller: the retry table, and what is given up (ADR 0013)."""

from __future__ import annotations

import json

import pytest

from tests.contract.node_harness import Trait
from vmafx.adapters.fakes.controller_faults import Fail, Hang, LoseAnswer
from vmafx.app.node import events
from vmafx.domain.job import JobResult, JobStatus
from vmafx.domain.retry import Call, ReportStep, StatusCode, report_step
from vmafx.ports.telemetry import Level

REFUSALS = [code for code in StatusCode if code is not StatusCode.OK]


async def test_a_report_that_is_taken_is_told_once(stage):
    async with stage(takes_s=1) as it:
        job = it.world.submit("a")
        await it.advance(30)
        assert len(it.reports(job)) == 1
        assert len(it.world.told(events.REPORTED)) == 1


@pytest.mark.parametrize("code", REFUSALS, ids=lambda code: code.value)
async def test_a_report_is_tried_again_as_its_code_says(stage, code):
    def before(it):
        it.wire.cue(Call.REPORT, Fail(code=code, message="no"))

    async with stage(takes_s=1, before=before) as it:
        job = it.world.submit("a")
        await it.advance(20)
        step = report_step(code)
        if code is StatusCode.CANCELLED and Trait.WIRE in it.traits:
            step = ReportStep.RETRY  # what a peer calls cancelled is its own end, not this node's
        if step is ReportStep.RETRY:
            assert len(it.reports(job)) == 2
            assert len(it.world.told(events.REPORT_FAILED)) == 1
            assert it.world.status(job) is JobStatus.COMPLETED
        else:
            assert len(it.reports(job)) == 1
            (told,) = it.world.told(events.NOT_DELIVERED)
            assert told.level is Level.ERROR
            assert told.fields["error"] == f"{code.value}: no"
            assert told.fields["score"] == it.world.expected[job]
            assert json.loads(told.fields["features"]) == {"vmaf": it.world.expected[job]}


@pytest.mark.parametrize("fault", [Fail(), LoseAnswer(), Hang()], ids=type)
async def test_a_report_is_given_up_after_eight_tries_and_the_slot_goes_on(stage, fault):
    def before(it):
        it.wire.cue(Call.REPORT, *[fault] * 8)

    async with stage(takes_s=1, before=before) as it:
        first, other = it.world.submit("a"), it.world.submit("b")
        await it.until(lambda: it.world.told(events.NOT_DELIVERED) != ())
        assert len(it.reports(first)) == 8
        (lost,) = it.world.told(events.NOT_DELIVERED)
        assert (lost.fields["attempts"], lost.fields["score"]) == (8, it.world.expected[first])
        waits = [told.fields["retry_in"] for told in it.world.told(events.REPORT_FAILED)]
        for wait_s, window_s in zip(waits, [0.5, 1, 2, 4, 8, 15, 15], strict=True):
            assert window_s / 2 <= wait_s <= window_s
        await it.until_ended(other)


async def test_a_report_that_is_denied_while_the_session_lives_is_given_up(stage):
    def before(it):
        it.wire.cue(Call.REPORT, Fail(code=StatusCode.PERMISSION_DENIED, message="not yours"))

    async with stage(takes_s=5, slots=2, before=before) as it:
        it.world.submit("a")
        other = it.world.submit("b")
        await it.until_ended(other)
        await it.advance(3)
        assert len(it.world.registers()) == 1
        assert len(it.world.told(events.NOT_DELIVERED)) == 1


async def test_a_report_whose_answer_was_lost_is_told_again_and_changes_nothing(stage):
    def before(it):
        it.wire.cue(Call.REPORT, LoseAnswer())

    async with stage(takes_s=1, before=before) as it:
        job = it.world.submit("a")
        await it.advance(20)
        first, second = (call.report for call in it.reports(job))
        assert first == second
        assert isinstance(first.content, JobResult)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert len(it.world.told(events.REPORTED)) == 1


async def test_numbers_arrive_to_the_last_bit(stage):
    async with stage(takes_s=1) as it:
        jobs = [it.world.submit(f"clip {number}") for number in range(20)]
        await it.until_ended(*jobs)
        for job in jobs:
            result = it.fake.job(job).result
            assert result is not None
            assert (result.score, result.features) == (
                it.world.expected[job],
                {"vmaf": it.world.expected[job]},
            )
