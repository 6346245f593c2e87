"""Clips that something is wrong or unusual with, and how the parser and the counter must take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests import clips

PLAIN_FRAME_BYTES: Final = 64 * 48 * 3 // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A distorted clip.

    Attributes:
        name: What it is, as an id for tests.
        data: The clip.
        frames: Its whole frames; None when it must be refused.
        error: A piece of the refusal; empty when there is none.
    """

    name: str
    data: Callable[[], bytes]
    frames: int | None = None
    error: str = ""

    def __str__(self) -> str:
        return self.name


def _plain(frames: int = clips.FRAMES, **other: object) -> bytes:
    return clips.y4m(distorted=True, frames=frames, **other)  # type: ignore[arg-type]


def _claims(size: int) -> bytes:
    return f"YUV4MPEG2 W{size} H{size} F25:1 Ip A1:1 C420\nFRAME\n".encode() + bytes(64)


GOOD: Final = (
    Case(name="plain", data=_plain, frames=6),
    Case(name="odd size", data=lambda: _plain(4, size=(35, 27)), frames=4),
    Case(name="odd size 4:2:2", data=lambda: _plain(2, size=(35, 27), sub="422"), frames=2),
    Case(name="odd size 4:1:1", data=lambda: _plain(2, size=(35, 27), sub="411"), frames=2),
    Case(name="tiny", data=lambda: _plain(4, size=(16, 16)), frames=4),
    Case(name="one pixel", data=lambda: _plain(3, size=(1, 1)), frames=3),
    Case(name="10 bit", data=lambda: _plain(3, size=(50, 48), depth=10), frames=3),
    Case(name="12 bit 4:4:4", data=lambda: _plain(2, sub="444", depth=12), frames=2),
    Case(name="16 bit", data=lambda: _plain(2, depth=16), frames=2),
    Case(name="4:2:2", data=lambda: _plain(3, sub="422"), frames=3),
    Case(name="4:4:4", data=lambda: _plain(3, sub="444"), frames=3),
    Case(name="mono", data=lambda: _plain(3, sub="mono"), frames=3),
    Case(name="10 bit mono", data=lambda: _plain(2, sub="mono", tag="Cmono10", depth=10), frames=2),
    Case(name="no chroma tag", data=lambda: _plain(2, tag=""), frames=2),
    Case(name="4:2:0 jpeg", data=lambda: _plain(2, tag="C420jpeg"), frames=2),
    Case(name="one frame", data=lambda: _plain(1), frames=1),
    Case(name="frame lines with parameters", data=lambda: _plain(3, marker=b"FRAME Ip Xnote=1\n"), frames=3),
    Case(name="longest frame line", data=lambda: _plain(2, marker=b"FRAME X" + b"a" * 72 + b"\n"), frames=2),
    Case(name="header of over 80 bytes", data=lambda: _plain(3, extra="XNOTE=" + "a" * 80), frames=3),
    Case(name="unknown interlacing", data=lambda: _plain(2, interlace="I?"), frames=2),
    Case(name="no interlacing tag", data=lambda: _plain(2, interlace=""), frames=2),
    Case(name="NTSC frame rate", data=lambda: _plain(2, rate="F30000:1001"), frames=2),
    Case(name="fewer frames", data=lambda: _plain(4), frames=4),
    Case(name="more frames", data=lambda: _plain(8), frames=8),
    Case(name="cut at the end of a frame", data=lambda: _plain()[: -(PLAIN_FRAME_BYTES + 6)], frames=5),
)

