"""Metric families: what a program counts and measures, declared once, for those who serve it (ADR 0027)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from vmafx.ports.telemetry import Labels

__all__ = [
    "HEALTH_REQUESTS",
    "LABEL_NONE",
    "LABEL_OTHER",
    "READY_REQUESTS",
    "Exposition",
    "Kind",
    "MetricFamily",
    "MetricsPage",
]

HEALTH_REQUESTS: Final = "vmafx_server_health_requests_total"
"""The counter of questions whether a process lives; whoever answers them counts."""
READY_REQUESTS: Final = "vmafx_server_ready_requests_total"
"""The counter of questions whether a process is ready."""
LABEL_NONE = "none"
"""What an empty value of a label is shown as."""
LABEL_OTHER = "other"
"""What values of a label are merged under that are outside its closed set, or too many."""


class Kind(Enum):
    """What a family is; the values are the words of the exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One family.

    Attributes:
        name: Its name as it is served, `_total` of a counter included.
        kind: What it is.
        help: One sentence for people.
        labels: Its labels, in order.
        closed: Labels with a closed set of values, and those values; a value outside it is `other`. When all
            labels are closed, every combination is shown from the start.
        limits: Labels whose values come from outside, and how many of them are kept apart; later ones are
            merged under `other`. An empty value is `none`.
        buckets: The upper bounds of a histogram, ascending, without infinity.
        merged_by_max: Whether samples of a gauge that are merged under one value show the largest, not the
            sum.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    closed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    buckets: tuple[float, ...] = ()
    merged_by_max: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """What a scrape is answered.

    Attributes:
        content: The families in the format of `content_type`.
        content_type: The media type, as the header has it.
    """

    content: bytes
    content_type: str


class Exposition(Protocol):
    """Shows the metrics of a process to those who scrape them."""

    def replace(self, family: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Say everything that a gauge shows from now on; a sample of before that is not among them is gone.

        Samples whose labels are merged under one value are added up, or the largest counts
        (`MetricFamily.merged_by_max`).

        Args:
            family: The gauge's name; a name that the process does not serve is ignored.
            samples: The labels and the value of each; none makes the family absent.
        """
        ...

    async def page(self) -> MetricsPage:
        """Return everything as it is now; what comes meanwhile may be on it."""
        ...
