"""The calls that a FakeController hears (ADR 0014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from vmafx.domain.job import JobId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability
from vmafx.domain.report import Report
from vmafx.domain.retry import Call
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

__all__ = ["Answer", "HeartbeatCall", "NodeCall", "PullCall", "RegisterCall", "ReportCall"]

Answer: TypeAlias = Registration | HeartbeatAnswer | Assignment | None
"""What the calls are answered with; None is the answer of a pull that finds nothing, and of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterCall:
    """A node registers.

    Attributes:
        at_s: When, on the clock's monotonic time; the same in every call.
        timeout_s: How long the caller waits, in seconds; the same in every call.
    """

    kind: ClassVar[Call] = Call.REGISTER
    at_s: float
    timeout_s: float
    identity: NodeIdentity
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatCall:
    """A node beats."""

    kind: ClassVar[Call] = Call.HEARTBEAT
    at_s: float
    timeout_s: float
    session: Session
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class PullCall:
    """A node asks for work."""

    kind: ClassVar[Call] = Call.PULL
    at_s: float
    timeout_s: float
    session: Session
    capability: Capability


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCall:
    """A node reports."""

    kind: ClassVar[Call] = Call.REPORT
    at_s: float
    timeout_s: float
    session: Session
    job_id: JobId
    report: Report


NodeCall: TypeAlias = RegisterCall | HeartbeatCall | PullCall | ReportCall
