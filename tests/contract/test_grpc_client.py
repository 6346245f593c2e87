"""GrpcController against peers that answer raw bytes, wrong codes or nothing (ADR 0017)."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from tests.grpc_peers import (
    LOOPBACK,
    REGISTERED,
    Answer,
    Context,
    listener,
    peer,
    registered,
    reset,
    unused_address,
)
from vmafx.adapters.auth.bearer import InlineToken, NoToken, TokenFile
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.channel import MESSAGE_BYTES_MAX, ChannelLimits
from vmafx.adapters.grpc.client import PLAINTEXT_WARNING, GrpcController, open_controller
from vmafx.adapters.processes.waiting import in_thread
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobId, JobResult, NodeName, SessionId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Report
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.scoring import Backend
from vmafx.domain.session_state import Session
from vmafx.ports.controller import NodeIdentity, Registration
from vmafx.ports.telemetry import Level
from vmafx.ports.tokens import TokenSource

HANG_GUARD_S = 30.0
IDENTITY = NodeIdentity(name=NodeName("node-a"), instance=InstanceId("process-1"))
CPU = Capability(backends=frozenset({Backend.CPU}), gpu_vendor="cpu", concurrency=1)
SESSION = Session(generation=1, node_id=SessionId("node"), session_token="token")
IDLE = Heartbeat(jobs_running=0)
SUCCESS = Report(content=JobResult(score=91.25, features={"vmaf": 91.25}))
LIMITS = ChannelLimits()

Calling = Callable[[GrpcController], Coroutine[Any, Any, object]]
CALLS: tuple[Calling, ...] = (
    lambda controller: controller.register(IDENTITY, CPU, timeout_s=HANG_GUARD_S),
    lambda controller: controller.heartbeat(SESSION, IDLE, timeout_s=HANG_GUARD_S),
    lambda controller: controller.pull(SESSION, CPU, timeout_s=HANG_GUARD_S),
    lambda controller: controller.report(SESSION, JobId("job"), SUCCESS, timeout_s=HANG_GUARD_S),
)
every_call = pytest.mark.parametrize("call", CALLS, ids=["register", "heartbeat", "pull", "report"])


@asynccontextmanager
async def connected(
    address: HostPort,
    tokens: TokenSource | None = None,
    telemetry: RecordingTelemetry | None = None,
    limits: ChannelLimits = LIMITS,
) -> AsyncGenerator[GrpcController, None]:
    opened = open_controller(
        address,
        tls=None,
        tokens=tokens or NoToken(),
        clock=SystemClock(),
        telemetry=telemetry or RecordingTelemetry(),
        limits=limits,
    )
    async with opened as controller:
        yield controller


async def register(controller: GrpcController, timeout_s: float = HANG_GUARD_S) -> Registration:
    return await controller.register(IDENTITY, CPU, timeout_s=timeout_s)


async def failure_of(call: Coroutine[Any, Any, object]) -> ControllerError:
    with pytest.raises(ControllerError) as failure:
        await call
    return failure.value


class Hanging:
    """Answers nothing, and knows when it was asked and when it was given up."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.given_up = asyncio.Event()
        self.time_left_s: float | None = None

    async def __call__(self, request: bytes, context: Context) -> bytes:
        self.time_left_s = context.time_remaining()
        self.asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        raise AssertionError


def answering(content: bytes) -> Answer:
    async def answer(request: bytes, context: Context) -> bytes:
        return content

    return answer


def refusing(code: grpc.StatusCode, details: str) -> Answer:
    async def answer(request: bytes, context: Context) -> bytes:
        await context.abort(code, details)
        raise AssertionError

    return answer


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_every_status_code_is_an_error_with_that_code(code: grpc.StatusCode) -> None:
    async with peer(refusing(code, "because of that")) as address, connected(address) as controller:
        failure = await failure_of(register(controller))
    peer_cancels = code is grpc.StatusCode.CANCELLED
    expected = StatusCode.UNAVAILABLE if peer_cancels else StatusCode[code.name]
    assert failure.code == expected.value
    assert failure.retryable == controller_error(expected, "").retryable
    assert failure.message.endswith("because of that")


@pytest.mark.parametrize("number", [17, 99, -1])
async def test_number_that_is_no_code_is_unknown(number: int) -> None:
    async def answer(request: bytes, context: Context) -> bytes:
        context.set_code(number)
        context.set_details("odd")
        return b""

    async with peer(answer) as address, connected(address) as controller:
        assert (await failure_of(register(controller))).code == "UNKNOWN"


