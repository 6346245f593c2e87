"""The order in which a controller starts and stops, and what is left when a part fails (ADR 0025)."""

from __future__ import annotations

import asyncio

import pytest

from tests.controller_world import DISK_FULL, ControllerWorld, a_controller
from tests.desks import POLICY
from vmafx.app.controller import events
from vmafx.domain.errors import ConfigurationError, ControllerError, StoreError
from vmafx.domain.job import JobStatus

pytestmark = pytest.mark.virtual_time
GRACE = f"{POLICY.shutdown_s:g}"


@pytest.fixture
def it(clock) -> ControllerWorld:
    it = a_controller(clock)

    async def tell(name: str) -> None:
        it.story.append(name)

    it.store.tap.before = tell
    return it


async def started(it: ControllerWorld):
    controller = it.controller()
    task = asyncio.create_task(controller.run(), name="controller")
    await it.clock.settle()
    return controller, task


async def test_a_controller_starts_its_parts_in_order_and_ends_them_in_order(it):
    controller, task = await started(it)
    assert it.story == ["http up", "resume", "grpc up", "sweep", "<lambda>"]
    assert controller.ready_problem() is None
    it.story.clear()
    controller.stop()
    await task
    it.story.append("run returned")  # whoever opened the store closes it now
    assert it.story == [
        f"grpc stops within {GRACE} s",
        "grpc down",
        f"http stops within {GRACE} s",
        "http down",
        "run returned",
    ]
    assert it.telemetry.messages == (events.STARTED, events.STOPPING, events.STOPPED)
    assert it.telemetry.events[0].fields == {"grpc": "127.0.0.1:1", "http": "127.0.0.1:1"}


async def test_before_it_works_and_while_it_stops_it_says_why_it_is_not_ready(it):
    controller = it.controller()
    seen = []
    it.grpc.on_start = lambda: seen.append(controller.ready_problem())
    assert controller.ready_problem() == "the controller is starting"
    task = asyncio.create_task(controller.run())
    await it.clock.settle()
    assert seen == ["the controller is starting"]
    assert controller.ready_problem() is None
    it.grpc.calls_take_s = 5
    controller.stop()
    assert controller.ready_problem() == "the controller is stopping"
    await it.clock.sleep(1)
    assert it.http.up, "probes are answered while calls end"
    await task
    assert controller.ready_problem() == "the controller is stopping"


async def test_it_is_not_ready_while_the_store_fails(it):
    controller, task = await started(it)
    it.store.tap.failing = DISK_FULL
    await it.clock.sleep(POLICY.sweep_interval_s + 0.001)
    assert controller.ready_problem() == "the store fails: database or disk is full"
    it.store.tap.failing = None
    await it.clock.sleep(POLICY.sweep_interval_s + 0.001)
    assert controller.ready_problem() is None
    controller.stop()
    await task


async def test_calls_have_one_grace_for_both_listeners(it):
    controller, task = await started(it)
    it.grpc.calls_take_s, it.http.calls_take_s = 20, 100
    began_s = it.clock.monotonic()
    controller.stop()
    await task
    assert it.clock.monotonic() - began_s == POLICY.shutdown_s
    assert f"http stops within {POLICY.shutdown_s - 20:g} s" in it.story


async def test_a_second_word_cuts_calls_off(it):
    controller, task = await started(it)
    it.grpc.calls_take_s = 20
    began_s = it.clock.monotonic()
    controller.stop()
    controller.stop()
    await it.clock.sleep(3)
    controller.stop_now()
    await it.clock.sleep(0.001)
    assert "grpc down" in it.story
    assert it.clock.monotonic() - began_s < 4
    await task


async def test_at_once_means_at_once(it):
    controller, task = await started(it)
    it.grpc.calls_take_s = it.http.calls_take_s = 20
    controller.stop_now()
    await task
    assert not (it.grpc.up)
    assert not (it.http.up)
    assert it.clock.monotonic() == 0


