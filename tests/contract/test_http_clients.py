"""HttpListener holds its limits against every kind of client (ADR 0027).

Time is moved by hand: nothing here waits for a real second to pass, but for the limit of idle connections,
which is aiohttp's own and is set to milliseconds.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace as changed

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.http_harness import (
    GET,
    HANG_S,
    LIMITS,
    PAGE,
    POST,
    Client,
    World,
    connected,
    request,
    serving,
    until,
)
from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.http import connection as connection_module
from vmafx.adapters.http.connection import REQUEST_UNREADABLE
from vmafx.adapters.http.listener import REQUEST_CUT_OFF, HttpListener
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


# ---------------------------------------------------------------- clients of all kinds


async def test_pipelined_requests_are_answered_in_order(client, world):
    world.unready = "no"
    await client.send(GET + request("/readyz") + request("/nowhere") + GET)
    assert [(await client.answer()).status for _ in range(4)] == [200, 503, 404, 200]


async def test_hundreds_of_pipelined_requests_are_all_answered(client):
    await client.send(GET * 300)
    assert {(await client.answer()).status for _ in range(300)} == {200}


async def test_pipelined_bodies_are_kept_apart(client):
    await client.send(b"".join(POST + b"Content-Length: %d\r\n\r\n" % n + b"x" * n for n in (3, 0, 4000, 1)))
    assert [(await client.answer()).body for _ in range(4)] == [b"3", b"0", b"4000", b"1"]


async def test_a_request_may_come_byte_by_byte(client):
    for byte in GET:
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer()).status == 200


async def test_http_1_0_gets_its_answer_and_the_end(client):
    await client.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    answer = await client.answer()
    assert (answer.version, answer.status) == ("HTTP/1.0", 200)
    assert await client.ended() == b""


async def test_an_upgrade_is_declined_by_serving_the_request(client):
    upgrade = request(
        "/healthz", "GET", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"
    )
    assert (await client.asked(upgrade)).status == 200
    assert await client.is_open()


async def test_a_client_may_ask_for_the_end(client):
    assert (await client.asked(request("/healthz", "GET", "Connection: close"))).headers[
        "connection"
    ] == "close"
    assert await client.ended() == b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00" * 64 + b"\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET  /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost here\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: here\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused_and_disturbs_nobody(listener, client, world, garbage):
    async with connected(listener) as odd:
        answer = await odd.asked(garbage)
        assert (answer.status, answer.json) == (400, {"error": "bad request"})
        assert await odd.ended() == b""
    assert await client.is_open()
    assert world.said == [(Level.DEBUG, REQUEST_UNREADABLE)]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=300))
def test_no_bytes_are_logged_as_a_fault_of_ours_or_stop_the_listener(data):
    async def run() -> None:
        world = World(VirtualClock())
        async with serving(world) as listener, connected(listener) as odd, connected(listener) as client:
            await odd.send(data + b"\r\n\r\n")
            assert await client.is_open()
            await world.clock.advance(LIMITS.header_s)
            await odd.ended()
        assert {level for level, _ in world.said} <= {Level.DEBUG}

    asyncio.run(run())


async def test_a_damaged_chunk_is_refused_and_the_connection_closed(client, world):
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n")
    assert (await client.answer()).status == 400
    assert await client.ended() == b""
    assert Level.ERROR not in {level for level, _ in world.said}


async def test_a_body_that_is_damaged_on_its_way_is_cut_off_in_its_time(client, world):
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    await until(lambda: world.begun)
    await client.send(b"nonsense\r\n")
    await world.clock.advance(LIMITS.read_s)
    assert await client.ended() == b""
    assert Level.ERROR not in {level for level, _ in world.said}


async def test_a_body_that_cannot_be_unpacked_is_refused(client, world):
    await client.send(POST + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n")
    await until(lambda: world.begun)
    assert (await client.asked(b"x" * 20)).status == 400
    await client.ended()
    assert {level for level, _ in world.said} <= {Level.DEBUG}


async def test_what_packed_bodies_hold_counts_against_the_limit(client):
    packed = gzip.compress(bytes(1_000_000))
    assert len(packed) < 5000
    head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    assert (await client.asked(POST + head + packed)).status == 413


async def test_a_body_that_nobody_reads_may_be_damaged(client, world):
    head = request("/healthz", "POST", "Content-Encoding: gzip", "Content-Length: 20")
    assert (await client.asked(head)).status == 405
    await client.send(b"x" * 20)
    await client.ended()
    assert {level for level, _ in world.said} == {Level.DEBUG}


async def test_the_work_for_a_client_that_goes_away_is_cancelled(client, world):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    client.writer.transport.abort()
    await until(lambda: world.ended)
    assert world.ended == ["cancelled"]
    assert Level.ERROR not in {level for level, _ in world.said}


# ---------------------------------------------------------------- sizes


async def test_headers_up_to_the_limit_pass(client):
    assert (await client.asked(request("/healthz", "GET", "A: " + "a" * 1900))).status == 200


@pytest.mark.parametrize(
    "headers", [["A: " + "a" * 2001], [f"A{n}: " + "a" * 200 for n in range(10)]], ids=["one", "many"]
)
async def test_headers_over_the_limit_are_refused(client, headers):
    answer = await client.asked(request("/healthz", "GET", *headers))
    assert (answer.status, answer.json) == (431, {"error": "request header fields too large"})


async def test_a_long_path_is_refused(client):
    assert (await client.asked(request("/" + "a" * 3000))).status == 431


async def test_headers_without_end_are_cut_off_long_before_their_time(world):
    sent = 0

    async def sending(client: Client) -> None:
        nonlocal sent
        await client.send(b"GET / HTTP/1.1\r\n")
        while sent < 100_000_000:
            await client.send(b"A: " + b"a" * 90_000 + b"\r\n")
            sent += 90_000
            await asyncio.sleep(0)

    async with (
        serving(world, limits=changed(LIMITS, header_bytes_max=100_000)) as listener,
        connected(listener) as client,
    ):
        with pytest.raises(ConnectionError):
            await sending(client)
    assert sent < 8_000_000
    assert world.said == []


async def test_too_many_headers_are_refused(client):
    assert (await client.asked(request("/healthz", "GET", *(f"A{n}: a" for n in range(150))))).status == 400


async def test_a_body_of_the_limit_passes(client):
    assert (await client.asked(POST + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000)).body == b"5000"


async def test_a_body_over_the_limit_is_refused_before_it_is_read(client, world):
    answer = await client.asked(POST + b"Content-Length: 5001\r\n\r\n")
    assert (answer.status, answer.json) == (413, {"error": "request body exceeds 5000 bytes"})
    assert world.begun == []


async def test_a_body_that_grows_over_the_limit_is_refused(client):
    answer = await client.asked(
        POST + b"Transfer-Encoding: chunked\r\n\r\n1389\r\n" + b"x" * 5001 + b"\r\n0\r\n\r\n"
    )
    assert (answer.status, answer.json) == (413, {"error": "request body exceeds 5000 bytes"})


async def test_a_client_that_sends_all_of_a_refused_body_gets_its_answer(client):
    await client.send(POST + b"Content-Length: 900000\r\n\r\n" + b"x" * 900_000)
    assert (await client.answer()).status == 413
    assert await client.is_open()


async def test_bodies_may_have_no_limit(world):
    async with (
        serving(world, limits=changed(LIMITS, body_bytes_max=None)) as listener,
        connected(listener) as client,
    ):
        size = 20_000_000
        answer = await client.asked(POST + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
        assert answer.body == str(size).encode()


async def test_a_connection_too_many_is_closed_at_once(world, monkeypatch):
    monkeypatch.setattr(connection_module, "CONNECTIONS_MAX", 2)
    async with serving(world) as listener, AsyncExitStack() as clients:
        first, second = [await clients.enter_async_context(connected(listener)) for _ in range(2)]
        assert await first.is_open()
        assert await second.is_open()
        async with connected(listener) as third:
            assert await third.ended() == b""
        assert await first.is_open()
        first.writer.close()
        await first.writer.wait_closed()
        await asyncio.sleep(0)
        async with connected(listener) as fourth:
            assert await fourth.is_open()


# ---------------------------------------------------------------- times


async def test_a_client_that_says_nothing_is_cut_off(client, world):
    await until(lambda: world.clock.sleepers)
    await world.clock.advance(LIMITS.header_s)
    assert await client.ended() == b""


async def test_headers_that_trickle_are_cut_off_however_often_a_byte_comes(client, world):
    await until(lambda: world.clock.sleepers)
    for byte in GET[:9]:
        await client.send(bytes([byte]))
        await world.clock.advance(LIMITS.header_s / 10)
    await world.clock.advance(LIMITS.header_s / 10)
    assert await client.ended() == b""


async def test_headers_that_arrive_in_time_are_served(client, world):
    await client.send(GET[:20])
    await until(lambda: world.clock.sleepers)
    await world.clock.advance(LIMITS.header_s - 0.001)
    assert (await client.asked(GET[20:])).status == 200
    await world.clock.advance(LIMITS.header_s * 2)
    assert await client.is_open()


async def test_the_time_of_further_headers_begins_with_their_first_byte(client, world):
    assert await client.is_open()
    await world.clock.advance(LIMITS.header_s * 3)
    await client.send(GET[:5])
    await until(lambda: world.clock.sleepers)
    await world.clock.advance(LIMITS.header_s - 0.001)
    await client.send(GET[5:10])
    await world.clock.advance(0.001)
    assert await client.ended() == b""


async def test_one_slow_client_does_not_cost_another_its_connection(listener, client, world):
    assert await client.is_open()
    async with connected(listener) as slow:
        await until(lambda: world.clock.sleepers)
        await world.clock.advance(LIMITS.header_s - 1)
        async with connected(listener) as late:
            await late.send(GET[:5])
            await until(lambda: len(listener._connections.open) == 3)
            await world.clock.advance(1)
            assert await slow.ended() == b""
            assert (await late.asked(GET[5:])).status == 200
    assert await client.is_open()


async def test_a_body_that_stalls_is_cut_off(client, world):
    await client.send(POST + b"Content-Length: 10\r\n\r\nhalf")
    await until(lambda: world.begun)
    await world.clock.advance(LIMITS.read_s - 0.001)
    assert world.ended == []
    await world.clock.advance(0.001)
    assert await client.ended() == b""
    await until(lambda: world.ended)
    assert world.ended == ["cancelled"]


async def test_a_body_that_arrives_in_time_is_served(client, world):
    await client.send(POST + b"Content-Length: 10\r\n\r\nhalf")
    await until(lambda: world.begun)
    await world.clock.advance(LIMITS.read_s - 0.001)
    assert (await client.asked(b"x" * 6)).body == b"10"
    await world.clock.advance(LIMITS.read_s)
    assert await client.is_open()


async def test_headers_may_not_take_longer_than_a_whole_request(world):
    async with serving(world, limits=changed(LIMITS, read_s=2.0)) as listener, connected(listener) as client:
        await until(lambda: world.clock.sleepers)
        await world.clock.advance(2.0)
        assert await client.ended() == b""


async def test_an_answer_that_takes_too_long_is_cut_off_and_logged(client, world):
    await client.send(request("/wait"))
    await until(lambda: world.begun)
    await world.clock.advance(LIMITS.write_s - 0.001)
    assert world.ended == []
    await world.clock.advance(0.001)
    assert await client.ended() == b""
    assert world.ended == ["cancelled"]
    assert world.said == [(Level.WARN, REQUEST_CUT_OFF)]


async def test_a_client_that_does_not_read_its_answer_is_cut_off(listener, world):
    size = 50_000_000
    world.metrics = lambda: changed(PAGE, content=bytes(size))
    with socket.create_connection(("127.0.0.1", listener.address.port)) as slow:
        slow.sendall(request("/metrics"))
        async with asyncio.timeout(HANG_S):  # it is sending as soon as something has come
            await asyncio.get_running_loop().run_in_executor(None, slow.recv, 1, socket.MSG_PEEK)
        await world.clock.advance(LIMITS.write_s)
        assert world.said == [(Level.WARN, REQUEST_CUT_OFF)]
    async with connected(listener) as client:
        await client.send(request("/metrics"))
        assert len((await client.answer()).body) == size  # one that reads gets all of it


async def test_an_idle_connection_is_closed(world):
    """By real time; on a slow machine even before its first request."""
    async with serving(world, limits=changed(LIMITS, idle_s=0.05)) as listener, connected(listener) as client:
        client.writer.write(GET)
        got = await client.ended()
    assert got == b"" or got.startswith(b"HTTP/1.1 200 OK")
