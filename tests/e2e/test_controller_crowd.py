"""Many clients and many nodes at once: no rule of a job's life is broken, and no lock is felt (ADR 0023)."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

PAUSE_S = 0.1
"""The longest that a client rests between two calls."""
VANISH_S = 0.01
"""The longest that it waits for an answer before it hangs up."""
SIMULATED = 200


class Restless:
    """A client that submits, cancels, looks, and hangs up, as chance has it."""

    def __init__(self, client, seed):
        self.client = client
        self.jobs = []
        self._chance = Random(seed)

    async def live(self, until_s):
        """Do so for a while, then cancel all."""
        deeds = [self._submit, self._submit, self._cancel, self._cancel, self._look, self._vanish]
        while time.monotonic() < until_s:
            await self._chance.choice(deeds)()
            await asyncio.sleep(self._chance.uniform(0, PAUSE_S))
        for job_id in self.jobs:
            await self.client.cancel(job_id)

    async def _submit(self):
        self.jobs.append(await self.client.job())

    async def _cancel(self):
        if self.jobs:
            assert (await self.client.cancel(self._chance.choice(self.jobs))).ok

    async def _look(self):
        if self.jobs:
            job_id = self._chance.choice(self.jobs)
            assert (await self.client.get(job_id)).id == job_id

    async def _vanish(self):
        deeds = [lambda: self.client.submit(*self.client.pair), self.client.stream]
        deeds += [lambda: self.client.cancel(self._chance.choice(self.jobs))] if self.jobs else []
        call = self._chance.choice(deeds)()
        await asyncio.sleep(self._chance.uniform(0, VANISH_S))
        call.cancel()


@pytest.mark.parametrize(
    ("clients", "nodes", "seconds"),
    [
        (40, 2, 3.0),
        pytest.param(100, 2, 20.0, marks=pytest.mark.soak),
        pytest.param(8, 16, 60.0, marks=pytest.mark.soak),
    ],
)
async def test_clients_that_submit_cancel_and_vanish_at_random_break_no_rule(
    cluster, clients, nodes, seconds
):
    await cluster.start()
    await asyncio.gather(*(cluster.node(VMAFX_NODE_SLOTS="4") for _ in range(nodes)))
    seed = Random().getrandbits(32)
    crowd = [Restless(cluster.another_client(f"client-{n}"), seed + n) for n in range(clients)]
    until_s = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for one in crowd:
            tasks.create_task(one.live(until_s))
    async for job in cluster.client.stream(pb.PENDING, pb.RUNNING):  # of clients that hung up
        await cluster.client.cancel(job.id)
    ends = ("completed", "failed", "cancelled")
    counts = {status: await cluster.metric(f"vmafx_controller_jobs_{status}_total") for status in ends}
    left = [await cluster.metric(f"vmafx_controller_jobs_{status}") for status in ("pending", "running")]
    submitted = await cluster.metric("vmafx_controller_jobs_submitted_total")
    history = await cluster.finish()
    assert counts == {status: history.statuses[status] for status in ends}, seed
    assert (submitted, left) == (len(history.jobs), [0, 0]), seed
    assert {job_id for one in crowd for job_id in one.jobs} <= set(history.jobs), seed
    assert counts["completed"], "hardly anything was done"
    assert counts["cancelled"], "hardly anything was cancelled"
    assert counts["failed"] == 0
    assert not any(one.client.turned_away for one in crowd)
    cluster.assert_untroubled()


async def test_two_hundred_nodes_come_back_to_a_restarted_controller(cluster):
    await cluster.start()
    clients = [cluster.another_client(f"client-{number}") for number in range(SIMULATED)]
    jobs = await asyncio.gather(*(client.job() for client in clients))
    sessions = await asyncio.gather(*(one.session(f"node-{n}") for n, one in enumerate(clients)))
    nodes = [*zip(clients, sessions, strict=True)]
    pulled = [answer.job.id for answer in await asyncio.gather(*(one.pull(own) for one, own in nodes))]
    assert sorted(pulled) == sorted(jobs)

    await cluster.kill()
    work = [*zip(clients, sessions, pulled, strict=True)]
    beats = asyncio.gather(*(one.plain(one.heartbeat, own, job) for one, own, job in work))
    await cluster.start()
    assert {beat.ok for beat in await beats} == {True}
    assert all(client.turned_away for client in clients)
    reports = await asyncio.gather(
        *(one.report(own, job, 90.5, features={"vmaf": 90.5}) for one, own, job in work)
    )
    assert {report.ok for report in reports} == {True}
    history = await cluster.finish()
    assert history.statuses == {"completed": SIMULATED}
    assert [job.outcomes for job in history.jobs.values()] == [["completed"]] * SIMULATED
    assert len(history.sessions) == SIMULATED
