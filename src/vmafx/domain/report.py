"""Which report counts: the first success wins, and a stale failure ends nothing (ADR 0012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from vmafx.domain.attempt import Attempt, JobHistory
from vmafx.domain.error_text import ERROR_BYTES_MAX
from vmafx.domain.job import Job, JobResult
from vmafx.domain.nodesession import NodeSession
from vmafx.domain.scoring import Failure, Retry, finite
from vmafx.domain.text import bounded, printable

__all__ = ["Partial", "Report", "ReportContent", "ReportVerdict", "credited_attempt", "judge_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """Scores of a run that has not ended.

    Attributes:
        scores: The scores so far.

    Raises:
        NotFiniteError: One is no finite number.
    """

    scores: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for score in self.scores:
            finite("partial score", score)


ReportContent: TypeAlias = JobResult | Failure | Partial


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a node says of a job that it was given.

    Attributes:
        content: A success or a failure, which are final, or partial scores.
        attempt: The number of the attempt that it is about; None when the node does not say.
    """

    content: ReportContent
    attempt: int | None = None

    def storable(self) -> Report:
        """Return the report as it may be kept: the words of a failure printable, and cut to 4 KiB."""
        if not isinstance(self.content, Failure):
            return self
        error = bounded(printable(self.content.error), ERROR_BYTES_MAX)
        return replace(self, content=replace(self.content, error=error))


class ReportVerdict(Enum):
    """What a report does to its job."""

    RECORD_SUCCESS = "record_success"
    """The job is completed with this result."""
    RECORD_FAILURE = "record_failure"
    """The job failed with this error."""
    REQUEUE_RETRYABLE = "requeue_retryable"
    """The attempt failed and counts as lost; the job is tried again after a wait."""
    REQUEUE_RELEASED = "requeue_released"
    """The attempt is given back; the job is tried again at once."""
    ACCEPT_PARTIAL = "accept_partial"
    """The scores are those of the running attempt; the job goes on."""
    IGNORE = "ignore"
    """Answered OK; it changes nothing."""
    REFUSE = "refuse"
    """The job is not the reporter's to report; it changes nothing."""


def judge_report(
    history: JobHistory, report: Report, reporter: NodeSession, *, holder_seen_at: datetime | None
) -> ReportVerdict:
    """Return what a report does to its job; the one rule for every store.

    Args:
        history: The job and its attempts.
        report: The report.
        reporter: The session that reports, found valid before.
        holder_seen_at: When the last heartbeat of the session that holds the current attempt was accepted;
            None when there was none or the session is no longer kept. It matters only when that is another
            session than the reporter's.
    """
    job = history.job
    if job.tenant != reporter.tenant or not history.held_by_name(reporter.node):
        return ReportVerdict.REFUSE
    match report.content:
        case Partial():
            return _judge_partial(history, report, reporter)
        case JobResult() if not job.status.terminal:
            mine = credited_attempt(history, report, reporter)
            return ReportVerdict.REFUSE if mine is None else ReportVerdict.RECORD_SUCCESS
        case Failure() as failure if not job.status.terminal:
            if not _about_current(history, report, reporter, holder_seen_at=holder_seen_at):
                return ReportVerdict.IGNORE
            return _judge_failure(job, failure)
        case _:
            return ReportVerdict.IGNORE


def credited_attempt(history: JobHistory, report: Report, reporter: NodeSession) -> Attempt | None:
    """Return the attempt that a success of the reporter belongs to.

    Of the attempts that this session, or an earlier one of its name, was ever given it is the one that the
    report numbers, else the latest.

    Returns:
        The attempt; None when there is no such attempt, so that the success is not the reporter's.
    """
    mine = [attempt for attempt in history.attempts if attempt.reportable_by(reporter)]
    numbered = [attempt for attempt in mine if attempt.number == report.attempt]
    return next(reversed(numbered or mine), None)


def _judge_partial(history: JobHistory, report: Report, reporter: NodeSession) -> ReportVerdict:
    current = history.current
    mine = current is not None and current.held_by(reporter) and report.attempt in {None, current.number}
    return ReportVerdict.ACCEPT_PARTIAL if mine else ReportVerdict.REFUSE


def _about_current(
    history: JobHistory, report: Report, reporter: NodeSession, *, holder_seen_at: datetime | None
) -> bool:
    """Whether a failure is one of the attempt that runs: by its number, or else by who holds it."""
    current = history.current
    if current is None or current.node != reporter.node:
        return False
    if report.attempt is not None:
        return report.attempt == current.number
    if current.held_by(reporter):
        return True
    gone = holder_seen_at is None or holder_seen_at < reporter.registered_at
    return current.held_before(reporter) and gone


def _judge_failure(job: Job, failure: Failure) -> ReportVerdict:
    match failure.retry:
        case Retry.NO:
            return ReportVerdict.RECORD_FAILURE
        case Retry.AT_ONCE:
            return ReportVerdict.REQUEUE_RELEASED
        case Retry.ELSEWHERE:
            return ReportVerdict.RECORD_FAILURE if job.on_last_try else ReportVerdict.REQUEUE_RETRYABLE
