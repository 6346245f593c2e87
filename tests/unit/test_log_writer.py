"""Each line whole or not at all, and nobody waits: pipes that are full, broken, closed or slow (ADR 0020)."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from vmafx.adapters.telemetry.writer import LineWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, end = os.pipe()
    yield reader, end
    for descriptor in (reader, end):
        try:
            os.close(descriptor)
        except OSError:
            continue


def fill(descriptor: int, *, leave_blocking: bool = True) -> int:
    os.set_blocking(descriptor, False)
    size = 0
    try:
        while True:
            size += os.write(descriptor, b"\n" * 4096)
    except BlockingIOError:
        os.set_blocking(descriptor, leave_blocking)
    return size


def drained(reader: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(reader, size - len(data))
    return data


@pytest.mark.parametrize("blocking", [True, False])
def test_a_full_pipe_costs_lines_and_no_time_without_end(pipe, blocking):
    reader, end = pipe
    size = fill(end, leave_blocking=blocking)
    writer = LineWriter(end)
    assert not any(writer.write(b"lost\n") for _ in range(5000))  # 0.1 s each would be over the time limit
    assert writer.dropped == 5000
    assert not writer.ready()
    drained(reader, size)
    assert writer.ready()
    assert writer.take_dropped() == 5000
    assert writer.write(b"kept\n")
    assert os.read(reader, 100) == b"kept\n"
    assert writer.dropped == 0


@pytest.mark.parametrize("blocking", [True, False])
def test_a_long_line_that_does_not_fit_never_spoils_the_next(pipe, blocking):
    reader, end = pipe
    size = fill(end, leave_blocking=blocking)
    drained(reader, 4096)
    writer = LineWriter(end)
    assert not writer.write(b"x" * 10_000 + b"\n")
    rest = drained(reader, size)
    assert set(rest[-4096:]) == {ord("x")}
    assert writer.write(b"next\n")
    assert writer.write(b"after\n")
    assert os.read(reader, 100) == b"\nnext\nafter\n"
    assert writer.dropped == 1


def test_a_pipe_without_a_reader_costs_the_lines(pipe):
    reader, end = pipe
    os.close(reader)
    writer = LineWriter(end)
    assert not writer.write(b"lost\n")
    assert writer.dropped == 1


@pytest.mark.parametrize("descriptor", [None, -1, 987_654])
def test_no_descriptor_at_all_costs_the_lines(descriptor):
    writer = LineWriter(descriptor)
    assert not writer.write(b"lost\n")
    assert not writer.ready()
    writer.close()


def test_the_log_goes_where_the_descriptor_pointed_when_it_was_opened(pipe, tmp_path):
    reader, end = pipe
    writer = LineWriter(end)
    with (tmp_path / "database").open("wb") as other:
        os.dup2(other.fileno(), end)  # the number means another file now
        assert writer.write(b"a line\n")
    assert os.read(reader, 100) == b"a line\n"
    assert (tmp_path / "database").read_bytes() == b""


def test_closing_twice_and_writing_after_it_is_harmless(pipe):
    _, end = pipe
    writer = LineWriter(end)
    writer.close()
    writer.close()
    assert not writer.write(b"late\n")
    os.fstat(end)  # the descriptor itself was not ours to close


def test_a_file_takes_the_longest_line_in_one_write(tmp_path, monkeypatch):
    calls = []
    write = os.write
    monkeypatch.setattr("os.write", lambda fd, data: calls.append(len(data)) or write(fd, data))
    with (tmp_path / "log").open("ab") as file:
        writer = LineWriter(file.fileno())
        assert writer.write(b"x" * 16_383 + b"\n")
        writer.close()
    assert calls == [16_384]


def test_a_socket_is_written_to_like_a_pipe():
    here, there = socket.socketpair()
    with here, there:
        writer = LineWriter(here.fileno())
        assert writer.write(b"y" * 10_000 + b"\n")
        assert drained(there.fileno(), 10_001) == b"y" * 10_000 + b"\n"
        fill(here.fileno())
        assert not writer.write(b"lost\n")
        writer.close()


def test_lines_of_many_threads_and_writers_do_not_mix(pipe):
    reader, end = pipe
    writers = [LineWriter(end), LineWriter(end)]
    lines = [bytes([ord("a") + number]) * (600 * (number + 1)) + b"\n" for number in range(6)]

    def write(number: int) -> None:
        for _ in range(40):
            assert writers[number % 2].write(lines[number])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    data = drained(reader, sum(40 * len(line) for line in lines))
    for thread in threads:
        thread.join()
    seen = data.splitlines(keepends=True)
    assert {line: seen.count(line) for line in set(seen)} == dict.fromkeys(lines, 40)
