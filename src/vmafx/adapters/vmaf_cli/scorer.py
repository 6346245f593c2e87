"""CliScorer: the `Scorer` that runs a `vmaf` executable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vmafx.adapters.vmaf_cli.engine_ffmpeg import find_engine
from vmafx.adapters.vmaf_cli.lookup import BINARY_SETTING, EngineFinder, find_executable
from vmafx.adapters.vmaf_cli.options import ScorerOptions
from vmafx.adapters.vmaf_cli.run import PairRuns, Scored
from vmafx.adapters.vmaf_cli.selftest import ScorerInfo, prove
from vmafx.domain.errors import BackendMismatchError, ScorerUnavailableError
from vmafx.domain.scoring import Backend, ScoreRequest, ScoreResult
from vmafx.ports.clock import Clock
from vmafx.ports.processes import Processes
from vmafx.ports.scorer import Progress

if TYPE_CHECKING:
    from vmafx.ports.scorer import Scorer

__all__ = ["BACKEND_NOT_VERIFIED", "LOGGER", "SCORED_SHORTEST", "SCORER_INITIALISED", "CliScorer"]

LOGGER: Final = "vmafx.scorer"
SCORER_INITIALISED: Final = "scorer initialised"
BACKEND_NOT_VERIFIED: Final = (
    "backend is not verified: the scorer gives no receipt, the operator vouches for it"
)
SCORED_SHORTEST: Final = "clips have different numbers of frames; scored the common ones"

_log: Final = logging.getLogger(LOGGER)


class CliScorer:
    """Scores with the `vmaf` executable of this machine.

    Args:
        options: How to score.
        processes: Starts the executable; must be used from the thread of the event loop.
        clock: Limits how long things take.
        new_run_id: Returns a new id for each run: letters, digits and `-` only.
        find_engine: Finds the embedded engine.
    """

    def __init__(
        self,
        options: ScorerOptions,
        *,
        processes: Processes,
        clock: Clock,
        new_run_id: Callable[[], str],
        find_engine: EngineFinder = find_engine,
    ) -> None:
        self._options = options
        self._find_engine = find_engine
        self._runs = PairRuns(options, processes=processes, clock=clock, new_run_id=new_run_id)
        self._testing = asyncio.Lock()
        self._tests_ended = 0
        self._outcome: ScorerInfo | ScorerUnavailableError = _not_tested()

    @property
    def info(self) -> ScorerInfo | None:
        """What was proven to work; None before a self-test, and after one that failed."""
        return self._outcome if isinstance(self._outcome, ScorerInfo) else None

    async def self_test(self) -> None:
        """Find the executable and prove it; calls that come while one is at it share its outcome.

        Raises:
            ScorerUnavailableError: There is none, or it cannot do what will be asked of it.
        """
        await self._tested()

    async def score(self, request: ScoreRequest, *, progress: Progress | None = None) -> ScoreResult:
        """Score a pair with a process of its own, after a self-test if none succeeded yet.

        Raises:
            BackendMismatchError: The request asks for a backend that this scorer does not run.
            VmafxError: Whatever else the port says.
        """
        backend = self._options.backend
        if request.backend is not None and request.backend is not backend:
            asked, own = request.backend.value, backend.value
            raise BackendMismatchError(
                asked, own, f"backend {asked} was asked for, but this scorer runs {own}"
            )
        info = self.info or await self._tested()
        scored = await self._runs.score(info.tool, request, progress=progress)
        if scored.clip_frames[0] != scored.clip_frames[1]:
            _tell_shortest(request, scored)
        return _result(scored, info)

    async def _tested(self) -> ScorerInfo:
        ended = self._tests_ended
        async with self._testing:
            if self._tests_ended == ended:
                self._outcome = await self._test()
                self._tests_ended += 1
        if isinstance(self._outcome, ScorerInfo):
            return self._outcome
        failed = self._outcome
        raise ScorerUnavailableError(
            failed.setting, failed.problem, exit_status=failed.exit_status
        ) from failed

    async def _test(self) -> ScorerInfo | ScorerUnavailableError:
        try:
            executable = find_executable(self._options, find_engine=self._find_engine)
            info = await prove(executable, self._options, self._runs)
        except ScorerUnavailableError as error:
            return error
        _tell_proven(info, self._options)
        return info


def _not_tested() -> ScorerUnavailableError:
    return ScorerUnavailableError(BINARY_SETTING, "not tested yet")


def _tell_proven(info: ScorerInfo, options: ScorerOptions) -> None:
    facts = {"vmaf_binary": info.executable, "model_dir": options.model_dir, "why": info.why}
    _log.info(SCORER_INITIALISED, extra=facts)
    if info.backend is not Backend.CPU and not info.verified:
        vouched = {"backend": info.backend.value, "setting": "VMAFX_BACKEND_UNVERIFIED"}
        _log.warning(BACKEND_NOT_VERIFIED, extra={"vmaf_binary": info.executable, **vouched})


def _tell_shortest(request: ScoreRequest, scored: Scored) -> None:
    facts = {
        "job_id": request.job_id,
        "ref": request.reference.name,
        "dis": request.distorted.name,
        "ref_frames": scored.clip_frames[0],
        "dis_frames": scored.clip_frames[1],
        "frames": scored.frames,
    }
    _log.warning(SCORED_SHORTEST, extra=facts)


def _result(scored: Scored, info: ScorerInfo) -> ScoreResult:
    report = scored.report
    return ScoreResult(
        score=report.score,
        features=report.features,
        frames=len(report.frame_values),
        reference_frames=scored.clip_frames[0],
        distorted_frames=scored.clip_frames[1],
        model=scored.model,
        scorer=info.version or report.version,
        backend_used=scored.backend_used,
        frame_scores=report.frame_scores,
    )


if TYPE_CHECKING:
    _port: type[Scorer] = CliScorer
