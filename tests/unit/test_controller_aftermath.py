"""Whatever is stored is counted, told, shown and passed on once (ADR 0025)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.desks import DEV, SPEC, TIMEOUT_S, Caller, a_caller, an_office, swept
from vmafx.app.controller import events, metrics
from vmafx.app.controller.aftermath import Aftermath
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import Job, JobId, JobResult, JobStatus, RequeueReason
from vmafx.domain.lease import Heartbeat
from vmafx.domain.report import Report
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.ports.controller import Assignment
from vmafx.ports.jobstore import Change, Submission
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

SUCCESS = JobResult(score=91.25)
FAILURE = Failure(error="the clips are no clips")
ENDS = {
    JobStatus.COMPLETED: metrics.JOBS_COMPLETED,
    JobStatus.FAILED: metrics.JOBS_FAILED,
    JobStatus.CANCELLED: metrics.JOBS_CANCELLED,
}


class Shown:
    """A `JobFeed` that keeps what it is given."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def publish(self, job: Job) -> None:
        self.jobs.append(job)


@pytest.fixture
def office(clock):
    return an_office(clock)


@pytest.fixture
def shown(office):
    shown = Shown()
    office.aftermath = Aftermath(office.telemetry, office.waits, shown)
    office.desks.aftermath = office.aftermath
    return shown


@pytest.fixture
async def caller(office, shown):
    return await a_caller(office)


def fields_of(office, message: str) -> dict:
    (told,) = office.telemetry.events_of(message)
    return dict(told.fields)


def levels(office) -> list[tuple[Level, str]]:
    return [(event.level, event.message) for event in office.telemetry.events]


def requeues(office) -> dict[str, float]:
    return {
        reason.value: value
        for reason in RequeueReason
        if (value := office.value(metrics.JOBS_REQUEUED, reason=reason.value)) is not None
    }


# ---------------------------------------------------------------- a job's whole life


async def test_a_job_that_is_scored(clock, office, shown, caller):
    job = await office.submit(replace(SPEC, model="vmaf_v0.6.1", backend=Backend.CPU))
    await clock.sleep(2)
    assignment = await caller.pull_job()
    await clock.sleep(10)
    await caller.report(assignment, SUCCESS)
    await caller.report(assignment, SUCCESS)
    assert levels(office) == [
        (Level.INFO, events.NODE_REGISTERED),
        (Level.DEBUG, events.JOB_SUBMITTED),
        (Level.DEBUG, events.JOB_ASSIGNED),
        (Level.INFO, events.JOB_COMPLETED),
    ]
    about = {"tenant": "dev", "job_id": job}
    session = {"node": "node-a", "node_id": caller.session.node_id}
    assert fields_of(office, events.NODE_REGISTERED) == {
        "tenant": "dev",
        **session,
        "backends": "cpu",
        "concurrency": 2,
    }
    assert fields_of(office, events.JOB_SUBMITTED) == {**about, "model": "vmaf_v0.6.1", "backend": "cpu"}
    assert fields_of(office, events.JOB_ASSIGNED) == {**about, **session, "attempt": 1, "waited": 2.0}
    assert fields_of(office, events.JOB_COMPLETED) == {
        **about,
        **session,
        "attempt": 1,
        "took": 12.0,
        "score": 91.25,
    }
    assert office.value(metrics.JOBS_SUBMITTED, tenant="dev") == 1
    assert office.value(metrics.JOBS_COMPLETED, tenant="dev") == 1
    observed = office.telemetry.observations
    assert observed(metrics.QUEUE_WAIT, {"tenant": "dev"}) == (2.0,)
    assert observed(metrics.JOB_DURATION, {"tenant": "dev", "outcome": "completed"}) == (12.0,)
    quality = {"tenant": "dev", "model": "vmaf_v0.6.1", "profile": "none"}
    assert observed(metrics.QUALITY_SCORE, quality) == (91.25,)
    assert [job.status for job in shown.jobs] == [
        JobStatus.PENDING,
        JobStatus.RUNNING,
        JobStatus.COMPLETED,
    ]


async def test_a_job_that_fails(clock, office, shown, caller):
    job = await office.submit()
    await caller.report(await caller.pull_job(), FAILURE)
    assert fields_of(office, events.JOB_FAILED) == {
        "tenant": "dev",
        "job_id": job,
        "node": "node-a",
        "node_id": caller.session.node_id,
        "attempt": 1,
        "took": 0.0,
        "failure": FAILURE.error,
        "lost_attempts": 0,
    }
    assert levels(office)[-1] == (Level.WARN, events.JOB_FAILED)
    assert office.value(metrics.JOBS_FAILED, tenant="dev") == 1
    assert office.telemetry.observations(metrics.JOB_DURATION, {"tenant": "dev", "outcome": "failed"}) == (
        0.0,
    )
    assert shown.jobs[-1].status is JobStatus.FAILED


