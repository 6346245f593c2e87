"""Jobs from the pull to the end of the report: cancelling, adopting, reporting, garbage (ADR 0018)."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.node_world import ENDLESS, MODES, REFERENCE, make_world, running, score_of, until
from vmafx.adapters.fakes.controller_faults import Delay, Fail, Hang, LoseAnswer, Substitute
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.domain.errors import ClipError, ScorerError, SourceError
from vmafx.domain.job import JobId, JobResult, JobStatus
from vmafx.domain.retry import Call, ReportStep, StatusCode, report_step
from vmafx.domain.scoring import Failure, Retry
from vmafx.ports.controller import Assignment, HeartbeatAnswer
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time


def assignment(job_id: str, name: str = "a", *, attempt: int | None = None, **more: object) -> Assignment:
    asked: dict[str, object] = {"reference": REFERENCE, "distorted": f"/clips/{name}.y4m", **more}
    roots = asked.pop("scoring_roots", ("/clips",))
    return Assignment(job_id=JobId(job_id), attempt=attempt, scoring_roots=roots, **asked)


def content(call):
    return call.report.content


# ---------------------------------------------------------------- cancelling


async def test_a_cancelled_job_is_stopped_by_the_next_heartbeat_and_no_other(clock):
    async with running(make_world(clock, slots=2, run=lambda _: ENDLESS)) as it:
        first, second = it.submit("a"), it.submit("b")
        await clock.sleep(5)
        it.fake.cancel(first)
        await clock.sleep(6)
        assert it.watched.jobs == [second]
        (report,) = it.reports()
        assert content(report) == Failure(
            error=f"cancelled by the controller: executor: score job {first}: the run was stopped"
        )
        assert it.status(first) is JobStatus.CANCELLED
        assert it.telemetry.value("vmafx_node_jobs_total", {"backend": "cpu", "outcome": "cancelled"}) == 1
    (event,) = it.told(events.CANCELLED)
    assert (event.level, event.fields["job_id"]) == (Level.INFO, first)


async def test_a_job_is_cancelled_while_it_is_prepared(clock):
    it = make_world(clock)
    it.sources.add("/clips/a.y4m", FakeSource(takes_s=1000))
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        it.fake.cancel(job)
        await clock.sleep(8)
        assert content(it.reports()[0]).error.startswith("cancelled by the controller: ")
        assert it.scorer.requests == []
        assert it.sources.held == ()


async def test_a_cancel_during_the_report_changes_nothing(clock):
    it = make_world(clock, takes_s=5)
    it.fake.wire.cue(Call.REPORT, Hang())
    async with running(it):
        job = it.submit("a")
        await until(lambda: it.reports(job) != [], clock)
        it.fake.cancel(job)
        await clock.sleep(20)
        assert [type(content(call)) for call in it.reports(job)] == [JobResult, JobResult]
        assert it.status(job) is JobStatus.CANCELLED
    assert not it.told(events.CANCELLED)


async def test_a_job_cancelled_before_it_was_ever_listed_is_stopped(clock):
    async with running(make_world(clock, run=lambda _: ENDLESS)) as it:
        await clock.sleep(11)
        job = it.submit("a")
        await clock.sleep(0.5)
        assert it.watched.jobs == [job]
        it.fake.cancel(job)
        await clock.sleep(10)
        assert it.watched.jobs == []


async def test_a_score_that_arrives_although_the_job_was_cancelled_is_reported(clock):
    it = make_world(clock, takes_s=1)
    score = it.watched.score

    async def stubborn(request, *, progress=None):
        try:
            await clock.sleep(10_000)
        except asyncio.CancelledError:
            return await score(request, progress=progress)
        raise AssertionError

    it.watched.score = stubborn
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        it.fake.cancel(job)
        await clock.sleep(20)
        assert [type(content(call)) for call in it.reports(job)] == [JobResult]
        assert it.telemetry.value("vmafx_node_jobs_total", {"backend": "cpu", "outcome": "completed"}) == 1


async def test_the_words_of_a_scorer_that_ends_by_an_error_are_the_cause_of_a_cancel(clock):
    it = make_world(clock)

    async def score(request, *, progress=None):
        try:
            await clock.sleep(10_000)
        except asyncio.CancelledError:
            raise ClipError("/clips/a.y4m", "torn by the kill") from None

    it.watched.score = score
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        it.fake.cancel(job)
        await clock.sleep(10)
        text = f"cancelled by the controller: executor: score job {job}: torn by the kill"
        assert content(it.reports()[0]) == Failure(error=text)


# ---------------------------------------------------------------- pulled again


async def test_a_job_pulled_again_is_adopted_and_its_run_answers_for_the_new_attempt(clock):
    it = make_world(clock, slots=2, takes_s=30)
    again = assignment("job-1", attempt=2)
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        it.fake.wire.cue(Call.PULL, Substitute(answer=again))
        await clock.sleep(40)
        assert len(it.scorer.requests) == 1
        assert [call.report.attempt for call in it.reports(job)] == [2]
        other = it.submit("b")
        await it.fake.until_ended(other)
    (event,) = it.told(events.JOB_PULLED_AGAIN)
    assert event.fields["answer"] == "adopted"


async def test_a_success_under_report_answers_for_the_new_attempt(clock):
    it = make_world(clock, slots=2, takes_s=5)
    it.fake.wire.cue(Call.REPORT, Hang())
    async with running(it):
        job = it.submit("a")
        await until(lambda: it.reports(job) != [], clock)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("job-1", attempt=7)))
        await clock.sleep(20)
        assert len(it.scorer.requests) == 1
        assert [call.report.attempt for call in it.reports(job)] == [1, 7]
        assert it.status(job) is JobStatus.COMPLETED


async def test_a_success_whose_report_arrived_meanwhile_is_told_for_the_new_attempt_too(clock):
    it = make_world(clock, slots=2, takes_s=5)
    it.fake.wire.cue(Call.REPORT, Hang(answered=True))
    async with running(it):
        job = it.submit("a")
        await until(lambda: it.reports(job) != [], clock)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("job-1", attempt=7)))
        await until(lambda: it.told(events.JOB_PULLED_AGAIN) != (), clock)
        it.fake.wire.release()
        await clock.sleep(5)
        assert [call.report.attempt for call in it.reports(job)] == [1, 7]


async def test_a_job_whose_failure_is_reported_runs_afresh_after_that(clock):
    it = make_world(clock, slots=2, takes_s=5)
    it.scorer.cue(FakeRun(error=ClipError("/clips/a.y4m", "torn")))
    it.fake.wire.cue(Call.REPORT, Hang())
    async with running(it):
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=1)))
        await until(lambda: it.reports() != [], clock)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=2)))
        await clock.sleep(30)
        assert len(it.scorer.requests) == 2
        told = [(call.report.attempt, type(content(call))) for call in it.reports()]
        assert told == [(1, Failure), (1, Failure), (2, JobResult)]
    (event,) = it.told(events.JOB_PULLED_AGAIN)
    assert event.fields["answer"] == "afresh"


async def test_one_id_with_other_inputs_is_another_job(clock):
    it = make_world(clock, slots=2, takes_s=8)
    async with running(it):
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", "a")))
        await clock.sleep(1)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", "b")))
        await clock.sleep(200)
        scores = [content(call).score for call in it.reports() if isinstance(content(call), JobResult)]
        assert scores == [score_of("/clips/a.y4m"), score_of("/clips/b.y4m")]


async def test_a_controller_that_hands_out_one_job_for_ever_is_not_hammered(clock):
    def always(call):
        return Substitute(answer=assignment("x", attempt=1)) if call.kind is Call.PULL else None

    async with running(make_world(clock, slots=2, rule=always, run=lambda _: ENDLESS)) as it:
        await clock.sleep(100)
        assert len(it.scorer.requests) == 1
        assert len(it.pulls()) <= 101


async def test_a_job_pulled_again_while_its_cancelled_run_ends_runs_afresh(clock):
    it = make_world(clock, slots=2, takes_s=30)
    it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=8))
    it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=1)))
    cancels = HeartbeatAnswer(ok=True, cancel_job_ids=(JobId("x"),))
    it.fake.wire.cue(Call.HEARTBEAT, Substitute(answer=cancels))
    async with running(it):
        await until(lambda: it.told(events.CANCELLED) != (), clock)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=2)))
        await clock.sleep(60)
        first, second = (call.report for call in it.reports())
        assert (first.attempt, first.content.error[:12]) == (1, "cancelled by")
        assert (second.attempt, type(second.content)) == (2, JobResult)


async def test_a_success_refused_before_it_was_handed_out_anew_is_told_again(clock):
    it = make_world(clock, slots=2, takes_s=4)
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.PERMISSION_DENIED, message="not yours"))
    it.fake.wire.cue(Call.HEARTBEAT, Delay(after_s=3))
    async with running(it):
        job = it.submit("a")
        await until(lambda: it.reports(job) != [], clock)
        it.fake.wire.cue(Call.PULL, Substitute(answer=assignment(job, attempt=4)))
        await it.fake.until_ended(job)
        assert [call.report.attempt for call in it.reports(job)] == [1, 4]
        assert len(it.scorer.requests) == 1
        assert it.status(job) is JobStatus.COMPLETED


# ---------------------------------------------------------------- reporting


@pytest.mark.parametrize("code", StatusCode, ids=lambda code: code.value)
async def test_a_report_is_tried_again_as_its_code_says(clock, code):
    it = make_world(clock, takes_s=1)
    if code is not StatusCode.OK:
        it.fake.wire.cue(Call.REPORT, Fail(code=code, message="no"))
    async with running(it):
        job = it.submit("a")
        await clock.sleep(20)
        tries = len(it.reports(job))
    step = report_step(code)
    if step is ReportStep.DELIVERED:
        assert (tries, len(it.told(events.REPORTED))) == (1, 1)
    elif step is ReportStep.RETRY:
        assert (tries, len(it.told(events.REPORT_FAILED))) == (2, 1)
    else:
        (event,) = it.told(events.NOT_DELIVERED)
        assert (tries, event.level) == (1, Level.ERROR)
        assert event.fields["error"] == f"{code.value}: no"
        assert event.fields["attempts"] == 1
        assert event.fields["score"] == it.expected[job]
        assert json.loads(event.fields["features"]) == {"vmaf": it.expected[job]}


async def test_a_report_is_given_up_after_eight_tries_with_the_whole_result_in_the_log(clock):
    it = make_world(clock, takes_s=1)
    it.fake.wire.cue(Call.REPORT, *[Fail(code=StatusCode.INTERNAL, message="broken")] * 8)
    async with running(it):
        job = it.submit("a")
        await until(lambda: it.told(events.NOT_DELIVERED) != (), clock)
        assert len(it.reports(job)) == 8
    waits = [event.fields["retry_in"] for event in it.told(events.REPORT_FAILED)]
    for wait_s, window_s in zip(waits, [0.5, 1, 2, 4, 8, 15, 15], strict=True):
        assert window_s / 2 <= wait_s <= window_s
    (event,) = it.told(events.NOT_DELIVERED)
    assert event.fields == {
        "node_id": "session-1",
        "job_id": job,
        "attempts": 8,
        "attempt": 1,
        "error": "INTERNAL: broken",
        "score": it.expected[job],
        "features": json.dumps({"vmaf": it.expected[job]}),
    }


async def test_a_failure_that_is_not_delivered_is_in_the_log(clock):
    it = make_world(clock, run=lambda _: FakeRun(error=ClipError("/clips/a.y4m", "torn")))
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.INVALID_ARGUMENT, message="no"))
    async with running(it):
        job = it.submit("a")
        await clock.sleep(5)
    (event,) = it.told(events.NOT_DELIVERED)
    assert event.fields["failure"] == f"executor: score job {job}: torn"
    assert (event.fields["retry"], event.fields["attempt"]) == ("", 1)
    assert "score" not in event.fields


async def test_a_fault_of_the_machine_that_is_not_delivered_says_that_another_may_try(clock):
    it = make_world(clock, run=lambda _: FakeRun(error=ScorerError("no memory", machine_fault=True)))
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.INVALID_ARGUMENT, message="no"))
    async with running(it):
        it.submit("a")
        await until(lambda: it.told(events.NOT_DELIVERED) != (), clock)
    assert it.told(events.NOT_DELIVERED)[0].fields["retry"] == "true"


async def test_a_denied_report_whose_session_is_gone_goes_out_under_the_next(clock):
    async with running(make_world(clock, takes_s=5)) as it:
        job = it.submit("a")
        await clock.sleep(2)
        it.fake.end_sessions(jobs_lost=False)
        await it.fake.until_ended(job)
        assert [call.session.node_id for call in it.reports(job)] == ["session-1", "session-2"]
        assert it.status(job) is JobStatus.COMPLETED
        assert len(it.scorer.requests) == 1
        assert clock.monotonic() < 10


async def test_a_denied_report_whose_session_lives_is_refused_for_good(clock):
    it = make_world(clock, takes_s=5, slots=2)
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.PERMISSION_DENIED, message="not yours"))
    async with running(it):
        it.submit("a")
        other = it.submit("b")
        await it.fake.until_ended(other)
        await clock.sleep(3)
        assert len(it.registers()) == 1
        assert len(it.reports()) == 2
    (event,) = it.told(events.NOT_DELIVERED)
    assert event.fields["error"] == "PERMISSION_DENIED: not yours"


async def test_a_denied_report_whose_judging_heartbeat_fails_is_tried_again(clock):
    it = make_world(clock, takes_s=5)
    it.fake.wire.cue(Call.REPORT, Fail(code=StatusCode.PERMISSION_DENIED, message="perhaps"))
    it.fake.wire.cue(Call.HEARTBEAT, Fail())
    async with running(it):
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert len(it.reports(job)) == 2


async def test_an_original_controller_that_lost_the_job_hands_it_out_and_hears_of_it(clock):
    it = make_world(clock, mode=MODES[1], takes_s=30, slots=2)
    async with running(it):
        job = it.submit("a")
        await clock.sleep(3)
        it.fake.end_sessions()
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED
        assert len(it.scorer.requests) == 1
    assert it.told(events.JOB_PULLED_AGAIN)


async def test_a_lost_answer_to_a_report_is_told_again_and_changes_nothing(clock):
    it = make_world(clock, takes_s=1)
    it.fake.wire.cue(Call.REPORT, LoseAnswer())
    async with running(it):
        job = it.submit("a")
        await clock.sleep(10)
        assert len(it.reports(job)) == 2
        assert it.status(job) is JobStatus.COMPLETED


# ---------------------------------------------------------------- garbage


@pytest.mark.parametrize("job_id", ["", "x" * 257, "ä" * 129, "y" * (3 << 20)], ids=len)
async def test_an_id_that_cannot_be_listed_is_refused_and_other_slots_go_on(clock, job_id):
    it = make_world(clock, slots=2, takes_s=1)
    it.fake.wire.cue(Call.PULL, *[Substitute(answer=assignment(job_id))] * 2)
    async with running(it):
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert [request.job_id for request in it.scorer.requests] == [job]
        assert {call.job_id for call in it.reports()} == {job}
    refused = it.told(events.JOB_REFUSED)
    assert refused[0].level is Level.ERROR
    assert refused[0].fields["bytes"] == len(job_id.encode())
    assert refused[0].fields["node_id"] == "session-1"
    assert all(event.fields["retry_in"] >= 1 for event in refused)
    assert not it.told(events.PULL_FAILED)  # no call failed
    assert len(refused[0].fields["job_id"].encode()) <= 512


@pytest.mark.parametrize(
    "job_id", ["../../etc/passwd", "a/b", "..", "nul\0", "line\nfeed", "\x1b[31m", "x" * 256]
)
async def test_an_id_is_opaque(clock, job_id):
    it = make_world(clock, takes_s=15)
    it.fake.wire.cue(Call.PULL, Substitute(answer=assignment(job_id)))
    async with running(it):
        await clock.sleep(30)
        (request,) = it.scorer.requests
        assert request.job_id == job_id
        assert it.beats()[0].heartbeat.listed == (job_id,)
        assert it.reports()[0].job_id == job_id


GARBAGE = {
    "no scoring block": Assignment(job_id=JobId("x")),
    "no distorted clip": assignment("x", distorted="", model=""),
    "an AI job": assignment("x", distorted="", model="m"),
    "no reference": assignment("x", reference=""),
    "no roots": assignment("x", scoring_roots=()),
    "10 000 roots": assignment("x", scoring_roots=("/clips",) * 10_000),
    "a root that is none": assignment("x", scoring_roots=("relative",)),
    "an unknown backend": assignment("x", backend="quantum"),
    "a path that climbs": assignment("x", distorted="/clips/../etc/shadow"),
    "a clip with NUL": assignment("x", distorted="/clips/a\0.y4m"),
    "a clip of 3 MiB": assignment("x", distorted="/clips/" + "a" * (3 << 20)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
async def test_an_assignment_that_cannot_be_run_fails_alone(clock, garbage):
    it = make_world(clock, slots=2, takes_s=5)
    it.fake.wire.cue(Call.PULL, Substitute(answer=garbage))
    async with running(it):
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert len(it.scorer.requests) == 1
        assert it.sources.prepared_texts == [REFERENCE, "/clips/a.y4m"]
        (report,) = it.reports(JobId("x"))
        failure = content(report)
        assert isinstance(failure, Failure)
        assert failure.retry is Retry.NO
        assert len(failure.error.encode()) <= 4096


async def test_a_flood_of_ids_to_cancel_is_harmless(clock):
    it = make_world(clock, takes_s=15)
    flood = tuple(JobId(f"job-{n}") for n in range(1, 20_000)) * 2
    it.fake.wire.cue(Call.HEARTBEAT, Substitute(answer=HeartbeatAnswer(ok=True, cancel_job_ids=flood)))
    async with running(it):
        it.submit("a")
        await clock.sleep(20)
    assert len(it.told(events.CANCELLED)) == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyError("x"), OSError(5, "I/O error")], ids=repr)
@pytest.mark.parametrize("where", ["scorer", "prepare", "resolve"])
async def test_an_error_that_no_port_allows_fails_one_job(clock, error, where):
    it = make_world(clock, slots=2, takes_s=5)

    async def fails(*_args, **_more):
        raise error

    def fails_at_once(*_args, **_more):
        raise error

    async with running(it):
        if where == "scorer":
            it.watched.score, kept, place, name = fails, it.watched.score, it.watched, "score"
        elif where == "prepare":
            it.sources.prepared, kept, place, name = (
                fails_at_once,
                it.sources.prepared,
                it.sources,
                "prepared",
            )
        else:
            it.sources.resolve, kept, place, name = fails, it.sources.resolve, it.sources, "resolve"
        bad = it.submit("a")
        await it.fake.until_ended(bad)
        assert it.status(bad) is JobStatus.FAILED
        assert it.error(bad).startswith(f"executor: score job {bad}: {type(error).__name__}: ")
        setattr(place, name, kept)
        good = it.submit("b")
        await it.fake.until_ended(good)
        assert it.status(good) is JobStatus.COMPLETED


async def test_a_source_that_is_missing_fails_the_job(clock):
    it = make_world(clock)
    it.sources.add("/clips/a.y4m", FakeSource(error=SourceError("/clips/a.y4m", "no such file")))
    async with running(it):
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert it.error(job) == f"executor: score job {job}: no such file"
        assert it.telemetry.value("vmafx_node_jobs_total", {"backend": "cpu", "outcome": "failed"}) == 1
