"""The node's session, rule by rule (ADR 0013)."""

from __future__ import annotations

import inspect
import math
import typing
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.session_driver import INTERVAL_S, POLICY, Driver, has, listed, only
from vmafx.domain import session, session_effects, session_events, session_state
from vmafx.domain.backoff import BackoffPolicy
from vmafx.domain.errors import IllegalTransitionError
from vmafx.domain.job import HEARTBEAT_JOBS_MAX, ID_BYTES_MAX, JobId
from vmafx.domain.retry import StatusCode, Verdict
from vmafx.domain.session import TABLE, current_session, session_to_pull, step
from vmafx.domain.session_answers import SESSION_TOKEN_BYTES_MAX, can_be_listed, registration_problem
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
    Started,
    StopAsked,
    Woke,
)
from vmafx.domain.session_policy import SessionPolicy
from vmafx.domain.session_state import (
    InSession,
    New,
    NoSession,
    Phase,
    Stopping,
    Work,
)

DENIED = StatusCode.PERMISSION_DENIED


# ---------------------------------------------------------------- registering


def test_start_registers_at_once() -> None:
    assert Driver().start() == (Register(attempt=1, cause=Cause.STARTED),)


def test_registration_opens_the_first_session() -> None:
    driver = Driver()
    driver.start()
    opened = only(driver.registered("n7", "s"), SessionOpened)
    assert (opened.session.generation, opened.session.node_id, opened.session.session_token) == (1, "n7", "s")
    assert opened.attempt == 1
    assert current_session(driver.state) == opened.session


def test_failed_registration_is_tried_again_after_a_growing_wait() -> None:
    driver, waits = Driver(), []
    driver.start()
    for attempt in range(1, 9):
        effects = driver.register_failed(unit=1.0)
        missed = only(effects, RegistrationMissed)
        assert (missed.attempt, missed.code, missed.error) == (attempt, StatusCode.UNAVAILABLE, "no route")
        assert only(effects, WakeAt).at_s == driver.now_s + missed.retry_in_s
        waits.append(missed.retry_in_s)
        assert driver.wake(missed.retry_in_s) == (Register(attempt=attempt + 1, cause=Cause.RETRY_DUE),)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_chance_of_a_failed_registration_decides_its_wait() -> None:
    driver = Driver()
    driver.start()
    assert only(driver.register_failed(unit=0.0), RegistrationMissed).retry_in_s == 0.25


def test_opened_session_tells_how_many_attempts_it_took() -> None:
    driver = Driver()
    driver.start()
    for _ in range(3):
        driver.wake(only(driver.register_failed(), RegistrationMissed).retry_in_s)
    assert only(driver.registered(), SessionOpened).attempt == 4


@pytest.mark.parametrize(("node_id", "token"), [("", "secret"), ("node", ""), ("", "")])
def test_empty_id_or_token_is_a_failed_attempt(node_id: str, token: str) -> None:
    driver = Driver()
    driver.start()
    missed = only(driver.registered(node_id, token), RegistrationMissed)
    assert missed.error == "controller returned an empty node id or session token"
    assert missed.retry_in_s == 0.5
    assert driver.without.generation == 0
    assert current_session(driver.state) is None


