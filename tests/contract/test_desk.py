"""What every `Desk` promises whoever carries its answers: what did not arrive can be undone (ADR 0026)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.contract.controller_harness import DESKS, Harness, Trait
from tests.contract.test_controller import FAILURE, SPEC, SUCCESS, Node, a_node, denied, status
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.domain.job import JobId, JobStatus
from vmafx.ports.controller import Assignment


@pytest.fixture(params=DESKS, ids=lambda maker: maker.__name__)
async def harness(request: pytest.FixtureRequest, clock: VirtualClock) -> AsyncIterator[Harness]:
    async with request.param(clock) as made:
        yield made


async def take_back(harness: Harness, node: Node, assignment: Assignment) -> None:
    await harness.controller.take_back(node.session, assignment)


def undoes(harness: Harness) -> bool:
    return Trait.TAKES_BACK in harness.traits


async def test_a_job_that_was_taken_back_is_there_for_the_next_pull(harness: Harness) -> None:
    node, other = await a_node(harness), await a_node(harness, "node-b")
    job_id = await harness.submit(SPEC)
    first = await node.pull_job()
    await take_back(harness, node, first)
    expected = JobStatus.PENDING if undoes(harness) else JobStatus.RUNNING
    assert await status(harness, job_id) is expected
    again = await other.pull()
    assert (again is not None) is undoes(harness)
    if again is not None:
        assert (again.job_id, again.attempt) == (job_id, 2)
        await other.report(again)
        assert await status(harness, job_id) is JobStatus.COMPLETED


async def test_it_is_never_lost_however_often_it_is_taken_back(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    for _ in range(10 if undoes(harness) else 0):
        await take_back(harness, node, await node.pull_job())
    assert await status(harness, job_id) is JobStatus.PENDING
    await node.report(await node.pull_job())
    assert await status(harness, job_id) is JobStatus.COMPLETED


async def test_taking_back_twice_does_it_once(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    first = await node.pull_job()
    await take_back(harness, node, first)
    second = await node.pull_job() if undoes(harness) else first
    await take_back(harness, node, first)
    assert await status(harness, job_id) is JobStatus.RUNNING
    await node.report(second)
    assert await status(harness, job_id) is JobStatus.COMPLETED


@pytest.mark.parametrize("content", [SUCCESS, FAILURE], ids=["success", "failure"])
async def test_what_has_ended_is_not_taken_back(harness: Harness, content) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await node.report(assignment, content)
    before = await harness.look(job_id)
    await take_back(harness, node, assignment)
    assert await harness.look(job_id) == before
    assert before.status.terminal


async def test_a_cancelled_job_is_not_taken_back(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await harness.cancel(job_id)
    await take_back(harness, node, assignment)
    assert await status(harness, job_id) is JobStatus.CANCELLED


async def test_nothing_is_taken_from_another_session(harness: Harness) -> None:
    node, other = await a_node(harness), await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await take_back(harness, other, assignment)
    assert await status(harness, job_id) is JobStatus.RUNNING
    await node.report(assignment)
    assert await status(harness, job_id) is JobStatus.COMPLETED


async def test_the_success_of_an_attempt_that_was_taken_back_counts_all_the_same(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await take_back(harness, node, assignment)
    await node.report(assignment)
    assert await status(harness, job_id) is JobStatus.COMPLETED


async def test_a_job_that_nobody_knows_is_nothing_to_take_back(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await take_back(harness, node, replace(assignment, job_id=JobId("nobody's")))
    assert await status(harness, job_id) is JobStatus.RUNNING


async def test_a_session_that_is_gone_does_not_bring_a_job_back_twice(harness: Harness) -> None:
    node = await a_node(harness)
    job_id = await harness.submit(SPEC)
    assignment = await node.pull_job()
    await harness.pass_time(61)
    with denied():
        await node.pull()
    before = await harness.look(job_id)
    await take_back(harness, node, assignment)
    assert await harness.look(job_id) == before
