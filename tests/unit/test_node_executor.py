"""The executor: kinds of jobs, the order of its steps, and how each of them fails (ADR 0018)."""

from __future__ import annotations

import json
import logging

import pytest

from vmafx.adapters.fakes.scorer import FakeRun, FakeScorer
from vmafx.adapters.fakes.sources import FakeSource, FakeSources
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.telemetry.program import open_log
from vmafx.app.node import events
from vmafx.app.node.events import EventLog
from vmafx.app.node.executor import Executor, JobKind
from vmafx.app.node.jobs import Pulled
from vmafx.domain.errors import ClipError, NotFiniteError, SourceError
from vmafx.domain.job import JobId, JobResult, SessionId
from vmafx.domain.scoring import Backend, ClipFile, Failure, Retry
from vmafx.ports.controller import Assignment
from vmafx.ports.telemetry import Level

pytestmark = pytest.mark.virtual_time

REF, DIS = "/clips/r.y4m", "https://cdn.example/d.y4m?sig=hush"
ROOTS = ("/clips", "https://cdn.example/")


class Bench:
    """An executor on fakes."""

    def __init__(self, clock, backend=Backend.CPU, telemetry=None):
        self.scorer = FakeScorer(clock, lambda _: FakeRun(score=88.5), backend=backend)
        self.sources = FakeSources(clock, lambda _: FakeSource(takes_s=2))
        self.telemetry = telemetry or RecordingTelemetry()
        self.executor = Executor(
            backend=backend,
            scorer=self.scorer,
            sources=self.sources,
            telemetry=self.telemetry,
            log=EventLog(self.telemetry),
        )

    async def run(self, job_id="j1", **asked):
        asked = {"reference": REF, "distorted": DIS, "scoring_roots": ROOTS, **asked}
        assignment = Assignment(job_id=JobId(job_id), **asked)
        outcome = await self.executor.execute(Pulled(assignment=assignment, node_id=SessionId("s1")))
        self.sources.assert_balanced()
        self.telemetry.assert_no_misuse()
        return outcome


async def test_a_pair_is_scored_on_the_node_s_backend_with_the_default_model(clock):
    it = Bench(clock, Backend.CUDA)
    assert await it.run() == JobResult(score=88.5, features={"vmaf": 88.5})
    (request,) = it.scorer.requests
    assert (request.model, request.backend, request.job_id) == (None, Backend.CUDA, "j1")
    assert isinstance(request.reference, ClipFile)
    assert (request.reference.name, request.distorted.name) == (REF, "https://cdn.example/d.y4m")


async def test_the_asked_model_and_backend_are_passed_on(clock):
    it = Bench(clock)
    await it.run(model="vmaf_4k_v0.6.1", backend="cpu")
    assert it.scorer.requests[0].model == "vmaf_4k_v0.6.1"


@pytest.mark.parametrize(
    ("asked", "kind", "text"),
    [
        ({"distorted": "", "model": "m"}, JobKind.AI, None),
        ({"distorted": ""}, JobKind.UNKNOWN, "executor: unknown job type for job j1"),
        ({"reference": ""}, JobKind.UNKNOWN, "executor: unknown job type for job j1"),
        ({"reference": "", "distorted": "", "model": "m"}, JobKind.UNKNOWN, None),
    ],
)
async def test_what_is_no_pair_fails_by_its_kind(clock, asked, kind, text):
    it = Bench(clock)
    outcome = await it.run(**asked)
    if kind is JobKind.AI:
        text = "executor: AI job j1 requires Stage 2 input transport (model=m)"
    assert outcome == Failure(error=text or "executor: unknown job type for job j1")
    assert it.telemetry.events_of(events.EXECUTING)[0].fields["type"] == kind.value
    assert it.sources.resolved_texts == []


@pytest.mark.parametrize("backend", ["cuda", "CPU", "quantum", " "])
async def test_another_backend_fails_naming_both(clock, backend):
    it = Bench(clock)
    outcome = await it.run(backend=backend)
    assert f'"{backend}"' in outcome.error
    assert '"cpu"' in outcome.error
    assert it.sources.resolved_texts == []


@pytest.mark.parametrize("which", ["reference", "distorted"])
@pytest.mark.parametrize(
    "text", ["/etc/shadow", "relative", "/clips/../etc/shadow", "https://evil.example/x"]
)
async def test_nothing_is_touched_before_both_inputs_are_admitted(clock, which, text):
    it = Bench(clock)
    outcome = await it.run(**{which: text})
    assert outcome.error.startswith('executor: score job j1: scoring input "')
    assert outcome.error.endswith("outside the tenant's scoring roots")
    assert it.sources.resolved_texts == it.sources.prepared_texts == []
    assert it.scorer.requests == []


