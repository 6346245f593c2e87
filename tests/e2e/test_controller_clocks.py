"""A wall clock that is set while the controller runs: leases neither end early nor stay (ADR 0025)."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.e2e.cluster import FORGETFUL, so
from tests.e2e.stepping_clock import SteppingClock
from tests.e2e.stored_history import stored_history
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb

BEAT_S = 0.2
BEATS = 6
"""So many take longer than it is from one sweep to the next."""
HOUR_S = 3600


class Keeper:
    """A node that holds a job for as long as it is left to."""

    def __init__(self, client, session, job_id):
        self._call = (client.heartbeat, session, job_id)
        self._client = client
        self._beats = 0
        self.keeping = asyncio.create_task(self._keep())

    async def some_more_beats(self):
        """Return when all is still well some heartbeats later."""
        wanted = self._beats + BEATS
        await so(lambda: self._beats >= wanted or self.keeping.done(), what="it beats")
        assert not self.keeping.done()

    async def _keep(self):
        while True:
            assert (await self._client.plain(*self._call)).ok
            self._beats += 1
            await asyncio.sleep(BEAT_S)


def told_at(cluster):
    """When the latest line of the log says that it was written."""
    return datetime.fromisoformat(cluster.controller.records()[-1]["time"])


@pytest.mark.parametrize("restarts", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_no_step_of_the_clock_ends_a_lease_or_keeps_it(cluster, restarts):
    clock = SteppingClock(cluster.program.folder)
    await cluster.start(**FORGETFUL, **clock.settings)
    client = cluster.client
    kept, lost = [await client.job() for _ in range(2)]
    session = await client.session("keeper")
    assert (await client.pull(session)).job.id == kept
    keeper = Keeper(client, session, kept)
    was = told_at(cluster)
    await step(cluster, clock, "+12h", restarts=restarts)
    await keeper.some_more_beats()

    gone = await client.session("gone")
    assert round((told_at(cluster) - was).total_seconds() / HOUR_S) == 12
    assert (await client.pull(gone)).job.id == lost
    await step(cluster, clock, "-1h", restarts=restarts)
    await client.reaches(lost, pb.PENDING)
    await so(lambda: cluster.told("job requeued"), what="it is told")
    assert round((told_at(cluster) - was).total_seconds() / HOUR_S) == -1
    await keeper.some_more_beats()
    keeper.keeping.cancel()

    assert (await client.report(session, kept, 90.5, features={"vmaf": 90.5})).ok
    assert await asyncio.to_thread(cluster.controller.stop) == 0
    history = stored_history(cluster.database) if restarts else cluster.history()
    assert history.jobs[kept].outcomes == ["completed"]
    assert history.jobs[lost].outcomes == ["expired"]


async def step(cluster, clock, offset, *, restarts):
    """Set the clock, under the controller or while it is away."""
    clock.step(offset)
    if restarts:
        await cluster.kill()
        await cluster.start(**FORGETFUL, **clock.settings)
