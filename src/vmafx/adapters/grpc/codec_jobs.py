"""Between the messages of clients and the values of `Jobs` (ADR 0016)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2 as pb
from vmafx.adapters.grpc.fields import at_most, fits, plain, refuse
from vmafx.adapters.grpc.metadata import (
    FOLLOW_KEY,
    IDEMPOTENCY_KEY,
    WORD_BYTES_MAX,
    ReceivedMetadata,
    is_word,
    only,
)
from vmafx.domain.errors import JobNotFoundError
from vmafx.domain.job import ID_BYTES_MAX, JobId, JobSpec, JobStatus
from vmafx.domain.retry import StatusCode
from vmafx.domain.scoring import Backend
from vmafx.domain.source import SOURCE_BYTES_MAX
from vmafx.domain.text import quoted
from vmafx.ports.jobs import CancelAnswer, JobView

__all__ = [
    "MODEL_BYTES_MAX",
    "cancel_response",
    "follows",
    "idempotency_key_from",
    "job_id_from",
    "job_message",
    "spec_from",
    "statuses_from",
]

MODEL_BYTES_MAX: Final = 1024
"""The longest name of a model that is accepted, in bytes; what a name may be else is the scorer's affair."""

_BACKENDS: Final = {backend.value: backend for backend in Backend}
_NUMBERS: Final[Mapping[JobStatus, pb.JobStatus]] = {
    JobStatus.PENDING: pb.PENDING,
    JobStatus.RUNNING: pb.RUNNING,
    JobStatus.COMPLETED: pb.COMPLETED,
    JobStatus.FAILED: pb.FAILED,
    JobStatus.CANCELLED: pb.CANCELLED,
}
_STATUSES: Final[Mapping[int, JobStatus]] = {number: status for status, number in _NUMBERS.items()}


# -------------------------------------------------------------------- requests


def spec_from(request: pb.SubmitJobRequest) -> JobSpec:
    """Return what a submission asks for.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: a part is missing or too long, the model holds a control
            character, or the backend is none.
    """
    if not request.HasField("scoring"):
        refuse(StatusCode.INVALID_ARGUMENT, "scoring params are required")
    scoring = request.scoring
    if not (scoring.reference and scoring.distorted):
        refuse(StatusCode.INVALID_ARGUMENT, "reference and distorted paths are required")
    at_most("reference", scoring.reference, SOURCE_BYTES_MAX)
    at_most("distorted", scoring.distorted, SOURCE_BYTES_MAX)
    plain("model", scoring.model, MODEL_BYTES_MAX)
    return JobSpec(
        reference=scoring.reference,
        distorted=scoring.distorted,
        model=scoring.model or None,
        backend=_backend(scoring.backend) if scoring.backend else None,
    )


def idempotency_key_from(metadata: ReceivedMetadata) -> str | None:
    """Return the submitter's own name for a submission; None when there is none.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: there are several, or it is none; ignoring it might store a job
            twice.
    """
    metadata = tuple(metadata)
    if all(name != IDEMPOTENCY_KEY for name, _ in metadata):
        return None
    key = only(metadata, IDEMPOTENCY_KEY)
    if key is None or not is_word(key):
        problem = f"{IDEMPOTENCY_KEY} must be given once, as 1 to {WORD_BYTES_MAX} visible ASCII characters"
        refuse(StatusCode.INVALID_ARGUMENT, problem)
    return key


def job_id_from(request: pb.GetJobRequest | pb.CancelJobRequest) -> JobId:
    """Return the job that a request names.

    Raises:
        ControllerError: `INVALID_ARGUMENT`: it names none.
        JobNotFoundError: What it names is longer than any id, or holds a NUL, which no id does.
    """
    if not request.job_id:
        refuse(StatusCode.INVALID_ARGUMENT, "job_id is required")
    if len(request.job_id.encode()) > ID_BYTES_MAX or "\0" in request.job_id:
        raise JobNotFoundError(request.job_id)
    return JobId(request.job_id)


def statuses_from(request: pb.StreamJobsRequest) -> frozenset[JobStatus]:
    """Return the statuses that a listing is limited to, none for all; a number that is none is pending."""
    return frozenset(_STATUSES.get(number, JobStatus.PENDING) for number in request.status_filter)


def follows(metadata: ReceivedMetadata) -> bool:
    """Return whether a listing goes on with changes."""
    return only(metadata, FOLLOW_KEY) == "true"


def _backend(name: str) -> Backend:
    if name not in _BACKENDS:
        problem = f"backend {quoted(name)} is none of {', '.join(_BACKENDS)}"
        refuse(StatusCode.INVALID_ARGUMENT, problem)
    return _BACKENDS[name]


# -------------------------------------------------------------------- answers


def job_message(view: JobView) -> pb.Job:
    """Return a job as its owner sees it; instants are whole seconds, and roots are never shown.

    Raises:
        ControllerError: `INTERNAL`: the wire cannot carry a value; names the answer.
    """
    with fits(StatusCode.INTERNAL, "the job"):
        return pb.Job(
            id=view.id,
            status=_NUMBERS[view.status],
            scoring=None if view.spec is None else _scoring(view.spec),
            assigned_node=view.assigned_node or "",
            error=view.error,
            created_at=math.floor(view.created_at.timestamp()),
            updated_at=math.floor(view.updated_at.timestamp()),
            final_score=view.score or 0.0,
        )


def cancel_response(answer: CancelAnswer) -> pb.CancelJobResponse:
    """Return the answer to a wish to cancel."""
    return pb.CancelJobResponse(ok=answer.ok, message=answer.message)


def _scoring(spec: JobSpec) -> pb.ScoringParams:
    return pb.ScoringParams(
        reference=spec.reference,
        distorted=spec.distorted,
        model=spec.model or "",
        backend=spec.backend.value if spec.backend else "",
    )
