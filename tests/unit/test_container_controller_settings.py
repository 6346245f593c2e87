"""Every setting of a controller reaches the part that it is for (ADR 0028)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dependency_injector import providers

from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.grpc.listener import GrpcLimits
from vmafx.adapters.grpc.server_credentials import ServerTls
from vmafx.adapters.http.limits import HttpLimits
from vmafx.adapters.store.memory import MemoryStore
from vmafx.app.container.controller import ControllerContainer, _database, read_controller_settings
from vmafx.app.settings.auth import AuthSettings
from vmafx.app.settings.controller import ControllerSettings
from vmafx.app.settings.logs import LogSettings
from vmafx.app.settings.otel import OtelSettings
from vmafx.app.settings.parts import variables_of
from vmafx.app.settings.pod import PodSettings
from vmafx.app.settings.unserved import UNSERVED_BY_CONTROLLER
from vmafx.domain.address import HostPort
from vmafx.domain.lease import LeasePolicy

OPEN = {"VMAFX_AUTH_DISABLED": "true", "HOME": "/home/u"}
OTHERS = {
    "VMAFX_SCORING_ROOTS": "/clips",
    "VMAFX_PULL_WAIT": "7s",
    "VMAFX_DB_PATH": "/elsewhere/jobs.db",
    "VMAFX_STORE_LEASE_TTL": "3s",
    "VMAFX_STORE_SESSION_TTL": "4s",
    "VMAFX_STORE_SWEEP_INTERVAL": "1s",
    "VMAFX_STORE_BACKOFF_BASE": "2s",
    "VMAFX_STORE_BACKOFF_MAX": "9s",
    "VMAFX_JOB_RETENTION": "1h",
    "VMAFX_TENANT_PENDING_MAX": "8",
    "VMAFX_GRPC_LISTEN": "127.0.0.1:1111",
    "VMAFX_GRPC_TLS": "true",
    "VMAFX_GRPC_CERT_FILE": "/cert.pem",
    "VMAFX_GRPC_KEY_FILE": "/key.pem",
    "VMAFX_GRPC_MAX_RECV_SIZE": "1001",
    "VMAFX_GRPC_MAX_SEND_SIZE": "1002",
    "VMAFX_HTTP_ADDR": "127.0.0.1:2222",
    "VMAFX_HTTP_TIMEOUTS_READ": "11s",
    "VMAFX_HTTP_TIMEOUTS_HEADER": "12s",
    "VMAFX_HTTP_TIMEOUTS_WRITE": "13s",
    "VMAFX_HTTP_TIMEOUTS_IDLE": "14s",
    "VMAFX_HTTP_TIMEOUTS_SHUTDOWN": "15s",
    "VMAFX_HTTP_LIMITS_HEADER": "1003",
    "VMAFX_HTTP_LIMITS_BODY": "1004",
    "VMAFX_HTTP_LIMITS_UNLIMITED": "true",
}
"""A value for each setting that nothing has without it."""
TLS = ("VMAFX_GRPC_TLS", "VMAFX_GRPC_CERT_FILE", "VMAFX_GRPC_KEY_FILE")
OF_THE_PROGRAM = {
    name
    for kind in (LogSettings, OtelSettings, PodSettings)
    for variable, _ in variables_of(kind)
    for name in (variable.name, *variable.fallbacks)
}
"""What the program does something with, not the controller."""
REFUSED = {"VMAFX_STORE_BACKEND", "VMAFX_DB_DSN", *(each.name for each, _ in variables_of(AuthSettings))}
"""What is refused unless it has the one value that this version knows."""


def reached(**environment: str) -> dict[str, Any]:
    """What the parts of a controller were told, by the settings of an environment."""
    environment = {**OPEN, **environment}
    settings = read_controller_settings(environment)
    container = ControllerContainer(settings=settings)
    container.override_providers(
        store=providers.Object(MemoryStore(LeasePolicy())), telemetry=providers.Object(RecordingTelemetry())
    )
    grpc, http = container.grpc(), container.http()
    return {
        "policy": container.policy(),
        "controller's policy": container.controller()._policy,
        "database": _database(settings, environment) if settings.store.path else None,
        "grpc": (grpc.address, grpc._limits, grpc._tls, grpc._setting),
        "http": (http.address, http._limits, http._setting),
    }


def test_every_setting_is_known_here_or_to_the_program():
    names = {variable.name for variable, _ in variables_of(ControllerSettings)}
    assert names - OF_THE_PROGRAM - set(UNSERVED_BY_CONTROLLER) - REFUSED == set(OTHERS)


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_no_setting_is_without_effect(name):
    if name in TLS:  # which cannot be had one without the others
        after = {other: OTHERS[other] for other in TLS}
        before = {} if name == TLS[0] else {**after, name: "/other.pem"}
    else:
        before, after = {}, {name: OTHERS[name]}
    assert reached(**before) != reached(**after)


def test_the_listeners_are_told_what_was_set():
    told = reached(**OTHERS)
    assert told["grpc"] == (
        HostPort(host="127.0.0.1", port=1111),
        GrpcLimits(receive_bytes_max=1001, send_bytes_max=1002),
        ServerTls(cert_file=Path("/cert.pem"), key_file=Path("/key.pem")),
        "VMAFX_GRPC_LISTEN",
    )
    limits = {"read_s": 11.0, "header_s": 12.0, "write_s": 13.0, "idle_s": 14.0, "header_bytes_max": 1003}
    http = (
        HostPort(host="127.0.0.1", port=2222),
        HttpLimits(**limits, body_bytes_max=None),
        "VMAFX_HTTP_ADDR",
    )
    assert told["http"] == http
    bounded = reached(**{**OTHERS, "VMAFX_HTTP_LIMITS_UNLIMITED": "false"})
    assert bounded["http"][1] == HttpLimits(**limits, body_bytes_max=1004)
    assert told["policy"] == told["controller's policy"]
    assert told["policy"].shutdown_s == 15.0
    assert told["database"] == "/elsewhere/jobs.db"
