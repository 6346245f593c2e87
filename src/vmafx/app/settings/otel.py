"""OtelSettings: where traces, metrics and logs go; our names win over the standard ones (ADR 0019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from vmafx.app.settings.forms import BOOLEAN, RATIO, TEXT, Form
from vmafx.app.settings.parts import Part, optional, setting
from vmafx.domain.errors import ConfigurationError
from vmafx.domain.version import __version__

__all__ = ["OtelSettings"]


def _only_true(_name: str, text: str) -> bool:
    return text.lower() == "true"


def _without_user(endpoint: str) -> str:
    if "@" not in endpoint and "?" not in endpoint:
        return endpoint
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return "(hidden)"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme and host else "(hidden)"


def _endpoint(name: str, text: str) -> str:
    _check_endpoint(name, text)
    return text


def _check_endpoint(name: str, value: object) -> None:
    try:
        TEXT.check(name, value)
    except ConfigurationError as problem:  # without the value, which may hold credentials
        raise ConfigurationError(name, problem.problem) from None


_STANDARD_BOOLEAN: Final = Form(parse=_only_true, check=BOOLEAN.check, show=BOOLEAN.show)
"""The standard's rule: anything but `true`, in any case, is false."""
_ENDPOINT: Final = Form(parse=_endpoint, check=_check_endpoint, show=_without_user)
_GENERAL: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSettings(Part):
    """Where traces, metrics and logs are exported to; without an endpoint nothing is.

    Endpoints are left out of the repr, since they may hold credentials.

    Attributes:
        enabled: Whether there is any export; None leaves it to `sdk_disabled`.
        sdk_disabled: The standard's switch, which counts where `enabled` is None.
        insecure: Whether the export goes without TLS.
        service_name: The name of the service; None means that of the program.
        service_version: Its version.
        service_namespace: Its namespace.
        sample_ratio: The share of traces that is exported, 0 to 1.
        export_traces: Whether traces are exported.
        export_metrics: Whether metrics are.
        export_logs: Whether logs are.
        endpoint: Where everything goes that has no endpoint of its own.
        traces_endpoint: Where traces go.
        metrics_endpoint: Where metrics go.
        logs_endpoint: Where logs go.
    """

    enabled: bool | None = optional("VMAFX_OTEL_ENABLED", BOOLEAN)
    sdk_disabled: bool = setting("OTEL_SDK_DISABLED", _STANDARD_BOOLEAN, default=False)
    insecure: bool = setting("VMAFX_OTEL_INSECURE", BOOLEAN, default=True)
    service_name: str | None = optional("VMAFX_OTEL_SERVICE_NAME", TEXT, fallbacks=("OTEL_SERVICE_NAME",))
    service_version: str = setting("VMAFX_OTEL_SERVICE_VERSION", TEXT, __version__)
    service_namespace: str | None = optional("VMAFX_OTEL_SERVICE_NAMESPACE", TEXT)
    sample_ratio: float = setting("VMAFX_OTEL_SAMPLE_RATIO", RATIO, 1.0)
    export_traces: bool = setting("VMAFX_OTEL_EXPORT_TRACES", BOOLEAN, default=True)
    export_metrics: bool = setting("VMAFX_OTEL_EXPORT_METRICS", BOOLEAN, default=True)
    export_logs: bool = setting("VMAFX_OTEL_EXPORT_LOGS", BOOLEAN, default=True)
    endpoint: str | None = optional("VMAFX_OTEL_ENDPOINT", _ENDPOINT, fallbacks=(_GENERAL,), shown=False)
    traces_endpoint: str | None = optional("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", _ENDPOINT, shown=False)
    metrics_endpoint: str | None = optional("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", _ENDPOINT, shown=False)
    logs_endpoint: str | None = optional("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", _ENDPOINT, shown=False)

    @property
    def exporting(self) -> bool:
        """Whether export is switched on; it still needs an endpoint."""
        return not self.sdk_disabled if self.enabled is None else self.enabled
