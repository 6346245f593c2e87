"""The calls of nodes over real gRPC, asked with bare messages as any other peer would (ADR 0016)."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio
import pytest
import trustme

from tests.controller_server import Received, Recorder, serve
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.fakes.controller_calls import PullCall, RegisterCall, ReportCall
from vmafx.adapters.fakes.controller_faults import Fail
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.servers import (
    CALL_FAILED,
    CALL_TIMEOUT_MAX_S,
    NodeCalls,
    add_controller_service,
)
from vmafx.domain.errors import SessionNotFoundError, StoreError, StoreUnavailableError
from vmafx.domain.job import JobSpec, JobStatus
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Backend, Failure, Retry

HANG_S = 20.0
SPEC = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="vmaf_4k", backend=Backend.CPU)
CPU = pb.NodeCapability(gpu_vendor="cpu", backends=["cpu"], concurrency=2)
ANSWERS = {
    "RegisterNode": pb.RegisterNodeResponse,
    "Heartbeat": pb.HeartbeatResponse,
    "PullWork": pb.PullWorkResponse,
    "ReportResult": pb.ReportResultResponse,
    "SubmitJob": pb.SubmitJobResponse,
    "GetJob": pb.Job,
    "CancelJob": pb.CancelJobResponse,
}


class Peer:
    """A client that knows nothing but the wire."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(address)
        else:
            self.channel = grpc.aio.secure_channel(address, credentials)

    def call(self, method: str, request, *, timeout_s: float | None = HANG_S, metadata=()):
        ask = self.channel.unary_unary(
            f"/vmafx.controller.v1.VmafxController/{method}",
            request_serializer=lambda message: (
                message if isinstance(message, bytes) else message.SerializeToString()
            ),
            response_deserializer=ANSWERS[method].FromString,
        )
        return ask(request, timeout=timeout_s, metadata=metadata)

    async def session(self, name: str = "node-a", **metadata: str) -> dict[str, str]:
        request = pb.RegisterNodeRequest(name=name, capability=CPU)
        told = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
        answer = await self.call("RegisterNode", request, metadata=told)
        return {"node_id": answer.node_id, "session_token": answer.session_token}

    async def refusal(self, method: str, request, **options) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.call(method, request, **options)
        return refused.value.code().name, refused.value.details()


class StubController:
    """Does the same to every call."""

    def __init__(self, do) -> None:
        self.do = do
        self.timeouts_s: list[float] = []

    async def _any(self, *_arguments: object, timeout_s: float):
        self.timeouts_s.append(timeout_s)
        return await self.do()

    register = heartbeat = pull = report = _any


@pytest.fixture
def controller() -> FakeController:
    return FakeController(SystemClock(), roots=("/clips",), pull_wait_s=0.0)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def peer(controller: FakeController, recorder: Recorder) -> AsyncIterator[Peer]:
    async with serve(controller, recorder=recorder) as address, peer_of(address) as peer:
        yield peer


class peer_of:  # noqa: N801 -- reads as the call that it is
    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._peer = Peer(address, credentials)

    async def __aenter__(self) -> Peer:
        return self._peer

    async def __aexit__(self, *_error: object) -> None:
        await self._peer.channel.close()


# ---------------------------------------------------------------- a job's life


async def test_a_job_is_pulled_and_its_success_recorded(controller: FakeController, peer: Peer) -> None:
    job_id = controller.submit(SPEC)
    session = await peer.session()
    pull = peer.call("PullWork", pb.PullWorkRequest(**session, capability=CPU))
    answer = await pull
    scoring = pb.ScoringParams(
        reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="vmaf_4k", backend="cpu"
    )
    assert answer == pb.PullWorkResponse(
        job=pb.Job(id=job_id, status=pb.RUNNING, scoring=scoring, scoring_roots=["/clips"])
    )
    assert ("vmafx-attempt", "1") in tuple(await pull.trailing_metadata())

    beat = pb.HeartbeatRequest(**session, jobs_running=1, running_job_ids=[job_id])
    assert await peer.call("Heartbeat", beat) == pb.HeartbeatResponse(ok=True)

    score = math.nextafter(93.1, 0)
    report = pb.ReportResultRequest(
        **session, job_id=job_id, final=True, score=score, features={"vmaf": score, "motion2": 0.0}
    )
    answer = await peer.call("ReportResult", report, metadata=(("vmafx-attempt", "1"),))
    assert answer == pb.ReportResultResponse(ok=True)
    job = controller.job(job_id)
    assert job.status is JobStatus.COMPLETED
    assert job.result is not None
    assert (job.result.score, job.result.features) == (score, {"vmaf": score, "motion2": 0.0})


