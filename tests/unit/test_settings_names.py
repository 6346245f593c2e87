"""The names that the platform knows, and which others are told to be misspelt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.app.settings.names import KNOWN_NAMES, nearest_name, unknown_names
from vmafx.app.settings.scorer import _CHECKS


def test_every_variable_of_the_scorer_is_known():
    ours = {name for name, _, _ in _CHECKS if name.startswith("VMAFX_")}
    assert ours
    assert ours <= KNOWN_NAMES


@pytest.mark.parametrize(
    "name",
    [
        "VMAFX_HTTP_TIMEOUTS_READ", "VMAFX_GRPC_TLS", "VMAFX_GRPC_CERT_FILE", "VMAFX_CONTROLLER_TOKEN_FILE",
        "VMAFX_STORAGE_MOUNT_ROOT", "VMAFX_OTEL_SAMPLE_RATIO", "VMAFX_STORE_LEASE_TTL", "VMAFX_DB_DSN",
        "VMAFX_AUTH_TENANTS_REFRESH", "VMAFX_JWKS_ENDPOINT", "VMAFX_SPOOL_MAX_BYTES", "VMAFX_JOB_ID",
        "VMAFX_RUN_ID", "VMAFX_EBPF_BYPASS", "VMAFX_LOG_FORMAT", "VMAFX_NODE_SLOTS", "VMAFX_RCLONE_CONFIG",
    ],
)  # fmt: skip
def test_names_of_every_program_are_known(name):
    assert name in KNOWN_NAMES
    assert unknown_names([name]) == ()


@pytest.mark.parametrize(
    "name",
    [
        "VMAFX_SERVICE_HOST", "VMAFX_CONTROLLER_SERVICE_HOST", "VMAFX_CONTROLLER_SERVICE_PORT_GRPC",
        "VMAFX_PORT", "VMAFX_CONTROLLER_PORT_9090_TCP_ADDR", "VMAFX_CONTROLLER_PORT",
    ],
)  # fmt: skip
def test_what_kubernetes_sets_beside_a_service_is_no_mistake(name):
    assert unknown_names([name]) == ()


@given(name=st.sampled_from(sorted(KNOWN_NAMES)), at=st.integers(6, 40), letter=st.sampled_from("ABXZ"))
def test_a_name_with_one_letter_too_many_is_unknown_and_has_a_neighbour(name, at, letter):
    wrong = name[:at] + letter + name[at:]
    if wrong not in KNOWN_NAMES:
        assert unknown_names([wrong, "PATH"]) == (wrong,)
        assert nearest_name(wrong) in KNOWN_NAMES


def test_a_name_unlike_all_has_no_neighbour():
    assert nearest_name("VMAFX_QQQQQQQQQQQQQQQQQQ") is None
