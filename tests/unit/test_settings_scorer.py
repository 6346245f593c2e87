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
    ],
)
def test_a_wrong_value_is_refused_by_name(name, text, problem):
    with pytest.raises(ConfigurationError) as caught:
        read(**{name: text})
    assert str(caught.value) == f'{name}="{text}" {problem}'
    assert caught.value.setting == name


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        read(VMAFX_BACKEND="auto", VMAFX_SCORE_TIMEOUT="ten", VMAFX_SCORE_THREADS="many")
    assert [p.setting for p in (caught.value, *caught.value.others)] == [
        "VMAFX_BACKEND",
        "VMAFX_SCORE_TIMEOUT",
        "VMAFX_SCORE_THREADS",
    ]