@every_call
@pytest.mark.parametrize("content", [b"\xff", b"\x0a\x05no", b"\x0a" * 3, b"\x0a" + b"\xff" * 10])
async def test_answer_that_cannot_be_read_is_internal(call: Calling, content: bytes) -> None:
    async with peer(answering(content)) as address, connected(address) as controller:
        failure = await failure_of(call(controller))
    assert (failure.code, failure.retryable) == ("INTERNAL", True)


async def test_report_that_is_not_taken_is_a_failed_precondition() -> None:
    async with peer(answering(b"")) as address, connected(address) as controller:
        failure = await failure_of(controller.report(SESSION, JobId("job"), SUCCESS, timeout_s=HANG_GUARD_S))
    assert (failure.code, failure.retryable) == ("FAILED_PRECONDITION", False)


async def test_empty_answers_are_handed_on_as_they_came() -> None:
    async with peer(answering(b"")) as address, connected(address) as controller:
        assert await register(controller) == Registration(node_id=SessionId(""), session_token="")
        assert not (await controller.heartbeat(SESSION, IDLE, timeout_s=HANG_GUARD_S)).ok
        assert await controller.pull(SESSION, CPU, timeout_s=HANG_GUARD_S) is None


async def test_texts_of_a_peer_are_bounded_and_one_line() -> None:
    details = "line one\nline two\x1b[31m" + "x" * 5000
    async with peer(refusing(grpc.StatusCode.INTERNAL, details)) as address, connected(address) as controller:
        message = (await failure_of(register(controller))).message
    assert message.isprintable()
    assert message.startswith("line one\\n")
    assert len(message.encode()) <= 4096


async def test_answer_that_is_too_large_is_refused_and_the_next_call_goes_on() -> None:
    contents = iter([b"x" * (MESSAGE_BYTES_MAX + 1), REGISTERED])

    async def answer(request: bytes, context: Context) -> bytes:
        return next(contents)

    async with peer(answer) as address, connected(address) as controller:
        assert (await failure_of(register(controller))).code == "RESOURCE_EXHAUSTED"
        assert (await register(controller)).node_id == "node"


async def test_request_that_is_too_large_is_not_sent() -> None:
    asked: list[bytes] = []

    async def answer(request: bytes, context: Context) -> bytes:
        asked.append(request)
        return b""

    limits = replace(LIMITS, send_bytes_max=100)
    async with peer(answer) as address, connected(address, limits=limits) as controller:
        huge = NodeIdentity(name=NodeName("n" * 200))
        failure = await failure_of(controller.register(huge, CPU, timeout_s=HANG_GUARD_S))
    assert failure.code == "RESOURCE_EXHAUSTED"
    assert asked == []


@every_call
async def test_peer_that_nobody_is_at_is_unavailable_at_once(call: Calling) -> None:
    async with connected(unused_address()) as controller:
        failure = await failure_of(call(controller))
    assert (failure.code, failure.retryable) == ("UNAVAILABLE", True)
    assert failure.message.endswith("check VMAFX_CONTROLLER_ADDR, and whether the controller runs")


async def test_peer_that_speaks_tls_is_unavailable_and_tls_is_hinted_at() -> None:
    certificate = trustme.CA().issue_cert(LOOPBACK)
    async with peer(certificate=certificate) as address, connected(address) as controller:
        failure = await failure_of(register(controller))
    assert failure.code == "UNAVAILABLE"
    assert failure.message.startswith("failed to connect to all addresses")
    assert failure.message.endswith("; if the controller speaks TLS, set VMAFX_CONTROLLER_TLS")


async def test_peer_that_resets_is_unavailable_and_nothing_is_guessed() -> None:
    async with listener(reset) as address, connected(address) as controller:
        failure = await failure_of(register(controller))
    assert failure.code == "UNAVAILABLE"
    assert "reset" in failure.message
    assert "TLS" not in failure.message


async def test_header_that_cannot_be_sent_fails_the_call_alone() -> None:
    odd = NodeIdentity(name=NodeName("node"), instance=InstanceId("a\nb"))
    async with peer() as address, connected(address) as controller:
        await failure_of(controller.register(odd, CPU, timeout_s=HANG_GUARD_S))
        assert (await register(controller)).node_id == "node"


async def test_nothing_is_tried_twice() -> None:
    asked = 0

    async def answer(request: bytes, context: Context) -> bytes:
        nonlocal asked
        asked += 1
        await context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        raise AssertionError

    async with peer(answer) as address, connected(address) as controller:
        await failure_of(register(controller))
    assert asked == 1


# ---------------------------------------------------------------- time


