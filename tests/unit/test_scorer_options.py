"""The scorer's policy, and the environment that its children get (ADR 0007)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.options import ScorerOptions, child_environment

ADDED = {"LC_ALL": "C", "VMAFX_JOB_ID": "run-1"}


def passed(**base: str) -> dict[str, str]:
    """What a child gets of an environment, beyond what every child gets."""
    environment = child_environment(base, job_id="run-1")
    assert environment.items() >= ADDED.items()
    return {name: value for name, value in environment.items() if name not in ADDED}


@pytest.mark.parametrize(
    "name",
    [
        "TMPDIR",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ROCM_PATH",
        "HSA_OVERRIDE_GFX_VERSION",
        "ONEAPI_DEVICE_SELECTOR",
        "SYCL_CACHE_PERSISTENT",
        "ZE_AFFINITY_MASK",
        "OMP_NUM_THREADS",
    ],
)
def test_what_chooses_libraries_and_devices_passes(name: str) -> None:
    assert passed(**{name: "0"}) == {name: "0"}


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "VMAFX_CONTROLLER_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "RCLONE_CONFIG_PASS",
        "LD_PRELOAD",
        "PYTHONPATH",
        "FFREPORT",
        "LANG",
        "LC_NUMERIC",
        "NVIDIA_API_KEY",
        "NVIDIA_TOKEN",
        "CUDA_REGISTRY_PASSWORD",
        "ONEAPI_Secret_Word",
        "ROCM_credentials_file",
        "ZE_AUTH",
        "MYCUDA_X",
    ],
)
def test_secrets_and_everything_else_stay_out(name: str) -> None:
    assert passed(**{name: "x"}) == {}


def test_search_paths_lose_what_means_the_working_directory() -> None:
    environment = passed(PATH="/usr/bin::.:bin:/bin:", LD_LIBRARY_PATH="lib:/opt/lib")
    assert environment == {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/opt/lib"}


def test_locale_and_run_id_cannot_be_set_from_outside() -> None:
    assert child_environment({"LC_ALL": "de_DE", "VMAFX_JOB_ID": "other"}, job_id="run-1") == ADDED


@pytest.mark.parametrize(
    "name", ["NVIDIA_CREDS", "HIP_SESSION", "CUDA_SIGNING_PEM", "ROCM_DSN", "ZE_API_KEY"]
)
def test_a_secret_under_a_vendors_prefix_stays_here(name: str) -> None:
    assert child_environment({name: "x"}, job_id="run-1") == ADDED


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=5)))
def test_child_never_gets_a_name_that_smells_of_a_secret(base: dict[str, str]) -> None:
    names = child_environment(base, job_id="r").keys() - ADDED.keys()
    assert not [name for name in names if any(word in name.upper() for word in ("TOKEN", "SECRET", "PASSW"))]


@pytest.mark.parametrize("timeout_s", [-1.0, math.inf, math.nan])
def test_time_limit_outside_its_range_is_refused(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="score_timeout_s"):
        ScorerOptions(score_timeout_s=timeout_s)


@pytest.mark.parametrize("threads", [0, 1025])
def test_threads_outside_their_range_are_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="score_threads"):
        ScorerOptions(score_threads=threads)


def test_limits_themselves_are_allowed() -> None:
    for threads in (1, 1024):
        assert ScorerOptions(score_threads=threads, score_timeout_s=0.0).score_threads == threads


def test_environment_is_not_shown() -> None:
    assert "s3cret" not in repr(ScorerOptions(environment={"TOKEN": "s3cret"}))


def test_a_job_id_that_is_no_plain_text_is_shown_escaped_and_bounded():
    told = child_environment({}, job_id="a/../\0\n\ud800" + "é" * 400)["VMAFX_JOB_ID"]
    assert told.startswith("a/../\\x00\\n\\ud800é")
    assert len(told.encode()) <= 256


@pytest.mark.parametrize("field", ["backend", "length_mismatch"])
@pytest.mark.parametrize("wrong", ["cpu", "fail", None, 1])
def test_what_is_no_member_of_its_enum_is_refused_by_name(field: str, wrong: object) -> None:
    options: dict[str, Any] = {field: wrong}
    with pytest.raises(ValueError, match=rf"^{field}="):
        ScorerOptions(**options)
