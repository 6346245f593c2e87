"""HttpListener holds what Listener promises, and serves its routes (ADR 0027)."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from tests.contract.http_harness import (
    GET,
    HANG_S,
    HERE,
    PAGE,
    POST,
    Client,
    World,
    connected,
    request,
    serving,
    until,
)
from vmafx.adapters.http.listener import REQUEST_FAILED, HttpListener
from vmafx.domain.address import HostPort
from vmafx.domain.errors import ConfigurationError
from vmafx.ports.metrics import HEALTH_REQUESTS, READY_REQUESTS, MetricsPage
from vmafx.ports.telemetry import Level


@pytest.fixture
async def world(clock) -> World:
    return World(clock)


@pytest.fixture
async def listener(world) -> AsyncIterator[HttpListener]:
    async with serving(world) as listener:
        yield listener


@pytest.fixture
async def client(listener) -> AsyncIterator[Client]:
    async with connected(listener) as client:
        yield client


# ---------------------------------------------------------------- routes


async def test_a_process_that_answers_is_well(client):
    answer = await client.asked(request("/healthz"))
    assert (answer.status, answer.body) == (200, b'{"status":"ok"}')
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


async def test_readiness_is_asked_for_anew_each_time(client, world):
    answers = []
    for world.unready in (None, "scorer not initialised", None):
        answer = await client.asked(request("/readyz"))
        answers.append((answer.status, answer.body))
    assert answers == [
        (200, b'{"status":"ready"}'),
        (503, b'{"status":"not ready","reason":"scorer not initialised"}'),
        (200, b'{"status":"ready"}'),
    ]


async def test_metrics_are_given_as_they_are(client):
    answer = await client.asked(request("/metrics"))
    assert (answer.status, answer.body) == (200, PAGE.content)
    assert answer.headers["content-type"] == PAGE.content_type


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_probes_take_get_and_nothing_else(client, world, path, method):
    await client.send(request(path, method))
    answer = await client.answer(body=method != "HEAD")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert answer.headers["content-type"].startswith("text/plain")
    assert world.telemetry.value(HEALTH_REQUESTS) is world.telemetry.value(READY_REQUESTS) is None
    assert await client.is_open()


@pytest.mark.parametrize(
    "path", ["/", "/healthz/", "/Healthz", "/healthz%20", "//healthz", "/../metrics", "/v1/score"]
)
async def test_there_is_nothing_elsewhere(client, path):
    answer = await client.asked(request(path))
    assert (answer.status, answer.json) == (404, {"error": "not found"})
    assert await client.is_open()


async def test_a_query_does_not_matter(client):
    assert (await client.asked(request("/healthz?verbose=1"))).status == 200


async def test_probes_are_counted(client, world):
    for path in ("/healthz", "/healthz", "/readyz", "/metrics", "/nowhere"):
        await client.asked(request(path))
    world.unready = "no"
    await client.asked(request("/readyz"))
    assert world.telemetry.value(HEALTH_REQUESTS) == 2
    assert world.telemetry.value(READY_REQUESTS) == 2


async def test_further_routes_are_served(client):
    answer = await client.asked(POST + b"Content-Length: 5\r\n\r\nhello")
    assert (answer.status, answer.body) == (200, b"5")


async def test_a_route_may_stream_its_answer(client, world):
    await client.send(request("/stream"))
    answer = await client.answer(body=False)
    assert (answer.headers["transfer-encoding"], answer.headers["server"]) == ("chunked", "vmafx")
    world.go.set()
    async with asyncio.timeout(HANG_S):
        body = await client.reader.readuntil(b"0\r\n\r\n")
    assert body == b"5\r\nbegun\r\n4\r\ndone\r\n0\r\n\r\n"
    assert await client.is_open()


async def test_an_answer_that_fails_half_way_is_broken_off_and_not_mended(client, world):
    await client.send(request("/stream?fail=1"))
    assert (await client.answer(body=False)).status == 200
    world.go.set()
    assert await client.ended() == b"5\r\nbegun\r\n"
    assert (Level.ERROR, REQUEST_FAILED) in world.said


@pytest.mark.parametrize(
    "error", [RuntimeError("a secret"), TimeoutError("a secret"), ConnectionError("a secret")]
)
async def test_metrics_that_fail_are_answered_without_details_and_logged(client, world, error):
    def failing() -> MetricsPage:
        raise error

    world.metrics = failing
    answer = await client.asked(request("/metrics"))
    assert (answer.status, answer.json) == (500, {"error": "internal server error"})
    (event,) = world.telemetry.events
    assert (event.level, event.message, event.error) == (Level.ERROR, REQUEST_FAILED, error)
    assert event.fields == {"method": "GET", "path": "/metrics"}
    world.metrics = lambda: PAGE
    assert (await client.asked(request("/metrics"))).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (GET, 200),
        (request("/fail"), 500),
        (request("/nowhere"), 404),
        (request("/healthz", "POST"), 405),
        (request("/echo", "POST", "Content-Length: 9999"), 413),
        (request("/healthz", "GET", "Expect: miracles"), 417),
        (request("/healthz", "GET", "A: " + "a" * 3000), 431),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_no_answer_says_what_we_are_made_with(client, data, status):
    answer = await client.asked(data)
    assert (answer.status, answer.headers["server"]) == (status, "vmafx")
    told = (str(answer.headers) + answer.body.decode()).lower()
    assert not any(word in told for word in ("aiohttp", "python", "secret"))


# ---------------------------------------------------------------- start and stop


async def test_the_address_tells_the_port_that_was_bound(world):
    listener = world.listener()
    assert listener.address == HERE
    await listener.start()
    assert listener.address.host == "127.0.0.1"
    assert listener.address.port > 0
    await listener.stop(grace_s=0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_without_a_host_it_listens_on_every_address(world, host):
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    address = HostPort(host="", port=0)
    async with serving(world, address=address) as listener, connected(listener, host) as client:
        assert await client.is_open()


async def test_a_name_stands_for_its_addresses(world):
    address = HostPort(host="localhost", port=0)
    async with serving(world, address=address) as listener, connected(listener, "localhost") as client:
        assert await client.is_open()


@pytest.mark.parametrize("taken", ["127.0.0.1", ""])
async def test_a_port_in_use_is_refused_by_setting_and_address(world, taken):
    with socket.create_server((taken, 0)) as other:
        address = HostPort(host=taken, port=other.getsockname()[1])
        listener = world.listener(address=address)
        with pytest.raises(ConfigurationError) as caught:
            await listener.start()
        assert (caught.value.setting, caught.value.value) == ("VMAFX_HTTP_ADDR", str(address))
        assert "is in use" in caught.value.problem
        await listener.stop(grace_s=0)
    assert len(asyncio.all_tasks()) == 1
    async with serving(world, address=address) as again:  # nothing was left open
        assert again.address == address


async def test_an_address_that_is_not_ours_is_refused(world):
    listener = world.listener(address=HostPort(host="203.0.113.77", port=0), setting="OTHER_ADDR")
    with pytest.raises(ConfigurationError, match="no address of this machine") as caught:
        await listener.start()
    assert (caught.value.setting, caught.value.value) == ("OTHER_ADDR", "203.0.113.77:0")


@pytest.fixture
def named(world, monkeypatch):
    """A listener at a host whose addresses are these, or which has none."""

    def make(*hosts: str, port: int = 0) -> HttpListener:
        async def getaddrinfo(*_, **__):
            if not hosts:
                raise socket.gaierror(socket.EAI_NONAME, "unknown")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
        return world.listener(address=HostPort(host="some.name", port=port))

    return make


async def test_a_name_that_leads_nowhere_is_refused(named):
    with pytest.raises(ConfigurationError, match="leads to no address"):
        await named().start()


async def test_addresses_of_a_name_that_are_not_here_are_left_out(named):
    listener = named("203.0.113.77", "127.0.0.1", "127.0.0.1")
    await listener.start()
    assert listener.address.port > 0
    await listener.stop(grace_s=0)


async def test_a_name_of_which_no_address_is_here_is_refused(named):
    with pytest.raises(ConfigurationError, match="no address of this machine"):
        await named("203.0.113.77", "198.51.100.77").start()


@pytest.mark.skipif(sys.platform != "linux", reason="one loopback address only")
async def test_a_name_of_which_one_address_is_taken_is_refused_and_the_other_let_go(named):
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match="in use"):
            await named("127.0.0.1", "127.0.0.2", port=port).start()
        socket.create_server(("127.0.0.1", port)).close()


async def test_a_lack_of_descriptors_is_told_once_a_try_and_not_for_each_place_in_the_queue(
    listener, monkeypatch
):
    def refuse(_socket):
        raise OSError(errno.EMFILE, "Too many open files")

    told, loop = [], asyncio.get_running_loop()
    some = asyncio.Event()

    def note(_loop, context):
        told.append(context["message"])
        some.set()

    loop.set_exception_handler(note)
    with monkeypatch.context() as patch, socket.socket() as client:
        patch.setattr(socket.socket, "accept", refuse)
        client.connect((listener.address.host, listener.address.port))
        async with asyncio.timeout(HANG_S):
            await some.wait()
        assert told == ["socket.accept() out of system resource"]


async def test_connections_wait_in_the_systems_queue_while_the_loop_is_busy(listener):
    with ExitStack() as stack:
        where = (listener.address.host, listener.address.port)
        for _ in range(100):  # nothing of the loop runs meanwhile
            stack.enter_context(socket.create_connection(where, timeout=HANG_S))


async def test_stopping_lets_a_request_in_flight_end_and_takes_no_new_one(listener, client, world):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    stopping = asyncio.create_task(listener.stop(grace_s=30))
    await world.clock.advance(29)
    with pytest.raises(ConnectionError):
        async with connected(listener):
            pass
    assert not stopping.done()
    world.go.set()
    answer = await client.answer()
    assert (answer.body, answer.headers["connection"]) == (b"done", "close")
    assert await client.ended() == b""
    async with asyncio.timeout(HANG_S):
        await stopping
    assert world.ended == []


async def test_a_request_that_had_arrived_before_the_stop_is_answered(listener, client):
    assert await client.is_open()
    await client.send(GET)
    async with asyncio.timeout(HANG_S):
        await listener.stop(grace_s=30)
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert await client.ended() == b""


async def test_a_body_in_flight_may_still_arrive_when_stopping(listener, client, world):
    await client.send(POST + b"Content-Length: 10\r\n\r\nhalf")
    await until(lambda: world.begun)
    stopping = asyncio.create_task(listener.stop(grace_s=30))
    await world.clock.advance(1)
    assert (await client.asked(b"x" * 6)).body == b"10"
    async with asyncio.timeout(HANG_S):
        await stopping


@pytest.mark.parametrize("grace_s", [30.0, 0.0, -1.0])
async def test_a_request_in_flight_is_cut_off_after_the_grace(listener, client, world, grace_s):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    stopping = asyncio.create_task(listener.stop(grace_s=grace_s))
    await world.clock.advance(max(grace_s, 0.0))
    async with asyncio.timeout(HANG_S):
        await stopping
    assert world.ended == ["cancelled"]
    assert await client.ended() == b""


async def test_connections_without_a_request_are_closed_at_once(listener, client, world):
    async with connected(listener) as half, connected(listener) as silent:
        assert await client.is_open()
        await half.send(GET[:20])
        await until(lambda: world.clock.sleepers)
        async with asyncio.timeout(HANG_S):
            await listener.stop(grace_s=1000)  # and no virtual time passes
        assert [await one.ended() for one in (client, half, silent)] == [b"", b"", b""]


async def test_a_second_stop_may_be_less_patient(listener, client, world):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    patient = asyncio.create_task(listener.stop(grace_s=1000))
    await world.clock.settle()
    async with asyncio.timeout(HANG_S):
        await listener.stop(grace_s=0)
        await patient
    assert world.ended == ["cancelled"]


async def test_a_stop_that_is_cancelled_has_cut_off_and_can_be_repeated(listener, client, world):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    stopping = asyncio.create_task(listener.stop(grace_s=1000))
    await world.clock.settle()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await client.ended() == b""
    await listener.stop(grace_s=0)
    assert world.ended == ["cancelled"]


async def test_stopping_before_the_start_and_twice_does_no_harm(world):
    listener = world.listener()
    await listener.stop(grace_s=1)
    await listener.start()
    await listener.stop(grace_s=1)
    await listener.stop(grace_s=1)


def test_programs_without_a_listener_load_none_of_it():
    code = (
        "import sys, vmafx, vmafx.app.cli.node, vmafx.app.cli.score, vmafx.app.container.node,"
        " vmafx.app.container.score, vmafx.app.node.node\n"
        "print(sorted({'aiohttp', 'prometheus_client', 'http.server'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "[]\n"
