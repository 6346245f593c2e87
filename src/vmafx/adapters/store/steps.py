"""A step of a job as a store takes it (ADR 0023)."""

from __future__ import annotations

from vmafx.adapters.store.transaction import Transaction
from vmafx.domain.attempt import JobHistory
from vmafx.domain.job_events import JobEvent
from vmafx.domain.lease import LeasePolicy
from vmafx.domain.lifecycle import Step, step
from vmafx.ports.jobstore import Change

__all__ = ["check_limit", "play", "told"]


def play(books: Transaction, before: JobHistory, event: JobEvent, policy: LeasePolicy) -> Step:
    """Take the step and write what it changed; every change of a stored job is made here."""
    after = step(before, event, policy)
    if after.history is not before:
        books.write_job(before, after.history)
    return after


def told(after: Step) -> Change:
    """Return a step as its caller is told of it."""
    return Change(job=after.history.job, effects=after.effects)


def check_limit(limit: int, limit_max: int) -> None:
    """Refuse a limit that is none.

    Raises:
        ValueError: It is below 1, or above the largest.
    """
    if not 1 <= limit <= limit_max:
        raise ValueError(f"limit={limit} must be 1 to {limit_max}")
