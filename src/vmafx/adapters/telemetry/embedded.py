"""The log of a service that embeds vmafx: events through a logger of its choice (ADR 0020)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from vmafx.adapters.telemetry.fitting import error_text, fit_fields, fit_text
from vmafx.adapters.telemetry.scope import in_scope, scope_fields
from vmafx.ports.telemetry import Fields, Labels, Level

if TYPE_CHECKING:
    from vmafx.ports.telemetry import Telemetry

__all__ = ["LoggingTelemetry"]


class LoggingTelemetry:
    """A `Telemetry` that logs events through `logging`, values in `extra`; it changes nothing of `logging`.

    A value whose name every log record has already (`name`, `args` and so on) gets `_` behind its name. What
    the handlers of the logger raise goes no further; that they do not wait is up to whoever installs them.

    Args:
        logger: Takes the events; None is the logger `vmafx`.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("vmafx")

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Log the event; with its traceback when the logger shows `DEBUG`."""
        try:
            if self._logger.isEnabledFor(_NUMBERS[level]):
                self._log(level, message, fields, error)
        except Exception:  # noqa: BLE001, S110 - a log never harms what it is about
            pass

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Ignore it."""

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Ignore it."""

    def span(self, name: str, fields: Fields | None = None) -> AbstractContextManager[None]:  # noqa: ARG002 - no record tells of spans
        """Put the ids among the fields on every event inside, and on what a `ScopeFilter` sees."""
        return in_scope(fit_fields(fields))

    def _log(self, level: Level, message: str, fields: Fields | None, error: BaseException | None) -> None:
        said = scope_fields() | fit_fields(fields)
        if error is not None:
            said.setdefault("error", error_text(error))
        traced = error if self._logger.isEnabledFor(logging.DEBUG) else None
        extra = {f"{name}_" if name in _TAKEN else name: value for name, value in said.items()}
        self._logger.log(_NUMBERS[level], fit_text(message), extra=extra, exc_info=traced, stacklevel=3)


_NUMBERS: Final[Mapping[Level, int]] = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARN: logging.WARNING,
    Level.ERROR: logging.ERROR,
}
_TAKEN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

if TYPE_CHECKING:
    _port: type[Telemetry] = LoggingTelemetry
