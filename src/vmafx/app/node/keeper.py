"""The session keeper: does what the session machine wants done, and tells it what came of it (ADR 0013)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from vmafx.app.node import events
from vmafx.app.node.calls import ours_to_cancel
from vmafx.app.node.events import EventLog, seconds
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.error_text import report_text
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import JobId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.retry import Verdict, status_code
from vmafx.domain.session import current_session, session_to_pull, step
from vmafx.domain.session_effects import (
    CancelJob,
    Cause,
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
    Registered,
    RegisterFailed,
    ReportRefused,
    Started,
    StopAsked,
    Woke,
)
from vmafx.domain.session_state import New, Session, State
from vmafx.ports.clock import Clock
from vmafx.ports.controller import Controller, HeartbeatAnswer, NodeIdentity
from vmafx.ports.telemetry import Fields, Level, Telemetry

__all__ = ["Keeper"]


class Keeper:
    """Keeps a session: registers, beats, and gives the session to whoever calls under it.

    Args:
        tasks: Owns the calls; an error that no call may raise ends them all.
        identity: Who registers.
        policy: The timing, and what the node can run.
        controller: Who is called.
        clock: What it waits with.
        chance: Gives numbers from 0 to 1.
        telemetry: Hears whether there is a session.
        log: Hears of events.
        cancel: Stops a job that the controller cancelled.
    """

    def __init__(  # noqa: PLR0913 -- one argument per thing that it works with
        self,
        *,
        tasks: asyncio.TaskGroup,
        identity: NodeIdentity,
        policy: NodePolicy,
        controller: Controller,
        clock: Clock,
        chance: Callable[[], float],
        telemetry: Telemetry,
        log: EventLog,
        cancel: Callable[[JobId], None],
    ) -> None:
        self._tasks = tasks
        self._identity = identity
        self._policy = policy
        self._controller = controller
        self._clock = clock
        self._chance = chance
        self._telemetry = telemetry
        self._log = log
        self._cancel = cancel
        self._state: State = New()
        self._opened = asyncio.Event()
        self._pulls = asyncio.Event()
        self._judging: dict[JobId, asyncio.Future[Verdict]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Task[None] | None = None
        self._registered = False
        self._failing_for_s = 0.0

    @property
    def registered(self) -> bool:
        """Whether there was ever a session."""
        return self._registered

    @property
    def current(self) -> Session | None:
        """The session that calls are to be made under; None when there is none."""
        return current_session(self._state)

    def start(self) -> None:
        """Register, and keep a session from now on."""
        self._telemetry.gauge("vmafx_node_session_up", 0)
        self.feed(Started(now_s=self._clock.monotonic()))

    def stop(self) -> None:
        """Make no call any more; whoever still waits for a session waits in vain."""
        self.feed(StopAsked())
        self._opened.clear()  # a wait that returns at once without a session would never let go of the loop
        self._telemetry.gauge("vmafx_node_session_up", 0)

    async def session(self) -> Session:
        """Return the session, once there is one."""
        while (session := self.current) is None:
            await self._opened.wait()
        return session

    async def session_to_pull(self) -> Session:
        """Return the session, once there is one and the jobs held before it are known to go on under it."""
        while (session := session_to_pull(self._state)) is None:
            await self._pulls.wait()
        return session

    async def judge(self, session: Session, job_id: JobId) -> Verdict:
        """Return what the refusal of a report was about.

        Args:
            session: The session that the report was made under.
            job_id: The job of the report.
        """
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._judging[job_id] = verdict
        now_s = self._clock.monotonic()
        self.feed(ReportRefused(now_s=now_s, generation=session.generation, job_id=job_id))
        return await verdict

    def feed(self, event: Event) -> None:
        """Tell the machine what happened, and begin what it wants done.

        Raises:
            IllegalTransitionError: It cannot have happened: the node is wrong.
        """
        done = step(self._state, event, self._policy.session)
        self._state = done.state
        for effect in done.effects:
            self._perform(effect)
        if session_to_pull(self._state) is None:
            self._pulls.clear()
        else:
            self._pulls.set()

    def _perform(self, effect: Effect) -> None:  # noqa: C901 -- one arm for each effect
        match effect:
            case Register(attempt=attempt):
                self._call(self._register(attempt), "register")
            case SendHeartbeat():
                self._call(self._beat(effect), "heartbeat")
            case WakeAt(at_s=at_s):
                self._rest()
                self._timer = self._tasks.create_task(self._wake(at_s), name="session timer")
            case SessionOpened():
                self._open(effect)
            case SessionLost():
                self._lose(effect)
            case CancelJob(job_id=job_id):
                self._cancel_job(job_id)
            case ReportJudged(job_id=job_id, verdict=verdict):
                self._judge(job_id, verdict)
            case RegistrationMissed():
                self._tell_missed_registration(effect)
            case HeartbeatMissed():
                self._tell_missed_heartbeat(effect)
            case EndCalls():
                self._end_calls()

    # ---------------------------------------------------------------- effects

    def _open(self, effect: SessionOpened) -> None:
        self._registered = True
        self._failing_for_s = 0.0  # that there is a session says that it answers
        self._telemetry.gauge("vmafx_node_session_up", 1)
        told = {"attempt": effect.attempt}
        self._log.tell(Level.INFO, events.REGISTERED, told, node_id=effect.session.node_id)
        self._opened.set()

    def _lose(self, effect: SessionLost) -> None:
        self._opened.clear()
        error = effect.error or (effect.cause.value if effect.cause is Cause.WINDOW_PASSED else "")
        told = {"error": error} if error else {}
        denied = effect.cause is Cause.HEARTBEAT_DENIED
        message = events.HEARTBEAT_DENIED if denied else events.SESSION_UNKNOWN
        self._log.tell(Level.WARN, message, told, node_id=effect.session.node_id)
        self._telemetry.gauge("vmafx_node_session_up", 0)

    def _cancel_job(self, job_id: JobId) -> None:
        session = self.current
        if session is not None:  # it was an answer to its heartbeat
            self._log.tell_of_job(Level.INFO, events.CANCELLED, job_id, node_id=session.node_id)
        self._cancel(job_id)

    def _judge(self, job_id: JobId, verdict: Verdict) -> None:
        asked = self._judging.pop(job_id, None)
        if asked is not None and not asked.done():  # its reporter may have been told to give up
            asked.set_result(verdict)

    def _tell_missed_registration(self, missed: RegistrationMissed) -> None:
        self._log.tell(
            Level.WARN,
            events.REGISTER_FAILED,
            {
                "attempt": missed.attempt,
                "retry_in": seconds(missed.retry_in_s),
                "code": missed.code.value,
                "error": missed.error,
            },
        )

    def _tell_missed_heartbeat(self, missed: HeartbeatMissed) -> None:
        failing_for = seconds(missed.failing_for_s)
        self._failing_for_s = missed.failing_for_s
        told: Fields = {"failing_for": failing_for, "error": f"{missed.code.value}: {missed.error}"}
        self._log.tell(Level.WARN, events.HEARTBEAT_FAILED, told, node_id=missed.session.node_id)

    def _tell_answer(self, session: Session) -> None:
        """Tell that an outage is over, once."""
        if self._failing_for_s and session == self.current:
            told = {"failed_for": seconds(self._failing_for_s)}
            self._log.tell(Level.INFO, events.CONTROLLER_ANSWERS_AGAIN, told, node_id=session.node_id)
            self._failing_for_s = 0.0

    def _end_calls(self) -> None:
        self._rest()
        for call in self._calls:
            call.cancel("the node has stopped")

    def _rest(self) -> None:
        if self._timer is not None and self._timer is not asyncio.current_task():
            self._timer.cancel()
        self._timer = None

    # ---------------------------------------------------------------- calls

    def _call(self, call: Coroutine[Any, Any, None], name: str) -> None:
        task = self._tasks.create_task(ours_to_cancel(call), name=name)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        task.add_done_callback(lambda _: call.close())  # it did not begin if its task was cancelled before

    async def _wake(self, at_s: float) -> None:
        await self._clock.sleep(at_s - self._clock.monotonic())
        self.feed(Woke(now_s=self._clock.monotonic()))

    async def _register(self, attempt: int) -> None:
        unit = self._chance()
        try:
            answer = await self._controller.register(
                self._identity, self._policy.capability, timeout_s=self._policy.session.rpc_timeout_s
            )
        except ControllerError as error:
            code, now_s = status_code(error.code), self._clock.monotonic()
            self.feed(
                RegisterFailed(
                    now_s=now_s, attempt=attempt, unit=unit, code=code, error=report_text(error.message)
                )
            )
            return
        registered = Registered(
            now_s=self._clock.monotonic(),
            attempt=attempt,
            unit=unit,
            node_id=answer.node_id,
            session_token=answer.session_token,
        )
        self.feed(registered)

    async def _beat(self, effect: SendHeartbeat) -> None:
        session, beat = effect.session, effect.beat
        heartbeat = Heartbeat(jobs_running=len(effect.job_ids), listed=effect.job_ids)
        timeout_s = self._policy.session.rpc_timeout_s
        event: Event
        try:
            answer = await self._controller.heartbeat(session, heartbeat, timeout_s=timeout_s)
        except ControllerError as error:
            event = HeartbeatFailed(
                now_s=self._clock.monotonic(),
                generation=session.generation,
                beat=beat,
                code=status_code(error.code),
                error=report_text(error.message),
            )
        else:
            event = _answered(session, beat, self._clock.monotonic(), answer)
            self._tell_answer(session)
        self.feed(event)


def _answered(session: Session, beat: int, now_s: float, answer: HeartbeatAnswer) -> Event:
    generation = session.generation
    if not answer.ok:
        return HeartbeatRefused(now_s=now_s, generation=generation, beat=beat)
    cancels = answer.cancel_job_ids
    return HeartbeatAccepted(now_s=now_s, generation=generation, beat=beat, cancel_job_ids=cancels)
