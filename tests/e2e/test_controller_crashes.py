"""Controllers that are killed at any moment: what was answered is kept, and every job ends once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from signal import SIGCONT, SIGSTOP

import pytest

from tests.e2e.cluster import FORGETFUL, so
from tests.e2e.quick_scorer import QuickScorer
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

JOBS = 200
SLOTS = 4
STILL_S = 6.0
"""Twice as long as a lease."""
START_S = 1.2
"""A controller serves by then."""


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.soak)])
async def test_a_killed_controller_loses_no_job_and_runs_none_twice(cluster, kills):
    await cluster.start()
    both = [await cluster.node(VMAFX_NODE_SLOTS=str(SLOTS)) for _ in range(2)]
    client = cluster.client
    submitting = asyncio.gather(*(client.job() for _ in range(JOBS)))
    for number in range(1, kills + 1):
        done = JOBS // 2 * number // kills
        while cluster.history().statuses["completed"] < done:
            await asyncio.sleep(0.02)
        await cluster.kill()
        await cluster.start()
    jobs = await client.ended(*await submitting)
    assert {job.status for job in jobs} == {pb.COMPLETED}
    assert len({job.id for job in jobs}) == JOBS
    assert await cluster.metric("vmafx_controller_jobs_pending") == 0
    assert await cluster.metric("vmafx_controller_jobs_running") == 0
    history = await cluster.finish()
    assert history.statuses == {"completed": JOBS}
    # The nodes kept their sessions, and no job is lost; one whose assignment was lost never began.
    assert [len(node.told("registered with controller")) for node in both] == [1, 1]
    assert sorted(session["node"] for session in history.sessions) == ["node-0", "node-1"]
    assert {job.row["lost_attempts"] for job in history.jobs.values()} == {0}
    assert both[0].scorer.began() + both[1].scorer.began() == dict.fromkeys(history.jobs, 1)


@pytest.mark.soak
async def test_a_controller_that_stood_still_past_all_leases_takes_no_job_from_its_node(cluster):
    await cluster.start(**FORGETFUL)
    node = await cluster.node(prepare=QuickScorer.hold, VMAFX_NODE_SLOTS="2")
    jobs = [await cluster.client.job() for _ in range(2)]
    await so(lambda: len(node.scorer.began()) == 2, what="both jobs run")
    cluster.controller.send(SIGSTOP)
    await asyncio.sleep(STILL_S)
    cluster.controller.send(SIGCONT)
    node.scorer.let_go()
    assert {job.status for job in await cluster.client.ended(*jobs)} == {pb.COMPLETED}
    history = await cluster.finish()
    assert [job.outcomes for job in history.jobs.values()] == [["completed"]] * 2
    assert node.scorer.began() == dict.fromkeys(jobs, 1)
    assert cluster.told("the controller was away; sessions and leases last anew")


async def killed_while_starting(cluster, number, delay_s):
    """Start a controller and kill it so much later; return the jobs that it took meanwhile."""
    client = cluster.another_client(f"client-{number}")
    taken = set()

    async def submit():
        while True:
            taken.add(await client.job())

    await cluster.start(ready=False)
    submitting = asyncio.create_task(submit())
    await asyncio.sleep(delay_s)
    await cluster.kill()
    submitting.cancel()
    with suppress(asyncio.CancelledError):
        await submitting
    return taken


@pytest.mark.parametrize("tries", [4, pytest.param(60, marks=pytest.mark.soak)])
async def test_a_controller_killed_in_its_first_moments_can_be_started_again(cluster, tries):
    chance = Random()
    taken = set()  # on the file of most tries; others begin with a new one
    for number in range(tries):
        delay_s = START_S * (number + chance.random()) / tries
        new = number % 4 == 0
        if new:
            cluster.database = cluster.program.folder / f"jobs-{number}.db"
        here = await killed_while_starting(cluster, number, delay_s)
        if new:
            await check(cluster, here)
            cluster.database = cluster.program.folder / "jobs.db"
        else:
            taken |= here
    await check(cluster, taken)


async def check(cluster, taken):
    """See that a controller starts, holds what was answered, and takes more."""
    await cluster.start()
    jobs = [job async for job in cluster.client.stream(pb.PENDING)]
    assert taken <= {job.id for job in jobs}
    assert (await cluster.client.seen(await cluster.client.job())).status == pb.PENDING
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    cluster.history()