async def test_deadline_ends_a_call_and_is_told_to_the_peer() -> None:
    hanging = Hanging()
    async with peer(hanging) as address, connected(address) as controller:
        failure = await failure_of(register(controller, timeout_s=0.5))
        assert failure.code == "DEADLINE_EXCEEDED"
        async with asyncio.timeout(HANG_GUARD_S):
            await hanging.given_up.wait()
    assert hanging.time_left_s is not None
    assert 0 < hanging.time_left_s < 0.75  # it travels with three digits or so, rounded up


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_deadline_that_has_passed_sends_nothing(timeout_s: float) -> None:
    hanging = Hanging()
    async with peer(hanging) as address, connected(address) as controller:
        assert (await failure_of(register(controller, timeout_s=timeout_s))).code == "DEADLINE_EXCEEDED"
        assert not hanging.asked.is_set()


async def test_peer_that_accepts_and_says_nothing_ends_with_the_deadline() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listener(silent) as address, connected(address) as controller:
        assert (await failure_of(register(controller, timeout_s=0.3))).code == "DEADLINE_EXCEEDED"


async def test_token_that_is_slow_to_come_counts_against_the_deadline(clock: VirtualClock) -> None:
    class Slow:
        async def token(self) -> str | None:
            await clock.sleep(11)
            return "secret"

    hanging = Hanging()
    async with peer(hanging) as address:
        opened = open_controller(
            address, tls=None, tokens=Slow(), clock=clock, telemetry=RecordingTelemetry()
        )
        async with opened as controller:
            calling = asyncio.create_task(register(controller, timeout_s=10))
            await clock.advance(10)
            assert (await failure_of(asyncio.wait_for(calling, HANG_GUARD_S))).code == "DEADLINE_EXCEEDED"
    assert not hanging.asked.is_set()


async def test_cancelled_call_is_cancelled_on_the_wire() -> None:
    hanging = Hanging()
    async with peer(hanging) as address, connected(address) as controller:
        calling = asyncio.create_task(register(controller))
        await hanging.asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        async with asyncio.timeout(HANG_GUARD_S):
            await hanging.given_up.wait()


async def test_closing_fails_calls_under_way_and_later_ones() -> None:
    hanging = Hanging()
    async with peer(hanging) as address:
        async with connected(address) as controller:
            calling = asyncio.create_task(register(controller))
            await hanging.asked.wait()
        for failure in (
            await failure_of(asyncio.wait_for(calling, HANG_GUARD_S)),
            await failure_of(register(controller)),
        ):
            assert failure.code == "CANCELLED"
            assert "closed" in failure.message
        await controller.close()


async def test_cancelled_call_stays_cancelled_while_closing() -> None:
    hanging = Hanging()
    async with peer(hanging) as address, connected(address) as controller:
        calling = asyncio.create_task(register(controller))
        await hanging.asked.wait()
        calling.cancel()
        await controller.close()
        with pytest.raises(asyncio.CancelledError):
            await calling


# ---------------------------------------------------------------- connections


BLACK_HOLE = """
import asyncio, os, subprocess
from vmafx.adapters.grpc.environment import quieten
quieten(os.environ)
from dataclasses import replace
from tests.contract.test_grpc_client import LIMITS, connected, failure_of, peer, register
async def main():
    limits = replace(LIMITS, ping_after_s=3600, ping_timeout_s=1)  # so that no ping finds out
    async with peer() as address, connected(address, limits=limits) as controller:
        await register(controller)
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        print((await failure_of(register(controller, timeout_s=10))).code)  # grpc's own limit is 20 s
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
asyncio.run(main())
"""
NETWORK_OF_ITS_OWN = ("unshare", "--net", "--map-root-user", "--")


