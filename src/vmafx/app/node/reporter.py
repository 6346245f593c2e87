"""Tells the controller how a job ended, as often as the contract allows (ADR 0013, ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from vmafx.app.node import events
from vmafx.app.node.calls import ours_to_cancel
from vmafx.app.node.events import EventLog, seconds, whole_result
from vmafx.app.node.jobs import HeldJob
from vmafx.app.node.keeper import Keeper
from vmafx.app.node.outcome import Outcome, words_of
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.backoff import BackoffPolicy
from vmafx.domain.error_text import report_text
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobResult, SessionId
from vmafx.domain.report import Report
from vmafx.domain.retry import ReportStep, report_step, report_step_after, status_code
from vmafx.domain.session_state import Session
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller
from vmafx.ports.telemetry import Fields, Level

__all__ = ["Reporter"]


class Reporter:
    """Delivers the outcomes of jobs; calls may run side by side.

    Args:
        policy: The timing.
        controller: Who is told.
        keeper: Gives the session of each try, and judges refusals.
        clock: What it waits with.
        chance: Gives numbers from 0 to 1.
        log: Hears of events.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that it works with
        self,
        *,
        policy: NodePolicy,
        controller: Controller,
        keeper: Keeper,
        clock: Clock,
        chance: Callable[[], float],
        log: EventLog,
    ) -> None:
        self._policy = policy
        self._controller = controller
        self._keeper = keeper
        self._clock = clock
        self._chance = chance
        self._log = log

    async def deliver(self, job: HeldJob, outcome: Outcome) -> None:
        """Report how a job ended, and return when that is delivered or given up; both are in the log.

        Each try goes out under the session that is current then, with the number of the latest attempt that
        was told. Waiting for a session is not bounded, and is no try.

        Raises:
            CancelledError: The node stops: the result is given up, and in the log.
        """
        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            wait=_Waits(self._policy.report, self._chance),
            stop=partial(_is_last, self._policy.report),
            retry=retry_if_exception_type(_TryAgainError),
            before_sleep=lambda state: self._tell_retry(job, state),
            reraise=True,
        )
        try:
            node_id: SessionId = await retrying(self._try, job, outcome)
        except asyncio.CancelledError:
            self.tell_stopped(job, outcome)
            raise
        except Exception as error:
            told = {"attempts": retrying.statistics["attempt_number"], "error": report_text(words_of(error))}
            self._tell_loss(job, outcome, events.NOT_DELIVERED, told)
            if not isinstance(error, _NotDeliveredError):
                raise
        else:
            self._tell_delivery(job, outcome, node_id)

    def tell_stopped(self, job: HeldJob, outcome: Outcome) -> None:
        """Say that the node stopped before it could report a job."""
        self._tell_loss(job, outcome, events.NOT_DELIVERED_STOPPED, {"error": "node stopped"})

    async def _try(self, job: HeldJob, outcome: Outcome) -> SessionId:
        while True:
            session = await self._keeper.session()
            job.node_id = session.node_id
            attempt, adoptions = job.attempt, job.adoptions
            try:
                await ours_to_cancel(self._report(session, job, Report(content=outcome, attempt=attempt)))
            except ControllerError as error:
                await self._refused(session, job, error, adoptions)
            if job.attempt == attempt:
                return (
                    session.node_id
                )  # else it was told of another attempt meanwhile: that one is reported, too

    async def _report(self, session: Session, job: HeldJob, report: Report) -> None:
        timeout_s = self._policy.session.rpc_timeout_s
        await self._controller.report(session, job.job_id, report, timeout_s=timeout_s)

    async def _refused(
        self, session: Session, job: HeldJob, error: ControllerError, adoptions: int
    ) -> NoReturn:
        what_next = report_step(status_code(error.code))
        if what_next is ReportStep.ASK:
            what_next = report_step_after(await self._keeper.judge(session, job.job_id))
        told = report_text(str(error))
        again = what_next in {ReportStep.RETRY, ReportStep.RETRY_WITH_NEW_SESSION}
        if again or job.adoptions != adoptions:  # a job that was handed out anew is ours to report
            raise _TryAgainError(told, session.node_id) from error
        raise _NotDeliveredError(told, session.node_id) from error

    def _tell_retry(self, job: HeldJob, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        told: Fields = {
            "attempt": state.attempt_number,
            "retry_in": seconds(state.upcoming_sleep),
            "error": str(error),
        }
        node_id = error.node_id if isinstance(error, _NotDeliveredError) else job.node_id
        self._log.tell_of_job(Level.WARN, events.REPORT_FAILED, job.job_id, told, node_id=node_id)

    def _tell_delivery(self, job: HeldJob, outcome: Outcome, node_id: SessionId) -> None:
        told: Fields
        if isinstance(outcome, JobResult):
            told = {"score": outcome.score, "error": None}
        else:
            told = {"score": None, "error": outcome.error}
        self._log.tell_of_job(Level.INFO, events.REPORTED, job.job_id, told, node_id=node_id)

    def _tell_loss(self, job: HeldJob, outcome: Outcome, message: str, told: Fields) -> None:
        whole = {**told, **whole_result(outcome, job.attempt)}
        self._log.tell_of_job(Level.ERROR, message, job.job_id, whole, node_id=job.node_id)


class _NotDeliveredError(Exception):
    """A try failed, and no other will do better.

    Attributes:
        node_id: The session that it went out under.
    """

    def __init__(self, told: str, node_id: SessionId) -> None:
        super().__init__(told)
        self.node_id = node_id


class _TryAgainError(_NotDeliveredError):
    """A try failed, and another may do better."""


class _Waits:
    """Our backoff in tenacity's words."""

    def __init__(self, policy: BackoffPolicy, chance: Callable[[], float]) -> None:
        self._backoff = policy.start()
        self._chance = chance

    def __call__(self, state: RetryCallState) -> float:  # noqa: ARG002 -- the backoff counts for itself
        if self._backoff.exhausted:  # tenacity asks after the last try, too, and then does not wait
            return 0.0
        wait_s, self._backoff = self._backoff.draw(self._chance())
        return wait_s


def _is_last(policy: BackoffPolicy, state: RetryCallState) -> bool:
    return policy.attempts_max is not None and state.attempt_number >= policy.attempts_max
