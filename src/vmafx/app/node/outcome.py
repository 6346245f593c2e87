"""How a job ends in words: the error texts of a node's reports (ADR 0018)."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Final

from vmafx.domain.error_text import READ_CHARACTERS_MAX, report_text, without_secrets
from vmafx.domain.errors import NotFiniteError, VmafxError
from vmafx.domain.faults import WANT_OF_SYSTEM
from vmafx.domain.job import JobId, JobResult
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.domain.text import shown

__all__ = [
    "CancelCause",
    "Outcome",
    "ai_job",
    "failure_of",
    "other_backend",
    "settled",
    "unknown_job",
    "words_of",
]

Outcome = JobResult | Failure
"""What a report of a node tells: it ends an attempt."""

_SHOWN_BYTES_MAX: Final = 256
"""How much of an id, or of the name of a model or backend, an error text shows, in bytes."""
_EMPTY_WORDS: Final = "stderr:"


class CancelCause(Enum):
    """Who stopped a job; the values begin the error of its report."""

    CONTROLLER = "cancelled by the controller"
    SHUTDOWN = "node shutting down, job interrupted"


def unknown_job(job_id: JobId) -> Failure:
    """Return the failure of a job that asks for nothing that a node knows."""
    return Failure(error=report_text(f"executor: unknown job type for job {_named(job_id)}"))


def ai_job(job_id: JobId, model: str) -> Failure:
    """Return the failure of a job that asks for an AI model on one clip."""
    asked = without_secrets(model, _SHOWN_BYTES_MAX)
    text = f"executor: AI job {_named(job_id)} requires Stage 2 input transport (model={asked})"
    return Failure(error=report_text(text))


def other_backend(job_id: JobId, asked: str, own: Backend) -> Failure:
    """Return the failure of a job that asks for a backend that this node does not run."""
    shown_backend = without_secrets(asked, _SHOWN_BYTES_MAX)
    reason = f'backend "{shown_backend}" was asked for, this node runs "{own.value}"'
    return Failure(error=_about(job_id, reason))


def failure_of(job_id: JobId, error: Exception) -> Failure:
    """Return the failure that an error of the scorer or of a source makes of a job."""
    if isinstance(error, NotFiniteError):
        name = "score" if error.name in {"score", "vmaf"} else error.name
        return Failure(error=report_text(f"executor returned a non-finite value for {name}"))
    words = "; ".join(_lines(words_of(error)))
    named = words if isinstance(error, VmafxError) else f"{type(error).__name__}: {words}"
    retry = Retry.ELSEWHERE if _machine_fault(error) else Retry.NO
    return Failure(error=_about(job_id, named), retry=retry)


def settled(job_id: JobId, run: asyncio.Task[Outcome], cause: CancelCause | None) -> Outcome:
    """Return how a job ended.

    Args:
        job_id: The job.
        run: Its run, which is over.
        cause: Who stopped it; None when nobody did. A score counts although somebody did.
    """
    if run.cancelled():
        # Nobody of ours stopped it: something on this machine did.
        outcome: Outcome = Failure(error=_about(job_id, "the run was stopped"), retry=Retry.ELSEWHERE)
    else:
        outcome = run.result()
    if cause is None or isinstance(outcome, JobResult):
        return outcome
    retry = Retry.AT_ONCE if cause is CancelCause.SHUTDOWN else Retry.NO
    return Failure(error=report_text(f"{cause.value}: {outcome.error}"), retry=retry)


def words_of(error: Exception) -> str:
    """Return what an error says, perhaps nothing; an error that cannot say it raises nothing here."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- an error of foreign make
        return "it has no words"


def _about(job_id: JobId, reason: str) -> str:
    return report_text(f"executor: score job {_named(job_id)}: {reason}")


def _named(job_id: JobId) -> str:
    return shown(job_id, _SHOWN_BYTES_MAX)


def _lines(words: str) -> list[str]:
    """Return the lines that say something; words too long for anybody to read stay as they are."""
    if len(words) > READ_CHARACTERS_MAX:
        return [words]
    lines = (line.strip(" \t\r") for line in words.split("\n"))
    return [line for line in lines if line and line != _EMPTY_WORDS]


def _machine_fault(error: Exception) -> bool:
    if isinstance(error, VmafxError):
        return error.machine_fault
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in WANT_OF_SYSTEM)