def has_networks() -> bool:
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    probe = [*NETWORK_OF_ITS_OWN, "ip", "link", "set", "lo", "up"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def test_a_network_that_swallows_everything_ends_a_call_long_before_its_deadline() -> None:
    if not has_networks():
        pytest.skip("no network namespaces here (unshare, ip)")
    script = 'ip link set lo up && exec "$@"'
    program = (sys.executable, "-W", "error", "-c", BLACK_HOLE)
    ended = subprocess.run(
        [*NETWORK_OF_ITS_OWN, "sh", "-c", script, "sh", *program],
        capture_output=True,
        text=True,
        timeout=2 * HANG_GUARD_S,
        check=False,
    )
    # by its deadline, the call would fail as DEADLINE_EXCEEDED
    assert (ended.stdout, ended.stderr, ended.returncode) == ("UNAVAILABLE\n", "", 0)


async def test_controller_that_comes_back_is_found_again() -> None:
    limits = replace(LIMITS, reconnect_base_s=0.05, reconnect_cap_s=0.05)
    async with peer() as address, connected(address, limits=limits) as controller:
        assert await register(controller)
    async with connected(address, limits=limits) as controller:
        assert (await failure_of(register(controller))).code == "UNAVAILABLE"
        async with peer(port=address.port), asyncio.timeout(HANG_GUARD_S):
            while True:
                with suppress(ControllerError):
                    assert await register(controller)
                    return
                await asyncio.sleep(0.02)  # as a node would, between its tries


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"])
async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    met: list[None] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(None)
        await reader.read()

    async with listener(swallow) as proxy, peer() as address:
        monkeypatch.setenv(variable, f"http://{proxy}")
        async with connected(address) as controller:
            assert await register(controller)
    assert met == []


PINGING = replace(LIMITS, ping_after_s=0.1)


async def test_long_silent_call_is_not_answered_with_too_many_pings() -> None:
    async def slow(request: bytes, context: Context) -> bytes:
        await asyncio.sleep(5.5)
        return REGISTERED

    # Pings that nothing limits come once a second at most, and the fifth ends the connection.
    async with peer(slow) as address, connected(address, limits=PINGING) as controller:
        assert await register(controller)


async def test_pings_notice_a_peer_that_went_silent() -> None:
    """The peer's kernel acknowledges, the peer itself does not: what a stopped process looks like."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(address.host_port.host, address.port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                if not hanging.asked.is_set():
                    sink.write(data)

        try:
            await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer), return_exceptions=True)
        finally:
            up_writer.transport.abort()

    hanging = Hanging()
    limits = replace(PINGING, ping_timeout_s=0.2)
    async with (
        peer(hanging) as address,
        listener(relay) as relayed,
        connected(relayed, limits=limits) as controller,
    ):
        failure = await failure_of(register(controller))
    assert failure.code == "UNAVAILABLE"


def test_usual_limits_are_what_a_stock_server_accepts() -> None:
    assert LIMITS.ping_after_s >= 30
    assert LIMITS.reconnect_cap_s <= 10
    assert LIMITS.receive_bytes_max == LIMITS.send_bytes_max == 4 * 1024 * 1024


# ---------------------------------------------------------------- tokens


class Door:
    """Answers every call, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str | None] = []

    async def __call__(self, request: bytes, context: Context) -> bytes:
        metadata = dict(context.invocation_metadata() or ())
        value = metadata.get("authorization")
        self.shown.append(value if value is None else str(value))
        return REGISTERED


async def test_token_is_read_for_every_call(tmp_path: Path) -> None:
    door = Door()
    path = tmp_path / "token"
    async with (
        peer(door) as address,
        connected(address, TokenFile(path, SystemClock(), in_thread)) as controller,
    ):
        for token in ("one", "two"):
            path.write_text(token)
            await register(controller)
        path.write_text("")
        failure = await failure_of(register(controller))
    assert door.shown == ["Bearer one", "Bearer two"]
    assert (failure.code, failure.retryable) == ("UNAUTHENTICATED", True)
    assert failure.message == f"controller token file {path} is empty"


async def test_no_token_shows_none_and_warns_of_nothing() -> None:
    door, telemetry = Door(), RecordingTelemetry()
    async with peer(door) as address, connected(address, telemetry=telemetry) as controller:
        await register(controller)
    assert door.shown == [None]
    assert list(telemetry.events) == []


async def test_token_in_plaintext_is_warned_of_once() -> None:
    telemetry = RecordingTelemetry()
    tokens = InlineToken("secret", SystemClock())
    async with peer() as address, connected(address, tokens, telemetry) as controller:
        for _ in range(3):
            await register(controller)
    [event] = telemetry.events
    assert (event.level, event.message) == (Level.WARN, PLAINTEXT_WARNING)
    assert event.fields == {"controller": str(address)}


async def test_token_that_a_peer_repeats_is_not_told() -> None:
    async def repeat(request: bytes, context: Context) -> bytes:
        shown = dict(context.invocation_metadata() or ())["authorization"]
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"what is {shown!s}?")
        raise AssertionError

    tokens = InlineToken("secret-token", SystemClock())
    async with peer(repeat) as address, connected(address, tokens) as controller:
        failure = await failure_of(register(controller))
        assert "secret-token" not in repr(controller)
    assert failure.message == "what is Bearer [token]?"
    assert "secret-token" not in f"{failure!r} {failure.__cause__!r}"


async def test_registered_is_what_the_peer_said() -> None:
    async with peer(registered) as address, connected(address) as controller:
        answer = await register(controller)
    assert answer == Registration(node_id=SessionId("node"), session_token="token")
