"""Between messages of the wire and values of the ports, both ways, and the metadata beside them (ADR 0016).

What a peer sent is taken as it is where a port says so: ids are opaque, and a job that makes no sense is
still an assignment. An id longer than any is cut to one that is nobody's, so that no store is asked for
kilobytes. Metadata that is not understood is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.fields import fits, plain, refuse
from vmafx.adapters.grpc.metadata import (
    ATTEMPT_KEY,
    INSTANCE_KEY,
    RETRYABLE_KEY,
    WORD_BYTES_MAX,
    Metadata,
    ReceivedMetadata,
    is_word,
    only,
)
from vmafx.domain.errors import NotFiniteError
from vmafx.domain.job import ID_BYTES_MAX, JobId, JobResult, NodeName, SessionId
from vmafx.domain.lease import Heartbeat
from vmafx.domain.nodesession import Capability, InstanceId
from vmafx.domain.report import Partial, Report, ReportContent
from vmafx.domain.retry import StatusCode
from vmafx.domain.scoring import Backend, Failure, Retry
from vmafx.domain.session_state import Session
from vmafx.ports.controller import Assignment, HeartbeatAnswer, NodeIdentity, Registration
from vmafx.ports.jobstore import PULL_BACKENDS_MAX

__all__ = [
    "ATTEMPT_MAX",
    "FEATURES_MAX",
    "FEATURE_NAME_BYTES_MAX",
    "SERVICE",
    "VENDOR_BYTES_MAX",
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
    "reported_job_from",
    "session_from",
]

SERVICE: Final = "vmafx.controller.v1.VmafxController"
"""The service's name on the wire."""

ATTEMPT_MAX: Final = 2**31 - 1
"""The largest number of an attempt that is understood."""
VENDOR_BYTES_MAX: Final = 256
"""The longest name of a vendor that is accepted, in bytes."""
FEATURES_MAX: Final = 1024
"""How many features a report may have."""
FEATURE_NAME_BYTES_MAX: Final = 256
"""The longest name of a feature that is accepted, in bytes."""

_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,9}")
_RETRIES: Final = {retry.value: retry for retry in Retry if retry is not Retry.NO}
_BACKENDS: Final = {backend.value: backend for backend in Backend}


# -------------------------------------------------------------------- the node's side: requests


def register_request(identity: NodeIdentity, capability: Capability) -> pb.RegisterNodeRequest:
    """Return the request that registers a node.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with fits(StatusCode.INVALID_ARGUMENT, "RegisterNode"):
        return pb.RegisterNodeRequest(name=identity.name, capability=_capability(capability))


def register_metadata(identity: NodeIdentity) -> Metadata:
    """Return what goes with it.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the instance is no visible ASCII, or too long.
    """
    if identity.instance is None:
        return ()
    if not is_word(identity.instance):
        problem = f"the instance must be 1 to {WORD_BYTES_MAX} visible ASCII characters"
        refuse(StatusCode.INVALID_ARGUMENT, problem)
    return ((INSTANCE_KEY, identity.instance),)


def heartbeat_request(session: Session, heartbeat: Heartbeat) -> pb.HeartbeatRequest:
    """Return the request that keeps a session.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: the wire cannot carry a value; names the request.
    """
    with fits(StatusCode.INVALID_ARGUMENT, "Heartbeat"):
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
    with fits(StatusCode.INVALID_ARGUMENT, "PullWork"):
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
    with fits(StatusCode.INVALID_ARGUMENT, "ReportResult"):
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
    """Return who registers."""
    told = only(metadata, INSTANCE_KEY)
    instance = InstanceId(told) if told is not None and is_word(told) else None
    return NodeIdentity(name=NodeName(request.name), instance=instance)


def capability_from(capability: pb.NodeCapability) -> Capability:
    """Return what a node can run; backends that are none are passed over, and slots below 0 count as none.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it lists more than 16 backends, or the vendor's name is above 256
            bytes or holds a control character.
    """
    count = len(capability.backends)
    if count > PULL_BACKENDS_MAX:
        problem = f"capability lists {count} backends, at most {PULL_BACKENDS_MAX} are accepted"
        refuse(StatusCode.INVALID_ARGUMENT, problem)
    plain("gpu_vendor", capability.gpu_vendor, VENDOR_BYTES_MAX)
    return Capability(
        backends=frozenset(_BACKENDS[name] for name in capability.backends if name in _BACKENDS),
        gpu_vendor=capability.gpu_vendor,
        concurrency=max(0, capability.concurrency),
    )


def session_from(
    request: pb.HeartbeatRequest | pb.PullWorkRequest | pb.ReportResultRequest,
) -> Session:
    """Return the session that a request shows; its generation is the node's own affair and so 0."""
    node_id = SessionId(_id(request.node_id))
    return Session(generation=0, node_id=node_id, session_token=request.session_token)


