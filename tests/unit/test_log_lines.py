"""One record is one line of valid JSON, or one line for people, whatever the record holds (ADR 0020)."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vmafx.adapters.telemetry.fitting import TEXT_BYTES_MAX, error_text, fit, fit_fields, traceback_text
from vmafx.adapters.telemetry.lines import LINE_BYTES_MAX, Record, json_line, tint_line
from vmafx.domain.errors import ClipError
from vmafx.domain.text import printable
from vmafx.ports.telemetry import Level

AT = datetime(2026, 3, 1, 12, 30, 5, 250, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
VALUES = TEXTS | st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=8)
NAMES = TEXTS | st.sampled_from(["time", "level", "msg", "time_"])


def record(message: object = "m", fields: dict | None = None) -> Record:
    return Record(at=AT, level=Level.INFO, message=message, fields=tuple(fit_fields(fields).items()))


def said(fields: dict, message: str = "m") -> dict:
    return json.loads(json_line(record(message, fields)))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def assert_one_line(line: bytes) -> str:
    text = line.decode("utf-8")
    assert text.endswith("\n")
    assert printable(text[:-1]) == text[:-1]
    assert len(text.splitlines()) == 1
    assert len(line) <= LINE_BYTES_MAX
    return text


@settings(max_examples=200)
@given(message=TEXTS, fields=st.dictionaries(NAMES, VALUES, max_size=6))
def test_a_json_line_is_one_object_in_one_line_and_loses_nothing(message, fields):
    told = record(fit(message), fields)
    pairs = json.loads(assert_one_line(json_line(told)), object_pairs_hook=list, parse_constant=refuse)
    assert [name for name, _ in pairs[:3]] == ["time", "level", "msg"]
    assert len({name for name, _ in pairs}) == len(pairs) == 3 + len(told.fields)
    assert dict(pairs)["msg"] == fit(message)
    for (name, value), (shown, got) in zip(told.fields, pairs[3:], strict=True):
        assert shown.startswith(name)
        if not isinstance(value, float):
            assert got == value
            assert type(got) is type(value)
        elif math.isfinite(value):
            assert got == value


@settings(max_examples=100)
@given(message=TEXTS, fields=st.dictionaries(NAMES, VALUES, max_size=6), colour=st.booleans())
def test_a_line_for_people_is_one_line_whose_only_escapes_are_ours(message, fields, colour):
    line = tint_line(record(fit(message), fields), colour=colour)
    for code in (b"\x1b[0m", b"\x1b[2m", b"\x1b[31m", b"\x1b[32m"):
        line = line.replace(code, b"") if colour else line
    assert_one_line(line)


@settings(max_examples=30)
@given(
    char=st.sampled_from(["x", "\n", "\x7f", "é", "\u202e", "\U0001f600", "\U000e0001", "\udc80", '"', "\\"]),
    count=st.sampled_from([1, 64, 500]),
    long_names=st.booleans(),
)
def test_the_hugest_record_keeps_the_limit_of_a_line(char, count, long_names):
    fields = {f"{number}{char * 300 * long_names}": char * 20_000 for number in range(count)}
    told = record(fit(char * 30_000), fields)
    json.loads(assert_one_line(json_line(told)))
    assert_one_line(tint_line(told, colour=False))
    assert len(tint_line(told, colour=True)) <= LINE_BYTES_MAX


def test_the_keys_are_those_of_the_original_s_log():
    assert json_line(record("job pulled", {"slot": 0, "job_id": "j", "ok": True, "x": None, "s": 0.1})) == (
        b'{"time":"2026-03-01T12:30:05.000250Z","level":"INFO","msg":"job pulled",'
        b'"slot":0,"job_id":"j","ok":true,"x":null,"s":0.1}\n'
    )


def test_a_time_of_another_zone_is_written_in_utc():
    at = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    line = json.loads(json_line(Record(at=at, level=Level.WARN, message="m")))
    assert (line["time"], line["level"]) == ("2025-12-31T23:00:00.000000Z", "WARN")


def test_numbers_that_json_has_no_words_for_become_texts():
    fields = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": -0.0}
    assert list(said(fields).values())[3:] == ["NaN", "+Inf", "-Inf", 0.0]


def test_whole_numbers_beyond_64_bits_become_texts():
    fields = {"fits": 2**63 - 1, "low": -(2**63) + 1, "big": 2**63, "huge": 10**5000}
    assert list(said(fields).values())[3:] == [
        2**63 - 1,
        -(2**63) + 1,
        "a number of 64 bits",
        "a number of 16610 bits",
    ]


def test_a_field_whose_name_is_taken_is_renamed_and_nothing_is_lost():
    line = said({"msg": 1, "msg_": 2, "time": 3, "level": 4})
    assert [line[name] for name in ("msg", "msg_", "msg__", "time_", "level_")] == ["m", 1, 2, 3, 4]


def test_subclasses_are_written_as_the_plain_values_they_are():
    class Loud(str):
        __slots__ = ()

        def __str__(self):
            raise RuntimeError

    class Code(IntEnum):
        OK = 7

    line = said({"a": Loud("quiet"), "b": Code.OK})
    assert (line["a"], line["b"]) == ("quiet", 7)


def test_a_long_text_is_cut_in_the_middle_and_marked():
    text = said({"t": "a" * 9000 + "b" * 9000})["t"]
    assert text.startswith("aaa")
    assert " … " in text
    assert text.endswith("bbb")
    assert len(text.encode()) == TEXT_BYTES_MAX


def test_the_line_for_people_reads_like_a_sentence():
    line = tint_line(record("job pulled", {"slot": 1, "job_id": 'a "b"', "e": "", "x": False}), colour=False)
    assert (
        line.decode() == '2026-03-01T12:30:05.000Z INFO  job pulled slot=1 job_id="a \\"b\\"" e="" x=false\n'
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ClipError("/a.y4m", "partial frame"), str(ClipError("/a.y4m", "partial frame"))),
        (KeyError("k"), "KeyError: 'k'"),
        (TimeoutError(), "TimeoutError"),
        (
            ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [OSError("b")])]),
            "ValueError: a; OSError: b",
        ),
    ],
)
def test_an_error_is_told_in_one_text(error, text):
    assert error_text(error) == text


def test_a_deep_group_and_a_long_chain_have_an_end():
    error: Exception = ValueError("core")
    for _ in range(5000):
        error = ExceptionGroup("g", [error])
    assert error_text(error) == "ValueError: core"
    assert len(traceback_text(error).encode()) <= TEXT_BYTES_MAX
