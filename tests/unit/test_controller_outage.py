"""A store that fails: seen at the first call, over by itself, and no flood in the log (ADR 0025)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.controller_world import DISK_FULL, ControllerWorld, a_controller, sweeping
from tests.desks import POLICY, SPEC
from vmafx.app.controller import events
from vmafx.app.controller.outage import FAILURES_TOLD_EVERY_S
from vmafx.app.controller.sweeper import PROBE_S
from vmafx.domain.errors import ControllerError, StoreError
from vmafx.domain.job import JobId
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time
INTERVAL_S = POLICY.sweep_interval_s
HOUR_S = 3600.0


@pytest.fixture
def it(clock) -> ControllerWorld:
    return a_controller(clock)


def fail_all_but_the_sweep(it: ControllerWorld) -> None:
    async def fail(name: str) -> None:
        if name not in {"sweep", "resume"}:
            raise DISK_FULL

    it.store.tap.before = fail


async def refused_submission(it: ControllerWorld) -> None:
    with pytest.raises(ControllerError):
        await it.submit()


async def all_listed(it: ControllerWorld) -> None:
    async for _ in it.jobs().listed(timeout_s=10):
        pass


CALLS = {
    "SubmitJob": lambda it, _: it.jobs().submit(SPEC, timeout_s=10),
    "GetJob": lambda it, _: it.jobs().get(JobId("x"), timeout_s=10),
    "CancelJob": lambda it, _: it.jobs().cancel(JobId("x"), timeout_s=10),
    "StreamJobs": lambda it, _: all_listed(it),
    "RegisterNode": lambda _, node: node.register(),
    "Heartbeat": lambda _, node: node.beat(),
    "PullWork": lambda _, node: node.pull(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_that_the_store_fails_makes_the_controller_not_ready_at_once(it, call):
    async with sweeping(it):
        node = await it.node()
        await it.clock.sleep(0.001)
        fail_all_but_the_sweep(it)
        with pytest.raises(ControllerError):
            await call(it, node)
        assert it.readiness.store_problem == "database or disk is full"


async def test_it_is_ready_again_when_upkeep_has_written_though_nobody_calls(it):
    async with sweeping(it):
        await it.clock.sleep(0.001)
        it.store.tap.failing = DISK_FULL
        await refused_submission(it)
        await it.clock.sleep(10 * INTERVAL_S)
        assert it.readiness.store_problem is not None
        it.store.tap.failing = None
        await it.clock.sleep(INTERVAL_S)
        assert it.readiness.store_problem is None
    (event,) = it.telemetry.events_of(events.STORE_WORKS_AGAIN)
    assert event.fields == {"failed_for": 11 * INTERVAL_S - 0.001}


async def test_that_takes_no_longer_when_sweeps_are_rare(clock):
    it = a_controller(clock, replace(POLICY, sweep_interval_s=HOUR_S))
    async with sweeping(it):
        await clock.sleep(60)
        it.store.tap.failing = DISK_FULL
        await refused_submission(it)
        await clock.sleep(3 * PROBE_S)
        assert it.readiness.store_problem is not None
        it.store.tap.failing = None
        await clock.sleep(PROBE_S + 0.001)
        assert it.readiness.store_problem is None
        sweeps = it.store.tap.calls.count("sweep")
        await clock.sleep(HOUR_S / 2)
        assert it.store.tap.calls.count("sweep") == sweeps


async def test_a_sweep_that_began_before_a_failure_does_not_end_the_outage(it):
    async def fail_meanwhile(name: str) -> None:
        if name == "sweep":
            it.store.tap.quieten()
            it.store.tap.failing = DISK_FULL
            await refused_submission(it)
            it.store.tap.failing = None

    async with sweeping(it):
        await it.clock.sleep(0.001)
        it.store.tap.after = fail_meanwhile
        await it.clock.sleep(INTERVAL_S)
        assert it.readiness.store_problem is not None
        await it.clock.sleep(INTERVAL_S)
        assert it.readiness.store_problem is None


async def test_a_row_that_cannot_be_read_is_no_outage(it):
    async with sweeping(it):
        await it.clock.sleep(0.001)
        it.store.tap.failing = StoreError("this row is odd")
        await refused_submission(it)
        assert it.readiness.store_problem is None
        assert len(it.telemetry.events_of(events.STORE_FAILED)) == 1


async def test_the_log_is_told_of_one_failed_call_a_minute_with_how_many_there_were(it):
    it.store.tap.failing = DISK_FULL
    for _ in range(1000):
        await refused_submission(it)
    (first,) = it.telemetry.events_of(events.STORE_FAILED)
    assert (first.level, first.error, first.fields["calls"]) == (Level.WARN, DISK_FULL, 1)
    await it.clock.sleep(FAILURES_TOLD_EVERY_S)
    await refused_submission(it)
    _, second = it.telemetry.events_of(events.STORE_FAILED)
    assert second.fields["calls"] == 1000


async def test_each_outage_is_told_from_its_first_call_on(it):
    async with sweeping(it):
        await it.clock.sleep(0.001)
        for outages in (1, 2):
            fail_all_but_the_sweep(it)
            await refused_submission(it)
            assert len(it.telemetry.events_of(events.STORE_FAILED)) == outages
            it.store.tap.quieten()
            await it.clock.sleep(INTERVAL_S)
            assert len(it.telemetry.events_of(events.STORE_WORKS_AGAIN)) == outages
