"""Messages of clients and the values of `Jobs`, both ways (ADR 0016)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.grpc import codec_jobs as codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.domain.errors import ControllerError, JobNotFoundError
from vmafx.domain.job import JobId, JobSpec, JobStatus, NodeName
from vmafx.domain.scoring import Backend
from vmafx.ports.jobs import CancelAnswer, JobView

KEY = "vmafx-idempotency-key"
texts = st.text(max_size=50)
plain_texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=50)
specs = st.builds(
    JobSpec,
    reference=texts.filter(bool),
    distorted=texts.filter(bool),
    model=st.none() | plain_texts.filter(bool),
    backend=st.none() | st.sampled_from(Backend),
)
instants = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 -- hypothesis adds the zone
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
)
views = st.builds(
    JobView,
    id=texts.map(JobId),
    status=st.sampled_from(JobStatus),
    spec=st.none() | specs,
    created_at=instants,
    updated_at=instants,
    assigned_node=st.none() | texts.filter(bool).map(NodeName),
    score=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    error=texts,
)


def sent(message):
    """The message as the other side reads it."""
    return type(message).FromString(message.SerializeToString())


def refused(problem: str) -> pytest.RaisesExc[ControllerError]:
    return pytest.raises(
        ControllerError, check=lambda error: (error.code, error.message) == ("INVALID_ARGUMENT", problem)
    )


def submission(**fields: str) -> pb.SubmitJobRequest:
    told = {"reference": "/a", "distorted": "/b"} | fields
    return sent(pb.SubmitJobRequest(scoring=pb.ScoringParams(**told)))


# ---------------------------------------------------------------- requests


@given(specs)
def test_a_submission_arrives_as_it_was_sent(spec: JobSpec) -> None:
    request = submission(
        reference=spec.reference,
        distorted=spec.distorted,
        model=spec.model or "",
        backend=spec.backend.value if spec.backend else "",
    )
    assert codec.spec_from(request) == spec


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (pb.SubmitJobRequest(), "scoring params are required"),
        (submission(reference=""), "reference and distorted paths are required"),
        (submission(distorted="", backend="tpu"), "reference and distorted paths are required"),
        (submission(backend="CPU"), 'backend "CPU" is none of cpu, cuda, hip, sycl, metal'),
        (submission(backend=" "), 'backend " " is none of cpu, cuda, hip, sycl, metal'),
        (submission(reference="r" * 8193), "reference has 8193 bytes, at most 8192 are accepted"),
        (submission(distorted="é" * 4097), "distorted has 8194 bytes, at most 8192 are accepted"),
        (submission(model="m" * 1025), "model has 1025 bytes, at most 1024 are accepted"),
    ],
)
def test_a_bad_submission_is_refused_by_what_is_wrong(request_: pb.SubmitJobRequest, problem: str) -> None:
    with refused(problem):
        codec.spec_from(request_)


def test_the_longest_fields_are_taken() -> None:
    spec = codec.spec_from(submission(reference="r" * 8192, distorted="é" * 4096, model="m" * 1024))
    assert (len(spec.reference), len(spec.distorted), len(spec.model or "")) == (8192, 4096, 1024)


def test_a_backend_is_shown_bounded_and_printable() -> None:
    with pytest.raises(ControllerError) as error:
        codec.spec_from(submission(backend="\x1b" + "x" * 100_000))
    assert error.value.message.startswith('backend "\\x1bx')
    assert len(error.value.message) < 1200


@pytest.mark.parametrize("key", ["k", "k" * 256, "two-words", "~!{}"])
def test_a_key_is_visible_ascii(key: str) -> None:
    assert codec.idempotency_key_from([("other", "x"), (KEY, key)]) == key


def test_a_submission_needs_no_key() -> None:
    assert codec.idempotency_key_from([("other", "x")]) is None


@pytest.mark.parametrize(
    "values",
    [
        [""],
        [" "],
        [" k"],
        ["k "],
        ["k k"],
        ["k" * 257],
        ["é"],
        ["a\tb"],
        [b"k"],
        ["k", "k"],
        ["k", ""],
        ["k", b"k"],
    ],
)
def test_a_key_that_is_none_is_refused(values: list[str | bytes]) -> None:
    with refused(f"{KEY} must be given once, as 1 to 256 visible ASCII characters"):
        codec.idempotency_key_from((KEY, value) for value in values)


def test_a_model_that_nobody_can_read_is_refused() -> None:
    scoring = pb.ScoringParams(reference="/r", distorted="/d", model="vmaf\x00")
    with refused("model holds a control character"):
        codec.spec_from(pb.SubmitJobRequest(scoring=scoring))


def test_a_job_is_named_by_at_most_256_bytes() -> None:
    assert codec.job_id_from(pb.GetJobRequest(job_id="é" * 128)) == "é" * 128
    assert codec.job_id_from(pb.CancelJobRequest(job_id="\x01\n")) == "\x01\n"
    with pytest.raises(JobNotFoundError):
        codec.job_id_from(pb.CancelJobRequest(job_id="é" * 128 + "j"))
    with pytest.raises(JobNotFoundError):  # no id has a NUL, and some stores cannot look one up
        codec.job_id_from(pb.CancelJobRequest(job_id="a\x00b"))
    with refused("job_id is required"):
        codec.job_id_from(pb.GetJobRequest())


@given(st.lists(st.integers(min_value=-(2**31), max_value=2**31 - 1), max_size=8))
def test_a_filter_holds_what_is_known_and_pending_for_what_is_not(numbers: list[int]) -> None:
    request = sent(pb.StreamJobsRequest(status_filter=numbers))
    known = list(JobStatus)  # in the order of their numbers
    expected = {known[number] if 0 <= number < len(known) else JobStatus.PENDING for number in numbers}
    assert codec.statuses_from(request) == expected


@pytest.mark.parametrize(
    ("values", "follows"),
    [(["true"], True), ([], False), (["false"], False), (["True"], False), (["true", "true"], False)],
)
def test_a_wish_to_follow_is_one_word(values: list[str], follows: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    assert codec.follows([("vmafx-follow", value) for value in values]) is follows


# ---------------------------------------------------------------- answers


@given(views)
def test_a_job_is_shown_as_it_is(view: JobView) -> None:
    message = sent(codec.job_message(view))
    assert message.id == view.id
    assert pb.JobStatus.Name(message.status) == view.status.name
    assert message.HasField("scoring") is (view.spec is not None)
    assert message.assigned_node == (view.assigned_node or "")
    assert message.error == view.error
    assert message.final_score == (view.score or 0.0)
    assert list(message.partial_results) == list(message.scoring_roots) == []
    for seconds, instant in ((message.created_at, view.created_at), (message.updated_at, view.updated_at)):
        begun = instant.replace(microsecond=0)
        assert datetime.fromtimestamp(seconds, tz=UTC) == begun
    if view.spec is not None:
        assert codec.spec_from(pb.SubmitJobRequest(scoring=message.scoring)) == view.spec


def test_a_job_that_the_wire_cannot_carry_is_our_own_trouble() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    view = JobView(
        id=JobId("j"), status=JobStatus.FAILED, spec=None, created_at=now, updated_at=now, error="\udc80"
    )
    with pytest.raises(ControllerError, check=lambda error: error.code == "INTERNAL") as refusal:
        codec.job_message(view)
    assert "udc80" not in str(refusal.value)


def test_an_answer_to_a_cancel_is_carried_as_it_is() -> None:
    answer = codec.cancel_response(CancelAnswer(ok=True, message="job is already completed"))
    assert answer == pb.CancelJobResponse(ok=True, message="job is already completed")
