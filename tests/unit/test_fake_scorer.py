"""FakeScorer: runs go as they were told, take virtual time, and leave a record (ADR 0014)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import pytest

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.scorer import PROGRESS_CALLS_MAX, EndedRun, FakeRun, FakeScorer
from vmafx.domain.errors import (
    BackendMismatchError,
    ClipError,
    NotFiniteError,
    ScorerError,
    ScorerUnavailableError,
    ScoreTimeoutError,
)
from vmafx.domain.scoring import Backend, ClipFile, ScoreRequest

pytestmark = pytest.mark.virtual_time


def request(
    *,
    distorted: str = "/d.y4m",
    backend: Backend | None = None,
    model: str | None = None,
    subsample: int = 1,
    timeout_s: float | None = None,
    frame_scores: bool = False,
) -> ScoreRequest:
    return ScoreRequest(
        reference=ClipFile(path="/r.y4m", name="/r.y4m"),
        distorted=ClipFile(path=distorted, name=distorted),
        backend=backend,
        model=model,
        subsample=subsample,
        timeout_s=timeout_s,
        frame_scores=frame_scores,
    )


def each(run: FakeRun) -> Callable[[ScoreRequest], FakeRun]:
    return lambda _: run


# ---------------------------------------------------------------- results


async def test_without_a_rule_every_run_succeeds_at_once(clock: VirtualClock) -> None:
    result = await FakeScorer(clock).score(request())
    assert (result.score, result.features, result.frames) == (95.0, {"vmaf": 95.0}, 6)
    assert (result.model, result.backend_used) == ("vmaf_v0.6.1", Backend.CPU)
    assert result.frame_scores is None
    assert clock.monotonic() == 0


async def test_a_rule_scores_by_the_request(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock, lambda asked: FakeRun(score=float(len(asked.distorted.name))))
    assert (await scorer.score(request(distorted="/short"))).score == 6
    assert (await scorer.score(request(distorted="/longer/name"))).score == 12


async def test_cued_runs_come_first_and_in_order(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock, each(FakeRun(score=1)))
    scorer.cue(FakeRun(score=2), FakeRun(score=3))
    scorer.cue(FakeRun(score=4))
    assert [(await scorer.score(request())).score for _ in range(5)] == [2, 3, 4, 1, 1]


async def test_a_result_fits_its_request(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock, each(FakeRun(score=50, frames=7)), backend=Backend.CUDA)
    asked = request(model="vmaf_4k", subsample=3, frame_scores=True, backend=Backend.CUDA)
    result = await scorer.score(asked)
    assert (result.model, result.backend_used, result.frames) == ("vmaf_4k", Backend.CUDA, 3)
    assert result.frame_scores is not None
    assert [(frame.frame, frame.score) for frame in result.frame_scores] == [(0, 50), (3, 50), (6, 50)]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
async def test_a_score_that_is_not_finite_is_no_result(clock: VirtualClock, score: float) -> None:
    with pytest.raises(NotFiniteError):
        await FakeScorer(clock, each(FakeRun(score=score))).score(request())


# ---------------------------------------------------------------- failures


async def test_a_run_fails_on_cue_after_its_time(clock: VirtualClock) -> None:
    scorer, error = FakeScorer(clock), ClipError("/d.y4m", "partial frame")
    scorer.cue(FakeRun(error=error, takes_s=4))
    with pytest.raises(ClipError) as caught:
        await scorer.score(request())
    assert caught.value is error
    assert clock.monotonic() == 4
    assert (await scorer.score(request())).score == 95


async def test_a_rule_may_raise_the_error_itself(clock: VirtualClock) -> None:
    def rule(_: ScoreRequest) -> FakeRun:
        raise ScorerError("no room", machine_fault=True)

    scorer = FakeScorer(clock, rule)
    with pytest.raises(ScorerError, match="no room") as caught:
        await scorer.score(request())
    assert [run.outcome for run in scorer.ended] == [caught.value]
    assert scorer.running == 0


async def test_an_error_that_serves_many_runs_does_not_grow(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock, each(FakeRun(error=ScorerError("again"))))
    lengths = set()
    for _ in range(3):
        with pytest.raises(ScorerError) as caught:
            await scorer.score(request())
        lengths.add(len(caught.traceback))
    assert len(lengths) == 1


async def test_another_backend_is_refused_and_takes_nothing_from_the_script(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock)
    scorer.cue(FakeRun(score=1))
    with pytest.raises(BackendMismatchError, match="cuda") as caught:
        await scorer.score(request(backend=Backend.CUDA))
    assert (caught.value.asked, caught.value.used) == ("cuda", "cpu")
    assert scorer.ended == []
    assert (await scorer.score(request(backend=Backend.CPU))).score == 1


@pytest.mark.parametrize(
    ("default_s", "asked_s", "limit_s"), [(9, None, 9), (9, 5, 5), (9, 0, None), (0, None, None), (0, 5, 5)]
)
async def test_the_limit_of_a_run_is_the_requests_or_else_the_scorers(
    clock: VirtualClock, default_s: float, asked_s: float | None, limit_s: float | None
) -> None:
    scorer = FakeScorer(clock, each(FakeRun(takes_s=3600)), timeout_s=default_s)
    if limit_s is None:
        await scorer.score(request(timeout_s=asked_s))
        assert clock.monotonic() == 3600
        return
    with pytest.raises(ScoreTimeoutError, match=f"longer than {limit_s} s"):
        await scorer.score(request(timeout_s=asked_s))
    assert clock.monotonic() == limit_s
    assert clock.sleepers == 0


async def test_a_run_that_never_ends_is_ended_by_its_limit(clock: VirtualClock) -> None:
    with pytest.raises(ScoreTimeoutError):
        await FakeScorer(clock, each(FakeRun(takes_s=math.inf))).score(request(timeout_s=1800))
    assert clock.monotonic() == 1800


async def test_a_broken_scorer_fails_tests_and_runs_until_it_heals(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock)
    await scorer.self_test()
    scorer.break_down("the GPU fell off the bus")
    with pytest.raises(ScorerUnavailableError, match="fell off") as refused:
        await scorer.self_test()
    assert refused.value.setting == "VMAFX_VMAF_BINARY"
    with pytest.raises(ScorerError, match="fell off") as failed:
        await scorer.score(request())
    assert failed.value.machine_fault
    scorer.heal()
    await scorer.self_test()
    assert (await scorer.score(request())).score == 95
    assert scorer.self_tests == 3


@pytest.mark.parametrize("wrong", [{"takes_s": -1.0}, {"takes_s": math.nan}, {"frames": 0}], ids=str)
def test_a_run_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FakeRun(**wrong)


# ---------------------------------------------------------------- time and progress


async def test_runs_take_their_time_side_by_side(clock: VirtualClock) -> None:
    scorer = FakeScorer(clock)
    scorer.cue(FakeRun(takes_s=30), FakeRun(takes_s=10), FakeRun(takes_s=20))
    names = ("/a", "/b", "/c")
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(scorer.score(request(distorted=name)))
        await clock.sleep(15)
        assert scorer.running == 2
    assert (scorer.running, scorer.running_max) == (0, 3)
    assert [asked.distorted.name for asked in scorer.requests] == list(names)
    ends = [(run.request.distorted.name, run.started_s, run.ended_s) for run in scorer.ended]
    assert ends == [("/b", 0, 10), ("/c", 0, 20), ("/a", 0, 30)]


@pytest.mark.parametrize("frames", [1, 3, PROGRESS_CALLS_MAX, 10_001])
async def test_progress_is_told_as_time_passes_and_ends_at_the_last_frame(
    clock: VirtualClock, frames: int
) -> None:
    told: list[tuple[float, int]] = []

    def progress(done: int, total: int) -> None:
        assert total == frames
        told.append((clock.monotonic(), done))

    run = FakeRun(frames=frames, takes_s=10)
    await FakeScorer(clock, each(run)).score(request(), progress=progress)
    assert told == sorted(told)
    assert len(told) == len({done for _, done in told}) == min(frames, PROGRESS_CALLS_MAX)
    assert told[-1] == (10, frames)
    assert clock.monotonic() == 10


async def test_progress_ends_with_the_call(clock: VirtualClock) -> None:
    told: list[int] = []
    scorer = FakeScorer(clock, each(FakeRun(frames=10, takes_s=10)))
    scoring = asyncio.create_task(
        scorer.score(request(), progress=lambda done, _total: told.append(done)), name="scoring"
    )
    await clock.advance(3)
    scoring.cancel()
    await clock.advance(100)
    assert told == [1, 2, 3]


# ---------------------------------------------------------------- cancellation


@pytest.mark.parametrize("takes_s", [60, math.inf])
async def test_a_cancelled_run_leaves_nothing_but_its_record(clock: VirtualClock, takes_s: float) -> None:
    scorer = FakeScorer(clock, each(FakeRun(takes_s=takes_s)))
    scoring = asyncio.create_task(scorer.score(request(timeout_s=3600)))
    await clock.advance(5)
    assert scorer.running == 1
    scoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scoring
    assert (scorer.running, clock.sleepers) == (0, 0)
    assert scorer.ended == [EndedRun(request=request(timeout_s=3600), started_s=0, ended_s=5, outcome=None)]
