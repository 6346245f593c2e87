"""Controllers and nodes that are killed and frozen at random under clients that go on: no rule is broken."""

from __future__ import annotations

import asyncio
import time
from random import Random
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from tests.e2e.cluster import FORGETFUL

pytestmark = pytest.mark.soak

SECONDS = 60.0
CLIENTS = 8
NODES = 3
PAUSE_S = 2.0
FROZEN_S = 6.0
"""The longest that a process stands still: twice a lease."""
SLOTS = {"VMAFX_NODE_SLOTS": "4"}


async def submits_and_cancels(client, chance, until_s):
    """Return the jobs that were taken."""
    jobs = []
    while time.monotonic() < until_s:
        jobs.append(await client.job())
        if chance.random() < 0.3:
            assert (await client.plain(client.cancel, chance.choice(jobs))).ok
        await asyncio.sleep(chance.uniform(0, 0.2))
    return jobs


async def still(process, chance):
    """Have a process stand still for a while."""
    process.send(SIGSTOP)
    await asyncio.sleep(chance.uniform(0, FROZEN_S))
    process.send(SIGCONT)


async def breaks_things(cluster, chance, until_s):
    """Kill and freeze what runs; whatever is killed is started again."""
    names = {f"node-{number}": await cluster.node(f"node-{number}", **SLOTS) for number in range(NODES)}
    while time.monotonic() < until_s:
        name = chance.choice([*names])
        match chance.choice(["controller", "node", "both", "frozen node", "frozen controller"]):
            case "controller":
                await cluster.kill()
                await cluster.start(**FORGETFUL)
            case "node":
                names[name].send(SIGKILL)
                names[name] = await cluster.node(name, **SLOTS)
            case "both":
                names[name].send(SIGKILL)
                await cluster.kill()
                await cluster.start(**FORGETFUL)
                names[name] = await cluster.node(name, **SLOTS)
            case "frozen node":
                await still(names[name], chance)
            case "frozen controller":
                await still(cluster.controller, chance)
        await asyncio.sleep(chance.uniform(0, PAUSE_S))


async def test_kills_and_freezes_at_random_lose_no_job_and_end_none_twice(cluster):
    seed = Random().getrandbits(32)
    chance = Random(seed)
    await cluster.start(**FORGETFUL)
    until_s = time.monotonic() + SECONDS
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(breaks_things(cluster, chance, until_s))
        clients = [
            tasks.create_task(
                submits_and_cancels(cluster.another_client(f"client-{n}"), Random(seed + n), until_s)
            )
            for n in range(CLIENTS)
        ]
    taken = [job for client in clients for job in client.result()]
    await cluster.client.ended(*taken)
    history = await cluster.finish()
    assert set(history.jobs) == set(taken), seed
    for job_id, job in history.jobs.items():
        assert job.status != "failed" or job.row["lost_attempts"] == 3, (seed, job_id)
    assert history.statuses["completed"], seed
