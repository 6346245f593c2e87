"""What a node does with jobs before any controller: cancelling and adopting them (ADR 0018)."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.node_harness import Stage, Trait
from tests.node_world import ENDLESS, REFERENCE
from vmafx.adapters.fakes.controller_faults import Delay, Hang, Substitute
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.domain.errors import ClipError
from vmafx.domain.job import JobId, JobResult, JobStatus
from vmafx.domain.retry import Call
from vmafx.domain.scoring import Failure
from vmafx.ports.controller import Assignment, HeartbeatAnswer

STOPPED = "cancelled by the controller: executor: score job {}: the run was stopped"


def cancel(it: Stage, *jobs: str) -> None:
    """Cancel jobs; before a controller that names none, the next heartbeat is made to name them."""
    ids = tuple(JobId(job) for job in jobs)
    for job in set(ids) & {known.id for known in it.fake.jobs}:
        it.fake.cancel(job)
    if Trait.NAMES_CANCELLED not in it.traits:
        name(it, *ids)


def name(it: Stage, *jobs: str) -> None:
    """Let the next heartbeat's answer name jobs, whatever they are."""
    answer = HeartbeatAnswer(ok=True, cancel_job_ids=tuple(JobId(job) for job in jobs))
    it.wire.cue(Call.HEARTBEAT, Substitute(answer=answer))


def assignment(job_id: str, clip: str = "a", *, attempt: int | None = None) -> Assignment:
    return Assignment(
        job_id=JobId(job_id),
        reference=REFERENCE,
        distorted=f"/clips/{clip}.y4m",
        model="",
        backend="",
        scoring_roots=("/clips",),
        attempt=attempt,
    )


def contents(it: Stage, job: str | None = None) -> list[type]:
    return [type(call.report.content) for call in it.reports(job)]


# ---------------------------------------------------------------- cancelling


async def test_a_cancel_stops_exactly_that_job(stage):
    async with stage(slots=3, run=lambda _: ENDLESS) as it:
        first, second, third = (it.world.submit(clip) for clip in "abc")
        await it.advance(5)
        cancel(it, second)
        await it.until(lambda: it.reports() != [])
        assert len(it.world.beats()) == 1
        assert sorted(it.world.watched.jobs) == [first, third]
        (report,) = it.reports()
        assert (report.job_id, report.report.content) == (second, Failure(error=STOPPED.format(second)))
        assert it.world.status(second) is JobStatus.CANCELLED
        (told,) = it.world.told(events.CANCELLED)
        assert told.fields["job_id"] == second


async def test_a_slot_whose_job_was_cancelled_takes_the_next(stage):
    async with stage(run=lambda request: ENDLESS if "a.y4m" in request.distorted.name else FakeRun()) as it:
        first = it.world.submit("a")
        await it.advance(5)
        other = it.world.submit("b")
        it.world.expected[other] = FakeRun().score
        cancel(it, first)
        await it.until_ended(other)
        assert it.world.status(other) is JobStatus.COMPLETED


@pytest.mark.parametrize("strangers", [("nobody's",), ("",), ("job-1\0", "../job-1", "\n"), ("x" * 100_000,)])
async def test_a_cancel_of_foreign_jobs_is_ignored(stage, strangers):
    async with stage(takes_s=15) as it:
        job = it.world.submit("a")
        await it.advance(5)
        name(it, *strangers)
        await it.until_ended(job)
        assert len(it.world.beats()) == 1
        assert it.world.status(job) is JobStatus.COMPLETED
        assert it.world.told(events.CANCELLED) == ()


async def test_a_cancel_of_a_finished_job_is_ignored(stage):
    async with stage(takes_s=2) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        name(it, job)
        await it.until(lambda: len(it.world.beats()) == 2)
        assert contents(it) == [JobResult]
        assert it.world.told(events.CANCELLED) == ()


async def test_a_job_that_finished_while_its_cancel_was_on_the_way_is_reported_as_scored(stage):
    async with stage(takes_s=12) as it:
        it.wire.cue(Call.HEARTBEAT, Delay(after_s=5))
        job = it.world.submit("a")
        await it.advance(5)
        it.fake.cancel(job)
        await it.until(lambda: it.reports(job) != [])
        await it.advance(9)
        assert contents(it, job) == [JobResult]
        assert it.world.told(events.CANCELLED) == ()


async def test_a_cancel_during_prepare_stops_it_before_anything_is_scored(stage):
    def before(it):
        it.sources.add("/clips/a.y4m", FakeSource(takes_s=1000))

    async with stage(before=before) as it:
        job = it.world.submit("a")
        await it.advance(5)
        cancel(it, job)
        await it.until(lambda: it.reports(job) != [])
        assert it.reports(job)[0].report.content == Failure(error=STOPPED.format(job))
        assert it.scorer.requests == []
        assert it.sources.held == ()


