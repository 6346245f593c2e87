"""The numbers behind metric families: which series a call means, and what is shown of them (ADR 0027)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias, TypeVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from vmafx.adapters.telemetry.fitting import fit_text
from vmafx.ports.metrics import LABEL_NONE, LABEL_OTHER, Kind, MetricFamily
from vmafx.ports.telemetry import Labels

__all__ = [
    "LABEL_BYTES_MAX",
    "LABEL_VALUES_MAX",
    "Counts",
    "Levels",
    "Observations",
    "ValuesSeen",
    "refuse_odd",
]

LABEL_BYTES_MAX: Final = 128
"""The longest value of a label, in bytes of UTF-8; what is longer is cut in its middle."""
LABEL_VALUES_MAX: Final = 1000
"""How many values of a label are kept apart where its family states no limit."""

_Key: TypeAlias = tuple[str, ...]
_M = TypeVar("_M", bound=MetricWrapperBase)
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


class ValuesSeen:
    """The values of open labels that this process keeps apart, by label and limit: families share them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], dict[str, str]] = {}

    def of(self, label: str, limit: int) -> dict[str, str]:
        """Return the values of a label that were seen and kept."""
        return self._seen.setdefault((label, limit), {})


class Counts:
    """The series of a counter, as a collector of prometheus-client.

    Args:
        family: The counter.
        seen: The values of labels that are kept apart.
    """

    def __init__(self, family: MetricFamily, seen: ValuesSeen) -> None:
        self._labels = _LabelValues(family, seen)
        self._counter = Counter(family.name, family.help, family.labels, registry=None)
        for key in self._labels.combinations():
            _series(self._counter, key)

    def add(self, labels: Labels | None, by: float) -> None:
        """Add to one of the series; what would make it shrink, or no number, is ignored."""
        if 0 <= by < math.inf:
            _series(self._counter, self._labels.key(labels)).inc(by)

    def describe(self) -> Iterable[Metric]:
        """Return the counter without its series."""
        return self._counter.describe()

    def collect(self) -> Iterable[Metric]:
        """Return the counter as it is now; nothing where there is no series."""
        return _shown(self._counter)


class Levels:
    """The series of a gauge, as a collector of prometheus-client.

    Args:
        family: The gauge.
        seen: The values of labels that are kept apart.
    """

    def __init__(self, family: MetricFamily, seen: ValuesSeen) -> None:
        self._family = family
        self._labels = _LabelValues(family, seen)
        gauge = self._empty()
        for key in self._labels.combinations():
            _series(gauge, key)
        self._gauge: Gauge | None = (
            gauge  # exchanged as a whole: a page may be written meanwhile, in a thread
        )

    def put(self, labels: Labels | None, value: float) -> None:
        """Set one of the series; of several that are merged, the one set last shows."""
        level = float(value)
        gauge = self._empty() if self._gauge is None else self._gauge
        _series(gauge, self._labels.key(labels)).set(level)
        self._gauge = gauge

    def replace(self, samples: Iterable[tuple[Labels, float]]) -> None:
        """Set all series, and forget those that are not among `samples`."""
        values: dict[_Key, float] = {}
        for labels, value in samples:
            key = self._labels.key(labels)
            merged = values.get(key)
            values[key] = float(value) if merged is None else self._merged(merged, value)
        gauge = self._empty()
        for key, level in values.items():
            _series(gauge, key).set(level)
        self._gauge = gauge if values else None

    def describe(self) -> Iterable[Metric]:
        """Return the gauge without its series."""
        return self._empty().describe()

    def collect(self) -> Iterable[Metric]:
        """Return the gauge as it is now; nothing where there is no series."""
        return () if self._gauge is None else _shown(self._gauge)

    def _merged(self, one: float, other: float) -> float:
        return max(one, other) if self._family.merged_by_max else one + other

    def _empty(self) -> Gauge:
        return Gauge(self._family.name, self._family.help, self._family.labels, registry=None)


