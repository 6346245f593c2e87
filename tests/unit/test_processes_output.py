"""What a child writes is heard in constant memory (ADR 0007)."""

from __future__ import annotations

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.processes.output import Pipe, Tail


@given(st.lists(st.binary(max_size=40)), st.integers(0, 50))
def test_tail_is_the_end_of_all_that_was_heard(chunks, bytes_max):
    tail = Tail(bytes_max)
    for chunk in chunks:
        tail(chunk)
        assert len(tail._kept) <= bytes_max
    whole = b"".join(chunks)
    assert bytes(tail) == whole[max(0, len(whole) - bytes_max) :]


@pytest.fixture
def ends():
    read, write = os.pipe()
    os.set_blocking(read, False)
    yield read, write
    for end in (read, write):
        try:
            os.close(end)
        except OSError:
            continue


async def test_drain_reads_what_is_there_and_waits_for_nobody(ends):
    read, write = ends
    heard: list[bytes] = []
    pipe = Pipe(read, [heard.append])
    os.write(write, b"a" * 60_000)
    pipe.drain()
    assert b"".join(heard) == b"a" * 60_000
    pipe.drain()
    assert b"".join(heard) == b"a" * 60_000
    pipe.close()


async def test_drain_does_not_follow_a_writer_that_never_stops(ends):
    read, write = ends
    heard: list[bytes] = []

    def answer(data: bytes) -> None:
        heard.append(data)
        os.write(write, data)

    os.write(write, b"again")
    pipe = Pipe(read, [answer])
    pipe.drain()
    assert heard == [b"again"]
    pipe.close()


async def test_end_of_the_stream_closes_the_pipe_once(ends):
    read, write = ends
    heard: list[bytes] = []
    pipe = Pipe(read, [heard.append])
    pipe.open()
    os.close(write)
    while pipe._descriptor is not None:
        await asyncio.sleep(0)
    pipe.drain()
    pipe.close()
    assert heard == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


async def test_closed_pipe_hears_nothing(ends):
    read, write = ends
    heard: list[bytes] = []
    pipe = Pipe(read, [heard.append])
    pipe.open()
    os.write(write, b"late")
    pipe.close()
    pipe.open()
    await asyncio.sleep(0)
    assert heard == []
