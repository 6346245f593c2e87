"""Between messages of the wire and values of the ports, both ways, and the metadata beside them (ADR 0016).

What a peer sent is taken as it is where a port says so: ids are opaque, and a job that makes no sense is
still an assignment. Metadata that is not understood is not there.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final, NoReturn, TypeAlias

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.domain.error_text import ERROR_BYTES_MAX
from vmafx.domain.errors import NotFiniteError
from vmafx.domain.job import JobId, JobResult, NodeName, SessionId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Partial, Report, ReportContent
from vmafx.domain.retry import StatusCode, controller_error
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.domain.session_state import Session
from vmafx.domain.text import bounded, printable
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration

__all__ = [
    "ATTEMPT_KEY",
    "ATTEMPT_MAX",
    "BACKENDS_MAX",
    "FOLLOW_KEY",
    "IDEMPOTENCY_KEY",
    "INSTANCE_BYTES_MAX",
    "INSTANCE_KEY",
    "RETRYABLE_KEY",
    "SERVICE",
    "Metadata",
    "ReceivedMetadata",
    "assignment_from",
    "capability_from",
    "heartbeat_answer_from",
    "heartbeat_from",
    "heartbeat_request",
    "heartbeat_response",
    "identity_from",
    "pull_metadata",
    "pull_request",
    "pull_response",
    "register_metadata",
    "register_request",
    "register_response",
    "registration_from",
    "report_from",
    "report_metadata",
    "report_request",
    "report_response",
    "session_from",
]

SERVICE: Final = "vmafx.controller.v1.VmafxController"
"""The service's name on the wire."""

ATTEMPT_KEY: Final = "vmafx-attempt"
"""The number of an attempt: after an answer to `PullWork`, before a `ReportResult`."""
RETRYABLE_KEY: Final = "vmafx-retryable"
"""How a failure may be tried again, before a `ReportResult`; the words are the values of `Retry`."""
INSTANCE_KEY: Final = "vmafx-instance"
"""What this process of a node is called, before a `RegisterNode`."""
IDEMPOTENCY_KEY: Final = "vmafx-idempotency-key"
"""The submitter's own name for a submission, before a `SubmitJob`."""
FOLLOW_KEY: Final = "vmafx-follow"
"""Whether a `StreamJobs` goes on with changes."""

ATTEMPT_MAX: Final = 2**31 - 1
"""The largest number of an attempt that is understood."""
INSTANCE_BYTES_MAX: Final = 256
"""The longest name of a process that is understood, in bytes."""
BACKENDS_MAX: Final = 64
"""How many backends a node may list."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata to send; keys are lower-case."""
ReceivedMetadata: TypeAlias = Iterable[tuple[str, str | bytes]]
"""Metadata as grpc hands it over."""

_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,9}")
_VISIBLE: Final = re.compile(r"[\x20-\x7e]+")
_RETRIES: Final = {retry.value: retry for retry in Retry if retry is not Retry.NO}
_BACKENDS: Final = {backend.value: backend for backend in Backend}


# -------------------------------------------------------------------- the node's side: requests


def register_request(identity: NodeIdentity, capability: Capability) -> pb.RegisterNodeRequest:
    """Return the request that registers a node.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with _fits(StatusCode.INVALID_ARGUMENT, "RegisterNode"):
        return pb.RegisterNodeRequest(name=identity.name, capability=_capability(capability))


def register_metadata(identity: NodeIdentity) -> Metadata:
    """Return what goes with it.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the instance is no visible ASCII, or too long.
    """
    if identity.instance is None:
        return ()
    if not _is_instance(identity.instance):
        problem = f"the instance must be 1 to {INSTANCE_BYTES_MAX} visible ASCII characters"
        _refuse(StatusCode.INVALID_ARGUMENT, problem)
    return ((INSTANCE_KEY, identity.instance),)


def heartbeat_request(session: Session, heartbeat: Heartbeat) -> pb.HeartbeatRequest:
    """Return the request that keeps a session.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with _fits(StatusCode.INVALID_ARGUMENT, "Heartbeat"):
        return pb.HeartbeatRequest(
            node_id=session.node_id,
            session_token=session.session_token,
            jobs_running=heartbeat.jobs_running,
            running_job_ids=heartbeat.listed,
        )


