"""Several telemetries as one: lines, spans, and whatever serves the numbers (ADR 0020)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vmafx.ports.telemetry import Fields, Labels, Level, Telemetry

__all__ = ["JoinedTelemetry"]


class JoinedTelemetry:
    """A `Telemetry` that tells each of its parts everything; a part ignores what it has no use for.

    Args:
        parts: Told in this order; their spans end in the other order.
    """

    def __init__(self, *parts: Telemetry) -> None:
        self._parts = parts

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Tell every part."""
        for part in self._parts:
            part.event(level, message, fields, error=error)

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Tell every part."""
        for part in self._parts:
            part.count(family, labels, by=by)

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Tell every part."""
        for part in self._parts:
            part.gauge(family, value, labels)

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Tell every part."""
        for part in self._parts:
            part.observe(family, value, labels)

    @contextmanager
    def span(self, name: str, fields: Fields | None = None) -> Generator[None]:
        """Be inside a span of every part.

        Yields:
            Nothing.
        """
        with ExitStack() as spans:
            for part in self._parts:
                spans.enter_context(part.span(name, fields))
            yield


if TYPE_CHECKING:
    _port: type[Telemetry] = JoinedTelemetry
