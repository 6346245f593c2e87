"""The contract of `Scorer`, for every scorer there is: the fake, the embedded engine, a stock `vmaf`."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import clips
from tests.cli_scorer import (
    cli_scorer,
    descriptors,
    endless_request,
    pair_request,
    plain_request,
    processes_of_runs,
)
from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.fakes.scorer import FakeRun, FakeScorer
from vmafx.domain.errors import (
    BackendMismatchError,
    ClipError,
    ScorerError,
    ScorerUnavailableError,
    ScoreTimeoutError,
)
from vmafx.domain.scoring import Backend, ScoreRequest
from vmafx.ports.scorer import Scorer

GENEROUS_S = 60.0
STOCK = os.environ.get("VMAFX_VMAF_BINARY") or shutil.which("vmaf")
SCORE_TOLERANCE = 0.05  # features of small pictures depend on the processor


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A scorer under test.

    Attributes:
        scorer: The scorer.
        score: What it gives the plain pair.
        broken: A scorer of the same kind on a machine that cannot score.
        prepare: Called before a request is scored; `endless` and `unusable` say what it must run into.
    """

    scorer: Scorer
    score: float
    broken: Scorer
    prepare: Callable[..., None] = lambda **_: None


def fake_subject() -> Subject:
    scorer, broken = FakeScorer(SystemClock()), FakeScorer(SystemClock())
    broken.break_down()

    def prepare(*, endless: bool = False, unusable: ClipError | None = None) -> None:
        if endless:
            scorer.cue(FakeRun(takes_s=math.inf))
        if unusable:
            scorer.cue(FakeRun(error=unusable))

    return Subject(scorer=scorer, score=95.0, broken=broken, prepare=prepare)


def cli_subject(**options: Any) -> Subject:
    return Subject(
        scorer=cli_scorer(**options),
        score=clips.PLAIN_SCORE,
        broken=cli_scorer(vmaf_binary="/nowhere/vmaf"),
    )


SUBJECTS = [
    pytest.param(lambda **_: fake_subject(), id="FakeScorer"),
    pytest.param(cli_subject, id="CliScorer-engine"),
    pytest.param(
        partial(cli_subject, vmaf_binary=STOCK),
        id="CliScorer-stock",
        marks=pytest.mark.skipif(not STOCK, reason="no vmaf on PATH or in VMAFX_VMAF_BINARY"),
    ),
]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Remembers the self-test, as programs do."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, cache_dir: str) -> Iterator[Subject]:
    yield request.param(cache_dir=cache_dir)
    assert processes_of_runs() == []


async def test_plain_pair_has_its_score(subject: Subject, tmp_path: Path) -> None:
    result = await subject.scorer.score(plain_request(tmp_path))
    assert result.score == pytest.approx(subject.score, abs=SCORE_TOLERANCE)
    assert result.features["vmaf"] == result.score
    assert all(name == name.lower() for name in result.features)
    assert (result.frames, result.model) == (clips.FRAMES, "vmaf_v0.6.1")
    assert (result.reference_frames, result.distorted_frames) == (clips.FRAMES, clips.FRAMES)
    assert result.scorer
    assert result.backend_used in {None, Backend.CPU}
    assert result.frame_scores is None


async def test_same_pair_has_the_same_score_again(subject: Subject, tmp_path: Path) -> None:
    request = plain_request(tmp_path)
    assert await subject.scorer.score(request) == await subject.scorer.score(request)


async def test_frame_scores_are_given_when_asked_for(subject: Subject, tmp_path: Path) -> None:
    result = await subject.scorer.score(plain_request(tmp_path, frame_scores=True))
    assert result.frame_scores is not None
    assert [frame.frame for frame in result.frame_scores] == list(range(clips.FRAMES))
    mean = math.fsum(frame.score for frame in result.frame_scores) / clips.FRAMES
    assert mean == pytest.approx(result.score, abs=1e-5)


async def test_subsampling_scores_every_nth_frame(subject: Subject, tmp_path: Path) -> None:
    result = await subject.scorer.score(plain_request(tmp_path, subsample=4, frame_scores=True))
    assert result.frame_scores is not None
    assert [frame.frame for frame in result.frame_scores] == [0, 4]
    assert result.frames == 2


