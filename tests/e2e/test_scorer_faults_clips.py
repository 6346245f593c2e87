"""Awkward clips on the embedded engine: scored rightly, or refused by name with the cause (ADR 0006)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import clips
from tests.cli_scorer import cli_scorer, clip, descriptors, pair_request, plain, processes_of_runs
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.vmaf_cli.scorer import CliScorer
from vmafx.domain.errors import ClipError, ModelError, VmafxError
from vmafx.domain.scoring import ClipDescriptor, ClipFile, LengthMismatch, ScoreRequest

GUARD_S = 60.0
SCORE_TOLERANCE = 0.05  # features of small pictures depend on the processor

Pair = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Remembers the self-test, as programs do."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def scorer(cache_dir: str) -> CliScorer:
    return cli_scorer(cache_dir=cache_dir)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After a test no process or descriptor of a run is there."""
    before = descriptors()
    yield
    assert processes_of_runs() == []
    assert descriptors().keys() <= before.keys()


async def score(scorer: CliScorer, request: ScoreRequest) -> float:
    async with SystemClock().timeout(GUARD_S):
        return (await scorer.score(request)).score


async def failure(scorer: CliScorer, request: ScoreRequest) -> VmafxError:
    before = descriptors()
    with pytest.raises(VmafxError) as caught:
        await score(scorer, request)
    assert descriptors() == before
    assert processes_of_runs() == []
    return caught.value


def both(**parts: Any) -> Pair:
    return clips.y4m(distorted=False, **parts), clips.y4m(distorted=True, **parts)


def against_plain(**parts: Any) -> Pair:
    return plain(distorted=False), clips.y4m(distorted=True, **parts)


SCORED: dict[str, tuple[Callable[[], Pair], float]] = {
    "plain": (both, clips.PLAIN_SCORE),
    "p10_50x48": (lambda: both(size=(50, 48), frames=3, depth=10), 90.433),
    "p12": (lambda: both(depth=12), 95.206),
    "c422": (lambda: both(sub="422", frames=3), 93.724),
    "c444": (lambda: both(sub="444", frames=3), 93.724),
    "one_frame": (lambda: both(frames=1), 88.470),
    "frame_params": (lambda: both(frames=3, marker=b"FRAME Ip XABC=1\n"), 93.724),
    "header_120": (lambda: both(frames=3, extra="XCOMMENT=" + "x" * 70), 93.724),
    "without_a_pixel_format": (lambda: both(tag=""), clips.PLAIN_SCORE),
    "full_range": (lambda: both(extra="XCOLORRANGE=FULL"), clips.PLAIN_SCORE),
    "50_against_25_fps": (lambda: against_plain(rate="F50:1"), clips.PLAIN_SCORE),
    "30000_1001_against_25_fps": (lambda: against_plain(rate="F30000:1001"), clips.PLAIN_SCORE),
}


@pytest.mark.parametrize("name", SCORED)
async def test_clips_are_scored_rightly(scorer: CliScorer, tmp_path: Path, name: str) -> None:
    make, expected = SCORED[name]
    assert await score(scorer, pair_request(tmp_path, *make())) == pytest.approx(
        expected, abs=SCORE_TOLERANCE
    )


@cache
def refused() -> dict[str, tuple[Pair, str]]:
    """Pairs that are refused before the engine starts, with what must be said."""
    ref, dis = plain(distorted=False), plain(distorted=True)
    last_frame = len(dis) - len(clips.raw(distorted=True, frames=1)) - len("FRAME\n")
    return {
        "mono_tagged_420": (against_plain(sub="mono", tag="C420"), "no whole number of frames"),
        "header_400": (both(extra="X" + "x" * 360), "does not end within 256 bytes"),
        "p10_against_8": (against_plain(depth=10), "8 bit limited range.*10 bit"),
        "p12_against_8": (against_plain(depth=12), "8 bit limited range.*12 bit"),
        "p16_against_8": (against_plain(depth=16), "8 bit limited range.*16 bit"),
        "c422_tag_on_420": (against_plain(tag="C422"), "4:2:0.*4:2:2"),
        "other_size": (against_plain(size=(48, 64)), "64x48.*48x64"),
        "full_against_limited": (against_plain(extra="XCOLORRANGE=FULL"), "limited range.*full range"),
        "alpha": (both(sub="444", tag="C444alpha"), "an alpha plane is not supported"),
        "fewer_frames": (against_plain(frames=4), "has 6.*has 4"),
        "more_frames": (against_plain(frames=8), "has 6.*has 8"),
        "cut_at_frame_end": ((ref, dis[:last_frame]), "has 6.*has 5"),
        "cut_in_marker": ((ref, dis[: last_frame + 3]), "partial frame"),
        "cut_in_last_frame": ((ref, dis[:-100]), "partial frame"),
        "header_only": (against_plain(frames=0), "no frames"),
        "header_no_newline": ((ref, b"YUV4MPEG2 W64 H48 F25:1 Ip C420"), "header: it does not end"),
        "empty": ((ref, b""), "empty: 0 bytes"),
        "both_empty": ((b"", b""), "empty: 0 bytes"),
        "wrong_magic": (against_plain(magic="YUV4MPEG1"), "not Y4M"),
        "not_video": ((ref, b"<!DOCTYPE html><title>Sign in</title>\n"), "not Y4M"),
        "no_f_tag": (against_plain(rate=""), "no frame rate"),
        "interlaced": (against_plain(interlace="It"), "interlaced"),
        "interlaced_both": (both(interlace="Ib"), "interlaced"),
        "huge_65536": ((ref, b"YUV4MPEG2 W65536 H65536 F25:1 Ip C420\nFRAME\n" + b"x" * 900), "65536"),
        "huge_int": ((ref, b"YUV4MPEG2 W4294967360 H48 F25:1 Ip C420\nFRAME\n" + b"x" * 900), "4294967360"),
        "huge_both": ((b"YUV4MPEG2 W30000 H30000 F25:1 Ip C420\nFRAME\n" + b"x" * 900,) * 2, "30000"),
    }


