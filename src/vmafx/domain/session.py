"""The node's session with a controller: one pure step from event to state and effects (ADR 0013).

```
         Started               Registered
  NEW ─────────────► NO_SESSION ─────────────► SESSION
                         ▲                        │
                         └────────────────────────┘
       heartbeat refused or denied, pull refused, loss window passed

  StopAsked leads from each of them to STOPPING, and nothing leads out of it.
```

Draining is no phase: while jobs end, their reports need a session, so it is kept, and opened again if lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Never, TypeAlias, cast

from vmafx.domain.job import SessionId
from vmafx.domain.retry import Call, StatusCode, Verdict, invalidates_session
from vmafx.domain.session_answers import registration_problem
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
    JobReleased,
    JobReporting,
    JobTaken,
    PullRefused,
    Registered,
    RegisterFailed,
    ReportRefused,
    SessionEvent,
    Started,
    StopAsked,
    Woke,
)
from vmafx.domain.session_jobs import release_job, report_job, take_job
from vmafx.domain.session_policy import LOSS_WINDOW_S, SessionPolicy
from vmafx.domain.session_state import (
    InSession,
    New,
    NoSession,
    Phase,
    Session,
    State,
    Stopping,
    Work,
)
from vmafx.domain.session_step import Step, refuse

__all__ = ["TABLE", "Step", "current_session", "session_to_pull", "step"]


def step(state: State, event: Event, policy: SessionPolicy) -> Step:
    """Return the state after `event`, and what is to be done about it.

    An event about an earlier session changes nothing; only a refused report is still answered.

    Args:
        state: The state before; `New()` at first.
        event: What happened.
        policy: The timing; the same in every step.

    Raises:
        IllegalTransitionError: The event cannot happen in this state: whoever feeds the machine is wrong.
    """
    generation = 0 if isinstance(state, New) else state.generation
    phase, unheard_of = state.phase, False
    if isinstance(event, SessionEvent):
        unheard_of = event.generation > generation
        if phase is Phase.SESSION and event.generation < generation:
            phase = Phase.NO_SESSION  # of that session there is nothing left
    handler = TABLE.get((phase, type(event)))
    if handler is None or unheard_of:
        refuse(state, event)
    # The key names the types of both, which the type of the table cannot say; a test holds it to its word.
    return handler(cast("Never", state), cast("Never", event), policy)


def current_session(state: State) -> Session | None:
    """Return the session that calls are to be made under; None when there is none."""
    return state.session if isinstance(state, InSession) else None


def session_to_pull(state: State) -> Session | None:
    """Return the session that jobs are to be pulled under; None when none is to be pulled now.

    Until the controller has accepted a heartbeat of a new session, it may take the jobs that were held before
    for lost: a pull could get one of them, and the loss would count.
    """
    if isinstance(state, InSession) and not state.unclaimed.isdisjoint(state.jobs):
        return None
    return current_session(state)


# ---------------------------------------------------------------- no session


def _start(_state: New, _event: Started, policy: SessionPolicy) -> Step:
    state = NoSession(generation=0, jobs={}, attempt=1, backoff=policy.register.start(), due_s=None)
    return Step(state=state, effects=(Register(attempt=1, cause=Cause.STARTED),))


def _retry(state: NoSession, event: Woke, _policy: SessionPolicy) -> Step:
    if state.due_s is None:
        return Step(state=state)
    if event.now_s < state.due_s:
        return Step(state=state, effects=(WakeAt(at_s=state.due_s, cause=Cause.WOKE_EARLY),))
    register = Register(attempt=state.attempt, cause=Cause.RETRY_DUE)
    return Step(state=replace(state, due_s=None), effects=(register,))


def _registered(state: NoSession, event: Registered, policy: SessionPolicy) -> Step:
    _check_attempt(state, event)
    problem = registration_problem(event.node_id, event.session_token)
    if problem:
        return _registration_missed(state, event, StatusCode.UNKNOWN, problem)
    session = Session(
        generation=state.generation + 1,
        node_id=SessionId(event.node_id),
        session_token=event.session_token,
    )
    # Drawn ahead, since a refusal carries no chance; used only if no heartbeat is ever accepted.
    relapse_wait_s, backoff = state.backoff.draw(event.unit)
    opened = InSession(
        session=session,
        jobs=state.jobs,
        accepted_at_s=event.now_s,
        due_s=event.now_s + policy.heartbeat_interval_s,
        beat=0,
        in_flight=False,
        judging={},
        backoff=backoff,
        relapse_wait_s=relapse_wait_s,
        unclaimed=frozenset(state.jobs),
    )
    told = SessionOpened(session=session, attempt=state.attempt, cause=Cause.REGISTERED)
    if state.jobs:
        # The controller learns at once which attempts go on, and can hand them to the new session.
        return _beat(opened, event.now_s, Cause.JOBS_HELD, policy, told)
    return Step(state=opened, effects=(told, WakeAt(at_s=opened.due_s, cause=Cause.REGISTERED)))


def _register_failed(state: NoSession, event: RegisterFailed, _policy: SessionPolicy) -> Step:
    _check_attempt(state, event)
    return _registration_missed(state, event, event.code, event.error)


def _registration_missed(
    state: NoSession, event: Registered | RegisterFailed, code: StatusCode, error: str
) -> Step:
    cause = Cause.REGISTER_FAILED
    wait_s, backoff = state.backoff.draw(event.unit)
    due_s = event.now_s + wait_s
    missed = RegistrationMissed(attempt=state.attempt, retry_in_s=wait_s, code=code, error=error, cause=cause)
    waiting = replace(state, attempt=state.attempt + 1, backoff=backoff, due_s=due_s)
    return Step(state=waiting, effects=(missed, WakeAt(at_s=due_s, cause=cause)))


def _check_attempt(state: NoSession, event: Registered | RegisterFailed) -> None:
    if state.due_s is not None or event.attempt != state.attempt:
        refuse(state, event)


# ---------------------------------------------------------------- in session


def _heartbeat_due(state: InSession, event: Woke, policy: SessionPolicy) -> Step:
    if _window_passed(state, event.now_s):
        return _lose(state, event.now_s, Cause.WINDOW_PASSED)
    if state.in_flight:
        return Step(state=state, effects=_watch_flight(state, event.now_s, Cause.WOKE_EARLY, policy))
    return _beat_when_due(state, event.now_s, Cause.WOKE_EARLY, policy)


def _accepted(state: InSession, event: HeartbeatAccepted, policy: SessionPolicy) -> Step:
    _check_beat(state, event)
    cause = Cause.HEARTBEAT_ACCEPTED
    named = frozenset(event.cancel_job_ids)  # as many as the answer likes: ours are at most 64
    cancels = tuple(
        CancelJob(job_id=job_id, cause=cause)
        for job_id, work in state.jobs.items()
        if work is Work.RUNNING and job_id in named
    )
    cancelled = {effect.job_id: Work.CANCELLING for effect in cancels}
    renewed = replace(
        state,
        jobs={**state.jobs, **cancelled},
        accepted_at_s=event.now_s,
        backoff=policy.register.start(),
        relapse_wait_s=0.0,
        unclaimed=frozenset(),
    )
    return _answered(renewed, event, Verdict.SESSION_LIVES, cause, policy, *cancels)


def _refused(state: InSession, event: HeartbeatRefused, _policy: SessionPolicy) -> Step:
    _check_beat(state, event)
    return _lose(state, event.now_s, Cause.HEARTBEAT_REFUSED)


def _failed(state: InSession, event: HeartbeatFailed, policy: SessionPolicy) -> Step:
    _check_beat(state, event)
    if invalidates_session(Call.HEARTBEAT, event.code):
        return _lose(state, event.now_s, Cause.HEARTBEAT_DENIED, event.error)
    if _window_passed(state, event.now_s):
        return _lose(state, event.now_s, Cause.WINDOW_PASSED, event.error)
    missed = HeartbeatMissed(
        session=state.session,
        failing_for_s=event.now_s - state.accepted_at_s,
        code=event.code,
        error=event.error,
        cause=Cause.HEARTBEAT_FAILED,
    )
    return _answered(state, event, Verdict.UNKNOWN, Cause.HEARTBEAT_FAILED, policy, missed)


def _pull_refused(state: InSession, event: PullRefused, _policy: SessionPolicy) -> Step:
    return _lose(state, event.now_s, Cause.PULL_REFUSED, event.error)


def _report_refused(state: InSession, event: ReportRefused, policy: SessionPolicy) -> Step:
    # A heartbeat already under way may have been accepted before the session was lost: it proves nothing.
    asking = replace(state, judging={**state.judging, event.job_id: state.beat + 1})
    if _window_passed(state, event.now_s):
        return _lose(asking, event.now_s, Cause.WINDOW_PASSED)
    if state.in_flight:
        return Step(state=asking)
    return _beat(asking, event.now_s, Cause.REPORT_REFUSED, policy)


def _answered(
    state: InSession,
    event: HeartbeatAccepted | HeartbeatFailed,
    verdict: Verdict,
    cause: Cause,
    policy: SessionPolicy,
    *told: Effect,
) -> Step:
    judged = tuple(
        ReportJudged(job_id=job_id, verdict=verdict, cause=cause)
        for job_id, beat in state.judging.items()
        if beat <= event.beat
    )
    waiting = {job_id: beat for job_id, beat in state.judging.items() if beat > event.beat}
    idle = replace(state, in_flight=False, judging=waiting)
    effects = (*told, *judged)
    if waiting:
        return _beat(idle, event.now_s, Cause.REPORT_REFUSED, policy, *effects)
    return _beat_when_due(idle, event.now_s, cause, policy, *effects)


def _beat_when_due(
    state: InSession, now_s: float, cause: Cause, policy: SessionPolicy, *told: Effect
) -> Step:
    if now_s >= state.due_s:
        return _beat(state, now_s, Cause.HEARTBEAT_DUE, policy, *told)
    return Step(state=state, effects=(*told, WakeAt(at_s=min(state.due_s, _loss_s(state)), cause=cause)))


def _beat(state: InSession, now_s: float, cause: Cause, policy: SessionPolicy, *told: Effect) -> Step:
    beat = state.beat + 1
    send = SendHeartbeat(session=state.session, beat=beat, job_ids=tuple(sorted(state.jobs)), cause=cause)
    sent = replace(state, beat=beat, in_flight=True, due_s=now_s + policy.heartbeat_interval_s)
    return Step(state=sent, effects=(*told, send, *_watch_flight(sent, now_s, cause, policy)))


def _watch_flight(state: InSession, now_s: float, cause: Cause, policy: SessionPolicy) -> tuple[WakeAt, ...]:
    """Wake for the end of the loss window, where it comes before the heartbeat under way must have ended."""
    ends_in_time = now_s + policy.rpc_timeout_s <= _loss_s(state)
    return () if ends_in_time else (WakeAt(at_s=_loss_s(state), cause=cause),)


def _lose(state: InSession, now_s: float, cause: Cause, error: str = "") -> Step:
    lost = SessionLost(session=state.session, error=error, cause=cause)
    judged = _judge_all(state, Verdict.SESSION_LOST, cause)
    due_s = now_s + state.relapse_wait_s if state.relapse_wait_s else None
    again = Register(attempt=1, cause=cause) if due_s is None else WakeAt(at_s=due_s, cause=cause)
    without = NoSession(
        generation=state.generation, jobs=state.jobs, attempt=1, backoff=state.backoff, due_s=due_s
    )
    return Step(state=without, effects=(lost, *judged, again))


def _judge_all(state: InSession, verdict: Verdict, cause: Cause) -> tuple[ReportJudged, ...]:
    return tuple(ReportJudged(job_id=job_id, verdict=verdict, cause=cause) for job_id in state.judging)


def _window_passed(state: InSession, now_s: float) -> bool:
    return now_s >= _loss_s(state)


def _loss_s(state: InSession) -> float:
    return state.accepted_at_s + LOSS_WINDOW_S


def _check_beat(state: InSession, event: HeartbeatAccepted | HeartbeatRefused | HeartbeatFailed) -> None:
    if not state.in_flight or event.beat != state.beat:
        refuse(state, event)


# ---------------------------------------------------------------- late events, jobs, stop


def _report_of_lost_session(
    state: NoSession | InSession, event: ReportRefused, _policy: SessionPolicy
) -> Step:
    verdict = ReportJudged(job_id=event.job_id, verdict=Verdict.SESSION_LOST, cause=Cause.REPORT_REFUSED)
    return Step(state=state, effects=(verdict,))


def _report_while_stopping(state: Stopping, event: ReportRefused, _policy: SessionPolicy) -> Step:
    verdict = ReportJudged(job_id=event.job_id, verdict=Verdict.UNKNOWN, cause=Cause.STOP_ASKED)
    return Step(state=state, effects=(verdict,))


def _ignore(state: State, _event: Event, _policy: SessionPolicy) -> Step:
    return Step(state=state)


def _stop_new(_state: New, _event: StopAsked, _policy: SessionPolicy) -> Step:
    return Step(state=Stopping(generation=0, jobs={}))


def _stop(state: NoSession | InSession, _event: StopAsked, _policy: SessionPolicy) -> Step:
    cause = Cause.STOP_ASKED
    judged = _judge_all(state, Verdict.UNKNOWN, cause) if isinstance(state, InSession) else ()
    stopping = Stopping(generation=state.generation, jobs=state.jobs)
    return Step(state=stopping, effects=(*judged, EndCalls(cause=cause)))


Handler: TypeAlias = Callable[[Never, Never, SessionPolicy], Step]

TABLE: Final[Mapping[tuple[Phase, type[Event]], Handler]] = {
    (Phase.NEW, Started): _start,
    (Phase.NEW, StopAsked): _stop_new,
    (Phase.NO_SESSION, Woke): _retry,
    (Phase.NO_SESSION, Registered): _registered,
    (Phase.NO_SESSION, RegisterFailed): _register_failed,
    (Phase.NO_SESSION, HeartbeatAccepted): _ignore,
    (Phase.NO_SESSION, HeartbeatRefused): _ignore,
    (Phase.NO_SESSION, HeartbeatFailed): _ignore,
    (Phase.NO_SESSION, PullRefused): _ignore,
    (Phase.NO_SESSION, ReportRefused): _report_of_lost_session,
    (Phase.NO_SESSION, JobTaken): take_job,
    (Phase.NO_SESSION, JobReporting): report_job,
    (Phase.NO_SESSION, JobReleased): release_job,
    (Phase.NO_SESSION, StopAsked): _stop,
    (Phase.SESSION, Woke): _heartbeat_due,
    (Phase.SESSION, HeartbeatAccepted): _accepted,
    (Phase.SESSION, HeartbeatRefused): _refused,
    (Phase.SESSION, HeartbeatFailed): _failed,
    (Phase.SESSION, PullRefused): _pull_refused,
    (Phase.SESSION, ReportRefused): _report_refused,
    (Phase.SESSION, JobTaken): take_job,
    (Phase.SESSION, JobReporting): report_job,
    (Phase.SESSION, JobReleased): release_job,
    (Phase.SESSION, StopAsked): _stop,
    (Phase.STOPPING, Started): _ignore,
    (Phase.STOPPING, Woke): _ignore,
    (Phase.STOPPING, Registered): _ignore,
    (Phase.STOPPING, RegisterFailed): _ignore,
    (Phase.STOPPING, HeartbeatAccepted): _ignore,
    (Phase.STOPPING, HeartbeatRefused): _ignore,
    (Phase.STOPPING, HeartbeatFailed): _ignore,
    (Phase.STOPPING, PullRefused): _ignore,
    (Phase.STOPPING, ReportRefused): _report_while_stopping,
    (Phase.STOPPING, JobReporting): report_job,
    (Phase.STOPPING, JobReleased): release_job,
    (Phase.STOPPING, StopAsked): _ignore,
}
"""Every legal move; whatever is not here raises."""
