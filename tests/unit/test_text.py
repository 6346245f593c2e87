"""Text from outside is printable, one line and bounded before anybody sees it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.domain.text import bounded, printable, quoted, shown

ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
anything = st.text(alphabet=st.characters(exclude_categories=()))
bytes_as_text = st.binary().map(lambda data: data.decode(errors="surrogateescape"))
SOME = settings(max_examples=200, deadline=None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain text, 100 %", "plain text, 100 %"),
        ("caf\u00e9 \u6620 \U0001f3ac \u05d0", "caf\u00e9 \u6620 \U0001f3ac \u05d0"),
        ("one\ntwo\r\tthree\0", "one\\ntwo\\r\\tthree\\x00"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("del\x7f", "del\\x7f"),
        ("c1\u0085\u009b", "c1\\x85\\x9b"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("latin-1 \udce9", "latin-1 \\xe9"),
        ("half \ud83c", "half \\ud83c"),
        ("private \ue000 \U0010ffff", "private \\ue000 \\U0010ffff"),
        ("back\\slash", "back\\slash"),
    ],
)
def test_signs_that_act_are_escaped_and_others_kept(text: str, shown: str) -> None:
    assert printable(text) == shown


@SOME
@given(anything | bytes_as_text)
def test_printable_text_is_one_line_without_acting_signs(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(char) for char in shown} & ACTING
    assert len(f"{shown}.".splitlines()) == 1
    assert shown.encode().decode() == shown


@SOME
@given(anything | bytes_as_text)
def test_printable_text_is_left_alone(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@SOME
@given(anything | bytes_as_text | st.text(min_size=20, max_size=200), st.integers(16, 80))
def test_bounded_text_is_utf_8_within_the_limit(text: str, bytes_max: int) -> None:
    assert len(bounded(text, bytes_max).encode()) <= bytes_max


@SOME
@given(st.text(max_size=60), st.integers(16, 80))
def test_text_within_the_limit_is_left_alone_and_longer_text_keeps_its_ends(
    text: str, bytes_max: int
) -> None:
    cut = bounded(text, bytes_max)
    if len(text.encode()) <= bytes_max:
        assert cut == text
    else:
        head, mark, tail = cut.rpartition(" … ") if cut.count(" … ") == 1 else ("", " … ", "")
        assert mark == " … "
        assert text.startswith(head)
        assert text.endswith(tail)


def test_cut_is_in_the_middle_and_loses_no_more_than_it_must() -> None:
    text = "a" * 50 + "b" * 50
    assert bounded(text, 100) == text
    assert bounded(text, 99) == "a" * 47 + " … " + "b" * 47
    assert bounded("\u6620" * 40, 65) == "\u6620" * 10 + " … " + "\u6620" * 10


def test_unpaired_surrogates_are_escaped_before_text_is_measured() -> None:
    assert bounded("a\ud800b", 16) == "a\\ud800b"
    assert len(bounded("\udce9" * 16, 20).encode()) <= 20


def test_limit_too_small_to_show_anything_is_refused() -> None:
    assert bounded("x" * 17, 16) == "x" * 6 + " … " + "x" * 5
    with pytest.raises(ValueError, match="at least 16"):
        bounded("x", 15)


@SOME
@given(anything | bytes_as_text | st.text(min_size=1000, max_size=1500))
def test_quoted_text_is_in_quotes_printable_and_within_a_kibibyte(text: str) -> None:
    shown = quoted(text)
    assert shown[0] == shown[-1] == '"'
    assert len(shown.encode()) <= 1024 + 2
    assert not {unicodedata.category(char) for char in shown} & ACTING


def test_quoted_text_is_readable() -> None:
    assert quoted("/a b\n\u6620") == '"/a b\\n\u6620"'


@SOME
@given(anything | bytes_as_text, anything, st.integers(1, 40), st.integers(16, 60))
def test_what_is_shown_of_a_long_text_is_what_would_be_shown_of_all_of_it(
    start: str, end: str, times: int, bytes_max: int
) -> None:
    text = start * times + end
    whole = printable(text)
    data = whole.encode()
    told = shown(text, bytes_max)
    assert told == bounded(whole, bytes_max)
    if len(data) <= bytes_max:
        assert told == whole
    else:
        head, cut, tail = told.partition(" … ")
        assert cut
        room = bytes_max - len(" … ".encode())
        assert head == data[: room - room // 2].decode(errors="ignore") or "…" in whole
        assert tail == data[len(data) - room // 2 :].decode(errors="ignore") or "…" in whole


def test_no_more_of_a_text_is_escaped_than_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(text: str) -> str:
        sizes.append(len(text))
        return text

    monkeypatch.setattr("vmafx.domain.text.printable", counted)
    assert len(shown("\u2028" * 3_000_000, 256).encode()) <= 256
    assert len(quoted("\u2028" * 3_000_000).encode()) <= 1026
    assert sizes == [512, 2048]
