"""Feedback: samples for a trainer beside the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vmafx.domain.job import JobId

__all__ = ["Feedback", "FeedbackCounts", "FeedbackSample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackSample:
    """One thing to learn from.

    Attributes:
        job_id: The job that it comes from.
        features: The features' values, in the trainer's order.
        true_score: The score that belongs to them.
    """

    job_id: JobId
    features: tuple[float, ...]
    true_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackCounts:
    """What became of the samples so far.

    Attributes:
        delivered: How many the trainer took.
        dropped: How many were given up: no room, or values that cannot be sent.
    """

    delivered: int
    dropped: int


class Feedback(Protocol):
    """Takes samples on their way; losing some is no harm, waiting for the trainer would be."""

    def offer(self, sample: FeedbackSample) -> bool:
        """Take a sample for later delivery, or drop it when there is no room; never waits, never raises.

        Works before the delivery was started. A sample may be delivered more than once.

        Returns:
            Whether it was taken.
        """
        ...

    def counts(self) -> FeedbackCounts:
        """Return what became of the samples so far."""
        ...