def pull_request(session: Session, capability: Capability) -> pb.PullWorkRequest:
    """Return the request that asks for a job.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with _fits(StatusCode.INVALID_ARGUMENT, "PullWork"):
        return pb.PullWorkRequest(
            node_id=session.node_id,
            session_token=session.session_token,
            capability=_capability(capability),
        )


def report_request(session: Session, job_id: JobId, report: Report) -> pb.ReportResultRequest:
    """Return the request that reports a job.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with _fits(StatusCode.INVALID_ARGUMENT, "ReportResult"):
        request = pb.ReportResultRequest(
            node_id=session.node_id, session_token=session.session_token, job_id=job_id
        )
        match report.content:
            case JobResult(score=score, features=features):
                request.final = True
                request.score = score
                request.features.update(features)
            case Failure(error=error):
                request.final = True
                request.error = error
            case Partial(scores=scores):
                request.partial_scores.extend(scores)
        return request


def report_metadata(report: Report) -> Metadata:
    """Return what goes with it: the attempt, when it is known, and how a failure may be tried again."""
    attempt = () if report.attempt is None else ((ATTEMPT_KEY, str(report.attempt)),)
    if isinstance(report.content, Failure) and report.content.retry is not Retry.NO:
        return (*attempt, (RETRYABLE_KEY, report.content.retry.value))
    return attempt


# -------------------------------------------------------------------- the node's side: answers


def registration_from(response: pb.RegisterNodeResponse) -> Registration:
    """Return what a registration opened, as it came."""
    return Registration(node_id=SessionId(response.node_id), session_token=response.session_token)


def heartbeat_answer_from(response: pb.HeartbeatResponse) -> HeartbeatAnswer:
    """Return the answer to a heartbeat, as it came."""
    return HeartbeatAnswer(ok=response.ok, cancel_job_ids=tuple(map(JobId, response.cancel_job_ids)))


def assignment_from(response: pb.PullWorkResponse, trailing: ReceivedMetadata) -> Assignment | None:
    """Return the job of an answer as it came; None when it brings none.

    Args:
        response: The answer.
        trailing: The metadata that came after it.
    """
    if not response.HasField("job"):
        return None
    job = response.job
    return Assignment(
        job_id=JobId(job.id),
        reference=job.scoring.reference,
        distorted=job.scoring.distorted,
        model=job.scoring.model,
        backend=job.scoring.backend,
        scoring_roots=tuple(job.scoring_roots),
        attempt=_attempt(trailing),
    )


# -------------------------------------------------------------------- the controller's side: requests


def identity_from(request: pb.RegisterNodeRequest, metadata: ReceivedMetadata) -> NodeIdentity:
    """Return who registers; the name may be empty."""
    told = _only(metadata, INSTANCE_KEY)
    instance = InstanceId(told) if told is not None and _is_instance(told) else None
    return NodeIdentity(name=NodeName(request.name), instance=instance)


def capability_from(capability: pb.NodeCapability) -> Capability:
    """Return what a node can run; backends that are none are passed over.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it lists more than 64 backends.
    """
    if len(capability.backends) > BACKENDS_MAX:
        problem = f"capability lists {len(capability.backends)} backends, at most {BACKENDS_MAX} are accepted"
        _refuse(StatusCode.INVALID_ARGUMENT, problem)
    return Capability(
        backends=frozenset(_BACKENDS[name] for name in capability.backends if name in _BACKENDS),
        gpu_vendor=capability.gpu_vendor,
        concurrency=capability.concurrency,
    )


def session_from(
    request: pb.HeartbeatRequest | pb.PullWorkRequest | pb.ReportResultRequest,
) -> Session:
    """Return the session that a request shows; its generation is the node's own affair and so 0."""
    return Session(generation=0, node_id=SessionId(request.node_id), session_token=request.session_token)


def heartbeat_from(request: pb.HeartbeatRequest) -> Heartbeat:
    """Return what a heartbeat says.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it lists more than 64 jobs.
    """
    try:
        return Heartbeat(jobs_running=request.jobs_running, listed=tuple(map(JobId, request.running_job_ids)))
    except ValueError as error:
        _refuse(StatusCode.INVALID_ARGUMENT, str(error), error)


