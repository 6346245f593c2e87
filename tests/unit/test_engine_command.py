"""The command line of FFmpeg, as a pure translation (ADR 0009)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Feature, Model, parse_arguments
from vmafx.adapters.vmaf_cli.engine_command import escape, ffmpeg_arguments, ffmpeg_environment
from vmafx.adapters.vmaf_cli.engine_options import read_options


def command(
    *options, report="/dev/fd/9", models=(None,), terminal=False, pair=("-r", "r.y4m", "-d", "d.y4m")
):
    arguments = parse_arguments(read_options([*pair, *options]))
    return ffmpeg_arguments(arguments, report=report, models=models, terminal=terminal)


def graph(*options, **more):
    return after(command(*options, **more), "-filter_complex")


def after(words, option):
    return words[words.index(option) + 1]


def libvmaf(*options, **more):
    """The options of the libvmaf filter, with the graph's and the filter's own escapes undone."""
    text = unescape(graph(*options, **more).partition("libvmaf=")[2])
    return dict(part.partition("=")[::2] for part in map(unescape, split(text, ":")))


def unescape(text):
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def split(text, separator):
    """Split at each separator that no backslash stands before."""
    parts = re.findall(rf"((?:\\.|[^\\{separator}])*)(?:{separator}|$)", text, flags=re.DOTALL)
    return parts[:-1]


def test_frames_are_paired_by_number_and_nothing_is_converted():
    words = command()
    assert {"-nostdin", "-xerror", "-noauto_conversion_filters"} <= set(words)
    assert after(words, "-abort_on") == "empty_output"
    assert after(words, "-fps_mode") == "passthrough"
    chains = graph().split(";")[:2]
    assert all(chain.rpartition("[")[0].endswith("settb=1/25,setpts=N") for chain in chains)
    assert not any(chain.count("scale") for chain in chains)


def test_the_reference_is_opened_first_and_compared_as_the_reference():
    words = command()
    assert [words[n + 1] for n, word in enumerate(words) if word == "-i"] == ["file:r.y4m", "file:d.y4m"]
    assert re.fullmatch(r"\[0:v\].*\[r\];\[1:v\].*\[d\];\[d\]\[r\]libvmaf=.*", graph())


def test_the_shorter_clip_ends_the_run():
    assert libvmaf().items() >= {"shortest": "1", "repeatlast": "0", "eof_action": "endall"}.items()


def test_options_of_libvmaf_are_passed_on():
    got = libvmaf("--threads", "3", "--subsample", "4", "--csv")
    assert got == {
        "shortest": "1",
        "repeatlast": "0",
        "eof_action": "endall",
        "n_threads": "3",
        "n_subsample": "4",
        "model": "version=vmaf_v0.6.1:name=vmaf",
        "log_fmt": "csv",
        "log_path": "/dev/fd/9",
    }


def test_models_and_features_become_groups():
    got = libvmaf(
        *("-m", "path=/x:name=a:enable_transform:disable_clip", "-m", "version=v1:name=b:adm.debug=true"),
        *("--feature", "psnr=enable_mse=true:min_sse=0.5", "--feature", "ciede"),
        models=("/dev/fd/7", None),
    )
    assert got["model"] == (
        "path=/dev/fd/7:name=a:disable_clip=true:enable_transform=true|version=v1:name=b:adm.debug=true"
    )
    assert got["feature"] == "name=psnr:enable_mse=true:min_sse=0.5|name=ciede"


def test_without_a_report_the_score_is_told():
    assert after(command(report=None), "-loglevel") == "info"
    assert "log_path" not in libvmaf(report=None)
    assert after(command(), "-loglevel") == "error"


def test_a_limit_on_frames_holds_for_both_clips():
    assert graph("--frame_cnt", "3").count("trim=end_frame=3") == 2
    assert "trim" not in graph()


@pytest.mark.parametrize(
    ("terminal", "quiet", "stats"),
    [
        (True, (), "-stats"),
        (True, ("-q",), "-nostats"),
        (False, (), "-nostats"),
        (False, ("-q",), "-nostats"),
    ],
)
def test_progress_is_shown_on_a_terminal_unless_it_is_to_be_quiet(terminal, quiet, stats):
    assert {"-stats", "-nostats"} & set(command(*quiet, terminal=terminal)) == {stats}


def test_progress_goes_to_the_descriptor():
    words = command("--progress-fd", "7")
    assert (after(words, "-progress"), after(words, "-stats_period")) == ("pipe:7", "0.2")
    assert "-progress" not in command()


@pytest.mark.parametrize(
    ("sampling", "depth", "name"),
    [("420", "8", "yuv420p"), ("422", "10", "yuv422p10le"), ("444", "12", "yuv444p12le")],
)
def test_raw_clips_are_described(sampling, depth, name):
    words = command("-w", "64", "-h", "48", "-p", sampling, "-b", depth)
    assert "yuv4mpegpipe" not in words
    first = words[words.index("-f") : words.index("file:r.y4m")]
    assert first == [
        "-f",
        "rawvideo",
        "-video_size",
        "64x48",
        "-pixel_format",
        name,
        "-framerate",
        "25",
        "-i",
    ]
    assert words.count("rawvideo") == 2


@pytest.mark.parametrize("path", ["-x", "a b", "https://x", "a:b", "pipe:0", "concat:a|b", "%d", "\udcff"])
def test_a_path_is_always_a_file(path):
    assert f"file:{path}" in command(pair=("-r", path, "-d", "d.y4m"))


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(
    reference=PATHS,
    output=PATHS,
    path=PATHS,
    name=NAMES,
    value=st.from_regex(r"[A-Za-z0-9.+-]{1,9}", fullmatch=True),
)
def test_no_text_of_a_caller_that_needs_escaping_reaches_the_filters(reference, output, path, name, value):
    arguments = Arguments(
        reference=reference,
        distorted="d",
        output=output,
        models=(Model(path=path, name=name, features=(Feature(name="adm", options=(("debug", value),)),)),),
    )
    plain = Arguments(
        reference="r",
        distorted="d",
        output="o",
        models=(Model(path="m", name=name, features=(Feature(name="adm", options=(("debug", value),)),)),),
    )
    texts = [
        after(
            ffmpeg_arguments(a, report="/dev/fd/3", models=["/dev/fd/4"], terminal=False), "-filter_complex"
        )
        for a in (arguments, plain)
    ]
    assert texts[0] == texts[1]


@given(st.text(), st.sets(st.characters(exclude_categories=["Cs"]), max_size=6))
def test_escaping_can_be_undone_and_leaves_no_special_character_bare(text, special):
    escaped = escape(text, "".join(special | {"\\"}))
    assert unescape(escaped) == text
    assert not set(re.sub(r"\\.", "", escaped, flags=re.DOTALL)) & special


def test_the_environment_cannot_make_ffmpeg_write_a_log_or_speak_another_language():
    got = ffmpeg_environment(
        {
            "PATH": "/bin",
            "LANG": "de_DE.UTF-8",
            "LC_ALL": "de_DE.UTF-8",
            "FFREPORT": "file=x:level=48",
            "AV_LOG_FORCE_COLOR": "1",
            "AV_LOG_FORCE_256COLOR": "1",
            "AV_LOG_FORCE_NOCOLOR": "1",
        }
    )
    assert got == {"PATH": "/bin", "LANG": "de_DE.UTF-8", "LC_ALL": "C"}
