"""Spool: final results that could not be delivered yet (ADR 0013)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol, TypeAlias

from vmafx.domain.job import JobId, JobResult
from vmafx.domain.scoring import Failure

__all__ = ["FinalContent", "Spool", "SpoolEntry", "SpoolPlace"]

FinalContent: TypeAlias = JobResult | Failure


class SpoolPlace(Enum):
    """Where a result lies."""

    WAITING = "waiting"
    """It is to be delivered."""
    REJECTED = "rejected"
    """The controller will not take it; it is kept for people to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolEntry:
    """A result that is kept.

    Attributes:
        job_id: The job; opaque, never part of a file's name.
        content: What is to be reported.
        attempt: The number of the attempt that it is about; None when the controller did not tell.
        spooled_at: When it was put here.
        place: Where it lies.
        reason: Why it was rejected; empty while it waits.
    """

    job_id: JobId
    content: FinalContent
    attempt: int | None
    spooled_at: datetime
    place: SpoolPlace = SpoolPlace.WAITING
    reason: str = ""


class Spool(Protocol):
    """Keeps results for one node of one controller; what is shown is never another's.

    Successes outlive the process that put them here, also a crash right after `put` returned; failures do
    not. A job has one entry at most. An entry that cannot be read is left out, and does not keep others from
    being read.
    """

    async def put(self, entry: SpoolEntry) -> None:
        """Keep a waiting result; it takes the place of the job's earlier entry.

        When this returns, the result is safe; when it raises or is cancelled, the earlier entry is whole.

        Raises:
            SpoolError: There is no room for it, or it cannot be written.
        """
        ...

    async def waiting(self) -> tuple[SpoolEntry, ...]:
        """Return the results to deliver, the oldest first.

        Raises:
            SpoolError: The spool cannot be read.
        """
        ...

    async def find(self, job_id: JobId) -> SpoolEntry | None:
        """Return the job's entry, waiting or rejected; None when there is none.

        Raises:
            SpoolError: The spool cannot be read.
        """
        ...

    async def remove(self, job_id: JobId) -> None:
        """Forget the job's entry, as it was delivered or is of no use; none is no error.

        Raises:
            SpoolError: It cannot be removed.
        """
        ...

    async def reject(self, job_id: JobId, reason: str) -> None:
        """Set the job's waiting entry aside; none is no error.

        Args:
            job_id: The job.
            reason: What the controller said.

        Raises:
            SpoolError: It cannot be moved.
        """
        ...