async def test_an_answer_without_a_job_brings_no_attempt(peer: Peer) -> None:
    pull = peer.call("PullWork", pb.PullWorkRequest(**await peer.session(), capability=CPU))
    assert not (await pull).HasField("job")
    assert "vmafx-attempt" not in dict(tuple(await pull.trailing_metadata()))


async def test_a_heartbeat_names_cancelled_jobs(controller: FakeController, peer: Peer) -> None:
    job_id = controller.submit(SPEC)
    session = await peer.session()
    await peer.call("PullWork", pb.PullWorkRequest(**session, capability=CPU))
    controller.cancel(job_id)
    beat = pb.HeartbeatRequest(**session, jobs_running=1, running_job_ids=[job_id])
    assert await peer.call("Heartbeat", beat) == pb.HeartbeatResponse(ok=True, cancel_job_ids=[job_id])


async def test_metadata_reaches_the_controller(
    controller: FakeController, recorder: Recorder, peer: Peer
) -> None:
    session = await peer.session(vmafx_instance="process-7")
    request = pb.ReportResultRequest(**session, job_id="job", final=True, error="broken\n")
    told = (("vmafx-attempt", "12"), ("vmafx-retryable", "shutdown"), ("authorization", "Bearer abc"))
    await peer.refusal("ReportResult", request, metadata=told)
    (register,) = controller.wire.received_as(RegisterCall)
    assert register.identity.instance == "process-7"
    (report,) = controller.wire.received_as(ReportCall)
    assert report.report.attempt == 12
    assert report.report.content == Failure(error=r"broken\n", retry=Retry.AT_ONCE)
    assert [call.values("authorization") for call in recorder.of("ReportResult")] == [("Bearer abc",)]
    assert isinstance(recorder.calls[0], Received)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("method", "request_", "refusal"),
    [
        ("RegisterNode", pb.RegisterNodeRequest(), ("INVALID_ARGUMENT", "node name is required")),
        (
            "RegisterNode",
            pb.RegisterNodeRequest(name="n" * 257),
            ("INVALID_ARGUMENT", "node name has 257 bytes, at most 256 are accepted"),
        ),
        (
            "Heartbeat",
            pb.HeartbeatRequest(running_job_ids=["j"] * 65),
            ("INVALID_ARGUMENT", "running_job_ids has 65 entries, at most 64 are accepted"),
        ),
        (
            "PullWork",
            pb.PullWorkRequest(node_id="nobody"),
            ("PERMISSION_DENIED", 'pull work: invalid session for node "nobody"'),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(node_id="nobody", final=True),
            ("PERMISSION_DENIED", 'invalid session for node "nobody"'),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, score=math.nan),
            ("INVALID_ARGUMENT", "non-finite value for score: nan"),
        ),
    ],
)
async def test_a_call_is_refused_in_the_words_of_the_wire(
    peer: Peer, method: str, request_, refusal: tuple[str, str]
) -> None:
    assert await peer.refusal(method, request_) == refusal


async def test_a_report_of_another_job_is_refused_in_the_words_of_the_wire(peer: Peer) -> None:
    session = await peer.session()
    request = pb.ReportResultRequest(**session, job_id="alien", final=True, score=1.0)
    expected = f'job "alien" is not assigned to node "{session["node_id"]}"'
    assert await peer.refusal("ReportResult", request) == ("PERMISSION_DENIED", expected)


async def test_a_heartbeat_of_nobody_is_answered_and_not_refused(peer: Peer) -> None:
    request = pb.HeartbeatRequest(node_id="nobody", running_job_ids=["j"])
    assert await peer.call("Heartbeat", request) == pb.HeartbeatResponse(ok=False)


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
async def test_a_code_of_the_controller_reaches_the_peer(
    controller: FakeController, peer: Peer, code: StatusCode
) -> None:
    controller.wire.cue(Call.PULL, Fail(code=code, message="as told"))
    assert await peer.refusal("PullWork", pb.PullWorkRequest()) == (code.value, "as told")


@pytest.mark.parametrize("method", ["SubmitJob", "GetJob", "CancelJob"])
async def test_a_method_that_nobody_serves_is_unimplemented(peer: Peer, method: str) -> None:
    code, _ = await peer.refusal(method, b"")
    assert code == "UNIMPLEMENTED"


async def test_bytes_that_are_no_request_are_refused_and_the_server_lives(peer: Peer) -> None:
    refusal = await peer.refusal("RegisterNode", b"\xff\xff\xff")
    assert refusal == ("INVALID_ARGUMENT", "the request cannot be read")
    assert await peer.session()


