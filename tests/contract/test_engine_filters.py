"""What the engine knows of FFmpeg's filters is true of the FFmpeg that it runs (ADR 0009)."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.engine import GUARD_S
from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Model
from vmafx.adapters.vmaf_cli.engine_command import ffmpeg_arguments
from vmafx.adapters.vmaf_cli.engine_features import FEATURE_OPTIONS
from vmafx.adapters.vmaf_cli.engine_ffmpeg import ffmpeg_path

SOURCE = ("-f", "lavfi", "-i", "color=size=320x240:rate=25")
AWKWARD = [
    "plain",
    "two words",
    " blanks at the ends ",
    "a:b=c",
    "quote ' and \"",
    "back\\slash\\",
    "[a],b;c",
    "tab\tand\nnewline",
    "\\':=[],; ",
    "%d${x}",
    "caf\u00e9 \u52d5\u753b",
    "'", "\\", ":", "=",
]  # fmt: skip


def libvmaf(options):
    """Run the filter with options; return what FFmpeg says."""
    graph = f"[0:v]format=yuv420p[a];[1:v]format=yuv420p[b];[a][b]libvmaf={options}"
    command = [ffmpeg_path(), "-nostdin", "-hide_banner", "-loglevel", "error", *SOURCE, *SOURCE]
    done = subprocess.run(
        [*command, "-filter_complex", graph, "-frames:v", "1", "-f", "null", "-"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GUARD_S,
        check=False,
    )
    return done.stderr.decode()


def model_text(version):
    """The engine's own filter text for a model of any name, which its command line would refuse."""
    arguments = Arguments(reference="r", distorted="d", models=(Model(version=version),))
    words = ffmpeg_arguments(arguments, report=None, models=[None], terminal=False)
    graph = words[words.index("-filter_complex") + 1]
    return graph[graph.index("model=") :]


@pytest.mark.parametrize("text", AWKWARD)
def test_the_escaping_is_undone_by_the_real_filters(text):
    assert f"could not load libvmaf model with version: {text}\n" in libvmaf(model_text(text))


def test_every_feature_exists_and_an_unknown_one_does_not():
    with ThreadPoolExecutor(2) as pool:
        told = dict(
            zip(
                FEATURE_OPTIONS,
                pool.map(lambda f: libvmaf(f"feature=name={f}"), FEATURE_OPTIONS),
                strict=True,
            )
        )
    assert [feature for feature, text in told.items() if "problem during vmaf_use_feature" in text] == []
    assert "problem during vmaf_use_feature: nope" in libvmaf("feature=name=nope")


def test_every_option_of_a_feature_exists():
    """The library passes over an unknown option, but not over a wrong value of a known one."""
    known = [(feature, option) for feature, options in FEATURE_OPTIONS.items() for option in sorted(options)]

    def refused(pair):
        return "problem during" in libvmaf(f"feature=name={pair[0]}\\\\:{pair[1]}=zz")

    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(known, pool.map(refused, known), strict=True))
    assert [pair for pair, was_refused in results.items() if not was_refused] == []
    assert not refused(("psnr", "nope"))
