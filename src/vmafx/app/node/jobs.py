"""The jobs that a node holds, from the pull to the end of the report (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from vmafx.app.node.outcome import CancelCause, Outcome
from vmafx.domain.job import JobId, JobResult, SessionId
from vmafx.ports.controller import Assignment

__all__ = ["Again", "HeldJob", "HeldJobs", "Pulled", "same_work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """An assignment, and where it came from.

    Attributes:
        assignment: What is to be run.
        node_id: The session that it was pulled under.
    """

    assignment: Assignment
    node_id: SessionId


class Again(Enum):
    """What becomes of a job that is pulled while it is held."""

    ADOPTED = "adopted"
    """The run under way, or the success being reported, answers for it."""
    AFRESH = "afresh"
    """What is held ends in a failure: it runs anew once that is reported."""


@dataclass(slots=True, kw_only=True, eq=False)
class HeldJob:
    """A job that a slot holds.

    Attributes:
        assignment: What is run.
        node_id: The session that it was last pulled, or tried to be reported, under.
        attempt: The number of the attempt that the next report is about; None when it was not told.
        adoptions: How often it was pulled again and answered for.
        run: Its run.
        cause: Who stopped it; None when nobody did.
        outcome: How it ended; None while it runs.
        afresh: What is to be run once its failure is reported; None when nothing is.
    """

    assignment: Assignment
    node_id: SessionId
    attempt: int | None
    adoptions: int = 0
    run: asyncio.Task[Outcome] | None = None
    cause: CancelCause | None = None
    outcome: Outcome | None = None
    afresh: Pulled | None = None

    @property
    def job_id(self) -> JobId:
        """Its id."""
        return self.assignment.job_id

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self.outcome is None

    def stop(self, cause: CancelCause) -> None:
        """Stop its run; whoever was first is the cause. It changes nothing once the run has ended."""
        if self.cause is not None or self.run is None or self.run.done():
            return
        self.cause = cause
        if not self.run.cancelling():  # a second cancellation would disturb the cleaning up after the first
            self.run.cancel(cause.value)

    def pulled_again(self, pulled: Pulled) -> Again:
        """Take note that the controller handed it out once more, and say what becomes of that."""
        answers = self.cause is None if self.outcome is None else isinstance(self.outcome, JobResult)
        if not (answers and same_work(self.assignment, pulled.assignment)):
            self.afresh = pulled
            return Again.AFRESH
        attempt = pulled.assignment.attempt
        self.adoptions += 1
        self.node_id = pulled.node_id
        self.attempt = self.attempt if attempt is None else attempt
        return Again.ADOPTED


class HeldJobs:
    """The jobs held, by id; each id once."""

    def __init__(self) -> None:
        self._held: dict[JobId, HeldJob] = {}

    def __iter__(self) -> Iterator[HeldJob]:
        """Iterate over the jobs held now."""
        return iter(tuple(self._held.values()))

    def get(self, job_id: JobId) -> HeldJob | None:
        """Return the job of that id; None when it is not held."""
        return self._held.get(job_id)

    def take(self, pulled: Pulled) -> HeldJob:
        """Hold a job that is not held.

        Raises:
            ValueError: It is held.
        """
        assignment = pulled.assignment
        if assignment.job_id in self._held:
            raise ValueError(f"job {assignment.job_id!r} is held")
        job = HeldJob(assignment=assignment, node_id=pulled.node_id, attempt=assignment.attempt)
        self._held[assignment.job_id] = job
        return job

    def release(self, job: HeldJob) -> None:
        """Hold a job no longer."""
        del self._held[job.job_id]

    @property
    def running(self) -> int:
        """How many have not ended yet; those under report have."""
        return sum(job.runs for job in self)


def same_work(one: Assignment, other: Assignment) -> bool:
    """Return whether two assignments ask for the same; an id that comes with other inputs is another job."""
    return (one.job_id, one.reference, one.distorted, one.model, one.backend) == (
        other.job_id,
        other.reference,
        other.distorted,
        other.model,
        other.backend,
    )
