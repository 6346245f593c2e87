"""JobStore: what every store owes those who submit jobs (ADR 0012, 0023)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.store_harness import MAKERS, NOBODYS, POLICY, Desk
from tests.histories import ACME, RIVAL, SPEC, a_job, after
from vmafx.adapters.store import shared
from vmafx.domain.attempt import AttemptOutcome, JobHistory
from vmafx.domain.errors import ForeignJobError, JobNotFoundError, QueueFullError, SubmissionConflictError
from vmafx.domain.job import Job, JobCursor, JobId, JobResult, JobSpec, JobStatus, TenantId
from vmafx.domain.job_events import Finished
from vmafx.domain.report import ReportVerdict
from vmafx.domain.scoring import Backend, Retry
from vmafx.ports.jobstore import PAGE_JOBS_MAX, QueueCounts, Waiting

# ---------------------------------------------------------------- submit, get, history


async def test_a_submitted_job_is_stored_as_it_was_submitted(desk: Desk) -> None:
    job = a_job("job-1", backend=Backend.CUDA, priority=-3, idempotency_key="k", max_lost_attempts=7)
    job = replace(job, spec=replace(job.spec, model="vmaf_v0.6.1", reference="/clips/ä b'\"\\.y4m"))
    submission = await desk.jobs.submit(job)
    assert submission.created
    assert submission.job == job
    assert await desk.job() == job
    assert await desk.history() == JobHistory(job=job)


async def test_an_instant_is_kept_to_the_microsecond_and_is_aware(desk: Desk) -> None:
    job = a_job(at_s=0.000001)
    await desk.jobs.submit(job)
    assert (await desk.job()).created_at == after(0.000001)
    assert (await desk.job()).created_at.utcoffset() == timedelta(0)


async def test_an_instant_may_be_given_in_any_time_zone(desk: Desk) -> None:
    desk.now_s = 100.0
    await desk.submit("later")
    elsewhere = after(50.0).astimezone(timezone(timedelta(hours=-11)))
    await desk.jobs.submit(Job.submitted(job_id=JobId("earlier"), tenant=ACME, spec=SPEC, at=elsewhere))
    assert await desk.listed() == ["earlier", "later"]


@pytest.mark.parametrize("job_id", NOBODYS, ids=range(len(NOBODYS)))
async def test_an_id_that_was_never_given_names_nothing(desk: Desk, job_id: str) -> None:
    await desk.submit()
    key = await desk.register()
    with pytest.raises(JobNotFoundError) as caught:
        await desk.job(job_id)
    assert caught.value.job_id == job_id
    with pytest.raises(JobNotFoundError):
        await desk.history(job_id)
    with pytest.raises(JobNotFoundError):
        await desk.cancel(job_id)
    assert (await desk.succeed(key, job_id)).change is None
    assert (await desk.beat(key, job_id)).changes == ()


async def test_a_job_of_another_tenant_cannot_be_seen_or_cancelled(desk: Desk) -> None:
    await desk.submit(tenant=RIVAL)
    for call in (desk.job(), desk.history(), desk.cancel()):
        with pytest.raises(ForeignJobError):
            await call
    assert await desk.listed() == []
    assert (await desk.job(tenant=RIVAL)).status is JobStatus.PENDING


async def test_the_same_job_once_more_is_answered_and_not_stored_twice(desk: Desk) -> None:
    await desk.submit()
    await desk.cancel()
    again = await desk.submit(pending_max=0)
    assert not again.created
    assert again.job.status is JobStatus.CANCELLED
    assert await desk.listed() == ["job-1"]


@pytest.mark.parametrize("other", [{"tenant": RIVAL}, {"priority": 1}, {"idempotency_key": "k"}])
async def test_the_id_of_another_job_is_no_new_job(desk: Desk, other: dict[str, object]) -> None:
    await desk.submit()
    with pytest.raises(ValueError, match="job-1"):
        await desk.submit(**other)
    assert (await desk.job()) == a_job()


# ---------------------------------------------------------------- idempotency keys, limit of pending jobs


async def test_a_key_used_before_returns_the_first_job(desk: Desk) -> None:
    first = await desk.submit("job-1", idempotency_key="k")
    second = await desk.submit("job-2", idempotency_key="k")
    assert (first.created, second.created) == (True, False)
    assert second.job == first.job
    assert await desk.listed() == ["job-1"]


async def test_a_key_used_before_returns_its_job_whatever_has_become_of_it(desk: Desk) -> None:
    await desk.submit(idempotency_key="k")
    await desk.cancel()
    again = await desk.submit("job-2", idempotency_key="k")
    assert again.job == await desk.job()
    assert again.job.status is JobStatus.CANCELLED


async def test_a_key_is_the_tenants_own(desk: Desk) -> None:
    await desk.submit("job-1", idempotency_key="k")
    assert (await desk.submit("job-2", tenant=RIVAL, idempotency_key="k")).created


@pytest.mark.parametrize("key", ["K", "k ", "", "%", "k\x00"])
async def test_keys_are_compared_exactly(desk: Desk, key: str) -> None:
    await desk.submit("job-1", idempotency_key="k")
    assert (await desk.submit("job-2", idempotency_key=key)).created
    assert not (await desk.submit("job-3", idempotency_key=key)).created


async def test_jobs_without_a_key_are_all_stored(desk: Desk) -> None:
    assert (await desk.submit("job-1")).created
    assert (await desk.submit("job-2")).created


@pytest.mark.parametrize("other", [{"priority": 1}, {"backend": Backend.CPU}])
async def test_a_key_used_for_something_else_is_a_conflict(desk: Desk, other: dict[str, object]) -> None:
    await desk.submit("job-1", idempotency_key="k")
    with pytest.raises(SubmissionConflictError) as caught:
        await desk.submit("job-2", idempotency_key="k", **other)  # type: ignore[arg-type]
    assert caught.value.key == "k"
    assert await desk.listed() == ["job-1"]


async def test_a_tenant_may_have_as_many_pending_jobs_as_the_limit_and_no_more(desk: Desk) -> None:
    await desk.submit("job-1", pending_max=2)
    await desk.submit("job-2", pending_max=2)
    with pytest.raises(QueueFullError) as caught:
        await desk.submit("job-3", pending_max=2)
    assert caught.value.pending_max == 2
    assert await desk.listed() == ["job-1", "job-2"]


async def test_only_pending_jobs_of_the_tenant_count_towards_its_limit(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("job-1", "job-2", "job-3"):
        await desk.submit(job_id)
    await desk.submit("theirs", tenant=RIVAL)
    await desk.claim(key)
    await desk.cancel("job-2")
    assert (await desk.submit("job-4", pending_max=2)).created
    with pytest.raises(QueueFullError):
        await desk.submit("job-5", pending_max=2)


async def test_a_requeued_job_counts_towards_the_limit_again(desk: Desk) -> None:
    key = await desk.register()
    await desk.submit("job-1")
    claim = await desk.claim(key)
    assert (await desk.submit("job-2", pending_max=1)).created
    await desk.release(claim)
    with pytest.raises(QueueFullError):
        await desk.submit("job-3", pending_max=2)


async def test_the_limit_does_not_matter_under_a_key_used_before(desk: Desk) -> None:
    await desk.submit(idempotency_key="k", pending_max=1)
    assert not (await desk.submit("job-2", idempotency_key="k", pending_max=1)).created


# ---------------------------------------------------------------- pages


async def test_a_page_goes_by_submission_then_by_id(desk: Desk) -> None:
    for at_s, job_id in ((3.0, "a"), (1.0, "z"), (1.0, "B"), (1.0, "é"), (1.0, "\U0001f600"), (2.0, "m")):
        desk.now_s = at_s
        await desk.submit(job_id)
    assert await desk.listed() == ["B", "z", "é", "\U0001f600", "m", "a"]


async def test_joined_pages_show_each_job_once_whatever_becomes_of_them(desk: Desk) -> None:
    key = await desk.register()
    for number in range(7):
        desk.now_s = float(number // 3)
        await desk.submit(f"job-{number}")
    seen: list[JobId] = []
    after_cursor: JobCursor | None = None
    while page := await desk.jobs.page(ACME, after=after_cursor, limit=3):
        seen += [job.id for job in page]
        after_cursor = page[-1].cursor
        await desk.claim(key)
        await desk.cancel(seen[0])
    assert seen == [f"job-{number}" for number in range(7)]


async def test_a_page_may_go_on_after_a_place_where_no_job_is(desk: Desk) -> None:
    for at_s, job_id in ((1.0, "a"), (1.0, "c"), (2.0, "a2")):
        desk.now_s = at_s
        await desk.submit(job_id)
    page = await desk.jobs.page(ACME, after=JobCursor(created_at=after(1.0), job_id=JobId("b")))
    assert [job.id for job in page] == ["c", "a2"]
    assert await desk.jobs.page(ACME, after=JobCursor(created_at=after(9.0), job_id=JobId(""))) == ()


async def test_a_page_shows_the_statuses_asked_for(desk: Desk) -> None:
    key = await desk.register()
    for job_id in ("done", "bad", "runs", "off", "waits"):
        await desk.submit(job_id)
        desk.now_s += 1.0
    for _ in range(3):
        await desk.claim(key)
    await desk.succeed(key, "done")
    await desk.fail(key, "bad")
    await desk.cancel("off")
    assert await desk.listed(ACME, JobStatus.COMPLETED) == ["done"]
    assert await desk.listed(ACME, JobStatus.FAILED) == ["bad"]
    assert await desk.listed(ACME, JobStatus.RUNNING) == ["runs"]
    assert await desk.listed(ACME, JobStatus.CANCELLED) == ["off"]
    assert await desk.listed(ACME, JobStatus.PENDING) == ["waits"]
    assert await desk.listed(ACME, JobStatus.PENDING, JobStatus.COMPLETED) == ["done", "waits"]
    assert await desk.listed(ACME, *JobStatus) == ["done", "bad", "runs", "off", "waits"]


async def test_a_page_of_some_statuses_goes_on_after_any_place(desk: Desk) -> None:
    for number in range(6):
        desk.now_s = float(number)
        await desk.submit(f"job-{number}")
    for number in (1, 2, 4):
        await desk.cancel(f"job-{number}")
    place = JobCursor(created_at=after(2.0), job_id=JobId("job-2"))
    kinds = frozenset({JobStatus.CANCELLED, JobStatus.PENDING})
    assert [j.id for j in await desk.jobs.page(ACME, statuses=kinds, after=place, limit=2)] == [
        "job-3",
        "job-4",
    ]
    only = frozenset({JobStatus.CANCELLED})
    assert [j.id for j in await desk.jobs.page(ACME, statuses=only, after=place)] == ["job-4"]


async def test_a_page_is_the_tenants_own(desk: Desk) -> None:
    await desk.submit("ours")
    await desk.submit("theirs", tenant=RIVAL)
    assert await desk.listed(ACME) == ["ours"]
    assert await desk.listed(RIVAL) == ["theirs"]
    assert await desk.listed(TenantId("acm")) == []
    assert await desk.listed(TenantId("ACME")) == []


@pytest.mark.parametrize("limit", [0, -1, PAGE_JOBS_MAX + 1])
async def test_a_page_of_no_jobs_or_too_many_is_refused(desk: Desk, limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        await desk.jobs.page(ACME, limit=limit)


async def test_a_page_may_be_as_large_as_the_limit(desk: Desk) -> None:
    await desk.submit()
    assert len(await desk.jobs.page(ACME, limit=PAGE_JOBS_MAX)) == 1
    assert len(await desk.jobs.page(ACME, limit=1)) == 1


# ---------------------------------------------------------------- cancel


async def test_cancelling_a_pending_job_ends_it_at_once(desk: Desk) -> None:
    await desk.submit()
    desk.now_s = 3.0
    change = await desk.cancel()
    assert change.effects == (Finished(status=JobStatus.CANCELLED),)
    assert change.job == await desk.job()
    assert change.job.status is JobStatus.CANCELLED
    assert change.job.finished_at == change.job.updated_at == after(3.0)
    assert change.job.assigned_node is None


async def test_cancelling_a_running_job_ends_its_attempt(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 3.0
    change = await desk.cancel()
    attempt = await desk.latest()
    assert change.effects == (Finished(status=JobStatus.CANCELLED),)
    assert change.job.assigned_node == "node-a"
    assert (attempt.outcome, attempt.ended_at) == (AttemptOutcome.CANCELLED, after(3.0))


async def test_a_job_that_ended_is_not_cancelled(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    await desk.claim(key)
    await desk.succeed(key)
    before = await desk.history()
    desk.now_s = 9.0
    change = await desk.cancel()
    assert change.effects == ()
    assert change.job == before.job
    assert await desk.history() == before


async def test_cancelling_twice_ends_a_job_once(desk: Desk) -> None:
    await desk.submit()
    first = await desk.cancel()
    desk.now_s = 9.0
    assert (await desk.cancel()).effects == ()
    assert await desk.job() == first.job


async def test_a_cancelled_job_is_never_assigned(desk: Desk) -> None:
    await desk.submit("job-1")
    await desk.submit("job-2")
    await desk.cancel("job-1")
    key = await desk.register()
    assert (await desk.claim(key)).job.id == "job-2"
    assert await desk.pull(key) is None


# ---------------------------------------------------------------- counts


async def test_counts_tell_what_each_tenant_has_in_hand(desk: Desk) -> None:
    key = await desk.register()
    for number in range(4):
        desk.now_s = float(number)
        await desk.submit(f"job-{number}")
    await desk.submit("theirs", tenant=RIVAL)
    await desk.claim(key)
    assert sorted(await desk.jobs.counts(), key=lambda counts: counts.tenant) == [
        QueueCounts(tenant=ACME, pending=3, running=1, oldest_pending_at=after(1.0)),
        QueueCounts(tenant=RIVAL, pending=1, running=0, oldest_pending_at=after(3.0)),
    ]


async def test_a_tenant_whose_jobs_all_ended_is_not_counted(desk: Desk) -> None:
    assert await desk.jobs.counts() == ()
    await desk.submit()
    await desk.cancel()
    assert await desk.jobs.counts() == ()


async def test_a_tenant_with_running_jobs_only_has_no_oldest_pending_one(desk: Desk) -> None:
    await desk.submit()
    await desk.claim(await desk.register())
    assert await desk.jobs.counts() == (
        QueueCounts(tenant=ACME, pending=0, running=1, oldest_pending_at=None),
    )


async def test_a_requeued_job_counts_by_its_submission(desk: Desk) -> None:
    await desk.submit()
    claim = await desk.claim(await desk.register())
    desk.now_s = 50.0
    await desk.release(claim)
    assert [counts.oldest_pending_at for counts in await desk.jobs.counts()] == [after(0.0)]


# ---------------------------------------------------------------- waiting


async def test_jobs_that_wait_are_counted_for_each_tenant_and_backend(desk: Desk) -> None:
    for number, backend in enumerate((Backend.HIP, Backend.CUDA, Backend.HIP, None)):
        await desk.submit(f"job-{number}", backend=backend)
    await desk.submit("theirs", tenant=RIVAL, backend=Backend.HIP)
    assert await desk.jobs.waiting() == (
        Waiting(tenant=ACME, backend=Backend.CUDA, pending=1),
        Waiting(tenant=ACME, backend=Backend.HIP, pending=2),
        Waiting(tenant=RIVAL, backend=Backend.HIP, pending=1),
    )


async def test_a_job_waits_for_its_backend_whenever_it_is_pending(desk: Desk) -> None:
    waits = (Waiting(tenant=ACME, backend=Backend.CUDA, pending=1),)
    key = await desk.register()
    await desk.submit(backend=Backend.CUDA)
    claim = await desk.claim(key, Backend.CUDA)
    assert await desk.jobs.waiting() == ()
    await desk.fail(key, retry=Retry.ELSEWHERE, attempt=claim.attempt.number)
    assert await desk.pull(key, Backend.CUDA) is None  # it is not available yet
    assert await desk.jobs.waiting() == waits
    await desk.cancel()
    assert await desk.jobs.waiting() == ()


async def test_jobs_that_wait_are_counted_so_far_and_no_further(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "WAITING_COUNTED_MAX", 3)
    for number in range(5):
        await desk.submit(f"job-{number}", backend=Backend.CUDA)
    assert [waiting.pending for waiting in await desk.jobs.waiting()] == [3]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("name", ["'; DROP TABLE jobs; --", "ä\U0001f600", " a b ", "%_*?[", "1", "x" * 256])
async def test_any_name_is_kept_exactly(desk: Desk, name: str) -> None:
    tenant = TenantId(name)
    await desk.submit(name, tenant=tenant, idempotency_key=name)
    key = await desk.register(name, node=name, tenant=tenant, instance=name)
    claim = await desk.claim(key)
    assert await desk.history(name, tenant=tenant) == JobHistory(job=claim.job, attempts=(claim.attempt,))
    assert (claim.job.id, claim.job.tenant, claim.job.idempotency_key) == (name, name, name)
    assert (claim.attempt.node, claim.attempt.session, claim.attempt.instance) == (name, name, name)
    assert len((await desk.beat(key, name)).changes) == 1
    assert (await desk.succeed(key, name)).verdict is ReportVerdict.RECORD_SUCCESS
    assert await desk.listed(tenant) == [name]
    assert await desk.live(tenant) == [name]


words = st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable() or "\n" in text)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@settings(max_examples=15)
@given(reference=words, model=st.none() | words, score=numbers, features=st.dictionaries(words, numbers))
async def test_what_a_job_asks_for_and_finds_is_kept_exactly(
    maker, reference: str, model: str | None, score: float, features: dict[str, float]
) -> None:
    async with maker(POLICY) as stores:
        desk = Desk(stores)
        spec = JobSpec(reference=reference, distorted="/d", model=model)
        job = Job.submitted(job_id=JobId("job-1"), tenant=ACME, spec=spec, at=desk.now)
        await desk.jobs.submit(job)
        key = await desk.register()
        await desk.claim(key)
        result = JobResult(score=score, features=features)
        await desk.report(key, result)
        stored = await desk.job()
        assert stored.spec == spec
        assert stored.result == result
        assert list(stored.result.features) == list(features)
