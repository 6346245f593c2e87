"""RecordingTelemetry: keeps what it is told, and answers questions about it (ADR 0014, ADR 0020)."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from vmafx.ports.telemetry import Fields, Labels, Level

if TYPE_CHECKING:
    from vmafx.ports.telemetry import Telemetry

__all__ = ["RecordedEvent", "RecordedSpan", "RecordingTelemetry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """One event, as it was told.

    Attributes:
        level: How much it matters.
        message: The fixed text.
        fields: The values, copied.
        error: What went wrong; None when nothing was named.
        spans: The names of the spans that were open around it, outermost first.
    """

    level: Level
    message: str
    fields: Fields
    error: BaseException | None
    spans: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpan:
    """One span that has ended.

    Attributes:
        name: Its name.
        fields: Its attributes, copied.
        inside: The names of the spans that were open where it was entered, outermost first.
        error: What it ended with; None when it ended well.
    """

    name: str
    fields: Fields
    inside: tuple[str, ...]
    error: BaseException | None


class RecordingTelemetry:
    """A `Telemetry` that keeps everything in memory, in order; it may be told from any thread."""

    events: list[RecordedEvent]
    """Every event."""
    spans: list[RecordedSpan]
    """Every span that has ended, in the order of their ends."""
    misuses: list[str]
    """What it was told against the port's words: counts below 0, values of other types and the like."""

    def __init__(self) -> None:
        self.events = []
        self.spans = []
        self.misuses = []
        self._numbers: dict[_Series, _Numbers] = {}
        self._lock = Lock()

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Keep the event."""
        copied = self._copied(f"event {message!r}", fields)
        self.events.append(
            RecordedEvent(level=level, message=message, fields=copied, error=error, spans=self._open)
        )

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Add to the counter; a count below 0 or not finite is kept as a misuse alone."""
        with self._lock, self._noting(f"counter {family!r}"):
            if not 0 <= by < math.inf:
                self.misuses.append(f"counter {family!r} was told to count {by}")
                return
            numbers = self._series(family, labels, _Kind.COUNTER)
            numbers.values[:] = [sum(numbers.values) + by]

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Set the gauge."""
        with self._lock, self._noting(f"gauge {family!r}"):
            self._series(family, labels, _Kind.GAUGE).values[:] = [value]

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Keep the observation."""
        with self._lock, self._noting(f"histogram {family!r}"):
            self._series(family, labels, _Kind.HISTOGRAM).values.append(value)

    @contextmanager
    def span(self, name: str, fields: Fields | None = None) -> Generator[None]:
        """Keep the span once it ends; what its body raises passes through.

        Yields:
            Nothing.
        """
        copied = self._copied(f"span {name!r}", fields)
        inside, mine = self._open, (self, name)
        _OPEN.set((*_OPEN.get(), mine))
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            # By identity, and no token: bodies may end out of order, or in a context they did not begin in.
            _OPEN.set(tuple(span for span in _OPEN.get() if span is not mine))
            self.spans.append(RecordedSpan(name=name, fields=copied, inside=inside, error=error))

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages of all events, in order."""
        return tuple(event.message for event in self.events)

    def events_of(self, message: str) -> tuple[RecordedEvent, ...]:
        """Return the events with this very message, in order."""
        return tuple(event for event in self.events if event.message == message)

    def spans_of(self, name: str) -> tuple[RecordedSpan, ...]:
        """Return the spans of this name that have ended, in the order of their ends."""
        return tuple(span for span in self.spans if span.name == name)

    def value(self, family: str, labels: Labels | None = None) -> float | None:
        """Return what a counter or a gauge is now.

        Args:
            family: The metric's name.
            labels: All of its labels.

        Returns:
            The sum of a counter, the last value of a gauge; None when nothing was told for these labels, or
            only observations were.
        """
        numbers = self._numbers.get(_series_of(family, labels))
        return None if numbers is None or numbers.kind is _Kind.HISTOGRAM else numbers.values[0]

    def observations(self, family: str, labels: Labels | None = None) -> tuple[float, ...]:
        """Return what was observed for a histogram, in order.

        Args:
            family: The metric's name.
            labels: All of its labels.
        """
        numbers = self._numbers.get(_series_of(family, labels))
        return tuple(numbers.values) if numbers is not None and numbers.kind is _Kind.HISTOGRAM else ()

    def assert_no_misuse(self) -> None:
        """Check that everything was told as the port wants it.

        Raises:
            AssertionError: Something was not; names it all.
        """
        if self.misuses:
            raise AssertionError("; ".join(self.misuses))

    @property
    def _open(self) -> tuple[str, ...]:
        return tuple(name for owner, name in _OPEN.get() if owner is self)

    @contextmanager
    def _noting(self, whose: str) -> Generator[None]:
        """Keep as a misuse what its body raises: telling never raises."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - labels of foreign make
            self.misuses.append(f"{whose}: what it was told cannot be read: {type(error).__name__}")

    def _copied(self, whose: str, fields: Fields | None) -> Fields:
        try:
            copied = dict(fields or {})
        except Exception as error:  # noqa: BLE001 - telling never raises
            self.misuses.append(f"{whose}: its fields cannot be read: {error!r}")
            return {}
        self.misuses.extend(f"{whose}: {misuse}" for misuse in _misuses_of(copied.items()))
        return copied

    def _series(self, family: str, labels: Labels | None, kind: _Kind) -> _Numbers:
        series = _series_of(family, labels)
        numbers = self._numbers.setdefault(series, _Numbers(kind=kind, values=[]))
        if numbers.kind is not kind:
            self.misuses.append(f"metric {family!r} was a {numbers.kind.value}, and now is a {kind.value}")
            numbers = self._numbers[series] = _Numbers(kind=kind, values=[])
        return numbers


class _Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(slots=True, kw_only=True)
class _Numbers:
    kind: _Kind
    values: list[float]


_Series: TypeAlias = tuple[str, frozenset[tuple[str, str]]]

_OPEN: Final[ContextVar[tuple[tuple[RecordingTelemetry, str], ...]]] = ContextVar("vmafx_spans", default=())


def _misuses_of(fields: Iterable[tuple[object, object]]) -> list[str]:
    return [
        f"field {key!r} is a {type(value).__name__}"
        for key, value in fields
        if not isinstance(key, str) or not isinstance(value, str | int | float | None)
    ]


def _series_of(family: str, labels: Mapping[str, str] | None) -> _Series:
    return family, frozenset((labels or {}).items())


if TYPE_CHECKING:
    _port: type[Telemetry] = RecordingTelemetry
