"""Text from outside made fit for an error, a log line or a terminal: printable, bounded, one line."""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["bounded", "has_control", "printable", "quoted", "shown"]

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_CUT: Final = " … "
_SHOWN_BYTES_MAX: Final = 1024


def printable(text: str) -> str:
    r"""Return `text` with every character that could act on a terminal or a log escaped.

    Control characters, line and paragraph separators, invisible format characters (the ones that turn the
    direction of text among them) and bytes that are no UTF-8 become `\n`, `\t`, `\x1b`, `\u202e` and so on.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _UNSAFE else c for c in text)


def has_control(text: str) -> bool:
    """Return whether a text holds a control character: nobody reads them, and not every store keeps them."""
    return not text.isprintable() and any(unicodedata.category(char) == "Cc" for char in text)


def quoted(text: str) -> str:
    """Return `text` printable, bounded to 1 KiB and in double quotes, as error texts show names."""
    return f'"{shown(text, _SHOWN_BYTES_MAX)}"'


def shown(text: str, bytes_max: int) -> str:
    """Return `text` printable and bounded: what `bounded` makes of what `printable` makes of it.

    However long the text is, no more of it is looked at than can be shown.

    Args:
        text: Any text.
        bytes_max: The limit in bytes, at least 16.

    Raises:
        ValueError: `bytes_max` is below 16.
    """
    return bounded(printable(_ends(text, bytes_max)), bytes_max)


def bounded(text: str, bytes_max: int) -> str:
    """Return `text` in at most `bytes_max` bytes of UTF-8, cut in the middle and marked where it was cut.

    Args:
        text: Any text; unpaired surrogates, which are no UTF-8, are escaped first.
        bytes_max: The limit in bytes, at least 16.

    Raises:
        ValueError: `bytes_max` is below 16.
    """
    if bytes_max < 16:
        raise ValueError("bytes_max must be at least 16")
    if text.isascii() and len(text) <= bytes_max:  # nearly always; logs ask for every word they write
        return text
    data = _ends(text, bytes_max).encode(errors="backslashreplace")
    if len(data) <= bytes_max:
        return data.decode()
    room = bytes_max - len(_CUT.encode())
    head = data[: room - room // 2].decode(errors="ignore")
    tail = data[len(data) - room // 2 :].decode(errors="ignore")
    return head + _CUT + tail


def _ends(text: str, bytes_max: int) -> str:
    """Leave out of a long text what is cut out of it anyway: a character is never less than a byte."""
    return text if len(text) <= 2 * bytes_max else text[:bytes_max] + text[-bytes_max:]


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that os.fsdecode could not read
        return f"\\x{code - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
