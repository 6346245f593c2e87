"""The thinnest shell around the session machine: it performs effects and feeds their outcomes back.

No more than a node needs to prove that the effects suffice: slots that pull, take time and report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from vmafx.domain.backoff import REPORT, failed_pull, idle_poll
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobId, JobResult, NodeName
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Report
from vmafx.domain.retry import (
    Call,
    ReportStep,
    Verdict,
    invalidates_session,
    report_step,
    report_step_after,
    status_code,
)
from vmafx.domain.scoring import Backend, Failure
from vmafx.domain.session import current_session, session_to_pull, step
from vmafx.domain.session_effects import (
    CancelJob,
    Effect,
    EndCalls,
    HeartbeatMissed,
    Register,
    RegistrationMissed,
    ReportJudged,
    SendHeartbeat,
    SessionLost,
    SessionOpened,
    WakeAt,
)
from vmafx.domain.session_events import (
    Event,
    HeartbeatAccepted,
    HeartbeatFailed,
    HeartbeatRefused,
    JobReleased,
    JobReporting,
    JobTaken,
    PullRefused,
    Registered,
    RegisterFailed,
    ReportRefused,
    Started,
    StopAsked,
    Woke,
)
from vmafx.domain.session_policy import SessionPolicy
from vmafx.domain.session_state import New, Session, State
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Assignment, Controller, NodeIdentity

CPU = Capability(backends=frozenset({Backend.CPU}))
POLL_S = 2.0


@dataclass
class ShellNode:
    """A node of the simulation; `log` tells its story."""

    controller: Controller
    clock: Clock
    chance: Random
    name: str
    slots: int = 2
    job_s_max: float = 200.0
    policy: SessionPolicy = field(
        default_factory=lambda: SessionPolicy(heartbeat_interval_s=10, rpc_timeout_s=10)
    )
    state: State = field(default_factory=New)
    log: list[tuple[float, Event | Effect]] = field(default_factory=list)
    running: dict[JobId, asyncio.Task[Any]] = field(default_factory=dict)
    rejected: list[JobId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identity = NodeIdentity(name=NodeName(self.name), instance=InstanceId(f"{self.name}-process"))
        self.opened = asyncio.Event()
        self.pulls = asyncio.Event()
        self.judged: dict[JobId, asyncio.Future[Verdict]] = {}
        self.wake: asyncio.Task[None] | None = None
        self.calls: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled; then end the session's calls."""
        async with asyncio.TaskGroup() as self.tasks:
            self.feed(Started(now_s=self.clock.monotonic()))
            slots = [self.tasks.create_task(self.slot()) for _ in range(self.slots)]
            try:
                await asyncio.gather(*slots)
            finally:
                self.feed(StopAsked())

    # ------------------------------------------------------------ keeper

    def feed(self, event: Event) -> None:
        done = step(self.state, event, self.policy)
        self.state = done.state
        now_s = self.clock.monotonic()
        self.log.extend((now_s, entry) for entry in (event, *done.effects))
        for effect in done.effects:
            self.perform(effect)
        if session_to_pull(self.state) is None:
            self.pulls.clear()
        else:
            self.pulls.set()

    def perform(self, effect: Effect) -> None:  # noqa: C901 -- one arm for each effect
        match effect:
            case Register(attempt=attempt):
                self.call(self.register(attempt))
            case SendHeartbeat():
                self.call(self.beat(effect))
            case WakeAt(at_s=at_s):
                self.rest()
                self.wake = self.tasks.create_task(self.sleep_until(at_s))
            case SessionOpened():
                self.opened.set()
            case SessionLost():
                self.opened.clear()
                self.rest()
            case CancelJob(job_id=job_id):
                self.running[job_id].cancel("cancelled by the controller")
            case ReportJudged(job_id=job_id, verdict=verdict):
                self.judged.pop(job_id).set_result(verdict)
            case EndCalls():
                self.rest()
                for call in self.calls:
                    call.cancel()
            case RegistrationMissed() | HeartbeatMissed():
                pass

    def call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self.tasks.create_task(coroutine)
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)

    def rest(self) -> None:
        if self.wake is not None and self.wake is not asyncio.current_task():
            self.wake.cancel()
        self.wake = None

    async def sleep_until(self, at_s: float) -> None:
        await self.clock.sleep(at_s - self.clock.monotonic())
        self.feed(Woke(now_s=self.clock.monotonic()))

    async def register(self, attempt: int) -> None:
        unit = self.chance.random()
        try:
            answer = await self.controller.register(self.identity, CPU, timeout_s=self.policy.rpc_timeout_s)
        except ControllerError as error:
            code = status_code(error.code)
            now_s = self.clock.monotonic()
            self.feed(RegisterFailed(now_s=now_s, attempt=attempt, unit=unit, code=code, error=error.message))
        else:
            self.feed(
                Registered(
                    now_s=self.clock.monotonic(),
                    attempt=attempt,
                    unit=unit,
                    node_id=answer.node_id,
                    session_token=answer.session_token,
                )
            )

    async def beat(self, effect: SendHeartbeat) -> None:
        generation, beat = effect.session.generation, effect.beat
        heartbeat = Heartbeat(jobs_running=len(effect.job_ids), listed=effect.job_ids)
        try:
            answer = await self.controller.heartbeat(
                effect.session, heartbeat, timeout_s=self.policy.rpc_timeout_s
            )
        except ControllerError as error:
            code, now_s = status_code(error.code), self.clock.monotonic()
            self.feed(HeartbeatFailed(now_s=now_s, generation=generation, beat=beat, code=code, error=""))
            return
        now_s = self.clock.monotonic()
        if answer.ok:
            cancels = answer.cancel_job_ids
            self.feed(
                HeartbeatAccepted(now_s=now_s, generation=generation, beat=beat, cancel_job_ids=cancels)
            )
        else:
            self.feed(HeartbeatRefused(now_s=now_s, generation=generation, beat=beat))

    # ------------------------------------------------------------ slots

    async def session(self) -> Session:
        while (session := current_session(self.state)) is None:
            await self.opened.wait()
        return session

    async def session_to_pull(self) -> Session:
        while (session := session_to_pull(self.state)) is None:
            await self.pulls.wait()
        return session

    async def slot(self) -> None:
        failed, idle = failed_pull(POLL_S).start(), idle_poll(POLL_S).start()
        while True:
            session, began_s = await self.session_to_pull(), self.clock.monotonic()
            try:
                assignment = await self.controller.pull(session, CPU, timeout_s=self.policy.rpc_timeout_s)
            except ControllerError as error:
                if invalidates_session(Call.PULL, status_code(error.code)):
                    self.feed(PullRefused(now_s=self.clock.monotonic(), generation=session.generation))
                wait_s, failed = failed.draw(self.chance.random())
                await self.clock.sleep(wait_s)
                continue
            failed = failed.reset()
            if assignment is None:
                wait_s, idle = idle.draw(self.chance.random())
                await self.clock.sleep(began_s + wait_s - self.clock.monotonic())
            elif assignment.job_id not in self.running:  # one that runs already is adopted
                await self.serve(assignment)

    async def serve(self, assignment: Assignment) -> None:
        job_id = assignment.job_id
        self.feed(JobTaken(job_id=job_id))
        work = self.tasks.create_task(self.clock.sleep(self.chance.uniform(1, self.job_s_max)))
        self.running[job_id] = work
        try:
            await asyncio.wait({work})
            content = Failure(error="cancelled") if work.cancelled() else JobResult(score=90.0)
            self.feed(JobReporting(job_id=job_id))
            await self.report(job_id, Report(content=content, attempt=assignment.attempt))
        finally:
            work.cancel()
            del self.running[job_id]
            self.feed(JobReleased(job_id=job_id))

    async def report(self, job_id: JobId, report: Report) -> None:
        backoff = REPORT.start()
        while True:
            session = await self.session()
            what_next = ReportStep.DELIVERED
            try:
                await self.controller.report(session, job_id, report, timeout_s=self.policy.rpc_timeout_s)
            except ControllerError as error:
                what_next = report_step(status_code(error.code))
            if what_next is ReportStep.ASK:
                what_next = report_step_after(await self.ask(session, job_id))
            if what_next is ReportStep.REJECT:
                self.rejected.append(job_id)
            if what_next not in {ReportStep.RETRY, ReportStep.RETRY_WITH_NEW_SESSION} or backoff.exhausted:
                return
            wait_s, backoff = backoff.draw(self.chance.random())
            await self.clock.sleep(wait_s)

    async def ask(self, session: Session, job_id: JobId) -> Verdict:
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.judged[job_id] = verdict
        self.feed(ReportRefused(now_s=self.clock.monotonic(), generation=session.generation, job_id=job_id))
        return await verdict


async def stopped(*tasks: asyncio.Task[None]) -> None:
    """Cancel the nodes, and return when they have ended."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
