"""FakeScorer: a scorer whose runs are told how to go, and take the time of a clock (ADR 0014)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vmafx.adapters.fakes.script import Script
from vmafx.domain.errors import (
    BackendMismatchError,
    ScorerError,
    ScorerUnavailableError,
    ScoreTimeoutError,
    VmafxError,
)
from vmafx.domain.scoring import Backend, FrameScore, ScoreRequest, ScoreResult
from vmafx.ports.clock import Clock
from vmafx.ports.scorer import Progress

if TYPE_CHECKING:
    from vmafx.ports.scorer import Scorer

__all__ = ["PROGRESS_CALLS_MAX", "EndedRun", "FakeRun", "FakeScorer", "RunRule"]

PROGRESS_CALLS_MAX: Final = 100
"""How often one run reports progress at most; shorter clips are reported frame by frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRun:
    """How one run goes.

    Attributes:
        score: The score of every frame and of the whole; when it is not finite the run fails.
        error: How the run fails once its time has passed; None when it succeeds.
        takes_s: How long it takes, in seconds; infinite when it never ends by itself.
        frames: How many frames each clip has.

    Raises:
        ValueError: A number is outside its range.
    """

    score: float = 95.0
    error: VmafxError | None = None
    takes_s: float = 0.0
    frames: int = 6

    def __post_init__(self) -> None:
        if not self.takes_s >= 0:
            raise ValueError(f"takes_s={self.takes_s} must be 0 or more seconds")
        if self.frames < 1:
            raise ValueError(f"frames={self.frames} must be 1 or more")


RunRule: TypeAlias = Callable[[ScoreRequest], FakeRun]
"""Says how the run of a request goes; may raise the error of the run instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """A run that is over.

    Attributes:
        request: What was asked.
        started_s: When it began, on the clock's monotonic time.
        ended_s: When it ended.
        outcome: The result, or the error it failed with; None when it was cancelled.
    """

    request: ScoreRequest
    started_s: float
    ended_s: float
    outcome: ScoreResult | VmafxError | None


class FakeScorer:
    """A `Scorer` that reads no clip: a script and a rule say how each run goes.

    Args:
        clock: What its runs take their time from.
        rule: How runs go; None lets all succeed at once.
        backend: What it runs on; requests for another are refused.
        model: The model when a request names none.
        timeout_s: How long a run may take when the request does not say, in seconds; 0 sets no limit.
    """

    requests: list[ScoreRequest]
    """Every request so far, in order, refused ones among them."""
    ended: list[EndedRun]
    """Every run that is over, in the order they ended."""
    self_tests: int
    """How many self-tests were asked for."""

    def __init__(
        self,
        clock: Clock,
        rule: RunRule | None = None,
        *,
        backend: Backend = Backend.CPU,
        model: str = "vmaf_v0.6.1",
        timeout_s: float = 0.0,
    ) -> None:
        self.requests = []
        self.ended = []
        self.self_tests = 0
        self._clock = clock
        self._script = Script[ScoreRequest, FakeRun](rule or _succeeds)
        self._backend = backend
        self._model = model
        self._timeout_s = timeout_s
        self._running = 0
        self._running_max = 0
        self._fault: str | None = None

    async def self_test(self) -> None:
        """Pass, unless the scorer is broken.

        Raises:
            ScorerUnavailableError: It is broken; names `VMAFX_VMAF_BINARY`.
        """
        self.self_tests += 1
        await self._clock.sleep(0)
        if self._fault is not None:
            raise ScorerUnavailableError("VMAFX_VMAF_BINARY", self._fault)

    async def score(self, request: ScoreRequest, *, progress: Progress | None = None) -> ScoreResult:
        """Let the request's run go as its script, or else its rule, says.

        Raises:
            BackendMismatchError: The request asks for another backend than the scorer's.
            ScoreTimeoutError: The run takes longer than it may.
            NotFiniteError: The run's score is not finite.
            ScorerError: The scorer is broken; `machine_fault` is set.
            VmafxError: The run's own error.
        """
        self.requests.append(request)
        self._refuse_other_backend(request)
        started_s = self._clock.monotonic()
        outcome: ScoreResult | VmafxError | None = None
        self._running += 1
        self._running_max = max(self._running_max, self._running)
        try:
            result = outcome = await self._run(request, progress)
        except VmafxError as error:
            outcome = error
            raise
        finally:
            self._running -= 1
            ended_s = self._clock.monotonic()
            self.ended.append(
                EndedRun(request=request, started_s=started_s, ended_s=ended_s, outcome=outcome)
            )
        return result

    def cue(self, *runs: FakeRun) -> None:
        """Let the next runs go like `runs`, one each and in order, before the rule is asked again."""
        self._script.cue(*runs)

    def break_down(self, problem: str = "the machine is broken") -> None:
        """Fail every self-test and every run that begins from now on, as a fault of the machine."""
        self._fault = problem

    def heal(self) -> None:
        """Work again."""
        self._fault = None

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return self._running

    @property
    def running_max(self) -> int:
        """How many runs were under way at once, at most."""
        return self._running_max

    async def _run(self, request: ScoreRequest, progress: Progress | None) -> ScoreResult:
        if self._fault is not None:
            await self._clock.sleep(0)
            raise ScorerError(self._fault, machine_fault=True)
        run = self._script.answer(request)
        limit_s = self._timeout_s if request.timeout_s is None else request.timeout_s
        try:
            async with self._clock.timeout(limit_s or None):
                await self._pass_time(run, progress)
        except TimeoutError as error:
            raise ScoreTimeoutError(f"the run took longer than {limit_s:g} s") from error
        if run.error is not None:
            raise run.error.with_traceback(None)  # the same error may serve many runs
        return self._result(request, run)

    async def _pass_time(self, run: FakeRun, progress: Progress | None) -> None:
        if math.isinf(run.takes_s):
            await asyncio.Event().wait()
        steps = min(run.frames, PROGRESS_CALLS_MAX) if progress else 1
        started_s = self._clock.monotonic()
        for step in range(1, steps + 1):
            await self._clock.sleep(started_s + run.takes_s * step / steps - self._clock.monotonic())
            if progress:
                progress(run.frames * step // steps, run.frames)

    def _result(self, request: ScoreRequest, run: FakeRun) -> ScoreResult:
        scored = range(0, run.frames, request.subsample)
        return ScoreResult(
            score=run.score,
            features={"vmaf": run.score},
            frames=len(scored),
            reference_frames=run.frames,
            distorted_frames=run.frames,
            model=request.model or self._model,
            scorer="fake",
            backend_used=self._backend,
            frame_scores=tuple(FrameScore(frame=n, score=run.score) for n in scored)
            if request.frame_scores
            else None,
        )

    def _refuse_other_backend(self, request: ScoreRequest) -> None:
        if request.backend is not None and request.backend is not self._backend:
            asked, used = request.backend.value, self._backend.value
            raise BackendMismatchError(asked, used, f"backend {asked} was asked for, this scorer runs {used}")


def _succeeds(_: ScoreRequest) -> FakeRun:
    return FakeRun()


if TYPE_CHECKING:
    _port: type[Scorer] = FakeScorer
