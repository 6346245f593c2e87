"""AttemptStore: assignments, their order, and taking them back (ADR 0012, 0023)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.store_harness import POLICY, Desk, Trait
from tests.histories import ACME, RIVAL, TICK_S, after
from vmafx.domain.attempt import AttemptOutcome
from vmafx.domain.errors import JobNotFoundError, SessionNotFoundError
from vmafx.domain.job import JobId, JobStatus, RequeueReason
from vmafx.domain.job_events import Finished, Requeued
from vmafx.domain.lease import PULL_DEADLINE_DEFAULT_S
from vmafx.domain.scoring import Backend
from vmafx.ports.jobstore import PULL_BACKENDS_MAX, Change

# ---------------------------------------------------------------- one assignment


async def test_a_claim_opens_an_attempt_under_the_session(desk: Desk) -> None:
    await desk.submit()
    desk.now_s = 5.0
    key = await desk.register(instance="process-1")
    desk.now_s = 7.0
    claim = await desk.claim(key, deadline_s=20.0)
    assert claim.job == await desk.job()
    assert claim.attempt == await desk.latest()
    assert (claim.job.status, claim.job.attempt, claim.job.assigned_node) == (JobStatus.RUNNING, 1, "node-a")
    assert claim.job.updated_at == claim.attempt.started_at == after(7.0)
    attempt = claim.attempt
    assert (attempt.number, attempt.session, attempt.instance) == (1, "s1", "process-1")
    assert attempt.session_registered_at == attempt.first_registered_at == after(5.0)
    assert attempt.pull_deadline_at == after(20.0)
    assert attempt.lease_expires_at == after(7.0 + POLICY.lease_ttl_s)


async def test_a_pull_that_named_no_deadline_is_thought_to_wait_a_while(desk: Desk) -> None:
    await desk.submit()
    claim = await desk.claim(await desk.register())
    assert claim.attempt.pull_deadline_at == after(PULL_DEADLINE_DEFAULT_S)


async def test_an_empty_queue_assigns_nothing(desk: Desk) -> None:
    assert await desk.pull(await desk.register()) is None


async def test_attempt_numbers_grow_and_earlier_attempts_stay(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    for number in (1, 2, 3):
        claim = await desk.claim(key)
        assert claim.attempt.number == claim.job.attempt == number
        await desk.release(claim)
    assert [attempt.number for attempt in (await desk.history()).attempts] == [1, 2, 3]


async def test_a_claim_does_not_renew_the_session(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    desk.now_s = 50.0
    await desk.claim(key)
    desk.now_s = POLICY.session_ttl_s + TICK_S
    with pytest.raises(SessionNotFoundError):
        await desk.pull(key)


# ---------------------------------------------------------------- which job


async def test_jobs_are_assigned_by_priority_then_submission_then_id(desk: Desk) -> None:
    for at_s, job_id, priority in (
        (3.0, "urgent-late", 5),
        (1.0, "b", 0),
        (1.0, "B", 0),
        (1.0, "a", 0),
        (0.0, "low", -1),
        (2.0, "urgent", 5),
        (2.0, "plain", 0),
    ):
        desk.now_s = at_s
        await desk.submit(job_id, priority=priority)
    desk.now_s = 9.0
    key = await desk.register()
    order = [(await desk.claim(key)).job.id for _ in range(7)]
    assert order == ["urgent", "urgent-late", "B", "a", "b", "plain", "low"]


async def test_a_job_goes_only_to_a_node_that_lists_its_backend(desk: Desk) -> None:
    await desk.submit("gpu", backend=Backend.CUDA)
    desk.now_s = 1.0
    await desk.submit("any")
    key = await desk.register()
    assert (await desk.claim(key, Backend.CPU, Backend.HIP)).job.id == "any"
    assert await desk.pull(key, Backend.CPU, Backend.HIP) is None
    assert (await desk.claim(key, Backend.HIP, Backend.CUDA)).job.id == "gpu"


async def test_a_node_that_lists_no_backend_gets_only_jobs_that_name_none(desk: Desk) -> None:
    await desk.submit("cpu", backend=Backend.CPU)
    key = await desk.register()
    assert await desk.pull(key) is None
    await desk.submit("any")
    assert (await desk.claim(key)).job.id == "any"


async def test_jobs_that_a_node_cannot_run_keep_their_place(desk: Desk) -> None:
    await desk.submit("first", backend=Backend.CUDA)
    desk.now_s = 1.0
    await desk.submit("second", backend=Backend.CPU)
    desk.now_s = 2.0
    await desk.submit("third")
    key = await desk.register()
    assert (await desk.claim(key, Backend.CPU)).job.id == "second"
    assert (await desk.claim(key, Backend.CPU, Backend.CUDA)).job.id == "first"
    assert (await desk.claim(key)).job.id == "third"


async def test_a_node_gets_only_jobs_of_its_tenant(desk: Desk) -> None:
    await desk.submit("theirs", tenant=RIVAL)
    ours, theirs = await desk.register("s1"), await desk.register("s2", tenant=RIVAL)
    assert await desk.pull(ours) is None
    assert (await desk.claim(theirs)).job.id == "theirs"


async def test_more_backends_than_a_pull_may_name_are_refused(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    many = frozenset(f"backend-{number}" for number in range(PULL_BACKENDS_MAX + 1))
    with pytest.raises(ValueError, match="17 backends"):
        await desk.attempts.claim(key, many, now=desk.now)  # type: ignore[arg-type] -- there are not so many
    assert await desk.status() is JobStatus.PENDING


async def test_a_job_is_available_from_its_first_instant_on(desk: Desk) -> None:
    await desk.submit()
    desk.now_s = 100.0
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = 161.0
    await desk.sweep()
    available_s = 161.0 + POLICY.backoff_base_s
    assert (await desk.job()).available_at == after(available_s)
    desk.now_s = available_s - TICK_S
    assert await desk.pull(key) is None
    desk.now_s = available_s
    assert (await desk.claim(key)).attempt.number == 2


async def test_a_job_that_waits_does_not_hold_up_the_others(desk: Desk) -> None:
    await desk.submit("lost")
    key = await desk.register()
    await desk.claim(key)
    desk.now_s = POLICY.lease_ttl_s + TICK_S
    await desk.sweep()
    await desk.submit("newer")
    assert (await desk.claim(key)).job.id == "newer"
    desk.now_s += POLICY.backoff_base_s
    assert (await desk.claim(key)).job.id == "lost"


async def test_requeued_jobs_go_ahead_of_newer_ones_in_the_order_of_submission(desk: Desk) -> None:
    key = await desk.register()
    for number in range(3):
        desk.now_s = float(number)
        await desk.submit(f"job-{number}")
    first, second = await desk.claim(key), await desk.claim(key)
    await desk.release(second)
    await desk.release(first)
    assert [(await desk.claim(key)).job.id for _ in range(3)] == ["job-0", "job-1", "job-2"]


async def test_a_clock_that_steps_back_hides_jobs_until_it_is_later_again(desk: Desk) -> None:
    desk.now_s = 50.0
    await desk.submit("later")
    key = await desk.register()
    desk.now_s = 40.0
    await desk.submit("earlier")
    assert (await desk.claim(key)).job.id == "earlier"
    assert await desk.pull(key) is None
    desk.now_s = 50.0
    assert (await desk.claim(key)).job.id == "later"


# ---------------------------------------------------------------- side by side


async def test_calls_side_by_side_never_get_one_job_twice(desk: Desk) -> None:
    keys = [await desk.register(f"s{number}", node=f"node-{number}") for number in range(8)]
    for number in range(20):
        await desk.submit(f"job-{number:02}")
    async with asyncio.TaskGroup() as group:
        pulls = [group.create_task(desk.pull(key), name=f"pull {key}") for key in keys * 4]
    claims = [claim for pull in pulls if (claim := pull.result()) is not None]
    assert sorted(claim.job.id for claim in claims) == [f"job-{number:02}" for number in range(20)]
    assert all(claim.attempt.number == 1 for claim in claims)


async def test_reports_and_a_cancel_side_by_side_end_a_job_once(desk: Desk) -> None:
    key = await desk.register()
    for round_number in range(5):
        job_id = f"job-{round_number}"
        await desk.submit(job_id)
        await desk.claim(key)
        async with asyncio.TaskGroup() as group:
            reports = [
                group.create_task(desk.succeed(key, job_id, score=float(score)), name=f"score {score}")
                for score in range(4)
            ]
            cancels = [group.create_task(desk.cancel(job_id), name=f"cancel {n}") for n in range(2)]
        changes = [task.result().change for task in reports] + [task.result() for task in cancels]
        finished = [
            effect
            for change in changes
            if change is not None
            for effect in change.effects
            if isinstance(effect, Finished)
        ]
        assert len(finished) == 1
        assert (await desk.status(job_id)).terminal


class Crowd:
    """Clients that submit and cancel, and nodes that work until nothing is pending."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.submitted: list[str] = []
        self.ended: list[JobId] = []
        self.clients_left = 0

    async def client(self, number: int) -> None:
        self.clients_left += 1
        for turn in range(5):
            job_id = f"job-{number}-{turn}"
            self.submitted.append(job_id)
            await self.desk.submit(job_id)
            if (number + turn) % 3 == 0:
                self.note(await self.desk.cancel(job_id))
        self.clients_left -= 1

    async def node(self, number: int) -> None:
        key = await self.desk.register(f"s{number}", node=f"node-{number}")
        while self.clients_left or await self.desk.listed(ACME, JobStatus.PENDING):
            claim = await self.desk.pull(key)
            if claim is None:
                await asyncio.sleep(0)
            elif claim.attempt.number == 1 and number == 0:
                await self.desk.release(claim)
            else:
                self.note((await self.desk.succeed(key, claim.job.id)).change)
                await self.desk.beat(key)

    def note(self, change: Change | None) -> None:
        if change is not None and any(isinstance(effect, Finished) for effect in change.effects):
            self.ended.append(change.job.id)


