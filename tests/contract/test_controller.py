"""What every `Controller` promises a node (ADR 0012, 0013).

Time is the harness's: nothing here sleeps, and a call that waits is a task beside the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.contract.controller_harness import MAKERS, ROOTS, Harness, Seen, Trait
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobId, JobResult, JobSpec, JobStatus, NodeName, SessionId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Partial, Report, ReportContent
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity

TIMEOUT_S = 10.0
AT_ONCE_S = 1.0  # too short for a controller to wait for work
SPEC = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m")
CPU = Capability(backends=frozenset({Backend.CPU}), gpu_vendor="cpu", concurrency=1)
SUCCESS = JobResult(score=91.25, features={"vmaf": 91.25, "motion2": 0.0})
FAILURE = Failure(error="the clips are no clips")


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
async def harness(request: pytest.FixtureRequest, clock: VirtualClock) -> AsyncIterator[Harness]:
    async with request.param(clock) as made:
        yield made


class Node:
    """A node with one session at a time, and no mind of its own."""

    def __init__(self, harness: Harness, name: str = "node-a", instance: str | None = "process-1") -> None:
        self.controller = harness.controller
        told = None if instance is None else InstanceId(instance)
        self.identity = NodeIdentity(name=NodeName(name), instance=told)
        self.session = Session(generation=0, node_id=SessionId("none"), session_token="none")

    async def register(self, capability: Capability = CPU) -> Node:
        answer = await self.controller.register(self.identity, capability, timeout_s=TIMEOUT_S)
        generation = self.session.generation + 1
        self.session = Session(
            generation=generation, node_id=answer.node_id, session_token=answer.session_token
        )
        return self

    async def beat(self, *jobs: str) -> HeartbeatAnswer:
        listed = tuple(JobId(job) for job in jobs)
        heartbeat = Heartbeat(jobs_running=len(listed), listed=listed)
        return await self.controller.heartbeat(self.session, heartbeat, timeout_s=TIMEOUT_S)

    async def pull(self, *backends: Backend, timeout_s: float = AT_ONCE_S) -> Assignment | None:
        capability = replace(CPU, backends=frozenset(backends or {Backend.CPU}))
        return await self.controller.pull(self.session, capability, timeout_s=timeout_s)

    async def pull_job(self) -> Assignment:
        assignment = await self.pull()
        assert assignment is not None
        return assignment

    async def report(
        self, assignment: Assignment, content: ReportContent = SUCCESS, *, numbered: bool = True
    ) -> None:
        report = Report(content=content, attempt=assignment.attempt if numbered else None)
        await self.controller.report(self.session, assignment.job_id, report, timeout_s=TIMEOUT_S)


async def a_node(harness: Harness, name: str = "node-a", instance: str | None = "process-1") -> Node:
    return await Node(harness, name, instance).register()


async def status(harness: Harness, job_id: JobId) -> JobStatus:
    return (await harness.look(job_id)).status


def denied() -> pytest.RaisesExc[ControllerError]:
    return pytest.raises(ControllerError, check=lambda error: error.code == "PERMISSION_DENIED")


async def live_through(harness: Harness, node: Node, seconds: float, *jobs: str) -> None:
    """Beat every ten seconds, listing `jobs`, until `seconds` have passed."""
    for _ in range(int(seconds / 10)):
        await harness.pass_time(10)
        assert (await node.beat(*jobs)).ok


# ---------------------------------------------------------------- register


async def test_each_registration_opens_a_session_of_its_own(harness: Harness) -> None:
    first, second = await a_node(harness), await a_node(harness)
    assert first.session.node_id != second.session.node_id
    assert first.session.session_token != second.session.session_token
    assert (await first.beat()).ok
    assert (await second.beat()).ok


async def test_node_without_a_name_is_refused(harness: Harness) -> None:
    with pytest.raises(ControllerError) as refusal:
        await a_node(harness, name="")
    assert (refusal.value.code, refusal.value.retryable) == ("INVALID_ARGUMENT", False)


# ---------------------------------------------------------------- heartbeat


@pytest.mark.parametrize(("node_id", "token"), [("nobody", None), (None, "wrong"), ("", ""), (None, "")])
async def test_heartbeat_of_an_unknown_session_is_refused(
    harness: Harness, node_id: str | None, token: str | None
) -> None:
    node = await a_node(harness)
    node.session = replace(
        node.session,
        node_id=SessionId(node.session.node_id if node_id is None else node_id),
        session_token=node.session.session_token if token is None else token,
    )
    assert await node.beat("job") == HeartbeatAnswer(ok=False)


async def test_session_lives_on_heartbeats(harness: Harness) -> None:
    node = await a_node(harness)
    for _ in range(5):
        await harness.pass_time(59)
        assert (await node.beat()).ok


async def test_session_without_heartbeats_is_forgotten(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.pass_time(61)
    assert await node.beat() == HeartbeatAnswer(ok=False)
    with denied():
        await node.pull()


async def test_pulls_and_reports_keep_no_session(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.pass_time(40)
    await harness.submit(SPEC)
    await node.report(await node.pull_job())
    await harness.pass_time(21)
    assert not (await node.beat()).ok


async def test_cancelled_jobs_are_named_in_the_order_they_are_listed(harness: Harness) -> None:
    node = await a_node(harness)
    jobs = [await harness.submit(SPEC) for _ in range(3)]
    for _ in jobs:
        await node.pull_job()
    await harness.cancel(jobs[0])
    await harness.cancel(jobs[2])
    expected = (jobs[2], jobs[0]) if Trait.NAMES_CANCELLED in harness.traits else ()
    for _ in range(2):
        answer = await node.beat(jobs[2], "unknown", jobs[1], jobs[0])
        assert answer == HeartbeatAnswer(ok=True, cancel_job_ids=expected)


async def test_cancelled_job_that_is_not_listed_is_not_named(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.cancel(await harness.submit(SPEC))
    assert (await node.beat()).cancel_job_ids == ()


async def test_refused_heartbeat_names_no_job(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await harness.cancel(job_id)
    await harness.pass_time(61)
    assert await node.beat(job_id) == HeartbeatAnswer(ok=False)


async def test_listed_job_keeps_its_lease(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await live_through(harness, node, 300, job_id)
    assert await status(harness, job_id) is JobStatus.RUNNING


async def test_job_that_is_no_longer_listed_loses_its_lease(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await node.beat(job_id)
    await live_through(harness, node, 70)
    assert await status(harness, job_id) is JobStatus.PENDING


async def test_job_that_was_never_listed_is_given_back(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await live_through(harness, node, 20)
    gives_back = Trait.GIVES_BACK_UNSTARTED in harness.traits
    assert await status(harness, job_id) is (JobStatus.PENDING if gives_back else JobStatus.RUNNING)


async def test_jobs_of_a_lost_session_go_back(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await node.beat(job_id)
    await harness.pass_time(61)
    assert await status(harness, job_id) is JobStatus.PENDING
    await harness.pass_time(10)
    other = await a_node(harness, "node-b", "process-2")
    assert (await other.pull_job()).job_id == job_id


# ---------------------------------------------------------------- pull


async def test_pull_without_work_finds_nothing(harness: Harness) -> None:
    assert await (await a_node(harness)).pull() is None


async def test_assignment_says_what_was_asked_for(harness: Harness) -> None:
    node = await a_node(harness)
    spec = replace(SPEC, model="vmaf_v0.6.1", backend=Backend.CPU)
    job_id = await harness.submit(spec)
    assignment = await node.pull_job()
    assert replace(assignment, attempt=None) == Assignment(
        job_id=job_id,
        reference=spec.reference,
        distorted=spec.distorted,
        model="vmaf_v0.6.1",
        backend="cpu",
        scoring_roots=ROOTS,
    )
    assert await status(harness, job_id) is JobStatus.RUNNING


async def test_job_that_asks_for_nothing_special_says_so(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.submit(SPEC)
    assignment = await node.pull_job()
    assert (assignment.model, assignment.backend) == ("", "")


async def test_attempts_are_numbered_in_order(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    numbers = [(await node.pull_job()).attempt]
    await node.beat(job_id)
    await live_through(harness, node, 80)
    numbers.append((await node.pull_job()).attempt)
    assert numbers == ([1, 2] if Trait.NUMBERS_ATTEMPTS in harness.traits else [None, None])


async def test_oldest_job_comes_first(harness: Harness) -> None:
    node = await a_node(harness)
    jobs = []
    for _ in range(3):
        jobs.append(await harness.submit(SPEC))
        await harness.pass_time(1)
    assert [(await node.pull_job()).job_id for _ in jobs] == jobs


async def test_each_job_goes_to_one_of_many_callers(harness: Harness) -> None:
    nodes = [await a_node(harness, f"node-{n}", f"process-{n}") for n in range(6)]
    jobs = {await harness.submit(SPEC) for _ in range(4)}
    pulled = await asyncio.gather(*(node.pull() for node in nodes))
    assert sorted(a.job_id for a in pulled if a is not None) == sorted(jobs)


async def test_job_for_another_backend_is_skipped_and_keeps_its_place(harness: Harness) -> None:
    node = await a_node(harness)
    special = await harness.submit(replace(SPEC, backend=Backend.CUDA))
    await harness.pass_time(1)
    plain = await harness.submit(SPEC)
    assert (await node.pull_job()).job_id == plain
    assert await node.pull() is None
    assignment = await node.pull(Backend.CPU, Backend.CUDA)
    assert assignment is not None
    assert (assignment.job_id, assignment.backend) == (special, "cuda")


async def test_node_without_backends_gets_only_jobs_that_ask_for_none(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.submit(replace(SPEC, backend=Backend.CPU))
    plain = await harness.submit(SPEC)
    bare = Capability()
    assignment = await harness.controller.pull(node.session, bare, timeout_s=AT_ONCE_S)
    assert assignment is not None
    assert assignment.job_id == plain
    assert await harness.controller.pull(node.session, bare, timeout_s=AT_ONCE_S) is None


async def test_pull_of_an_unknown_session_is_refused(harness: Harness) -> None:
    await harness.submit(SPEC)
    with denied():
        await Node(harness).pull()


async def test_cancelled_job_is_given_to_nobody(harness: Harness) -> None:
    node = await a_node(harness)
    await harness.cancel(await harness.submit(SPEC))
    assert await node.pull() is None


async def test_pull_that_waits_gets_the_job_that_comes(harness: Harness) -> None:
    node = await a_node(harness)
    pulling = asyncio.create_task(node.pull(timeout_s=TIMEOUT_S))
    await harness.pass_time(2)
    if Trait.WAITS_FOR_WORK not in harness.traits:
        assert await pulling is None
        return
    assert not pulling.done()
    job_id = await harness.submit(SPEC)
    await harness.pass_time(0)
    assert pulling.done()
    assignment = pulling.result()
    assert assignment is not None
    assert assignment.job_id == job_id


async def test_pull_that_waits_passes_over_a_job_it_cannot_run(harness: Harness) -> None:
    node = await a_node(harness)
    pulling = asyncio.create_task(node.pull(timeout_s=TIMEOUT_S))
    await harness.pass_time(1)
    special = await harness.submit(replace(SPEC, backend=Backend.CUDA))
    await harness.pass_time(20)
    assert await pulling is None
    assert await status(harness, special) is JobStatus.PENDING


@pytest.mark.parametrize("timeout_s", [10.0, 4.0, 2.0])
async def test_waiting_ends_a_second_before_the_callers_deadline(harness: Harness, timeout_s: float) -> None:
    node = await a_node(harness)
    pulling = asyncio.create_task(node.pull(timeout_s=timeout_s))
    await harness.pass_time(timeout_s - 1 + 0.01)
    assert pulling.done()
    assert pulling.result() is None


async def test_pull_given_up_while_it_waits_takes_no_job(harness: Harness) -> None:
    node = await a_node(harness)
    pulling = asyncio.create_task(node.pull(timeout_s=TIMEOUT_S))
    await harness.pass_time(1)
    pulling.cancel()
    await asyncio.gather(pulling, return_exceptions=True)
    job_id = await harness.submit(SPEC)
    await harness.pass_time(1)
    assert await status(harness, job_id) is JobStatus.PENDING
    assert (await node.pull_job()).job_id == job_id


# ---------------------------------------------------------------- report


async def test_success_completes_the_job(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.report(await node.pull_job())
    assert await harness.look(job_id) == Seen(status=JobStatus.COMPLETED, score=91.25, error="")


async def test_failure_fails_the_job_with_its_words(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.report(await node.pull_job(), FAILURE)
    assert await harness.look(job_id) == Seen(status=JobStatus.FAILED, score=None, error=FAILURE.error)


async def test_report_without_a_number_counts_too(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.report(await node.pull_job(), FAILURE, numbered=False)
    assert await status(harness, job_id) is JobStatus.FAILED


@pytest.mark.parametrize("first", [SUCCESS, FAILURE], ids=["success", "failure"])
@pytest.mark.parametrize(
    "second", [SUCCESS, replace(SUCCESS, score=1.0), FAILURE], ids=["success", "other", "failure"]
)
async def test_second_final_report_changes_nothing(
    harness: Harness, first: ReportContent, second: ReportContent
) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await node.report(assignment, first)
    seen = await harness.look(job_id)
    await node.report(assignment, second)
    assert await harness.look(job_id) == seen


async def test_report_after_a_cancel_is_taken_and_changes_nothing(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await harness.cancel(job_id)
    for content in (SUCCESS, FAILURE):
        await node.report(assignment, content)
        assert await harness.look(job_id) == Seen(status=JobStatus.CANCELLED, score=None, error="")


async def test_report_of_an_unknown_session_is_refused(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    node.session = replace(node.session, session_token="wrong")
    with denied():
        await node.report(assignment)
    assert await status(harness, job_id) is JobStatus.RUNNING


@pytest.mark.parametrize(
    "content", [SUCCESS, FAILURE, Partial(scores=(1.0,))], ids=lambda c: type(c).__name__
)
async def test_report_of_a_job_that_the_node_never_had_is_refused(
    harness: Harness, content: ReportContent
) -> None:
    node, other = await a_node(harness), await a_node(harness, "node-b", "process-2")
    await harness.submit(SPEC)
    taken = await node.pull_job()
    waiting = Assignment(job_id=await harness.submit(SPEC))
    for assignment in (taken, waiting, Assignment(job_id=JobId("no-such-job"))):
        with denied():
            await other.report(assignment, content)
    assert await status(harness, taken.job_id) is JobStatus.RUNNING
    assert await status(harness, waiting.job_id) is JobStatus.PENDING


async def test_partial_scores_are_taken_while_the_job_runs(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await node.report(assignment, Partial(scores=(90.0, 91.0)))
    assert await status(harness, job_id) is JobStatus.RUNNING
    await node.report(assignment)
    with denied():
        await node.report(assignment, Partial(scores=(92.0,)))


async def test_overlong_error_is_cut_in_the_middle(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.report(await node.pull_job(), Failure(error="begin" + "ü" * 5000 + "end"))
    error = (await harness.look(job_id)).error
    assert len(error.encode()) <= 4096
    assert error.startswith("begin")
    assert error.endswith("end")


async def test_first_success_wins_although_its_lease_was_lost(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await node.beat(job_id)
    await live_through(harness, node, 70)
    assert await status(harness, job_id) is JobStatus.PENDING
    if Trait.FIRST_SUCCESS_WINS in harness.traits:
        await node.report(assignment)
        assert (await harness.look(job_id)).score == 91.25
    else:
        with denied():
            await node.report(assignment)
        assert await status(harness, job_id) is JobStatus.PENDING


async def test_first_success_wins_although_another_node_runs_the_job(harness: Harness) -> None:
    node, other = await a_node(harness), await a_node(harness, "node-b", "process-2")
    job_id = await harness.submit(SPEC)
    late = await node.pull_job()
    await node.beat(job_id)
    for _ in range(8):
        await harness.pass_time(10)
        await node.beat()
        await other.beat()
    again = await other.pull_job()
    assert again.job_id == job_id
    if Trait.FIRST_SUCCESS_WINS in harness.traits:
        await node.report(late)
        assert (await harness.look(job_id)).score == 91.25
    else:
        with denied():
            await node.report(late)
    await other.report(again, replace(SUCCESS, score=50.0))
    expected = 91.25 if Trait.FIRST_SUCCESS_WINS in harness.traits else 50.0
    assert (await harness.look(job_id)).score == expected


async def test_late_failure_changes_nothing(harness: Harness) -> None:
    node, other = await a_node(harness), await a_node(harness, "node-b", "process-2")
    job_id = await harness.submit(SPEC)
    late = await node.pull_job()
    await node.beat(job_id)
    for _ in range(8):
        await harness.pass_time(10)
        await node.beat()
        await other.beat()
    await other.pull_job()
    if Trait.FIRST_SUCCESS_WINS in harness.traits:
        await node.report(late, FAILURE)
    else:
        with denied():
            await node.report(late, FAILURE)
    assert await status(harness, job_id) is JobStatus.RUNNING


async def test_success_counts_under_a_later_session_of_the_node(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await node.register()
    if Trait.FIRST_SUCCESS_WINS in harness.traits:
        await node.report(assignment)
        assert await status(harness, job_id) is JobStatus.COMPLETED
    else:
        with denied():
            await node.report(assignment)


@pytest.mark.parametrize("retry", [Retry.ELSEWHERE, Retry.AT_ONCE], ids=lambda retry: retry.name)
async def test_failure_that_asks_for_another_try_gets_one(harness: Harness, retry: Retry) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.report(await node.pull_job(), replace(FAILURE, retry=retry))
    retries = Trait.RETRIES_FAILURES in harness.traits
    assert await status(harness, job_id) is (JobStatus.PENDING if retries else JobStatus.FAILED)
    at_once = await node.pull()
    assert (at_once is not None) == (retries and retry is Retry.AT_ONCE)
    await harness.pass_time(6)
    later = at_once or await node.pull()
    assert (later is not None) == retries


async def test_tries_are_used_up_in_the_end(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    tries = 0
    while (assignment := await node.pull()) is not None:
        tries += 1
        await node.report(assignment, replace(FAILURE, retry=Retry.ELSEWHERE))
        await live_through(harness, node, 30)
    assert tries == (3 if Trait.RETRIES_FAILURES in harness.traits else 1)
    assert await harness.look(job_id) == Seen(status=JobStatus.FAILED, score=None, error=FAILURE.error)


# ---------------------------------------------------------------- a node that comes back


async def test_newer_session_of_the_process_takes_its_jobs_over(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await node.beat(job_id)
    await harness.pass_time(61)
    await node.register()
    assert (await node.beat(job_id)).ok
    takes_over = Trait.TAKES_OVER in harness.traits
    assert await status(harness, job_id) is (JobStatus.RUNNING if takes_over else JobStatus.PENDING)
    await live_through(harness, node, 120, job_id)
    assert await status(harness, job_id) is (JobStatus.RUNNING if takes_over else JobStatus.PENDING)


async def test_other_process_of_the_node_takes_nothing_over(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    await node.beat(job_id)
    await harness.pass_time(61)
    restarted = await a_node(harness, "node-a", "process-2")
    await restarted.beat(job_id)
    assert await status(harness, job_id) is JobStatus.PENDING


async def test_session_registered_at_the_same_instant_is_still_the_newer_one(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    await node.pull_job()
    old = node.session
    await node.register()
    await node.beat(job_id)
    node.session, newer = old, node.session
    await node.beat(job_id)
    await harness.pass_time(50)
    node.session = newer
    await node.beat(job_id)
    await harness.pass_time(50)
    takes_over = Trait.TAKES_OVER in harness.traits
    assert await status(harness, job_id) is (JobStatus.RUNNING if takes_over else JobStatus.PENDING)


@pytest.mark.parametrize("old_beats", [True, False], ids=["old session beats", "old session is silent"])
async def test_of_nodes_that_name_no_process_only_one_whose_old_session_is_silent_takes_over(
    harness: Harness, *, old_beats: bool
) -> None:
    old = await a_node(harness, instance=None)
    job_id = await harness.submit(SPEC)
    await old.pull_job()
    await old.beat(job_id)
    await harness.pass_time(10)
    new = await a_node(harness, instance=None)
    await harness.pass_time(10)
    if old_beats:
        await old.beat(job_id)
    await new.beat(job_id)
    await harness.pass_time(50 if old_beats else 45)
    await new.beat(job_id)
    await harness.pass_time(20)
    taken = Trait.TAKES_OVER in harness.traits and not old_beats
    assert await status(harness, job_id) is (JobStatus.RUNNING if taken else JobStatus.PENDING)