async def test_a_cancel_during_the_report_changes_nothing(stage):
    def before(it):
        it.wire.cue(Call.REPORT, Hang())

    async with stage(before=before, takes_s=5) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.reports(job) != [])
        cancel(it, job)
        await it.advance(20)
        assert set(contents(it, job)) == {JobResult}
        assert it.world.told(events.CANCELLED) == ()
        other = it.world.submit("b")
        await it.until_ended(other)


async def test_a_cancel_before_the_job_was_ever_listed_stops_it(stage):
    async with stage(run=lambda _: ENDLESS) as it:
        await it.until(lambda: len(it.world.beats()) == 1)
        job = it.world.submit("a")
        await it.until(lambda: it.world.watched.jobs == [job])
        assert not any(job in beat.heartbeat.listed for beat in it.world.beats())
        cancel(it, job)
        await it.until(lambda: it.reports(job) != [])
        assert len(it.world.beats()) == 2
        assert it.world.watched.jobs == []


async def test_a_cancelled_job_is_stopped_once_however_often_it_is_named(stage):
    def before(it):
        it.sources.add("/clips/a.y4m", FakeSource(release_takes_s=25))

    async with stage(before=before, run=lambda _: ENDLESS) as it:
        job = it.world.submit("a")
        await it.advance(5)
        for _ in range(3):
            name(it, job)
        await it.until(lambda: it.reports(job) != [])
        assert len(it.world.beats()) == 3
        assert it.reports(job)[0].at_s == pytest.approx(10 + 25)


async def test_a_score_that_arrives_although_the_job_was_cancelled_is_reported(stage):
    def before(it):
        score = it.world.watched.score

        async def stubborn(request, *, progress=None):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await score(request, progress=progress)

        it.world.watched.score = stubborn

    async with stage(before=before, takes_s=3) as it:
        job = it.world.submit("a")
        await it.advance(5)
        cancel(it, job)
        await it.until(lambda: it.reports(job) != [])
        assert contents(it, job) == [JobResult]
        assert it.world.status(job) is JobStatus.CANCELLED


# ---------------------------------------------------------------- pulled again


async def test_a_job_pulled_again_while_it_runs_is_adopted(stage):
    async with stage(slots=2, takes_s=30) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.world.watched.jobs == [job])
        it.wire.cue(Call.PULL, Substitute(answer=assignment(job, attempt=2)))
        await it.until(lambda: it.world.told(events.JOB_PULLED_AGAIN) != ())
        other = it.world.submit("b")
        await it.until_ended(job, other)
        assert len(it.scorer.requests) == 2
        (told,) = it.world.told(events.JOB_PULLED_AGAIN)
        assert (told.fields["job_id"], told.fields["answer"]) == (job, "adopted")
        assert [call.report.attempt for call in it.reports(job)] == [2]
        assert it.world.status(job) is JobStatus.COMPLETED


async def test_a_job_lost_and_handed_out_again_to_its_own_node_runs_once(stage):
    async with stage(slots=2, takes_s=60) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.world.watched.jobs == [job])
        it.fake.end_sessions(jobs_lost=True)
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert len(it.scorer.requests) == 1
        again = it.world.told(events.JOB_PULLED_AGAIN)
        assert [told.fields["answer"] for told in again] == ["adopted"] * len(again)
        if Trait.TAKES_OVER not in it.traits:  # the others take the attempt over, unless a pull was faster
            assert len(again) == 1


@pytest.mark.parametrize("taken", [False, True], ids=["not taken yet", "taken"])
async def test_a_success_under_report_answers_for_the_new_attempt(stage, taken):
    def before(it):
        it.wire.cue(Call.REPORT, Hang(answered=taken))

    async with stage(slots=2, takes_s=5, before=before) as it:
        job = it.world.submit("a")
        await it.until(lambda: it.wire.hanging == 1)
        it.wire.cue(Call.PULL, Substitute(answer=assignment(job, attempt=7)))
        await it.until(lambda: it.world.told(events.JOB_PULLED_AGAIN) != ())
        it.wire.release()
        await it.advance(20)
        assert len(it.scorer.requests) == 1
        assert contents(it, job) == [JobResult, JobResult]
        assert it.reports(job)[-1].report.attempt == 7
        assert it.world.status(job) is JobStatus.COMPLETED


async def test_a_failure_under_report_lets_the_job_run_afresh(stage):
    def before(it):
        it.scorer.cue(FakeRun(error=ClipError("/clips/a.y4m", "torn")))
        it.wire.cue(Call.REPORT, Hang())
        it.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=1)))

    async with stage(slots=2, takes_s=5, before=before) as it:
        await it.until(lambda: it.wire.hanging == 1)
        it.wire.cue(Call.PULL, Substitute(answer=assignment("x", attempt=2)))
        await it.until(lambda: it.world.told(events.JOB_PULLED_AGAIN) != ())
        it.wire.release()
        await it.until(lambda: JobResult in contents(it))
        assert len(it.scorer.requests) == 2
        assert it.reports()[0].report.attempt == 1
        assert (it.reports()[-1].report.attempt, contents(it)[-1]) == (2, JobResult)
        assert it.world.told(events.JOB_PULLED_AGAIN)[0].fields["answer"] == "afresh"
