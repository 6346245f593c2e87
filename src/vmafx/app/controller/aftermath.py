"""Aftermath: what follows from what a store has written (ADR 0025).

The one place where a stored transition is counted, told in the log, shown to those who follow the jobs, and
made known to the pulls that wait for work. Whoever makes a call that may change a job passes the answer on to
here, once, and does none of these things itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from vmafx.app.controller import events, metrics
from vmafx.app.controller.feed import JobFeed
from vmafx.app.controller.waiting import PullWaits
from vmafx.domain.job import Job, JobStatus, RequeueReason
from vmafx.domain.job_events import Assigned, Finished, JobEffect, LossCounted, Requeued, TakenOver
from vmafx.domain.nodesession import NodeSession
from vmafx.ports.jobstore import Change, Claim, Submission, SweepAnswer
from vmafx.ports.metrics import LABEL_NONE
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["Aftermath"]

_SHOWN: Final = (Assigned, TakenOver, LossCounted, Requeued, Finished)
_ENDS: Final[Mapping[JobStatus, tuple[str, Level, str]]] = {
    JobStatus.COMPLETED: (metrics.JOBS_COMPLETED, Level.INFO, events.JOB_COMPLETED),
    JobStatus.FAILED: (metrics.JOBS_FAILED, Level.WARN, events.JOB_FAILED),
    JobStatus.CANCELLED: (metrics.JOBS_CANCELLED, Level.INFO, events.JOB_CANCELLED),
}
_WISHED: Final = frozenset({RequeueReason.RELEASED, RequeueReason.ASSIGN_ROLLBACK})


class Aftermath:
    """Lets the rest of the controller know what was stored; no method waits or raises.

    Args:
        telemetry: Counts and tells.
        waits: The pulls that wait for work.
        feed: Those who follow the jobs.
    """

    def __init__(self, telemetry: Telemetry, waits: PullWaits, feed: JobFeed) -> None:
        self._telemetry = telemetry
        self._waits = waits
        self._feed = feed

    def submitted(self, submission: Submission) -> None:
        """Let a submission be known; one that was stored by an earlier call is known already."""
        if not submission.created:
            return
        job = submission.job
        self._telemetry.count(metrics.JOBS_SUBMITTED, {"tenant": job.tenant})
        asked = None if job.spec.backend is None else job.spec.backend.value
        self._tell(Level.DEBUG, events.JOB_SUBMITTED, job, {"model": job.spec.model, "backend": asked})
        self._feed.publish(job)
        self._waits.work_arrived(job.tenant, job.spec.backend, job.available_at)

    def claimed(self, claim: Claim) -> None:
        """Let an assignment be known."""
        job, attempt = claim.job, claim.attempt
        waited_s = _seconds_between(job.available_at, attempt.started_at)
        self._telemetry.observe(metrics.QUEUE_WAIT, waited_s, {"tenant": job.tenant})
        fields: Fields = {
            "node": events.shown_id(attempt.node),
            "node_id": events.shown_id(attempt.session),
            "attempt": attempt.number,
            "waited": events.seconds(waited_s),
        }
        self._tell(Level.DEBUG, events.JOB_ASSIGNED, job, fields)
        self._feed.publish(job)

    def changed(self, change: Change) -> None:
        """Let what a call did to a job be known."""
        for effect in change.effects:
            self._follow(change.job, effect)
        if any(isinstance(effect, _SHOWN) for effect in change.effects):
            self._feed.publish(change.job)

    def changes(self, changes: Iterable[Change]) -> None:
        """Let what a call did to several jobs be known."""
        for change in changes:
            self.changed(change)

    def swept(self, answer: SweepAnswer) -> None:
        """Let what a sweep did be known."""
        self.changes(answer.changes)
        for session in answer.sessions_ended:
            self._tell_session(events.SESSION_ENDED, session, {})

    def registered(self, session: NodeSession) -> None:
        """Let a new session be known."""
        can = session.capability
        backends = " ".join(sorted(backend.value for backend in can.backends))
        fields: Fields = {"backends": backends, "concurrency": can.concurrency}
        self._tell_session(events.NODE_REGISTERED, session, fields)

    # ------------------------------------------------------------ one effect each

    def _follow(self, job: Job, effect: JobEffect) -> None:
        match effect:
            case Requeued():
                self._requeued(job, effect)
            case Finished():
                self._finished(job, effect)
            case TakenOver():
                fields: Fields = {
                    "node": _node_of(job),
                    "attempt": effect.attempt,
                    "lost_from": events.shown_id(effect.lost_from),
                    "loss_forgiven": effect.loss_forgiven,
                }
                self._tell(Level.INFO, events.JOB_TAKEN_OVER, job, fields)
            case _:  # what they mean is told with the job's end or with its place in the queue
                pass

    def _requeued(self, job: Job, effect: Requeued) -> None:
        self._telemetry.count(metrics.JOBS_REQUEUED, {"reason": effect.reason.value})
        fields: Fields = {
            "node": events.shown_id(effect.node or ""),
            "node_id": events.shown_id(effect.session or ""),
            "reason": effect.reason.value,
            "attempt": job.attempt,
            "lost_attempts": job.lost_attempts,
            "retry_in": events.seconds(_seconds_between(job.updated_at, effect.available_at)),
        }
        level = Level.INFO if effect.reason in _WISHED else Level.WARN
        self._tell(level, events.JOB_REQUEUED, job, fields)
        self._waits.work_arrived(job.tenant, job.spec.backend, effect.available_at)

    def _finished(self, job: Job, effect: Finished) -> None:
        family, level, message = _ENDS[effect.status]
        took_s = _seconds_between(job.created_at, job.finished_at or job.updated_at)
        outcome = {"tenant": job.tenant, "outcome": effect.status.value}
        self._telemetry.count(family, {"tenant": job.tenant})
        self._telemetry.observe(metrics.JOB_DURATION, took_s, outcome)
        fields: dict[str, str | int | float | bool | None] = {
            "node": _node_of(job),
            "node_id": events.shown_id(effect.session or ""),
            "attempt": job.attempt,
            "took": events.seconds(took_s),
        }
        if job.result is not None:
            fields["score"] = job.result.score
            labels = {"tenant": job.tenant, "model": job.spec.model or "", "profile": LABEL_NONE}
            self._telemetry.observe(metrics.QUALITY_SCORE, job.result.score, labels)
        if job.error is not None:
            fields |= {"failure": job.error, "lost_attempts": job.lost_attempts}
        self._tell(level, message, job, fields)

    def _tell(self, level: Level, message: str, job: Job, fields: Fields) -> None:
        self._telemetry.event(level, message, events.about_job(job, fields))

    def _tell_session(self, message: str, session: NodeSession, fields: Fields) -> None:
        about: Fields = {
            "tenant": events.shown_id(session.tenant),
            "node": events.shown_id(session.node),
            "node_id": events.shown_id(session.id),
            **fields,
        }
        self._telemetry.event(Level.INFO, message, about)


def _node_of(job: Job) -> str:
    """Return who has or had a job; empty when nobody had."""
    return "" if job.assigned_node is None else events.shown_id(job.assigned_node)


def _seconds_between(earlier: datetime, later: datetime) -> float:
    """Return how long it was, in seconds; never below 0, whatever a clock did in between."""
    return max(0.0, (later - earlier).total_seconds())
