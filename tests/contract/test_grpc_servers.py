"""The calls of nodes over real gRPC, asked with bare messages as any other peer would (ADR 0016)."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc.aio
import pytest
import trustme

from tests.controller_server import Received, Recorder, serve
from tests.grpc_clients import CPU, WireClient, raw_pull, refusal, wire_client
from tests.grpc_listening import DeskDouble, Endless, failing, listener_of, listening
from vmafx.adapters.auth.disabled import EveryoneVerifier
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.fakes.controller_calls import PullCall, RegisterCall, ReportCall
from vmafx.adapters.fakes.controller_faults import Fail
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.calls import CALL_TIMEOUT_MAX_S
from vmafx.adapters.grpc.gate import Gate
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.services import CALL_FAILED, Services
from vmafx.domain.callers import RoleTable
from vmafx.domain.errors import StoreError
from vmafx.domain.job import JobId, JobSpec, JobStatus, RequeueReason
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.ports.controller import Assignment

HANG_S = 20.0
SPEC = JobSpec(reference="/clips/ref.y4m", distorted="/clips/dis.y4m", model="vmaf_4k", backend=Backend.CPU)
ASSIGNMENT = Assignment(job_id=JobId("job-1"), reference="/a", distorted="/b", attempt=3)
REQUESTS = {
    Call.REGISTER: pb.RegisterNodeRequest(name="n"),
    Call.HEARTBEAT: pb.HeartbeatRequest(),
    Call.PULL: pb.PullWorkRequest(),
    Call.REPORT: pb.ReportResultRequest(final=True),
}


def unreadable(message: str) -> str:
    return f"the request cannot be read: it is no vmafx.controller.v1.{message}"


@pytest.fixture
def controller() -> FakeController:
    return FakeController(SystemClock(), roots=("/clips",), pull_wait_s=0.0)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def peer(controller: FakeController, recorder: Recorder) -> AsyncIterator[WireClient]:
    async with serve(controller, recorder=recorder) as address, wire_client(address) as peer:
        yield peer


# ---------------------------------------------------------------- a job's life


async def test_a_job_is_pulled_and_its_success_recorded(controller: FakeController, peer: WireClient) -> None:
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


async def test_an_answer_without_a_job_brings_no_attempt(peer: WireClient) -> None:
    pull = peer.call("PullWork", pb.PullWorkRequest(**await peer.session(), capability=CPU))
    assert not (await pull).HasField("job")
    assert "vmafx-attempt" not in dict(tuple(await pull.trailing_metadata()))


async def test_a_heartbeat_names_cancelled_jobs(controller: FakeController, peer: WireClient) -> None:
    job_id = controller.submit(SPEC)
    session = await peer.session()
    await peer.call("PullWork", pb.PullWorkRequest(**session, capability=CPU))
    controller.cancel(job_id)
    beat = pb.HeartbeatRequest(**session, jobs_running=1, running_job_ids=[job_id])
    assert await peer.call("Heartbeat", beat) == pb.HeartbeatResponse(ok=True, cancel_job_ids=[job_id])


async def test_metadata_reaches_the_controller(
    controller: FakeController, recorder: Recorder, peer: WireClient
) -> None:
    session = await peer.session(instance="process-7")
    request = pb.ReportResultRequest(**session, job_id="job", final=True, error="broken\n")
    told = (("vmafx-attempt", "12"), ("vmafx-retryable", "shutdown"), ("authorization", "Bearer abc"))
    await peer.refusal("ReportResult", request, metadata=told)
    (register,) = controller.wire.received_as(RegisterCall)
    assert register.identity.instance == "process-7"
    (report,) = controller.wire.received_as(ReportCall)
    assert report.report.attempt == 12
    assert report.report.content == Failure(error="broken\n", retry=Retry.AT_ONCE)
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
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, features={"motion": -math.inf}),
            ("INVALID_ARGUMENT", "non-finite value for feature motion: -inf"),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, features={f"f{number}": 1.0 for number in range(1025)}),
            ("INVALID_ARGUMENT", "the report has 1025 features, at most 1024 are accepted"),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, features={"f" * 257: 1.0}),
            ("INVALID_ARGUMENT", "the name of a feature has 257 bytes, at most 256 are accepted"),
        ),
        (
            "RegisterNode",
            pb.RegisterNodeRequest(name="n", capability=pb.NodeCapability(backends=["x"] * 17)),
            ("INVALID_ARGUMENT", "capability lists 17 backends, at most 16 are accepted"),
        ),
        (
            "PullWork",
            pb.PullWorkRequest(capability=pb.NodeCapability(backends=["cpu"] * 17)),
            ("INVALID_ARGUMENT", "capability lists 17 backends, at most 16 are accepted"),
        ),
        (
            "PullWork",
            pb.PullWorkRequest(capability=pb.NodeCapability(gpu_vendor="é" * 129)),
            ("INVALID_ARGUMENT", "gpu_vendor has 258 bytes, at most 256 are accepted"),
        ),
        (
            "RegisterNode",
            pb.RegisterNodeRequest(name="n", capability=pb.NodeCapability(gpu_vendor="a\0")),
            ("INVALID_ARGUMENT", "gpu_vendor holds a control character"),
        ),
        (
            "PullWork",
            pb.PullWorkRequest(capability=pb.NodeCapability(gpu_vendor="a\n")),
            ("INVALID_ARGUMENT", "gpu_vendor holds a control character"),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, features={"a\0": 1.0}),
            ("INVALID_ARGUMENT", "the name of a feature holds a control character"),
        ),
        (
            "ReportResult",
            pb.ReportResultRequest(final=True, features={"": 1.0}),
            ("INVALID_ARGUMENT", "a feature has no name"),
        ),
        ("RegisterNode", b"\x0a\x01\xff", ("INVALID_ARGUMENT", unreadable("RegisterNodeRequest"))),
        ("Heartbeat", b"\x22\x01\xff", ("INVALID_ARGUMENT", unreadable("HeartbeatRequest"))),
    ],
)
async def test_a_call_is_refused_in_the_words_of_the_wire(
    peer: WireClient, method: str, request_, refusal: tuple[str, str]
) -> None:
    assert await peer.refusal(method, request_) == refusal


async def test_a_report_of_another_job_is_refused_in_the_words_of_the_wire(peer: WireClient) -> None:
    session = await peer.session()
    request = pb.ReportResultRequest(**session, job_id="alien", final=True, score=1.0)
    expected = f'job "alien" is not assigned to node "{session["node_id"]}"'
    assert await peer.refusal("ReportResult", request) == ("PERMISSION_DENIED", expected)


@pytest.mark.parametrize("job_id", ["", "j" * 100_000, "\x00\n"])
async def test_an_id_that_is_none_is_refused_like_another_nodes(peer: WireClient, job_id: str) -> None:
    session = await peer.session()
    code, details = await refusal(peer.report(session, job_id, 1.0))
    assert code == "PERMISSION_DENIED"
    assert details.endswith(f'is not assigned to node "{session["node_id"]}"')


@pytest.mark.parametrize("node_id", ["", "n" * 100_000, "\x00\n"])
async def test_a_session_that_is_none_is_nobodys(peer: WireClient, node_id: str) -> None:
    session = {"node_id": node_id, "session_token": "t" * 100_000}
    assert await peer.heartbeat(session, "j" * 100_000) == pb.HeartbeatResponse(ok=False)
    code, details = await refusal(peer.pull(session))
    assert (code, details[:34]) == ("PERMISSION_DENIED", "pull work: invalid session for nod")
    code, details = await refusal(peer.report(session, "job", 1.0))
    assert (code, details[:24]) == ("PERMISSION_DENIED", "invalid session for node")


async def test_backends_that_nobody_knows_are_passed_over(
    controller: FakeController, peer: WireClient
) -> None:
    job_id = controller.submit(SPEC)
    session = await peer.session(capability=pb.NodeCapability(backends=["x" * 100_000] * 16, concurrency=-1))
    capability = pb.NodeCapability(backends=["quantum"] * 15 + ["cpu"])
    assert (await peer.pull(session, capability=capability)).job.id == job_id


async def test_a_heartbeat_of_nobody_is_answered_and_not_refused(peer: WireClient) -> None:
    request = pb.HeartbeatRequest(node_id="nobody", running_job_ids=["j"])
    assert await peer.call("Heartbeat", request) == pb.HeartbeatResponse(ok=False)


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
async def test_a_code_of_the_controller_reaches_the_peer(
    controller: FakeController, peer: WireClient, code: StatusCode
) -> None:
    controller.wire.cue(Call.PULL, Fail(code=code, message="as told"))
    assert await peer.refusal("PullWork", pb.PullWorkRequest()) == (code.value, "as told")


@pytest.mark.parametrize("method", ["SubmitJob", "GetJob", "CancelJob"])
async def test_a_method_that_nobody_serves_is_unimplemented(peer: WireClient, method: str) -> None:
    code, _ = await peer.refusal(method, b"")
    assert code == "UNIMPLEMENTED"


async def test_bytes_that_are_no_request_are_refused_and_the_server_lives(peer: WireClient) -> None:
    refusal = await peer.refusal("RegisterNode", b"\xff\xff\xff")
    assert refusal == ("INVALID_ARGUMENT", unreadable("RegisterNodeRequest"))
    assert await peer.session()


async def test_nothing_is_told_of_an_error_that_nobody_foresaw_but_the_log_has_it() -> None:
    telemetry = RecordingTelemetry()
    error = RuntimeError("password=hunter2")
    async with serve(failing(error), telemetry=telemetry) as address, wire_client(address) as peer:
        assert await peer.refusal("PullWork", pb.PullWorkRequest()) == ("INTERNAL", "internal error")
    (event,) = telemetry.events
    assert (event.message, event.fields, event.error) == (
        CALL_FAILED,
        {"call": "/vmafx.controller.v1.VmafxController/PullWork"},
        error,
    )


async def test_a_long_refusal_still_reaches_the_peer() -> None:
    stub = failing(StoreError("start " + "ü" * 90_000 + " end"))
    async with serve(stub) as address, wire_client(address) as peer:
        code, details = await peer.refusal("ReportResult", REQUESTS[Call.REPORT])
    assert code == "INTERNAL"
    assert details.startswith("start ü")
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
    async with serve(stub) as address, wire_client(address) as peer:
        await peer.refusal(call.value, REQUESTS[call], timeout_s=given_s)
    (timeout_s,) = stub.timeouts_s
    assert at_least_s <= timeout_s <= at_most_s


@pytest.mark.parametrize("call", Call)
async def test_a_caller_that_goes_away_cancels_the_work(call: Call) -> None:
    work = Endless()
    async with serve(DeskDouble(work)) as address, wire_client(address) as peer:
        pending = peer.call(call.value, REQUESTS[call])
        async with asyncio.timeout(HANG_S):
            await work.begun.wait()
            pending.cancel()
            await work.cancelled.wait()


async def test_a_deadline_that_passes_cancels_the_work() -> None:
    work = Endless()
    async with serve(DeskDouble(work)) as address, wire_client(address) as peer:
        refusal = await peer.refusal("PullWork", pb.PullWorkRequest(), timeout_s=0.2)
        assert refusal[0] == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(HANG_S):
            await work.cancelled.wait()


async def test_an_assignment_whose_caller_left_while_it_waited_is_not_made() -> None:
    waiting = FakeController(SystemClock())
    async with serve(waiting) as address, wire_client(address) as peer:
        session = await peer.session()
        pending = peer.pull(session)
        async with asyncio.timeout(HANG_S):
            while not waiting.wire.received_as(PullCall):
                await asyncio.sleep(0)
            pending.cancel()
            while not any(ended.cancelled for ended in waiting.wire.ended):
                await asyncio.sleep(0)
        job_id = waiting.submit(SPEC)
        assert waiting.job(job_id).status is JobStatus.PENDING


@pytest.fixture
def desk() -> DeskDouble:
    async def assign() -> Assignment:
        return ASSIGNMENT

    return DeskDouble(assign)


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
async def at_desk(desk: DeskDouble, telemetry: RecordingTelemetry) -> AsyncIterator[WireClient]:
    async with listening(desk, telemetry=telemetry) as address, wire_client(address) as peer:
        yield peer


async def test_an_answer_that_is_on_its_way_is_not_taken_back(desk: DeskDouble, at_desk: WireClient) -> None:
    pull = at_desk.pull({})
    assert (await pull).job.id == "job-1"
    assert ("vmafx-attempt", "3") in tuple(await pull.trailing_metadata())
    assert not desk.take_back_begun.is_set()


async def test_a_pull_that_answers_after_its_caller_was_lost_is_taken_back(
    desk: DeskDouble, at_desk: WireClient
) -> None:
    begun = asyncio.Event()

    async def too_late() -> Assignment:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ASSIGNMENT

    desk.do = too_late
    pull = at_desk.pull({})
    async with asyncio.timeout(HANG_S):
        await begun.wait()
        pull.cancel()
        await desk.take_back_begun.wait()
    assert desk.taken_back == [ASSIGNMENT]


async def test_a_pull_whose_deadline_passed_unnoticed_is_taken_back(
    desk: DeskDouble, at_desk: WireClient
) -> None:
    await let_a_deadline_pass(desk, at_desk)
    assert desk.taken_back[0] == ASSIGNMENT


async def let_a_deadline_pass(desk: DeskDouble, at_desk: WireClient) -> None:
    """Have the desk answer just after the deadline of its caller, with no chance to be told of it."""

    async def block() -> Assignment:
        time.sleep(desk.timeouts_s[-1] + 0.1)
        return ASSIGNMENT

    desk.do = block
    async with asyncio.timeout(HANG_S):
        while not desk.take_back_begun.is_set():  # on a slow machine a call may not even get here in time
            assert (await refusal(at_desk.pull({}, timeout_s=0.2)))[0] == "DEADLINE_EXCEEDED"


async def test_a_pull_whose_connection_broke_unnoticed_is_taken_back(desk: DeskDouble) -> None:
    broken = asyncio.Event()

    async def meanwhile() -> Assignment:
        with suppress(asyncio.CancelledError):
            await broken.wait()
            await asyncio.Event().wait()
        return ASSIGNMENT

    desk.do = meanwhile
    async with listening(desk) as address, asyncio.timeout(HANG_S):
        writer = await raw_pull(address)
        while not desk.timeouts_s:
            await asyncio.sleep(0)
        writer.transport.abort()
        broken.set()
        await desk.take_back_begun.wait()
    assert desk.taken_back == [ASSIGNMENT]


async def test_an_assignment_that_the_wire_cannot_carry_is_taken_back(
    desk: DeskDouble, at_desk: WireClient
) -> None:
    odd = Assignment(job_id=JobId("job-1"), reference="/\udc80", attempt=3)

    async def assign() -> Assignment:
        return odd

    desk.do = assign
    code, _ = await refusal(at_desk.pull({}))
    assert code == "INTERNAL"
    async with asyncio.timeout(HANG_S):
        await desk.take_back_begun.wait()
    assert desk.taken_back == [odd]


async def test_a_take_back_that_fails_is_told_and_harms_nobody(
    desk: DeskDouble, at_desk: WireClient, telemetry: RecordingTelemetry
) -> None:
    desk.take_back_error = StoreError("locked")
    await let_a_deadline_pass(desk, at_desk)
    async with asyncio.timeout(HANG_S):
        while not telemetry.events:
            await asyncio.sleep(0)
    event = telemetry.events[0]
    assert (event.message, event.error) == (CALL_FAILED, desk.take_back_error)
    path = "/vmafx.controller.v1.VmafxController/PullWork"
    assert event.fields == {"call": path, "job_id": "job-1", "node_id": ""}


async def test_a_server_stops_only_when_all_is_taken_back(desk: DeskDouble) -> None:
    listener = listener_of(desk)
    await listener.start()
    desk.take_back_may_end.clear()
    work = Endless()

    async def too_late() -> Assignment:
        with suppress(asyncio.CancelledError):
            await work()
        return ASSIGNMENT

    desk.do = too_late
    async with wire_client(str(listener.address)) as peer, asyncio.timeout(HANG_S):
        pull = peer.pull({})
        await work.begun.wait()
        pull.cancel()
        await desk.take_back_begun.wait()
        stop = asyncio.create_task(listener.stop(grace_s=0))
        while (await refusal(peer.pull({})))[0] != "UNAVAILABLE":
            pass
        assert not stop.done()
        desk.take_back_may_end.set()
        await stop
    assert desk.taken_back == [ASSIGNMENT]


async def test_a_job_whose_node_vanished_is_pending_again_at_once() -> None:
    fake = FakeController(SystemClock(), pull_wait_s=2 * HANG_S)
    desk = DeskDouble()
    desk.register, desk.take_back = fake.register, fake.take_back
    assigned, gone = asyncio.Event(), asyncio.Event()

    async def pull(*arguments: object, timeout_s: float) -> Assignment | None:
        assignment = await fake.pull(*arguments, timeout_s=timeout_s)
        assigned.set()
        with suppress(asyncio.CancelledError):
            await gone.wait()
        return assignment

    desk.pull = pull
    job_id = fake.submit(SPEC)
    async with listening(desk) as address, wire_client(address) as peer, asyncio.timeout(HANG_S):
        pending = peer.pull(await peer.session())
        await assigned.wait()
        assert fake.job(job_id).status is JobStatus.RUNNING
        pending.cancel()
        while fake.job(job_id).status is not JobStatus.PENDING:
            await asyncio.sleep(0)
    assert [(requeue.job_id, requeue.reason) for requeue in fake.requeues] == [
        (job_id, RequeueReason.ASSIGN_ROLLBACK)
    ]
    assert fake.job(job_id).lost_attempts == 0


# ---------------------------------------------------------------- the end of a server


@asynccontextmanager
async def calls_and_peer(controller: FakeController) -> AsyncIterator[tuple[NodeCalls, WireClient]]:
    telemetry = RecordingTelemetry()
    calls = NodeCalls(lambda _caller: controller, telemetry=telemetry)
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    gate = Gate(EveryoneVerifier(), RoleTable(CONTROLLER_ROLES), telemetry)
    server.add_generic_rpc_handlers((Services(gate, calls, telemetry=telemetry),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with wire_client(f"127.0.0.1:{port}") as peer:
        yield calls, peer
    await server.stop(None)


async def waiting_pulls(
    controller: FakeController, peer: WireClient, count: int
) -> list[grpc.aio.UnaryUnaryCall]:
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
        calls.end_waits()
        answers = [await pull for pull in pulls]
        job_id = waiting.submit(SPEC)
        answers.append(
            await peer.call("PullWork", pb.PullWorkRequest(**await peer.session(), capability=CPU))
        )
        assert [answer.HasField("job") for answer in answers] == [False] * 4
        assert waiting.job(job_id).status is JobStatus.PENDING


async def test_other_calls_go_on_while_pulls_are_ended(controller: FakeController) -> None:
    async with calls_and_peer(controller) as (calls, peer):
        calls.end_waits()
        session = await peer.session()
        assert (await peer.call("Heartbeat", pb.HeartbeatRequest(**session))).ok


async def test_a_caller_that_goes_away_while_pulls_are_ended_harms_nobody() -> None:
    waiting = FakeController(SystemClock(), pull_wait_s=2 * HANG_S)
    async with calls_and_peer(waiting) as (calls, peer):
        gone, stays = await waiting_pulls(waiting, peer, 2)
        gone.cancel()
        calls.end_waits()
        assert not (await stays).HasField("job")


PROGRAM = """
import asyncio
from contextlib import AsyncExitStack
from tests.contract.test_grpc_servers import waiting_pulls
from tests.grpc_clients import wire_client
from tests.controller_server import serve
from vmafx.adapters.auth.disabled import EveryoneVerifier
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
async def main():
    waiting = FakeController(SystemClock(), pull_wait_s=600)
    async with AsyncExitStack() as stack:
        async with serve(waiting) as address:
            peer = await stack.enter_async_context(wire_client(address))
            pulls = await waiting_pulls(waiting, peer, 3)
        print([(await pull).HasField("job") for pull in pulls])
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
        async with wire_client(address, credentials=trusted) as peer:
            assert await peer.session()
        async with wire_client(address) as peer:
            assert (await peer.refusal("RegisterNode", pb.RegisterNodeRequest(name="n")))[0] == "UNAVAILABLE"
    assert len(controller.wire.received_as(RegisterCall)) == 1


# ---------------------------------------------------------------- parts


async def test_a_server_that_wants_a_token_refuses_calls_without_it(controller: FakeController) -> None:
    recorder = Recorder(token="abc")
    async with serve(controller, recorder=recorder) as address, wire_client(address) as peer:
        request = pb.RegisterNodeRequest(name="n")
        refusal = ("UNAUTHENTICATED", "invalid or missing token")
        assert await peer.refusal("RegisterNode", request) == refusal
        told = (("authorization", "Bearer abd"),)
        assert await peer.refusal("RegisterNode", request, metadata=told) == refusal
        assert await peer.session(metadata=(("authorization", "Bearer abc"),))
    assert controller.wire.received_as(RegisterCall) != []
    assert len(recorder.calls) == 3
