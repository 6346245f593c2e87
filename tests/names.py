"""File names that trip programs, each with what is awkward about it; and clips under such names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Awkward:
    """A file name.

    Attributes:
        what: What is awkward about it, as an id for tests.
        raw: The name's bytes.
        refused: Whether no source reference may hold it: a control character or a backslash.
    """

    what: str
    raw: bytes
    refused: bool = False

    @property
    def is_utf8(self) -> bool:
        """Whether the name can be written in a job at all."""
        try:
            self.raw.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def name(self) -> str:
        """The name as Python has it; bytes that are no UTF-8 are surrogates."""
        return os.fsdecode(self.raw)

    def __str__(self) -> str:
        return self.what


def _fine(what: str, name: str | bytes) -> Awkward:
    return Awkward(what=what, raw=name if isinstance(name, bytes) else name.encode())


def _refused(what: str, name: str) -> Awkward:
    return Awkward(what=what, raw=name.encode(), refused=True)


AWKWARD: Final = (
    # blanks
    _fine("space", "two words.y4m"),
    _fine("leading-spaces", "   indented.y4m"),
    _fine("space-before-dot", "blank .y4m"),
    _fine("no-break-space", "glued\u00a0words.y4m"),
    # quoting and shells
    _fine("single-quote", "don't.y4m"),
    _fine("double-quotes", 'so "called".y4m'),
    _fine("backticks", "`id`.y4m"),
    _fine("variable", "$PATH.y4m"),
    _fine("substitution", "$(touch made-by-shell).y4m"),
    _fine("command-separator", ";touch made-by-shell;.y4m"),
    _fine("ampersand-and-pipe", "this&that|other.y4m"),
    _fine("redirect", ">made-by-shell.y4m"),
    _fine("glob", "[ab]*?.y4m"),
    _fine("braces", "{a,b}.y4m"),
    _fine("home", "~root.y4m"),
    _fine("exclamation", "!!.y4m"),
    # what looks like another kind of source
    _fine("colons", "12:34:56.y4m"),
    _fine("remote", "media:clip.y4m"),
    _fine("on-the-fly-remote", ":local:clip.y4m"),
    _fine("url-scheme", "https:__host_clip.y4m"),
    _fine("file-scheme", "file:clip.y4m"),
    # what URLs encode
    _fine("percent", "50% off.y4m"),
    _fine("encoded-looking", "twice%2520encoded.y4m"),
    _fine("encoded-parent", "%2e%2e%2fup.y4m"),
    _fine("broken-escape", "broken%4.y4m"),
    _fine("question-mark", "what?.y4m"),
    _fine("hash", "no#1.y4m"),
    _fine("plus", "a+b.y4m"),
    _fine("equals-and-comma", "key=value,other=value.y4m"),
    _fine("at", "me@host.y4m"),
    # what looks like an option, a directory or nothing
    _fine("short-option", "-d.y4m"),
    _fine("long-option", "--config=x.y4m"),
    _fine("dash-only", "-"),
    _fine("hidden", ".clip.y4m"),
    _fine("dots", "...y4m"),
    _fine("three-dots", "..."),
    _fine("no-ending", "clip"),
    _fine("upper-case-ending", "CLIP.Y4M"),
    # other scripts
    _fine("accents", "caf\u00e9.y4m"),
    _fine("accents-decomposed", "cafe\u0301.y4m"),
    _fine("cjk", "\u52d5\u753b.y4m"),
    _fine("emoji", "\U0001f39e.y4m"),
    _fine("right-to-left", "\u05e9\u05dc\u05d5\u05dd.y4m"),
    _fine("direction-override", "\u202em4y.exe.y4m"),
    _fine("line-separator", "one\u2028two.y4m"),
    _fine("full-width-slash", "left\uff0fright.y4m"),
    _fine("longest", "n" * 251 + ".y4m"),
    # bytes that are no UTF-8
    _fine("latin-1", b"caf\xe9.y4m"),
    _fine("not-utf-8", b"\xfe\xff.y4m"),
    # refused
    _refused("newline", "one\ntwo.y4m"),
    _refused("tab", "one\ttwo.y4m"),
    _refused("carriage-return", "one\rtwo.y4m"),
    _refused("bell", "ring\x07.y4m"),
    _refused("escape-sequence", "\x1b]0;title\x07.y4m"),
    _refused("delete", "rub\x7fout.y4m"),
    _refused("c1-control", "next\u0085line.y4m"),
    _refused("backslash", "left\\right.y4m"),
    _refused("windows-path", "D:\\clips\\clip.y4m"),
)


def plant(folder: Path, data: bytes) -> list[Awkward]:
    """Write `data` under every awkward name that the file system takes; return those it took."""
    planted: list[Awkward] = []
    for awkward in AWKWARD:
        try:
            Path(folder, awkward.name).write_bytes(data)
        except OSError:  # a file system may refuse names that are no UTF-8, or long ones
            continue
        planted.append(awkward)
    return planted
