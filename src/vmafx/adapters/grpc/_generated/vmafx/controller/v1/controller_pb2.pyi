from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENDING: _ClassVar[JobStatus]
    RUNNING: _ClassVar[JobStatus]
    COMPLETED: _ClassVar[JobStatus]
    FAILED: _ClassVar[JobStatus]
    CANCELLED: _ClassVar[JobStatus]
PENDING: JobStatus
RUNNING: JobStatus
COMPLETED: JobStatus
FAILED: JobStatus
CANCELLED: JobStatus

class ScoringParams(_message.Message):
    __slots__ = ("reference", "distorted", "model", "backend")
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DISTORTED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    reference: str
    distorted: str
    model: str
    backend: str
    def __init__(self, reference: _Optional[str] = ..., distorted: _Optional[str] = ..., model: _Optional[str] = ..., backend: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "status", "scoring", "partial_results", "assigned_node", "error", "created_at", "updated_at", "final_score", "scoring_roots")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SCORING_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_NODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    FINAL_SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORING_ROOTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: JobStatus
    scoring: ScoringParams
    partial_results: _containers.RepeatedScalarFieldContainer[float]
    assigned_node: str
    error: str
    created_at: int
    updated_at: int
    final_score: float
    scoring_roots: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[JobStatus, str]] = ..., scoring: _Optional[_Union[ScoringParams, _Mapping[str, object]]] = ..., partial_results: _Optional[_Iterable[float]] = ..., assigned_node: _Optional[str] = ..., error: _Optional[str] = ..., created_at: _Optional[int] = ..., updated_at: _Optional[int] = ..., final_score: _Optional[float] = ..., scoring_roots: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeCapability(_message.Message):
    __slots__ = ("gpu_vendor", "backends", "concurrency")
    GPU_VENDOR_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    gpu_vendor: str
    backends: _containers.RepeatedScalarFieldContainer[str]
    concurrency: int
    def __init__(self, gpu_vendor: _Optional[str] = ..., backends: _Optional[_Iterable[str]] = ..., concurrency: _Optional[int] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("scoring",)
    SCORING_FIELD_NUMBER: _ClassVar[int]
    scoring: ScoringParams
    def __init__(self, scoring: _Optional[_Union[ScoringParams, _Mapping[str, object]]] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("ok", "message")
    OK_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    message: str
    def __init__(self, ok: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class StreamJobsRequest(_message.Message):
    __slots__ = ("status_filter",)
    STATUS_FILTER_FIELD_NUMBER: _ClassVar[int]
    status_filter: _containers.RepeatedScalarFieldContainer[JobStatus]
    def __init__(self, status_filter: _Optional[_Iterable[_Union[JobStatus, str]]] = ...) -> None: ...

class RegisterNodeRequest(_message.Message):
    __slots__ = ("name", "capability")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    capability: NodeCapability
    def __init__(self, name: _Optional[str] = ..., capability: _Optional[_Union[NodeCapability, _Mapping[str, object]]] = ...) -> None: ...

class RegisterNodeResponse(_message.Message):
    __slots__ = ("node_id", "session_token")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    session_token: str
    def __init__(self, node_id: _Optional[str] = ..., session_token: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "session_token", "jobs_running", "running_job_ids")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOBS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    session_token: str
    jobs_running: int
    running_job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., session_token: _Optional[str] = ..., jobs_running: _Optional[int] = ..., running_job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("ok", "cancel_job_ids")
    OK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    cancel_job_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ok: _Optional[bool] = ..., cancel_job_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PullWorkRequest(_message.Message):
    __slots__ = ("node_id", "session_token", "capability")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    session_token: str
    capability: NodeCapability
    def __init__(self, node_id: _Optional[str] = ..., session_token: _Optional[str] = ..., capability: _Optional[_Union[NodeCapability, _Mapping[str, object]]] = ...) -> None: ...

class PullWorkResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping[str, object]]] = ...) -> None: ...

class ReportResultRequest(_message.Message):
    __slots__ = ("node_id", "session_token", "job_id", "final", "score", "features", "partial_scores", "error")
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_SCORES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    session_token: str
    job_id: str
    final: bool
    score: float
    features: _containers.ScalarMap[str, float]
    partial_scores: _containers.RepeatedScalarFieldContainer[float]
    error: str
    def __init__(self, node_id: _Optional[str] = ..., session_token: _Optional[str] = ..., job_id: _Optional[str] = ..., final: _Optional[bool] = ..., score: _Optional[float] = ..., features: _Optional[_Mapping[str, float]] = ..., partial_scores: _Optional[_Iterable[float]] = ..., error: _Optional[str] = ...) -> None: ...

class ReportResultResponse(_message.Message):
    __slots__ = ("ok",)
    OK_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    def __init__(self, ok: _Optional[bool] = ...) -> None: ...