async def test_progress_rises_to_the_end_and_then_stops(subject: Subject, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    await subject.scorer.score(
        plain_request(tmp_path), progress=lambda done, total: heard.append((done, total))
    )
    assert heard[-1] == (clips.FRAMES, clips.FRAMES)
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert {total for _, total in heard} == {clips.FRAMES}
    told = len(heard)
    await SystemClock().sleep(0)
    assert len(heard) == told


@pytest.mark.parametrize("threads", [1, 2])
async def test_threads_do_not_change_the_score(subject: Subject, tmp_path: Path, threads: int) -> None:
    result = await subject.scorer.score(plain_request(tmp_path, threads=threads))
    assert result.score == pytest.approx(subject.score, abs=SCORE_TOLERANCE)


async def test_own_backend_may_be_asked_for_by_name(subject: Subject, tmp_path: Path) -> None:
    result = await subject.scorer.score(plain_request(tmp_path, backend=Backend.CPU))
    assert result.score == pytest.approx(subject.score, abs=SCORE_TOLERANCE)


async def test_other_backend_is_refused_with_both_names(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(BackendMismatchError, match=r"cuda.*cpu") as caught:
        await subject.scorer.score(plain_request(tmp_path, backend=Backend.CUDA))
    assert (caught.value.asked, caught.value.used) == ("cuda", "cpu")


async def test_clip_that_cannot_be_scored_is_named(subject: Subject, tmp_path: Path) -> None:
    request = pair_request(tmp_path, clips.y4m(distorted=False), b"no clip")
    subject.prepare(unusable=ClipError("dis.y4m", '"dis.y4m": not Y4M'))
    with pytest.raises(ClipError, match=r'"dis\.y4m": not Y4M') as caught:
        await subject.scorer.score(request)
    assert caught.value.source == "dis.y4m"


async def test_run_that_takes_too_long_is_ended(subject: Subject, tmp_path: Path) -> None:
    await subject.scorer.self_test()
    subject.prepare(endless=True)
    with pytest.raises(ScoreTimeoutError, match=r"0\.5 s|500ms"):
        await subject.scorer.score(endless_request(tmp_path, timeout_s=0.5))
    assert processes_of_runs() == []


@pytest.mark.parametrize("wait_s", [0.0, 0.005, 0.3])
async def test_cancelled_run_leaves_nothing_and_stays_cancelled(
    subject: Subject, tmp_path: Path, wait_s: float
) -> None:
    await subject.scorer.self_test()
    request, plain = endless_request(tmp_path), plain_request(tmp_path)
    before = descriptors()
    subject.prepare(endless=True)
    run = asyncio.create_task(subject.scorer.score(request))
    await SystemClock().sleep(wait_s)
    run.cancel()
    async with SystemClock().timeout(GENEROUS_S):
        with pytest.raises(asyncio.CancelledError):
            await run
    assert processes_of_runs() == []
    assert descriptors() == before
    result = await subject.scorer.score(plain)
    assert result.score == pytest.approx(subject.score, abs=SCORE_TOLERANCE)


async def test_runs_go_on_side_by_side(subject: Subject, tmp_path: Path) -> None:
    request = plain_request(tmp_path)
    subject.prepare(endless=True)
    endless = asyncio.create_task(subject.scorer.score(endless_request(tmp_path)))
    await SystemClock().sleep(0.0)
    async with SystemClock().timeout(GENEROUS_S):
        results = await asyncio.gather(*(subject.scorer.score(request) for _ in range(3)))
    assert not endless.done()
    endless.cancel()
    await asyncio.wait([endless])
    assert {result.score for result in results} == {results[0].score}
    assert results[0].score == pytest.approx(subject.score, abs=SCORE_TOLERANCE)


async def test_self_test_may_be_repeated(subject: Subject) -> None:
    await subject.scorer.self_test()
    await subject.scorer.self_test()


async def test_broken_machine_fails_the_self_test_and_names_the_setting(subject: Subject) -> None:
    with pytest.raises(ScorerUnavailableError) as caught:
        await subject.broken.self_test()
    assert caught.value.setting == "VMAFX_VMAF_BINARY"
    assert str(caught.value).startswith("VMAFX_VMAF_BINARY: ")


async def test_broken_machine_fails_a_run_as_a_fault_of_the_machine(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(ScorerError) as caught:
        await subject.broken.score(plain_request(tmp_path))
    assert caught.value.machine_fault


async def test_request_outside_its_ranges_cannot_be_made(tmp_path: Path) -> None:
    request = plain_request(tmp_path)
    for wrong in ({"threads": 0}, {"subsample": 0}, {"timeout_s": -1.0}, {"timeout_s": math.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(request, **wrong)
    assert isinstance(request, ScoreRequest)
