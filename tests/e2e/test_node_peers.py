"""`vmafx-node` against controllers over TLS, and against ones that answer anything (ADR 0017, ADR 0022)."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager

import grpc
import pytest
import trustme

from tests import grpc_peers, reports
from tests.controller_server import Recorder, serve
from tests.e2e.program import HANG_S
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.domain.job import JobSpec
from vmafx.domain.retry import Call

LOOPBACK = "127.0.0.1"
GARBAGE = [b"\xff\xff\xff", b"", b"\x0a\x00\x12\x00", bytes(range(256)) * 8]


async def told(node, message, *, times=1, **fields):
    """The records of a message, once they are there."""
    return await asyncio.to_thread(node.wait_told, message, times=times, **fields)


async def stopped(node):
    """Stop the node and return its exit code."""
    return await asyncio.to_thread(node.stop)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority, tmp_path):
    """The settings of a node that trusts the authority."""
    ca_file = grpc_peers.ca_file(authority, tmp_path)
    return {
        "VMAFX_CONTROLLER_TLS": "true",
        "VMAFX_CONTROLLER_CA_FILE": str(ca_file),
        "VMAFX_CONTROLLER_TOKEN": "tok-3f9c",
    }


async def test_jobs_are_done_over_tls_with_a_token(program, fake, nodes, authority, tls):
    controller = FakeController(SystemClock(), roots=(str(program.folder),))
    leaf = authority.issue_cert(LOOPBACK)
    chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(leaf.private_key_pem.bytes(), chain)])
    recorder = Recorder(token="tok-3f9c")
    async with serve(controller, credentials=credentials, recorder=recorder) as address:
        node = nodes(address, **tls)
        folder = program.folder
        job = controller.submit(JobSpec(reference=str(folder / "ref.y4m"), distorted=str(folder / "dis.y4m")))
        await told(node, "job result reported", job_id=job)
        assert await stopped(node) == 0
    result = controller.job(job).result
    assert result is not None
    assert result.score == pytest.approx(reports.SCORE)
    assert "tok-3f9c" not in node.text()
    assert "plaintext" not in node.text()
    assert node.told("controller client started", tls=True, bearer_token=True)


async def test_a_controller_with_another_authority_gets_no_token(program, fake, nodes, tls):
    async with grpc_peers.peer(certificate=trustme.CA().issue_cert(LOOPBACK)) as address:
        node = nodes(str(address), **tls)
        refused = await told(node, "RegisterNode failed; retrying")
        assert refused[0]["code"] == "UNAVAILABLE"
        assert await stopped(node) == 0
    assert not node.told("registered with controller")


async def test_a_controller_without_tls_13_gets_no_call(program, fake, nodes, authority, tls):
    came: list[bytes] = []

    async def serve_12(reader, writer):
        came.append(await reader.read(1))

    context = grpc_peers.tls_context(authority.issue_cert(LOOPBACK), ssl.TLSVersion.TLSv1_2)
    async with grpc_peers.listener(serve_12, context) as address:
        node = nodes(str(address), **tls)
        await told(node, "RegisterNode failed; retrying")
        assert await stopped(node) == 0
    assert [data for data in came if data] == []


@pytest.mark.parametrize("number", range(len(GARBAGE)))
async def test_rubbish_instead_of_answers_is_logged_and_tried_again(program, fake, nodes, number):
    async def answer(_request, _context):
        return GARBAGE[number]

    async with grpc_peers.peer(answer) as address:
        node = nodes(str(address))
        await told(node, "RegisterNode failed; retrying")
        assert await stopped(node) == 0
    assert not node.told("registered with controller")


async def test_a_stop_ends_a_call_that_is_not_answered(program, fake, nodes):
    came = asyncio.Event()

    async def hang(_request, _context):
        came.set()
        await asyncio.Event().wait()

    async with grpc_peers.peer(hang) as address:
        node = nodes(str(address), VMAFX_CONTROLLER_RPC_TIMEOUT="59s", VMAFX_SHUTDOWN_TIMEOUT="59s")
        async with asyncio.timeout(HANG_S):
            await came.wait()
        assert await stopped(node) == 0
    assert not [record for record in node.records() if record["level"] in {"WARN", "ERROR"}]


async def test_connections_that_are_cut_are_made_again(program, fake, nodes):
    async def cut(_reader, writer):
        writer.transport.abort()

    async with grpc_peers.listener(cut) as address:
        node = nodes(str(address))
        refused = await told(node, "RegisterNode failed; retrying", times=2)
        assert {record["code"] for record in refused} == {"UNAVAILABLE"}
        assert await stopped(node) == 0


@asynccontextmanager
async def calls(call):
    """A gRPC server that answers with what `call` makes of a method's name and the request."""

    def handler(method):
        async def one(request, _context):
            return await call(method, request)

        return grpc.unary_unary_rpc_method_handler(one)

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    methods = {method.value: handler(method.value) for method in Call}
    handlers = grpc.method_handlers_generic_handler(grpc_peers.SERVICE, methods)
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port(f"{LOOPBACK}:0")
    await server.start()
    try:
        yield f"{LOOPBACK}:{port}"
    finally:
        await server.stop(0)


def job(number: int, **parts) -> bytes:
    """An answer to a pull."""
    return pb.PullWorkResponse(job=pb.Job(**{"id": f"strange-{number}", **parts})).SerializeToString()


async def test_jobs_that_are_none_harm_no_other(program, fake, nodes):
    folder = str(program.folder)
    pair = {"reference": f"{folder}/ref.y4m", "distorted": f"{folder}/dis.y4m"}
    good = pb.PullWorkResponse(
        job=pb.Job(id="good", scoring=pb.ScoringParams(**pair), scoring_roots=[folder])
    ).SerializeToString()
    strange = [
        b"\xff\xff\xff",
        job(0, id="", scoring=pb.ScoringParams(**pair)),
        job(1, id="x" * (3 << 20), scoring=pb.ScoringParams(**pair)),
        job(2),
        job(3, id="../../etc\x00\n/passwd", scoring=pb.ScoringParams(**pair), scoring_roots=[folder]),
        job(4, scoring=pb.ScoringParams(**pair, backend="abacus"), scoring_roots=[folder]),
        job(5, scoring=pb.ScoringParams(**pair), scoring_roots=[f"/r/{n}" for n in range(10_000)]),
    ]
    waiting = [*strange, good]
    results: dict[str, pb.ReportResultRequest] = {}

    async def call(method, request):
        match method:
            case "RegisterNode":
                return grpc_peers.REGISTERED
            case "Heartbeat":
                return pb.HeartbeatResponse(ok=True).SerializeToString()
            case "PullWork":
                return waiting.pop(0) if waiting else b""
        report = pb.ReportResultRequest.FromString(request)
        results[report.job_id] = report
        return pb.ReportResultResponse(ok=True).SerializeToString()

    async with calls(call) as address:
        node = nodes(address)
        await told(node, "job result reported", job_id="good")
        assert await stopped(node) == 0
    assert results["good"].score == pytest.approx(reports.SCORE)
    scored = {name for name, report in results.items() if not report.error}
    assert scored <= {"good", "../../etc\x00\n/passwd"}
    assert "abacus" in results["strange-4"].error
    assert "scoring roots" in results["strange-5"].error
    assert node.told("job refused: its id is empty or too long to be listed")
    assert all(len(line) < 20_000 for line in node.log.read_bytes().splitlines())
