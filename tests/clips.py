"""Small clips for tests: a moving pattern and a coarser, noisy version of it; the same bytes on every run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

SIZE: Final = (64, 48)
FRAMES: Final = 6
PLAIN_SCORE: Final = 95.227


def _noise(seed: int) -> Iterator[int]:
    state = (seed * 2654435761 + 12345) & 0xFFFFFFFF
    while True:
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        yield state >> 24


def _samples(width: int, height: int, frame: int, *, distorted: bool, depth: int, seed: int) -> list[int]:
    top = (1 << depth) - 1
    noise = _noise(seed * 1000 + frame)
    out: list[int] = []
    for y in range(height):
        for x in range(width):
            value = ((x + frame) * 5 + y * 3) % 200 + 28
            if (x // 7 + y // 5) % 2:
                value += 20
            if distorted:
                value = value // 20 * 20 + next(noise) % 37 - 18
            out.append(max(0, min(255, value)) * top // 255)
    return out


def _packed(samples: list[int], depth: int) -> bytes:
    if depth == 8:
        return bytes(samples)
    return b"".join(v.to_bytes(2, "little") for v in samples)


def _chroma_size(width: int, height: int, sub: str) -> tuple[int, int]:
    return {
        "420": ((width + 1) // 2, (height + 1) // 2),
        "422": ((width + 1) // 2, height),
        "411": ((width + 3) // 4, height),
        "444": (width, height),
        "mono": (0, 0),
    }[sub]


def picture(
    width: int, height: int, frame: int, *, distorted: bool, sub: str = "420", depth: int = 8
) -> bytes:
    """One planar picture without a marker line."""
    chroma_width, chroma_height = _chroma_size(width, height, sub)
    planes = [(width, height, 1)]
    if chroma_width:
        planes += [(chroma_width, chroma_height, 2), (chroma_width, chroma_height, 3)]
    return b"".join(
        _packed(_samples(w, h, frame, distorted=distorted, depth=depth, seed=seed), depth)
        for w, h, seed in planes
    )


def raw(
    *, distorted: bool, size: tuple[int, int] = SIZE, frames: int = FRAMES, sub: str = "420", depth: int = 8
) -> bytes:
    """Pictures one after the other, without any header."""
    return b"".join(picture(*size, n, distorted=distorted, sub=sub, depth=depth) for n in range(frames))


def y4m(
    *,
    distorted: bool,
    size: tuple[int, int] = SIZE,
    frames: int = FRAMES,
    sub: str = "420",
    depth: int = 8,
    tag: str | None = None,
    rate: str = "F25:1",
    interlace: str = "Ip",
    extra: str = "",
    marker: bytes = b"FRAME\n",
    magic: str = "YUV4MPEG2",
    end: str = "\n",
) -> bytes:
    """A Y4M clip; each part of its header can be chosen, and left out with an empty text."""
    if tag is None:
        tag = f"C{sub}" + ("" if depth == 8 else f"p{depth}")
    parts = [magic, f"W{size[0]}", f"H{size[1]}", rate, interlace, "A1:1", tag, extra]
    head = " ".join(part for part in parts if part) + end
    body = b"".join(
        marker + picture(*size, n, distorted=distorted, sub=sub, depth=depth) for n in range(frames)
    )
    return head.encode("ascii") + body