async def test_pulls_and_followers_end_before_the_listener_waits_for_calls(it):
    controller, task = await started(it)
    node = await it.node()
    pulling = asyncio.create_task(node.pull(timeout_s=60))
    following = asyncio.create_task(anext(aiter(it.jobs().followed())))
    await it.clock.settle()
    it.grpc.calls_take_s = 20
    controller.stop()
    await it.clock.sleep(0.001)
    assert pulling.done()
    assert pulling.result() is None
    with pytest.raises(ControllerError, match="stopping"):
        await following
    controller.stop_now()
    await task


async def test_a_store_that_fails_refuses_the_start_and_nobody_is_served(it):
    it.store.tap.failing = DISK_FULL
    with pytest.raises(StoreError, match="disk is full"):
        await it.controller().run()
    assert it.story == ["http up", "resume", "http stops within 0 s", "http down"]


async def test_probes_are_answered_while_sessions_are_given_their_time_anew(it):
    held = asyncio.Event()

    async def hold(name: str) -> None:
        it.story.append(name)
        await held.wait()

    it.store.tap.before = hold
    controller, task = await started(it)
    assert it.story == ["http up", "resume"]
    assert controller.ready_problem() == "the controller is starting"
    held.set()
    await it.clock.settle()
    assert it.grpc.up
    controller.stop()
    await task


async def test_told_to_stop_before_all_is_resumed_it_sweeps_nothing_and_takes_no_call(it):
    async def stop(name: str) -> None:
        it.story.append(name)
        controller.stop()

    controller = it.controller()
    it.store.tap.before = stop
    await controller.run()
    assert it.story == ["http up", "resume", "http stops within 0 s", "http down"]


@pytest.mark.parametrize("which", ["http", "grpc"])
async def test_a_listener_that_cannot_start_leaves_nothing_open(it, which):
    refusal = ConfigurationError("VMAFX_GRPC_LISTEN", "is in use", value=":9090")
    getattr(it, which).refusal = refusal
    with pytest.raises(ConfigurationError) as caught:
        await it.controller().run()
    assert caught.value is refusal
    assert not (it.grpc.up)
    assert not (it.http.up)
    assert "sweep" not in it.story
    assert events.STARTED not in it.telemetry.messages


async def test_a_sweeper_that_dies_ends_the_controller_with_its_error(it):
    controller, task = await started(it)
    death = ZeroDivisionError()
    it.store.tap.failing = death
    await it.clock.sleep(POLICY.sweep_interval_s + 1)
    with pytest.raises(ZeroDivisionError) as caught:
        await task
    assert caught.value is death
    assert not (it.grpc.up)
    assert not (it.http.up)
    assert controller.ready_problem() == "the controller is stopping"
    (event,) = it.telemetry.events_of(events.SWEEPER_DIED)
    assert event.error is death


async def test_told_to_stop_before_it_runs_it_serves_nobody(it):
    controller = it.controller()
    controller.stop()
    await controller.run()
    assert not [line for line in it.story if line.endswith("up")]


async def test_told_to_stop_while_it_starts_it_is_never_ready(it):
    controller = it.controller()
    it.grpc.on_start = controller.stop
    await controller.run()
    assert events.STARTED not in it.telemetry.messages
    assert not (it.grpc.up)
    assert not (it.http.up)


async def test_a_cancellation_cuts_off_and_leaves_nothing(it):
    _, task = await started(it)
    it.grpc.calls_take_s = 20
    began_s = it.clock.monotonic()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert it.clock.monotonic() == began_s
    assert not (it.grpc.up)
    assert not (it.http.up)
    assert [each.get_name() for each in asyncio.all_tasks() if "sweep" in each.get_name()] == []


async def test_a_controller_runs_once(it):
    controller = it.controller()
    controller.stop()
    await controller.run()
    with pytest.raises(RuntimeError, match="once"):
        await controller.run()


async def test_jobs_that_run_are_left_as_they_are_by_a_stop(it):
    controller, task = await started(it)
    job_id = await it.submit()
    await (await it.node()).pull_job()
    controller.stop()
    await task
    assert await it.status(job_id) is JobStatus.RUNNING
