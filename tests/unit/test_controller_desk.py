"""The desk of a tenant: its words, its deadlines, and callers that vanish at any moment (ADR 0025)."""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64decode
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest

from tests.desks import (
    CPU,
    DEV,
    POLICY,
    RIVAL,
    ROOTS,
    SPEC,
    TIMEOUT_S,
    Caller,
    a_caller,
    an_office,
    swept,
)
from vmafx.app.controller import events, metrics
from vmafx.app.controller.outage import FAILURES_TOLD_EVERY_S
from vmafx.app.controller.whole import whole
from vmafx.domain.errors import ControllerError, StoreError, StoreUnavailableError
from vmafx.domain.job import JobId, JobResult, JobStatus, RequeueReason, SessionId, TenantId
from vmafx.domain.nodesession import SessionKey
from vmafx.domain.report import Partial, Report
from vmafx.domain.roots import RootTemplates
from vmafx.domain.scoring import Backend, Failure
from vmafx.ports.controller import Assignment, HeartbeatAnswer
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

SUCCESS = JobResult(score=91.25, features={"vmaf": 91.25})
ROLLBACK = {"reason": RequeueReason.ASSIGN_ROLLBACK.value}


@pytest.fixture
def office(clock):
    return an_office(clock)


@pytest.fixture
async def caller(office):
    return await a_caller(office)


async def refusal(call) -> tuple[str, str]:
    with pytest.raises(ControllerError) as caught:
        await call
    return caught.value.code, caught.value.message


# ---------------------------------------------------------------- sessions


async def test_the_store_knows_the_digest_of_the_secret_alone(clock, office, caller):
    secret = caller.session.session_token
    assert len(urlsafe_b64decode(secret + "=")) == 32
    assert "=" not in secret
    key = SessionKey(
        tenant=DEV, session=caller.session.node_id, token_sha256=sha256(secret.encode()).digest()
    )
    session = await office.store.look_up(key, now=clock.now())
    assert (session.node, session.instance) == (caller.identity.name, caller.identity.instance)
    assert session.capability == caller.capability
    assert session.expires_at == clock.now() + timedelta(seconds=POLICY.lease.session_ttl_s)
    assert secret not in str(office.telemetry.events)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "node name is required"),
        ("n" * 257, "node name has 257 bytes, at most 256 are accepted"),
        *[(f"node{odd}a", "node name holds a control character") for odd in "\0\n\x1b\x7f\x9f"],
        ("\udcff" * 100, "node name has 300 bytes, at most 256 are accepted"),
    ],
)
async def test_a_name_that_is_none_is_refused(office, name, problem):
    assert await refusal(Caller(office.desk(), name).register()) == ("INVALID_ARGUMENT", problem)
    assert await office.store.live_count(now=office.clock.now()) == 0


async def test_a_session_of_another_tenant_is_no_session(office, caller):
    await office.submit(tenant=RIVAL)
    thief = Caller(office.desk(RIVAL))
    thief.session = caller.session
    assert await thief.beat() == HeartbeatAnswer(ok=False)
    assert (await refusal(thief.pull()))[0] == "PERMISSION_DENIED"
    assert office.telemetry.events_of(events.STORE_FAILED) == ()


# ---------------------------------------------------------------- words


async def test_refusals_have_the_words_of_the_wire(office, caller):
    job = await office.submit()
    stranger = Caller(office.desk())
    stranger.session = replace(caller.session, node_id=SessionId("nobody"))
    report = Report(content=SUCCESS)
    assert await refusal(stranger.pull()) == (
        "PERMISSION_DENIED",
        'pull work: invalid session for node "nobody"',
    )
    assert await refusal(stranger.desk.report(stranger.session, job, report, timeout_s=TIMEOUT_S)) == (
        "PERMISSION_DENIED",
        'invalid session for node "nobody"',
    )
    assert await refusal(caller.desk.report(caller.session, job, report, timeout_s=TIMEOUT_S)) == (
        "PERMISSION_DENIED",
        f'job "{job}" is not assigned to node "{caller.session.node_id}"',
    )
    (told,) = office.telemetry.events_of(events.REPORT_REFUSED)
    assert (told.level, told.fields) == (
        Level.WARN,
        {"tenant": "dev", "job_id": job, "node_id": caller.session.node_id, "attempt": None},
    )


