"""Telemetry: what operators see of a process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol, TypeAlias

__all__ = ["Fields", "Labels", "Level", "Telemetry"]

Fields: TypeAlias = Mapping[str, str | int | float | bool | None]
"""The values of an event; texts from outside are given as they are, and made fit by whoever writes them."""

Labels: TypeAlias = Mapping[str, str]


class Level(Enum):
    """How much an event matters; the values are the words of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Telemetry(Protocol):
    """Takes events, numbers and spans. No method waits or raises, whatever becomes of what it was told."""

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Write one log line.

        Args:
            level: How much it matters.
            message: A fixed text that operators search for; values go into `fields`.
            fields: The values; secrets are never among them.
            error: What went wrong; shown without its traceback, except at `DEBUG`.
        """
        ...

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Add to a counter.

        Args:
            family: The metric's name; a name that the process does not serve is ignored.
            labels: The values of its labels; one outside a closed set becomes `other`.
            by: How much, 0 or more.
        """
        ...

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Set a gauge.

        Args:
            family: The metric's name; a name that the process does not serve is ignored.
            value: What it is now.
            labels: The values of its labels; one outside a closed set becomes `other`.
        """
        ...

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Add one observation to a histogram.

        Args:
            family: The metric's name; a name that the process does not serve is ignored.
            value: What was observed; durations are in seconds.
            labels: The values of its labels; one outside a closed set becomes `other`.
        """
        ...

    def span(self, name: str, fields: Fields | None = None) -> AbstractContextManager[None]:
        """Return a context that is one span of a trace, inside the span that is open where it is entered.

        Args:
            name: The span's name.
            fields: Its attributes.
        """
        ...
