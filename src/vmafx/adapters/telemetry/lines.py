"""One record as one line: JSON for programs, a tinted form for people (ADR 0020)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from vmafx.adapters.telemetry.fitting import Scalar, spelled
from vmafx.domain.text import bounded, printable
from vmafx.ports.telemetry import Level

__all__ = ["LINE_BYTES_MAX", "Record", "json_line", "tint_line"]

LINE_BYTES_MAX: Final = 16 * 1024
"""The longest line in bytes, its end included: container runtimes split longer ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one line says.

    Attributes:
        at: When it was said, aware.
        level: How much it matters.
        message: The fixed text.
        fields: Names and fit values in the order of the line; of two with one name the later is renamed.
    """

    at: datetime
    level: Level
    message: str
    fields: tuple[tuple[str, Scalar], ...] = field(default=())


def json_line(record: Record) -> bytes:
    """Return one JSON object in one line: `time`, `level`, `msg`, then the fields.

    Every character beyond the printable ones is escaped, so that no terminal and no reader of lines acts on
    it. A field whose name is taken gets `_` behind it.
    """
    return _shrunk(record, _json)


def tint_line(record: Record, *, colour: bool) -> bytes:
    """Return one line for people: time, level, message, then `name=value`.

    Args:
        record: What it says.
        colour: Whether ANSI colours are in it.
    """

    def form(record: Record) -> str:
        return _tint(record, _COLOURS if colour else _PLAIN)

    return _shrunk(record, form)


def _json(record: Record) -> str:
    head = {
        "time": _utc(record.at, "microseconds"),
        "level": record.level.value.upper(),
        "msg": record.message,
    }
    said: dict[str, Scalar] = {**head}
    for name, value in record.fields:
        said[_free(name, said)] = (spelled(value) or value) if isinstance(value, float) else value
    return _escaped(json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] if c != "\x7f" else "\\u007f" for c in line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Palette:
    levels: Mapping[Level, str]
    faint: str
    error: str
    off: str


_PLAIN: Final = _Palette(levels=dict.fromkeys(Level, ""), faint="", error="", off="")
_COLOURS: Final = _Palette(
    levels={
        Level.DEBUG: "\x1b[35m",
        Level.INFO: "\x1b[32m",
        Level.WARN: "\x1b[33m",
        Level.ERROR: "\x1b[31m",
    },
    faint="\x1b[2m",
    error="\x1b[31m",
    off="\x1b[0m",
)


def _tint(record: Record, palette: _Palette) -> str:
    off = palette.off
    words = [
        f"{palette.faint}{_utc(record.at, 'milliseconds')}{off}",
        f"{palette.levels[record.level]}{record.level.value.upper():5}{off}",
        printable(record.message),
    ]
    for name, value in record.fields:
        shade = palette.error if name == "error" else palette.faint
        words.append(f"{shade}{_word(name)}={off}{_word(_shown(value))}")
    return " ".join(words)


def _shown(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return spelled(value) or repr(value)
        case _:
            return str(value)


def _word(text: str) -> str:
    shown = printable(text)
    plain = shown and not any(c in shown for c in ' "=')
    return shown if plain else '"' + shown.replace('"', '\\"') + '"'


def _utc(at: datetime, precision: str) -> str:
    return at.astimezone(UTC).isoformat(timespec=precision).removesuffix("+00:00") + "Z"


_CUTS: Final = ((12288, 64), (8192, 64), (4096, 64), (1024, 64), (256, 64), (64, 64), (64, 16))
"""Bytes of a text and number of fields, ever smaller; the last fits whatever the texts are."""


def _shrunk(record: Record, form: Callable[[Record], str]) -> bytes:
    for text_bytes_max, fields_max in _CUTS:
        cut = _cut(record, text_bytes_max, fields_max)
        if _characters(cut) < LINE_BYTES_MAX:  # else there is no need to try
            line = form(cut).encode() + b"\n"
            if len(line) <= LINE_BYTES_MAX:
                return line
    raise AssertionError("the last cut fits whatever the texts are")


def _characters(record: Record) -> int:
    texts = (text for pair in record.fields for text in pair if isinstance(text, str))
    return len(record.message) + sum(map(len, texts))


def _cut(record: Record, bytes_max: int, fields_max: int) -> Record:
    fields = tuple(
        (bounded(name, bytes_max), bounded(value, bytes_max) if isinstance(value, str) else value)
        for name, value in record.fields[:fields_max]
    )
    return replace(record, message=bounded(record.message, bytes_max), fields=fields)
