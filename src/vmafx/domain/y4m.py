"""Y4M: what a clip's header says, whether two clips can be compared, and how many whole frames there are.

Frames are counted by their marker lines with constant work per frame (ADR 0006): `FRAME` lines may carry
parameters, so the size of a file alone does not tell. One counter serves files, whose pictures are skipped,
and streams, whose bytes are fed as they come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from vmafx.domain.errors import ClipError
from vmafx.domain.text import bounded, quoted

__all__ = [
    "DIMENSION_MAX",
    "HEADER_BYTES_MAX",
    "MARKER_BYTES_MAX",
    "FrameCounter",
    "Subsampling",
    "Y4mHeader",
    "check_comparable",
    "container_of",
    "count_frames",
    "parse_header",
]

HEADER_BYTES_MAX: Final = 256
"""Longest header line in bytes, newline included. Real `vmaf` builds crash on a header of 400 bytes."""
MARKER_BYTES_MAX: Final = 80
"""Longest `FRAME` line in bytes, newline included."""
DIMENSION_MAX: Final = 16384
"""Largest width and height in pixels."""

_MAGIC: Final = b"YUV4MPEG2"
_MARKER: Final = b"FRAME"


class Subsampling(Enum):
    """How chroma is sampled; the values are how errors show it."""

    S420 = "4:2:0"
    S422 = "4:2:2"
    S444 = "4:4:4"
    S411 = "4:1:1"
    MONO = "mono"

    def chroma_samples(self, width: int, height: int) -> int:
        """Return how many samples one chroma plane of a picture has; odd sizes round up."""
        match self:
            case Subsampling.S420:
                return ((width + 1) // 2) * ((height + 1) // 2)
            case Subsampling.S422:
                return ((width + 1) // 2) * height
            case Subsampling.S444:
                return width * height
            case Subsampling.S411:
                return ((width + 3) // 4) * height
            case Subsampling.MONO:
                return 0


_SUBSAMPLINGS: Final[Mapping[str, Subsampling]] = {
    "420": Subsampling.S420,
    "420jpeg": Subsampling.S420,
    "420mpeg2": Subsampling.S420,
    "420paldv": Subsampling.S420,
    "422": Subsampling.S422,
    "444": Subsampling.S444,
    "411": Subsampling.S411,
    "mono": Subsampling.MONO,
}
_DEPTHS: Final[Mapping[str, int]] = {"9": 9, "10": 10, "12": 12, "14": 14, "16": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Y4mHeader:
    """What the first line of a Y4M clip says.

    Attributes:
        width: Luma width in pixels, 1 to 16384.
        height: Luma height in pixels, 1 to 16384.
        frame_rate: Numerator and denominator in frames per second, as written; never used to pair frames.
        subsampling: How chroma is sampled.
        depth: Bits per sample, 8 to 16.
        full_range: Whether the clip says that it is full range; without a word it counts as limited.
        header_bytes: Length of the header line in bytes, newline included.
    """

    width: int
    height: int
    frame_rate: tuple[int, int]
    subsampling: Subsampling
    depth: int
    full_range: bool
    header_bytes: int

    @property
    def picture_bytes(self) -> int:
        """Length of one picture in bytes, without its marker line."""
        samples = self.width * self.height
        samples += 2 * self.subsampling.chroma_samples(self.width, self.height)
        return samples * (1 if self.depth == 8 else 2)

    def __str__(self) -> str:
        span = "full range" if self.full_range else "limited range"
        return f"{self.width}x{self.height} {self.subsampling.value} {self.depth} bit {span}"


def parse_header(data: bytes, *, name: str) -> Y4mHeader:
    """Parse the header line that `data` starts with.

    Args:
        data: The first bytes of the clip; all of it, or at least `HEADER_BYTES_MAX`.
        name: The input as its owner wrote it, for errors.

    Raises:
        ClipError: The data is empty, no Y4M, or a header that is damaged, too long, interlaced, or of a
            format that no scorer compares. One that is a known container is named as such.
    """
    line = _header_line(data, name)
    tags = _tags(line.split(b" ")[1:], name)
    _refuse_interlaced(tags.get("I", "p"), name)
    if "C" not in tags and not tags.get("XYSCSS", "420").upper().startswith("420"):
        # Programs disagree on what this means: some read 4:2:0.
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: XYSCSS, and no C tag")
    subsampling, depth = _chroma(tags.get("C", "420"), name)
    return Y4mHeader(
        width=_dimension(tags, "W", "width", name),
        height=_dimension(tags, "H", "height", name),
        frame_rate=_frame_rate(tags.get("F"), name),
        subsampling=subsampling,
        depth=depth,
        full_range=tags.get("XCOLORRANGE") == "FULL",
        header_bytes=len(line) + 1,
    )


def check_comparable(reference: tuple[str, Y4mHeader], distorted: tuple[str, Y4mHeader]) -> None:
    """Check that two clips have the same size, subsampling, depth and range; frame rates may differ.

    Args:
        reference: The reference's name, as its owner wrote it, and its header.
        distorted: The same of the distorted clip.

    Raises:
        ClipError: They differ; the message shows both formats.
    """
    (ref_name, ref), (dis_name, dis) = reference, distorted
    if _format(ref) != _format(dis):
        raise ClipError(
            dis_name,
            f"videos are incompatible: reference {quoted(ref_name)} is {ref}, "
            f"distorted {quoted(dis_name)} is {dis}",
        )


class FrameCounter:
    """Counts the whole frames of a clip from its bytes after the header.

    Feed it the bytes in order. Where bytes can be had without reading them (a regular file), `skippable`
    of them may be passed over with `skip` at any time.
    """

    __slots__ = ("_line", "_name", "_picture_bytes", "frames", "skippable")

    frames: int
    """Whole frames so far."""
    skippable: int
    """How many of the next bytes belong to a picture; their content does not matter."""

    def __init__(self, header: Y4mHeader, *, name: str) -> None:
        self._picture_bytes = header.picture_bytes
        self._name = name
        self._line = b""
        self.frames = 0
        self.skippable = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes of the clip.

        Raises:
            ClipError: Where a marker line must stand there is something else.
        """
        offset = 0
        while offset < len(data):
            if self.skippable:
                step = min(self.skippable, len(data) - offset)
                self.skip(step)
            else:
                step = self._feed_marker(bytes(data[offset : offset + MARKER_BYTES_MAX]))
            offset += step

    def skip(self, count: int) -> None:
        """Pass over the next `count` bytes, which belong to a picture.

        Raises:
            ValueError: `count` is negative or above `skippable`.
        """
        if not 0 <= count <= self.skippable:
            raise ValueError("only bytes of a picture may be skipped")
        self.skippable -= count
        if count and not self.skippable:
            self.frames += 1

    def finish(self) -> int:
        """Return the number of whole frames; the clip ends here.

        Raises:
            ClipError: The clip ends within a frame, or holds none.
        """
        if self.skippable or self._line:
            missing = f", {self.skippable} bytes of its picture missing" if self.skippable else ""
            raise ClipError(
                self._name,
                f"{quoted(self._name)}: partial frame: the clip ends within frame {self.frames + 1}{missing}",
            )
        if not self.frames:
            raise ClipError(self._name, f"{quoted(self._name)}: no frames after the Y4M header")
        return self.frames

    def _feed_marker(self, data: bytes) -> int:
        before = len(self._line)
        end = data.find(b"\n")
        self._line += data if end < 0 else data[: end + 1]
        taken = len(self._line) - before
        if not _starts_marker(self._line) or len(self._line) > MARKER_BYTES_MAX:
            raise ClipError(
                self._name,
                f"{quoted(self._name)}: no whole number of frames: "
                f"there is no FRAME line where frame {self.frames + 1} must start",
            )
        if end >= 0:
            self._line = b""
            self.skippable = self._picture_bytes
        return taken


