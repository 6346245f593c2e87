"""A command line taken apart: every option in every form, and nothing ignored (ADR 0009)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.engine_options import OPTIONS, USAGE, read_options
from vmafx.domain.errors import ConfigurationError

STOCK_SHORT = {
    "reference": "r",
    "distorted": "d",
    "width": "w",
    "height": "h",
    "pixel_format": "p",
    "bitdepth": "b",
    "model": "m",
    "output": "o",
    "version": "v",
    "quiet": "q",
}
STOCK_LONG_ONLY = {
    "xml": "",
    "json": "",
    "csv": "",
    "sub": "",
    "threads": "8",
    "feature": "psnr",
    "subsample": "2",
    "frame_cnt": "3",
    "cpumask": "0",
    "gpumask": "4294967295",
    "backend": "cpu",
    "progress-fd": "5",
}
WITH_VALUE = [option for option in OPTIONS if option.value]
SWITCHES = [option for option in OPTIONS if not option.value]


def names(options):
    return [option.name for option in options]


def test_the_options_are_those_of_a_stock_command_line():
    assert {o.name: o.short for o in OPTIONS if o.short} == STOCK_SHORT
    assert {o.name for o in OPTIONS if not o.short} == {*STOCK_LONG_ONLY, "help"}


@pytest.mark.parametrize("option", WITH_VALUE, ids=names(WITH_VALUE))
def test_a_value_is_taken_in_every_form(option):
    expected = {option.name: ["VALUE"]}
    assert read_options([f"--{option.name}", "VALUE"]) == expected
    assert read_options([f"--{option.name}=VALUE"]) == expected
    if option.short:
        assert read_options([f"-{option.short}", "VALUE"]) == expected
        assert read_options([f"-{option.short}VALUE"]) == expected


@pytest.mark.parametrize("option", SWITCHES, ids=names(SWITCHES))
def test_a_switch_is_taken_in_every_form_and_takes_no_value(option):
    assert read_options([f"--{option.name}"]) == {option.name: [""]}
    if option.short:
        assert read_options([f"-{option.short}"]) == {option.name: [""]}
    with pytest.raises(ConfigurationError, match=f"--{option.name}: takes no value"):
        read_options([f"--{option.name}=x"])


@pytest.mark.parametrize("option", WITH_VALUE, ids=names(WITH_VALUE))
def test_a_missing_value_is_named(option):
    for form in (f"--{option.name}", *([f"-{option.short}"] if option.short else [])):
        with pytest.raises(ConfigurationError, match=f"^{form}: needs a value"):
            read_options(["-q", form])


@pytest.mark.parametrize("value", ["-x", "--json", "-", "--", "", "a=b", "--reference=z"])
def test_the_word_after_an_option_is_its_value_whatever_it_looks_like(value):
    assert read_options(["-r", value]) == {"reference": [value]}
    assert read_options(["--reference", value]) == {"reference": [value]}
    assert read_options([f"--reference={value}"]) == {"reference": [value]}


def test_short_options_may_stand_together_and_the_last_may_take_a_value():
    assert read_options(["-qvrclip.y4m"]) == {"quiet": [""], "version": [""], "reference": ["clip.y4m"]}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--reffrence", "x"], '"--reffrence": unknown option'),
        (["--ref", "x"], '"--ref": unknown option'),
        (["--JSON"], '"--JSON": unknown option'),
        (["--help=x"], "--help: takes no value"),
        (["-x"], '"-x": unknown option'),
        (["-qx"], '"-x": unknown option'),
        (["---json"], '"---json": unknown option'),
        (["--tiny-model", "x"], '"--tiny-model": unknown option'),
        (["--=x"], '"--": unknown option'),
        (["clip.y4m"], '"clip.y4m": stray argument'),
        (["-r", "a", "b"], '"b": stray argument'),
        (["-"], '"-": stray argument'),
        ([""], '"": stray argument'),
        (["--", "--json"], '"--json": stray argument'),
        (["-q", "--", "x"], '"x": stray argument'),
        (["-q", "-q"], "--quiet: given twice"),
        (["-r", "a", "--reference=a"], "--reference: given twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_option_is_refused_by_name(arguments, named):
    with pytest.raises(ConfigurationError) as caught:
        read_options(arguments)
    assert str(caught.value).startswith(named)


@pytest.mark.parametrize(
    "argument",
    [
        "--no_prediction",
        "-n",
        "--aom_ctc",
        "--nflx_ctc=v1.0",
        "--frame_skip_ref=1",
        "--frame_skip_dist",
        "--precision=max",
    ],
)
def test_what_only_a_stock_command_line_can_do_is_refused_with_the_reason(argument):
    with pytest.raises(ConfigurationError, match="the embedded engine") as caught:
        read_options([argument, "1"])
    assert caught.value.setting == argument.partition("=")[0]


def test_models_and_features_may_be_given_many_times():
    assert read_options(["-m", "a", "--model=b", "--feature", "c", "--feature", "d"]) == {
        "model": ["a", "b"],
        "feature": ["c", "d"],
    }


def test_two_dashes_at_the_end_say_nothing():
    assert read_options(["--json", "--"]) == {"json": [""]}


def test_the_usage_text_names_every_option_and_none_that_is_refused():
    told = set(re.findall(r"(?<!\S)--[a-z_-]+", USAGE))
    assert told == {f"--{option.name}" for option in OPTIONS}
    assert "precision" not in USAGE
    for option in OPTIONS:
        assert not option.short or f"-{option.short}, --{option.name} " in USAGE


WORDS = st.one_of(
    st.sampled_from([f"--{o.name}" for o in OPTIONS] + [f"-{o.short}" for o in OPTIONS if o.short]),
    st.sampled_from(["--", "-", "-n", "--precision", "-qv", "--json=1", "--threads=4"]),
    st.text(max_size=6),
)


TAKES_VALUE = {option.name for option in WITH_VALUE}


@given(st.lists(WORDS, max_size=6))
def test_what_is_accepted_says_the_same_in_its_long_form(arguments):
    try:
        values = read_options(arguments)
    except ConfigurationError:
        return
    long_form = [
        f"--{name}={value}" if name in TAKES_VALUE else f"--{name}"
        for name, given_values in values.items()
        for value in given_values
    ]
    assert read_options(long_form) == values


@given(
    before=st.lists(st.sampled_from(["--json", "-q", "-rx", "--threads=1"]), unique=True),
    after=st.lists(WORDS),
)
def test_no_unknown_word_passes_wherever_it_stands(before, after):
    with pytest.raises(ConfigurationError, match=r'"--unheard-of": unknown option'):
        read_options([*before, "--unheard-of", *after])
