"""The grammar of values: what Go accepts is accepted, everything else is refused by name."""

from __future__ import annotations

import math
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.app.settings.grammar import (
    EnvironmentReader,
    boolean,
    choice,
    duration_s,
    integer,
    items,
    positive_duration_s,
    ratio,
    shown_duration,
    together,
)
from vmafx.domain.errors import ConfigurationError

NAME = "VMAFX_SOME_SETTING"
UNITS_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def refusal(parse, text):
    with pytest.raises(ConfigurationError) as caught:
        parse(NAME, text)
    assert caught.value.setting == NAME
    assert caught.value.value == text
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ms", 0.3),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h2m3s4ms5us6ns", 3723.004005006),
        ("10\u00b5s", 1e-5),
        ("10\u03bcs", 1e-5),
        ("0", 0.0),
        ("0s", 0.0),
        ("-0s", 0.0),
        ("+5s", 5.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("1s1s", 2.0),
        ("9223372036s", 9223372036.0),
    ],
)
def test_go_durations_are_read(text, seconds):
    assert duration_s(NAME, text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "ten",
        "10",
        "1",
        "-1",
        "00",
        "s",
        ".s",
        "1.2.3s",
        "1 s",
        "1S",
        "1d",
        "1e3s",
        "1_000s",
        "٣s",
        "\uff11s",
        "infs",
        "nan",
        "1s ",
        "+-1s",
        "1s-1s",
        "1ss",
        "0" * 80 + "s",
        "1h30",
        "30m,",
        "\udcff",
    ],
)
def test_other_durations_are_refused_with_the_known_words(text):
    message = refusal(duration_s, text)
    assert message.startswith(f'{NAME}="')
    assert message.endswith('" is not a duration (examples: 500ms, 10s)')


@pytest.mark.parametrize("text", ["9223372037s", "2562048h", "-2562048h"])
def test_durations_that_are_too_long_are_told_so(text):
    assert refusal(duration_s, text) == f'{NAME}="{text}" is too long (at most 2562047h)'


def test_negative_durations_are_refused():
    assert refusal(duration_s, "-1ns") == f'{NAME}="-1ns" must not be negative'


@given(
    parts=st.lists(
        st.tuples(st.integers(0, 5 * 10**5), st.sampled_from(list(UNITS_S))), min_size=1, max_size=5
    )
)
@settings(max_examples=200)
def test_a_duration_is_the_sum_of_its_parts(parts):
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = math.fsum(number * UNITS_S[unit] for number, unit in parts)
    assert duration_s(NAME, text) == pytest.approx(expected, rel=1e-12)


@given(text=st.text(max_size=20))
@settings(max_examples=300)
def test_any_text_is_read_or_refused_by_name(text):
    for parse in (duration_s, boolean, integer(1, 9), choice(Colour, "one of {words}")):
        try:
            parse(NAME, text)
        except ConfigurationError as refused:
            assert refused.setting == NAME  # noqa: PT017 - both ways are allowed
            assert "\n" not in str(refused)  # noqa: PT017 - the same


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_in_all_its_spellings(text):
    assert boolean(NAME, text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_false_in_all_its_spellings(text):
    assert boolean(NAME, text) is False


@pytest.mark.parametrize("text", ["maybe", "yes", "no", "on", "off", "tRUE", "01", "2", "y"])
def test_other_booleans_are_refused(text):
    assert refusal(boolean, text) == f'{NAME}="{text}" is not a boolean'


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("64", 64), ("+7", 7), ("007", 7)])
def test_integers_within_their_range_are_read(text, number):
    assert integer(1, 64)(NAME, text) == number


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.0", "1e1", "0x1", "1_0", "٣", "", "ten", "9" * 5000])
def test_other_integers_are_refused_with_the_range(text):
    message = refusal(integer(1, 64), text)
    assert message.endswith(" must be an integer from 1 to 64")
    assert len(message) < 1200


def test_a_choice_is_one_of_its_words_and_case_matters():
    parse = choice(Colour, "must be one of {words}")
    assert parse(NAME, "red") is Colour.RED
    assert refusal(parse, "Red") == f'{NAME}="Red" must be one of red, blue'


@pytest.mark.parametrize("value", ["", " ", "\t\n"])
def test_blank_means_unset(value):
    read = EnvironmentReader({NAME: value})
    assert read.text(NAME) is None
    assert read.value(NAME, integer(1, 9), 5) == 5
    read.finish()


def test_values_are_trimmed():
    read = EnvironmentReader({NAME: "  300ms\n"})
    assert read.value(NAME, duration_s, 0.0) == 0.3
    read.finish()


def test_all_problems_are_told_at_once_and_in_order():
    read = EnvironmentReader({"A": "x", "B": "1", "C": "y"})
    for name in "ABC":
        read.value(name, boolean, default=False)
    with pytest.raises(ConfigurationError) as caught:
        read.finish()
    assert caught.value.setting == "A"
    assert [other.setting for other in caught.value.others] == ["C"]
    assert str(caught.value) == 'A="x" is not a boolean; C="y" is not a boolean'


def test_a_value_with_escape_sequences_is_shown_escaped():
    assert refusal(boolean, "\x1b[2Jon\n") == rf'{NAME}="\x1b[2Jon\n" is not a boolean'


@pytest.mark.parametrize("text", ["0", "0s", "-0s", "-1s", "-2562048h"])
def test_a_duration_that_must_be_positive_refuses_others(text):
    assert refusal(positive_duration_s, text) == f'{NAME}="{text}" must be positive'


def test_a_duration_that_must_be_positive_is_a_duration():
    assert positive_duration_s(NAME, "1ns") == 1e-9
    assert refusal(positive_duration_s, "-ten").endswith("is not a duration (examples: 500ms, 10s)")


@given(seconds=st.one_of(st.integers(0, 10**7).map(float), st.floats(1e-9, 1e6)))
def test_a_duration_is_shown_as_it_can_be_read(seconds):
    shown = shown_duration(seconds)
    if len(shown) <= 64:
        assert duration_s(NAME, shown) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.3, "0.3s"), (90.0, "1m30s"), (5400.0, "1h30m"), (1800, "30m"), (10, "10s")],
)
def test_durations_are_shown_shortly(seconds, text):
    assert shown_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0.0), ("1", 1.0), ("0.25", 0.25), (".5", 0.5), ("1.", 1.0)]
)
def test_ratios_are_read(text, number):
    assert ratio(NAME, text) == number


@pytest.mark.parametrize("text", ["1.01", "-0.1", "nan", "1e-1", "0,5", "5%", "\u0660", "."])
def test_other_ratios_are_refused(text):
    assert refusal(ratio, text) == f'{NAME}="{text}" must be a number from 0 to 1'


@given(entries=st.lists(st.text(st.characters(exclude_characters=","), max_size=5), max_size=6))
def test_a_list_keeps_its_entries_in_order_but_for_blank_ones(entries):
    assert items(",".join(entries)) == tuple(entry.strip() for entry in entries if entry.strip())


def test_the_problems_of_a_group_are_told_together_and_last():
    problems = [
        ConfigurationError("A", "wrong", value="1", group="some group"),
        ConfigurationError("B", "wrong"),
        ConfigurationError("C", "what C is", group="some group", named=True),
    ]
    told = together(problems)
    assert str(told) == 'B: wrong; some group: A="1" wrong; what C is'
    assert [str(problem) for problem in told.all] == [
        "B: wrong",
        'some group: A="1" wrong',
        "some group: what C is",
    ]
    assert str(together(told.all)) == str(told)
