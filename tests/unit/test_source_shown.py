"""What logs and errors show of a source: the input as written, and no secret of it (ADR 0011)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.domain.errors import SourceSyntaxError
from vmafx.domain.source import SHOWN_BYTES_MAX, SourceRef, shown_source

SECRET = "s3cr3tw0rd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/a/what?#.y4m", "/a/what?#.y4m"),
        ("/a/http://u:p@h/x?y", "/a/http://u:p@h/x?y"),
        ("file:///a%3Fb", "file:///a%3Fb"),
        ("media:what?#.y4m", "media:what?#.y4m"),
        ("media:key=value,other.y4m", "media:key=value,other.y4m"),
        ("rclone://media:what?.y4m", "rclone://media:what?.y4m"),
        ("http://host/a", "http://host/a"),
        ("http://host/a@b", "http://host/a@b"),
        ("HTTP://Host:80/a%20b", "HTTP://Host:80/a%20b"),
        ("\u6620.y4m", "\u6620.y4m"),
        ("/a\n\x1b[31m", "/a\\n\\x1b[31m"),
        ("/\u202egnp", "/\\u202egnp"),
        ("/caf\udce9", "/caf\\xe9"),
        ("/\ud800", "/\\ud800"),
        (" /blanks ", "/blanks"),
    ],
)
def test_input_is_shown_as_written_with_acting_signs_escaped(text: str, shown: str) -> None:
    assert shown_source(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"https://host/a?sig={SECRET}", "https://host/a"),
        (f"https://host/a#{SECRET}", "https://host/a"),
        (f"https://user:{SECRET}@host/a", "https://host/a"),
        (f"https://{SECRET}@host:1/a", "https://host:1/a"),
        (f"s3://{SECRET}@bucket/a?x={SECRET}", "s3://bucket/a"),
        (f"sftp://user:{SECRET}@host/a", "sftp://host/a"),
        # malformed or misread: cut generously
        (f"https://host:99999/a?sig={SECRET}", "https://host:99999/a"),
        (f"https://user:{SECRET}@ho st/a", "https://ho st/a"),
        (f"https://user:{SECRET}/x@host/a", "https://host/a"),
        (f"https://user:{SECRET}#x@host/a", "https://…"),
        (f"https://user:{SECRET}?x@host/a", "https://…"),
        (f"https:/user:{SECRET}@host/a?{SECRET}", "https:/host/a"),
        (f"http:user:{SECRET}@host/a?{SECRET}", "http:host/a"),
        (f"https:\\\\host\\a?sig={SECRET}", "https:\\\\host\\a"),
        (f"htt:p://user:{SECRET}@host/a?{SECRET}", "htt:p://host/a"),
        (f" see https://host/a?sig={SECRET}", "see https://host/a"),
        (f"rclone://http:/host/a?{SECRET}", "rclone://http:/host/a"),
        (f":sftp,user=me,pass={SECRET}:a", ":sftp,…"),
        (f"media,pass='{SECRET}':a", "media,…"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert shown_source(text) == shown


_GARBAGE = st.sampled_from(
    [" ", "@", "%", "%zz", "[", "]", "\u00e9", ":", "\\", "\n", ",", "\ud800", "\u202e"]
)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(["http", "https", "HTTP", "s3", "sftp"]))
def test_no_secret_of_a_link_is_shown_however_it_is_mistyped(data: st.DataObject, scheme: str) -> None:
    parts = [scheme, ":", "//", "user", ":", SECRET, "@", "host", "/clip", "?sig=", SECRET, "#", SECRET]
    for _ in range(data.draw(st.integers(0, 3))):
        parts.insert(data.draw(st.integers(0, len(parts))), data.draw(_GARBAGE))
    text = "".join(parts)
    assert SECRET not in shown_source(text)
    assert SECRET not in _seen_of(text)


def _seen_of(text: str) -> str:
    """What a careless log line could show."""
    try:
        return repr(SourceRef.parse(text))
    except SourceSyntaxError as error:
        return f"{error} {error.source} {error!r}"


def test_long_input_is_cut_in_the_middle() -> None:
    shown = shown_source("/" + "n" * 5000 + "/end.y4m")
    assert shown.startswith("/nnn")
    assert shown.endswith("n/end.y4m")
    assert " … " in shown
    assert len(shown.encode()) <= SHOWN_BYTES_MAX