def reported_job_from(request: pb.ReportResultRequest) -> JobId:
    """Return the job that a report is about."""
    return JobId(_id(request.job_id))


def heartbeat_from(request: pb.HeartbeatRequest) -> Heartbeat:
    """Return what a heartbeat says; a count below 0 agrees with no list, so nothing follows from it.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it lists more than 64 jobs.
    """
    try:
        listed = tuple(JobId(_id(job_id)) for job_id in request.running_job_ids)
        return Heartbeat(jobs_running=request.jobs_running, listed=listed)
    except ValueError as error:
        refuse(StatusCode.INVALID_ARGUMENT, str(error), error)


def report_from(request: pb.ReportResultRequest, metadata: ReceivedMetadata) -> Report:
    """Return what a report says.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: a number is not finite, there are more than 1024 features, or a
            name of one is empty, above 256 bytes or holds a control character; names it.
    """
    metadata = tuple(metadata)
    try:
        content = _content(request, metadata)
    except NotFiniteError as error:
        refuse(StatusCode.INVALID_ARGUMENT, str(error), error)
    return Report(content=content, attempt=_attempt(metadata))


def _id(text: str) -> str:
    return text[: ID_BYTES_MAX + 1]  # of an id that is not too long, nothing


def _content(request: pb.ReportResultRequest, metadata: ReceivedMetadata) -> ReportContent:
    if not request.final:
        return Partial(scores=tuple(request.partial_scores))
    if request.error:
        retry = _RETRIES.get(only(metadata, RETRYABLE_KEY) or "", Retry.NO)
        return Failure(error=request.error, retry=retry)
    return JobResult(score=request.score, features=_features(request.features))


def _features(features: Mapping[str, float]) -> dict[str, float]:
    if len(features) > FEATURES_MAX:
        problem = f"the report has {len(features)} features, at most {FEATURES_MAX} are accepted"
        refuse(StatusCode.INVALID_ARGUMENT, problem)
    for name in features:
        if not name:
            refuse(StatusCode.INVALID_ARGUMENT, "a feature has no name")
        plain("the name of a feature", name, FEATURE_NAME_BYTES_MAX)
    return dict(features)


# -------------------------------------------------------------------- the controller's side: answers


def register_response(registration: Registration) -> pb.RegisterNodeResponse:
    """Return the answer that opens a session.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    with fits(StatusCode.INTERNAL, "the answer to RegisterNode"):
        return pb.RegisterNodeResponse(node_id=registration.node_id, session_token=registration.session_token)


def heartbeat_response(answer: HeartbeatAnswer) -> pb.HeartbeatResponse:
    """Return the answer to a heartbeat.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    with fits(StatusCode.INTERNAL, "the answer to Heartbeat"):
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
    with fits(StatusCode.INTERNAL, "the answer to PullWork"):
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


def _capability(capability: Capability) -> pb.NodeCapability:
    return pb.NodeCapability(
        gpu_vendor=capability.gpu_vendor,
        backends=sorted(backend.value for backend in capability.backends),
        concurrency=capability.concurrency,
    )


def _attempt(metadata: ReceivedMetadata) -> int | None:
    told = only(metadata, ATTEMPT_KEY)
    if told is None or not _ATTEMPT.fullmatch(told) or int(told) > ATTEMPT_MAX:
        return None
    return int(told)