STORE_FAILURES = [
    (Call.REGISTER, StoreError("bad page"), ("INTERNAL", "register node: bad page")),
    (Call.HEARTBEAT, StoreError("bad page"), ("INTERNAL", "heartbeat: look up cancelled jobs: bad page")),
    (Call.PULL, StoreError("bad page"), ("INTERNAL", "pull work: bad page")),
    (Call.REPORT, StoreError("bad page"), ("INTERNAL", "report result: bad page")),
    (Call.PULL, StoreUnavailableError("locked"), ("UNAVAILABLE", "pull work: locked")),
    (
        Call.PULL,
        SessionNotFoundError("n"),
        ("PERMISSION_DENIED", 'pull work: invalid session for node "n"'),
    ),
    (Call.REPORT, SessionNotFoundError("n"), ("PERMISSION_DENIED", 'invalid session for node "n"')),
]
REQUESTS = {
    Call.REGISTER: pb.RegisterNodeRequest(name="n"),
    Call.HEARTBEAT: pb.HeartbeatRequest(),
    Call.PULL: pb.PullWorkRequest(),
    Call.REPORT: pb.ReportResultRequest(final=True),
}


@pytest.mark.parametrize(("call", "error", "refusal"), STORE_FAILURES)
async def test_a_failure_of_the_store_says_what_was_done(
    call: Call, error: StoreError, refusal: tuple[str, str]
) -> None:
    async with serve(failing(error)) as address, peer_of(address) as peer:
        assert await peer.refusal(call.value, REQUESTS[call]) == refusal


async def test_nothing_is_told_of_an_error_that_nobody_foresaw_but_the_log_has_it() -> None:
    telemetry = RecordingTelemetry()
    error = RuntimeError("password=hunter2")
    async with serve(failing(error), telemetry=telemetry) as address, peer_of(address) as peer:
        assert await peer.refusal("PullWork", pb.PullWorkRequest()) == ("INTERNAL", "internal error")
    (event,) = telemetry.events
    assert (event.message, event.fields, event.error) == (CALL_FAILED, {"call": "PullWork"}, error)


async def test_a_long_refusal_still_reaches_the_peer() -> None:
    stub = failing(StoreError("start " + "ü" * 90_000 + " end"))
    async with serve(stub) as address, peer_of(address) as peer:
        code, details = await peer.refusal("ReportResult", REQUESTS[Call.REPORT])
    assert code == "INTERNAL"
    assert details.startswith("report result: start ü")
    assert details.endswith("ü end")


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("given_s", "at_least_s", "at_most_s"),
    [(12.0, 0.0, 13.0), (None, 60.0, 60.0), (1e9, CALL_TIMEOUT_MAX_S, CALL_TIMEOUT_MAX_S)],
    ids=["short", "none", "endless"],
)  # grpc rounds deadlines up by a few percent
@pytest.mark.parametrize("call", Call)
async def test_the_controller_is_given_the_time_that_is_left(
    call: Call, given_s: float | None, at_least_s: float, at_most_s: float
) -> None:
    stub = failing(StoreError("done"))
    async with serve(stub) as address, peer_of(address) as peer:
        await peer.refusal(call.value, REQUESTS[call], timeout_s=given_s)
    (timeout_s,) = stub.timeouts_s
    assert at_least_s <= timeout_s <= at_most_s


@pytest.mark.parametrize("call", Call)
async def test_a_caller_that_goes_away_cancels_the_work(call: Call) -> None:
    work = Endless()
    async with serve(StubController(work)) as address, peer_of(address) as peer:
        pending = peer.call(call.value, REQUESTS[call])
        async with asyncio.timeout(HANG_S):
            await work.begun.wait()
            pending.cancel()
            await work.cancelled.wait()


async def test_a_deadline_that_passes_cancels_the_work() -> None:
    work = Endless()
    async with serve(StubController(work)) as address, peer_of(address) as peer:
        refusal = await peer.refusal("PullWork", pb.PullWorkRequest(), timeout_s=0.2)
        assert refusal[0] == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(HANG_S):
            await work.cancelled.wait()


async def test_an_assignment_whose_caller_left_while_it_waited_is_not_made() -> None:
    waiting = FakeController(SystemClock())
    async with serve(waiting) as address, peer_of(address) as peer:
        session = await peer.session()
        pending = peer.call("PullWork", pb.PullWorkRequest(**session, capability=CPU))
        async with asyncio.timeout(HANG_S):
            while not waiting.wire.received_as(PullCall):
                await asyncio.sleep(0)
            pending.cancel()
            while not any(ended.cancelled for ended in waiting.wire.ended):
                await asyncio.sleep(0)
        job_id = waiting.submit(SPEC)
        assert waiting.job(job_id).status is JobStatus.PENDING


