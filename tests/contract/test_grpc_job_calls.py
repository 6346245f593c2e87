"""The calls of clients over real gRPC, asked with bare messages as any client would (ADR 0016, 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import grpc.aio
import pytest

from tests.grpc_clients import WireClient, wire_client
from tests.grpc_listening import JobsDouble, listener_of, listening
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.calls import CALL_TIMEOUT_MAX_S
from vmafx.adapters.grpc.services import CALL_FAILED
from vmafx.domain.job import JobId, JobSpec, JobStatus, NodeName
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.scoring import Backend
from vmafx.ports.jobs import CancelAnswer, JobView

HANG_S = 20.0
UNREADABLE = "the request cannot be read: it is no vmafx.controller.v1.SubmitJobRequest"
SPEC = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="vmaf_4k", backend=Backend.CPU)
SCORING = pb.ScoringParams(
    reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="vmaf_4k", backend="cpu"
)
VIEW = JobView(
    id=JobId("job-1"),
    status=JobStatus.PENDING,
    spec=SPEC,
    created_at=datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC),
    updated_at=datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
)
MESSAGE = pb.Job(id="job-1", scoring=SCORING, created_at=1767323045, updated_at=1767323046)
BIG = replace(VIEW, status=JobStatus.FAILED, error="x" * 4096)


@pytest.fixture
def jobs() -> JobsDouble:
    double = JobsDouble()
    double.view = VIEW
    return double


@pytest.fixture
async def client(jobs: JobsDouble) -> AsyncIterator[WireClient]:
    async with listening(jobs=jobs) as address, wire_client(address) as client:
        yield client


def views(*statuses: JobStatus) -> tuple[JobView, ...]:
    return tuple(
        replace(VIEW, id=JobId(f"job-{number}"), status=status) for number, status in enumerate(statuses)
    )


async def refused(stream: grpc.aio.UnaryStreamCall) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async for _ in stream:
            pass
    return error.value.code().name, error.value.details()


# ---------------------------------------------------------------- submit


async def test_a_submission_is_handed_on_as_it_came(jobs: JobsDouble, client: WireClient) -> None:
    answer = await client.submit("/clips/ref.y4m", "/clips/dis.y4m", model="vmaf_4k", backend="cpu")
    assert answer == pb.SubmitJobResponse(job_id="job-1")
    assert (await client.submit("/a", "https://b/c.y4m", key="mine-7~")).job_id == "job-1"
    bare = JobSpec(reference="/a", distorted="https://b/c.y4m")
    assert jobs.asked == [("submit", SPEC, None), ("submit", bare, "mine-7~")]


SUBMISSIONS = [
    (b"", "scoring params are required"),
    (pb.SubmitJobRequest(scoring=pb.ScoringParams()), "reference and distorted paths are required"),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/a")),
        "reference and distorted paths are required",
    ),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(distorted="/a", backend="tpu")),
        "reference and distorted paths are required",
    ),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/a", distorted="/b", backend="tpu")),
        'backend "tpu" is none of cpu, cuda, hip, sycl, metal',
    ),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/" + "é" * 4096, distorted="/b")),
        "reference has 8193 bytes, at most 8192 are accepted",
    ),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/a", distorted="/" + "b" * 8192)),
        "distorted has 8193 bytes, at most 8192 are accepted",
    ),
    (
        pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/a", distorted="/b", model="m" * 1025)),
        "model has 1025 bytes, at most 1024 are accepted",
    ),
    (b"\xff\xff", UNREADABLE),
    (b"\x0a\x06\x0a\x01\xff\x12\x01b", UNREADABLE),  # text that is no UTF-8
]


@pytest.mark.parametrize(("request_", "message"), SUBMISSIONS)
async def test_a_bad_submission_is_refused_and_never_handed_on(
    jobs: JobsDouble, client: WireClient, request_, message: str
) -> None:
    assert await client.refusal("SubmitJob", request_) == ("INVALID_ARGUMENT", message)
    assert jobs.asked == []


@pytest.mark.parametrize(
    "metadata",
    [
        (("vmafx-idempotency-key", ""),),
        (("vmafx-idempotency-key", "k" * 257),),
        (("vmafx-idempotency-key", "a"), ("vmafx-idempotency-key", "a")),
    ],
    ids=["empty", "long", "twice"],
)
async def test_a_key_that_is_none_is_refused_and_never_ignored(
    jobs: JobsDouble, client: WireClient, metadata
) -> None:
    refusal = await client.refusal("SubmitJob", pb.SubmitJobRequest(scoring=SCORING), metadata=metadata)
    problem = "vmafx-idempotency-key must be given once, as 1 to 256 visible ASCII characters"
    assert refusal == ("INVALID_ARGUMENT", problem)
    assert jobs.asked == []


# ---------------------------------------------------------------- get, cancel


async def test_a_job_is_shown_in_whole_seconds_and_without_roots(
    jobs: JobsDouble, client: WireClient
) -> None:
    answer = await client.get("job-1")
    assert answer == MESSAGE
    assert list(answer.scoring_roots) == []
    assert jobs.asked == [("get", "job-1")]


async def test_a_job_that_has_ended_shows_how(jobs: JobsDouble, client: WireClient) -> None:
    jobs.view = replace(VIEW, status=JobStatus.COMPLETED, assigned_node=NodeName("node-a"), score=91.25)
    expected = pb.Job()
    expected.CopyFrom(MESSAGE)
    expected.status, expected.assigned_node, expected.final_score = pb.COMPLETED, "node-a", 91.25
    assert await client.get("job-1") == expected
    jobs.view = replace(VIEW, status=JobStatus.FAILED, error="no clips", spec=None)
    answer = await client.get("job-1")
    assert (answer.status, answer.error, answer.HasField("scoring")) == (pb.FAILED, "no clips", False)


async def test_a_cancel_is_answered_in_the_words_of_the_controller(
    jobs: JobsDouble, client: WireClient
) -> None:
    answer = await client.cancel("job-1")
    assert answer == pb.CancelJobResponse(ok=True, message="cancellation requested")
    jobs.cancelled = CancelAnswer(ok=True, message="job is already failed")
    assert (await client.cancel("job-1")).message == "job is already failed"
    assert jobs.asked == [("cancel", "job-1")] * 2


@pytest.mark.parametrize("method", ["GetJob", "CancelJob"])
async def test_a_job_that_is_not_named_is_refused(jobs: JobsDouble, client: WireClient, method: str) -> None:
    assert await client.refusal(method, b"") == ("INVALID_ARGUMENT", "job_id is required")
    assert jobs.asked == []


@pytest.mark.parametrize("method", ["GetJob", "CancelJob"])
async def test_an_id_longer_than_any_is_not_found(jobs: JobsDouble, client: WireClient, method: str) -> None:
    longest, longer = "j" * 256, "é" * 129
    request = pb.GetJobRequest(job_id=longer)  # both requests look the same on the wire
    assert await client.refusal(method, request) == ("NOT_FOUND", f'job "{longer}" not found')
    assert jobs.asked == []
    assert (await client.refusal(method, pb.GetJobRequest(job_id="a\0b")))[0] == "NOT_FOUND"
    assert jobs.asked == []
    await client.call(method, pb.GetJobRequest(job_id=longest))
    assert [asked[1] for asked in jobs.asked] == [longest]


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
async def test_a_refusal_reaches_the_client_as_it_is(
    jobs: JobsDouble, client: WireClient, code: StatusCode
) -> None:
    jobs.error = controller_error(code, "as told")
    expected = (code.value, "as told")
    assert await client.refusal("SubmitJob", pb.SubmitJobRequest(scoring=SCORING)) == expected
    assert await client.refusal("GetJob", pb.GetJobRequest(job_id="j")) == expected
    assert await client.refusal("CancelJob", pb.CancelJobRequest(job_id="j")) == expected
    assert await refused(client.stream()) == expected
    assert await refused(client.stream(follow=True)) == expected


async def test_nothing_is_told_of_an_error_that_nobody_foresaw(jobs: JobsDouble) -> None:
    telemetry = RecordingTelemetry()
    jobs.error = RuntimeError("password=hunter2")
    async with listening(jobs=jobs, telemetry=telemetry) as address, wire_client(address) as client:
        assert await client.refusal("GetJob", pb.GetJobRequest(job_id="j")) == ("INTERNAL", "internal error")
        assert await refused(client.stream()) == ("INTERNAL", "internal error")
    assert [event.message for event in telemetry.events] == [CALL_FAILED] * 2
    assert telemetry.events[0].fields == {"call": "/vmafx.controller.v1.VmafxController/GetJob"}


async def test_calls_are_given_the_time_that_is_left(jobs: JobsDouble, client: WireClient) -> None:
    await client.get("j", timeout_s=None)
    await client.cancel("j", timeout_s=1e9)
    await client.submit("/a", "/b", timeout_s=12)
    async for _ in client.stream(timeout_s=None):
        pass
    none, endless, short, listing = jobs.timeouts_s
    assert (none, endless, listing) == (60.0, CALL_TIMEOUT_MAX_S, CALL_TIMEOUT_MAX_S)
    assert 0 < short < 13


# ---------------------------------------------------------------- listings


async def test_a_listing_shows_the_jobs_and_ends(jobs: JobsDouble, client: WireClient) -> None:
    jobs.views = views(*JobStatus)
    seen = [(job.id, job.status) async for job in client.stream()]
    assert seen == [
        ("job-0", pb.PENDING),
        ("job-1", pb.RUNNING),
        ("job-2", pb.COMPLETED),
        ("job-3", pb.FAILED),
        ("job-4", pb.CANCELLED),
    ]
    assert jobs.asked == [("listed", frozenset())]


async def test_a_tenant_without_jobs_gets_an_empty_listing(client: WireClient) -> None:
    stream = client.stream()
    assert [job async for job in stream] == []
    assert await stream.code() is grpc.StatusCode.OK


async def test_a_status_that_nobody_knows_means_pending(jobs: JobsDouble, client: WireClient) -> None:
    async for _ in client.stream(pb.FAILED, 17, -1):
        pass
    assert jobs.asked == [("listed", frozenset({JobStatus.FAILED, JobStatus.PENDING}))]


@pytest.mark.parametrize(
    "metadata",
    [
        (("vmafx-follow", "false"),),
        (("vmafx-follow", "TRUE"),),
        (("vmafx-follow", "1"),),
        (("vmafx-follow", "true"), ("vmafx-follow", "true")),
    ],
)
async def test_a_wish_to_follow_that_is_not_understood_is_not_there(
    jobs: JobsDouble, client: WireClient, metadata
) -> None:
    async for _ in client.stream(metadata=metadata):
        pass
    assert jobs.asked == [("listed", frozenset())]


async def test_a_follower_is_told_at_once_and_then_of_each_change(
    jobs: JobsDouble, client: WireClient
) -> None:
    stream = client.stream(pb.RUNNING, pb.COMPLETED, follow=True)
    async with asyncio.timeout(HANG_S):
        await stream.initial_metadata()  # there is no job yet, and none will come by itself
        jobs.changes.put_nowait(replace(VIEW, status=JobStatus.RUNNING))
        assert (await anext(aiter(stream))).status == pb.RUNNING
        jobs.changes.put_nowait(replace(VIEW, status=JobStatus.COMPLETED))
        assert (await anext(aiter(stream))).status == pb.COMPLETED
        jobs.changes.put_nowait(controller_error(StatusCode.UNAVAILABLE, "StreamJobs: fell behind"))
        assert await refused(stream) == ("UNAVAILABLE", "StreamJobs: fell behind")
    assert jobs.asked == [("followed", frozenset({JobStatus.RUNNING, JobStatus.COMPLETED}))]


# ---------------------------------------------------------------- clients that are slow or gone


@pytest.mark.parametrize("follow", [False, True])
async def test_a_reader_that_goes_away_ends_the_reading(
    jobs: JobsDouble, client: WireClient, *, follow: bool
) -> None:
    jobs.views = (BIG,) * 2000
    stream = client.stream(follow=follow)
    async with asyncio.timeout(HANG_S):
        await anext(aiter(stream))
        stream.cancel()
        await jobs.closed.wait()
    assert jobs.sent < 2000


async def test_a_reader_that_does_not_read_holds_the_jobs_back(jobs: JobsDouble, client: WireClient) -> None:
    jobs.views = (BIG,) * 2000
    stream = client.stream()
    async with asyncio.timeout(HANG_S):
        await anext(aiter(stream))
        before = -1
        while jobs.sent != before:  # nothing moves any more once the window of the connection is full
            before = jobs.sent
            for _ in range(20):
                await client.get("job-1")
        assert jobs.sent < 2000
        assert len([job async for job in stream]) == 1999
        await jobs.closed.wait()


async def test_a_deadline_ends_a_follower(jobs: JobsDouble, client: WireClient) -> None:
    assert (await refused(client.stream(follow=True, timeout_s=0.2)))[0] == "DEADLINE_EXCEEDED"
    async with asyncio.timeout(HANG_S):
        await jobs.closed.wait()


async def test_jobs_that_go_on_after_their_reader_left_are_closed_without_a_word(jobs: JobsDouble) -> None:
    begun, telemetry = asyncio.Event(), RecordingTelemetry()

    async def stubborn(_statuses):
        try:
            yield VIEW
            begun.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            while True:
                yield VIEW
        finally:
            jobs.closed.set()

    jobs.followed = stubborn
    async with listening(jobs=jobs, telemetry=telemetry) as address, wire_client(address) as client:
        stream = client.stream(follow=True)
        async with asyncio.timeout(HANG_S):
            await anext(aiter(stream))
            await begun.wait()
            stream.cancel()
            await jobs.closed.wait()
    assert telemetry.events == []


async def test_jobs_may_come_from_any_iterator(jobs: JobsDouble, client: WireClient) -> None:
    class Once:
        left = [VIEW]  # noqa: RUF012 -- one object, used once

        def __aiter__(self):
            return self

        async def __anext__(self):
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    jobs.listed = lambda _statuses, *, timeout_s: Once()
    assert [job async for job in client.stream()] == [MESSAGE]


# ---------------------------------------------------------------- the end of a server


async def test_a_stop_ends_followers_and_lets_listings_finish(jobs: JobsDouble) -> None:
    jobs.views = (BIG,) * 500
    listener = listener_of(jobs=jobs)
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        quiet = client.stream(follow=True)
        await quiet.initial_metadata()
        listing = client.stream()
        await anext(aiter(listing))
        stop = asyncio.create_task(listener.stop(grace_s=HANG_S))
        assert await refused(quiet) == ("UNAVAILABLE", "the controller is stopping")
        assert len([job async for job in listing]) == 499
        await stop


async def test_a_follower_that_does_not_read_does_not_outlast_the_grace(jobs: JobsDouble) -> None:
    jobs.views = (BIG,) * 2000
    listener = listener_of(jobs=jobs)
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        stuck = client.stream(follow=True)
        await anext(aiter(stuck))
        await listener.stop(grace_s=0.2)
        await jobs.closed.wait()
        code, _ = await refused(stuck)
        assert code == "UNAVAILABLE"
