"""What a program of ours does to its own process, and no service wants done to it (ADR 0022)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Final

from vmafx.adapters.clock.system import SystemClock
from vmafx.adapters.grpc.environment import quieten, restrict_to_tls13
from vmafx.adapters.telemetry.joined import JoinedTelemetry
from vmafx.adapters.telemetry.program import LogForm, form_for, open_log
from vmafx.adapters.telemetry.traces import TracingTelemetry
from vmafx.app.settings.logs import LogFormat, LogSettings
from vmafx.app.settings.pod import PodSettings
from vmafx.ports.telemetry import Telemetry

__all__ = ["open_program_telemetry", "prepare_process"]

_STDERR: Final = 2


def prepare_process(environ: MutableMapping[str, str], *, children: bool = True) -> bool:
    """Make this process fit for a program of ours: TLS 1.3 only, no lines of grpc's own, a parent who reaps.

    Args:
        environ: The process's environment, `os.environ`, before anything imports grpc.
        children: Whether it starts processes; then all their descendants are its to reap.

    Returns:
        Whether grpc refuses TLS below 1.3 from now on.
    """
    tls13_only = restrict_to_tls13(environ)
    quieten(environ)
    if children:
        from vmafx.adapters.processes import become_subreaper  # noqa: PLC0415 - a controller starts none

        become_subreaper()
    return tls13_only


@contextmanager
def open_program_telemetry(
    settings: LogSettings, pod: PodSettings, environment: Mapping[str, str], *, traces: bool = True
) -> Generator[Telemetry]:
    """Log to standard error while the body runs, and offer spans to OpenTelemetry.

    Args:
        settings: How much is logged, and in which form.
        pod: Where this process runs, as Kubernetes tells it.
        environment: The environment of this process.
        traces: Whether spans are offered at all.

    Yields:
        The telemetry of the program.
    """
    places = {
        "pod_name": pod.name,
        "pod_namespace": pod.namespace,
        "pod_ip": pod.ip,
        "node_name": pod.node,
        "service_account": pod.service_account,
    }
    with open_log(
        _STDERR,
        clock=SystemClock(),
        form=_form(settings.format, environment),
        level=settings.level,
        static_fields={name: value for name, value in places.items() if value is not None},
    ) as log:
        yield JoinedTelemetry(log, TracingTelemetry()) if traces else log


def _form(asked: LogFormat, environment: Mapping[str, str]) -> LogForm:
    match asked:
        case LogFormat.AUTO:
            return form_for(_STDERR, environment)
        case LogFormat.TINT:
            return LogForm.TINT
        case LogFormat.JSON:
            return LogForm.JSON
