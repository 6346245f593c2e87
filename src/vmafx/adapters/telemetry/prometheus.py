"""PrometheusTelemetry: the numbers of a process, for whoever scrapes them (ADR 0027)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry, DuplicateTimeseries

from vmafx.adapters.telemetry.series import Counts, Levels, Observations, ValuesSeen, refuse_odd
from vmafx.ports.metrics import Kind, MetricFamily, MetricsPage
from vmafx.ports.telemetry import Fields, Labels, Level

if TYPE_CHECKING:
    from vmafx.ports.metrics import Exposition
    from vmafx.ports.telemetry import Telemetry

__all__ = ["BUILD_INFO", "PrometheusTelemetry"]

BUILD_INFO: Final = "vmafx_build_info"
"""The gauge that tells the version: 1, always there."""


class PrometheusTelemetry:
    """A `Telemetry` that keeps the numbers of declared families, and the `Exposition` that shows them.

    Values of labels without a closed set are kept apart up to their limit, counted over the life of the
    process and shared by the families that have the label; long ones are cut. A family of which there is no
    series is not shown at all. Beside the declared families there are `vmafx_build_info` and those of the
    process (`process_*`, `python_*`). Events and spans are ignored.

    The page is written in a thread, one at a time, so that the loop goes on meanwhile. Every number that was
    given before `page` is called is on it; those given later may be.

    Args:
        families: What is served.
        version: The version of the program.

    Raises:
        ValueError: A family contradicts itself, or two have one name.
    """

    def __init__(self, families: Sequence[MetricFamily], *, version: str) -> None:
        seen = ValuesSeen()
        self._counts: dict[str, Counts] = {}
        self._levels: dict[str, Levels] = {}
        self._observations: dict[str, Observations] = {}
        self._registry = CollectorRegistry()
        # Not the loop's own: however many pages are asked for, they take one thread, and nobody else's.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="vmafx-metrics")
        for family in _with_build_info(families):
            refuse_odd(family)
            self._add(family, seen)
        self._levels[BUILD_INFO].put({"version": version}, 1.0)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def event(
        self, level: Level, message: str, fields: Fields | None = None, *, error: BaseException | None = None
    ) -> None:
        """Ignore it."""

    def count(self, family: str, labels: Labels | None = None, *, by: float = 1.0) -> None:
        """Add to a counter; nothing negative, endless or without a number."""
        try:
            if series := self._counts.get(family):
                series.add(labels, by)
        except Exception:  # noqa: BLE001, S110 - a number never harms what it is about
            pass

    def gauge(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Set a gauge."""
        try:
            if series := self._levels.get(family):
                series.put(labels, value)
        except Exception:  # noqa: BLE001, S110 - a number never harms what it is about
            pass

    def observe(self, family: str, value: float, labels: Labels | None = None) -> None:
        """Add one observation to a histogram; nothing endless or without a number."""
        try:
            if series := self._observations.get(family):
                series.add(labels, value)
        except Exception:  # noqa: BLE001, S110 - a number never harms what it is about
            pass

    def span(self, name: str, fields: Fields | None = None) -> AbstractContextManager[None]:  # noqa: ARG002 - nothing is traced here
        """Do nothing."""
        return nullcontext()

    def replace(self, family: str, samples: Iterable[tuple[Labels, float]]) -> None:
        """Set all that a gauge shows."""
        if series := self._levels.get(family):
            series.replace(samples)

    async def page(self) -> MetricsPage:
        """Return everything as it is now, in Prometheus' text format."""
        loop = asyncio.get_running_loop()
        content = await loop.run_in_executor(self._writer, generate_latest, self._registry)
        return MetricsPage(content=content, content_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _add(self, family: MetricFamily, seen: ValuesSeen) -> None:
        series: Counts | Levels | Observations
        match family.kind:
            case Kind.COUNTER:
                series = self._counts[family.name] = Counts(family, seen)
            case Kind.GAUGE:
                series = self._levels[family.name] = Levels(family, seen)
            case Kind.HISTOGRAM:
                series = self._observations[family.name] = Observations(family, seen)
        try:
            self._registry.register(series)
        except DuplicateTimeseries as error:
            raise ValueError(f"metric {family.name} is declared twice") from error


def _with_build_info(families: Sequence[MetricFamily]) -> tuple[MetricFamily, ...]:
    if any(family.name == BUILD_INFO for family in families):
        return tuple(families)
    return (
        MetricFamily(
            name=BUILD_INFO,
            kind=Kind.GAUGE,
            help="The version of this program; always 1.",
            labels=("version",),
        ),
        *families,
    )


if TYPE_CHECKING:
    _port: type[Telemetry] = PrometheusTelemetry
    _exposition: type[Exposition] = PrometheusTelemetry
