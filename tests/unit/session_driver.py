"""Drives the session machine by hand: one state, one time, and every effect so far."""

from __future__ import annotations

from typing import TypeVar

from vmafx.domain.backoff import BackoffPolicy
from vmafx.domain.job import JobId, SessionId
from vmafx.domain.retry import StatusCode
from vmafx.domain.session import step
from vmafx.domain.session_effects import Effect, SendHeartbeat
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
    Woke,
)
from vmafx.domain.session_policy import SessionPolicy
from vmafx.domain.session_state import InSession, New, NoSession, State

INTERVAL_S = 10.0
POLICY = SessionPolicy(
    heartbeat_interval_s=INTERVAL_S,
    rpc_timeout_s=10.0,
    register=BackoffPolicy(base_s=0.5, cap_s=30.0),
)

_EffectT = TypeVar("_EffectT")


class Driver:
    """A session machine and its time."""

    def __init__(self, policy: SessionPolicy = POLICY, *, now_s: float = 1000.0) -> None:
        self.policy = policy
        self.state: State = New()
        self.now_s = now_s
        self.history: list[Effect] = []

    @property
    def live(self) -> InSession:
        assert isinstance(self.state, InSession), self.state
        return self.state

    @property
    def without(self) -> NoSession:
        assert isinstance(self.state, NoSession), self.state
        return self.state

    @property
    def generation(self) -> int:
        assert not isinstance(self.state, New)
        return self.state.generation

    def feed(self, event: Event) -> tuple[Effect, ...]:
        done = step(self.state, event, self.policy)
        self.state = done.state
        self.history.extend(done.effects)
        return done.effects

    def start(self) -> tuple[Effect, ...]:
        return self.feed(Started(now_s=self.now_s))

    def wake(self, after_s: float = 0.0) -> tuple[Effect, ...]:
        self.now_s += after_s
        return self.feed(Woke(now_s=self.now_s))

    def registered(
        self, node_id: str = "node-1", token: str = "secret", *, unit: float = 1.0, attempt: int | None = None
    ) -> tuple[Effect, ...]:
        number = self.without.attempt if attempt is None else attempt
        return self.feed(
            Registered(
                now_s=self.now_s,
                attempt=number,
                unit=unit,
                node_id=SessionId(node_id),
                session_token=token,
            )
        )

    def register_failed(self, *, unit: float = 1.0) -> tuple[Effect, ...]:
        return self.feed(
            RegisterFailed(
                now_s=self.now_s,
                attempt=self.without.attempt,
                unit=unit,
                code=StatusCode.UNAVAILABLE,
                error="no route",
            )
        )

    def accepted(self, *cancel: str, generation: int | None = None) -> tuple[Effect, ...]:
        live = self.live
        return self.feed(
            HeartbeatAccepted(
                now_s=self.now_s,
                generation=live.generation if generation is None else generation,
                beat=live.beat,
                cancel_job_ids=cancel,
            )
        )

    def refused(self) -> tuple[Effect, ...]:
        live = self.live
        return self.feed(HeartbeatRefused(now_s=self.now_s, generation=live.generation, beat=live.beat))

    def failed(self, code: StatusCode = StatusCode.UNAVAILABLE) -> tuple[Effect, ...]:
        live = self.live
        return self.feed(
            HeartbeatFailed(
                now_s=self.now_s, generation=live.generation, beat=live.beat, code=code, error="no route"
            )
        )

    def pull_refused(self, generation: int | None = None) -> tuple[Effect, ...]:
        number = self.generation if generation is None else generation
        return self.feed(PullRefused(now_s=self.now_s, generation=number))

    def report_refused(self, job: str = "job", generation: int | None = None) -> tuple[Effect, ...]:
        number = self.generation if generation is None else generation
        return self.feed(ReportRefused(now_s=self.now_s, generation=number, job_id=JobId(job)))

    def take(self, *jobs: str) -> None:
        for job in jobs:
            assert self.feed(JobTaken(job_id=JobId(job))) == ()

    def report(self, *jobs: str) -> None:
        for job in jobs:
            assert self.feed(JobReporting(job_id=JobId(job))) == ()

    def release(self, *jobs: str) -> None:
        for job in jobs:
            assert self.feed(JobReleased(job_id=JobId(job))) == ()

    def open(self, *jobs: str, proven: bool = True) -> None:
        """Bring a fresh machine into a session that holds `jobs`; `proven` by one accepted heartbeat."""
        self.start()
        self.registered()
        if proven:
            self.wake(INTERVAL_S)
            self.accepted()
        self.take(*jobs)


def only(effects: tuple[Effect, ...], kind: type[_EffectT]) -> _EffectT:
    """Return the one effect of that kind."""
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def has(effects: tuple[Effect, ...], kind: type[Effect]) -> bool:
    """Return whether there is an effect of that kind."""
    return any(isinstance(effect, kind) for effect in effects)


def listed(effects: tuple[Effect, ...]) -> tuple[str, ...]:
    """Return the jobs that the one heartbeat among `effects` lists."""
    return only(effects, SendHeartbeat).job_ids