class Observations:
    """The series of a histogram, as a collector of prometheus-client.

    Args:
        family: The histogram.
        seen: The values of labels that are kept apart.
    """

    def __init__(self, family: MetricFamily, seen: ValuesSeen) -> None:
        self._labels = _LabelValues(family, seen)
        self._histogram = Histogram(
            family.name, family.help, family.labels, buckets=family.buckets, registry=None
        )
        for key in self._labels.combinations():
            _series(self._histogram, key)

    def add(self, labels: Labels | None, value: float) -> None:
        """Add one observation to a series; what is no finite number is ignored."""
        if math.isfinite(value):
            _series(self._histogram, self._labels.key(labels)).observe(value)

    def describe(self) -> Iterable[Metric]:
        """Return the histogram without its series."""
        return self._histogram.describe()

    def collect(self) -> Iterable[Metric]:
        """Return the histogram as it is now; nothing where there is no series."""
        return _shown(self._histogram)


def refuse_odd(family: MetricFamily) -> None:
    """Refuse a family that contradicts itself, or that the exposition format has no words for.

    Raises:
        ValueError: The family is such; names it.
    """
    for problem in _problems(family):
        raise ValueError(f"metric {family.name}: {problem}")


class _LabelValues:
    """Turns the labels of a call into those of a series."""

    def __init__(self, family: MetricFamily, seen: ValuesSeen) -> None:
        self._labels = tuple((label, _Values.of(family, label, seen)) for label in family.labels)
        self._closed = tuple(family.closed[label] for label in family.labels if label in family.closed)

    def key(self, labels: Labels | None) -> _Key:
        told: Mapping[str, str] = labels or {}
        return tuple([values.shown(told.get(label, "")) for label, values in self._labels])

    def combinations(self) -> Iterator[_Key]:
        """Yield the keys that are there from the start: all, where all labels are closed."""
        if len(self._closed) == len(self._labels):
            yield from product(*self._closed)


@dataclass(slots=True, kw_only=True)
class _Values:
    """The values of one label.

    Attributes:
        known: What each of them is shown as.
        limit: How many may become known; those of a closed set all are.
    """

    known: dict[str, str]
    limit: int

    @classmethod
    def of(cls, family: MetricFamily, label: str, seen: ValuesSeen) -> _Values:
        if label in family.closed:
            return cls(known={value: value for value in family.closed[label]}, limit=0)
        limit = family.limits.get(label, LABEL_VALUES_MAX)
        return cls(known=seen.of(label, limit), limit=limit)

    def shown(self, value: str) -> str:
        return self.known.get(value) or self._new(value)

    def _new(self, value: str) -> str:
        """Return what a value is shown as that is not known as it stands."""
        fitted = fit_text(value, LABEL_BYTES_MAX) or LABEL_NONE
        if fitted in self.known:
            return fitted
        if self.limit and fitted in {LABEL_NONE, LABEL_OTHER}:
            return fitted
        if len(self.known) >= self.limit:
            return LABEL_OTHER
        self.known[fitted] = fitted
        return fitted


def _series(metric: _M, key: _Key) -> _M:
    """Return one series of a metric; it is there from now on."""
    return metric.labels(*key) if key else metric


def _shown(metric: MetricWrapperBase) -> Iterator[Metric]:
    """Yield a metric that has series, without the times at which they were made.

    prometheus-client can leave these out by itself, but only for a whole process, which may not be ours.
    """
    for family in metric.collect():
        made = f"{family.name}_created"
        family.samples = [sample for sample in family.samples if sample.name != made]
        if family.samples:
            yield family


def _problems(family: MetricFamily) -> Iterator[str]:
    if not all(map(_NAME.fullmatch, (family.name, *family.labels))):
        yield "its name, or that of a label, is none"
    if len({*family.labels, "le"}) <= len(family.labels):
        yield "a label is there twice, or is called le"
    if not {*family.closed, *family.limits} <= {*family.labels}:
        yield "it says something about a label that it has not"
    if (family.kind is Kind.COUNTER) != family.name.endswith("_total"):
        yield "counters, and nothing else, end in _total"
    if (family.kind is Kind.HISTOGRAM) != bool(family.buckets) or not _ascends(family.buckets):
        yield "histograms, and nothing else, have buckets: finite, ascending, the first above 0"


def _ascends(bounds: Sequence[float]) -> bool:
    return all(low < high for low, high in zip((0.0, *bounds), (*bounds, math.inf), strict=True))