async def test_a_job_that_is_cancelled_twice_is_counted_once(office, shown):
    job = await office.submit()
    await office.cancel(job)
    await office.cancel(job)
    assert office.value(metrics.JOBS_CANCELLED, tenant="dev") == 1
    assert fields_of(office, events.JOB_CANCELLED)["node"] == ""
    assert [job.status for job in shown.jobs] == [JobStatus.PENDING, JobStatus.CANCELLED]


async def test_a_submission_that_came_again_is_not_news(clock, office, shown):
    job = Job.submitted(job_id="one", tenant=DEV, spec=SPEC, at=clock.now(), idempotency_key="key")
    for _ in range(2):
        office.aftermath.submitted(await office.store.submit(job))
    assert office.value(metrics.JOBS_SUBMITTED, tenant="dev") == 1
    assert len(shown.jobs) == 1


async def test_a_lease_that_is_renewed_is_not_news(clock, office, shown, caller):
    job = await office.submit()
    await caller.pull_job()
    before = len(office.telemetry.events), len(shown.jobs)
    for _ in range(3):
        await clock.sleep(10)
        await caller.beat(job)
    assert (len(office.telemetry.events), len(shown.jobs)) == before


# ---------------------------------------------------------------- every reason to go back


async def test_every_loss_is_counted_and_the_last_one_fails_the_job(clock, office, shown):
    job = await office.submit()
    async with swept(office):
        for number in range(3):
            caller = await a_caller(office, f"node-{number}")
            assert await caller.pull() is not None
            await clock.sleep(120)
    assert requeues(office) == {"node_lost": 2}
    assert office.value(metrics.JOBS_FAILED, tenant="dev") == 1
    assert [event.fields["retry_in"] for event in office.telemetry.events_of(events.JOB_REQUEUED)] == [
        5.0,
        10.0,
    ]
    assert fields_of(office, events.JOB_FAILED)["failure"] == "session of attempt 3 ended (3 of 3)"
    assert [event.fields["node"] for event in office.telemetry.events_of(events.SESSION_ENDED)] == [
        "node-0",
        "node-1",
        "node-2",
    ]
    assert (await office.job(job)).status is JobStatus.FAILED


async def test_a_lease_that_runs_out_under_a_live_session(clock, office, shown, caller):
    job = await office.submit()
    await caller.pull_job()
    await caller.beat(job)
    async with swept(office):
        for _ in range(8):
            await clock.sleep(10)
            await caller.beat()
    assert requeues(office) == {"lease_expired": 1}
    assert levels(office)[-1] == (Level.WARN, events.JOB_REQUEUED)


async def test_a_job_that_was_never_started(clock, office, shown, caller):
    await office.submit()
    await caller.pull_job()
    for _ in range(3):
        await clock.sleep(10)
        await caller.beat()
    assert requeues(office) == {"never_started": 1}


@pytest.mark.parametrize(
    ("retry", "reason", "level"),
    [
        (Retry.ELSEWHERE, "retryable_failure", Level.WARN),
        (Retry.AT_ONCE, "released", Level.INFO),
    ],
)
async def test_a_failure_that_asks_for_another_try(office, shown, caller, retry, reason, level):
    await office.submit()
    await caller.report(await caller.pull_job(), replace(FAILURE, retry=retry))
    assert requeues(office) == {reason: 1}
    assert levels(office)[-1] == (level, events.JOB_REQUEUED)
    told = fields_of(office, events.JOB_REQUEUED)
    assert (told["node"], told["node_id"]) == ("node-a", caller.session.node_id)
    assert office.value(metrics.JOBS_FAILED, tenant="dev") is None


async def test_an_attempt_that_is_taken_over(clock, office, shown, caller):
    job = await office.submit()
    await caller.pull_job()
    async with swept(office):
        await clock.sleep(66)
        assert requeues(office) == {"node_lost": 1}
        old = caller.session.node_id
        await caller.register()
        await caller.beat(job)
    assert fields_of(office, events.JOB_TAKEN_OVER) == {
        "tenant": "dev",
        "job_id": job,
        "node": "node-a",
        "attempt": 1,
        "lost_from": old,
        "loss_forgiven": True,
    }
    assert shown.jobs[-1].status is JobStatus.RUNNING


# ---------------------------------------------------------------- waits


async def test_a_wait_after_a_requeue_counts_from_when_the_job_could_be_claimed(clock, office, shown, caller):
    await office.submit()
    await clock.sleep(3)
    await caller.report(await caller.pull_job(), replace(FAILURE, retry=Retry.ELSEWHERE))
    await clock.sleep(5 + 4)
    await caller.pull_job()
    assert office.telemetry.observations(metrics.QUEUE_WAIT, {"tenant": "dev"}) == (3.0, 4.0)


