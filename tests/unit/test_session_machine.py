"""The node's session under any history: a stateful test (ADR 0013)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.session_driver import Driver, has
from vmafx.domain.job import JobId
from vmafx.domain.retry import StatusCode, Verdict
from vmafx.domain.session import current_session, session_to_pull
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
    PullRefused,
    Registered,
    RegisterFailed,
    ReportRefused,
    StopAsked,
)
from vmafx.domain.session_state import InSession, New, NoSession, Phase, Stopping

UNITS = st.floats(0, 1)
JOBS = [f"job-{letter}" for letter in "abcd"]
CODES = st.sampled_from(list(StatusCode))


class SessionHistories(RuleBasedStateMachine):
    """Plays the shell and the controller, keeps its own books, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(now_s=0.0)
        self.registering: int | None = None
        self.beats: dict[tuple[int, int], tuple[str, ...]] = {}  # under way, old sessions' too
        self.wake_at_s: float | None = None
        self.accepted_at_s = 0.0
        self.opened: list[int] = []
        self.lost: list[int] = []
        self.first_tries = 0
        self.jobs: dict[str, str] = {}
        self.unclaimed: set[str] = set()
        self.asked: set[str] = set()
        self.stopped = False

    # ------------------------------------------------------------ the shell

    def play(self, event: Event) -> tuple[Effect, ...]:
        before = self.driver.state
        generation = 0 if isinstance(before, New) else before.generation
        effects = self.driver.feed(event)
        for effect in effects:
            self.perform(effect)
        stale = getattr(event, "generation", generation) < generation or not (
            isinstance(before, InSession) or not hasattr(event, "generation")
        )
        if stale:
            assert self.driver.state == before
            assert all(isinstance(effect, ReportJudged) for effect in effects)
        return effects

    def perform(self, effect: Effect) -> None:
        assert not self.stopped or isinstance(effect, ReportJudged | EndCalls), "nothing is sent after a stop"
        match effect:
            case Register(attempt=attempt):
                assert self.registering is None, "one registration at a time"
                assert self.session_number is None, "no registration in a session"
                self.registering = attempt
                self.first_tries += attempt == 1
            case SendHeartbeat(session=session, beat=beat, job_ids=job_ids):
                assert session.generation == self.session_number, "no heartbeat without a session"
                assert all(number != session.generation for number, _ in self.beats), "one at a time"
                assert job_ids == tuple(sorted(self.jobs)), "one snapshot: every job held"
                self.beats[session.generation, beat] = job_ids
                self.wake_at_s = None
            case WakeAt(at_s=at_s):
                assert at_s > self.driver.now_s, "a wait is never over before it began"
                self.wake_at_s = at_s
            case SessionOpened(session=session):
                assert session.generation == len(self.opened) + 1, (
                    "generations never go back, none is left out"
                )
                self.opened.append(session.generation)
                self.unclaimed = set(self.jobs)
                self.accepted_at_s = self.driver.now_s
            case SessionLost(session=session):
                assert session.generation == self.session_number, "a session is lost once"
                self.lost.append(session.generation)
                self.wake_at_s = None
            case CancelJob(job_id=job_id):
                assert self.jobs[job_id] == "running", "only what runs here, and only once"
                self.jobs[job_id] = "cancelling"
            case ReportJudged(job_id=job_id):
                self.asked.remove(job_id)
            case EndCalls():
                self.registering = None
            case RegistrationMissed() | HeartbeatMissed():
                pass

    @property
    def session_number(self) -> int | None:
        return self.opened[-1] if len(self.opened) > len(self.lost) and not self.stopped else None

    @property
    def window_passed(self) -> bool:
        return self.driver.now_s >= self.accepted_at_s + 60.0

    # ------------------------------------------------------------ time and start

    @precondition(lambda self: isinstance(self.driver.state, New) or self.stopped)
    @rule()
    def start(self) -> None:
        effects = self.driver.start()
        for effect in effects:
            self.perform(effect)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.5, 5.0, 10.0, 45.0, 60.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.driver.now_s += seconds

    @precondition(lambda self: self.wake_at_s is not None)
    @rule()
    def wake_when_due(self) -> None:
        assert self.wake_at_s is not None
        self.driver.now_s = max(self.driver.now_s, self.wake_at_s)
        self.wake()

    @precondition(lambda self: not isinstance(self.driver.state, New))
    @rule()
    def wake(self) -> None:
        number, late = self.session_number, self.window_passed
        effects = self.driver.wake()
        self.wake_at_s = (
            None if self.wake_at_s is None or self.wake_at_s <= self.driver.now_s else self.wake_at_s
        )
        for effect in effects:
            self.perform(effect)
        if number is not None:
            assert has(effects, SessionLost) == late, "lost at a tick exactly when the window has passed"

    # ------------------------------------------------------------ the controller's answers

    @precondition(lambda self: self.registering is not None)
    @rule(unit=UNITS, empty=st.sampled_from(["", "", "node", "token"]))
    def registration_answered(self, unit: float, empty: str) -> None:
        assert self.registering is not None
        attempt, self.registering = self.registering, None
        event = Registered(
            now_s=self.driver.now_s,
            attempt=attempt,
            unit=unit,
            node_id="" if empty == "node" else f"node-{len(self.opened) + 1}",
            session_token="" if empty == "token" else "secret",
        )
        effects = self.play(event)
        assert has(effects, SessionOpened) == (not empty)
        if not empty:
            assert has(effects, SendHeartbeat) == bool(self.jobs), "a heartbeat at once while jobs are held"

    @precondition(lambda self: self.registering is not None)
    @rule(unit=UNITS, code=CODES)
    def registration_failed(self, unit: float, code: StatusCode) -> None:
        assert self.registering is not None
        attempt, self.registering = self.registering, None
        now_s = self.driver.now_s
        effects = self.play(RegisterFailed(now_s=now_s, attempt=attempt, unit=unit, code=code, error=""))
        assert has(effects, RegistrationMissed)

    @precondition(lambda self: bool(self.beats))
    @rule(data=st.data(), cancelled=st.lists(st.sampled_from([*JOBS, "strange", ""]), max_size=4))
    def heartbeat_accepted(self, data: st.DataObject, cancelled: list[str]) -> None:
        (generation, beat), current = self._answer(data)
        running = {job for job, work in self.jobs.items() if work == "running"}
        if current:
            self.accepted_at_s = self.driver.now_s
            self.unclaimed.clear()
        effects = self.play(
            HeartbeatAccepted(
                now_s=self.driver.now_s, generation=generation, beat=beat, cancel_job_ids=tuple(cancelled)
            )
        )
        assert not has(effects, SessionLost)
        assert {effect.job_id for effect in effects if isinstance(effect, CancelJob)} == (
            running & set(cancelled) if current else set()
        )

    @precondition(lambda self: bool(self.beats))
    @rule(data=st.data())
    def heartbeat_refused(self, data: st.DataObject) -> None:
        (generation, beat), current = self._answer(data)
        effects = self.play(HeartbeatRefused(now_s=self.driver.now_s, generation=generation, beat=beat))
        assert has(effects, SessionLost) == current

    @precondition(lambda self: bool(self.beats))
    @rule(data=st.data(), code=CODES)
    def heartbeat_failed(self, data: st.DataObject, code: StatusCode) -> None:
        (generation, beat), current = self._answer(data)
        denied = code is StatusCode.PERMISSION_DENIED
        effects = self.play(
            HeartbeatFailed(now_s=self.driver.now_s, generation=generation, beat=beat, code=code, error="")
        )
        assert has(effects, SessionLost) == (current and (denied or self.window_passed))

    def _answer(self, data: st.DataObject) -> tuple[tuple[int, int], bool]:
        key = data.draw(st.sampled_from(sorted(self.beats)))
        del self.beats[key]
        return key, key[0] == self.session_number

    # ------------------------------------------------------------ the slots

    @precondition(lambda self: bool(self.opened))
    @rule(data=st.data())
    def pull_refused(self, data: st.DataObject) -> None:
        generation = data.draw(st.sampled_from(self.opened))
        current = generation == self.session_number
        effects = self.play(PullRefused(now_s=self.driver.now_s, generation=generation))
        assert has(effects, SessionLost) == current

    @precondition(lambda self: bool(self.opened))
    @rule(data=st.data(), job=st.sampled_from([*JOBS, "spooled"]))
    def report_refused(self, data: st.DataObject, job: str) -> None:
        if job in self.asked:
            return
        self.asked.add(job)
        generation = data.draw(st.sampled_from(self.opened))
        number, late = self.session_number, self.window_passed
        effects = self.play(ReportRefused(now_s=self.driver.now_s, generation=generation, job_id=JobId(job)))
        current = generation == number
        assert has(effects, SessionLost) == (current and late), "a refused report alone ends no session"
        if not current:
            (judged,) = effects
            assert isinstance(judged, ReportJudged)
            assert judged.verdict is (Verdict.UNKNOWN if self.stopped else Verdict.SESSION_LOST)

    @precondition(lambda self: self.driver.state.phase in {Phase.NO_SESSION, Phase.SESSION})
    @rule(job=st.sampled_from(JOBS))
    def take_job(self, job: str) -> None:
        if job not in self.jobs:
            self.driver.take(job)
            self.jobs[job] = "running"

    @precondition(lambda self: bool(self.jobs))
    @rule(data=st.data())
    def job_ends(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        if self.jobs[job] == "reporting":
            self.driver.release(job)
            del self.jobs[job]
        else:
            self.driver.report(job)
            self.jobs[job] = "reporting"

    @precondition(lambda self: len(self.opened) >= 2)
    @rule()
    def stop(self) -> None:
        effects = self.driver.feed(StopAsked())
        self.stopped = True
        self.wake_at_s = None
        for effect in effects:
            self.perform(effect)

    # ------------------------------------------------------------ always

    @invariant()
    def machine_and_books_agree(self) -> None:
        state = self.driver.state
        session = current_session(state)
        assert (None if session is None else session.generation) == self.session_number
        if not isinstance(state, New):
            assert state.generation == len(self.opened)
            assert {job: work.value for job, work in state.jobs.items()} == self.jobs
        assert isinstance(state, Stopping) == self.stopped

    @invariant()
    def pulls_wait_until_the_jobs_held_before_go_on(self) -> None:
        number = None if self.unclaimed & self.jobs.keys() else self.session_number
        session = session_to_pull(self.driver.state)
        assert (None if session is None else session.generation) == number

    @invariant()
    def there_is_always_something_to_wait_for(self) -> None:
        state = self.driver.state
        if isinstance(state, NoSession):
            assert (self.registering is None) == (self.wake_at_s is not None)
        if isinstance(state, InSession):
            under_way = any(number == state.generation for number, _ in self.beats)
            assert under_way == state.in_flight
            assert under_way or not state.judging, "whoever asks is not kept waiting for the next interval"
            assert under_way or self.wake_at_s is not None

    @invariant()
    def one_registration_for_each_loss(self) -> None:
        assert self.first_tries <= len(self.lost) + 1
        assert len(self.opened) <= len(self.lost) + 1

    @invariant()
    def whoever_asks_about_a_report_is_answered(self) -> None:
        state = self.driver.state
        judging = set(state.judging) if isinstance(state, InSession) else set()
        assert judging == self.asked


TestSessionHistories = SessionHistories.TestCase
TestSessionHistories.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


@pytest.mark.soak
class TestMoreSessionHistories(SessionHistories.TestCase):
    settings = settings(derandomize=False, max_examples=5_000, stateful_step_count=50, deadline=None)
