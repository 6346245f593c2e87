"""The listener for calls: its address, certificate and limits, and the order of its stop (ADR 0026)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.grpc_clients import SERVICE, WireClient, raw_pull, refusal, wire_client
from tests.grpc_listening import FREE, DeskDouble, Endless, JobsDouble, listener_of, listening
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.controller import FakeController
from vmafx.adapters.grpc import binding
from vmafx.adapters.grpc import listener as listener_module
from vmafx.adapters.grpc import reflection as reflection_module
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.channel import ChannelLimits, new_channel
from vmafx.adapters.grpc.listener import GrpcLimits
from vmafx.adapters.grpc.server_credentials import PEM_BYTES_MAX, ServerTls
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError

HANG_S = 20.0
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


async def health(client: WireClient, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    answer = await client.call("/grpc.health.v1.Health/Check", request)
    return health_pb2.HealthCheckResponse.FromString(answer).status


def watch(client: WireClient, service: str = ""):
    return client.channel.unary_stream(
        "/grpc.health.v1.Health/Watch", response_deserializer=health_pb2.HealthCheckResponse.FromString
    )(health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout=HANG_S)


def reflection(client: WireClient, *questions: reflection_pb2.ServerReflectionRequest | bytes):
    requests = [q if isinstance(q, bytes) else q.SerializeToString() for q in questions]
    return client.channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )(iter(requests), timeout=HANG_S)


async def code_of(stream) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        async for _ in stream:
            pass
    return error.value.code().name


async def refused_start(**options) -> ConfigurationError:
    listener = listener_of(**options)
    with pytest.raises(ConfigurationError) as refused:
        await listener.start()
    await listener.stop(grace_s=0)
    return refused.value


# ---------------------------------------------------------------- bursts


async def test_calls_that_come_all_at_once_are_all_answered():
    jobs = JobsDouble()
    connections, calls_each = 3, 700  # more than grpc by itself would let wait
    async with AsyncExitStack() as opened:
        address = await opened.enter_async_context(listening(jobs=jobs))
        clients = [await opened.enter_async_context(wire_client(address)) for _ in range(connections)]
        submitted = (
            client.submit("/r", "/d", timeout_s=60.0) for client in clients for _ in range(calls_each)
        )
        answers = await asyncio.gather(*submitted)
    assert {answer.job_id for answer in answers} == {jobs.job_id}
    assert len(answers) == connections * calls_each


def test_no_call_is_cancelled_for_having_waited():
    options = dict(listener_module._options(GrpcLimits()))
    assert options["grpc.server_max_unrequested_time_in_server"] > 10 * 365 * 86_400


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
async def test_the_port_that_was_bound_is_known_once_it_listens(host: str) -> None:
    listener = listener_of(address=HostPort(host=host, port=0))
    assert listener.address.port == 0
    await listener.start()
    assert listener.address.host == host
    async with wire_client(f"127.0.0.1:{listener.address.port}") as client:
        assert await health(client) == SERVING
    await listener.stop(grace_s=0)


async def test_every_address_means_both_families() -> None:
    if not has_ipv6():
        pytest.skip("the machine has no IPv6")
    async with listening(address=HostPort(host="", port=0)) as address:
        port = address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            async with wire_client(f"{host}:{port}") as client:
                assert await health(client) == SERVING


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("taken", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
async def test_a_port_in_use_is_refused_by_setting_and_address(host: str, taken: str) -> None:
    with socket.create_server((taken, 0)) as other:
        address = HostPort(host=host, port=other.getsockname()[1])
        error = await refused_start(address=address)
    assert error.setting == "VMAFX_GRPC_LISTEN"
    problem = "is in use: another program listens there; stop it, or choose another port"
    assert str(error) == f'VMAFX_GRPC_LISTEN="{address}" {problem}'


async def test_two_listeners_never_share_a_port() -> None:
    async with listening() as address:
        port = int(address.rpartition(":")[2])
        error = await refused_start(address=HostPort(host="127.0.0.1", port=port))
        assert "is in use" in str(error)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("192.0.2.1", "is no address of this machine"),
        ("nowhere.invalid", "names a host that leads to no address"),
        ("unix", "names a host that leads to no address"),
    ],
)
async def test_an_address_that_is_not_ours_is_refused(
    host: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not host[0].isdigit():  # no question to a name server

        def unknown(*_arguments, **_options):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = await refused_start(address=HostPort(host=host, port=9090))
    assert str(error).startswith(f'VMAFX_GRPC_LISTEN="{host}:9090" {words}')


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "needs a right"), (errno.EMFILE, "as many open files"), (errno.ENOBUFS, "ENOBUFS")],
)
async def test_what_the_machine_says_is_told(
    number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_try", lambda *_place: number)
    assert words in str(await refused_start())


async def test_an_address_that_the_machine_lacks_is_passed_over_while_it_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = binding._try
    monkeypatch.setattr(
        binding,
        "_try",
        lambda family, host, port: errno.EADDRNOTAVAIL if ":" in host else tried(family, host, port),
    )
    found = [(socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: found)
    listener = listener_of(address=HostPort(host="here", port=0))
    await listener.start()
    monkeypatch.undo()
    async with wire_client(f"127.0.0.1:{listener.address.port}") as client:
        assert await health(client) == SERVING
    await listener.stop(grace_s=0)


async def test_a_port_lost_at_the_last_moment_is_refused_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "_try", lambda *_place: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        error = await refused_start(address=HostPort(host="127.0.0.1", port=other.getsockname()[1]))
    assert "is in use" in str(error)


async def test_a_port_is_free_again_after_a_stop_and_after_a_refused_start() -> None:
    listener = listener_of()
    await listener.start()
    port = listener.address.port
    await listener.stop(grace_s=0)
    await refused_start(
        address=HostPort(host="127.0.0.1", port=port),
        tls=ServerTls(cert_file=Path("/nowhere/cert.pem"), key_file=Path("/nowhere/key.pem")),
    )
    with socket.create_server(("127.0.0.1", port)):
        pass
    async with listening(address=HostPort(host="127.0.0.1", port=port)) as address:
        assert address == f"127.0.0.1:{port}"


# ---------------------------------------------------------------- TLS


class Pair:
    """A certificate and its key in two files."""

    def __init__(self, directory: Path, name: str = "127.0.0.1") -> None:
        self.authority = trustme.CA()
        issued = self.authority.issue_cert(name)
        self.cert, self.key = directory / "cert.pem", directory / "key.pem"
        self.cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())

    @property
    def tls(self) -> ServerTls:
        return ServerTls(cert_file=self.cert, key_file=self.key)

    @property
    def trusted(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority.cert_pem.bytes())


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def test_calls_are_served_over_tls_and_in_plaintext_no_more(pair: Pair) -> None:
    async with listening(tls=pair.tls) as address:
        async with wire_client(address, credentials=pair.trusted) as client:
            assert await health(client) == SERVING
        async with wire_client(address) as client:
            assert (await client.refusal("/grpc.health.v1.Health/Check"))[0] == "UNAVAILABLE"


def another_key(pair: Pair) -> None:
    pair.key.write_bytes(trustme.CA().issue_cert("127.0.0.1").private_key_pem.bytes())


def key_with_password(pair: Pair) -> None:
    key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    pair.key.write_bytes(locked)


BAD_FILES = [
    (lambda pair: pair.cert.unlink(), "VMAFX_GRPC_CERT_FILE", "cannot be read: No such file or directory"),
    (lambda pair: pair.key.unlink(), "VMAFX_GRPC_KEY_FILE", "cannot be read: No such file or directory"),
    (lambda pair: pair.cert.write_text(""), "VMAFX_GRPC_CERT_FILE", "holds no certificate"),
    (lambda pair: pair.cert.write_text("-----BEGIN"), "VMAFX_GRPC_CERT_FILE", "holds no certificate"),
    (lambda pair: pair.cert.write_bytes(pair.key.read_bytes()), "VMAFX_GRPC_CERT_FILE", "no certificate"),
    (lambda pair: pair.key.write_text("key"), "VMAFX_GRPC_KEY_FILE", "holds no key that can be read"),
    (lambda pair: pair.key.write_bytes(pair.cert.read_bytes()), "VMAFX_GRPC_KEY_FILE", "holds no key"),
    (another_key, "VMAFX_GRPC_KEY_FILE", "does not belong to the certificate of VMAFX_GRPC_CERT_FILE"),
    (key_with_password, "VMAFX_GRPC_KEY_FILE", "holds a key with a password"),
    (
        lambda pair: pair.cert.write_bytes(b" " * (PEM_BYTES_MAX + 1)),
        "VMAFX_GRPC_CERT_FILE",
        f"is larger than {PEM_BYTES_MAX} bytes",
    ),
]


@pytest.mark.parametrize(("spoil", "setting", "words"), BAD_FILES)
async def test_a_bad_certificate_or_key_is_refused_by_its_setting(
    pair: Pair, spoil, setting: str, words: str
) -> None:
    spoil(pair)
    error = await refused_start(tls=pair.tls)
    assert error.setting == setting
    assert words in str(error)
    assert str(pair.cert if setting.endswith("CERT_FILE") else pair.key) in str(error)


async def test_a_pipe_or_a_directory_is_no_certificate(pair: Pair, tmp_path: Path) -> None:
    error = await refused_start(tls=ServerTls(cert_file=tmp_path, key_file=pair.key))
    assert str(error) == f'VMAFX_GRPC_CERT_FILE="{tmp_path}" cannot be read: Is a directory'
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    error = await refused_start(tls=ServerTls(cert_file=pair.cert, key_file=pipe))
    assert str(error) == f'VMAFX_GRPC_KEY_FILE="{pipe}" is no regular file'


PROGRAM = """
import asyncio, json, os, sys
from vmafx.adapters.grpc.environment import quieten, restrict_to_tls13
quieten(os.environ)
assert restrict_to_tls13(os.environ)
from pathlib import Path
from tests.grpc_listening import listener_of
from vmafx.adapters.grpc.server_credentials import ServerTls
async def main():
    listener = listener_of(tls=ServerTls(cert_file=Path(sys.argv[1]), key_file=Path(sys.argv[2])))
    await listener.start()
    print(listener.address.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await listener.stop(grace_s=0)
asyncio.run(main())
"""


def test_a_program_listens_with_tls_13_and_nothing_below(pair: Pair) -> None:
    context = ssl.create_default_context(cadata=pair.authority.cert_pem.bytes().decode())
    context.set_alpn_protocols(["h2"])
    command = [sys.executable, "-c", PROGRAM, str(pair.cert), str(pair.key)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        port = json.loads(program.stdout.readline())
        with (
            socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1") as secured,
        ):
            assert secured.version() == "TLSv1.3"
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as raw,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(raw, server_hostname="127.0.0.1")
        program.stdin.close()
        assert program.wait(timeout=HANG_S) == 0


# ---------------------------------------------------------------- limits


async def test_a_message_that_is_too_large_is_refused_either_way() -> None:
    jobs = JobsDouble()
    limits = GrpcLimits(receive_bytes_max=2000, send_bytes_max=100)
    async with listening(jobs=jobs, limits=limits) as address, wire_client(address) as client:
        code, _ = await client.refusal("GetJob", pb.GetJobRequest(job_id="j" * 2000))
        assert code == "RESOURCE_EXHAUSTED"
        jobs.job_id = "j" * 200
        code, _ = await client.refusal(
            "SubmitJob", pb.SubmitJobRequest(scoring=pb.ScoringParams(reference="/a", distorted="/b"))
        )
        assert code == "RESOURCE_EXHAUSTED"
        jobs.job_id = "job-1"
        assert (await client.submit("/a", "/b")).job_id == "job-1"


async def test_a_token_of_many_claims_still_fits_and_one_without_bounds_does_not() -> None:
    async with listening(jobs=JobsDouble()) as address, wire_client(address) as client:
        fits = (("authorization", "Bearer " + "t" * 16_000),)
        assert (await client.refusal("GetJob", b"", metadata=fits))[0] == "UNAUTHENTICATED"
        endless = (("authorization", "Bearer " + "t" * 64_000),)
        assert (await client.refusal("GetJob", b"", metadata=endless))[0] == "RESOURCE_EXHAUSTED"


async def test_pings_of_an_idle_node_bring_no_goaway() -> None:
    # Ten minutes of them, in a second.
    desk = DeskDouble(Endless())
    limits = GrpcLimits(peer_ping_min_s=0.05)
    options = (
        ("grpc.keepalive_time_ms", 100),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    )
    async with listening(desk, limits=limits) as address, wire_client(address, options=options) as client:
        assert (await refusal(client.pull({}, timeout_s=1.0)))[0] == "DEADLINE_EXCEEDED"
        assert client.channel.get_state() is grpc.ChannelConnectivity.READY


async def test_a_peer_that_fell_silent_holds_nothing() -> None:
    work = Endless()
    limits = GrpcLimits(ping_after_s=0.1, ping_timeout_s=0.2)
    async with listening(DeskDouble(work), limits=limits) as address, asyncio.timeout(HANG_S):
        writer = await raw_pull(address)
        await work.begun.wait()
        await work.cancelled.wait()
        writer.transport.abort()


def test_our_own_node_pings_no_more_often_than_the_listener_permits() -> None:
    assert ChannelLimits().ping_after_s > 2 * GrpcLimits().peer_ping_min_s


async def test_our_own_channel_reaches_it() -> None:
    async with listening() as address:
        channel = new_channel(HostPort.parse("the address", address), None, ChannelLimits())
        async with channel:
            assert await health(WireClient(channel)) == SERVING


# ---------------------------------------------------------------- health


async def test_health_speaks_for_the_server_and_its_service() -> None:
    async with listening() as address, wire_client(address) as client:
        assert await health(client) == SERVING
        assert await health(client, SERVICE) == SERVING
        request = health_pb2.HealthCheckRequest(service="nobody")
        assert (await client.refusal("/grpc.health.v1.Health/Check", request))[0] == "NOT_FOUND"


async def test_health_says_what_the_program_says() -> None:
    problems: list[str] = []
    listening_then = listening(ready=lambda: next(iter(problems), None))
    async with listening_then as address, wire_client(address) as client, asyncio.timeout(HANG_S):
        stream = watch(client, SERVICE)
        assert (await anext(aiter(stream))).status == SERVING
        problems.append("the store fails")
        assert await health(client) == NOT_SERVING
        assert (await anext(aiter(stream))).status == NOT_SERVING


async def test_whoever_watches_is_told_of_the_stop_and_let_go() -> None:
    listener = listener_of()
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        watches = {service: watch(client, service) for service in ("", SERVICE, "nobody")}
        first = {service: (await anext(aiter(stream))).status for service, stream in watches.items()}
        assert first == {"": SERVING, SERVICE: SERVING, "nobody": SERVICE_UNKNOWN}
        stop = asyncio.create_task(listener.stop(grace_s=2 * HANG_S))
        last = {service: (await anext(aiter(watches[service]))).status for service in ("", SERVICE)}
        assert last == {"": NOT_SERVING, SERVICE: NOT_SERVING}
        assert {await code_of(stream) for stream in watches.values()} == {"UNAVAILABLE"}
        await stop


# ---------------------------------------------------------------- reflection

Question = reflection_pb2.ServerReflectionRequest


async def answers(client: WireClient, *questions: Question) -> list[reflection_pb2.ServerReflectionResponse]:
    return [answer async for answer in reflection(client, *questions)]


async def test_reflection_lists_what_is_served_and_nothing_else() -> None:
    listener = listener_of()
    served = {path.split("/")[1] for path in listener.methods}
    await listener.start()
    async with wire_client(str(listener.address)) as client:
        (answer,) = await answers(client, Question(list_services=""))
    await listener.stop(grace_s=0)
    assert [service.name for service in answer.list_services_response.service] == sorted(served)


async def test_reflection_describes_every_method_that_is_served() -> None:
    listener = listener_of()
    await listener.start()
    described = set()
    async with wire_client(str(listener.address)) as client:
        for service in {path.split("/")[1] for path in listener.methods}:
            (answer,) = await answers(client, Question(file_containing_symbol=service))
            for content in answer.file_descriptor_response.file_descriptor_proto:
                file = descriptor_pb2.FileDescriptorProto.FromString(content)
                for found in file.service:
                    described |= {f"/{file.package}.{found.name}/{method.name}" for method in found.method}
    await listener.stop(grace_s=0)
    assert described >= listener.methods
    # The one that is described and not served: a listing of health that few servers have.
    assert described - listener.methods <= {"/grpc.health.v1.Health/List"}


def test_reflection_knows_the_files_that_a_service_needs() -> None:
    needs = {"base": [], "left": ["base"], "right": ["base"], "top": ["left", "right"]}
    for name, needed in needs.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"vmafx_test/{name}.proto", package=f"vmafx_test.{name}"
        )
        file.dependency.extend(f"vmafx_test/{other}.proto" for other in needed)
        if name == "top":
            file.service.add(name="Service")
        descriptor_pool.Default().Add(file)
    pool = reflection_module._pool_of(["vmafx_test.top.Service"])
    for name in needs:
        assert pool.FindFileByName(f"vmafx_test/{name}.proto").package == f"vmafx_test.{name}"


async def test_reflection_tells_nothing_of_what_is_merely_loaded() -> None:
    async with listening() as address, wire_client(address) as client:
        loaded = Question(file_containing_symbol="google.protobuf.FileDescriptorProto")
        by_name = Question(file_by_filename="google/protobuf/descriptor.proto")
        for answer in await answers(client, loaded, by_name, Question()):
            assert answer.HasField("error_response")
        assert await code_of(reflection(client, b"\xff")) == "INVALID_ARGUMENT"


async def test_a_question_that_never_comes_holds_no_stop() -> None:
    listener = listener_of()
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        stream = client.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )()
        await stream.write(Question(list_services="").SerializeToString())
        await stream.read()
        await listener.stop(grace_s=2 * HANG_S)
        assert await stream.code() is grpc.StatusCode.UNAVAILABLE
        assert await stream.details() == "the controller is stopping"


# ---------------------------------------------------------------- stopping


async def test_a_stop_ends_pulls_at_once_and_lets_other_calls_finish() -> None:
    waiting = FakeController(SystemClock(), pull_wait_s=2 * HANG_S)
    work = asyncio.Event()
    begun = asyncio.Event()
    jobs = JobsDouble()

    async def slow(_job_id, *, timeout_s):
        begun.set()
        await work.wait()
        return jobs.cancelled

    jobs.cancel = slow
    listener = listener_of(waiting, jobs)
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        pull = client.pull(await client.session(), timeout_s=2 * HANG_S)
        cancel = client.cancel("job-1")
        await begun.wait()
        while not waiting.wire.received[1:]:
            await asyncio.sleep(0)
        stop = asyncio.create_task(listener.stop(grace_s=2 * HANG_S))
        assert not (await pull).HasField("job")
        assert not stop.done()
        work.set()
        assert (await cancel).ok
        await stop
        assert (await client.refusal("GetJob", b""))[0] == "UNAVAILABLE"


@pytest.mark.parametrize("grace_s", [0.0, -1.0, 0.1])
async def test_what_outlasts_the_grace_is_cut_off(grace_s: float) -> None:
    work = Endless()
    desk = DeskDouble(work)
    listener = listener_of(desk)
    await listener.start()
    async with wire_client(str(listener.address)) as client, asyncio.timeout(HANG_S):
        call = client.heartbeat({})
        await work.begun.wait()
        await listener.stop(grace_s=grace_s)
        await work.cancelled.wait()
        assert (await refusal(call))[0] in {"UNAVAILABLE", "CANCELLED"}


async def test_a_stop_may_come_early_and_twice() -> None:
    never = listener_of()
    await never.stop(grace_s=1)
    listener = listener_of(address=FREE)
    await listener.start()
    await asyncio.gather(listener.stop(grace_s=1), listener.stop(grace_s=1))
    await listener.stop(grace_s=1)