async def test_a_clock_that_stepped_back_makes_no_wait_negative(clock, office, shown, caller):
    job = await office.submit()
    assignment = await caller.pull_job()
    clock.step_wall(-30)
    await caller.report(assignment, SUCCESS)
    assert (await office.job(job)).status is JobStatus.COMPLETED
    assert office.telemetry.observations(metrics.JOB_DURATION, {"tenant": "dev", "outcome": "completed"}) == (
        0.0,
    )
    office.telemetry.assert_no_misuse()


async def test_work_wakes_the_pulls_that_wait_for_it(clock, shown, office):
    arrived = []

    class Waits(PullWaits):
        def work_arrived(self, tenant, backend, available_at):
            arrived.append((tenant, backend, (available_at - clock.now()).total_seconds()))

    aftermath = Aftermath(office.telemetry, Waits(clock), shown)
    job = Job.submitted(job_id="a", tenant=DEV, spec=replace(SPEC, backend=Backend.CPU), at=clock.now())
    aftermath.submitted(Submission(job=job, created=True))
    aftermath.submitted(Submission(job=job, created=False))
    aftermath.changes([Change(job=job, effects=())])
    assert arrived == [(DEV, Backend.CPU, 0.0)]
    office.aftermath = office.desks.aftermath = aftermath
    caller = await a_caller(office)
    await office.submit()
    await caller.report(await caller.pull_job(), replace(FAILURE, retry=Retry.ELSEWHERE))
    assert arrived[1:] == [(DEV, None, 0.0), (DEV, None, 5.0)]


# ---------------------------------------------------------------- the counts and the history agree


class Day:
    """What may happen to jobs and nodes, by chance."""

    def __init__(self, office, chance: Random) -> None:
        self.office = office
        self.chance = chance
        self.jobs: list[JobId] = []
        self.held: dict[Caller, list[Assignment]] = {}

    async def one_thing(self) -> None:
        caller = self.chance.choice(list(self.held))
        mine = self.held[caller]
        try:
            await self._one_thing(caller, mine)
        except ControllerError:
            await caller.register()

    async def _one_thing(self, caller: Caller, mine: list[Assignment]) -> None:
        match self.chance.randrange(8):
            case 0 | 1:
                self.jobs.append(await self.office.submit())
            case 2 | 3:
                got = await caller.pull()
                mine.extend([got] if got else [])
            case 4 if mine:
                outcomes = [SUCCESS, *(replace(FAILURE, retry=retry) for retry in Retry)]
                await caller.report(mine.pop(), self.chance.choice(outcomes))
            case 5 if mine:
                await caller.desk.take_back(caller.session, mine.pop())
            case 6 if self.jobs:
                await self.office.cancel(self.chance.choice(self.jobs))
            case 7:
                await caller.beat(*(it.job_id for it in mine if self.chance.random() < 0.9))


@pytest.mark.parametrize("seed", range(5))
async def test_the_counts_are_those_of_the_stored_history(clock, office, shown, seed):
    day = Day(office, Random(seed))
    for number in range(3):
        day.held[await a_caller(office, f"node-{number}")] = []
    async with swept(office):
        for _ in range(300):
            await day.one_thing()
            await clock.sleep(day.chance.choice([0, 1, 1, 5]))
    histories = [await office.store.history(DEV, job) for job in day.jobs]
    ended = Counter(h.job.status for h in histories if h.job.status.terminal)
    assert office.value(metrics.JOBS_SUBMITTED, tenant="dev") == len(histories)
    assert ended.keys() == ENDS.keys()
    for status, family in ENDS.items():
        assert office.value(family, tenant="dev") == ended[status]
        labels = {"tenant": "dev", "outcome": status.value}
        assert len(office.telemetry.observations(metrics.JOB_DURATION, labels)) == ended[status]
    attempts = Counter(a.outcome for h in histories for a in h.attempts)
    assigned = office.telemetry.observations(metrics.QUEUE_WAIT, {"tenant": "dev"})
    assert len(assigned) == attempts.total()
    assert requeues(office)["assign_rollback"] == attempts[AttemptOutcome.UNDONE]
    assert requeues(office)["released"] == attempts[AttemptOutcome.RELEASED]
    office.telemetry.assert_no_misuse()


async def test_an_older_node_that_lists_nothing_is_taken_at_its_word(clock, office, shown, caller):
    job = await office.submit()
    assignment = await caller.pull_job()
    async with swept(office):
        for _ in range(12):
            await clock.sleep(10)
            heartbeat = Heartbeat(jobs_running=1)
            await caller.desk.heartbeat(caller.session, heartbeat, timeout_s=TIMEOUT_S)
        await caller.desk.report(
            caller.session, assignment.job_id, Report(content=SUCCESS), timeout_s=TIMEOUT_S
        )
    assert await office.status(job) is JobStatus.COMPLETED
    assert requeues(office) == {}