# ---------------------------------------------------------------- the end of a server


@asynccontextmanager
async def calls_and_peer(controller: FakeController) -> AsyncIterator[tuple[NodeCalls, Peer]]:
    calls = NodeCalls(controller, telemetry=RecordingTelemetry())
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    add_controller_service(server, calls)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with peer_of(f"127.0.0.1:{port}") as peer:
        yield calls, peer
    await server.stop(None)


async def waiting_pulls(controller: FakeController, peer: Peer, count: int) -> list[grpc.aio.UnaryUnaryCall]:
    request = pb.PullWorkRequest(**await peer.session(), capability=CPU)
    pulls = [peer.call("PullWork", request) for _ in range(count)]
    async with asyncio.timeout(HANG_S):
        while len(controller.wire.received_as(PullCall)) < count:
            await asyncio.sleep(0)
    return pulls


async def test_pulls_that_are_ended_bring_no_job_and_later_ones_neither() -> None:
    waiting = FakeController(SystemClock(), roots=("/clips",), pull_wait_s=2 * HANG_S)
    async with calls_and_peer(waiting) as (calls, peer):
        pulls = await waiting_pulls(waiting, peer, 3)
        calls.end_pulls()
        answers = [await pull for pull in pulls]
        job_id = waiting.submit(SPEC)
        answers.append(
            await peer.call("PullWork", pb.PullWorkRequest(**await peer.session(), capability=CPU))
        )
        assert [answer.HasField("job") for answer in answers] == [False] * 4
        assert waiting.job(job_id).status is JobStatus.PENDING


async def test_other_calls_go_on_while_pulls_are_ended(controller: FakeController) -> None:
    async with calls_and_peer(controller) as (calls, peer):
        calls.end_pulls()
        session = await peer.session()
        assert (await peer.call("Heartbeat", pb.HeartbeatRequest(**session))).ok


async def test_a_caller_that_goes_away_while_pulls_are_ended_harms_nobody() -> None:
    waiting = FakeController(SystemClock(), pull_wait_s=2 * HANG_S)
    async with calls_and_peer(waiting) as (calls, peer):
        gone, stays = await waiting_pulls(waiting, peer, 2)
        gone.cancel()
        calls.end_pulls()
        assert not (await stays).HasField("job")


PROGRAM = """
import asyncio
from tests.contract.test_grpc_servers import peer_of, waiting_pulls
from tests.controller_server import serve
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
async def main():
    waiting = FakeController(SystemClock(), pull_wait_s=600)
    async with serve(waiting) as address:
        peer = await peer_of(address).__aenter__()
        pulls = await waiting_pulls(waiting, peer, 3)
    print([(await pull).HasField("job") for pull in pulls])
    await peer.channel.close()
asyncio.run(main())
"""


def test_a_server_that_ends_its_pulls_first_stops_without_a_word_of_grpc() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("[False, False, False]\n", "", 0)


# ---------------------------------------------------------------- TLS


async def test_the_same_calls_are_served_over_tls(controller: FakeController) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    pair = (certificate.private_key_pem.bytes(), certificate.cert_chain_pems[0].bytes())
    async with serve(controller, credentials=grpc.ssl_server_credentials([pair])) as address:
        trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        async with peer_of(address, trusted) as peer:
            assert await peer.session()
        async with peer_of(address) as peer:
            assert (await peer.refusal("RegisterNode", pb.RegisterNodeRequest(name="n")))[0] == "UNAVAILABLE"
    assert len(controller.wire.received_as(RegisterCall)) == 1


# ---------------------------------------------------------------- parts


async def test_two_parts_with_one_method_are_refused(controller: FakeController) -> None:
    part = NodeCalls(controller, telemetry=RecordingTelemetry())
    with pytest.raises(ValueError, match="two parts serve RegisterNode"):
        add_controller_service(grpc.aio.server(), part, part)


async def test_a_server_that_wants_a_token_refuses_calls_without_it(controller: FakeController) -> None:
    recorder = Recorder(token="abc")
    async with serve(controller, recorder=recorder) as address, peer_of(address) as peer:
        request = pb.RegisterNodeRequest(name="n")
        refusal = ("UNAUTHENTICATED", "invalid or missing token")
        assert await peer.refusal("RegisterNode", request) == refusal
        told = (("authorization", "Bearer abd"),)
        assert await peer.refusal("RegisterNode", request, metadata=told) == refusal
        assert await peer.session(authorization="Bearer abc")
    assert controller.wire.received_as(RegisterCall) != []
    assert len(recorder.calls) == 3


class Endless:
    """Work that ends only by being cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def failing(error: Exception) -> StubController:
    async def fail() -> None:
        raise error

    return StubController(fail)
