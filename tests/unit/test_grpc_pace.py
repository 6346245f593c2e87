"""Streams beside calls: so many answers a second for all of them together, each written once (ADR 0026)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.grpc_listening import JobsDouble
from vmafx.adapters.auth.disabled import EVERYONE
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.grpc import codec_jobs, pace
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.calls import Incoming, Stream
from vmafx.adapters.grpc.job_calls import JobCalls
from vmafx.adapters.grpc.pace import BURST_S, FOLLOWED_PER_S, LISTED_PER_S, Pace
from vmafx.domain.job import JobId, JobStatus
from vmafx.ports.jobs import JobView

pytestmark = pytest.mark.virtual_time
PATH = "/vmafx.controller.v1.VmafxController/StreamJobs"
FOLLOW = (("vmafx-follow", "true"),)
FOLLOWERS = 100


class Context:
    """What grpc knows of a call whose reader reads at once."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    async def send_initial_metadata(self, _metadata):
        pass

    async def write(self, content):
        self.written.append(content)
        await asyncio.sleep(0)

    def time_remaining(self):
        return None


def some_views(clock: VirtualClock, count: int) -> tuple[JobView, ...]:
    view = JobView(
        id=JobId("job"), status=JobStatus.PENDING, spec=None, created_at=clock.now(), updated_at=clock.now()
    )
    return tuple(replace(view, id=JobId(f"job-{number}")) for number in range(count))


class Streams:
    """Several calls of `StreamJobs`, without a server."""

    def __init__(self, clock: VirtualClock, jobs: JobsDouble, *, count: int, metadata=FOLLOW) -> None:
        method = JobCalls(lambda _caller: jobs, clock=clock).methods()[PATH]
        assert isinstance(method, Stream)
        self.contexts = [Context() for _ in range(count)]
        content = pb.StreamJobsRequest().SerializeToString()
        self.tasks = [
            asyncio.create_task(
                method.work(Incoming(caller=EVERYONE, content=content, metadata=metadata, context=context))
            )
            for context in self.contexts
        ]

    @property
    def sent(self) -> int:
        return sum(len(context.written) for context in self.contexts)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def test_few_answers_do_not_wait(clock):
    pace = Pace(clock, 1000.0)
    for _ in range(round(1000 * BURST_S) - 1):
        await pace.one()
    assert clock.monotonic() == 0


async def test_more_go_in_their_order_so_many_a_second(clock):
    pace, order = Pace(clock, 1000.0), []

    async def send(number: int) -> None:
        await pace.one()
        order.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(1050):
            tasks.create_task(send(number))
    assert order == list(range(1050))
    assert clock.monotonic() == pytest.approx(1.0)


async def test_what_was_not_sent_for_long_may_not_be_sent_at_once(clock):
    pace = Pace(clock, 1000.0)
    await clock.sleep(3600)
    for _ in range(1050):
        await pace.one()
    assert clock.monotonic() == pytest.approx(3601.0)


async def test_however_many_follow_they_are_sent_so_many_jobs_together(clock):
    jobs = JobsDouble()
    jobs.views = some_views(clock, 200)
    streams = Streams(clock, jobs, count=FOLLOWERS)
    for second in (1, 2, 3):
        await clock.sleep(1.0)
        assert streams.sent == pytest.approx(FOLLOWED_PER_S * (second + BURST_S), abs=2)
    counts = [len(context.written) for context in streams.contexts]
    assert max(counts) - min(counts) <= 1 + FOLLOWED_PER_S * BURST_S / FOLLOWERS
    await streams.close()


async def test_listings_have_a_pace_of_their_own(clock):
    jobs = JobsDouble()
    jobs.views = some_views(clock, 5000)
    streams = Streams(clock, jobs, count=4, metadata=())
    await clock.sleep(1.0)
    assert streams.sent == pytest.approx(LISTED_PER_S * (1 + BURST_S), abs=2)
    await streams.close()


async def test_a_state_is_written_once_for_all_who_follow(clock, monkeypatch):
    monkeypatch.setattr(pace, "FOLLOWED_PER_S", 1e6)
    written, make = [], codec_jobs.job_message

    def count(view: JobView) -> pb.Job:
        written.append(view.id)
        return make(view)

    monkeypatch.setattr(codec_jobs, "job_message", count)
    jobs = JobsDouble()
    jobs.views = some_views(clock, 50)
    streams = Streams(clock, jobs, count=FOLLOWERS)
    await clock.sleep(60.0)
    assert streams.sent == 50 * FOLLOWERS
    assert sorted(written) == sorted(view.id for view in jobs.views)
    await streams.close()