@pytest.mark.parametrize("name", sorted(refused()))
async def test_clips_are_refused_by_name_and_cause(scorer: CliScorer, tmp_path: Path, name: str) -> None:
    pair, words = refused()[name]
    error = await failure(scorer, pair_request(tmp_path, *pair))
    assert isinstance(error, ClipError)
    assert error.source in {"ref.y4m", "dis.y4m"}
    assert f'"{error.source}"' in str(error)
    with pytest.raises(ClipError, match=words):
        raise error


@pytest.mark.parametrize("name", ["cut_in_marker", "cut_in_last_frame", "mono_tagged_420", "header_only"])
async def test_partial_frames_fail_also_where_common_frames_are_scored(
    cache_dir: str, tmp_path: Path, name: str
) -> None:
    scorer = cli_scorer(cache_dir=cache_dir, length_mismatch=LengthMismatch.SHORTEST)
    assert isinstance(await failure(scorer, pair_request(tmp_path, *refused()[name][0])), ClipError)


@pytest.mark.parametrize(("frames", "expected"), [(4, 94.516), (8, clips.PLAIN_SCORE)])
async def test_common_frames_are_scored_where_that_is_the_rule(
    cache_dir: str, tmp_path: Path, frames: int, expected: float
) -> None:
    scorer = cli_scorer(cache_dir=cache_dir, length_mismatch=LengthMismatch.SHORTEST)
    request = pair_request(tmp_path, *against_plain(frames=frames))
    result = await scorer.score(request)
    assert result.score == pytest.approx(expected, abs=SCORE_TOLERANCE)
    assert (result.reference_frames, result.distorted_frames) == (clips.FRAMES, frames)


@pytest.mark.parametrize("model", ["nope", "vmaf_b_v0.6.3"])
async def test_model_that_the_engine_has_not_is_told_in_one_line(
    scorer: CliScorer, tmp_path: Path, model: str
) -> None:
    error = await failure(
        scorer, pair_request(tmp_path, plain(distorted=False), plain(distorted=True), model=model)
    )
    assert isinstance(error, ModelError)
    assert f'model "{model}"' in str(error)
    assert "the embedded engine" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (lambda: both(size=(35, 27), frames=4), "odd size 35x27"),
        (lambda: both(size=(16, 16)), "16x16"),
        (lambda: both(sub="mono", frames=3), "mono"),
        (lambda: both(sub="411", frames=3), "4:1:1"),
        (lambda: both(depth=16, frames=3), "16 bit"),
    ],
    ids=["odd_35x27", "tiny_16x16", "mono", "c411", "p16"],
)
async def test_what_the_engine_cannot_do_it_refuses_by_name(
    scorer: CliScorer, tmp_path: Path, pair: Callable[[], Pair], words: str
) -> None:
    error = await failure(scorer, pair_request(tmp_path, *pair()))
    assert isinstance(error, ClipError)
    assert error.source == "ref.y4m"
    assert str(error).startswith('"ref.y4m": ')
    assert words in str(error)
    assert str(tmp_path) not in str(error)
    assert "\n" not in str(error)


async def test_same_clip_twice_is_a_pair_like_any_other(scorer: CliScorer, tmp_path: Path) -> None:
    same = clip(tmp_path / "ref.y4m", plain(distorted=False))
    assert await score(scorer, ScoreRequest(reference=same, distorted=same)) > 99.0
    descriptor = os.open(same.path, os.O_RDONLY)
    opened = ClipDescriptor(descriptor=descriptor, name="ref", path=same.path)
    try:
        assert await score(scorer, ScoreRequest(reference=opened, distorted=opened)) > 99.0
    finally:
        os.close(descriptor)


