"""A node keeps a session before any controller: registering, losing it, finding it again (ADR 0013, 0018)."""

from __future__ import annotations

import pytest

from tests.contract.node_harness import Trait
from tests.node_world import ENDLESS
from vmafx.adapters.fakes.controller_faults import Fail, Hang, LoseAnswer, Substitute
from vmafx.app.node import events
from vmafx.app.node.policy import NodePolicy
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.job import JobResult, JobStatus, SessionId
from vmafx.domain.retry import Call, StatusCode
from vmafx.ports.controller import HeartbeatAnswer, Registration

LOSS_S = 60.0


async def test_a_job_is_pulled_scored_and_reported(stage):
    async with stage() as it:
        job = it.world.submit("a", model="some_model")
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        (report,) = it.reports(job)
        assert report.report.attempt == (1 if Trait.NUMBERS_ATTEMPTS in it.traits else None)
        (request,) = it.scorer.requests
        assert (request.model, request.distorted.name) == ("some_model", "/clips/a.y4m")
        await it.at_rest()
        assert [event.fields["job_id"] for event in it.world.told(events.REPORTED)] == [job]


async def test_a_free_slot_waits_for_work_without_hammering(stage):
    async with stage() as it:
        await it.advance(60)
        per_minute = 12 if Trait.WAITS_FOR_WORK in it.traits else 60
        assert per_minute / 2 <= len(it.world.pulls()) <= per_minute + 1


# ---------------------------------------------------------------- registering


@pytest.mark.parametrize(
    "fault",
    [
        Fail(),
        Fail(code=StatusCode.PERMISSION_DENIED, message="role required"),
        Fail(code=StatusCode.INVALID_ARGUMENT, message="no such name"),
        Fail(code=StatusCode.UNAUTHENTICATED, message="who are you"),
        LoseAnswer(),
        Hang(),
        Hang(answered=True),
        Substitute(answer=Registration(node_id=SessionId(""), session_token="t")),
        Substitute(answer=Registration(node_id=SessionId("n"), session_token="")),
        Substitute(answer=Registration(node_id=SessionId("n" * 257), session_token="t")),
    ],
    ids=["away", "denied", "invalid", "unauthenticated", "answer lost", "hangs", "hangs with the answer",
         "no id", "no token", "id too long"],
)  # fmt: skip
async def test_registering_is_tried_until_it_succeeds(stage, fault):
    def before(it):
        it.wire.cue(Call.REGISTER, *[fault] * 3)

    async with stage(before=before) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        missed = it.world.told(events.REGISTER_FAILED)
        assert [event.fields["attempt"] for event in missed] == [1, 2, 3]
        for number, event in enumerate(missed):
            assert 0.25 * 2**number <= event.fields["retry_in"] <= 0.5 * 2**number
        assert it.world.told(events.REGISTERED)[0].fields["attempt"] == 4


# ---------------------------------------------------------------- losing the session


async def test_a_refused_heartbeat_leads_to_a_new_session(stage):
    async with stage() as it:
        await it.advance(6)
        it.wire.cue(Call.HEARTBEAT, Substitute(answer=HeartbeatAnswer(ok=False)))
        await it.until(lambda: len(it.world.registers()) == 2)
        assert 10 <= it.clock.monotonic() <= 10.5
        (lost,) = it.world.told(events.SESSION_UNKNOWN)
        assert lost.fields == {"node_id": "session-1"}
        job = it.world.submit("a")
        await it.until_ended(job)
        assert it.reports(job)[0].session.node_id == "session-2"


async def test_a_denied_heartbeat_leads_to_a_new_session(stage):
    async with stage() as it:
        it.wire.cue(Call.HEARTBEAT, Fail(code=StatusCode.PERMISSION_DENIED, message="role required"))
        await it.until(lambda: len(it.world.registers()) == 2)
        (lost,) = it.world.told(events.HEARTBEAT_DENIED)
        assert lost.fields["node_id"] == "session-1"
        assert "role required" in lost.fields["error"]


async def test_a_refused_pull_leads_to_a_new_session(stage):
    async with stage() as it:
        await it.advance(1)
        it.fake.end_sessions()
        await it.until(lambda: len(it.world.registers()) == 2)
        assert it.world.beats() == []
        (refused,) = it.world.told(events.PULL_FAILED)
        assert refused.fields["code"] == "PERMISSION_DENIED"
        job = it.world.submit("a")
        await it.until_ended(job)