async def test_ids_from_outside_are_bounded_wherever_they_are_shown(office, caller):
    job = JobId("j" * 100_000)
    _, message = await refusal(
        caller.desk.report(caller.session, job, Report(content=SUCCESS), timeout_s=TIMEOUT_S)
    )
    assert len(message) < 2048
    (told,) = office.telemetry.events_of(events.REPORT_REFUSED)
    assert len(str(told.fields)) < 1024


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (StoreUnavailableError("/jobs.db: disk on fire", told="disk on fire"), "UNAVAILABLE", "disk on fire"),
        (StoreError("odd"), "INTERNAL", "odd"),
    ],
    ids=["transient", "other"],
)
async def test_a_store_that_fails_never_looks_like_a_lost_session(office, caller, error, code, words):
    job = await office.submit()
    office.store.failing = error
    report = Report(content=SUCCESS)
    calls = {
        "register node": caller.register(),
        "heartbeat: look up cancelled jobs": caller.beat(),
        "pull work": caller.pull(),
        "report result": caller.desk.report(caller.session, job, report, timeout_s=TIMEOUT_S),
    }
    for doing, call in calls.items():
        assert await refusal(call) == (code, f"{doing}: {words}")
        await office.clock.sleep(FAILURES_TOLD_EVERY_S)
    told = office.telemetry.events_of(events.STORE_FAILED)
    assert {event.error for event in told} == {error}
    assert [event.fields["call"] for event in told] == [
        "RegisterNode",
        "Heartbeat",
        "PullWork",
        "ReportResult",
    ]


async def test_overlong_words_of_a_failure_are_cut(office, caller):
    job = await office.submit()
    await caller.report(await caller.pull_job(), Failure(error="\x1b" + "e" * 10_000))
    error = (await office.job(job)).error
    assert len(error.encode()) <= 4096
    assert error.isprintable()


async def test_partial_scores_of_the_running_attempt_are_taken(office, caller):
    job = await office.submit()
    await caller.report(await caller.pull_job(), Partial(scores=(1.0,)))
    assert await office.status(job) is JobStatus.RUNNING
    assert office.telemetry.events_of(events.REPORT_REFUSED) == ()


# ---------------------------------------------------------------- roots


async def test_an_assignment_carries_the_roots_of_its_tenant(clock):
    policy = replace(POLICY, roots=RootTemplates.parse([*ROOTS, "/of/{tenant}"]))
    office = an_office(clock, policy)
    caller = await a_caller(office)
    await office.submit()
    assert (await caller.pull_job()).scoring_roots == (*ROOTS, "/of/dev")


async def test_a_job_whose_roots_cannot_be_computed_is_sent_with_none(clock):
    odd = TenantId("../other")
    office = an_office(clock, replace(POLICY, roots=RootTemplates.parse(["/of/{tenant}"])))
    caller = await a_caller(office, tenant=odd)
    await office.submit(tenant=odd)
    assert (await caller.pull_job()).scoring_roots == ()
    (told,) = office.telemetry.events_of(events.ROOTS_FAILED)
    assert told.fields == {"tenant": odd}


# ---------------------------------------------------------------- time


async def test_a_pull_waits_no_longer_than_the_policy_says(clock, office, caller):
    assert await caller.pull(timeout_s=60) is None
    assert clock.monotonic() == POLICY.pull_wait_s
    assert await caller.pull(timeout_s=3) is None
    assert clock.monotonic() == POLICY.pull_wait_s + 2


async def test_a_policy_without_a_wait_answers_at_once(clock):
    office = an_office(clock, replace(POLICY, pull_wait_s=0.0))
    assert await (await a_caller(office)).pull(timeout_s=60) is None
    assert clock.monotonic() == 0
    assert office.store.claims == 1


async def test_a_session_that_ends_during_the_wait_is_noticed(clock):
    office = an_office(clock, replace(POLICY, pull_wait_s=100.0))
    async with swept(office):
        caller = await a_caller(office)
        call = caller.pull(timeout_s=200)
        assert (await refusal(call))[0] == "PERMISSION_DENIED"
    assert clock.monotonic() == 100


async def test_the_callers_deadline_goes_with_the_assignment(clock, office, caller):
    job = await office.submit()
    await caller.pull(timeout_s=7)
    (attempt,) = (await office.store.history(DEV, job)).attempts
    assert attempt.pull_deadline_at == clock.now() + timedelta(seconds=7)


async def test_every_call_ends_by_its_deadline(clock, office, caller):
    job = await office.submit()
    office.store.gate = asyncio.Event()
    opened = asyncio.create_task(clock.sleep(12))
    opened.add_done_callback(lambda _: office.store.gate.set())
    assert await refusal(caller.pull(timeout_s=10)) == ("DEADLINE_EXCEEDED", "pull work: deadline exceeded")
    assert await office.status(job) is JobStatus.PENDING
    assert office.value(metrics.JOBS_REQUEUED, **ROLLBACK) == 1


# ---------------------------------------------------------------- callers that vanish


async def test_a_pull_cancelled_while_its_job_is_stored_leaves_no_assignment(clock, office, caller):
    job = await office.submit()
    office.store.gate = asyncio.Event()
    pull = asyncio.create_task(caller.pull())
    await clock.sleep(1)
    assert await office.status(job) is JobStatus.RUNNING
    pull.cancel()
    await clock.sleep(0)
    pull.cancel()  # once more, while it tidies up
    office.store.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await pull
    assert await office.status(job) is JobStatus.PENDING
    assert office.value(metrics.JOBS_REQUEUED, **ROLLBACK) == 1
    assert (await caller.pull_job()).attempt == 2


