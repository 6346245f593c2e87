"""JsonStream: strict JSON read from chunks, one value at a time, in memory bounded by its largest value.

`json.loads` would hold a report of hundreds of megabytes three times over (ADR 0005). Here the top of the
document is walked by hand, and each value below it is decoded by the standard library's decoder on a window
of text that grows only while one value does not fit.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["CHUNK_BYTES", "JsonStream", "JsonStreamError"]

CHUNK_BYTES: Final = 1 << 18
"""How much text a window takes at first, in bytes."""

_NUMBER_TAIL: Final = len("e+1")
"""A number this near to the end of the window may go on after it: `1` may be the start of `1e+10`."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BOM: Final = "\ufeff"


class JsonStreamError(Exception):
    """The text is no strict JSON, or gives a key twice."""


class JsonStream:
    """Reads one JSON document; numbers come as floats, so that one too large for a float is infinite.

    Args:
        chunks: The document's bytes, in order; a byte order mark at the start is passed over.
    """

    __slots__ = ("_before", "_chunks", "_decode", "_decoder", "_ended", "_position", "_window")

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8")("strict")
        self._decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_int=float)
        self._window = ""
        self._position = 0
        self._before = 0
        self._ended = False
        if self.next_character() == _BOM:
            self._position += 1

    def next_character(self) -> str:
        """Return the next character that is no white space, without taking it; empty at the end."""
        while True:
            self._position = _match_end(self._window, self._position)
            if self._position < len(self._window):
                return self._window[self._position]
            if self._ended:
                return ""
            self._grow(CHUNK_BYTES)

    def value(self) -> object:
        """Take the next value.

        Raises:
            JsonStreamError: There is none, or it is damaged.
        """
        self.next_character()
        size = CHUNK_BYTES
        while True:
            try:
                value, end = self._decoder.raw_decode(self._window, self._position)
            except json.JSONDecodeError as error:
                if self._ended:
                    raise self._error(error.msg, error.pos) from None
            except RecursionError:
                raise self._error("nested too deeply", self._position) from None
            else:
                if self._ended or end + _NUMBER_TAIL < len(self._window):
                    self._position = end
                    return value
            self._grow(size)
            size *= 2

    def members(self) -> Iterator[str]:
        """Take an object, yielding each key; the caller takes its value before it asks for the next.

        Yields:
            The key of each member.

        Raises:
            JsonStreamError: It is no object, is damaged, or gives a key twice.
        """
        seen = set[str]()
        for _ in self._items("{", "}"):
            if self.next_character() != '"':
                raise self._error("expecting a key in double quotes")
            key = self.value()
            if not isinstance(key, str) or key in seen:
                raise self._error(f"key {ascii(key)[:64]} is given twice")
            seen.add(key)
            self._take(":")
            yield key

    def elements(self) -> Iterator[object]:
        """Take an array, yielding each element.

        Yields:
            Each element.

        Raises:
            JsonStreamError: It is no array, or is damaged.
        """
        for _ in self._items("[", "]"):
            yield self.value()

    def end(self) -> None:
        """Check that nothing is left.

        Raises:
            JsonStreamError: Something is left.
        """
        if self.next_character():
            raise self._error("extra data after the document")

    def _items(self, opening: str, closing: str) -> Iterator[None]:
        self._take(opening)
        if self.next_character() == closing:
            self._take(closing)
            return
        while True:
            yield
            if self.next_character() == closing:
                self._take(closing)
                return
            self._take(",")

    def _take(self, character: str) -> None:
        if self.next_character() != character:
            raise self._error(f"expecting {character!r}")
        self._position += 1

    def _grow(self, size: int) -> None:
        """Drop what was taken and add at least one chunk, up to `size` bytes of them.

        Raises:
            JsonStreamError: They are no UTF-8.
        """
        parts = [self._window[self._position :]]
        self._before += self._position
        self._position = 0
        while size > 0 and not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            try:
                parts.append(self._decode.decode(chunk or b"", final=self._ended))
            except UnicodeDecodeError as error:
                raise JsonStreamError(f"not UTF-8: {error.reason}") from None
            size -= len(chunk or b"")
        self._window = "".join(parts)

    def _error(self, problem: str, position: int | None = None) -> JsonStreamError:
        at = self._before + (self._position if position is None else position)
        return JsonStreamError(f"{problem} at character {at}")


def _match_end(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen = set[str]()
        for key, _ in pairs:
            if key in seen:
                raise JsonStreamError(f"key {ascii(key)[:64]} is given twice")
            seen.add(key)
    return members
