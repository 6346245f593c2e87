"""The controller as clients see it: what is refused and in which words, and what is counted (ADR 0025)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.controller_world import DISK_FULL, ControllerWorld, a_controller
from tests.desks import DEV, POLICY, RIVAL, SPEC
from vmafx.app.controller import events, metrics
from vmafx.app.controller.following import LISTING_PAGE_JOBS
from vmafx.app.controller.jobs import REFUSALS_TOLD_EVERY_S
from vmafx.domain.errors import ControllerError, StoreError
from vmafx.domain.job import JobId, JobResult, JobStatus, TenantId
from vmafx.domain.roots import RootTemplates
from vmafx.domain.scoring import Backend, Failure
from vmafx.ports.telemetry import Level

S = 10.0
pytestmark = pytest.mark.virtual_time


@pytest.fixture
def it(clock) -> ControllerWorld:
    return a_controller(clock)


async def refusal(call) -> tuple[str, str]:
    with pytest.raises(ControllerError) as caught:
        await call
    return caught.value.code, caught.value.message


async def all_of(views) -> list:
    return [view async for view in views]


# ------------------------------------------------------------------ submission


async def test_a_submission_is_stored_counted_and_told_once(it):
    job_id = await it.submit()
    job = await it.job(job_id)
    assert (job.status, job.tenant, job.spec, job.created_at) == (
        JobStatus.PENDING,
        DEV,
        SPEC,
        it.clock.now(),
    )
    assert it.telemetry.value(metrics.JOBS_SUBMITTED, {"tenant": DEV}) == 1
    assert len(it.telemetry.events_of(events.JOB_SUBMITTED)) == 1


@pytest.mark.parametrize("field", ["reference", "distorted"])
@pytest.mark.parametrize(
    ("clip", "message"),
    [
        ("/etc/passwd", 'scoring input "/etc/passwd" is outside the tenant\'s scoring roots'),
        ("/clipsy/a.y4m", 'scoring input "/clipsy/a.y4m" is outside the tenant\'s scoring roots'),
        ("clips/a.y4m", "outside the tenant's scoring roots"),
        ("/clips/../etc/passwd", "outside the tenant's scoring roots"),
    ],
)
async def test_a_clip_outside_the_roots_is_refused_and_nothing_stored(it, field, clip, message):
    code, words = await refusal(it.submit(replace(SPEC, **{field: clip})))
    assert code == "PERMISSION_DENIED"
    assert words.endswith(message)
    assert it.store.tap.calls == []


async def test_clips_outside_the_roots_are_told_once_in_a_minute_with_the_setting(clock, it):
    def told():
        return [dict(event.fields) for event in it.telemetry.events_of(events.SUBMISSIONS_REFUSED)]

    for _ in range(3):
        await refusal(it.submit(replace(SPEC, reference="/a")))
    first = {"tenant": DEV, "setting": "VMAFX_SCORING_ROOTS", "jobs": 1}
    assert told() == [first]
    await clock.sleep(REFUSALS_TOLD_EVERY_S)
    await refusal(it.submit(replace(SPEC, reference="/b")))
    assert told() == [first, {**first, "jobs": 3}]
    assert '"/b"' in str(it.telemetry.events_of(events.SUBMISSIONS_REFUSED)[-1].error)


async def test_of_two_clips_outside_the_roots_the_reference_is_named(it):
    _, words = await refusal(it.submit(replace(SPEC, reference="/a", distorted="/b")))
    assert '"/a"' in words


async def test_without_roots_every_clip_is_refused(clock):
    it = a_controller(clock, replace(POLICY, roots=RootTemplates()))
    code, words = await refusal(it.submit())
    assert code == "PERMISSION_DENIED"
    assert "has no scoring roots" in words


async def test_a_tenant_that_cannot_be_part_of_a_root_is_refused(clock):
    it = a_controller(clock, replace(POLICY, roots=RootTemplates.parse(["/clips/{tenant}"])))
    code, words = await refusal(it.submit(tenant=TenantId("..")))
    assert code == "PERMISSION_DENIED"
    assert words.startswith("scoring roots: ")


async def test_the_same_key_and_content_give_the_first_job_and_count_nothing_twice(it):
    jobs = it.jobs()
    first = await jobs.submit(SPEC, idempotency_key="k", timeout_s=S)
    assert await jobs.submit(SPEC, idempotency_key="k", timeout_s=S) == first
    assert it.telemetry.value(metrics.JOBS_SUBMITTED, {"tenant": DEV}) == 1
    assert len(await all_of(jobs.listed(timeout_s=S))) == 1


async def test_a_key_with_other_content_is_refused(it):
    jobs = it.jobs()
    await jobs.submit(SPEC, idempotency_key="k", timeout_s=S)
    other = replace(SPEC, model="another")
    code, words = await refusal(jobs.submit(other, idempotency_key="k", timeout_s=S))
    assert code == "ALREADY_EXISTS"
    assert words == 'submit job: idempotency key "k" was used for another submission'
    assert not it.telemetry.events_of(events.STORE_FAILED)


async def test_a_key_is_the_tenants_own(it):
    mine = await it.jobs().submit(SPEC, idempotency_key="k", timeout_s=S)
    assert await it.jobs(RIVAL).submit(SPEC, idempotency_key="k", timeout_s=S) != mine


async def test_a_tenant_with_too_many_pending_jobs_is_refused_and_others_are_not(clock):
    it = a_controller(clock, replace(POLICY, tenant_pending_max=2))
    await it.submit()
    await it.submit()
    code, words = await refusal(it.submit())
    assert code == "RESOURCE_EXHAUSTED"
    assert words == "submit job: the tenant has 2 pending jobs, which is the limit"
    await it.submit(tenant=RIVAL)


async def test_a_submission_whose_caller_goes_away_is_counted_if_it_was_stored(it):
    async def leave(_name: str) -> None:
        caller.cancel()
        await asyncio.sleep(0)

    it.store.tap.after = leave
    caller = asyncio.create_task(it.submit())
    await asyncio.wait((caller,))
    assert caller.cancelled()
    assert it.telemetry.value(metrics.JOBS_SUBMITTED, {"tenant": DEV}) == 1


async def test_a_cancellation_whose_caller_goes_away_is_counted_if_it_was_stored(it):
    job_id = await it.submit()

    async def leave(_name: str) -> None:
        caller.cancel()
        await asyncio.sleep(0)

    it.store.tap.after = leave
    caller = asyncio.create_task(it.jobs().cancel(job_id, timeout_s=S))
    await asyncio.wait((caller,))
    assert caller.cancelled()
    it.store.tap.quieten()
    assert await it.status(job_id) is JobStatus.CANCELLED
    assert it.telemetry.value(metrics.JOBS_CANCELLED, {"tenant": DEV}) == 1


# ------------------------------------------------------------------ what every call may end with

CALLS = {
    "submit job": lambda jobs: jobs.submit(SPEC, timeout_s=S),
    'read job "x"': lambda jobs: jobs.get(JobId("x"), timeout_s=S),
    'cancel job "x"': lambda jobs: jobs.cancel(JobId("x"), timeout_s=S),
    "StreamJobs: list jobs": lambda jobs: all_of(jobs.listed(timeout_s=S)),
}
each_call = pytest.mark.parametrize(("doing", "call"), CALLS.items(), ids=CALLS)


@each_call
async def test_a_store_that_cannot_be_reached_may_be_asked_again(it, doing, call):
    it.store.tap.failing = DISK_FULL
    assert await refusal(call(it.jobs())) == ("UNAVAILABLE", f"{doing}: database or disk is full")
    (event,) = it.telemetry.events_of(events.STORE_FAILED)
    assert (event.level, event.error) == (Level.WARN, DISK_FULL)
    assert event.fields["call"] == doing.partition(' "')[0]
    assert event.fields.get("job_id") == ("x" if '"x"' in doing else None)


@pytest.mark.parametrize("call", ["get", "cancel"])
async def test_a_long_id_does_not_fill_the_log(it, call):
    it.store.tap.failing = DISK_FULL
    await refusal(getattr(it.jobs(), call)(JobId("x" * 1_000_000), timeout_s=S))
    (event,) = it.telemetry.events_of(events.STORE_FAILED)
    assert sum(len(str(value)) for value in event.fields.values()) < 600


@each_call
async def test_a_store_that_is_damaged_is_an_internal_error(it, doing, call):
    it.store.tap.failing = StoreError("damaged")
    assert await refusal(call(it.jobs())) == ("INTERNAL", f"{doing}: damaged")


@each_call
async def test_a_call_ends_within_its_time(it, doing, call):
    async def slow(_name: str) -> None:
        await it.clock.sleep(S + 0.001)

    it.store.tap.before = slow
    assert await refusal(call(it.jobs())) == ("DEADLINE_EXCEEDED", f"{doing}: deadline exceeded")


async def test_followers_are_told_of_a_store_that_fails(it):
    it.store.tap.failing = DISK_FULL
    code, words = await refusal(all_of(it.jobs().followed()))
    assert (code, words) == ("UNAVAILABLE", "StreamJobs: list jobs: database or disk is full")


# ------------------------------------------------------------------ one job


@pytest.mark.parametrize("method", ["get", "cancel"])
@pytest.mark.parametrize("odd", ["x", "../x", "a" * 257, "\ud800", "nul\0", "ü" * 200])
async def test_an_id_that_names_no_job_is_not_found(it, method, odd):
    code, words = await refusal(getattr(it.jobs(), method)(JobId(odd), timeout_s=S))
    assert code == "NOT_FOUND"
    assert words.startswith('job "')
    assert words.endswith('" not found')


@pytest.mark.parametrize("method", ["get", "cancel"])
async def test_another_tenants_job_is_refused_and_left_alone(it, method):
    job_id = await it.submit()
    told = await refusal(getattr(it.jobs(RIVAL), method)(job_id, timeout_s=S))
    assert told == ("PERMISSION_DENIED", "resource belongs to another tenant")
    assert await it.status(job_id) is JobStatus.PENDING


async def test_a_completed_job_is_shown_with_all_that_was_found(it):
    job_id = await it.submit()
    node = await it.node()
    pulled = await node.pull_job()
    await node.report(pulled, JobResult(score=93.5, features={"vif": 0.5}))
    view = await it.jobs().get(job_id, timeout_s=S)
    assert (view.id, view.status, view.spec, view.assigned_node) == (
        job_id,
        JobStatus.COMPLETED,
        SPEC,
        "node-a",
    )
    assert (view.score, view.features, view.error) == (93.5, {"vif": 0.5}, "")


async def test_a_failed_job_is_shown_with_its_error_and_no_score(it):
    job_id = await it.submit()
    node = await it.node()
    await node.report(await node.pull_job(), Failure(error="torn"))
    view = await it.jobs().get(job_id, timeout_s=S)
    assert (view.status, view.error, view.score, view.features) == (JobStatus.FAILED, "torn", None, None)


async def test_a_cancellation_is_counted_once_and_a_second_one_says_what_is(it):
    job_id = await it.submit()
    answer = await it.jobs().cancel(job_id, timeout_s=S)
    assert (answer.ok, answer.message) == (True, "cancellation requested")
    answer = await it.jobs().cancel(job_id, timeout_s=S)
    assert (answer.ok, answer.message) == (True, "job is already cancelled")
    assert it.telemetry.value(metrics.JOBS_CANCELLED, {"tenant": DEV}) == 1


@pytest.mark.parametrize(
    ("content", "word"), [(JobResult(score=1.0), "completed"), (Failure(error="torn"), "failed")]
)
async def test_a_job_that_ended_is_not_cancelled_and_the_answer_says_so(it, content, word):
    job_id = await it.submit()
    node = await it.node()
    await node.report(await node.pull_job(), content)
    answer = await it.jobs().cancel(job_id, timeout_s=S)
    assert (answer.ok, answer.message) == (True, f"job is already {word}")
    assert (await it.status(job_id)).value == word
    assert it.telemetry.value(metrics.JOBS_CANCELLED, {"tenant": DEV}) is None


# ------------------------------------------------------------------ listings


async def test_a_listing_shows_the_tenants_jobs_the_oldest_first(it):
    ids = []
    for _ in range(3):
        ids.append(await it.submit())
        await it.submit(tenant=RIVAL)
        await it.clock.sleep(1)
    assert [view.id for view in await all_of(it.jobs().listed(timeout_s=S))] == ids


async def test_a_listing_of_no_jobs_is_empty(it):
    assert await all_of(it.jobs().listed(timeout_s=S)) == []


async def test_a_listing_shows_only_what_was_asked_for(it):
    first, second = await it.submit(), await it.submit()
    await it.jobs().cancel(first, timeout_s=S)
    asked = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
    assert [view.id for view in await all_of(it.jobs().listed(asked, timeout_s=S))] == [second]


@pytest.mark.parametrize("jobs", [LISTING_PAGE_JOBS - 1, LISTING_PAGE_JOBS, 2 * LISTING_PAGE_JOBS + 1])
async def test_a_listing_goes_through_all_pages_and_shows_each_job_once(it, jobs):
    ids = [await it.submit() for _ in range(jobs)]
    it.store.tap.calls.clear()
    assert [view.id for view in await all_of(it.jobs().listed(timeout_s=S))] == ids
    assert len(it.store.tap.calls) == jobs // LISTING_PAGE_JOBS + 1


async def test_a_listing_whose_reader_is_too_slow_ends_at_its_time(it):
    for _ in range(3):
        await it.submit()
    seen = []

    async def read_slowly() -> None:
        async for view in it.jobs().listed(timeout_s=S):
            seen.append(view)
            await it.clock.sleep(S / 2)

    assert (await refusal(read_slowly()))[0] == "DEADLINE_EXCEEDED"
    assert len(seen) == 2


# ------------------------------------------------------------------ jobs that nobody can run

CUDA = replace(SPEC, backend=Backend.CUDA)


async def test_a_job_that_no_node_can_run_is_told_once_until_it_is_served(it):
    for _ in range(3):
        await it.submit(CUDA)
    await it.unserved.look()
    (event,) = it.telemetry.events_of(events.BACKEND_UNSERVED)
    assert event.level is Level.WARN
    assert event.fields == {"tenant": DEV, "backend": "cuda", "jobs": 3}
    await it.clock.sleep(120)
    await it.unserved.look()
    assert len(it.telemetry.events_of(events.BACKEND_UNSERVED)) == 1


async def test_a_job_is_told_again_after_its_backend_was_served(it):
    await it.submit(CUDA)
    await it.unserved.look()
    node = await it.node()
    node.capability = replace(node.capability, backends=frozenset({Backend.CUDA}))
    await node.register()
    await it.clock.sleep(60)
    await it.unserved.look()  # served
    await it.clock.sleep(60.001)
    await it.unserved.look()  # the node has gone
    assert len(it.telemetry.events_of(events.BACKEND_UNSERVED)) == 2


async def test_a_node_of_another_tenant_or_backend_serves_nobody(it):
    await it.node(tenant=RIVAL)
    await it.node()
    await it.submit(CUDA)
    await it.submit(replace(SPEC, backend=Backend.CPU))
    await it.unserved.look()
    (event,) = it.telemetry.events_of(events.BACKEND_UNSERVED)
    assert event.fields["backend"] == "cuda"


async def test_a_job_that_runs_anywhere_is_never_told(it):
    await it.submit()
    await it.unserved.look()
    assert not it.telemetry.events_of(events.BACKEND_UNSERVED)


async def test_the_store_is_asked_once_a_minute_and_at_once_for_what_is_new(it):
    await it.unserved.look()
    await it.unserved.look()
    assert it.store.looks == 1
    await it.submit(CUDA)
    await it.unserved.look()
    await it.submit(CUDA)
    await it.unserved.look()
    assert it.store.looks == 2
    await it.clock.sleep(60)
    await it.unserved.look()
    assert it.store.looks == 3


async def test_a_look_that_failed_is_made_again(it):
    it.store.tap.failing = DISK_FULL
    with pytest.raises(StoreError):
        await it.unserved.look()
    it.store.tap.failing = None
    await it.unserved.look()
    assert it.store.looks == 2
