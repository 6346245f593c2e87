"""Progress lines: whatever a scorer writes, what is heard only rises, and never after the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.progress import ProgressLines


def heard(*pieces: bytes, finish: bool = False) -> list[int]:
    told: list[int] = []

    def tell(done: int, total: int) -> None:
        assert total == 10
        told.append(done)

    lines = ProgressLines(tell)
    lines.frames_total = 10
    for piece in pieces:
        lines.feed(piece)
    if finish:
        lines.finish()
    lines.close()
    lines.feed(b"frame=9\n")
    return told


def test_lines_are_heard_as_they_end() -> None:
    assert heard(b"frame=1\nframe=", b"4\n", b"frame=7") == [1, 4]


@pytest.mark.parametrize(
    "line", [b"fps=3\n", b"frame=\n", b"frame=-1\n", b"frame=x\n", b"\xff\n", b"frame=" + b"9" * 30 + b"\n"]
)
def test_other_lines_are_passed_over(line: bytes) -> None:
    assert heard(line, b"frame=2\n") == [2]


def test_steps_back_and_repeats_are_passed_over() -> None:
    assert heard(b"frame=3\nframe=2\nframe=3\nframe=4\n") == [3, 4]


def test_more_frames_than_there_are_count_as_all() -> None:
    assert heard(b"frame=900\n") == [10]


def test_end_is_told_once() -> None:
    assert heard(b"frame=4\n", finish=True) == [4, 10]
    assert heard(b"frame=10\n", finish=True) == [10]


def test_nobody_needs_to_listen() -> None:
    lines = ProgressLines(None)
    assert not lines.wanted
    lines.feed(b"frame=1\n")
    lines.finish()


def test_line_without_an_end_takes_little_memory() -> None:
    lines = ProgressLines(lambda *_: None)
    for _ in range(100):
        lines.feed(b"x" * 1000)
    assert len(lines._line) <= 256


@given(st.lists(st.binary(max_size=20) | st.integers(0, 20).map(lambda n: f"frame={n}\n".encode())))
def test_any_bytes_are_heard_as_rising_numbers(pieces: list[bytes]) -> None:
    told = heard(*pieces, finish=True)
    assert told == sorted(set(told))
    assert told[-1] == 10
