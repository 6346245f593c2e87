"""A node keeps a session, works under it, and comes back when it is lost (ADR 0018)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.node_world import MODES, make_world, running, until
from vmafx.adapters.fakes.controller_faults import Delay, Fail, Hang, LoseAnswer, Substitute
from vmafx.adapters.fakes.scorer import FakeRun
from vmafx.adapters.fakes.sources import FakeSource
from vmafx.app.node import events
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ClipError
from vmafx.domain.job import JobResult, JobStatus, NodeName, SessionId
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Backend
from vmafx.domain.session_policy import SessionPolicy
from vmafx.ports.controller import HeartbeatAnswer, Registration
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_a_job_is_pulled_scored_and_reported(clock, mode):
    async with running(make_world(clock, mode=mode)) as it:
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED
        (report,) = it.reports(job)
        assert report.report.content == JobResult(score=it.expected[job], features={"vmaf": it.expected[job]})
        assert clock.monotonic() < 15
        await clock.sleep(1)
    messages = [m for m in it.telemetry.messages if m != events.PULL_FAILED]
    assert messages == [
        events.CLIENT_STARTED,
        events.REGISTERED,
        events.JOB_PULLED,
        events.EXECUTING,
        events.SCORING,
        events.SCORED,
        events.REPORTED,
        events.CLIENT_STOPPED,
    ]


async def test_the_events_of_a_job_name_it_and_its_session(clock):
    async with running(make_world(clock)) as it:
        job = it.submit("a", model="vmaf_v0.6.1")
        await it.fake.until_ended(job)
        await clock.sleep(1)
    session = {"node_id": "session-1"}
    about = {**session, "job_id": job}
    fields = {event.message: (event.level, event.fields) for event in it.telemetry.events}
    assert fields == {
        events.CLIENT_STARTED: (Level.INFO, {"node": "node-1", "slots": 1, "backends": "cpu"}),
        events.REGISTERED: (Level.INFO, {**session, "attempt": 1}),
        events.JOB_PULLED: (Level.INFO, {**about, "slot": 0}),
        events.EXECUTING: (Level.INFO, {**about, "type": "scoring"}),
        events.SCORING: (
            Level.INFO,
            {
                **about,
                "ref": "/clips/reference.y4m",
                "dis": "/clips/a.y4m",
                "model": "vmaf_v0.6.1",
                "backend": "cpu",
            },
        ),
        events.SCORED: (Level.INFO, {**about, "score": it.expected[job]}),
        events.REPORTED: (Level.INFO, {**about, "score": it.expected[job], "error": None}),
        events.CLIENT_STOPPED: (Level.INFO, {}),
    }


async def test_a_node_tells_what_it_can_run(clock):
    it = make_world(clock, policy=NodePolicy(backend=Backend.CUDA, slots=3), slots=3)
    async with running(it):
        await clock.sleep(1)
    (register,) = it.registers()
    capability = register.capability
    assert (capability.gpu_vendor, capability.concurrency) == ("nvidia", 3)
    assert capability.backends == frozenset({Backend.CUDA})
    assert {pull.capability for pull in it.pulls()} == {capability}


async def test_registering_is_tried_until_it_succeeds(clock):
    it = make_world(clock)
    it.fake.wire.cue(
        Call.REGISTER,
        Fail(),
        Substitute(answer=Registration(node_id=SessionId(""), session_token="x")),
        Substitute(answer=Registration(node_id=SessionId("n"), session_token="")),
        Hang(),
        LoseAnswer(code=StatusCode.PERMISSION_DENIED),
    )
    async with running(it):
        await until(lambda: it.node.state.in_session, clock)
        assert all(pull.session.node_id == "session-2" for pull in it.pulls())
        job = it.submit("a")
        await it.fake.until_ended(job)
    missed = it.told(events.REGISTER_FAILED)
    assert [event.fields["attempt"] for event in missed] == [1, 2, 3, 4, 5]
    assert [event.fields["code"] for event in missed] == [
        "UNAVAILABLE",
        "UNKNOWN",
        "UNKNOWN",
        "DEADLINE_EXCEEDED",
        "PERMISSION_DENIED",
    ]
    for number, event in enumerate(missed):
        assert 0.25 * 2**number <= event.fields["retry_in"] <= 0.5 * 2**number
    assert it.told(events.REGISTERED)[0].fields["attempt"] == 6


async def test_a_refused_heartbeat_leads_to_a_new_session_and_stops_no_job(clock):
    async with running(make_world(clock, takes_s=100)) as it:
        job = it.submit("a")
        await clock.sleep(12)
        it.fake.end_sessions()
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED
        assert len(it.registers()) == 2
        assert len(it.scorer.requests) == 1
        (report,) = it.reports(job)
        assert report.session.node_id == "session-2"
    (event,) = it.told(events.SESSION_UNKNOWN)
    assert (event.level, event.fields) == (Level.WARN, {"node_id": "session-1"})


async def test_a_denied_heartbeat_is_told_with_its_error(clock):
    it = make_world(clock)
    it.fake.wire.cue(Call.HEARTBEAT, Fail(code=StatusCode.PERMISSION_DENIED, message="role required"))
    async with running(it):
        await clock.sleep(12)
        assert len(it.registers()) == 2
    (event,) = it.told(events.HEARTBEAT_DENIED)
    assert event.fields == {"node_id": "session-1", "error": "role required"}


@pytest.mark.parametrize("slots", [1, 64])
async def test_many_refused_pulls_cause_one_registration(clock, slots):
    async with running(make_world(clock, slots=slots)) as it:
        await clock.sleep(6)
        it.fake.end_sessions()
        await clock.sleep(9)
        refused = it.told(events.PULL_FAILED)
        assert len(refused) == slots
        assert {event.fields["slot"] for event in refused} == set(range(slots))
        assert len(it.registers()) == 2
        assert len(it.told(events.SESSION_UNKNOWN)) == 1


async def test_the_session_is_given_up_a_minute_after_the_last_accepted_heartbeat(clock):
    async with running(make_world(clock)) as it:
        await clock.sleep(15)
        it.fake.wire.cue(Call.HEARTBEAT, *[Fail(code=StatusCode.INTERNAL)] * 20)
        await until(lambda: len(it.registers()) == 2, clock)
        assert it.registers()[1].at_s == pytest.approx(10 + 60)
    failed = it.told(events.HEARTBEAT_FAILED)
    assert len(failed) == 5
    assert all(str(event.fields["error"]).startswith("INTERNAL: ") for event in failed)
    (lost,) = it.told(events.SESSION_UNKNOWN)
    assert "loss window" in lost.fields["error"]


async def test_that_a_controller_answers_again_is_told_once(clock):
    async with running(make_world(clock)) as it:
        await clock.sleep(5)
        it.fake.wire.cue(Call.HEARTBEAT, *[Fail(code=StatusCode.UNAVAILABLE)] * 2)
        await clock.sleep(60)
        (again,) = it.told(events.CONTROLLER_ANSWERS_AGAIN)
        failed = it.told(events.HEARTBEAT_FAILED)
    assert len(failed) == 2
    assert again.fields["failed_for"] == failed[-1].fields["failing_for"]
    assert again.fields["node_id"] == failed[-1].fields["node_id"]


async def test_heartbeats_list_what_is_prepared_run_and_reported(clock):
    it = make_world(clock, run=lambda _: FakeRun(takes_s=15, error=ClipError("/clips/a.y4m", "torn")))
    it.sources.add("/clips/a.y4m", FakeSource(takes_s=8))
    it.fake.wire.cue(Call.REPORT, Hang(), Hang())
    async with running(it):
        job = it.submit("a")
        await clock.sleep(55)
        assert len(it.reports(job)) == 3
    assert 33 < it.reports(job)[1].at_s < 40
    heartbeats = {call.at_s: call.heartbeat for call in it.beats()}
    assert [at_s for at_s, told in heartbeats.items() if told.listed == (job,)] == [10, 20, 30, 40]
    assert heartbeats[50].listed == ()
    assert all(told.jobs_running == len(told.listed) for told in heartbeats.values())


async def test_a_new_session_hears_at_once_of_the_jobs_held(clock):
    async with running(make_world(clock, takes_s=300)) as it:
        job = it.submit("a")
        await clock.sleep(5)
        it.fake.end_sessions(NodeName("node-1"))
        await until(lambda: len(it.registers()) == 2, clock)
        again_s = clock.monotonic()
        await clock.sleep(1)
        beats = [beat for beat in it.beats() if beat.session.node_id == "session-2"]
        assert beats[0].heartbeat.listed == (job,)
        assert beats[0].at_s - again_s < 0.2


async def test_a_new_session_pulls_nothing_before_it_claimed_the_jobs_held(clock):
    async with running(make_world(clock, slots=3, takes_s=300)) as it:
        it.submit("a")
        await clock.sleep(5)
        it.fake.end_sessions(NodeName("node-1"))
        it.fake.wire.cue(Call.REGISTER, Delay(before_s=1.0))
        await until(lambda: len(it.registers()) == 2, clock)
        it.fake.wire.cue(Call.HEARTBEAT, Fail())
        await until(lambda: it.node.state.in_session, clock)
        again_s = clock.monotonic()
        await clock.sleep(30)
        beats = [beat.at_s for beat in it.beats() if beat.session.node_id == "session-2"]
        pulls = [pull.at_s for pull in it.pulls() if pull.session.node_id == "session-2"]
        assert beats[:2] == [pytest.approx(again_s, abs=0.1), pytest.approx(again_s + 10, abs=0.1)]
        assert min(pulls) >= beats[1]
        assert len(pulls) >= 2


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
async def test_an_hour_without_a_controller_loses_no_result(clock, mode):
    async with running(make_world(clock, takes_s=600, mode=mode)) as it:
        job = it.submit("a")
        await clock.sleep(30)
        it.fake.wire.break_down()
        await clock.sleep(3600)
        assert not it.node.state.in_session
        assert it.node.state.ready
        missed = it.told(events.REGISTER_FAILED)
        assert 100 < len(missed) < 250
        assert all("node_id" not in event.fields for event in missed)
        it.fake.wire.heal()
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED
        await clock.sleep(60)
        assert it.node.state.in_session


async def test_polls_are_spaced_from_the_start_of_the_call(clock):
    waits = NodePolicy(poll_interval_s=2.0)
    async with running(make_world(clock, policy=waits)) as it:
        await clock.sleep(60)
        pulls = [call.at_s for call in it.pulls()]
        assert pulls == [pytest.approx(5.0 * n, abs=0.01) for n in range(len(pulls))]
    original = make_world(clock, mode=MODES[1], policy=waits)
    async with running(original):
        await clock.sleep(60)
        pulls = [call.at_s for call in original.pulls()]
        gaps = [later - earlier for earlier, later in pairwise(pulls)]
        assert all(1.0 <= gap <= 2.01 for gap in gaps)
        assert max(gaps) - min(gaps) > 0.1


async def test_failed_pulls_wait_longer_each_time_and_a_success_resets_that(clock):
    it = make_world(clock, mode=MODES[1])
    it.fake.wire.cue(Call.PULL, *[Fail()] * 6, None, Fail())
    async with running(it):
        await clock.sleep(200)
    waits = [event.fields["retry_in"] for event in it.told(events.PULL_FAILED)]
    for wait_s, window_s in zip(waits, [2, 4, 8, 16, 30, 30, 2], strict=True):
        assert window_s / 2 <= wait_s <= window_s
    assert it.told(events.PULL_FAILED)[0].fields == {
        "node_id": "session-1",
        "slot": 0,
        "retry_in": waits[0],
        "code": "UNAVAILABLE",
        "error": "fault on cue",
    }


async def test_metrics_tell_of_slots_session_and_jobs(clock):
    async with running(make_world(clock, slots=2, takes_s=20)) as it:
        value = it.telemetry.value
        await clock.sleep(1)
        assert value("vmafx_node_slots") == 2
        assert value("vmafx_node_session_up") == 1
        assert value("vmafx_node_jobs_running") == 0
        jobs = [it.submit("a"), it.submit("b")]
        await clock.sleep(5)
        assert value("vmafx_node_jobs_running") == 2
        await it.fake.until_ended(*jobs)
        assert value("vmafx_node_jobs_running") == 0
        assert value("vmafx_node_jobs_total", {"backend": "cpu", "outcome": "completed"}) == 2
        assert it.telemetry.observations("vmafx_node_job_duration_seconds", {"backend": "cpu"}) == (20, 20)
        it.fake.wire.break_down()
        await clock.sleep(100)
        assert value("vmafx_node_session_up") == 0
        it.fake.wire.heal()
        await clock.sleep(100)
        assert value("vmafx_node_session_up") == 1
    assert it.telemetry.value("vmafx_node_session_up") == 0


async def test_readiness_follows_the_first_registration(clock):
    it = make_world(clock)
    assert not it.node.state.ready
    it.fake.wire.break_down()
    async with running(it):
        await clock.sleep(10)
        assert (it.node.state.fit, it.node.state.registered, it.node.state.ready) == (True, False, False)
        it.fake.wire.heal()
        await clock.sleep(60)
        assert it.node.state.ready
        it.node.stop()
        assert it.node.state.draining
        assert not it.node.state.ready


@pytest.mark.parametrize("call", [Call.REGISTER, Call.HEARTBEAT, Call.PULL, Call.REPORT])
async def test_a_part_that_dies_ends_the_node(clock, call):
    def breaks(asked):
        if asked.kind is call:
            raise ZeroDivisionError("a bug")

    it = make_world(clock, rule=breaks, takes_s=1)
    it.submit("a")
    task = it.start()
    with pytest.raises(ExceptionGroup) as caught:
        await task
    assert caught.group_contains(ZeroDivisionError)
    assert it.scorer.running == 0
    assert clock.monotonic() <= 11


async def test_an_answer_to_a_heartbeat_that_cancels_strangers_is_harmless(clock):
    it = make_world(clock, takes_s=30)
    it.fake.wire.cue(
        Call.HEARTBEAT, Substitute(answer=HeartbeatAnswer(ok=True, cancel_job_ids=("", "../x", "job-99")))
    )
    async with running(it):
        job = it.submit("a")
        await it.fake.until_ended(job)
        assert it.status(job) is JobStatus.COMPLETED
    assert not it.told(events.CANCELLED)


def test_the_timing_of_a_session_is_the_policy_s():
    policy = NodePolicy(session=SessionPolicy(heartbeat_interval_s=5, rpc_timeout_s=4), shutdown_timeout_s=9)
    assert policy.reserve_s == 3
    assert NodePolicy(session=policy.session, shutdown_timeout_s=60).reserve_s == 4