async def test_clients_and_nodes_side_by_side_end_each_job_once(desk: Desk) -> None:
    crowd = Crowd(desk)
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(crowd.client(number), name=f"client {number}")
        for number in range(3):
            group.create_task(crowd.node(number), name=f"node {number}")
    assert sorted(crowd.ended) == sorted(crowd.submitted)
    assert await desk.jobs.counts() == ()


async def test_submissions_side_by_side_under_one_key_store_one_job(desk: Desk) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(desk.submit(f"job-{number}", idempotency_key="k"), name=f"submit {number}")
            for number in range(8)
        ]
    assert sum(task.result().created for task in tasks) == 1
    assert len({task.result().job.id for task in tasks}) == 1
    assert len(await desk.listed()) == 1


async def test_submissions_side_by_side_do_not_pass_the_limit(desk: Desk) -> None:
    calls = [desk.submit(f"job-{number}", pending_max=3) for number in range(8)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 3
    assert len(await desk.listed()) == 3


async def test_registrations_side_by_side_are_all_in_order(desk: Desk) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(desk.register(f"s{number}"), name=f"register {number}")
    registered = [session.registered_at for session in await desk.sessions.live(ACME, now=desk.now)]
    assert len(set(registered)) == 8


async def test_a_call_that_is_cancelled_leaves_no_assignment(desk: Desk) -> None:
    """However far it came: the job is there for the next node, or was never assigned."""
    key = await desk.register()
    for turns in range(12):
        job_id = f"job-{turns:02}"
        await desk.submit(job_id)
        pull = asyncio.create_task(desk.pull(key), name="pull")
        for _ in range(turns):
            await asyncio.sleep(0)
        if pull.cancel():
            with pytest.raises(asyncio.CancelledError):
                await pull
            assert await desk.status(job_id) is JobStatus.PENDING
            await desk.cancel(job_id)
        else:
            assert await desk.status(job_id) is JobStatus.RUNNING


async def test_a_store_that_does_not_wait_has_answered_in_one_turn_of_the_loop(desk: Desk) -> None:
    await desk.submit()
    pull = asyncio.create_task(desk.pull(await desk.register()), name="pull")
    await asyncio.sleep(0)
    assert pull.done() is (Trait.WAITS not in desk.stores.traits)
    assert await pull is not None


# ---------------------------------------------------------------- release and undo


async def test_a_released_job_is_pending_at_once_and_nothing_is_lost(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    claim = await desk.claim(key)
    desk.now_s = 4.0
    change = await desk.release(claim)
    assert change.effects == (Requeued(reason=RequeueReason.RELEASED, available_at=after(4.0)),)
    assert change.job == await desk.job()
    assert (change.job.status, change.job.lost_attempts) == (JobStatus.PENDING, 0)
    assert change.job.assigned_node is None
    assert (await desk.latest()).outcome is AttemptOutcome.RELEASED
    assert (await desk.claim(key)).attempt.number == 2


async def test_an_undone_job_is_pending_at_once_under_its_own_reason(desk: Desk) -> None:
    await desk.submit()
    key = await desk.register()
    claim = await desk.claim(key)
    desk.now_s = 4.0
    change = await desk.undo(claim)
    assert change.effects == (Requeued(reason=RequeueReason.ASSIGN_ROLLBACK, available_at=after(4.0)),)
    assert (change.job.status, change.job.lost_attempts) == (JobStatus.PENDING, 0)
    assert (await desk.latest()).outcome is AttemptOutcome.UNDONE


@pytest.mark.parametrize("back", [Desk.release, Desk.undo])
class TestTakingBack:
    """What releasing and undoing have in common."""

    async def test_it_may_be_repeated(self, desk: Desk, back) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register())
        await back(desk, claim)
        before = await desk.history()
        assert (await back(desk, claim)).effects == ()
        assert await desk.history() == before

    async def test_it_does_not_touch_a_newer_attempt(self, desk: Desk, back) -> None:
        await desk.submit()
        key = await desk.register()
        old = await desk.claim(key)
        await back(desk, old)
        await desk.claim(key)
        before = await desk.history()
        change = await back(desk, old)
        assert change.effects == ()
        assert change.job == before.job
        assert await desk.history() == before

    async def test_it_does_not_touch_an_attempt_that_passed_to_a_newer_session(
        self, desk: Desk, back
    ) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register("s1", instance="p"))
        await desk.beat(await desk.register("s2", instance="p"), "job-1")
        assert (await back(desk, claim)).effects == ()
        assert await desk.status() is JobStatus.RUNNING

    async def test_it_does_not_touch_a_job_that_ended(self, desk: Desk, back) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register())
        await desk.cancel()
        change = await back(desk, claim)
        assert change.effects == ()
        assert change.job.status is JobStatus.CANCELLED

    async def test_it_needs_no_live_session(self, desk: Desk, back) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register())
        desk.now_s = 1000.0
        assert len((await back(desk, claim)).effects) == 1

    async def test_a_job_that_is_gone_is_not_found(self, desk: Desk, back) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register())
        await desk.cancel()
        await desk.upkeep.purge(finished_before=after(1.0))
        with pytest.raises(JobNotFoundError):
            await back(desk, claim)

    async def test_a_job_of_another_tenant_is_not_found(self, desk: Desk, back) -> None:
        await desk.submit()
        claim = await desk.claim(await desk.register())
        foreign = replace(claim, job=replace(claim.job, tenant=RIVAL))
        with pytest.raises(JobNotFoundError):
            await back(desk, foreign)
        assert await desk.status() is JobStatus.RUNNING
        unknown = replace(claim, job=replace(claim.job, id=JobId("job-2")))
        with pytest.raises(JobNotFoundError):
            await back(desk, unknown)
