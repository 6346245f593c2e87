"""ScorerSettings: every variable is read, and every wrong one is refused by name."""

from __future__ import annotations

import dataclasses

import pytest

from vmafx.app.settings.scorer import ScorerSettings
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.scoring import Backend, LengthMismatch


def read(**environment):
    return ScorerSettings.from_environment(environment)


def test_an_empty_environment_gives_the_documented_defaults():
    assert read() == ScorerSettings(
        vmaf_binary=None,
        vmaf_bin=None,
        search_path="",
        model_dir=None,
        backend=Backend.CPU,
        backend_unverified=False,
        length_mismatch=LengthMismatch.FAIL,
        default_model="vmaf_v0.6.1",
        timeout_s=1800.0,
        threads=None,
        cache_dir=None,
    )


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("VMAFX_VMAF_BINARY", " /opt/vmaf ", "vmaf_binary", "/opt/vmaf"),
        ("VMAF_BIN", "/opt/vmaf", "vmaf_bin", "/opt/vmaf"),
        ("PATH", "/a:/b", "search_path", "/a:/b"),
        ("VMAFX_MODEL_DIR", "/models", "model_dir", "/models"),
        ("VMAFX_BACKEND", "cuda", "backend", Backend.CUDA),
        ("VMAFX_BACKEND_UNVERIFIED", "T", "backend_unverified", True),
        ("VMAFX_LENGTH_MISMATCH", "shortest", "length_mismatch", LengthMismatch.SHORTEST),
        ("VMAFX_DEFAULT_MODEL", "vmaf_4k_v0.6.1", "default_model", "vmaf_4k_v0.6.1"),
        ("VMAFX_SCORE_TIMEOUT", "90s", "timeout_s", 90.0),
        ("VMAFX_SCORE_TIMEOUT", "0", "timeout_s", 0.0),
        ("VMAFX_SCORE_THREADS", "1024", "threads", 1024),
        ("XDG_CACHE_HOME", "/var/cache/", "cache_dir", "/var/cache/vmafx"),
        ("XDG_CACHE_HOME", "cache", "cache_dir", None),
        ("HOME", "/home/me", "cache_dir", "/home/me/.cache/vmafx"),
        ("HOME", "me", "cache_dir", None),
    ],
)
def test_a_variable_sets_its_field_and_no_other(name, text, field, value):
    assert read(**{name: text}) == dataclasses.replace(ScorerSettings(), **{field: value})


def test_a_relative_cache_folder_falls_back_to_the_one_at_home():
    assert read(XDG_CACHE_HOME="cache", HOME="/home/me").cache_dir == "/home/me/.cache/vmafx"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("VMAFX_BACKEND", "auto", "is not a backend; use one of cpu, cuda, hip, sycl, metal"),
        ("VMAFX_BACKEND", "CPU", "is not a backend; use one of cpu, cuda, hip, sycl, metal"),
        ("VMAFX_BACKEND_UNVERIFIED", "maybe", "is not a boolean"),
        ("VMAFX_LENGTH_MISMATCH", "longest", "must be one of fail, shortest"),
        ("VMAFX_SCORE_TIMEOUT", "ten", "is not a duration (examples: 500ms, 10s)"),
        ("VMAFX_SCORE_TIMEOUT", "-1s", "must not be negative"),
        ("VMAFX_SCORE_THREADS", "0", "must be an integer from 1 to 1024"),
        ("VMAFX_SCORE_THREADS", "1025", "must be an integer from 1 to 1024"),
        ("VMAFX_SCORE_TIMEOUT", "99999999h", "is too long (at most 2562047h)"),
        ("VMAFX_VMAF_BINARY", "vmaf", "is not an absolute path"),
        ("VMAF_BIN", "./vmaf", "is not an absolute path"),
    ],
)
def test_a_wrong_value_is_refused_by_name(name, text, problem):
    with pytest.raises(ConfigurationError) as caught:
        read(**{name: text})
    assert str(caught.value) == f'{name}="{text}" {problem}'
    assert caught.value.setting == name


@pytest.mark.parametrize("text", ["../x", "a b", "/etc/passwd", "-x", "a..b", "x" * 129])
def test_a_default_model_that_is_no_name_is_refused(text):
    with pytest.raises(ConfigurationError) as caught:
        read(VMAFX_DEFAULT_MODEL=text)
    assert caught.value.setting == "VMAFX_DEFAULT_MODEL"
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "setting"),
    [
        ("vmaf_binary", "vmaf", "VMAFX_VMAF_BINARY"),
        ("vmaf_binary", "", "VMAFX_VMAF_BINARY"),
        ("vmaf_bin", b"/vmaf", "VMAF_BIN"),
        ("search_path", None, "PATH"),
        ("model_dir", "", "VMAFX_MODEL_DIR"),
        ("model_dir", 7, "VMAFX_MODEL_DIR"),
        ("backend", "cpu", "VMAFX_BACKEND"),
        ("backend", None, "VMAFX_BACKEND"),
        ("backend_unverified", "false", "VMAFX_BACKEND_UNVERIFIED"),
        ("length_mismatch", "fail", "VMAFX_LENGTH_MISMATCH"),
        ("default_model", "../x", "VMAFX_DEFAULT_MODEL"),
        ("default_model", "", "VMAFX_DEFAULT_MODEL"),
        ("default_model", None, "VMAFX_DEFAULT_MODEL"),
        ("timeout_s", -1, "VMAFX_SCORE_TIMEOUT"),
        ("timeout_s", float("inf"), "VMAFX_SCORE_TIMEOUT"),
        ("timeout_s", float("nan"), "VMAFX_SCORE_TIMEOUT"),
        ("timeout_s", "30m", "VMAFX_SCORE_TIMEOUT"),
        ("timeout_s", True, "VMAFX_SCORE_TIMEOUT"),
        ("threads", 0, "VMAFX_SCORE_THREADS"),
        ("threads", 1025, "VMAFX_SCORE_THREADS"),
        ("threads", 2.0, "VMAFX_SCORE_THREADS"),
        ("threads", True, "VMAFX_SCORE_THREADS"),
        ("cache_dir", "cache", "XDG_CACHE_HOME"),
    ],
)
def test_a_wrong_value_made_by_hand_is_refused_by_the_name_of_its_variable(field, value, setting):
    with pytest.raises(ConfigurationError) as caught:
        ScorerSettings(**{field: value})
    assert caught.value.setting == setting
    assert setting in str(caught.value)


def test_every_field_is_checked():
    from vmafx.app.settings import scorer  # noqa: PLC0415

    assert [field for _, field, _ in scorer._CHECKS] == [f.name for f in dataclasses.fields(ScorerSettings)]


def test_all_wrong_values_made_by_hand_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        ScorerSettings(backend="cuda", threads=0, timeout_s=-1.0)
    assert [problem.setting for problem in caught.value.all] == [
        "VMAFX_BACKEND",
        "VMAFX_SCORE_TIMEOUT",
        "VMAFX_SCORE_THREADS",
    ]


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        read(VMAFX_BACKEND="auto", VMAFX_SCORE_TIMEOUT="ten", VMAFX_SCORE_THREADS="many")
    assert [p.setting for p in (caught.value, *caught.value.others)] == [
        "VMAFX_BACKEND",
        "VMAFX_SCORE_TIMEOUT",
        "VMAFX_SCORE_THREADS",
    ]
