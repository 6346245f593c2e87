"""What goes through the wire comes out as it went in, or is refused by name (ADR 0016)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.grpc import codec
from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.domain.errors import ControllerError
from vmafx.domain.job import ID_BYTES_MAX, JobId, JobResult, NodeName, SessionId, node_name_problem
from vmafx.domain.lease import Heartbeat, Sight
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Partial, Report
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

SECRET = "s3cret-of-the-session"
SESSION = Session(generation=7, node_id=SessionId("node-1"), session_token=SECRET)

texts = st.text()  # NUL, newlines and emoji among them; no lone surrogates
ids = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(min_value=-(2**31), max_value=2**31 - 1)
slots = st.integers(min_value=0, max_value=2**31 - 1)
attempts = st.none() | st.integers(min_value=1, max_value=codec.ATTEMPT_MAX)
plain_texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60)  # 4 bytes each at most
capabilities = st.builds(
    Capability, backends=st.frozensets(st.sampled_from(Backend)), gpu_vendor=plain_texts, concurrency=slots
)
names = texts.filter(bool)
instances = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=256)
identities = st.builds(NodeIdentity, name=names.map(NodeName), instance=st.none() | instances.map(InstanceId))
sessions = st.builds(Session, generation=st.just(0), node_id=ids.map(SessionId), session_token=texts)
job_ids = st.lists(ids.map(JobId), max_size=64).map(tuple)
heartbeats = st.builds(Heartbeat, jobs_running=counts, listed=job_ids)
failures = st.builds(
    Failure,
    error=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=200),
    retry=st.sampled_from(Retry),
)
contents = (
    st.builds(
        JobResult, score=numbers, features=st.dictionaries(plain_texts.filter(bool), numbers, max_size=8)
    )
    | failures
    | st.builds(Partial, scores=st.lists(numbers, max_size=8).map(tuple))
)
reports = st.builds(Report, content=contents, attempt=attempts)
assignments = st.builds(
    Assignment,
    job_id=texts.map(JobId),
    reference=texts,
    distorted=texts,
    model=texts,
    backend=texts,
    scoring_roots=st.lists(texts, max_size=5).map(tuple),
    attempt=attempts,
)


def sent(message):
    """The message as the other side reads it."""
    return type(message).FromString(message.SerializeToString())


# ---------------------------------------------------------------- there and back


@given(identities, capabilities)
def test_a_registration_arrives_as_it_was_sent(identity: NodeIdentity, capability: Capability) -> None:
    request = sent(codec.register_request(identity, capability))
    assert codec.identity_from(request, codec.register_metadata(identity)) == identity
    assert codec.capability_from(request.capability) == capability


@given(texts, texts)
def test_what_a_registration_opened_arrives_as_it_was_sent(node_id: str, token: str) -> None:
    registration = Registration(node_id=SessionId(node_id), session_token=token)
    assert codec.registration_from(sent(codec.register_response(registration))) == registration


@given(sessions, heartbeats)
def test_a_heartbeat_arrives_as_it_was_sent(session: Session, heartbeat: Heartbeat) -> None:
    request = sent(codec.heartbeat_request(session, heartbeat))
    assert codec.session_from(request) == session
    assert codec.heartbeat_from(request) == heartbeat


@given(st.booleans(), job_ids)
def test_the_answer_to_a_heartbeat_arrives_as_it_was_sent(ok: bool, cancelled: tuple[JobId, ...]) -> None:  # noqa: FBT001 -- drawn
    answer = HeartbeatAnswer(ok=ok, cancel_job_ids=cancelled)
    assert codec.heartbeat_answer_from(sent(codec.heartbeat_response(answer))) == answer


@given(sessions, capabilities)
def test_a_pull_arrives_as_it_was_sent(session: Session, capability: Capability) -> None:
    request = sent(codec.pull_request(session, capability))
    assert codec.session_from(request) == session
    assert codec.capability_from(request.capability) == capability


@given(st.none() | assignments)
def test_an_assignment_arrives_as_it_was_sent(assignment: Assignment | None) -> None:
    response = sent(codec.pull_response(assignment))
    assert codec.assignment_from(response, codec.pull_metadata(assignment)) == assignment


@given(sessions, texts.map(JobId), reports)
def test_a_report_arrives_as_it_was_sent(session: Session, job_id: JobId, report: Report) -> None:
    request = sent(codec.report_request(session, job_id, report))
    assert codec.session_from(request) == session
    assert request.job_id == job_id
    assert codec.report_from(request, codec.report_metadata(report)) == report


def test_a_score_arrives_to_the_last_bit() -> None:
    score = math.nextafter(76.66890519623612, 100)
    report = Report(content=JobResult(score=score, features={"vmaf": score}))
    assert codec.report_from(sent(codec.report_request(SESSION, JobId("j"), report)), ()) == report


# ---------------------------------------------------------------- exact requests


def test_a_success_is_final_and_a_score_without_an_error() -> None:
    report = Report(content=JobResult(score=90.5, features={"vmaf": 90.5}), attempt=3)
    assert codec.report_request(SESSION, JobId("job"), report) == pb.ReportResultRequest(
        node_id="node-1", session_token=SECRET, job_id="job", final=True, score=90.5, features={"vmaf": 90.5}
    )
    assert codec.report_metadata(report) == (("vmafx-attempt", "3"),)


@pytest.mark.parametrize(
    ("retry", "told"),
    [
        (Retry.NO, ()),
        (Retry.ELSEWHERE, (("vmafx-retryable", "true"),)),
        (Retry.AT_ONCE, (("vmafx-retryable", "shutdown"),)),
    ],
)
def test_a_failure_is_final_and_an_error_without_a_score(retry: Retry, told: codec.Metadata) -> None:
    report = Report(content=Failure(error="no such clip", retry=retry))
    assert codec.report_request(SESSION, JobId("job"), report) == pb.ReportResultRequest(
        node_id="node-1", session_token=SECRET, job_id="job", final=True, error="no such clip"
    )
    assert codec.report_metadata(report) == told


def test_backends_are_sent_in_one_order() -> None:
    capability = Capability(backends=frozenset(Backend))
    backends = codec.pull_request(SESSION, capability).capability.backends
    assert list(backends) == ["cpu", "cuda", "hip", "metal", "sycl"]


def test_an_assignment_runs_on_the_wire() -> None:
    assert codec.pull_response(Assignment(job_id=JobId("j"))).job.status == pb.RUNNING


# ---------------------------------------------------------------- strange answers


def test_an_answer_without_a_job_is_none() -> None:
    assert codec.assignment_from(pb.PullWorkResponse(), (("vmafx-attempt", "1"),)) is None


def test_a_job_without_anything_is_an_assignment_without_anything() -> None:
    response = pb.PullWorkResponse(job=pb.Job())
    assert codec.assignment_from(response, ()) == Assignment(job_id=JobId(""))


@pytest.mark.parametrize("job_id", ["../../etc", "a/b", "a\x00b", "a\nb", "\u202eabc", "x" * 5000])
def test_ids_pass_as_they_are(job_id: str) -> None:
    response = sent(pb.PullWorkResponse(job=pb.Job(id=job_id)))
    assignment = codec.assignment_from(response, ())
    assert assignment is not None
    assert assignment.job_id == job_id


# ---------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("vmafx-attempt", "0"),),
        (("vmafx-attempt", "-1"),),
        (("vmafx-attempt", "+1"),),
        (("vmafx-attempt", " 1"),),
        (("vmafx-attempt", "01"),),
        (("vmafx-attempt", "1.0"),),
        (("vmafx-attempt", "\u0661"),),
        (("vmafx-attempt", "1\n"),),
        (("vmafx-attempt", ""),),
        (("vmafx-attempt", "2147483648"),),
        (("vmafx-attempt", "9" * 5000),),
        (("vmafx-attempt", b"1"),),
        (("vmafx-attempt", "1"), ("vmafx-attempt", "2")),
        (("vmafx-attempts", "1"),),
    ],
    ids=lambda metadata: repr(metadata)[:40],
)
def test_an_attempt_that_is_none_is_not_there(metadata: codec.ReceivedMetadata) -> None:
    assignment = codec.assignment_from(pb.PullWorkResponse(job=pb.Job(id="j")), metadata)
    assert assignment is not None
    assert assignment.attempt is None


def test_the_largest_attempt_is_understood() -> None:
    metadata = (("other-bin", b"\xff"), ("vmafx-attempt", "2147483647"))
    report = codec.report_from(pb.ReportResultRequest(final=True), metadata)
    assert report.attempt == codec.ATTEMPT_MAX


@pytest.mark.parametrize("value", ["", "True", "yes", "1", "shutdown ", "true,true", b"true"])
def test_a_word_that_is_none_makes_no_failure_retryable(value: str | bytes) -> None:
    request = pb.ReportResultRequest(final=True, error="broken")
    report = codec.report_from(request, (("vmafx-retryable", value),))
    assert report.content == Failure(error="broken", retry=Retry.NO)


def test_metadata_may_be_read_once() -> None:
    metadata = iter((("vmafx-retryable", "true"), ("vmafx-attempt", "4")))
    report = codec.report_from(pb.ReportResultRequest(final=True, error="broken"), metadata)
    assert report == Report(content=Failure(error="broken", retry=Retry.ELSEWHERE), attempt=4)


@pytest.mark.parametrize("instance", ["", "a\nb", "ä", "x" * 257, " x", "x ", "a b"])
def test_an_instance_that_is_none_is_not_there_and_never_sent(instance: str) -> None:
    told = codec.identity_from(pb.RegisterNodeRequest(name="n"), (("vmafx-instance", instance),))
    assert told == NodeIdentity(name=NodeName("n"))
    with refused("INVALID_ARGUMENT", "the instance must be 1 to 256 visible ASCII characters"):
        codec.register_metadata(NodeIdentity(name=NodeName("n"), instance=InstanceId(instance)))


# ---------------------------------------------------------------- requests that are refused or made fit


def test_a_capability_that_is_absent_is_empty() -> None:
    assert codec.capability_from(pb.RegisterNodeRequest(name="n").capability) == Capability()


def test_backends_that_are_none_are_passed_over() -> None:
    told = pb.NodeCapability(backends=["cpu", "CPU", "quantum", "", "cuda", "cpu"])
    assert codec.capability_from(told).backends == {Backend.CPU, Backend.CUDA}


def test_too_many_backends_are_refused() -> None:
    assert codec.capability_from(pb.NodeCapability(backends=["cpu"] * 16)).backends == {Backend.CPU}
    with refused("INVALID_ARGUMENT", "capability lists 17 backends, at most 16 are accepted"):
        codec.capability_from(pb.NodeCapability(backends=["cpu"] * 17))


@pytest.mark.parametrize("letter", ["j", "é"])
def test_an_id_that_is_too_long_is_cut_to_one_that_is_nobodys(letter: str) -> None:
    longest = letter * (256 // len(letter.encode()))
    for fits in ("", "j", longest):
        beat = pb.HeartbeatRequest(node_id=fits, running_job_ids=[fits, "j"])
        assert codec.session_from(beat).node_id == fits
        assert codec.heartbeat_from(beat).listed == (fits, "j")
        assert codec.reported_job_from(pb.ReportResultRequest(job_id=fits)) == fits
    long = letter * 100_000
    beat = pb.HeartbeatRequest(node_id=long, running_job_ids=[long, "j"], jobs_running=2)
    cut = codec.reported_job_from(pb.ReportResultRequest(job_id=long))
    assert codec.session_from(beat).node_id == cut
    assert codec.heartbeat_from(beat) == Heartbeat(jobs_running=2, listed=(cut, JobId("j")))
    assert ID_BYTES_MAX < len(cut.encode()) < 2000


def test_a_count_below_0_agrees_with_no_list() -> None:
    for listed in ([], ["job-1"]):
        beat = codec.heartbeat_from(pb.HeartbeatRequest(jobs_running=-1, running_job_ids=listed))
        assert beat.sight(JobId("another"), held=0) is Sight.UNKNOWN
    assert beat.sight(JobId("job-1"), held=1) is Sight.LISTED


def test_slots_below_0_are_none() -> None:
    assert codec.capability_from(pb.NodeCapability(concurrency=-5)).concurrency == 0


def test_the_name_of_a_vendor_is_bounded() -> None:
    assert codec.capability_from(pb.NodeCapability(gpu_vendor="v" * 256)).gpu_vendor == "v" * 256
    with refused("INVALID_ARGUMENT", "gpu_vendor has 257 bytes, at most 256 are accepted"):
        codec.capability_from(pb.NodeCapability(gpu_vendor="v" * 257))


def test_features_are_bounded_in_number_and_name() -> None:
    most = {f"f{number}": 1.0 for number in range(codec.FEATURES_MAX - 1)} | {"f" * 256: 1.0}
    report = codec.report_from(pb.ReportResultRequest(final=True, features=most), ())
    assert report.content == JobResult(score=0.0, features=most)
    with refused("INVALID_ARGUMENT", "the report has 1025 features, at most 1024 are accepted"):
        codec.report_from(pb.ReportResultRequest(final=True, features=most | {"one": 1.0}), ())
    with refused("INVALID_ARGUMENT", "the name of a feature has 257 bytes, at most 256 are accepted"):
        codec.report_from(pb.ReportResultRequest(final=True, features={"f" * 257: 1.0}), ())


@pytest.mark.parametrize("control", ["\x00", "\n", "\x1b", "\x7f", "\x85"])
def test_names_that_nobody_can_read_are_refused(control: str) -> None:
    name = f"v{control}maf"
    with refused("INVALID_ARGUMENT", "the name of a feature holds a control character"):
        codec.report_from(pb.ReportResultRequest(final=True, features={name: 1.0}), ())
    with refused("INVALID_ARGUMENT", "gpu_vendor holds a control character"):
        codec.capability_from(pb.NodeCapability(gpu_vendor=name))
    assert node_name_problem(name) == "node name holds a control character"


def test_a_feature_without_a_name_is_refused() -> None:
    with refused("INVALID_ARGUMENT", "a feature has no name"):
        codec.report_from(pb.ReportResultRequest(final=True, features={"": 1.0}), ())


def test_too_many_running_jobs_are_refused() -> None:
    with refused("INVALID_ARGUMENT", "running_job_ids has 65 entries, at most 64 are accepted"):
        codec.heartbeat_from(pb.HeartbeatRequest(running_job_ids=["j"] * 65))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (lambda value: {"final": True, "score": value}, "score"),
        (lambda value: {"final": True, "features": {"vmaf": value}}, "feature vmaf"),
        (lambda value: {"final": False, "partial_scores": [1.0, value]}, "partial score"),
    ],
    ids=["score", "feature", "partial"],
)
def test_a_number_that_is_not_finite_is_refused_by_name(fields, name: str, value: float) -> None:
    request = sent(pb.ReportResultRequest(**fields(value)))
    with refused("INVALID_ARGUMENT", f"non-finite value for {name}: {value}"):
        codec.report_from(request, ())


def test_a_failure_needs_no_finite_score() -> None:
    request = pb.ReportResultRequest(final=True, score=math.nan, error="broken")
    assert codec.report_from(request, ()).content == Failure(error="broken")


# ---------------------------------------------------------------- values that no message can hold

BAD = "bad \udcff text"
UNFIT = "holds text that is no UTF-8, or a number out of its range"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (
            lambda: codec.register_request(NodeIdentity(name=NodeName(BAD)), Capability()),
            "RegisterNode",
        ),
        (
            lambda: codec.heartbeat_request(SESSION, Heartbeat(jobs_running=1, listed=(JobId(BAD),))),
            "Heartbeat",
        ),
        (lambda: codec.pull_request(SESSION, Capability(gpu_vendor=BAD)), "PullWork"),
        (
            lambda: codec.report_request(SESSION, JobId("j"), Report(content=Failure(error=BAD))),
            "ReportResult",
        ),
        (
            lambda: codec.report_request(
                SESSION, JobId("j"), Report(content=JobResult(score=1.0, features={BAD: 1.0}))
            ),
            "ReportResult",
        ),
    ],
)
def test_a_request_with_text_that_is_no_utf8_is_refused_and_not_shown(make, name: str) -> None:
    with refused("INVALID_ARGUMENT", f"{name} {UNFIT}"):
        make()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (
            lambda: codec.register_response(Registration(node_id=SessionId(BAD), session_token="")),
            "RegisterNode",
        ),
        (
            lambda: codec.heartbeat_response(HeartbeatAnswer(ok=True, cancel_job_ids=(JobId(BAD),))),
            "Heartbeat",
        ),
        (
            lambda: codec.pull_response(Assignment(job_id=JobId("j"), scoring_roots=(BAD,))),
            "PullWork",
        ),
    ],
)
def test_an_answer_with_text_that_is_no_utf8_is_our_own_fault(make, name: str) -> None:
    with refused("INTERNAL", f"the answer to {name} {UNFIT}"):
        make()


@pytest.mark.parametrize("count", [2**31, -(2**31) - 1])
def test_a_count_beyond_the_wire_is_refused(count: int) -> None:
    with refused("INVALID_ARGUMENT", f"PullWork {UNFIT}"):
        codec.pull_request(SESSION, Capability(concurrency=count))


def test_the_secret_of_a_session_is_in_no_representation() -> None:
    registration = codec.registration_from(pb.RegisterNodeResponse(node_id="n", session_token=SECRET))
    session = codec.session_from(pb.HeartbeatRequest(node_id="n", session_token=SECRET))
    assert session.session_token == registration.session_token == SECRET
    assert SECRET not in f"{registration!r} {registration} {session!r} {session}"


def refused(code: str, message: str) -> pytest.RaisesExc[ControllerError]:
    return pytest.raises(ControllerError, check=lambda error: (error.code, error.message) == (code, message))
