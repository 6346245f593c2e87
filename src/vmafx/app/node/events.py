"""What a node says in its log: fixed messages that operators search for, values as fields (ADR 0018)."""

from __future__ import annotations

import json
from typing import Final

from vmafx.domain.job import JobId, JobResult, SessionId
from vmafx.domain.scoring import Failure
from vmafx.domain.text import bounded
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = [
    "CANCELLED",
    "CLIENT_STARTED",
    "CLIENT_STOPPED",
    "CONTROLLER_ANSWERS_AGAIN",
    "DEADLINE_REACHED",
    "DEADLINE_REPORTS",
    "EXECUTING",
    "HEARTBEAT_DENIED",
    "HEARTBEAT_FAILED",
    "JOB_PULLED",
    "JOB_PULLED_AGAIN",
    "JOB_REFUSED",
    "NOT_DELIVERED",
    "NOT_DELIVERED_STOPPED",
    "PULLING_AGAIN",
    "PULLING_SUSPENDED",
    "PULL_FAILED",
    "REGISTERED",
    "REGISTER_FAILED",
    "REPORTED",
    "REPORT_FAILED",
    "SCORED",
    "SCORING",
    "SELF_TEST_FAILED",
    "SESSION_UNKNOWN",
    "EventLog",
    "seconds",
    "whole_result",
]

CLIENT_STARTED: Final = "controller client started"
CLIENT_STOPPED: Final = "controller client stopped"
REGISTERED: Final = "registered with controller"
REGISTER_FAILED: Final = "RegisterNode failed; retrying"
SESSION_UNKNOWN: Final = "controller no longer knows this session; registering again"
HEARTBEAT_DENIED: Final = "heartbeat refused; registering again"
HEARTBEAT_FAILED: Final = "heartbeat failed"
CONTROLLER_ANSWERS_AGAIN: Final = "controller answers again"
PULL_FAILED: Final = "PullWork failed"
JOB_PULLED: Final = "job pulled"
JOB_REFUSED: Final = "job refused: its id is empty or too long to be listed"
JOB_PULLED_AGAIN: Final = "job pulled again while it is held"
EXECUTING: Final = "execute job"
SCORING: Final = "scoring job"
SCORED: Final = "scoring complete"
CANCELLED: Final = "controller cancelled the job; stopping it"
REPORTED: Final = "job result reported"
REPORT_FAILED: Final = "ReportResult failed; retrying"
NOT_DELIVERED: Final = "job result not delivered"
NOT_DELIVERED_STOPPED: Final = "job result not delivered: node stopped"
DEADLINE_REACHED: Final = "stop deadline reached with jobs running; cancelling them"
DEADLINE_REPORTS: Final = "stop deadline passed with results undelivered; giving them up"
PULLING_SUSPENDED: Final = "machine faults in a row; no pulling until the self-test passes"
PULLING_AGAIN: Final = "self-test passed; pulling again"
SELF_TEST_FAILED: Final = "self-test failed; retrying"

_ID_SHOWN_BYTES_MAX: Final = 512


class EventLog:
    """Writes the events of a node, each with the session that it is about; it remembers nothing.

    Args:
        telemetry: Where they go.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def tell(
        self, level: Level, message: str, fields: Fields | None = None, *, node_id: SessionId | None = None
    ) -> None:
        """Write an event.

        Args:
            level: How much it matters.
            message: One of the messages of this module.
            fields: Its values.
            node_id: The session that it is about, which need not be the current one; None for none.
        """
        session: Fields = {} if node_id is None else {"node_id": node_id}
        self._telemetry.event(level, message, {**session, **(fields or {})})

    def tell_of_job(
        self,
        level: Level,
        message: str,
        job_id: JobId,
        fields: Fields | None = None,
        *,
        node_id: SessionId,
    ) -> None:
        """Write an event about a job.

        Args:
            level: How much it matters.
            message: One of the messages of this module.
            job_id: The job; an overlong id is cut.
            fields: Its other values.
            node_id: The session that it was pulled or reported under.
        """
        about: Fields = {"job_id": bounded(job_id, _ID_SHOWN_BYTES_MAX), **(fields or {})}
        self.tell(level, message, about, node_id=node_id)


def seconds(duration_s: float) -> float:
    """Return a duration as the log shows it: seconds, to the millisecond."""
    return round(duration_s, 3)


def whole_result(outcome: JobResult | Failure, attempt: int | None) -> Fields:
    """Return everything that a report would have told, so that the log can stand in for it.

    Args:
        outcome: How the job ended.
        attempt: The number of the attempt; None when it was not told.
    """
    if isinstance(outcome, Failure):
        return {"attempt": attempt, "failure": outcome.error, "retry": outcome.retry.value}
    features = json.dumps(dict(sorted(outcome.features.items())), allow_nan=False)
    return {"attempt": attempt, "score": outcome.score, "features": features}