BAD_HEADERS: Final = (
    Case(name="empty", data=lambda: b"", error="empty: 0 bytes"),
    Case(
        name="header that does not end",
        data=lambda: _plain(0)[:-1],
        error="damaged Y4M header: it does not end",
    ),
    Case(
        name="header of over 400 bytes",
        data=lambda: _plain(3, extra="XNOTE=" + "a" * 360),
        error="it does not end within 256 bytes",
    ),
    Case(
        name="wrong magic",
        data=lambda: _plain(2, magic="YUV4MPEG1"),
        error="not Y4M: it does not start with YUV4MPEG2",
    ),
    Case(name="magic and more", data=lambda: _plain(2, magic="YUV4MPEG23"), error="not Y4M"),
    Case(name="page", data=lambda: b"<!doctype html><title>Log in</title>\n" * 9, error="not Y4M"),
    Case(name="one byte", data=lambda: b"Y", error="not Y4M"),
    Case(name="no frame rate", data=lambda: _plain(2, rate=""), error="no frame rate"),
    Case(
        name="frame rate of zero",
        data=lambda: _plain(2, rate="F0:1"),
        error='frame rate "0:1" is not above 0',
    ),
    Case(name="frame rate by zero", data=lambda: _plain(2, rate="F25:0"), error="is not above 0"),
    Case(name="frame rate of three", data=lambda: _plain(2, rate="F1:2:3"), error='frame rate "1:2:3"'),
    Case(name="negative frame rate", data=lambda: _plain(2, rate="F-25:1"), error='frame rate "-25:1"'),
    Case(name="top field first", data=lambda: _plain(2, interlace="It"), error='interlaced ("It")'),
    Case(name="bottom field first", data=lambda: _plain(2, interlace="Ib"), error='interlaced ("Ib")'),
    Case(name="mixed fields", data=lambda: _plain(2, interlace="Im"), error="interlaced"),
    Case(name="claims 65536", data=lambda: _claims(65536), error="width 65536 is not supported"),
    Case(name="claims 30000", data=lambda: _claims(30000), error="width 30000 is not supported"),
    Case(
        name="claims 2147483647", data=lambda: _claims(2**31 - 1), error="width 2147483647 is not supported"
    ),
    Case(name="claims a number of 100 digits", data=lambda: _claims(10**99), error="is not supported"),
    Case(name="claims nothing", data=lambda: _claims(0), error="width 0 is not supported"),
    Case(name="negative size", data=lambda: _claims(-64), error='no width: "W-64"'),
    Case(name="no size", data=lambda: b"YUV4MPEG2 F25:1\n", error="no width"),
    Case(name="no height", data=lambda: b"YUV4MPEG2 W64 F25:1\n", error="no height"),
    Case(
        name="digits of another script",
        data="YUV4MPEG2 W\u0664 H4 F25:1\n".encode,
        error="only printable ASCII",
    ),
    Case(name="superscript", data=lambda: b"YUV4MPEG2 W\xb2 H4 F25:1\n", error="only printable ASCII"),
    Case(name="size given twice", data=lambda: _plain(2, extra="W64"), error="W is given twice"),
    Case(name="alpha", data=lambda: _plain(2, tag="C444alpha"), error="an alpha plane is not supported"),
    Case(
        name="unknown format",
        data=lambda: _plain(2, tag="C410"),
        error='pixel format "C410" is not supported',
    ),
    Case(name="unknown depth", data=lambda: _plain(2, tag="C420p11"), error='"C420p11" is not supported'),
    Case(name="control characters", data=lambda: _plain(2, tag="C\x1b[31m"), error="only printable ASCII"),
    Case(name="MP4", data=lambda: b"\0\0\0\x20ftypisom" + bytes(99), error="not Y4M: it is MP4"),
    Case(name="QuickTime", data=lambda: b"\0\0\0\x14ftypqt  " + bytes(99), error="it is MOV"),
    Case(name="Matroska", data=lambda: b"\x1a\x45\xdf\xa3" + bytes(99), error="it is Matroska or WebM"),
    Case(name="AVI", data=lambda: b"RIFF\0\0\0\0AVI ", error="it is AVI"),
    Case(name="MPEG-TS", data=lambda: (b"\x47" + bytes(187)) * 3, error="it is MPEG-TS"),
)

BAD_FRAMES: Final = (
    Case(name="header only", data=lambda: _plain(0), error="no frames after the Y4M header"),
    Case(
        name="cut in the last picture",
        data=lambda: _plain()[:-1000],
        error="partial frame: the clip ends within frame 6, 1000 bytes of its picture missing",
    ),
    Case(
        name="cut after a marker",
        data=lambda: _plain()[:-PLAIN_FRAME_BYTES],
        error=f"ends within frame 6, {PLAIN_FRAME_BYTES} bytes of its picture missing",
    ),
    Case(
        name="cut in the word FRAME",
        data=lambda: _plain()[: -(PLAIN_FRAME_BYTES + 3)],
        error="partial frame: the clip ends within frame 6",
    ),
    Case(
        name="cut in the parameters of a frame",
        data=lambda: _plain(2) + b"FRAME Ip",
        error="partial frame: the clip ends within frame 3",
    ),
    Case(
        name="mono under a 4:2:0 tag",
        data=lambda: _plain(sub="mono", tag="C420"),
        error="no whole number of frames: there is no FRAME line where frame 2 must start",
    ),
    Case(
        name="4:2:2 tag on 4:2:0",
        data=lambda: _plain(tag="C422"),
        error="there is no FRAME line where frame 2 must start",
    ),
    Case(
        name="rubbish after the last frame",
        data=lambda: _plain(2) + b"\0",
        error="there is no FRAME line where frame 3 must start",
    ),
    Case(
        name="marker that goes on",
        data=lambda: _plain(2, marker=b"FRAMES\n"),
        error="where frame 1 must start",
    ),
    Case(
        name="marker with a return",
        data=lambda: _plain(2, marker=b"FRAME\r\n"),
        error="where frame 1 must start",
    ),
    Case(
        name="frame line one byte too long",
        data=lambda: _plain(2, marker=b"FRAME X" + b"a" * 73 + b"\n"),
        error="where frame 1 must start",
    ),
    Case(
        name="frame line without end",
        data=lambda: _plain(0) + b"FRAME " + b"a" * 4000,
        error="where frame 1 must start",
    ),
    Case(name="lower case", data=lambda: _plain(1, marker=b"frame\n"), error="where frame 1 must start"),
)
