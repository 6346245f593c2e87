"""What a Y4M header says, and which are refused by name (ADR 0006)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import clips
from tests.unit.y4m_cases import BAD_HEADERS, GOOD, Case
from vmafx.domain.errors import ClipError
from vmafx.domain.y4m import (
    DIMENSION_MAX,
    HEADER_BYTES_MAX,
    Subsampling,
    Y4mHeader,
    check_comparable,
    container_of,
    parse_header,
)

NAME = "clips/one\ntwo.y4m"
SHOWN = '"clips/one\\ntwo.y4m"'


def header(data: bytes) -> Y4mHeader:
    return parse_header(data, name=NAME)


@pytest.mark.parametrize("case", BAD_HEADERS, ids=str)
def test_bad_header_is_refused_with_the_clips_name_and_the_cause(case: Case) -> None:
    with pytest.raises(ClipError) as caught:
        header(case.data())
    message = str(caught.value)
    assert message.startswith(f"{SHOWN}: ")
    assert case.error in message
    assert message.isprintable()
    assert len(message) < 512
    assert caught.value.source == NAME


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_good_header_ends_where_the_first_frame_starts(case: Case) -> None:
    data = case.data()
    parsed = header(data)
    assert data[parsed.header_bytes :].startswith(b"FRAME")
    assert header(data[:HEADER_BYTES_MAX]) == parsed


def test_every_tag_is_read() -> None:
    made = clips.y4m(
        distorted=False,
        size=(50, 48),
        frames=0,
        sub="422",
        depth=12,
        rate="F30000:1001",
        extra="XYSCSS=420JPEG XCOLORRANGE=FULL",
    )
    assert header(made) == Y4mHeader(
        width=50,
        height=48,
        frame_rate=(30000, 1001),
        subsampling=Subsampling.S422,
        depth=12,
        full_range=True,
        header_bytes=len(made),
    )
    assert str(header(made)) == "50x48 4:2:2 12 bit full range"


def test_tags_may_come_in_any_order_and_with_blanks_between() -> None:
    assert header(b"YUV4MPEG2  C444  F25:1  H48 W64 \n").subsampling is Subsampling.S444


@pytest.mark.parametrize(
    ("extra", "full"),
    [("", False), ("XCOLORRANGE=LIMITED", False), ("XCOLORRANGE=FULL", True), ("XCOLORRANGE", False)],
)
def test_range_is_full_only_if_the_header_says_so(extra: str, full: bool) -> None:  # noqa: FBT001 - a case
    assert header(clips.y4m(distorted=False, frames=0, extra=extra)).full_range is full


@pytest.mark.parametrize(
    ("tag", "subsampling", "depth"),
    [
        ("", Subsampling.S420, 8),
        ("C420", Subsampling.S420, 8),
        ("C420jpeg", Subsampling.S420, 8),
        ("C420mpeg2", Subsampling.S420, 8),
        ("C420paldv", Subsampling.S420, 8),
        ("C420p9", Subsampling.S420, 9),
        ("C420p10", Subsampling.S420, 10),
        ("C422p14", Subsampling.S422, 14),
        ("C444p16", Subsampling.S444, 16),
        ("C411", Subsampling.S411, 8),
        ("Cmono", Subsampling.MONO, 8),
        ("Cmono16", Subsampling.MONO, 16),
    ],
)
def test_chroma_tag_gives_subsampling_and_depth(tag: str, subsampling: Subsampling, depth: int) -> None:
    parsed = header(clips.y4m(distorted=False, frames=0, tag=tag))
    assert (parsed.subsampling, parsed.depth) == (subsampling, depth)


@pytest.mark.parametrize(
    "tag", ["C", "C420p8", "C420p", "Cp10", "C411p10", "Cmonop10", "Cmono8", "C420jpegp10", "C444Alpha", "c"]
)
def test_chroma_tag_that_no_scorer_knows_is_refused(tag: str) -> None:
    if tag == "c":  # another letter is another tag, which does not matter
        assert header(clips.y4m(distorted=False, frames=0, tag=tag)).subsampling is Subsampling.S420
        return
    with pytest.raises(ClipError, match="is not supported"):
        header(clips.y4m(distorted=False, frames=0, tag=tag))


@pytest.mark.parametrize("size", [(1, 1), (35, 27), (50, 48), (4, 3), (64, 48), (7, 1)])
@pytest.mark.parametrize("sub", ["420", "422", "444", "411", "mono"])
@pytest.mark.parametrize("depth", [8, 10])
def test_picture_is_as_long_as_one_is(size: tuple[int, int], sub: str, depth: int) -> None:
    if (sub, depth) == ("411", 10):
        return  # no such format
    tag = "Cmono10" if (sub, depth) == ("mono", 10) else None
    parsed = header(clips.y4m(distorted=False, size=size, frames=0, sub=sub, depth=depth, tag=tag))
    assert parsed.picture_bytes == len(clips.picture(*size, 0, distorted=False, sub=sub, depth=depth))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("number", "fine"), [(1, True), (DIMENSION_MAX, True), (DIMENSION_MAX + 1, False)])
def test_size_is_limited_on_both_sides(place: int, number: int, fine: bool) -> None:  # noqa: FBT001 - a case
    size = [16, 16]
    size[place] = number
    data = clips.y4m(distorted=False, size=(size[0], size[1]), frames=0)
    if fine:
        assert (header(data).width, header(data).height) == tuple(size)
    else:
        with pytest.raises(
            ClipError, match=f"{('width', 'height')[place]} 16385 is not supported: 1 to 16384"
        ):
            header(data)


def test_longest_header_is_accepted_and_one_byte_more_refused() -> None:
    short = len(clips.y4m(distorted=False, frames=0, extra="X"))
    longest = clips.y4m(distorted=False, frames=0, extra="X" * (1 + HEADER_BYTES_MAX - short))
    assert header(longest).header_bytes == len(longest) == HEADER_BYTES_MAX
    with pytest.raises(ClipError, match="it does not end within 256 bytes"):
        header(longest[:-1] + b"X\n")


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300)
    | st.lists(
        st.sampled_from(
            [b"YUV4MPEG2", b" ", b"W64", b"H48", b"F25:1", b"C420", b"Ip", b"\n", b"W", b"\xff", b"FRAME"]
        )
    ).map(b"".join)
)
def test_no_bytes_raise_anything_but_a_clip_error(data: bytes) -> None:
    with contextlib.suppress(ClipError):
        parsed = header(data)
        assert 1 <= parsed.header_bytes <= HEADER_BYTES_MAX
        assert parsed.picture_bytes > 0


# ---------------------------------------------------------------- pairs


def pair(**other: object) -> tuple[tuple[str, Y4mHeader], tuple[str, Y4mHeader]]:
    plain = clips.y4m(distorted=False, frames=0)
    made = clips.y4m(**{"distorted": True, "frames": 0, **other})  # type: ignore[arg-type]
    return ("ref", header(plain)), ("dis", header(made))


@pytest.mark.parametrize(
    ("other", "ref", "dis"),
    [
        ({"depth": 10}, "64x48 4:2:0 8 bit", "64x48 4:2:0 10 bit"),
        ({"tag": "C422"}, "64x48 4:2:0 8 bit", "64x48 4:2:2 8 bit"),
        ({"tag": "Cmono"}, "64x48 4:2:0 8 bit", "64x48 mono 8 bit"),
        ({"size": (48, 64)}, "64x48 4:2:0 8 bit", "48x64 4:2:0 8 bit"),
        ({"extra": "XCOLORRANGE=FULL"}, "8 bit limited range", "8 bit full range"),
    ],
)
def test_pair_of_different_formats_is_refused_showing_both(
    other: dict[str, object], ref: str, dis: str
) -> None:
    reference, distorted = pair(**other)
    with pytest.raises(ClipError) as caught:
        check_comparable(reference, distorted)
    message = str(caught.value)
    assert message.startswith("videos are incompatible: reference ")
    assert f'"ref" is {ref}' in message or ref in message.partition("distorted")[0]
    assert dis in message.partition("distorted")[2]
    assert caught.value.source == "dis"
    with pytest.raises(ClipError):
        check_comparable(distorted, reference)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"rate": "F50:1"},
        {"rate": "F30000:1001"},
        {"tag": "C420jpeg"},
        {"tag": ""},
        {"interlace": ""},
        {"extra": "XCOLORRANGE=LIMITED XNOTE=1"},
    ],
)
def test_rates_and_ways_to_write_a_format_do_not_make_a_pair_incomparable(other: dict[str, object]) -> None:
    check_comparable(*pair(**other))


# ---------------------------------------------------------------- other files


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x18ftypmp42", "MP4"),
        (b"\0\0\0\x14ftypqt  ", "MOV"),
        (b"\x1a\x45\xdf\xa3", "Matroska or WebM"),
        (b"RIFF", "AVI"),
        (b"FLV\x01", "FLV"),
        (b"DKIF\0\0", "IVF"),
        (b"OggS", "Ogg"),
        (b"\0\0\0\x01\x67", "raw H.264 or H.265"),
        (b"\0\0\x01\xba", "MPEG-PS"),
        (b"\x06\x0e\x2b\x34", "MXF"),
        (b"\x47" + bytes(187) + b"\x47", "MPEG-TS"),
        (b"\x47" + bytes(187) + b"\x48", None),
        (b"", None),
        (b"YUV4MPEG2 ", None),
        (b"<!doctype html>", None),
    ],
)
def test_container_is_known_by_its_first_bytes(data: bytes, name: str | None) -> None:
    assert container_of(data) == name


@pytest.mark.parametrize("space", ["\t", "\v", "\f", "\r", "\0", "\x1b", "\x7f", "\xa0"])
def test_header_with_anything_but_printable_ascii_is_refused_by_name(space):
    head = f"YUV4MPEG2 W50 H48 F25:1{space}C420p10 XYSCSS=444 Ip\n".encode("latin-1")
    with pytest.raises(ClipError, match="damaged Y4M header: only printable ASCII"):
        parse_header(head, name="a.y4m")


@pytest.mark.parametrize("told", ["444", "422", "411", "400P10"])
def test_another_subsampling_told_without_a_c_tag_is_refused(told):
    with pytest.raises(ClipError, match="XYSCSS, and no C tag"):
        parse_header(f"YUV4MPEG2 W50 H48 F25:1 XYSCSS={told}\n".encode(), name="a.y4m")


@pytest.mark.parametrize("told", ["C444 XYSCSS=420", "XYSCSS=420JPEG", "XYSCSS=420mpeg2"])
def test_xyscss_that_everybody_reads_alike_is_accepted(told):
    assert parse_header(f"YUV4MPEG2 W50 H48 F25:1 {told}\n".encode(), name="a.y4m").width == 50
