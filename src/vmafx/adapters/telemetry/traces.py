"""Spans through OpenTelemetry's API: free of charge where no SDK is installed (ADR 0020)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.trace import Tracer, TracerProvider, get_tracer

from vmafx.adapters.telemetry.fitting import Scalar, error_text, fit_fields, fit_text
from vmafx.domain.version import __version__
from vmafx.ports.telemetry import Fields, Labels, Level

if TYPE_CHECKING:
    from vmafx.ports.telemetry import Telemetry

__all__ = ["TracingTelemetry"]

_LOG: Final = logging.getLogger(__name__)


class TracingTelemetry:
    """A `Telemetry` whose spans go to OpenTelemetry; events and numbers are ignored.

    Args:
        provider: Makes the tracer; None is the global one, also when that is set later.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = get_tracer("vmafx", __version__, tracer_provider=provider)

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Ignore it."""

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Ignore it."""

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def span(self, name: str, fields: Fields | None = None) -> AbstractContextManager[None]:
        """Return a span; what its body raises is recorded and passes through."""
        return _SpanAround(self._tracer, fit_text(name), _attributes(fit_fields(fields)))


class _SpanAround(AbstractContextManager[None]):
    """A span that stays out of the way of its body, whatever the SDK makes of it."""

    def __init__(self, tracer: Tracer, name: str, attributes: _Attributes) -> None:
        self._tracer, self._name, self._attributes = tracer, name, attributes
        self._inner: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        try:
            inner = self._tracer.start_as_current_span(self._name, attributes=self._attributes)
            inner.__enter__()
        except Exception as error:  # noqa: BLE001 - an SDK that fails costs the span, not the job
            _LOG.warning("span not started", extra={"span": self._name, "error": error_text(error)})
        else:
            self._inner = inner

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is None:
            return
        try:
            self._inner.__exit__(kind, error, trace)
        except Exception as failure:  # noqa: BLE001 - the same
            if failure is not error:
                _LOG.warning("span not ended", extra={"span": self._name, "error": error_text(failure)})


_Attributes: TypeAlias = Mapping[str, str | int | float | bool]


def _attributes(fields: Mapping[str, Scalar]) -> _Attributes:
    return {name: value for name, value in fields.items() if value is not None}


if TYPE_CHECKING:
    _port: type[Telemetry] = TracingTelemetry