@pytest.mark.parametrize("fault", [Fail(code=StatusCode.INTERNAL), Hang(), LoseAnswer()], ids=type)
async def test_a_minute_without_an_accepted_heartbeat_leads_to_a_new_session(stage, fault):
    async with stage() as it:
        await it.until(lambda: len(it.world.beats()) == 1)
        await it.advance(5)
        accepted_s = it.world.beats()[0].at_s
        it.wire.cue(Call.HEARTBEAT, *[fault] * 20)
        await it.until(lambda: len(it.world.registers()) == 2)
        assert it.clock.monotonic() == pytest.approx(accepted_s + LOSS_S)
        assert it.world.told(events.HEARTBEAT_FAILED)


@pytest.mark.parametrize("slots", [1, 64])
async def test_many_refusals_at_once_cause_one_registration(stage, slots):
    def before(it):
        it.wire.cue(Call.PULL, *[Hang()] * slots)

    async with stage(slots=slots, before=before) as it:
        await it.until(lambda: it.wire.hanging == slots)
        it.fake.end_sessions()
        it.wire.release()
        await it.advance(8)
        assert {event.fields["slot"] for event in it.world.told(events.PULL_FAILED)} == set(range(slots))
        assert len(it.world.registers()) == 2
        assert len(it.world.told(events.SESSION_UNKNOWN)) == 1


@pytest.mark.parametrize("jobs_lost", [True, False], ids=["jobs lost", "jobs kept"])
async def test_a_job_finished_under_a_lost_session_is_reported_under_the_new_one(stage, jobs_lost):
    async with stage(takes_s=25) as it:
        job = it.world.submit("a")
        await it.advance(3)
        it.fake.end_sessions(jobs_lost=jobs_lost)
        await it.until(lambda: it.reports(job) != [])
        first = it.reports(job)[0]
        assert isinstance(first.report.content, JobResult)
        assert first.session.node_id == "session-2"
        assert first.at_s == pytest.approx(it.scorer.ended[0].ended_s)
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        assert len(it.scorer.requests) == (1 if Trait.TAKES_OVER in it.traits else 2)


async def test_a_report_whose_session_is_lost_meanwhile_goes_out_under_the_next(stage):
    async with stage(takes_s=5) as it:
        job = it.world.submit("a")
        await it.advance(2)
        it.fake.end_sessions(jobs_lost=False)
        await it.until(lambda: len(it.reports(job)) == 2)
        assert [call.session.node_id for call in it.reports(job)] == ["session-1", "session-2"]
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED


async def test_an_hour_without_a_controller_costs_nothing_but_the_hour(stage):
    async with stage(takes_s=600) as it:
        job = it.world.submit("a")
        await it.advance(30)
        if Trait.WIRE in it.traits:
            await it.kill()
        else:
            it.wire.break_down()
        await it.advance(3600)
        assert not it.node.state.in_session
        assert it.node.state.ready
        assert 100 < len(it.world.told(events.REGISTER_FAILED)) < 250
        if Trait.WIRE in it.traits:
            await it.revive()
        else:
            it.wire.heal()
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        await it.advance(60)
        assert it.node.state.in_session


# ---------------------------------------------------------------- slots


@pytest.mark.parametrize("slots", [1, 64])
async def test_every_slot_works(stage, slots):
    async with stage(slots=slots, takes_s=25) as it:
        jobs = [it.world.submit(f"n{number}") for number in range(slots * 2)]
        await it.advance(12)
        assert it.node.state.jobs_running == slots
        assert sorted(it.world.beats()[0].heartbeat.listed) == sorted(it.world.watched.jobs)
        await it.until_ended(*jobs)
        assert {it.world.status(job) for job in jobs} == {JobStatus.COMPLETED}
        assert it.scorer.running_max == slots


@pytest.mark.parametrize("slots", [0, 65])
def test_no_slots_and_too_many_are_refused(slots):
    with pytest.raises(ConfigurationError, match="must be an integer from 1 to 64"):
        NodePolicy(slots=slots)


async def test_heartbeats_list_what_runs_in_order(stage):
    async with stage(slots=3, run=lambda _: ENDLESS) as it:
        jobs = [it.world.submit(name, job_id=f"job {name}") for name in "cab"]
        await it.until(lambda: len(it.world.beats()) == 1)
        (beat,) = it.world.beats()
        assert beat.heartbeat.listed == tuple(sorted(jobs))
        assert beat.heartbeat.jobs_running == 3
