"""The gate over real gRPC: nothing is served that did not pass it, whoever serves it (ADR 0026)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from tests.grpc_clients import WireClient, wire_client
from tests.grpc_listening import DeskDouble, JobsDouble, KnownTokens, listener_of, listening
from vmafx.adapters.auth.disabled import EVERYONE, EveryoneVerifier
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.calls import Unary
from vmafx.adapters.grpc.gate import CALL_REFUSED, Gate
from vmafx.adapters.grpc.node_calls import NodeCalls
from vmafx.adapters.grpc.roles import CONTROLLER_ROLES
from vmafx.adapters.grpc.services import CALL_FAILED, Services
from vmafx.domain.callers import Principal, Role, RoleTable
from vmafx.domain.errors import TokenError
from vmafx.domain.job import TenantId
from vmafx.ports.telemetry import Level

HANG_S = 20.0
SERVED = sorted(CONTROLLER_ROLES)
STREAMS = {path for path in SERVED if path.endswith(("/StreamJobs", "/Watch", "/ServerReflectionInfo"))}
NO_TOKEN = ("UNAUTHENTICATED", "invalid or missing token")


def holder_of(*roles: Role) -> Principal:
    return Principal(tenant=TenantId("acme"), roles=frozenset(roles), subject="somebody")


TOKENS = {
    "reader": holder_of(Role.READER),
    "writer": holder_of(Role.WRITER),
    "admin": holder_of(Role.ADMIN),
    "node": holder_of(Role.NODE),
    "nothing": holder_of(),
    "reader-node": holder_of(Role.READER, Role.NODE),
    "no-tenant": Principal(tenant=TenantId(""), roles=frozenset(Role)),
    "suspended": TokenError("tenant acme is suspended since May", code="PERMISSION_DENIED"),
    "stale": TokenError("no refresh of https://secret since May", code="UNAVAILABLE"),
    "odd": TokenError("odd", code="DATA_LOSS"),
    "broken": RuntimeError("password=hunter2"),
}


@pytest.fixture
def verifier() -> KnownTokens:
    return KnownTokens(TOKENS)


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


@pytest.fixture
def desk() -> DeskDouble:
    return DeskDouble()


@pytest.fixture
async def client(
    desk: DeskDouble, verifier: KnownTokens, telemetry: RecordingTelemetry
) -> AsyncIterator[WireClient]:
    async with (
        listening(desk, JobsDouble(), verifier=verifier, telemetry=telemetry) as address,
        wire_client(address) as client,
    ):
        yield client


def bearing(token: str):
    return (("authorization", f"Bearer {token}"),)


async def ended(client: WireClient, path: str, token: str | None) -> tuple[str, str]:
    """How a call ends that sends one request no method can make sense of, whatever its kind."""
    metadata = () if token is None else bearing(token)
    if path in STREAMS:
        call = client.channel.stream_stream(path)(iter([b"\xff"]), metadata=metadata, timeout=HANG_S)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            async for _ in call:
                pass
        return error.value.code().name, error.value.details()
    return await client.refusal(path, b"\xff", metadata=metadata)


# ---------------------------------------------------------------- every method


async def each(client: WireClient, token: str | None) -> dict[str, tuple[str, str]]:
    return {path: await ended(client, path, token) for path in SERVED}


@pytest.mark.parametrize("token", [None, "unknown"])
async def test_no_method_is_reached_without_a_token(client: WireClient, token: str | None) -> None:
    assert await each(client, token) == dict.fromkeys(SERVED, NO_TOKEN)


@pytest.mark.parametrize("token", ["reader", "writer", "admin", "node", "nothing", "reader-node"])
async def test_a_method_is_reached_with_one_of_its_roles_and_with_no_other(
    client: WireClient, token: str
) -> None:
    expected = {}
    for path, admitted in CONTROLLER_ROLES.items():
        words = " | ".join(role.value for role in Role if role in admitted)
        expected[path] = ("INVALID_ARGUMENT", "the request cannot be read")
        if TOKENS[token].roles.isdisjoint(admitted):
            expected[path] = ("PERMISSION_DENIED", f"role required: {words}")
    answers = await each(client, token)
    said = {path: (code, words.partition(": it is no ")[0]) for path, (code, words) in answers.items()}
    assert said == expected


async def test_a_method_without_an_entry_is_refused_for_everyone() -> None:
    async with (
        listening(table=RoleTable({}), verifier=EveryoneVerifier()) as address,
        wire_client(address) as client,
    ):
        refusal = ("PERMISSION_DENIED", "no role may make this call")
        assert await each(client, None) == dict.fromkeys(SERVED, refusal)


async def test_a_method_that_nobody_serves_is_unimplemented(client: WireClient) -> None:
    for path in ("/vmafx.controller.v1.VmafxController/DropAll", "/vmafx.v1.VmafxScoring/Score", "/x"):
        assert (await client.refusal(path, b"", metadata=bearing("admin")))[0] == "UNIMPLEMENTED"


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "reader"),),
        (("authorization", "bearer reader"),),
        (("authorization", "Bearer"),),
        (("authorization", "Bearer  reader"),),
        (("authorization", "Basic reader"),),
        (("authorization", "Bearer reader reader"),),
        (("authorization", "Bearer reader"), ("authorization", "Bearer reader")),
        (("authorization", "Bearer reader"), ("authorization", "Bearer node")),
        (("authorization-bin", b"Bearer reader"),),
    ],
)
async def test_what_is_not_exactly_one_bearer_token_is_none(
    client: WireClient, verifier: KnownTokens, metadata
) -> None:
    assert await client.refusal("GetJob", b"\xff", metadata=metadata) == NO_TOKEN
    assert verifier.shown == [None]


async def test_the_verifier_is_shown_the_token_alone(client: WireClient, verifier: KnownTokens) -> None:
    token = "a" * 8000 + ".b-._~+/="
    assert await client.refusal("GetJob", b"", metadata=bearing(token)) == NO_TOKEN
    assert verifier.shown == [token]


@pytest.mark.parametrize(
    ("token", "refusal"),
    [
        ("suspended", ("PERMISSION_DENIED", "tenant is suspended")),
        ("stale", ("UNAVAILABLE", "tenant configuration is stale")),
        ("odd", NO_TOKEN),
        ("no-tenant", ("UNAUTHENTICATED", "tenant_id not found in token")),
        ("broken", ("INTERNAL", "internal error")),
    ],
)
async def test_a_refusal_tells_its_kind_and_nothing_else(
    client: WireClient, token: str, refusal: tuple[str, str]
) -> None:
    assert await ended(client, SERVED[0], token) == refusal


async def test_the_log_is_told_why(client: WireClient, telemetry: RecordingTelemetry) -> None:
    path = "/vmafx.controller.v1.VmafxController/GetJob"
    for token in ("stale", "node", "broken"):
        await client.refusal("GetJob", b"", metadata=bearing(token))
    stale, node, broken = telemetry.events
    assert (stale.level, stale.message, stale.fields) == (Level.WARN, CALL_REFUSED, {"call": path})
    assert stale.error is TOKENS["stale"]
    assert node.message == CALL_REFUSED
    assert node.fields == {"call": path, "tenant": "acme", "subject": "somebody"}
    assert str(node.error) == "role required: vmafx:reader | vmafx:writer | vmafx:admin"
    assert (broken.level, broken.message, broken.error) == (Level.ERROR, CALL_FAILED, TOKENS["broken"])


async def test_nobody_reads_a_token_where_nothing_is_verified(desk: DeskDouble) -> None:
    async with (
        listening(desk, JobsDouble(), verifier=EveryoneVerifier()) as address,
        wire_client(address, token="whatever") as client,
    ):
        assert (await client.submit("/a", "/b")).job_id == "job-1"
    assert await EveryoneVerifier().verify(None) == EVERYONE
    assert (EVERYONE.tenant, EVERYONE.subject) == ("dev", "dev")
    assert EVERYONE.roles == {Role.ADMIN, Role.NODE}


# ---------------------------------------------------------------- whose call it is


async def test_each_caller_gets_the_desk_and_the_jobs_of_its_own(verifier: KnownTokens) -> None:
    asked: list[Principal] = []

    class Part:
        def methods(self):
            async def work(call):
                asked.append(call.caller)
                return health_pb2.HealthCheckResponse()

            return {"/vmafx.controller.v1.VmafxController/GetJob": Unary(work)}

        def end_waits(self) -> None: ...

        async def drained(self) -> None: ...

    telemetry = RecordingTelemetry()
    gate = Gate(verifier, RoleTable(CONTROLLER_ROLES), telemetry)
    server = grpc.aio.server(handlers=(Services(gate, Part(), telemetry=telemetry),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with wire_client(f"127.0.0.1:{port}") as client:
        tokens = ["reader", "writer", "admin"] * 5
        await asyncio.gather(
            *(
                client.call("/vmafx.controller.v1.VmafxController/GetJob", metadata=bearing(token))
                for token in tokens
            )
        )
    await server.stop(None)
    assert sorted(asked, key=str) == sorted((TOKENS[token] for token in tokens), key=str)


def test_served_methods_and_entries_are_the_same() -> None:
    assert listener_of().methods == frozenset(RoleTable(CONTROLLER_ROLES))


def test_two_parts_with_one_method_are_refused(verifier: KnownTokens) -> None:
    telemetry = RecordingTelemetry()
    part = NodeCalls(lambda _caller: DeskDouble(), telemetry=telemetry)
    gate = Gate(verifier, RoleTable(CONTROLLER_ROLES), telemetry)
    with pytest.raises(
        ValueError, match=r"two parts serve /vmafx\.controller\.v1\.VmafxController/RegisterNode"
    ):
        Services(gate, part, part, telemetry=telemetry)
