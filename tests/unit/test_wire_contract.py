"""The wire contract, message by message: names, numbers and types are fixed for good (ADR 0016)."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor, FileDescriptor, MethodDescriptor

from vmafx.adapters.grpc._generated.vmafx.controller.v1 import controller_pb2
from vmafx.adapters.grpc._generated.vmafx.v1 import vmafx_pb2
from vmafx.adapters.grpc.codec import SERVICE
from vmafx.domain.job import JobStatus
from vmafx.domain.retry import Call

FILES = {file.package: file for file in (controller_pb2.DESCRIPTOR, vmafx_pb2.DESCRIPTOR)}

# One field a line: number, name, type; [r] is repeated, `optional` has presence, `in` names a oneof.
MESSAGES = {
    "vmafx.v1": {
        "ScoreRequest": """
            1 reference string
            2 distorted string
            3 model string
            4 options ScoreOptions
        """,
        "ScoreResponse": """
            1 score double
            2 features map<string, double>
            3 provenance ScoreProvenance
        """,
        "FeatureBackend": """
            1 extractor string
            2 backend string
        """,
        "ScoreProvenance": """
            1 library Provenance
            2 model string
            3 model_sha256 string
            4 backend_used string
            5 feature_backends FeatureBackend [r]
            6 precision string
        """,
        "StreamConfig": """
            1 width uint32
            2 height uint32
            3 pixel_format PixelFormat
            4 model string
            5 frame_count_hint uint32
        """,
        "FramePair": """
            1 frame_index uint32
            2 raw_reference bytes
            3 raw_distorted bytes
        """,
        "ScoreStreamRequest": """
            1 config StreamConfig in payload
            2 frame_pair FramePair in payload
        """,
        "FrameScore": """
            1 frame_index uint32
            2 score double
            3 features map<string, double>
        """,
        "AggregateScore": """
            1 frames_processed uint32
            2 score double
            3 features map<string, double>
            4 elapsed_ms uint64
            5 provenance ScoreProvenance
        """,
        "ScoreStreamResponse": """
            1 frame_score FrameScore in payload
            2 aggregate AggregateScore in payload
        """,
        "HealthRequest": "",
        "HealthResponse": """
            1 ok bool
            2 message string
        """,
        "ScoreOptions": """
            1 width optional uint32
            2 height optional uint32
            3 pixel_format optional string
            4 bitdepth optional uint32
            10 disable_clip optional bool
            11 enable_transform optional bool
            12 backend optional string
            13 device optional string
            14 threads optional uint32
            15 subsample optional uint32
            16 frame_cnt optional uint32
            17 frame_skip_ref optional uint32
            18 frame_skip_dist optional uint32
            19 no_prediction optional bool
            20 cpumask optional uint32
            21 gpumask optional uint32
            22 feature string [r]
            23 aom_ctc optional string
            24 nflx_ctc optional string
            30 tiny_model optional string
            31 tiny_device optional string
            32 tiny_threads optional uint32
            33 tiny_fp16 optional bool
            34 tiny_model_verify optional bool
            35 tiny_codec optional string
            36 tiny_preset optional string
            37 tiny_crf optional uint32
            38 tiny_resize optional string
            39 no_reference optional bool
            40 precision optional string
            50 view_distance optional double
            51 display_height optional uint32
            52 target_width optional uint32
            53 target_height optional uint32
            54 target_scaling optional string
        """,
        "Provenance": """
            1 abi_major uint32
            2 abi_minor uint32
            3 abi_patch uint32
            4 active_backend string
            5 n_extractors uint32
            6 version string
            7 commit string
            8 build_id string
            9 compiler string
            10 build_flags string
            11 fp_policy string
            12 backends string
            13 rust_twins uint32
            14 simd string
            15 device_index int32
            16 device_name string
            17 device_runtime string
            18 n_threads uint32
            19 n_subsample uint32
            20 cpumask uint64
            21 gpumask uint64
            22 frame_width uint32
            23 frame_height uint32
            24 pix_fmt string
            25 bpc uint32
            26 n_frames uint64
            27 n_models uint32
            28 n_features uint32
            29 n_annotations uint32
            30 encode_record string
            31 scores_digest string
            32 elapsed_ns uint64
            33 digest string
            100 models ModelProvenance [r]
            101 features FeatureProvenance [r]
            102 annotations Annotation [r]
        """,
        "ModelProvenance": """
            1 name string
            2 version string
            3 sha256 string
            4 flags uint64
            5 overrides string
        """,
        "FeatureProvenance": """
            1 feature string
            2 extractor string
            3 implementation string
            4 backend string
            5 device string
            6 runtime string
            7 options string
            8 exactness string
            9 source string
        """,
        "Annotation": """
            1 key string
            2 value string
        """,
    },
    "vmafx.controller.v1": {
        "ScoringParams": """
            1 reference string
            2 distorted string
            3 model string
            4 backend string
        """,
        "Job": """
            1 id string
            2 status JobStatus
            3 scoring ScoringParams
            4 partial_results double [r]
            5 assigned_node string
            6 error string
            7 created_at int64
            8 updated_at int64
            9 final_score double
            10 scoring_roots string [r]
        """,
        "NodeCapability": """
            1 gpu_vendor string
            2 backends string [r]
            3 concurrency int32
        """,
        "SubmitJobRequest": """
            1 scoring ScoringParams
        """,
        "SubmitJobResponse": """
            1 job_id string
        """,
        "GetJobRequest": """
            1 job_id string
        """,
        "CancelJobRequest": """
            1 job_id string
        """,
        "CancelJobResponse": """
            1 ok bool
            2 message string
        """,
        "StreamJobsRequest": """
            1 status_filter JobStatus [r]
        """,
        "RegisterNodeRequest": """
            1 name string
            2 capability NodeCapability
        """,
        "RegisterNodeResponse": """
            1 node_id string
            2 session_token string
        """,
        "HeartbeatRequest": """
            1 node_id string
            2 session_token string
            3 jobs_running int32
            4 running_job_ids string [r]
        """,
        "HeartbeatResponse": """
            1 ok bool
            2 cancel_job_ids string [r]
        """,
        "PullWorkRequest": """
            1 node_id string
            2 session_token string
            3 capability NodeCapability
        """,
        "PullWorkResponse": """
            1 job Job
        """,
        "ReportResultRequest": """
            1 node_id string
            2 session_token string
            3 job_id string
            4 final bool
            5 score double
            6 features map<string, double>
            7 partial_scores double [r]
            8 error string
        """,
        "ReportResultResponse": """
            1 ok bool
        """,
    },
}

ENUMS = {
    "vmafx.controller.v1.JobStatus": {
        "PENDING": 0,
        "RUNNING": 1,
        "COMPLETED": 2,
        "FAILED": 3,
        "CANCELLED": 4,
    },
    "vmafx.v1.PixelFormat": {
        "PIXEL_FORMAT_UNSPECIFIED": 0,
        "PIXEL_FORMAT_YUV420P": 1,
        "PIXEL_FORMAT_YUV422P": 2,
        "PIXEL_FORMAT_YUV444P": 3,
        "PIXEL_FORMAT_YUV420P10LE": 4,
        "PIXEL_FORMAT_YUV422P10LE": 5,
        "PIXEL_FORMAT_YUV444P10LE": 6,
    },
}

METHODS = {
    "/vmafx.controller.v1.VmafxController/SubmitJob": "SubmitJobRequest -> SubmitJobResponse",
    "/vmafx.controller.v1.VmafxController/GetJob": "GetJobRequest -> Job",
    "/vmafx.controller.v1.VmafxController/CancelJob": "CancelJobRequest -> CancelJobResponse",
    "/vmafx.controller.v1.VmafxController/StreamJobs": "StreamJobsRequest -> stream Job",
    "/vmafx.controller.v1.VmafxController/RegisterNode": "RegisterNodeRequest -> RegisterNodeResponse",
    "/vmafx.controller.v1.VmafxController/Heartbeat": "HeartbeatRequest -> HeartbeatResponse",
    "/vmafx.controller.v1.VmafxController/PullWork": "PullWorkRequest -> PullWorkResponse",
    "/vmafx.controller.v1.VmafxController/ReportResult": "ReportResultRequest -> ReportResultResponse",
    "/vmafx.v1.VmafxScoring/Score": "ScoreRequest -> ScoreResponse",
    "/vmafx.v1.VmafxScoring/ScoreStream": "stream ScoreStreamRequest -> stream ScoreStreamResponse",
    "/vmafx.v1.VmafxScoring/Health": "HealthRequest -> HealthResponse",
}


def rows(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, messages in MESSAGES.items() for name in messages]
)
def test_a_message_has_exactly_its_fields(package: str, name: str) -> None:
    fields = FILES[package].message_types_by_name[name].fields
    shown = [row_of(field) for field in sorted(fields, key=lambda field: field.number)]
    assert shown == rows(MESSAGES[package][name])


@pytest.mark.parametrize("package", MESSAGES)
def test_a_package_has_exactly_its_messages(package: str) -> None:
    assert set(FILES[package].message_types_by_name) == set(MESSAGES[package])


def test_the_enums_have_exactly_their_values() -> None:
    enums = [enum for file in FILES.values() for enum in file.enum_types_by_name.values()]
    assert {enum.full_name: values_of(enum) for enum in enums} == ENUMS


def test_the_methods_are_exactly_these() -> None:
    services = [service for file in FILES.values() for service in file.services_by_name.values()]
    methods = [method for service in services for method in service.methods]
    assert {path_of(method): kind_of(method) for method in methods} == METHODS


def test_repeated_numbers_are_packed() -> None:
    request = controller_pb2.StreamJobsRequest(status_filter=[1, 2])
    assert request.SerializeToString() == b"\x0a\x02\x01\x02"


def test_everything_is_proto3_so_that_zeros_are_not_sent() -> None:
    assert controller_pb2.Job(status=0, final_score=0.0, error="").SerializeToString() == b""
    assert vmafx_pb2.ScoreOptions(width=0).SerializeToString() == b"\x08\x00"


def test_statuses_of_the_domain_are_those_of_the_wire() -> None:
    assert {status.name for status in JobStatus} == set(ENUMS["vmafx.controller.v1.JobStatus"])


@pytest.mark.parametrize("call", Call)
def test_calls_of_the_domain_are_methods_of_the_wire(call: Call) -> None:
    assert f"/{SERVICE}/{call.value}" in METHODS


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_files_keep_their_names_on_the_wire_although_their_modules_moved(file: FileDescriptor) -> None:
    folder = file.package.replace(".", "/")
    assert file.name.rpartition("/")[0] == folder


def test_messages_name_the_module_they_live_in() -> None:
    assert controller_pb2.Job.__module__ == controller_pb2.__name__


def row_of(field: FieldDescriptor) -> str:
    return f"{field.number} {field.name} {type_of(field)}"


def type_of(field: FieldDescriptor) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return f"map<{', '.join(type_of(message.fields_by_name[part]) for part in ('key', 'value'))}>"
    shown = next((named.name for named in (message, field.enum_type) if named is not None), None)
    shown = shown or NAMES[field.type]
    if field.is_repeated:
        return f"{shown} [r]"
    oneof = field.containing_oneof
    if oneof is None:
        return shown
    return f"optional {shown}" if oneof.name == f"_{field.name}" else f"{shown} in {oneof.name}"


NAMES = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ("double", "int32", "int64", "uint32", "uint64", "bool", "string", "bytes")
}


def values_of(enum: EnumDescriptor) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def kind_of(method: MethodDescriptor) -> str:
    sent = f"{'stream ' * method.client_streaming}{method.input_type.name}"
    return f"{sent} -> {'stream ' * method.server_streaming}{method.output_type.name}"