def count_frames(
    read: Callable[[int, int], bytes],
    header: Y4mHeader,
    *,
    size_bytes: int,
    name: str,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Return how many whole frames a file has; of its pictures next to nothing is read.

    Args:
        read: Returns at most so many bytes (first argument) from an offset (second); none at the end.
        header: What the file's header says.
        size_bytes: The size of the file in bytes.
        name: The input as its owner wrote it, for errors.
        check: Called once per frame; ends the counting by raising.

    Raises:
        ClipError: The clip ends within a frame, holds none, or has something else where a frame must start.
    """
    counter = FrameCounter(header, name=name)
    offset = header.header_bytes
    while True:
        check()
        step = min(counter.skippable, max(size_bytes - offset, 0))
        counter.skip(step)
        offset += step
        data = read(MARKER_BYTES_MAX, offset)
        if not data:
            return counter.finish()
        counter.feed(data)
        offset += len(data)


def container_of(data: bytes) -> str | None:
    """Return the name of the media container or stream that `data` starts like; None when it is unknown."""
    if data[4:8] == b"ftyp":
        return "MOV" if data[8:10] == b"qt" else "MP4"
    for magic, name in _CONTAINERS:
        if data.startswith(magic):
            return name
    return "MPEG-TS" if data[:1] == b"\x47" and data[188:189] == b"\x47" else None


_CONTAINERS: Final = (
    (b"\x1a\x45\xdf\xa3", "Matroska or WebM"),
    (b"RIFF", "AVI"),
    (b"FLV\x01", "FLV"),
    (b"DKIF", "IVF"),
    (b"OggS", "Ogg"),
    (b"\x00\x00\x00\x01", "raw H.264 or H.265"),
    (b"\x00\x00\x01\xba", "MPEG-PS"),
    (b"\x06\x0e\x2b\x34", "MXF"),
)


def _starts_marker(line: bytes) -> bool:
    if len(line) <= len(_MARKER):
        return _MARKER.startswith(line)
    return line.startswith(_MARKER) and line[len(_MARKER) : len(_MARKER) + 1] in {b"\n", b" "}


def _header_line(data: bytes, name: str) -> bytes:
    if not data:
        raise ClipError(name, f"{quoted(name)}: empty: 0 bytes")
    head = data[:HEADER_BYTES_MAX]
    if not head.startswith(_MAGIC) or head[len(_MAGIC) : len(_MAGIC) + 1] not in {b" ", b"\n", b""}:
        container = container_of(data)
        found = f"it is {container}" if container else f"it does not start with {_MAGIC.decode()}"
        raise ClipError(name, f"{quoted(name)}: not Y4M: {found}")
    end = head.find(b"\n")
    if end < 0:
        limit = f" within {HEADER_BYTES_MAX} bytes" if len(head) == HEADER_BYTES_MAX else ""
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: it does not end{limit}")
    if not all(0x20 <= byte < 0x7F for byte in head[:end]):
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: only printable ASCII may stand in it")
    return head[:end]


def _tags(words: list[bytes], name: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for word in words:
        text = word.decode("latin-1")
        if not text:
            continue
        key, value = text[:1], text[1:]
        if key == "X":
            key, _, value = text.partition("=")
            if key not in {"XCOLORRANGE", "XYSCSS"}:
                continue
        if key in tags:
            raise ClipError(name, f"{quoted(name)}: damaged Y4M header: {key} is given twice")
        tags[key] = value
    return tags


def _dimension(tags: Mapping[str, str], tag: str, what: str, name: str) -> int:
    text = tags.get(tag, "")
    if not (text.isascii() and text.isdigit()):
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: no {what}: {quoted(tag + text)}")
    number = int(text) if len(text) <= 12 else DIMENSION_MAX + 1
    if not 1 <= number <= DIMENSION_MAX:
        raise ClipError(
            name,
            f"{quoted(name)}: {what} {bounded(text, 24)} is not supported: 1 to {DIMENSION_MAX} pixels are",
        )
    return number


def _frame_rate(text: str | None, name: str) -> tuple[int, int]:
    if text is None:
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: no frame rate")
    parts = text.split(":")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) <= 12 for p in parts):
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: frame rate {quoted(text)}")
    rate = (int(parts[0]), int(parts[1]))
    if 0 in rate:
        raise ClipError(name, f"{quoted(name)}: damaged Y4M header: frame rate {quoted(text)} is not above 0")
    return rate


def _refuse_interlaced(mode: str, name: str) -> None:
    if mode not in {"p", "?"}:
        raise ClipError(
            name, f"{quoted(name)}: interlaced ({quoted('I' + mode)}): only progressive clips can be scored"
        )


def _chroma(tag: str, name: str) -> tuple[Subsampling, int]:
    if tag in _SUBSAMPLINGS:
        return _SUBSAMPLINGS[tag], 8
    base, separator, bits = ("mono", "p", tag[4:]) if tag.startswith("mono") else tag.partition("p")
    if separator and base in {"420", "422", "444", "mono"} and bits in _DEPTHS:
        return _SUBSAMPLINGS[base], _DEPTHS[bits]
    what = "an alpha plane" if tag.endswith("alpha") else f"pixel format {quoted('C' + tag)}"
    raise ClipError(name, f"{quoted(name)}: {what} is not supported")


def _format(header: Y4mHeader) -> tuple[int, int, Subsampling, int, bool]:
    return (header.width, header.height, header.subsampling, header.depth, header.full_range)
