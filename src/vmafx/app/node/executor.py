"""From an assignment to a result: roots, sources, scorer; whatever goes wrong is a failure (ADR 0018)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from enum import Enum
from typing import Final

from vmafx.app.node.events import EXECUTING, SCORED, SCORING, EventLog
from vmafx.app.node.jobs import Pulled
from vmafx.app.node.outcome import Outcome, ai_job, failure_of, other_backend, unknown_job
from vmafx.domain.job import JobResult
from vmafx.domain.roots import FROM_CONTROLLER, ScoringRoots
from vmafx.domain.scoring import Backend, ScoreRequest, ScoreResult
from vmafx.domain.source import shown_source
from vmafx.domain.text import bounded
from vmafx.ports.controller import Assignment
from vmafx.ports.scorer import Scorer
from vmafx.ports.sources import SourceStore
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["Executor", "JobKind"]

_MODEL_SHOWN_BYTES_MAX: Final = 256


class JobKind(Enum):
    """What a job asks for; the values are those of the log."""

    SCORING = "scoring"
    AI = "ai"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, assignment: Assignment) -> JobKind:
        """Return what an assignment asks for, judged by what it names."""
        if assignment.reference and assignment.distorted:
            return cls.SCORING
        if assignment.reference and assignment.model:
            return cls.AI
        return cls.UNKNOWN


class Executor:
    """Runs one job at a time per call; calls may run side by side.

    Args:
        backend: What the node runs.
        scorer: Scores the pair.
        sources: Makes clips of the inputs.
        telemetry: Hears of spans.
        log: Hears of events.
    """

    def __init__(
        self, *, backend: Backend, scorer: Scorer, sources: SourceStore, telemetry: Telemetry, log: EventLog
    ) -> None:
        self._backend = backend
        self._scorer = scorer
        self._sources = sources
        self._telemetry = telemetry
        self._log = log

    async def execute(self, pulled: Pulled) -> Outcome:
        """Run a job and return how it ended; it raises nothing.

        Nothing is opened before the roots admitted both inputs. A cancellation propagates once nothing of
        the run is left.
        """
        assignment, node_id = pulled.assignment, pulled.node_id
        kind = JobKind.of(assignment)
        told: Fields = {"type": kind.value}
        self._log.tell_of_job(Level.INFO, EXECUTING, assignment.job_id, told, node_id=node_id)
        match kind:
            case JobKind.SCORING:
                return await self._run(pulled)
            case JobKind.AI:
                return ai_job(assignment.job_id, assignment.model)
            case JobKind.UNKNOWN:
                return unknown_job(assignment.job_id)

    async def _run(self, pulled: Pulled) -> Outcome:
        assignment = pulled.assignment
        if assignment.backend not in {"", self._backend.value}:
            return other_backend(assignment.job_id, assignment.backend, self._backend)
        attributes: Fields = {  # the ids go with every line that is written inside of the span
            "job_id": assignment.job_id,
            "node_id": pulled.node_id,
            "model": bounded(assignment.model, _MODEL_SHOWN_BYTES_MAX),
            "backend": self._backend.value,
        }
        try:
            with self._telemetry.span("vmafx.scoring", attributes):
                result = await self._score(pulled, attributes)
                found = JobResult(score=result.score, features=dict(result.features))
        except Exception as error:  # noqa: BLE001 -- a port that breaks its word fails one job, not the node
            return failure_of(assignment.job_id, error)
        told: Fields = {"score": found.score}
        self._log.tell_of_job(Level.INFO, SCORED, assignment.job_id, told, node_id=pulled.node_id)
        return found

    async def _score(self, pulled: Pulled, attributes: Fields) -> ScoreResult:
        assignment = pulled.assignment
        roots = ScoringRoots.parse(assignment.scoring_roots, origin=FROM_CONTROLLER)
        refs = [roots.admit(text) for text in (assignment.reference, assignment.distorted)]
        shown = {"ref": shown_source(assignment.reference), "dis": shown_source(assignment.distorted)}
        told = {**shown, "model": attributes["model"], "backend": self._backend.value}
        self._log.tell_of_job(Level.INFO, SCORING, assignment.job_id, told, node_id=pulled.node_id)
        places = [await self._sources.resolve(ref, roots) for ref in refs]
        async with AsyncExitStack() as held:
            reference, distorted = [
                await held.enter_async_context(self._sources.prepared(place, roots=roots)) for place in places
            ]
            request = ScoreRequest(
                reference=reference,
                distorted=distorted,
                model=assignment.model or None,
                backend=self._backend,
                job_id=assignment.job_id,
            )
            with self._telemetry.span("vmafx.frame.extraction", attributes):
                return await self._scorer.score(request)