async def test_a_link_out_of_the_roots_fails_before_anything_is_prepared(clock):
    it = Bench(clock)
    it.sources.add("/clips/link.y4m", FakeSource(real_path="/etc/shadow"))
    outcome = await it.run(distorted="/clips/link.y4m")
    assert "/etc/shadow" in outcome.error
    assert it.sources.prepared_texts == []


async def test_malformed_roots_name_their_origin(clock):
    outcome = await Bench(clock).run(scoring_roots=("relative",))
    assert outcome.error.startswith("executor: score job j1: scoring roots from the controller: ")
    outcome = await Bench(clock).run(scoring_roots=("/x",) * 10_000)
    assert "10000 entries, at most 32" in outcome.error


async def test_the_first_clip_is_given_back_when_the_second_fails(clock):
    it = Bench(clock)
    it.sources.add(DIS, FakeSource(error=SourceError("d", "gone", machine_fault=True)))
    outcome = await it.run()
    assert outcome == Failure(error="executor: score job j1: gone", retry=Retry.ELSEWHERE)
    assert it.sources.released_texts == [REF]


async def test_a_clip_that_changed_while_it_was_scored_has_no_score(clock):
    it = Bench(clock)
    it.sources.add(REF, FakeSource(breaks=ClipError(REF, "changed while it was read")))
    assert await it.run() == Failure(error="executor: score job j1: changed while it was read")


async def test_a_stream_that_stalls_ends_the_run(clock):
    it = Bench(clock)
    it.scorer.cue(FakeRun(takes_s=1e6))
    it.sources.add(DIS, FakeSource(breaks=SourceError(DIS, "no byte for 60 s"), breaks_after_s=60))
    assert (await it.run()).error == "executor: score job j1: no byte for 60 s"
    assert it.scorer.running == 0


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
async def test_a_score_that_is_not_finite_is_none(clock, score):
    it = Bench(clock)
    it.scorer.cue(FakeRun(score=score))
    assert await it.run() == Failure(error="executor returned a non-finite value for score")


async def test_a_feature_that_is_not_finite_is_named(clock):
    it = Bench(clock)
    it.scorer.cue(FakeRun(error=NotFiniteError("feature motion2", None)))
    assert (await it.run()).error == "executor returned a non-finite value for feature motion2"


async def test_a_scorer_that_answers_what_is_no_result_fails_the_job(clock):
    it = Bench(clock)

    async def nonsense(_request, *, progress=None):
        return object()

    it.scorer.score = nonsense
    assert (await it.run()).error.startswith("executor: score job j1: AttributeError: ")


async def test_spans_carry_job_session_model_and_backend(clock):
    it = Bench(clock)
    await it.run(model="vmaf_v0.6.1")
    inner, outer = it.telemetry.spans
    assert (inner.name, inner.inside) == ("vmafx.frame.extraction", ("vmafx.scoring",))
    assert (outer.name, outer.inside) == ("vmafx.scoring", ())
    for span in (inner, outer):
        assert span.fields == {
            "job_id": "j1",
            "node_id": "s1",
            "model": "vmaf_v0.6.1",
            "backend": "cpu",
        }


async def test_the_log_shows_inputs_without_their_secrets(clock):
    it = Bench(clock)
    await it.run()
    assert it.telemetry.events_of(events.SCORING)[0].fields == {
        "job_id": "j1",
        "node_id": "s1",
        "ref": REF,
        "dis": "https://cdn.example/d.y4m",
        "model": "",
        "backend": "cpu",
    }
    assert "hush" not in repr(it.telemetry.events)


async def test_what_the_scorer_logs_during_a_job_names_the_job_and_its_session(clock, tmp_path):
    path = tmp_path / "log"
    with path.open("ab") as file, open_log(file.fileno(), clock=clock) as telemetry:
        it = Bench(clock, telemetry=telemetry)
        score = it.scorer.score

        async def talks(request, *, progress=None):
            telemetry.event(Level.WARN, "a word of the scorer")
            logging.getLogger("vmafx.library").warning("a word of a library")
            return await score(request, progress=progress)

        it.scorer.score = talks
        pulled = Pulled(
            assignment=Assignment(job_id=JobId("j1"), reference=REF, distorted=DIS, scoring_roots=ROOTS),
            node_id=SessionId("s1"),
        )
        assert isinstance(await it.executor.execute(pulled), JobResult)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    words = [line for line in lines if "word" in line["msg"]]
    assert len(words) == 2
    assert all((line["job_id"], line["node_id"]) == ("j1", "s1") for line in lines)


async def test_megabytes_of_a_model_are_not_told(clock):
    it = Bench(clock)
    await it.run(model="m" * (3 << 20))
    assert it.scorer.requests[0].model == "m" * (3 << 20)
    told = [*it.telemetry.events, *it.telemetry.spans]
    assert all(len(str(value).encode()) <= 1024 for each in told for value in each.fields.values())
