"""Scorer: a pair of clips to a result."""

from __future__ import annotations

from typing import Protocol

from vmafx.domain.scoring import ScoreRequest, ScoreResult

__all__ = ["Progress", "Scorer"]


class Progress(Protocol):
    """Hears how far a run has come."""

    def __call__(self, frames_done: int, frames_total: int) -> None:
        """Take note that `frames_done` of `frames_total` frames are scored; must not block or raise."""
        ...


class Scorer(Protocol):
    """Scores one pair at a time per call; calls may run side by side."""

    async def self_test(self) -> None:
        """Prove that scoring works here and now, with the options that requests will use (ADR 0003).

        Raises:
            ScorerUnavailableError: It does not; names the setting that decides it.
        """
        ...

    async def score(self, request: ScoreRequest, *, progress: Progress | None = None) -> ScoreResult:
        """Score the request's pair.

        The result is that of these very clips: whole frames, the same number on both sides unless the
        scorer was told otherwise, the backend asked for. When the call ends, however it ends, nothing of the
        run is left: no process, no temporary file, no descriptor. Cancellation kills the run first and then
        propagates.

        Args:
            request: What to score and how.
            progress: Called as frames are scored, where the scorer can tell; never after the call ended.

        Raises:
            ClipError: An input cannot be scored, or the pair cannot be compared; no process was started, or
                its result was not used.
            NotFiniteError: The score or a feature is no finite number.
            BackendMismatchError: The request asks for a backend that this scorer does not run, or the run
                used another.
            ScoreTimeoutError: The run took longer than it may.
            ReportError: The run left no report that can be believed.
            ScorerUnavailableError: There is nothing here that can score.
            ScorerError: The run failed otherwise.
        """
        ...
