"""Variables that have a meaning and no effect yet: a program with one warns at its start (ADR 0019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["UNSERVED", "UNSERVED_BY_CONTROLLER", "unserved"]

_EXPORT: Final = """
    VMAFX_OTEL_ENDPOINT VMAFX_OTEL_INSECURE VMAFX_OTEL_SERVICE_NAME VMAFX_OTEL_SERVICE_VERSION
    VMAFX_OTEL_SERVICE_NAMESPACE VMAFX_OTEL_SAMPLE_RATIO VMAFX_OTEL_EXPORT_TRACES
    VMAFX_OTEL_EXPORT_METRICS VMAFX_OTEL_EXPORT_LOGS OTEL_EXPORTER_OTLP_ENDPOINT
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_METRICS_ENDPOINT
    OTEL_EXPORTER_OTLP_LOGS_ENDPOINT
"""
_NO_EXPORT: Final = "this version exports nothing"


def _by_name(reasons: Mapping[str, str]) -> Mapping[str, str]:
    return {name: reason for reason, names in reasons.items() for name in names.split()}


UNSERVED: Final = _by_name(
    {
        "this version serves no direct calls": """
        VMAFX_GRPC_LISTEN VMAFX_GRPC_TLS VMAFX_GRPC_CERT_FILE VMAFX_GRPC_KEY_FILE VMAFX_GRPC_MAX_RECV_SIZE
        VMAFX_GRPC_MAX_SEND_SIZE VMAFX_MAX_CONCURRENT_SCORES VMAFX_SCORING_ROOTS
    """,
        "this version serves no metrics or probes": """
        VMAFX_HTTP_ADDR VMAFX_HTTP_TIMEOUTS_READ VMAFX_HTTP_TIMEOUTS_HEADER VMAFX_HTTP_TIMEOUTS_WRITE
        VMAFX_HTTP_TIMEOUTS_IDLE VMAFX_HTTP_TIMEOUTS_SHUTDOWN VMAFX_HTTP_LIMITS_HEADER VMAFX_HTTP_LIMITS_BODY
        VMAFX_HTTP_LIMITS_UNLIMITED
    """,
        "this version scores local clips only": """
        VMAFX_STORAGE_MODE VMAFX_STORAGE_MOUNT_ROOT VMAFX_RCLONE_BIN VMAFX_RCLONE_CONFIG
        VMAFX_SOURCE_IDLE_TIMEOUT VMAFX_FSSPEC_SCHEMES VMAFX_HTTP_HEADERS_FILE
    """,
        "this version keeps no results on disk": "VMAFX_SPOOL_DIR VMAFX_SPOOL_MAX_BYTES",
        "this version gives no feedback": "VMAFX_SIDECAR_SOCKET",
        "this version lists no encoders": "VMAFX_FFMPEG_BIN",
        "this version has no tracker of descriptors": "VMAFX_EBPF_MOUNT_PREFIX",
        _NO_EXPORT: _EXPORT,
    }
)
"""The variables of a node, and why they have no effect; a version that serves one takes it out."""

UNSERVED_BY_CONTROLLER: Final = _by_name(
    {
        "this version of the controller scores nothing itself": "VMAFX_VMAF_BINARY VMAFX_MODEL_DIR",
        _NO_EXPORT: _EXPORT,
    }
)
"""The same for a controller."""


def unserved(environment: Mapping[str, str], reasons: Mapping[str, str] = UNSERVED) -> tuple[str, ...]:
    """Return a warning for each variable that is set and has no effect.

    Args:
        environment: Names to values; values are not shown.
        reasons: Why each variable of a program has none.
    """
    return tuple(
        f"{name} has no effect: {reason}"
        for name, reason in reasons.items()
        if environment.get(name, "").strip()
    )