async def test_descriptors_give_the_same_score_as_paths_wherever_they_stand(
    scorer: CliScorer, tmp_path: Path
) -> None:
    request = pair_request(tmp_path, plain(distorted=False), plain(distorted=True))
    by_path = await score(scorer, request)
    opened: list[ClipDescriptor] = []
    for named in (request.reference, request.distorted):
        descriptor = os.open(named.path, os.O_RDONLY)
        os.lseek(descriptor, 1000, os.SEEK_SET)
        opened.append(ClipDescriptor(descriptor=descriptor, name=named.name, path=named.path))
        Path(named.path).unlink()  # what was opened is read, whatever happens to its name
    try:
        assert await score(scorer, ScoreRequest(reference=opened[0], distorted=opened[1])) == by_path
        assert [os.lseek(clip.descriptor, 0, os.SEEK_CUR) for clip in opened] == [1000, 1000]
    finally:
        for clip_ in opened:
            os.close(clip_.descriptor)


@pytest.mark.parametrize(
    "way", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/{pid}/fd/{}", "link", "folder link"]
)
async def test_path_that_means_something_else_in_a_child_still_names_our_file(
    scorer: CliScorer, tmp_path: Path, way: str
) -> None:
    request = pair_request(tmp_path, plain(distorted=False), plain(distorted=True))
    expected = await score(scorer, request)
    descriptor = os.open(request.distorted.path, os.O_RDONLY)
    try:
        match way:
            case "link":
                (tmp_path / "link").symlink_to(f"/dev/fd/{descriptor}")
                path = str(tmp_path / "link")
            case "folder link":
                (tmp_path / "folder").symlink_to("/proc/self/fd")
                path = str(tmp_path / "folder" / str(descriptor))
            case _:
                path = way.format(descriptor, pid=os.getpid())
        distorted = ClipFile(path=path, name="dis")
        reference = ClipDescriptor(
            descriptor=descriptor, name="ref", path=request.distorted.path
        )  # takes number 3 of the child
        assert await score(scorer, ScoreRequest(reference=request.reference, distorted=distorted)) == expected
        assert await score(scorer, ScoreRequest(reference=reference, distorted=distorted)) > 99.0
    finally:
        os.close(descriptor)


async def test_descriptor_that_is_not_open_never_comes_to_name_one_of_ours(
    scorer: CliScorer, tmp_path: Path
) -> None:
    request = pair_request(tmp_path, plain(distorted=False), plain(distorted=True))
    for number in range(max(map(int, descriptors())) + 10):
        try:
            os.fstat(number)
        except OSError:
            absent = ClipFile(path=f"/dev/fd/{number}", name="dis")
            error = await failure(scorer, ScoreRequest(reference=request.reference, distorted=absent))
            assert isinstance(error, ClipError)


async def test_refusal_of_a_descriptor_shows_its_owners_name(scorer: CliScorer, tmp_path: Path) -> None:
    odd = clip(tmp_path / "odd.y4m", clips.y4m(distorted=False, size=(35, 27), frames=1))
    descriptor = os.open(odd.path, os.O_RDONLY)
    opened = ClipDescriptor(descriptor=descriptor, name="media:odd.y4m", path=odd.path)
    try:
        error = await failure(scorer, ScoreRequest(reference=opened, distorted=opened))
        assert isinstance(error, ClipError)
        assert str(error).startswith('"media:odd.y4m": odd size 35x27')
        assert odd.path not in str(error)
        assert "/dev/fd" not in str(error)
    finally:
        os.close(descriptor)


NAMES = [
    *(
        "plain.y4m",
        " space .y4m",
        "-r",
        "--help",
        "a=b:c,d;e.y4m",
        "'q\"q'.y4m",
        "[x]{y}(z).y4m",
        "a%20b%.y4m",
    ),
    *("$(touch made-by-shell)`touch made-by-shell`.y4m", "a|b&c>d<e.y4m", "back\\slash.y4m", "#hash?query"),
    *(
        "ünïcödé-日本.y4m",
        "line\nbreak.y4m",
        "tab\tesc\x1b.y4m",
        "latin1-\udce9.y4m",
        "pipe:0",
        "concat:a",
        "x" * 255,
    ),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_names_mean_nothing_but_their_files(
    scorer: CliScorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    reference = clip(tmp_path / "ref.y4m", clips.y4m(distorted=False, frames=3))
    (tmp_path / "d").mkdir()
    distorted = clip(tmp_path / "d" / name, clips.y4m(distorted=True, frames=3))
    request = ScoreRequest(reference=reference, distorted=distorted)
    assert await score(scorer, request) == pytest.approx(93.724, abs=SCORE_TOLERANCE)
    Path(distorted.path).write_bytes(b"no clip")
    error = await failure(scorer, request)
    assert all(line.isprintable() for line in str(error).splitlines())
    assert {path.name for path in tmp_path.iterdir()} == {"ref.y4m", "d"}


@pytest.mark.parametrize(
    ("kind", "words"),
    [("pipe", "a pipe"), ("folder", "a directory"), ("dangling", "No such file"), ("loop", "symbolic links")],
)
async def test_what_is_no_clip_at_all_fails_at_once(
    scorer: CliScorer, tmp_path: Path, kind: str, words: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    reference = clip(tmp_path / "ref.y4m", plain(distorted=False))
    error = await failure(scorer, ScoreRequest(reference=reference, distorted=clip(tmp_path / kind)))
    assert isinstance(error, ClipError)
    assert words in str(error)
