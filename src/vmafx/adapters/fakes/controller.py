"""FakeController: a controller in memory that keeps every rule, and fails when it is told to (ADR 0014)."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from vmafx.adapters.fakes.controller_books import Books, Requeue
from vmafx.adapters.fakes.controller_calls import HeartbeatCall, PullCall, RegisterCall, ReportCall
from vmafx.adapters.fakes.controller_faults import FaultRule
from vmafx.adapters.fakes.controller_wire import Wire
from vmafx.domain.attempt import JobHistory
from vmafx.domain.job import Job, JobId, JobSpec, NodeName, TenantId
from vmafx.domain.lease import Heartbeat, LeasePolicy
from vmafx.domain.nodesession import Capability, NodeSession
from vmafx.domain.report import Report
from vmafx.domain.session_state import Session
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

if TYPE_CHECKING:
    from vmafx.ports.controller import Desk

__all__ = ["PULL_WAIT_S", "ControllerMode", "FakeController"]

PULL_WAIT_S: Final = 5.0
"""How long a pull that finds nothing waits for work, in seconds."""
_PULL_MARGIN_S: Final = 1.0  # an answer needs time to reach a caller whose deadline is near
_JUST_AFTER_S: Final = 1e-3  # what holds at its last instant has ended only after it
_SPEC: Final = JobSpec(reference="/clips/reference.y4m", distorted="/clips/distorted.y4m")


class ControllerMode(Enum):
    """Whose controller a fake is like."""

    CURRENT = "current"
    """Our own: pulls wait for work, attempts are numbered, the first success wins."""
    ORIGINAL = "original"
    """The original one: pulls answer at once; no metadata is known, so that attempts have no number, no
    session takes an attempt over and no failure is tried again; heartbeats name no cancelled job; what a
    session no longer holds, it can no longer report."""


class FakeController:
    """A `Controller`, and a `Desk`, for any number of nodes of one tenant.

    It keeps sessions, jobs, attempts and leases by the rules of the domain, on the time of its clock: what
    has run out has ended when somebody looks. Tests submit and cancel jobs, end sessions, and break its
    `wire`.

    Args:
        clock: Whose time it goes by; steps of the wall clock do not matter.
        mode: Whose controller it is like.
        rule: What goes wrong with calls that nothing was cued for; None lets all be.
        policy: How long leases and sessions last.
        pull_wait_s: How long a pull waits for work, in seconds; the original never does.
        roots: The scoring roots that assignments carry.
    """

    wire: Wire
    """What every call passes: the calls so far, and what goes wrong with the next ones."""

    def __init__(  # noqa: PLR0913 -- one argument per thing that a controller is set up with
        self,
        clock: Clock,
        *,
        mode: ControllerMode = ControllerMode.CURRENT,
        rule: FaultRule | None = None,
        policy: LeasePolicy | None = None,
        pull_wait_s: float = PULL_WAIT_S,
        roots: tuple[str, ...] = ("/",),
    ) -> None:
        original = mode is ControllerMode.ORIGINAL
        self.wire = Wire(clock, rule)
        self._clock = clock
        self._began_at = clock.now()
        self._began_s = clock.monotonic()
        self._pull_wait_s = 0.0 if original else pull_wait_s
        self._books = Books(
            tenant=TenantId("fake"), policy=policy or LeasePolicy(), roots=roots, original=original
        )
        self._changed = asyncio.Event()
        self._job_numbers = itertools.count(1)

    # ---------------------------------------------------------------- the port

    async def register(
        self, identity: NodeIdentity, capability: Capability, *, timeout_s: float
    ) -> Registration:
        """Open a session.

        Raises:
            ControllerError: The name is empty, or the wire says so.
        """
        call = RegisterCall(
            at_s=self._clock.monotonic(), timeout_s=timeout_s, identity=identity, capability=capability
        )

        async def work() -> Registration:
            return self._swept().register(identity, capability, self._now())

        return await self.wire.carry(call, work)

    async def heartbeat(self, session: Session, heartbeat: Heartbeat, *, timeout_s: float) -> HeartbeatAnswer:
        """Keep the session and the leases of the listed jobs.

        Raises:
            ControllerError: The wire says so.
        """
        call = HeartbeatCall(
            at_s=self._clock.monotonic(), timeout_s=timeout_s, session=session, heartbeat=heartbeat
        )

        async def work() -> HeartbeatAnswer:
            answer = self._swept().heartbeat(session, heartbeat, self._now())
            self._tell_change()
            return answer

        return await self.wire.carry(call, work)

    async def pull(self, session: Session, capability: Capability, *, timeout_s: float) -> Assignment | None:
        """Assign a job, now or as soon as one comes within the wait.

        An assignment whose caller gave up before it was answered is undone; the original does not notice.

        Raises:
            ControllerError: The session is not valid, or the wire says so.
        """
        call = PullCall(
            at_s=self._clock.monotonic(), timeout_s=timeout_s, session=session, capability=capability
        )

        async def work() -> Assignment | None:
            return await self._claim(call)

        def undo(assignment: Assignment | None) -> None:
            if assignment is not None:
                self._books.undo(session, assignment, self._now())
                self._tell_change()

        return await self.wire.carry(call, work, undo)

    async def report(self, session: Session, job_id: JobId, report: Report, *, timeout_s: float) -> None:
        """Take a report.

        Raises:
            ControllerError: The session is not valid, the job is not the reporter's, or the wire says so.
        """
        call = ReportCall(
            at_s=self._clock.monotonic(), timeout_s=timeout_s, session=session, job_id=job_id, report=report
        )

        async def work() -> None:
            self._swept().report(session, job_id, report, self._now())
            self._tell_change()

        await self.wire.carry(call, work)

    async def take_back(self, session: Session, assignment: Assignment) -> None:
        """Undo a pull whose answer did not reach its node; the original does not notice.

        It does not pass the wire: whoever carries answers to nodes calls it, no node.
        """
        self._swept().undo(session, assignment, self._now())
        self._tell_change()

    # ---------------------------------------------------------------- jobs

    def submit(self, spec: JobSpec = _SPEC, *, job_id: str | None = None) -> JobId:
        """Hand in a job; a pull that waits gets it.

        Args:
            spec: What is asked for.
            job_id: Its id, which no other job has; None numbers it.

        Raises:
            ValueError: There is a job of that id.
        """
        name = JobId(f"job-{next(self._job_numbers)}" if job_id is None else job_id)
        self._books.submit(name, spec, self._now())
        self._tell_change()
        return name

    def cancel(self, job_id: JobId) -> bool:
        """Cancel a job; return whether it had not ended yet.

        Raises:
            KeyError: There is no such job.
        """
        changed = self._swept().cancel(job_id, self._now())
        self._tell_change()
        return changed

    def job(self, job_id: JobId) -> Job:
        """Return a job as it is now.

        Raises:
            KeyError: There is no such job.
        """
        return self.history(job_id).job

    def history(self, job_id: JobId) -> JobHistory:
        """Return a job with its attempts as they are now.

        Raises:
            KeyError: There is no such job.
        """
        return self._swept().history(job_id)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All jobs as they are now, in the order of submission."""
        return tuple(history.job for history in self._swept().histories())

    @property
    def requeues(self) -> tuple[Requeue, ...]:
        """Every time so far that a job went back to pending, in order."""
        return tuple(self._swept().requeues)

    def violations(self) -> tuple[str, ...]:
        """Return in words what cannot be true of any job; normally nothing."""
        return self._swept().violations()

    async def until_ended(self, *job_ids: JobId) -> tuple[Job, ...]:
        """Return the jobs, once all of them have ended.

        Raises:
            KeyError: There is no such job.
        """
        while not all(self.job(job_id).status.terminal for job_id in job_ids):
            await self._change()
        return tuple(self.job(job_id) for job_id in job_ids)

    # ---------------------------------------------------------------- sessions

    @property
    def sessions(self) -> tuple[NodeSession, ...]:
        """The sessions that live now, the earliest registered first."""
        return self._swept().sessions()

    def end_sessions(self, node: NodeName | None = None, *, jobs_lost: bool = True) -> None:
        """Take sessions away, as an eviction or a restart does: calls made under them are refused.

        Args:
            node: Whose sessions; None ends those of all nodes.
            jobs_lost: Whether their jobs go back to the queue at once; if not, they run on under their
                leases.
        """
        for session in self.sessions:
            if node is None or session.node == node:
                self._books.end_session(session.id, self._now(), jobs_lost=jobs_lost)
        self._tell_change()

    # ---------------------------------------------------------------- inside

    async def _claim(self, call: PullCall) -> Assignment | None:
        deadline_s = call.at_s + call.timeout_s
        until_s = min(self._clock.monotonic() + self._pull_wait_s, deadline_s - _PULL_MARGIN_S)
        while True:
            now_s = self._clock.monotonic()
            assignment = self._swept().claim(
                call.session, call.capability, self._now(), deadline_s=deadline_s - now_s
            )
            if assignment is not None:
                self._tell_change()
                return assignment
            if now_s >= until_s:
                return None
            await self._change(until_s - now_s)
            self.wire.check()

    async def _change(self, at_most_s: float | None = None) -> None:
        """Return when something changed, when time alone may have changed something, or after a while."""
        now = self._now()
        next_at = self._books.next_change_at(now)
        next_s = None if next_at is None else (next_at - now).total_seconds() + _JUST_AFTER_S
        waits = [seconds for seconds in (at_most_s, next_s) if seconds is not None]
        with suppress(TimeoutError):
            async with self._clock.timeout(min(waits, default=None)):
                await self._changed.wait()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _swept(self) -> Books:
        self._books.sweep(self._now())
        return self._books

    def _now(self) -> datetime:
        """Wall time that no step of the wall clock moves, so that none expires a lease."""
        return self._began_at + timedelta(seconds=self._clock.monotonic() - self._began_s)


if TYPE_CHECKING:
    _port: type[Desk] = FakeController
