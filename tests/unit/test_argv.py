"""Arguments of a run: complete, and nothing that the executable does not know (ADR 0003, ADR 0004)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vmafx.adapters.vmaf_cli.argv import RunArguments, descriptor_path, run_arguments
from vmafx.adapters.vmaf_cli.capabilities import Capabilities, parse_usage, parse_version
from vmafx.domain.scoring import Backend

RUN = RunArguments(
    reference="/dev/fd/3",
    distorted="/clips/d.y4m",
    model="version=vmaf_v0.6.1",
    report="/dev/fd/5",
    threads=4,
    subsample=1,
    backend=Backend.CPU,
)
PLAIN = (
    *("-r", "/dev/fd/3", "-d", "/clips/d.y4m", "-m", "version=vmaf_v0.6.1", "-o", "/dev/fd/5", "--json"),
    *("--threads", "4"),
)


def knowing(*options: str) -> Capabilities:
    return Capabilities(version="1", options=frozenset(options))


def test_plain_run_has_no_optional_argument() -> None:
    assert run_arguments(RUN, knowing()) == PLAIN


def test_subsample_is_given_only_when_frames_are_left_out() -> None:
    assert run_arguments(replace(RUN, subsample=5), knowing()) == (*PLAIN, "--subsample", "5")


def test_full_precision_is_asked_for_where_it_is_known() -> None:
    assert run_arguments(RUN, knowing("precision")) == (*PLAIN, "--precision", "max")


@pytest.mark.parametrize("backend", list(Backend))
def test_known_backend_option_is_always_given(backend: Backend) -> None:
    arguments = run_arguments(replace(RUN, backend=backend), knowing("backend", "gpumask"))
    assert arguments == (*PLAIN, "--backend", backend.value)


@pytest.mark.parametrize("backend", list(Backend))
def test_unknown_backend_option_is_never_given(backend: Backend) -> None:
    assert "--backend" not in run_arguments(replace(RUN, backend=backend), knowing("gpumask"))


def test_cpu_masks_every_device_where_the_backend_cannot_be_named() -> None:
    assert run_arguments(RUN, knowing("gpumask")) == (*PLAIN, "--gpumask", "4294967295")


def test_other_backends_mask_nothing() -> None:
    assert run_arguments(replace(RUN, backend=Backend.CUDA), knowing("gpumask")) == PLAIN


def test_progress_goes_to_the_descriptor_that_listens() -> None:
    heard = replace(RUN, progress_fd=7)
    assert run_arguments(heard, knowing("progress-fd")) == (*PLAIN, "--progress-fd", "7")
    assert run_arguments(heard, knowing()) == PLAIN
    assert run_arguments(RUN, knowing("progress-fd")) == PLAIN


def test_descriptor_path_names_the_descriptor() -> None:
    assert descriptor_path(31) == "/dev/fd/31"


STOCK_USAGE = """Usage: vmaf [options]

Supported options:
 --reference/-r $path:      path to reference .y4m or .yuv
 --gpumask: $bitmask        restrict permitted GPU operations
 --no_prediction/-n:        no prediction, extract features only
 -q/--quiet                 a--b is no option, nor is ---dashes
"""


def test_usage_text_gives_its_long_options() -> None:
    assert parse_usage(STOCK_USAGE) == {"reference", "gpumask", "no_prediction", "quiet"}


def test_longer_option_is_not_taken_for_a_shorter_one() -> None:
    assert not knowing(*parse_usage("--backend-list $x")).has("backend")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.0.0 (f85a853)\n", "3.0.0 (f85a853)"),
        ("\n\n  v2 \nmore", "v2"),
        ("", ""),
        ("\x1b[31mred", "\\x1b[31mred"),
    ],
)
def test_version_is_the_first_line_that_says_something(text: str, version: str) -> None:
    assert parse_version(text) == version


def test_version_is_bounded() -> None:
    assert len(parse_version("9" * 10_000).encode()) <= 128
