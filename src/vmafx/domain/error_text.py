"""The error text of a report: one bounded line that holds no secret of a URL (ADR 0018)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from vmafx.domain.text import bounded, printable

__all__ = ["ERROR_BYTES_MAX", "READ_CHARACTERS_MAX", "report_text", "without_secrets"]

ERROR_BYTES_MAX: Final = 4096
"""Longest error text of a report, in bytes of UTF-8."""
READ_CHARACTERS_MAX: Final = 16 * 1024
"""How much of a text is looked at, in characters: of a longer one its two ends."""

_UNTOLD: Final = "no reason was given"
_CUT: Final = " … "
_LINK: Final = re.compile(
    r"""(?P<mark>["'`]?)                                  # a quoted link may hold spaces
        (?P<start>(?:\b[a-z][a-z0-9+.-]{0,31}:)?//|\bhttps?:/*)
        (?P<rest>[^ ]*)""",
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_QUOTE: Final = re.compile(r"""["`]|(?<!\w)'|'(?!\w)""")
"""A quotation mark; the one in `can't` is none."""
_CLOSERS: Final[Mapping[str, tuple[re.Pattern[str], ...]]] = {
    '"': (re.compile('"'),),
    "`": (re.compile("`"),),
    "'": (re.compile(r"'(?!\w)"), re.compile("'")),
}
"""What closes a quotation; a later form counts where an earlier one is nowhere."""
_CLOSING: Final = re.compile(r"""["'`][.,:;)\]}]{0,4}$""")
_AFTER_PLACE: Final = re.compile(r"[?#]")
_BEFORE_HOST: Final = ("http:", "https:")


def report_text(text: str) -> str:
    """Return `text` as a report may carry it.

    The answer is never empty, has at most 4 KiB of UTF-8, cut in the middle, and no character that acts on a
    terminal or a log. Of whatever looks like a URL, user info, query and fragment are left out; where it
    cannot be told how far a link goes, rather too much is left out than too little. However long the text
    is, the work is bounded.
    """
    return without_secrets(text, ERROR_BYTES_MAX).strip() or _UNTOLD


def without_secrets(text: str, bytes_max: int) -> str:
    """Return `text` as `report_text` does, within another limit, and perhaps empty.

    Args:
        text: Any text.
        bytes_max: The limit in bytes of UTF-8, at least 16.

    Raises:
        ValueError: `bytes_max` is below 16.
    """
    if len(text) <= READ_CHARACTERS_MAX:
        return bounded(_Cleaner(printable(text)).cleaned(), bytes_max)
    head = _Cleaner(printable(text[: READ_CHARACTERS_MAX // 2]), goes_on=True).cleaned()
    tail = _from_a_certain_word(printable(text[-READ_CHARACTERS_MAX // 2 :]))
    return bounded(head + _CUT + _Cleaner(tail, began_before=True).cleaned(), bytes_max)


def _from_a_certain_word(tail: str) -> str:
    """Leave out of the end of a text what may be the rest of a link, quoted or not, that began before it."""
    certain = max(tail.find(mark) for mark in _CLOSERS)
    return tail[max(certain, 0) :].partition(" ")[2]


class _Cleaner:
    """Leaves the secrets of links out of a printable text; the work grows with the text, and no faster.

    Args:
        text: The text.
        goes_on: Whether it was cut off at its end, so that its last link may go on.
        began_before: Whether it was cut off at its start, so that any quotation may be open.
    """

    def __init__(self, text: str, *, goes_on: bool = False, began_before: bool = False) -> None:
        self._text = text
        self._goes_on = goes_on
        self._began_before = began_before
        self._counted = 0
        self._odd: set[str] = set()
        self._closing: dict[str, int] = {}

    def cleaned(self) -> str:
        kept: list[str] = []
        done = 0
        while found := _LINK.search(self._text, done):
            start = found.start("rest")
            quotes = self._open_quotes(found)
            end = self._end_of(found, quotes)
            kept += [self._text[done:start], self._without_secret(start, end, quoted=bool(quotes))]
            done = end
        kept.append(self._text[done:])
        return "".join(kept)

    def _open_quotes(self, found: re.Match[str]) -> set[str]:
        """Return the marks of the quotations that a link may stand in."""
        if self._began_before:
            return set(_CLOSERS)
        start = found.start("start")
        for quote in _QUOTE.finditer(self._text, self._counted, start):
            self._odd ^= {quote[0]}
        self._counted = start
        return self._odd | ({found["mark"]} - {""})

    def _end_of(self, found: re.Match[str], quotes: set[str]) -> int:
        """Return where a link ends: at a blank, and not before the marks that close what it stands in."""
        end = found.end()
        for mark in quotes:
            closing = self._closing_after(mark, found.start("rest"))
            if closing < 0:
                end = len(self._text) if self._goes_on else end
            elif closing >= end:
                blank = self._text.find(" ", closing)
                end = len(self._text) if blank < 0 else blank
        return end

    def _closing_after(self, mark: str, start: int) -> int:
        known = self._closing.get(mark, 0)
        if 0 <= known < start or mark not in self._closing:
            hits = (closer.search(self._text, start) for closer in _CLOSERS[mark])
            known = next((hit.start() for hit in hits if hit), -1)
            self._closing[mark] = known
        return known

    def _without_secret(self, start: int, end: int, *, quoted: bool) -> str:
        if self._goes_on and end == len(self._text):
            return "…"
        link = self._text[start:end]
        closing = _CLOSING.search(link) if quoted else None
        return _place(link[: closing.start()]) + closing[0] if closing else _place(link)


def _place(rest: str) -> str:
    """Return hosts and paths of what follows the `//` of a link; another link may follow in it."""
    place = _AFTER_PLACE.split(rest, maxsplit=1)[0]
    if "@" in rest and "@" not in place:  # perhaps a password that holds "?" or "#"
        return "…"
    kept: list[str] = []
    before = ""
    for part in place.split("/"):
        is_host = not before or before.lower().endswith(_BEFORE_HOST)
        kept.append(part.rpartition("@")[2] if is_host else part)
        before = part
    return "/".join(kept)
