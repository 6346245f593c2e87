"""Whole frames are counted the same however the bytes come (ADR 0006)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import clips
from tests.unit.y4m_cases import BAD_FRAMES, GOOD, Case
from vmafx.domain.errors import ClipError
from vmafx.domain.y4m import FrameCounter, parse_header

NAME = "clip\u202e.y4m"
SHOWN = '"clip\\u202e.y4m"'

SMALL = clips.y4m(distorted=False, size=(2, 2), frames=5, marker=b"FRAME Ip\n")
SMALL_PICTURE_BYTES = 6


def counter_of(data: bytes) -> tuple[FrameCounter, bytes]:
    header = parse_header(data, name=NAME)
    return FrameCounter(header, name=NAME), data[header.header_bytes :]


def fed(data: bytes, cuts: list[int]) -> int | str:
    """What comes of feeding `data` cut at these places."""
    counter, body = counter_of(data)
    places = sorted({0, len(body), *(cut for cut in cuts if cut <= len(body))})
    try:
        for start, end in pairwise(places):
            counter.feed(body[start:end])
        return counter.finish()
    except ClipError as error:
        return str(error)


def skipped(data: bytes, steps: list[int]) -> int | str:
    """What comes of passing over pictures in these steps and feeding the rest a few bytes at a time."""
    counter, body = counter_of(data)
    offset, turn = 0, 0
    try:
        while offset < len(body):
            step = steps[turn % len(steps)] if steps else len(body)
            turn += 1
            if counter.skippable:
                step = min(step, counter.skippable, len(body) - offset)
                counter.skip(step)
            else:
                step = min(step, len(body) - offset)
                # The file's reader hands over what it read: perhaps a piece of the picture too.
                counter.feed(memoryview(body)[offset : offset + step])
            offset += step
        return counter.finish()
    except ClipError as error:
        return str(error)


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_whole_frames_are_counted(case: Case) -> None:
    assert fed(case.data(), []) == case.frames
    assert skipped(case.data(), []) == case.frames


@pytest.mark.parametrize("case", BAD_FRAMES, ids=str)
@pytest.mark.parametrize("step", [1, 7, 79, 80, 81, 5000])
def test_bad_frames_are_refused_with_the_clips_name_however_they_come(case: Case, step: int) -> None:
    data = case.data()
    message = fed(data, list(range(0, len(data), step)) if step > 1 else [])
    assert isinstance(message, str)
    assert message.startswith(f"{SHOWN}: ")
    assert case.error in message
    assert skipped(data, [step]) == message


_BODIES = st.one_of(
    st.just(SMALL),
    st.integers(1, len(SMALL)).map(lambda cut: SMALL[:-cut] if len(SMALL) - cut >= 60 else SMALL),
    st.lists(
        st.sampled_from(
            [b"FRAME\n", b"FRAME X", b"\n", b"FRAME", b"FR", bytes(6), bytes(5), b"x", b"a" * 79, b"\r"]
        ),
        max_size=8,
    ).map(lambda pieces: clips.y4m(distorted=False, size=(2, 2), frames=0) + b"".join(pieces)),
)


@settings(max_examples=300, deadline=None)
@given(_BODIES, st.lists(st.integers(0, 120), max_size=12))
def test_any_chunking_gives_the_same_count_or_the_same_error(data: bytes, cuts: list[int]) -> None:
    assert fed(data, cuts) == fed(data, []) == fed(data, list(range(len(data))))


@settings(max_examples=300, deadline=None)
@given(_BODIES, st.lists(st.integers(1, 12), max_size=6))
def test_skipping_gives_what_feeding_gives(data: bytes, steps: list[int]) -> None:
    assert skipped(data, steps) == fed(data, [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_frames_are_those_whose_last_byte_was_seen(cuts: list[int]) -> None:
    counter, body = counter_of(SMALL)
    each = len(b"FRAME Ip\n") + SMALL_PICTURE_BYTES
    seen = 0
    for cut in cuts:
        counter.feed(body[seen : seen + cut])
        seen = min(len(body), seen + cut)
        assert counter.frames == seen // each
        assert 0 <= counter.skippable <= SMALL_PICTURE_BYTES


def test_content_of_a_picture_does_not_matter() -> None:
    head = clips.y4m(distorted=False, size=(4, 2), frames=0)
    assert fed(head + b"FRAME\n" + b"FRAME\nFRAME\n" + b"FRAME\n" + b"\n" * 12, []) == 2


def test_only_bytes_of_a_picture_can_be_skipped() -> None:
    counter, body = counter_of(SMALL)
    counter.skip(0)
    with pytest.raises(ValueError, match="only bytes of a picture"):
        counter.skip(1)
    counter.feed(body[:9])
    assert counter.skippable == SMALL_PICTURE_BYTES
    for count in (SMALL_PICTURE_BYTES + 1, -1):
        with pytest.raises(ValueError, match="only bytes of a picture"):
            counter.skip(count)
    counter.skip(SMALL_PICTURE_BYTES)
    assert (counter.frames, counter.skippable) == (1, 0)


def test_work_per_frame_does_not_grow_with_the_picture() -> None:
    # A claimed picture of 800 MB is passed over without that many bytes anywhere.
    head = b"YUV4MPEG2 W16384 H16384 F25:1 C444\n"
    counter = FrameCounter(parse_header(head, name=NAME), name=NAME)
    for _ in range(1000):
        counter.feed(b"FRAME\n")
        counter.skip(counter.skippable)
    assert counter.finish() == 1000