@pytest.mark.parametrize("turns", range(12))
async def test_a_pull_cancelled_at_any_moment_leaves_no_assignment(clock, office, caller, turns):
    """Whatever it had come to, the job is there for the next one, or the pull was answered with it."""
    pull = asyncio.create_task(caller.pull(timeout_s=TIMEOUT_S))
    await clock.sleep(1)
    job = await office.submit()
    for _ in range(turns):
        await asyncio.sleep(0)
    if pull.cancel():
        with pytest.raises(asyncio.CancelledError):
            await pull
        assert await office.status(job) is JobStatus.PENDING
        assert (await caller.pull_job()).job_id == job
    else:
        assert (await pull).job_id == job
        assert await office.status(job) is JobStatus.RUNNING
    assert len(office.waits) == 0


async def test_a_job_taken_back_from_one_goes_to_another_who_waits(clock, office, caller):
    await office.submit()
    assignment = await caller.pull_job()
    second = asyncio.create_task((await a_caller(office, "node-b")).pull(timeout_s=TIMEOUT_S))
    await clock.sleep(1)
    await caller.desk.take_back(caller.session, assignment)
    taken = await second
    assert (taken.job_id, taken.attempt) == (assignment.job_id, 2)
    assert clock.monotonic() == 1


async def test_what_is_stored_is_counted_though_the_reporter_has_gone(clock, office, caller):
    job = await office.submit()
    assignment = await caller.pull_job()
    office.store.gate = asyncio.Event()
    reporting = asyncio.create_task(caller.report(assignment, SUCCESS))
    await clock.sleep(1)
    reporting.cancel()
    await clock.sleep(0)
    office.store.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await reporting
    assert await office.status(job) is JobStatus.COMPLETED
    assert office.value(metrics.JOBS_COMPLETED, tenant="dev") == 1


async def test_a_failure_that_nobody_waits_for_any_more_is_no_noise(clock, caplog):
    gate = asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise StoreUnavailableError("gone")

    task = asyncio.create_task(whole(fail(), name="work"))
    await clock.sleep(1)
    task.cancel()
    await clock.sleep(0)
    gate.set()
    with caplog.at_level(logging.DEBUG), pytest.raises(asyncio.CancelledError):
        await task
    assert caplog.records == []


async def test_work_that_is_ended_itself_keeps_nobody(clock):
    task = asyncio.create_task(whole(clock.sleep(1000), name="work"))
    await clock.sleep(1)
    task.cancel()
    await clock.sleep(1)
    assert not task.done()
    (work,) = (each for each in asyncio.all_tasks() if each.get_name() == "work")
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.monotonic() == 2


# ---------------------------------------------------------------- taking back


async def test_a_pull_whose_answer_was_lost_is_taken_back(office, caller):
    job = await office.submit()
    await caller.desk.take_back(caller.session, await caller.pull_job())
    assert await office.status(job) is JobStatus.PENDING
    assert (await office.job(job)).lost_attempts == 0
    assert office.value(metrics.JOBS_REQUEUED, **ROLLBACK) == 1


async def test_only_the_running_attempt_can_be_taken_back(office, caller):
    job = await office.submit()
    first = await caller.pull_job()
    await caller.desk.take_back(caller.session, first)
    await caller.pull_job()
    await caller.desk.take_back(caller.session, first)
    await caller.desk.take_back(caller.session, replace(first, attempt=None))
    assert await office.status(job) is JobStatus.RUNNING
    assert office.value(metrics.JOBS_REQUEUED, **ROLLBACK) == 1


async def test_what_cannot_be_taken_back_is_told_and_left_to_heartbeats(clock, office, caller):
    job = await office.submit()
    assignment = await caller.pull_job()
    office.store.failing = StoreUnavailableError("busy")
    await caller.desk.take_back(caller.session, assignment)
    office.store.failing = None
    await caller.desk.take_back(caller.session, Assignment(job_id=JobId("purged"), attempt=1))
    assert [event.fields["job_id"] for event in office.telemetry.events_of(events.TAKE_BACK_FAILED)] == [
        job,
        "purged",
    ]
    for _ in range(3):
        await clock.sleep(10)
        await caller.beat()
    assert await office.status(job) is JobStatus.PENDING


# ---------------------------------------------------------------- matching


async def test_the_request_decides_the_match_not_the_registration(office, caller):
    assert caller.capability.backends == CPU
    await office.submit(replace(SPEC, backend=Backend.CUDA))
    assert await caller.pull(Backend.CPU) is None
    assert (await caller.pull(Backend.CUDA)).backend == "cuda"


async def test_the_job_shows_the_name_of_its_node(office, caller):
    job = await office.submit()
    await caller.pull_job()
    assert (await office.job(job)).assigned_node == "node-a"
