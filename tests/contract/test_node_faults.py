"""Controllers that answer garbage, hang, reset and restart, before any node (ADR 0018).

Whatever they do: it is in the log, other slots go on, and no score is told of another job. The last is looked
at by `World.check` at the end of every test: each clip has a score of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.node_harness import Stage
from tests.node_world import REFERENCE
from vmafx.adapters.fakes.controller_calls import NodeCall
from vmafx.adapters.fakes.controller_faults import Delay, Fail, Fault, Hang, LoseAnswer, Substitute
from vmafx.app.node import events
from vmafx.domain.job import JobId, JobStatus
from vmafx.domain.retry import Call, StatusCode
from vmafx.domain.scoring import Failure
from vmafx.ports.controller import Assignment, HeartbeatAnswer

MIB = 2**20
FAULTS = {
    "fails": Fail(code=StatusCode.INTERNAL, message="reset"),
    "away": Fail(),
    "answer lost": LoseAnswer(),
    "hangs": Hang(),
    "hangs with the answer": Hang(answered=True),
    "is slow": Delay(before_s=4, after_s=4),
}
CALLS = 24
"""How many calls, from the first, something happens at."""


def assignment(job_id: str = "x", **asked: object) -> Assignment:
    usual = {
        "reference": REFERENCE,
        "distorted": "/clips/x.y4m",
        "model": "",
        "backend": "",
        "scoring_roots": ("/clips",),
    }
    return Assignment(job_id=JobId(job_id), attempt=None, **{**usual, **asked})


# ---------------------------------------------------------------- garbage


@pytest.mark.parametrize(
    "job_id", ["", "x" * (3 * MIB), "x" * 257, "ü" * 129], ids=["empty", "3 MiB", "257", "258"]
)
async def test_an_id_that_cannot_be_listed_is_refused_and_other_slots_go_on(stage, job_id):
    def before(it):
        it.wire.cue(Call.PULL, *[Substitute(answer=assignment(job_id))] * 3)

    async with stage(slots=2, before=before) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        await it.advance(20)
        refused = it.world.told(events.JOB_REFUSED)
        assert len(refused) == 3
        assert {told.fields["bytes"] for told in refused} == {len(job_id.encode())}
        assert all(len(told.fields["job_id"]) <= 512 for told in refused)
        assert [call.job_id for call in it.reports()] == [job]
        assert it.world.status(job) is JobStatus.COMPLETED


@pytest.mark.parametrize(
    "job_id", ["a/b", "..", "../../etc/passwd", "a\0b", "a\nb", "\x1b[31mred", "ü" * 128, " ", "job-1 "]
)
async def test_an_id_is_opaque(stage, job_id):
    async with stage(slots=2, takes_s=15) as it:
        job = it.world.submit("odd", job_id=job_id)
        other = it.world.submit("a")
        await it.until_ended(job, other)
        assert it.world.status(job) is it.world.status(other) is JobStatus.COMPLETED
        assert any(job_id in beat.heartbeat.listed for beat in it.world.beats())
        assert [call.job_id for call in it.reports(job_id)] == [job_id]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"reference": "", "distorted": ""}, "unknown job type"),
        ({"distorted": ""}, "unknown job type"),
        ({"reference": ""}, "unknown job type"),
        ({"distorted": "", "model": "nr.onnx"}, "requires Stage 2 input transport"),
        ({"backend": "vulkan"}, 'backend "vulkan" was asked for'),
        ({"backend": "cuda"}, 'backend "cuda" was asked for'),
        ({"scoring_roots": ()}, "root"),
        ({"scoring_roots": tuple(f"/nowhere/{number}" for number in range(10_000))}, "root"),
        ({"scoring_roots": ("",)}, "root"),
        ({"scoring_roots": ("/clips\0",)}, "root"),
        ({"distorted": "/clips/../etc/passwd"}, "root"),
        ({"distorted": "/clips/x\0.y4m"}, ""),
        ({"distorted": "--help"}, ""),
        ({"reference": "/clips/" + "x" * MIB}, ""),
        ({"model": "m" * MIB, "reference": "", "distorted": ""}, "unknown job type"),
    ],
    ids=["no scoring block", "no second clip", "no reference", "AI", "unknown backend", "other backend",
         "no roots", "10 000 roots", "empty root", "NUL in a root", "outside", "NUL in a clip", "an option",
         "1 MiB clip", "1 MiB model"],
)  # fmt: skip
async def test_a_job_that_makes_no_sense_fails_alone(stage, asked, words):
    def before(it):
        it.wire.cue(Call.PULL, Substitute(answer=assignment("nonsense", **asked)))

    async with stage(slots=2, before=before) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED
        report = it.reports("nonsense")[0]
        assert isinstance(report.report.content, Failure)
        assert words in report.report.content.error
        assert len(report.report.content.error.encode()) <= 4096
        assert [request.job_id for request in it.scorer.requests] == [job]


async def test_a_flood_of_cancels_stops_nothing_else(stage):
    flood = tuple(JobId(f"nobody's {number}") for number in range(50_000))

    def before(it):
        it.wire.cue(Call.HEARTBEAT, Substitute(answer=HeartbeatAnswer(ok=True, cancel_job_ids=flood)))

    async with stage(takes_s=15, before=before) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        assert it.world.status(job) is JobStatus.COMPLETED


async def test_one_id_with_other_clips_has_their_own_scores(stage):
    def before(it):
        it.wire.cue(Call.PULL, Substitute(answer=assignment("x", distorted="/clips/a.y4m")))

    async with stage(slots=2, takes_s=8, before=before) as it:
        await it.until(lambda: it.scorer.running == 1)
        it.wire.cue(Call.PULL, Substitute(answer=assignment("x", distorted="/clips/b.y4m")))
        await it.until(lambda: len(it.scorer.ended) == 2)
        await it.advance(5)
        assert it.scorer.running_max == 1
        names = [run.request.distorted.name for run in it.scorer.ended]
        assert names == ["/clips/a.y4m", "/clips/b.y4m"]
        told = dict.fromkeys(call.report.content.score for call in it.reports("x"))
        assert list(told) == [run.outcome.score for run in it.scorer.ended]


@pytest.mark.parametrize("call", Call, ids=lambda call: call.value)
@pytest.mark.parametrize(
    "answer", [b"\xff" * 100, b"<html>", b"\x0a\xff\xff\xff\xff\x0f"], ids=["noise", "html", "torn"]
)
async def test_an_answer_that_cannot_be_read_is_a_call_that_failed(wire_stage, call, answer):
    def before(it):
        it.line.garble(call, answer)

    async with wire_stage(slots=2, takes_s=25, before=before) as it:
        jobs = [it.world.submit("a"), it.world.submit("b")]
        await it.until_ended(*jobs)
        await it.advance(15)
        assert {it.world.status(job) for job in jobs} == {JobStatus.COMPLETED}
        message = {
            Call.REGISTER: events.REGISTER_FAILED,
            Call.HEARTBEAT: events.HEARTBEAT_FAILED,
            Call.PULL: events.PULL_FAILED,
            Call.REPORT: events.REPORT_FAILED,
        }[call]
        assert len(it.world.told(message)) == 1


async def test_an_answer_above_the_limit_of_messages_is_a_call_that_failed(wire_stage):
    def before(it):
        it.wire.cue(Call.PULL, Substitute(answer=assignment("x" * (5 * MIB))))

    async with wire_stage(slots=2, before=before) as it:
        job = it.world.submit("a")
        await it.until_ended(job)
        (told,) = it.world.told(events.PULL_FAILED)
        assert told.fields["code"] == "RESOURCE_EXHAUSTED"


# ---------------------------------------------------------------- hanging, resetting, restarting


class AtCall:
    """Something happens to a stage right before the call of a number, from 1."""

    def __init__(self, number: int, happening: Callable[[Stage], Fault | None]) -> None:
        self._number = number
        self._happening = happening
        self._seen = 0
        self._stage: Stage | None = None

    def on(self, stage: Stage) -> None:
        self._stage = stage

    def __call__(self, _call: NodeCall) -> Fault | None:
        self._seen += 1
        assert self._stage is not None
        return self._happening(self._stage) if self._seen == self._number else None

    @property
    def happened(self) -> bool:
        return self._seen >= self._number


async def story(it: Stage, at: AtCall) -> None:
    """Three jobs on two slots, and one more when it has happened; they end whatever it was."""
    jobs = []
    for clip in "abc":
        jobs.append(it.world.submit(clip))
        await it.advance(11)
    await it.until(lambda: at.happened)
    jobs.append(it.world.submit("d"))
    await it.until_ended(*jobs)
    assert {it.world.status(job) for job in jobs} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("number", range(1, CALLS + 1))
@pytest.mark.parametrize("jobs_lost", [True, False], ids=["jobs lost", "jobs kept"])
async def test_a_restart_between_any_two_calls_loses_nothing(stage, jobs_lost, number):
    at = AtCall(number, lambda it: it.restart(jobs_lost=jobs_lost))
    async with stage(slots=2, takes_s=17, rule=at, before=at.on) as it:
        await story(it, at)


@pytest.mark.parametrize("number", range(1, CALLS + 1))
async def test_a_connection_that_is_reset_at_any_call_loses_nothing(wire_stage, number):
    at = AtCall(number, Stage.reset)
    async with wire_stage(slots=2, takes_s=17, rule=at, before=at.on) as it:
        await story(it, at)
        assert len(it.scorer.requests) == 4
        assert {call.session.node_id for call in it.reports()} == {it.reports()[0].session.node_id}


@pytest.mark.parametrize("number", range(1, CALLS + 1))
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_any_one_call_loses_nothing(stage, fault, number):
    at = AtCall(number, lambda _: fault)
    async with stage(slots=2, takes_s=17, rule=at, before=at.on) as it:
        await story(it, at)


@pytest.mark.parametrize("kind", [Call.HEARTBEAT, Call.PULL])
async def test_one_slot_goes_on_while_calls_hang(stage, kind):
    def before(it):
        it.wire.cue(kind, Hang(), Hang(), Hang())

    async with stage(slots=4, takes_s=5, before=before) as it:
        jobs = [it.world.submit(clip) for clip in "abc"]
        await it.until_ended(*jobs)
        assert it.clock.monotonic() < 40


async def test_a_controller_that_always_hangs_is_not_hammered(stage):
    async with stage(slots=2, takes_s=5) as it:
        await it.advance(1)
        asked = len(it.wire.received)
        for kind in Call:
            it.wire.cue(kind, *[Hang()] * 1000)
        await it.advance(600)
        assert len(it.wire.received) - asked < 2 * 600 / 10 + 600 / 10 + 10


async def test_connections_that_are_reset_cost_no_job(wire_stage):
    async with wire_stage(slots=2, takes_s=20) as it:
        jobs = [it.world.submit(clip) for clip in "abcdef"]
        for _ in range(10):
            await it.advance(5)
            await it.kill()
            await it.revive()
        await it.until_ended(*jobs)
        assert {it.world.status(job) for job in jobs} == {JobStatus.COMPLETED}
        assert len(it.world.registers()) == 1
        assert it.scorer.running_max == 2
        assert len(it.scorer.requests) == len(jobs)


async def test_a_reset_connection_ends_calls_that_hang(wire_stage):
    async with wire_stage() as it:
        await it.advance(1)
        it.wire.cue(Call.HEARTBEAT, Hang())
        await it.until(lambda: it.wire.hanging == 1)
        await it.kill()
        await it.revive()
        await it.at_rest()
        assert it.wire.hanging == 0
        assert len(it.world.told(events.HEARTBEAT_FAILED)) == 1
        assert it.clock.monotonic() == it.world.beats()[0].at_s