def test_overlong_node_id_is_a_failed_attempt() -> None:
    driver = Driver()
    driver.start()
    assert has(driver.registered("é" * (ID_BYTES_MAX // 2) + "x"), RegistrationMissed)
    driver.wake(30)
    assert has(driver.registered("é" * (ID_BYTES_MAX // 2)), SessionOpened)


def test_overlong_session_token_is_a_failed_attempt() -> None:
    driver = Driver()
    driver.start()
    missed = only(driver.registered("n", "é" * (SESSION_TOKEN_BYTES_MAX // 2) + "x"), RegistrationMissed)
    assert missed.error == "controller returned a session token above 4096 bytes"
    driver.wake(30)
    assert has(driver.registered("n", "é" * (SESSION_TOKEN_BYTES_MAX // 2)), SessionOpened)


@pytest.mark.parametrize(
    ("job_id", "can"),
    [
        ("", False),
        ("x" * 256, True),
        ("x" * 257, False),
        ("é" * 128, True),
        ("é" * 129, False),
        ("\udcff", True),
    ],
)
def test_heartbeats_list_jobs_whose_id_has_1_to_256_bytes(job_id: str, can: bool) -> None:  # noqa: FBT001
    assert can_be_listed(job_id) is can


def test_answer_that_names_any_number_of_cancelled_jobs_costs_what_is_held() -> None:
    class Named(str):
        __slots__ = ()
        hashed = 0

        def __hash__(self) -> int:
            Named.hashed += 1
            return str.__hash__(self)

        __eq__ = str.__eq__

    driver = Driver()
    driver.start()
    driver.registered()
    driver.feed(JobTaken(job_id=JobId("held")))
    beat = only(driver.wake(10), SendHeartbeat).beat
    flood = (*(Named(f"j{number}") for number in range(5000)), Named("held"))
    answer = HeartbeatAccepted(now_s=driver.now_s, generation=1, beat=beat, cancel_job_ids=flood)
    assert only(driver.feed(answer), CancelJob).job_id == "held"
    assert Named.hashed == len(flood)


def test_node_id_that_is_no_text_is_judged_without_an_error() -> None:
    assert registration_problem("\udcff", "secret") is None


def test_waking_early_registers_nothing_and_asks_to_be_woken_again() -> None:
    driver = Driver()
    driver.start()
    due = only(driver.register_failed(), WakeAt)
    assert driver.wake(0.1) == (WakeAt(at_s=due.at_s, cause=Cause.WOKE_EARLY),)


def test_waking_while_a_registration_is_under_way_starts_no_second_one() -> None:
    driver = Driver()
    driver.start()
    assert driver.wake(100) == ()


def test_answer_to_another_attempt_is_illegal() -> None:
    driver = Driver()
    driver.start()
    with pytest.raises(IllegalTransitionError):
        driver.registered(attempt=2)


def test_answer_while_no_registration_is_under_way_is_illegal() -> None:
    driver = Driver()
    driver.start()
    driver.register_failed()
    with pytest.raises(IllegalTransitionError):
        driver.registered()


# ---------------------------------------------------------------- heartbeats


def test_first_heartbeat_is_due_one_interval_after_registration() -> None:
    driver = Driver()
    driver.start()
    effects = driver.registered()
    assert not has(effects, SendHeartbeat)
    assert only(effects, WakeAt).at_s == driver.now_s + INTERVAL_S
    send = only(driver.wake(INTERVAL_S), SendHeartbeat)
    assert (send.beat, send.job_ids, send.cause) == (1, (), Cause.HEARTBEAT_DUE)


def test_first_heartbeat_goes_out_at_once_while_jobs_are_held() -> None:
    driver = Driver()
    driver.open("b", "a")
    driver.pull_refused()
    effects = driver.registered("node-2")
    assert listed(effects) == ("a", "b")
    assert only(effects, SendHeartbeat).cause is Cause.JOBS_HELD
    assert only(effects, SendHeartbeat).session.node_id == "node-2"


def test_nothing_is_pulled_under_a_new_session_before_the_jobs_held_go_on_under_it() -> None:
    driver = Driver()
    driver.open("a", "b")
    assert session_to_pull(driver.state) == driver.live.session
    driver.pull_refused()
    assert session_to_pull(driver.state) is None
    driver.registered("node-2")
    assert session_to_pull(driver.state) is None
    driver.accepted()
    assert session_to_pull(driver.state) == driver.live.session


@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL])
def test_a_heartbeat_that_failed_lets_nothing_be_pulled_until_one_is_accepted(code: StatusCode) -> None:
    driver = Driver()
    driver.open("a")
    driver.pull_refused()
    driver.registered("node-2")
    driver.failed(code)
    assert session_to_pull(driver.state) is None
    driver.wake(INTERVAL_S)
    assert session_to_pull(driver.state) is None
    driver.accepted()
    assert session_to_pull(driver.state) == driver.live.session


def test_pulls_wait_for_no_heartbeat_once_the_jobs_held_before_are_released() -> None:
    driver = Driver()
    driver.open("a", "b")
    driver.pull_refused()
    driver.registered("node-2")
    driver.failed()
    driver.report("a", "b")
    driver.release("a")
    assert session_to_pull(driver.state) is None
    driver.release("b")
    assert session_to_pull(driver.state) == driver.live.session
    driver.take("c")
    assert session_to_pull(driver.state) == driver.live.session


def test_a_node_without_jobs_pulls_as_soon_as_it_is_registered() -> None:
    driver = Driver()
    driver.start()
    assert session_to_pull(driver.state) is None
    driver.registered()
    assert session_to_pull(driver.state) == driver.live.session
    driver.wake(INTERVAL_S)
    assert session_to_pull(driver.state) == driver.live.session


def test_session_is_told_before_anything_is_sent_under_it() -> None:
    driver = Driver()
    driver.open("a")
    driver.pull_refused()
    assert [type(effect) for effect in driver.registered()] == [SessionOpened, SendHeartbeat]


def test_heartbeats_follow_one_interval_after_another() -> None:
    driver = Driver()
    driver.start()
    driver.registered()
    for beat in range(1, 5):
        assert only(driver.wake(INTERVAL_S), SendHeartbeat).beat == beat
        driver.now_s += 1.0
        assert only(driver.accepted(), WakeAt).at_s == driver.now_s + INTERVAL_S - 1.0
        driver.now_s -= 1.0


def test_no_second_heartbeat_while_one_is_under_way() -> None:
    driver = Driver()
    driver.start()
    driver.registered()
    driver.wake(INTERVAL_S)
    assert driver.wake(INTERVAL_S) == ()


def test_answer_later_than_the_interval_is_followed_by_the_next_heartbeat_at_once() -> None:
    driver = Driver()
    driver.start()
    driver.registered()
    driver.wake(INTERVAL_S)
    driver.now_s += INTERVAL_S + 2
    assert only(driver.accepted(), SendHeartbeat).beat == 2


def test_waking_early_sends_no_heartbeat() -> None:
    driver = Driver()
    driver.start()
    due = only(driver.registered(), WakeAt)
    assert driver.wake(INTERVAL_S / 2) == (WakeAt(at_s=due.at_s, cause=Cause.WOKE_EARLY),)


def test_heartbeat_lists_jobs_running_cancelling_and_reporting() -> None:
    driver = Driver()
    driver.open("run", "stop", "tell", "gone")
    driver.wake(INTERVAL_S)
    driver.accepted("stop")
    driver.report("tell", "gone")
    driver.release("gone")
    assert listed(driver.wake(INTERVAL_S)) == ("run", "stop", "tell")


def test_answer_to_another_heartbeat_is_illegal() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    wrong = HeartbeatAccepted(now_s=driver.now_s, generation=1, beat=driver.live.beat + 1)
    with pytest.raises(IllegalTransitionError):
        driver.feed(wrong)


def test_second_answer_to_one_heartbeat_is_illegal() -> None:
    driver = Driver()
    driver.open()
    with pytest.raises(IllegalTransitionError):
        driver.accepted()


# ---------------------------------------------------------------- losing the session


def test_refused_heartbeat_registers_again() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    effects = driver.refused()
    lost = only(effects, SessionLost)
    assert (lost.session.generation, lost.cause) == (1, Cause.HEARTBEAT_REFUSED)
    assert only(effects, Register).attempt == 1
    assert current_session(driver.state) is None


def test_denied_heartbeat_registers_again_with_its_words() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    lost = only(driver.failed(DENIED), SessionLost)
    assert (lost.cause, lost.error) == (Cause.HEARTBEAT_DENIED, "no route")


@pytest.mark.parametrize("code", [c for c in StatusCode if c is not DENIED], ids=lambda c: c.value)
def test_heartbeat_that_fails_otherwise_keeps_the_session(code: StatusCode) -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    driver.now_s += 3
    effects = driver.failed(code)
    missed = only(effects, HeartbeatMissed)
    assert (missed.code, missed.failing_for_s) == (code, INTERVAL_S + 3)
    assert only(effects, WakeAt).at_s == driver.now_s - 3 + INTERVAL_S


def test_refused_pull_registers_again() -> None:
    driver = Driver()
    driver.open()
    effects = driver.pull_refused()
    assert only(effects, SessionLost).cause is Cause.PULL_REFUSED
    assert has(effects, Register)


def test_several_refused_pulls_of_one_session_cause_one_registration() -> None:
    driver = Driver()
    driver.open()
    driver.pull_refused()
    before = driver.state
    assert driver.pull_refused() == ()
    assert driver.state == before
    driver.registered("node-2")
    state = driver.state
    assert driver.pull_refused(generation=1) == ()
    assert driver.state == state


def test_session_of_the_next_generation_follows_a_lost_one() -> None:
    driver = Driver()
    driver.open()
    driver.pull_refused()
    assert only(driver.registered("node-2"), SessionOpened).session.generation == 2


def test_late_answer_of_an_old_heartbeat_does_not_touch_the_new_session() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    beat = driver.live.beat
    driver.pull_refused()
    driver.registered("node-2")
    state = driver.state
    for late in (
        HeartbeatRefused(now_s=driver.now_s, generation=1, beat=beat),
        HeartbeatAccepted(now_s=driver.now_s, generation=1, beat=beat, cancel_job_ids=("a",)),
        HeartbeatFailed(now_s=driver.now_s, generation=1, beat=beat, code=DENIED, error=""),
    ):
        assert driver.feed(late) == ()
        assert driver.state == state


@pytest.mark.parametrize("phase", [Phase.SESSION, Phase.NO_SESSION])
def test_event_about_a_session_that_never_was_is_illegal(phase: Phase) -> None:
    driver = Driver()
    driver.open()
    if phase is Phase.NO_SESSION:
        driver.pull_refused()
    with pytest.raises(IllegalTransitionError):
        driver.pull_refused(generation=2)


def test_losing_a_session_keeps_its_jobs() -> None:
    driver = Driver()
    driver.open("a", "b")
    driver.report("b")
    driver.pull_refused()
    assert driver.without.jobs == {"a": Work.RUNNING, "b": Work.REPORTING}


def test_session_that_no_heartbeat_proved_is_not_replaced_at_once() -> None:
    driver = Driver()
    driver.open("a", proven=False)
    waits = []
    for _ in range(8):
        now_s = driver.now_s
        effects = driver.refused() if driver.live.in_flight else driver.pull_refused()
        assert not has(effects, Register)
        wake = only(effects, WakeAt)
        waits.append(wake.at_s - now_s)
        assert has(driver.wake(wake.at_s - now_s), Register)
        driver.registered(unit=1.0)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_accepted_heartbeat_ends_the_wait_before_registering_again() -> None:
    driver = Driver()
    driver.open("a", proven=False)
    driver.pull_refused()
    driver.wake(0.5)
    driver.registered()
    driver.accepted()
    assert has(driver.pull_refused(), Register)
    driver.registered(unit=1.0)
    assert only(driver.refused(), WakeAt).at_s == driver.now_s + 0.5


# ---------------------------------------------------------------- the loss window


def test_session_lives_just_before_60_s_since_the_last_accepted_heartbeat() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    driver.now_s = driver.live.accepted_at_s + 59.999
    assert has(driver.failed(), HeartbeatMissed)


def test_session_is_lost_when_a_failure_comes_at_60_s() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    driver.now_s = driver.live.accepted_at_s + 60.0
    effects = driver.failed()
    assert only(effects, SessionLost).cause is Cause.WINDOW_PASSED
    assert has(effects, Register)


def test_registration_counts_as_an_accepted_heartbeat() -> None:
    driver = Driver()
    driver.start()
    driver.now_s += 500
    driver.registered()
    registered_at_s = driver.now_s
    driver.wake(INTERVAL_S)
    driver.now_s = registered_at_s + 59.999
    assert has(driver.failed(), HeartbeatMissed)
    driver.now_s = registered_at_s + 60.0
    assert only(driver.failed(), SessionLost).cause is Cause.WINDOW_PASSED


def test_accepted_heartbeat_begins_the_window_anew() -> None:
    driver = Driver()
    driver.open()
    for _ in range(20):
        driver.wake(INTERVAL_S)
        driver.failed()
        driver.wake(INTERVAL_S)
        driver.accepted()
    assert driver.live.generation == 1


def test_answer_after_the_window_still_renews() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    driver.now_s += 55
    driver.accepted()
    assert driver.live.accepted_at_s == driver.now_s


def test_node_that_slept_through_the_window_registers_again_when_it_wakes() -> None:
    driver = Driver()
    driver.open()
    assert only(driver.wake(3600), SessionLost).cause is Cause.WINDOW_PASSED


@pytest.mark.parametrize("under_way", [False, True])
@pytest.mark.parametrize("late_s", [0.0, 0.001, 3600.0])
def test_report_refused_once_the_window_has_passed_goes_out_under_the_next_session(
    late_s: float, *, under_way: bool
) -> None:
    driver = Driver()
    driver.open("a")
    if under_way:
        driver.wake(INTERVAL_S)
    driver.now_s = driver.live.accepted_at_s + 60.0 + late_s
    effects = driver.report_refused("a")
    assert only(effects, SessionLost).cause is Cause.WINDOW_PASSED
    assert only(effects, ReportJudged).verdict is Verdict.SESSION_LOST
    assert not has(effects, SendHeartbeat)
    assert not has(effects, WakeAt)


def test_heartbeat_under_way_does_not_keep_a_session_past_its_window() -> None:
    driver = Driver()
    driver.open()
    driver.wake(INTERVAL_S)
    assert has(driver.wake(51), SessionLost)


# ---------------------------------------------------------------- cancelled jobs


def test_cancelled_job_that_runs_here_is_cancelled() -> None:
    driver = Driver()
    driver.open("a", "b")
    driver.wake(INTERVAL_S)
    assert only(driver.accepted("b"), CancelJob).job_id == "b"
    assert driver.live.jobs == {"a": Work.RUNNING, "b": Work.CANCELLING}


def test_cancelled_ids_that_do_not_run_here_are_ignored() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    assert not has(driver.accepted("x", "", "a\n", "A"), CancelJob)


def test_cancelled_job_whose_report_is_under_way_is_skipped() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    driver.report("a")
    assert not has(driver.accepted("a"), CancelJob)


def test_cancelled_job_that_ended_meanwhile_is_skipped() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    driver.release("a")
    assert not has(driver.accepted("a"), CancelJob)


def test_job_is_cancelled_once_however_often_it_is_named() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    only(driver.accepted("a", "a"), CancelJob)
    driver.wake(INTERVAL_S)
    assert not has(driver.accepted("a"), CancelJob)


# ---------------------------------------------------------------- refused reports


def test_refused_report_is_judged_by_a_heartbeat_sent_at_once() -> None:
    driver = Driver()
    driver.open("a")
    driver.report("a")
    send = only(driver.report_refused("a"), SendHeartbeat)
    assert (send.cause, send.job_ids) == (Cause.REPORT_REFUSED, ("a",))


def test_accepted_heartbeat_says_that_the_report_itself_is_refused() -> None:
    driver = Driver()
    driver.open("a")
    driver.report_refused("a")
    effects = driver.accepted()
    assert only(effects, ReportJudged).verdict is Verdict.SESSION_LIVES
    assert driver.live.generation == 1
    assert not has(effects, Register)


def test_refused_heartbeat_says_that_the_session_is_gone() -> None:
    driver = Driver()
    driver.open("a")
    driver.report_refused("a")
    effects = driver.refused()
    assert only(effects, ReportJudged).verdict is Verdict.SESSION_LOST
    assert has(effects, Register)


def test_failed_heartbeat_says_nothing_about_the_report() -> None:
    driver = Driver()
    driver.open("a")
    driver.report_refused("a")
    assert only(driver.failed(), ReportJudged).verdict is Verdict.UNKNOWN


def test_heartbeat_already_under_way_does_not_judge_a_report() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    assert driver.report_refused("a") == ()
    effects = driver.accepted()
    assert not has(effects, ReportJudged)
    assert only(effects, SendHeartbeat).cause is Cause.REPORT_REFUSED
    assert only(driver.accepted(), ReportJudged).verdict is Verdict.SESSION_LIVES


def test_reports_refused_together_share_one_heartbeat() -> None:
    driver = Driver()
    driver.open("a", "b", "c")
    driver.report_refused("a")
    driver.report_refused("b")
    driver.report_refused("c")
    effects = driver.accepted()
    assert only(effects, ReportJudged).job_id == "a"
    effects = driver.accepted()
    assert {e.job_id for e in effects if isinstance(e, ReportJudged)} == {"b", "c"}
    assert not has(effects, SendHeartbeat)


def test_loss_of_the_session_judges_every_waiting_report() -> None:
    driver = Driver()
    driver.open("a", "b")
    driver.report_refused("a")
    driver.report_refused("b")
    verdicts = [e.verdict for e in driver.pull_refused() if isinstance(e, ReportJudged)]
    assert verdicts == [Verdict.SESSION_LOST] * 2


def test_report_refused_under_an_old_session_is_judged_at_once_and_changes_nothing() -> None:
    driver = Driver()
    driver.open("a")
    driver.pull_refused()
    for _ in range(2):
        state = driver.state
        (verdict,) = driver.report_refused("a", generation=1)
        assert verdict == ReportJudged(
            job_id=JobId("a"), verdict=Verdict.SESSION_LOST, cause=Cause.REPORT_REFUSED
        )
        assert driver.state == state
        if isinstance(state, NoSession):
            driver.registered("node-2")


def test_asking_puts_off_the_next_heartbeat() -> None:
    driver = Driver()
    driver.open("a")
    driver.now_s += 4
    driver.report_refused("a")
    assert only(driver.accepted(), WakeAt).at_s == driver.now_s + INTERVAL_S


def test_report_of_a_job_that_is_not_held_is_judged_too() -> None:
    driver = Driver()
    driver.open()
    driver.report_refused("spooled")
    assert only(driver.accepted(), ReportJudged).job_id == "spooled"


# ---------------------------------------------------------------- jobs


def test_job_held_already_is_not_taken_again() -> None:
    driver = Driver()
    driver.open("a")
    with pytest.raises(IllegalTransitionError):
        driver.take("a")


def test_job_can_be_taken_while_the_session_is_lost() -> None:
    driver = Driver()
    driver.open()
    driver.pull_refused()
    driver.take("late")
    assert listed(driver.registered()) == ("late",)


def test_more_jobs_than_a_heartbeat_may_list_are_not_taken() -> None:
    driver = Driver()
    driver.open(*(f"job-{n}" for n in range(HEARTBEAT_JOBS_MAX)))
    with pytest.raises(IllegalTransitionError):
        driver.take("one-more")


@pytest.mark.parametrize("event", [JobReporting, JobReleased])
def test_job_that_is_not_held_neither_reports_nor_ends(event: type[JobReporting | JobReleased]) -> None:
    driver = Driver()
    driver.open("a")
    with pytest.raises(IllegalTransitionError):
        driver.feed(event(job_id=JobId("b")))


def test_job_reports_once() -> None:
    driver = Driver()
    driver.open("a")
    driver.report("a")
    with pytest.raises(IllegalTransitionError):
        driver.report("a")


def test_job_being_cancelled_can_still_report() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    driver.accepted("a")
    driver.report("a")
    assert driver.live.jobs == {"a": Work.REPORTING}


# ---------------------------------------------------------------- stopping


def test_stop_ends_the_calls_under_way() -> None:
    driver = Driver()
    driver.open("a")
    assert driver.feed(StopAsked()) == (EndCalls(cause=Cause.STOP_ASKED),)
    assert current_session(driver.state) is None


def test_stop_while_registering_ends_the_call() -> None:
    driver = Driver()
    driver.start()
    assert driver.feed(StopAsked()) == (EndCalls(cause=Cause.STOP_ASKED),)


def test_stop_may_come_twice() -> None:
    driver = Driver()
    driver.open()
    driver.feed(StopAsked())
    assert driver.feed(StopAsked()) == ()


def test_stop_before_start_is_not_lost() -> None:
    driver = Driver()
    assert driver.feed(StopAsked()) == ()
    assert driver.start() == ()
    assert isinstance(driver.state, Stopping)


def test_stop_answers_every_waiting_report() -> None:
    driver = Driver()
    driver.open("a")
    driver.report_refused("a")
    assert only(driver.feed(StopAsked()), ReportJudged).verdict is Verdict.UNKNOWN


def test_refused_report_is_answered_while_stopping() -> None:
    driver = Driver()
    driver.open("a")
    driver.feed(StopAsked())
    assert only(driver.report_refused("a"), ReportJudged).verdict is Verdict.UNKNOWN


def test_after_stop_nothing_is_sent_any_more() -> None:
    driver = Driver()
    driver.open("a")
    driver.wake(INTERVAL_S)
    beat = driver.live.beat
    driver.feed(StopAsked())
    late: list[Event] = [
        Woke(now_s=9999),
        Registered(now_s=9999, attempt=1, unit=0.5, node_id="n", session_token="s"),
        RegisterFailed(now_s=9999, attempt=1, unit=0.5, code=DENIED, error=""),
        HeartbeatAccepted(now_s=9999, generation=1, beat=beat, cancel_job_ids=("a",)),
        HeartbeatRefused(now_s=9999, generation=1, beat=beat),
        HeartbeatFailed(now_s=9999, generation=1, beat=beat, code=DENIED, error=""),
        PullRefused(now_s=9999, generation=1),
    ]
    for event in late:
        assert driver.feed(event) == ()
    driver.report("a")
    driver.release("a")
    assert driver.state == Stopping(generation=1, jobs={})


def test_session_lost_while_jobs_drain_is_opened_again() -> None:
    """Draining is no phase: a report that comes out of it needs a session."""
    driver = Driver()
    driver.open("a")
    driver.report("a")
    assert has(driver.pull_refused(), Register)


# ---------------------------------------------------------------- the table


def test_secret_of_a_session_is_never_shown() -> None:
    driver = Driver()
    driver.start()
    event = Registered(now_s=0, attempt=1, unit=0.5, node_id="n", session_token="hush-hush")
    effects = driver.feed(event)
    assert "hush-hush" not in repr((event, effects, driver.state))
    assert driver.live.session.session_token == "hush-hush"


def test_refusal_names_state_and_event() -> None:
    with pytest.raises(IllegalTransitionError) as refusal:
        step(New(), Woke(now_s=3.0), POLICY)
    assert (refusal.value.state, refusal.value.event) == ("New()", "Woke(now_s=3.0)")


EVENTS = {
    Started: Started(now_s=1),
    Woke: Woke(now_s=1),
    Registered: Registered(now_s=1, attempt=1, unit=0.5, node_id="n", session_token="s"),
    RegisterFailed: RegisterFailed(now_s=1, attempt=1, unit=0.5, code=DENIED, error=""),
    HeartbeatAccepted: HeartbeatAccepted(now_s=1, generation=1, beat=1),
    HeartbeatRefused: HeartbeatRefused(now_s=1, generation=1, beat=1),
    HeartbeatFailed: HeartbeatFailed(now_s=1, generation=1, beat=1, code=DENIED, error=""),
    PullRefused: PullRefused(now_s=1, generation=1),
    ReportRefused: ReportRefused(now_s=1, generation=1, job_id=JobId("a")),
    JobTaken: JobTaken(job_id=JobId("b")),
    JobReporting: JobReporting(job_id=JobId("a")),
    JobReleased: JobReleased(job_id=JobId("a")),
    StopAsked: StopAsked(),
}
STATES = {New: Phase.NEW, NoSession: Phase.NO_SESSION, InSession: Phase.SESSION, Stopping: Phase.STOPPING}


def _in_phase(phase: Phase) -> Driver:
    driver = Driver(now_s=0.0)
    if phase is Phase.STOPPING:
        driver.open("a")
        driver.feed(StopAsked())
    elif phase is not Phase.NEW:
        driver.open("a", proven=False)
        driver.wake(INTERVAL_S)
        if phase is Phase.NO_SESSION:
            driver.pull_refused()
            driver.wake(INTERVAL_S)
    return driver


@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.name)
@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: type(event).__name__)
def test_what_is_in_the_table_is_legal_and_nothing_else(phase: Phase, event: Event) -> None:
    driver = _in_phase(phase)
    assert driver.state.phase is phase
    if (phase, type(event)) in TABLE:
        driver.feed(event)
    else:
        with pytest.raises(IllegalTransitionError):
            driver.feed(event)


def test_table_knows_every_event_and_every_phase() -> None:
    assert {event for _, event in TABLE} == set(typing.get_args(Event)) == set(EVENTS)
    assert {phase for phase, _ in TABLE} == set(Phase)


@pytest.mark.parametrize("key", TABLE, ids=lambda key: f"{key[0].name}-{key[1].__name__}")
def test_every_handler_takes_the_state_and_event_of_its_key(key: tuple[Phase, type[Event]]) -> None:
    phase, event = key
    hints = list(typing.get_type_hints(TABLE[key], vars(session)).values())
    states, events = (typing.get_args(hint) or (hint,) for hint in hints[:2])
    assert {STATES[state] for state in states} >= {phase}
    assert event in events
    if phase is Phase.NO_SESSION and event in typing.get_args(session_events.SessionEvent):
        assert InSession in states  # met by an event of an earlier session


@pytest.mark.parametrize("module", [session_state, session_events, session_effects])
def test_states_events_and_effects_are_frozen_and_slotted(module: object) -> None:
    values = [cls for _, cls in inspect.getmembers(module, inspect.isclass) if is_dataclass(cls)]
    assert len(values) > 3
    for cls in values:
        assert "__slots__" in vars(cls)
        assert vars(cls)["__dataclass_params__"].frozen


def test_every_effect_names_its_cause() -> None:
    for effect in typing.get_args(Effect):
        assert "cause" in {field.name for field in fields(effect)}


# ---------------------------------------------------------------- timing


@pytest.mark.parametrize(("interval_s", "timeout_s"), [(10, 10), (30, 30), (59, 1), (1, 59), (0.5, 59.5)])
def test_any_accepted_timing_keeps_a_session_whose_answers_are_slow(
    interval_s: float, timeout_s: float
) -> None:
    policy = SessionPolicy(heartbeat_interval_s=interval_s, rpc_timeout_s=timeout_s)
    driver = Driver(policy, now_s=0.0)
    driver.start()
    driver.now_s += timeout_s
    driver.registered()
    effects = driver.wake(interval_s)
    for _ in range(50):
        assert has(effects, SendHeartbeat)
        driver.now_s += timeout_s
        effects = driver.accepted()
        if has(effects, WakeAt):
            effects = driver.wake(only(effects, WakeAt).at_s - driver.now_s)
    assert driver.live.generation == 1


@pytest.mark.parametrize(("interval_s", "timeout_s"), [(10, 10), (25, 10), (1, 58), (29, 2)])
def test_timing_without_a_warning_sends_a_second_heartbeat_within_the_window(
    interval_s: float, timeout_s: float
) -> None:
    policy = SessionPolicy(heartbeat_interval_s=interval_s, rpc_timeout_s=timeout_s)
    driver = Driver(policy, now_s=0.0)
    driver.start()
    driver.registered()
    driver.wake(interval_s)
    driver.now_s += timeout_s
    effects = driver.failed()
    if not has(effects, SendHeartbeat):
        driver.now_s = only(effects, WakeAt).at_s
        effects = driver.wake()
    assert has(effects, SendHeartbeat)
    assert driver.now_s - driver.live.accepted_at_s <= 60.0


@given(
    interval_s=st.floats(0.5, 59.5),
    share=st.floats(0.01, 1.0),
    answer_share=st.floats(0.0, 1.0),
)
def test_any_accepted_timing_loses_a_silent_controller_after_60_s(
    interval_s: float, share: float, answer_share: float
) -> None:
    timeout_s = (60.0 - interval_s) * share
    assume(timeout_s > 0.001)
    driver = Driver(SessionPolicy(heartbeat_interval_s=interval_s, rpc_timeout_s=timeout_s), now_s=0.0)
    driver.start()
    effects = driver.registered()
    answer_s = math.inf
    while not has(effects, SessionLost):
        if has(effects, SendHeartbeat):
            answer_s = driver.now_s + timeout_s * answer_share
        wake_s = min((effect.at_s for effect in effects if isinstance(effect, WakeAt)), default=math.inf)
        driver.now_s = min(wake_s, answer_s)
        if answer_s <= wake_s:
            answer_s = math.inf
            effects = driver.failed()
        else:
            effects = driver.wake()
    assert driver.now_s == pytest.approx(60.0)


def test_policy_of_registering_is_the_one_given() -> None:
    policy = SessionPolicy(
        heartbeat_interval_s=1, rpc_timeout_s=1, register=BackoffPolicy(base_s=7.0, cap_s=7.0)
    )
    driver = Driver(policy)
    driver.start()
    assert only(driver.register_failed(unit=1.0), RegistrationMissed).retry_in_s == 7.0
