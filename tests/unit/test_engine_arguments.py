"""What a command line of the embedded engine means, and what it cannot mean (ADR 0009)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.vmaf_cli.engine_arguments import Arguments, Feature, Model, parse_arguments
from vmafx.adapters.vmaf_cli.engine_options import read_options
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.y4m import Subsampling

PAIR = ("-r", "ref.y4m", "-d", "dis.y4m")
RAW = ("-w", "64", "-h", "48", "-p", "420", "-b", "8")


def parse(*arguments, pair=PAIR) -> Arguments:
    return parse_arguments(read_options([*pair, *arguments]))


def model(text) -> Model:
    return parse("-m", text).models[0]


def refusal(*arguments, pair=PAIR) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(*arguments, pair=pair)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_defaults_are_those_of_a_stock_command_line():
    assert parse() == Arguments(
        reference="ref.y4m",
        distorted="dis.y4m",
        raw=None,
        models=(Model(version="vmaf_v0.6.1", path=None, name="vmaf"),),
        features=(),
        output=None,
        format="xml",
        threads=0,
        subsample=1,
        frames_max=None,
        progress_fd=None,
        quiet=False,
    )


def test_every_option_reaches_its_place():
    got = parse(
        *("-o", "out", "--csv", "--threads", "4", "--subsample=5", "--frame_cnt", "6", "--progress-fd", "7"),
        *("-q", "--feature", "psnr", "--backend", "cpu", "--cpumask", "0xff", "--gpumask", "4294967295"),
    )
    assert (got.output, got.format, got.threads, got.subsample) == ("out", "csv", 4, 5)
    assert (got.frames_max, got.progress_fd, got.quiet) == (6, 7, True)
    assert got.features == (Feature(name="psnr"),)


@pytest.mark.parametrize("name", ["xml", "json", "csv", "sub"])
def test_each_format_can_be_chosen(name):
    assert parse(f"--{name}").format == name


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        ((), "--reference: a path is needed"),
        (("-d", "x"), "--reference: a path is needed"),
        (("-r", "x"), "--distorted: a path is needed"),
        (("-r", "", "-d", "x"), "--reference: a path is needed"),
        (("-r", "x", "-d", ""), "--distorted: a path is needed"),
    ],
)
def test_both_clips_are_needed(pair, named):
    assert refusal(pair=pair) == named


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--backend", "cuda"], '--backend: "cuda"'),
        (["--backend", "CPU"], '--backend: "CPU"'),
        (["--backend="], '--backend: ""'),
        (["-o", ""], "--output: a path is needed"),
        (["--json", "--xml"], "--json: --xml is given too"),
        (["--threads", "-1"], "--threads: -1 must be from 0 to 1024"),
        (["--threads", "1025"], "--threads: 1025 must be"),
        (["--threads", "four"], '--threads: "four" is no whole number'),
        (["--threads", "1.0"], "--threads: "),
        (["--threads", " 1"], "--threads: "),
        (["--threads", "010"], "--threads: "),
        (["--threads", "1_0"], "--threads: "),
        (["--threads", "\u0661"], "--threads: "),
        (["--threads="], "--threads: "),
        (["--subsample", "0"], "--subsample: 0 must be from 1"),
        (["--subsample", "99999999999999999999"], "--subsample: "),
        (["--frame_cnt", "-1"], "--frame_cnt: "),
        (["--cpumask", "all"], "--cpumask: "),
        (["--gpumask", "0xfffffffffffffffff"], "--gpumask: "),
        (["--progress-fd", "0"], "--progress-fd: 0 must be from 1"),
        (["--progress-fd", "-1"], "--progress-fd: "),
        (["-w", "64"], "-h (--height): raw YUV needs all of"),
        (["-w", "64", "-h", "48", "-p", "420"], "-b (--bitdepth): raw YUV needs all of"),
        (["-b", "8", "-h", "48", "-p", "420"], "-w (--width): raw YUV needs all of"),
        ([*RAW[:4], "-p", "400", "-b", "8"], '--pixel_format: "400"'),
        ([*RAW[:4], "-p", "yuv420p", "-b", "8"], '--pixel_format: "yuv420p"'),
        ([*RAW[:6], "-b", "16"], "--bitdepth: 16: 8, 10 and 12"),
        ([*RAW[:6], "-b", "9"], "--bitdepth: 9"),
        (["-w", "0", *RAW[2:]], "--width: 0 must be from 1 to 16384"),
        (["-w", "16385", *RAW[2:]], "--width: 16385 must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_refused_by_name(arguments, named):
    assert refusal(*arguments).startswith(named)


@pytest.mark.parametrize("mask", ["0", "-1", "7", "0xFFFFFFFF", "18446744073709551615"])
def test_masks_are_accepted_without_effect(mask):
    assert parse("--cpumask", mask, "--gpumask", mask) == parse()


def test_raw_clips_have_a_format_and_y4m_clips_none():
    raw = parse("-w", "1920", "-h", "1080", "-p", "422", "-b", "10").raw
    assert raw is not None
    assert (raw.width, raw.height, raw.subsampling, raw.depth) == (1920, 1080, Subsampling.S422, 10)
    assert parse().raw is None


# ---------------------------------------------------------------- models


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version=vmaf_v0.6.1neg", Model(version="vmaf_v0.6.1neg")),
        ("path=/a/b.json", Model(path="/a/b.json")),
        ("path=m=n.json", Model(path="m=n.json")),
        ("path=a|b 'c'.json", Model(path="a|b 'c'.json")),
        (r"path=/a\:b\\c\=d.json:name=x", Model(path=r"/a:b\c=d.json", name="x")),
        ("name=x:version=v1", Model(version="v1", name="x")),
        ("version=v1:disable_clip", Model(version="v1", flags=frozenset({"disable_clip"}))),
        (
            "version=v1:disable_clip=true:enable_transform=false",
            Model(version="v1", flags=frozenset({"disable_clip"})),
        ),
        (
            "version=v1:adm.adm_enhn_gain_limit=1.0:vif.vif_enhn_gain_limit=1",
            Model(
                version="v1",
                features=(
                    Feature(name="adm", options=(("adm_enhn_gain_limit", "1.0"),)),
                    Feature(name="vif", options=(("vif_enhn_gain_limit", "1"),)),
                ),
            ),
        ),
    ],
)
def test_a_model_is_read_as_it_is_meant(text, expected):
    assert model(text) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is no key=value"),
        ("vmaf_v0.6.1", "is no key=value"),
        ("name=x", "one of path= and version= is needed"),
        ("path=a:version=b", "one of path= and version= is needed"),
        ("path=", "one of path= and version= is needed"),
        ("path=a:path=b", '"path" is given twice'),
        ("path=a:", "is no key=value"),
        ("path=a:b", '"b" is no key=value'),
        ("path=a:b=c", '"b": unknown key'),
        ("path=a:enable_conf_interval=true", '"enable_conf_interval": unknown key'),
        ("path=a\\b", "a backslash stands before"),
        ("path=a\\", "a backslash stands before"),
        ("version=../x", "no name of a model"),
        ("version=a|b", "no name of a model"),
        ("version=", "one of path= and version= is needed"),
        ("version=vmaf_b_v0.6.3", "version=vmaf_b_v0.6.3: collections"),
        ("version=vmaf_float_b_v0.6.3", "collections"),
        ("version=vmaf_rb_v0.6.3", "collections"),
        ('version=v1:name=a"b', "letters, digits"),
        ("version=v1:name=", "letters, digits"),
        ("version=v1:disable_clip=yes", '"yes" is neither true nor false'),
        ("version=v1:nope.x=1", '"nope": no such feature'),
        ("version=v1:adm.nope=1", '"nope": the feature adm has no such option'),
        ("version=v1:adm.=1", '"": the feature adm has no such option'),
        ("version=v1:adm.debug=a b", 'adm.debug: "a b" is no number or word'),
        ("version=v1:adm.debug=", "is no number or word"),
        ("version=v1:cambi.heatmaps_path=x", "has no such option"),
    ],
)
def test_a_model_that_cannot_be_honoured_is_refused_by_name(text, named):
    told = refusal("--model", text)
    assert told.startswith("--model: ")
    assert named in told


def test_models_need_names_of_their_own():
    assert [m.name for m in parse("-m", "version=a", "-m", "version=b:name=other").models] == [
        "vmaf",
        "other",
    ]
    assert refusal("-m", "version=a", "-m", "version=b") == (
        '--model: two models are named "vmaf": give each a name='
    )


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=[]), min_size=1))
def test_any_path_survives_the_escaping_of_a_model(path):
    escaped = "".join("\\" + char if char in "\\:=" else char for char in path)
    assert model(f"path={escaped}:name=x") == Model(path=path, name="x")


# ---------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("psnr", Feature(name="psnr")),
        ("psnr=enable_mse=true", Feature(name="psnr", options=(("enable_mse", "true"),))),
        (
            "float_ssim=clip_db=true:enable_db=true",
            Feature(name="float_ssim", options=(("clip_db", "true"), ("enable_db", "true"))),
        ),
    ],
)
def test_a_feature_is_read_as_it_is_meant(text, expected):
    assert parse("--feature", text).features == (expected,)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", '"": no such feature'),
        ("PSNR", '"PSNR": no such feature'),
        ("name=psnr", '"psnr" is no OPTION=VALUE'),
        ("name=psnr=1", '"name": no such feature'),
        ("psnr|float_ssim", "no such feature"),
        ("psnr=", '"" is no OPTION=VALUE'),
        ("psnr=enable_mse", '"enable_mse" is no OPTION=VALUE'),
        ("psnr=nope=1", '"nope": the feature psnr has no such option'),
        ("psnr=enable_mse=true:enable_mse=false", "an option is given twice"),
        ("psnr=enable_mse=tr|ue", "is no number or word"),
        ("psnr=enable_mse=tr'ue", "is no number or word"),
    ],
)
def test_a_feature_that_cannot_be_honoured_is_refused_by_name(text, named):
    told = refusal("--feature", text)
    assert told.startswith("--feature: ")
    assert named in told
