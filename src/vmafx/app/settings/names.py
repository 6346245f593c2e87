"""Every `VMAFX_` name that the platform gives a meaning, and which names are misspelt ones (ADR 0019)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from vmafx.domain.text import bounded, printable

__all__ = ["KNOWN_NAMES", "name_warnings", "nearest_name", "unknown_names"]

PREFIX: Final = "VMAFX_"

_LEAVES: Final = {
    "": """
        BACKEND BACKEND_UNVERIFIED DEFAULT_MODEL FFMPEG_BIN FSSPEC_SCHEMES JOB_ID JOB_RETENTION JWKS_ENDPOINT
        LENGTH_MISMATCH MAX_CONCURRENT_SCORES MODEL_DIR PULL_WAIT RUN_ID SCORE_THREADS SCORE_TIMEOUT
        SCORING_ROOTS SHUTDOWN_TIMEOUT SIDECAR_SOCKET SOURCE_IDLE_TIMEOUT TENANT_PENDING_MAX VMAF_BINARY
    """,
    "AUTH_": """
        AUDIENCE DISABLED ISSUER LEEWAY ROLES_CLAIM TENANT_CLAIM TENANTS_FILE TENANTS_NAMESPACE
        TENANTS_REFRESH TENANTS_SOURCE
    """,
    "CONTROLLER_": """
        ADDR CA_FILE HEARTBEAT_INTERVAL POLL_INTERVAL RPC_TIMEOUT SERVER_NAME TLS TOKEN TOKEN_FILE
    """,
    "DB_": "DSN PATH",
    "EBPF_": "BYPASS MOUNT_PREFIX",
    "GRPC_": "CERT_FILE KEY_FILE LISTEN MAX_RECV_SIZE MAX_SEND_SIZE TLS",
    "HTTP_": """
        ADDR HEADERS_FILE LIMITS_BODY LIMITS_HEADER LIMITS_UNLIMITED TIMEOUTS_HEADER TIMEOUTS_IDLE
        TIMEOUTS_READ TIMEOUTS_SHUTDOWN TIMEOUTS_WRITE
    """,
    "LOG_": "FORMAT LEVEL",
    "NODE_": "ID SLOTS",
    "OTEL_": """
        ENABLED ENDPOINT EXPORT_LOGS EXPORT_METRICS EXPORT_TRACES INSECURE SAMPLE_RATIO SERVICE_NAME
        SERVICE_NAMESPACE SERVICE_VERSION
    """,
    "RCLONE_": "BIN CONFIG",
    "SPOOL_": "DIR MAX_BYTES",
    "STORAGE_": "MODE MOUNT_ROOT",
    "STORE_": "BACKEND BACKOFF_BASE BACKOFF_MAX LEASE_TTL SESSION_TTL SWEEP_INTERVAL",
}
"""The names of library, node and controller by their beginnings: one environment serves all programs."""
KNOWN_NAMES: Final = frozenset(
    PREFIX + group + leaf for group, leaves in _LEAVES.items() for leaf in leaves.split()
)

_OF_KUBERNETES: Final = re.compile(
    r".*_SERVICE_HOST|.*_SERVICE_PORT(_\w+)?|\w+_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)
"""What Kubernetes sets in every container beside a service of a name such as `vmafx-controller`."""


def name_warnings(names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each name that means nothing, with the nearest one that does.

    Args:
        names: The names in an environment.
    """
    return tuple(map(_warning, unknown_names(names)))


def unknown_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the `VMAFX_` names that mean nothing to any program of the platform, sorted.

    Args:
        names: The names in an environment.
    """
    ours = (name for name in names if name.startswith(PREFIX) and name not in KNOWN_NAMES)
    return tuple(sorted(name for name in ours if not _OF_KUBERNETES.fullmatch(name)))


def nearest_name(name: str) -> str | None:
    """Return the known name that is most like another; None when none is like it."""
    import difflib  # noqa: PLC0415 - needed for a misspelt name only

    return next(iter(difflib.get_close_matches(name, sorted(KNOWN_NAMES), n=1, cutoff=0.75)), None)


def _warning(name: str) -> str:
    nearest = nearest_name(name)
    hint = f"; did you mean {nearest}?" if nearest else ""
    return f"{bounded(printable(name), _NAME_BYTES_MAX)} is not a setting, and is ignored{hint}"


_NAME_BYTES_MAX: Final = 200
"""As much of a name is shown, in bytes."""
