"""Controllers, nodes and clients in bad weather, by seed: every rule holds, every job ends (ADR 0025)."""

from __future__ import annotations

import asyncio

import pytest

from tests.controller_weather import Weather
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.loop import run_virtual
from vmafx.domain.job import JobStatus

CLIENTS = 4
PATIENCE_S = 4 * 3600.0


async def through(clock: VirtualClock, seed: int, jobs: int) -> Weather:
    weather = Weather(clock, seed)
    await weather.open()
    async with asyncio.TaskGroup() as tasks:
        clients = [tasks.create_task(weather.client(number, jobs)) for number in range(CLIENTS)]
        while not all(client.done() for client in clients):
            await weather.misfortune()
            weather.assert_alive()
            await clock.sleep(weather.chance.uniform(0, 30))
    weather.clear = True
    async with clock.timeout(PATIENCE_S):
        while await weather.unfinished():
            await clock.sleep(10)
    await clock.sleep(200)
    weather.assert_alive()
    for number in range(len(weather.nodes)):
        await weather.end_node(number, softly=True)
    await clock.sleep(1)
    await weather.assert_ended()
    weather.assert_counted()
    for reader in weather.readers:
        await reader.close()
    await weather.close()
    return weather


def live_through(seed: int, jobs: int) -> Weather:
    print(f"seed {seed}")  # noqa: T201 -- the seed brings a history back
    weather = run_virtual(lambda clock: through(clock, seed, jobs))
    happened = dict(sorted(weather.store.happened.items()))
    print(f"seed {seed}: {weather.clock.monotonic():.0f} s, {weather.processes} processes, {happened}")  # noqa: T201
    return weather


@pytest.mark.no_cover  # the lines are counted by the tests of the parts
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_bad_weather_every_rule_holds_and_every_job_ends(seed):
    weather = live_through(seed, jobs=12)
    assert weather.store.happened[JobStatus.COMPLETED.value]


def test_one_seed_is_one_history():
    assert live_through(4, jobs=2).store.known == live_through(4, jobs=2).store.known


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100))
def test_many_histories(seed):
    live_through(seed, jobs=50)
