"""Nodes that are not ours, and nodes that hang up, with `vmafx-controller` (ADR 0012, ADR 0025)."""

from __future__ import annotations

import asyncio
from random import Random

from tests.e2e.cluster import FORGETFUL
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

BEAT_S = 0.2
PULLS = 40
PULL_S = 0.6
GONE_S = 0.01
"""The longest that a node waits before it hangs up."""


async def vouch(client, session, *, jobs_running):
    """Beat as older nodes do: a number and no ids."""
    while True:
        assert (await client.heartbeat(session, jobs_running=jobs_running)).ok
        await asyncio.sleep(BEAT_S)


async def test_a_node_of_the_original_keeps_its_jobs_by_their_number_and_reports_without_attempts(cluster):
    await cluster.start(**FORGETFUL)
    client = cluster.client
    good, bad, cancelled, dropped = jobs = [await client.job() for _ in range(4)]
    honest, forgetful = [await client.session(name) for name in ("honest", "forgetful")]
    pulled = [(await client.pull(session)).job.id for session in (honest, honest, honest, forgetful)]
    assert pulled == jobs
    beating = [
        asyncio.create_task(vouch(client, honest, jobs_running=3)),
        asyncio.create_task(vouch(client, forgetful, jobs_running=0)),
    ]
    await client.reaches(dropped, pb.PENDING)  # after a whole lease
    assert {(await client.seen(job)).status for job in (good, bad, cancelled)} == {pb.RUNNING}
    assert (await client.cancel(cancelled)).ok
    for job, result in ((good, {"score": 91.5}), (bad, {"error": "no"}), (cancelled, {"score": 1.0})):
        assert (await client.report(honest, job, **result)).ok
    assert not [task for task in beating if task.done()]
    for task in beating:
        task.cancel()
    seen = [await client.seen(job) for job in jobs]
    assert [job.status for job in seen] == [pb.COMPLETED, pb.FAILED, pb.CANCELLED, pb.PENDING]
    assert (seen[0].final_score, seen[1].error) == (91.5, "no")
    history = await cluster.finish()
    assert [history.jobs[job].outcomes for job in jobs] == [
        ["completed"],
        ["failed"],
        ["cancelled"],
        ["expired"],
    ]


async def test_nodes_that_hang_up_while_they_pull_strand_no_job(cluster):
    await cluster.start()
    chance = Random()
    client = cluster.client
    session = await client.session("hasty")
    jobs = [await client.job() for _ in range(PULLS)]
    for _ in range(PULLS):
        pull = client.pull(session, timeout_s=PULL_S)
        await asyncio.sleep(chance.uniform(0, GONE_S))
        pull.cancel()

    async def beat_until_all_are_back():
        while cluster.history().statuses["running"]:
            assert (await client.heartbeat(session)).ok
            await asyncio.sleep(BEAT_S)

    async with asyncio.timeout(60):
        await beat_until_all_are_back()
    reasons = {
        reason: await cluster.metric("vmafx_controller_jobs_requeued_total", reason=reason)
        for reason in ("assign_rollback", "never_started")
    }
    requeued = await cluster.metric("vmafx_controller_jobs_requeued_total")
    history = await cluster.finish()
    assert history.statuses == {"pending": PULLS}
    assert set(history.jobs) == set(jobs)
    outcomes = [outcome for job in history.jobs.values() for outcome in job.outcomes]
    assert outcomes
    assert reasons == {
        "assign_rollback": outcomes.count("undone"),
        "never_started": outcomes.count("never_started"),
    }
    assert requeued == len(outcomes)
    assert {job.row["lost_attempts"] for job in history.jobs.values()} == {0}
    cluster.assert_untroubled("job requeued")