def report_from(request: pb.ReportResultRequest, metadata: ReceivedMetadata) -> Report:
    """Return what a report says; the text of a failure is made printable and cut to 4 KiB.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: a number is not finite; names it.
    """
    metadata = tuple(metadata)
    try:
        content = _content(request, metadata)
    except NotFiniteError as error:
        _refuse(StatusCode.INVALID_ARGUMENT, str(error), error)
    return Report(content=content, attempt=_attempt(metadata))


def _content(request: pb.ReportResultRequest, metadata: ReceivedMetadata) -> ReportContent:
    if not request.final:
        return Partial(scores=tuple(request.partial_scores))
    if request.error:
        retry = _RETRIES.get(_only(metadata, RETRYABLE_KEY) or "", Retry.NO)
        return Failure(error=bounded(printable(request.error), ERROR_BYTES_MAX), retry=retry)
    return JobResult(score=request.score, features=dict(request.features))


# -------------------------------------------------------------------- the controller's side: answers


def register_response(registration: Registration) -> pb.RegisterNodeResponse:
    """Return the answer that opens a session.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    with _fits(StatusCode.INTERNAL, "the answer to RegisterNode"):
        return pb.RegisterNodeResponse(node_id=registration.node_id, session_token=registration.session_token)


def heartbeat_response(answer: HeartbeatAnswer) -> pb.HeartbeatResponse:
    """Return the answer to a heartbeat.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    with _fits(StatusCode.INTERNAL, "the answer to Heartbeat"):
        return pb.HeartbeatResponse(ok=answer.ok, cancel_job_ids=answer.cancel_job_ids)


def pull_response(assignment: Assignment | None) -> pb.PullWorkResponse:
    """Return the answer to a pull.

    Args:
        assignment: The job, which runs from now on; None when there is nothing to do.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    if assignment is None:
        return pb.PullWorkResponse()
    with _fits(StatusCode.INTERNAL, "the answer to PullWork"):
        scoring = pb.ScoringParams(
            reference=assignment.reference,
            distorted=assignment.distorted,
            model=assignment.model,
            backend=assignment.backend,
        )
        job = pb.Job(
            id=assignment.job_id,
            status=pb.RUNNING,
            scoring=scoring,
            scoring_roots=assignment.scoring_roots,
        )
        return pb.PullWorkResponse(job=job)


def pull_metadata(assignment: Assignment | None) -> Metadata:
    """Return what goes after it: the number of the attempt, when there is one."""
    if assignment is None or assignment.attempt is None:
        return ()
    return ((ATTEMPT_KEY, str(assignment.attempt)),)


def report_response() -> pb.ReportResultResponse:
    """Return the answer to a report that was taken."""
    return pb.ReportResultResponse(ok=True)


# -------------------------------------------------------------------- both


@contextmanager
def _fits(code: StatusCode, message: str) -> Generator[None]:
    """Turn what protobuf says of values that it cannot carry into an error of ours, without the values.

    Yields:
        Nothing; the body fills a message.

    Raises:
        ControllerError: A text is no UTF-8, or a number is out of its range.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        _refuse(code, f"{message} holds text that is no UTF-8, or a number out of its range", error)


def _refuse(code: StatusCode, message: str, cause: Exception | None = None) -> NoReturn:
    raise controller_error(code, message) from cause


def _capability(capability: Capability) -> pb.NodeCapability:
    return pb.NodeCapability(
        gpu_vendor=capability.gpu_vendor,
        backends=sorted(backend.value for backend in capability.backends),
        concurrency=capability.concurrency,
    )


def _attempt(metadata: ReceivedMetadata) -> int | None:
    told = _only(metadata, ATTEMPT_KEY)
    if told is None or not _ATTEMPT.fullmatch(told) or int(told) > ATTEMPT_MAX:
        return None
    return int(told)


def _is_instance(text: str) -> bool:
    return len(text) <= INSTANCE_BYTES_MAX and _VISIBLE.fullmatch(text) is not None


def _only(metadata: ReceivedMetadata, key: str) -> str | None:
    """Return the one text of a key; None when there is none, several, or bytes."""
    values = [value for name, value in metadata if name == key]
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None
