"""Slots: each pulls a job, runs it and reports it, one after the other (ADR 0018)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from vmafx.app.node import events
from vmafx.app.node.events import EventLog, seconds
from vmafx.app.node.executor import Executor
from vmafx.app.node.fitness import Fitness
from vmafx.app.node.gate import Gate
from vmafx.app.node.jobs import HeldJob, HeldJobs, Pulled
from vmafx.app.node.keeper import Keeper
from vmafx.app.node.outcome import CancelCause, Outcome, settled
from vmafx.app.node.policy import NodePolicy
from vmafx.app.node.reporter import Reporter
from vmafx.domain.backoff import failed_pull, idle_poll
from vmafx.domain.error_text import report_text
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobResult
from vmafx.domain.retry import Call, invalidates_session, status_code
from vmafx.domain.session_answers import can_be_listed
from vmafx.domain.session_events import JobReleased, JobReporting, JobTaken, PullRefused
from vmafx.domain.session_state import Session
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["Slot", "SlotParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotParts:
    """What all slots of a node share.

    Attributes:
        tasks: Owns the runs.
        policy: The timing, and what the node can run.
        controller: Who is asked for jobs.
        keeper: Gives the session.
        gate: What pulls pass.
        jobs: The jobs held.
        executor: Runs a job.
        reporter: Reports it.
        fitness: Hears how it ended.
        clock: What is waited with.
        chance: Gives numbers from 0 to 1.
        telemetry: Hears of numbers.
        log: Hears of events.
    """

    tasks: asyncio.TaskGroup
    policy: NodePolicy
    controller: Controller
    keeper: Keeper
    gate: Gate
    jobs: HeldJobs
    executor: Executor
    reporter: Reporter
    fitness: Fitness
    clock: Clock
    chance: Callable[[], float]
    telemetry: Telemetry
    log: EventLog


class Slot:
    """Room for one job.

    Args:
        number: Its number, from 0.
        parts: What it works with.
    """

    def __init__(self, number: int, parts: SlotParts) -> None:
        self._number = number
        self._parts = parts
        self._failed = failed_pull(parts.policy.poll_interval_s).start()
        self._idle = idle_poll(parts.policy.poll_interval_s).start()
        self._due_s = parts.clock.monotonic()
        self._began_s = self._due_s

    async def run(self) -> None:
        """Pull and serve until the gate is shut, and what is held then is reported.

        A cancellation stops the run, waits until nothing of it is left, and gives its report up.
        """
        while await self._parts.gate.opened():
            pulled = await self._parts.gate.passing(self._next(), name=f"slot {self._number}: pull")
            if pulled is None:
                continue
            held = self._parts.jobs.get(pulled.assignment.job_id)
            if held is None:
                await self._serve(pulled)
            else:
                self._pulled_again(held, pulled)

    # ---------------------------------------------------------------- pull

    async def _next(self) -> Pulled:
        while True:
            await self._parts.clock.sleep(self._due_s - self._parts.clock.monotonic())
            session = await self._parts.keeper.session_to_pull()
            self._began_s = self._parts.clock.monotonic()
            try:
                assignment = await self._parts.controller.pull(
                    session,
                    self._parts.policy.capability,
                    timeout_s=self._parts.policy.session.rpc_timeout_s,
                )
            except ControllerError as error:
                self._pull_failed(session, error)
                continue
            if assignment is None:
                self._failed = self._failed.reset()
                self._wait_idle()
            elif can_be_listed(assignment.job_id):
                self._failed = self._failed.reset()
                return Pulled(assignment=assignment, node_id=session.node_id)
            else:
                self._refuse(Pulled(assignment=assignment, node_id=session.node_id))

    def _pull_failed(self, session: Session, error: ControllerError) -> None:
        code, now_s = status_code(error.code), self._parts.clock.monotonic()
        words = report_text(error.message)
        wait_s = self._back_off()
        told: Fields = {"slot": self._number, "retry_in": seconds(wait_s), "code": code.value, "error": words}
        self._parts.log.tell(Level.WARN, events.PULL_FAILED, told, node_id=session.node_id)
        if invalidates_session(Call.PULL, code):
            self._parts.keeper.feed(PullRefused(now_s=now_s, generation=session.generation, error=words))

    def _refuse(self, pulled: Pulled) -> None:
        job_id, wait_s = pulled.assignment.job_id, self._back_off()
        size_bytes = len(job_id.encode(errors="surrogatepass"))
        told: Fields = {"slot": self._number, "retry_in": seconds(wait_s), "bytes": size_bytes}
        self._parts.log.tell_of_job(Level.ERROR, events.JOB_REFUSED, job_id, told, node_id=pulled.node_id)

    def _back_off(self) -> float:
        wait_s, self._failed = self._failed.draw(self._parts.chance())
        self._due_s = self._parts.clock.monotonic() + wait_s
        return wait_s

    def _wait_idle(self) -> None:
        """Pull one interval after the last pull began: a pull that waited for work is not waited after."""
        wait_s, self._idle = self._idle.draw(self._parts.chance())
        self._due_s = self._began_s + wait_s

    def _pulled_again(self, held: HeldJob, pulled: Pulled) -> None:
        again = held.pulled_again(pulled)
        told = {"slot": self._number, "answer": again.value}
        log = self._parts.log
        log.tell_of_job(Level.WARN, events.JOB_PULLED_AGAIN, held.job_id, told, node_id=pulled.node_id)
        self._wait_idle()

    # ---------------------------------------------------------------- run and report

    async def _serve(self, pulled: Pulled) -> None:
        following: Pulled | None = pulled
        while following is not None:
            self._parts.keeper.feed(JobTaken(job_id=following.assignment.job_id))
            job = self._parts.jobs.take(following)
            try:
                await self._run_and_report(job, following)
            finally:
                self._parts.jobs.release(job)
                self._parts.keeper.feed(JobReleased(job_id=job.job_id))
                self._tell_running()
            following = job.afresh

    async def _run_and_report(self, job: HeldJob, pulled: Pulled) -> None:
        told = {"slot": self._number}
        self._parts.log.tell_of_job(Level.INFO, events.JOB_PULLED, job.job_id, told, node_id=pulled.node_id)
        began_s = self._parts.clock.monotonic()
        name = f"slot {self._number}: run"
        job.run = self._parts.tasks.create_task(self._parts.executor.execute(pulled), name=name)
        if self._parts.gate.is_shut:  # it came with the word to stop: it is given back before it begins
            job.stop(CancelCause.SHUTDOWN)
        self._tell_running()
        given_up = await _ended(job)
        job.outcome = outcome = settled(job.job_id, job.run, job.cause)
        self._parts.keeper.feed(JobReporting(job_id=job.job_id))
        self._tell_running()
        self._tell_end(outcome, job.cause, self._parts.clock.monotonic() - began_s)
        self._parts.fitness.heard(outcome, job.cause)
        if given_up is not None:
            self._parts.reporter.tell_stopped(job, outcome)
            raise given_up
        await self._parts.reporter.deliver(job, outcome)

    def _tell_running(self) -> None:
        self._parts.telemetry.gauge("vmafx_node_jobs_running", self._parts.jobs.running)

    def _tell_end(self, outcome: Outcome, cause: CancelCause | None, took_s: float) -> None:
        backend = self._parts.policy.backend.value
        labels = {"backend": backend, "outcome": _label(outcome, cause)}
        self._parts.telemetry.count("vmafx_node_jobs_total", labels)
        self._parts.telemetry.observe("vmafx_node_job_duration_seconds", took_s, {"backend": backend})


async def _ended(job: HeldJob) -> asyncio.CancelledError | None:
    """Wait for the end of a run; return the cancellation that stopped it from outside, if one did."""
    given_up: asyncio.CancelledError | None = None
    while job.run is not None and not job.run.done():
        try:
            await asyncio.wait({job.run})
        except asyncio.CancelledError as cancelled:
            given_up = cancelled
            job.stop(CancelCause.SHUTDOWN)
    return given_up


def _label(outcome: Outcome, cause: CancelCause | None) -> str:
    if isinstance(outcome, JobResult):
        return "completed"
    return "cancelled" if cause is CancelCause.CONTROLLER else "failed"
