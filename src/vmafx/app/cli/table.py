"""Tables of plain text that fit a terminal of any width."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from vmafx.domain.text import printable

__all__ = ["labelled"]

_GAP: Final = 2
_TEXT_COLUMNS_MIN: Final = 16
"""A text column narrower than this is put below its label instead."""


def labelled(rows: Sequence[tuple[str, str]], width: int | None) -> str:
    """Return the rows as lines: a column of labels, and beside it the texts, folded where they must be.

    Args:
        rows: Labels and texts; texts are made printable.
        width: Columns of the terminal; None folds nothing.
    """
    column = max((_columns(label) for label, _ in rows), default=0) + _GAP
    return "".join(
        line + "\n" for label, text in rows for line in _row(label, printable(text), column, width)
    )


def _row(label: str, text: str, column: int, width: int | None) -> Iterator[str]:
    beside = f"{label}{' ' * (column - _columns(label))}{text}".rstrip()
    if width is None or _columns(beside) <= width:
        yield beside
        return
    if width - column >= _TEXT_COLUMNS_MIN:
        first, *rest = _folded(text, width - column)
        yield f"{label}{' ' * (column - _columns(label))}{first}"
        yield from (" " * column + part for part in rest)
        return
    yield from _folded(label, width)
    indent = " " if width > 2 else ""
    yield from (indent + part for part in _folded(text, width - len(indent)))


def _folded(text: str, width: int) -> Iterator[str]:
    """Fold the text at spaces where there are some.

    Yields:
        At least one piece; each of at most `width` columns.
    """
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if _columns(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        *full, line = _cut(word, width)
        yield from full
    yield line


def _cut(word: str, width: int) -> list[str]:
    pieces = [""]
    for char in word:
        if pieces[-1] and _columns(pieces[-1]) + _columns(char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces


def _columns(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
