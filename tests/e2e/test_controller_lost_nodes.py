"""Nodes that die, freeze, or never hear of their job: it is run again, and ends once (ADR 0012, ADR 0025)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from tests import reports
from tests.e2e.cluster import FORGETFUL, so
from tests.e2e.quick_scorer import QuickScorer
from tests.e2e.tcp_proxy import TcpProxy
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

OTHER_SCORE = 75.5


async def test_jobs_of_dead_and_frozen_nodes_go_back_once_and_their_first_success_wins(cluster):
    await cluster.start(**FORGETFUL)
    client = cluster.client
    dies = await cluster.node("dies", prepare=QuickScorer.hold)
    of_dead = await client.job()
    await so(lambda: of_dead in dies.scorer.began(), what="its job runs")
    frozen = await cluster.node("frozen", prepare=QuickScorer.hold, VMAFX_NODE_SLOTS="2")
    ours, theirs = [await client.job() for _ in range(2)]
    await so(lambda: len(frozen.scorer.began()) == 2, what="its jobs run")
    other = await cluster.node("other", score=OTHER_SCORE, prepare=QuickScorer.hold, VMAFX_NODE_SLOTS="4")
    kept = await client.job()

    dies.send(SIGKILL)
    frozen.send(SIGSTOP)
    again = await cluster.node("dies", prepare=QuickScorer.hold)  # within seconds, under the same name
    elsewhere = (other.scorer, again.scorer)
    await so(lambda: len(elsewhere[0].began() + elsewhere[1].began()) == 4, what="all jobs run elsewhere")
    for scorer in elsewhere:
        scorer.let_go(of_dead, theirs, kept)
    await client.ended(of_dead, theirs, kept)
    frozen.send(SIGCONT)
    frozen.scorer.let_go()
    await client.ended(ours)
    for scorer in elsewhere:
        scorer.let_go()
    await so(lambda: times_told("job result reported", frozen, other, again) == 6, what="all is reported")

    assert await cluster.metric("vmafx_controller_jobs_requeued_total", reason="node_lost") == 3
    assert await cluster.metric("vmafx_controller_jobs_requeued_total") == 3
    history = await cluster.finish()
    jobs = [history.jobs[job] for job in (of_dead, theirs, ours, kept)]
    assert [(job.outcomes, job.row["lost_attempts"]) for job in jobs] == [
        (["expired", "completed"], 1),
        (["expired", "completed"], 1),
        (["completed", "superseded"], 1),
        (["completed"], 0),
    ]
    assert jobs[2].row["score"] == pytest.approx(reports.SCORE)
    assert dies.scorer.began() + frozen.scorer.began() == dict.fromkeys((of_dead, theirs, ours), 1)
    assert not times_told("job result not delivered", frozen, other, again)


def times_told(message, *nodes):
    """How often nodes said something."""
    return sum(len(node.told(message)) for node in nodes)


async def test_a_job_whose_assignment_was_lost_on_the_way_is_given_out_again(cluster):
    await cluster.start()
    with closing(TcpProxy(cluster.address)) as cable:
        node = await cluster.node(address=cable.address, VMAFX_CONTROLLER_RPC_TIMEOUT="2s")
        cable.mute()
        job_id = await cluster.client.job()
        await cluster.client.reaches(job_id, pb.RUNNING)
        cable.cut()
        (job,) = await cluster.client.ended(job_id)
        assert job.status == pb.COMPLETED
        history = await cluster.finish()
    assert history.jobs[job_id].outcomes[0] in {"never_started", "undone"}
    assert history.jobs[job_id].outcomes[1:] == ["completed"]
    assert history.jobs[job_id].row["lost_attempts"] == 0
    assert len(node.told("registered with controller")) == 1
    assert node.scorer.began() == {job_id: 1}


@pytest.mark.soak
async def test_a_job_that_kills_its_nodes_fails_with_the_third_and_can_be_cancelled_before(cluster):
    await cluster.start(**FORGETFUL)
    deadly, cancelled, gone = [await cluster.client.job() for _ in range(3)]
    for expected in (pb.PENDING, pb.PENDING, pb.FAILED):
        await dead_node(cluster)
        await cluster.client.reaches(deadly, expected)
    await dead_node(cluster)
    assert (await cluster.client.seen(cancelled)).status == pb.RUNNING
    assert (await cluster.client.cancel(cancelled)).ok
    await dead_node(cluster)
    await cluster.client.reaches(gone, pb.PENDING)
    assert (await cluster.client.cancel(gone)).ok
    history = await cluster.finish()
    assert history.jobs[deadly].outcomes == ["expired"] * 3
    assert history.jobs[deadly].nodes == ["node-0", "node-1", "node-2"]
    assert history.jobs[deadly].row["error"].endswith("(3 of 3)")
    assert history.jobs[cancelled].outcomes == ["cancelled"]
    assert history.jobs[gone].outcomes == ["expired"]
    assert history.statuses == {"failed": 1, "cancelled": 2}


async def dead_node(cluster):
    """Start a node and return once its first job killed it."""
    node = await cluster.node(prepare=QuickScorer.be_deadly)
    assert await asyncio.to_thread(node.wait) == -SIGKILL
