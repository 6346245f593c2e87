"""The contract of Telemetry, held by the fake, logs, traces, metrics and all joined (ADR 0020)."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.trace import NoOpTracer, NoOpTracerProvider

from vmafx.adapters.fakes.clock import VirtualClock
from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.adapters.telemetry.embedded import LoggingTelemetry
from vmafx.adapters.telemetry.joined import JoinedTelemetry
from vmafx.adapters.telemetry.program import LineTelemetry, LogForm
from vmafx.adapters.telemetry.prometheus import PrometheusTelemetry
from vmafx.adapters.telemetry.traces import TracingTelemetry
from vmafx.adapters.telemetry.writer import LineWriter
from vmafx.ports.metrics import Kind, MetricFamily
from vmafx.ports.telemetry import Level, Telemetry


class FailingTracer(NoOpTracer):
    def start_as_current_span(self, *args, **kwargs):
        raise RuntimeError("the SDK fails")


class FailingProvider(NoOpTracerProvider):
    def get_tracer(self, *args, **kwargs):
        return FailingTracer()


class FailingHandler(logging.Handler):
    def emit(self, record):
        raise RuntimeError("the handler fails")


@dataclass(frozen=True)
class World:
    """What a maker may use: the end of a pipe that nobody reads, and what to undo."""

    full: int
    undo: ExitStack

    def lines(self, descriptor: int | None, form: LogForm) -> LineTelemetry:
        writer = LineWriter(descriptor)
        self.undo.callback(writer.close)
        return LineTelemetry(writer, clock=VirtualClock(), form=form, level=Level.DEBUG)

    def null(self) -> int:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        self.undo.callback(os.close, descriptor)
        return descriptor

    def logger(self, handler: logging.Handler) -> logging.Logger:
        logger = logging.Logger("service", logging.DEBUG)  # noqa: LOG001 - no other test may see it
        logger.addHandler(handler)
        return logger


FAMILIES = (
    MetricFamily(name="x_total", kind=Kind.COUNTER, help="X.", labels=("tenant",), limits={"tenant": 2}),
    MetricFamily(name="x_live", kind=Kind.GAUGE, help="X.", labels=("tenant",), closed={"tenant": ("dev",)}),
    MetricFamily(name="x_seconds", kind=Kind.HISTOGRAM, help="X.", labels=("tenant",), buckets=(1.0,)),
)
FAMILY_NAMES = st.sampled_from([family.name for family in FAMILIES])
MAKERS: dict[str, Callable[[World], Telemetry]] = {
    "recording": lambda _: RecordingTelemetry(),
    "json": lambda world: world.lines(world.null(), LogForm.JSON),
    "tint": lambda world: world.lines(world.null(), LogForm.TINT),
    "nowhere": lambda world: world.lines(None, LogForm.JSON),
    "full pipe": lambda world: world.lines(world.full, LogForm.JSON),
    "logging": lambda world: LoggingTelemetry(world.logger(logging.NullHandler())),
    "failing handler": lambda world: LoggingTelemetry(world.logger(FailingHandler())),
    "traces": lambda _: TracingTelemetry(),
    "failing traces": lambda _: TracingTelemetry(FailingProvider()),
    "prometheus": lambda _: PrometheusTelemetry(FAMILIES, version="1"),
    "joined": lambda world: JoinedTelemetry(
        RecordingTelemetry(), world.lines(world.null(), LogForm.JSON), TracingTelemetry()
    ),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def telemetry(request: pytest.FixtureRequest) -> Iterator[Telemetry]:
    with ExitStack() as undo:
        reader, full = os.pipe()
        undo.callback(os.close, reader)
        undo.callback(os.close, full)
        os.set_blocking(full, False)
        while True:
            try:
                os.write(full, bytes(4096))
            except BlockingIOError:
                break
        os.set_blocking(full, True)
        yield request.param(World(full, undo))


class Mute:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class MuteError(Exception):
    __str__ = Mute.__str__
    __repr__ = Mute.__repr__


class NoMapping(dict):
    def items(self):
        raise RuntimeError("no items")

    keys = __iter__ = items


TEXTS = st.text(st.characters(exclude_categories=()), max_size=40) | st.sampled_from(
    [
        "",
        "\n",
        "\x1b[2J",
        "\u2028",
        "\udc80",
        "%s %d {}",
        "x" * 100_000,
        "time",
        "msg",
        "name",
        "args",
        "message",
    ]
)
VALUES = (
    TEXTS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**5000, -(10**5000), 2**64])
    | st.floats()
    | st.sampled_from([Mute(), object(), b"bytes", ("a", 1), Level.INFO])
)
FIELDS = st.none() | st.dictionaries(TEXTS, VALUES, max_size=5) | st.just(NoMapping(a=1))
ERRORS = st.none() | st.sampled_from(
    [
        ValueError("a\nb"),
        MuteError(),
        KeyboardInterrupt(),
        ExceptionGroup("g", [MuteError(), ValueError("\udc80")]),
    ]
)
many = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(level=st.sampled_from(Level), message=TEXTS, fields=FIELDS, error=ERRORS)
def test_no_event_raises_or_waits(telemetry, level, message, fields, error):
    assert telemetry.event(level, message, fields, error=error) is None


LABELS = (
    st.none()
    | st.dictionaries(TEXTS | st.just("tenant"), TEXTS, max_size=3)
    | st.sampled_from([NoMapping(tenant="dev"), {"tenant": []}, {"tenant": Mute()}, 7])
)


@many
@given(family=TEXTS | FAMILY_NAMES, value=st.floats() | st.sampled_from([None, "1", Mute()]), labels=LABELS)
def test_no_number_raises_or_waits(telemetry, family, value, labels):
    telemetry.count(family, labels, by=value)
    telemetry.gauge(family, value, labels)
    telemetry.observe(family, value, labels)


@many
@given(name=TEXTS, fields=FIELDS)
def test_no_span_raises_or_waits_and_spans_nest(telemetry, name, fields):
    ran = []
    with telemetry.span(name, fields), telemetry.span(name, fields):
        telemetry.event(Level.INFO, "inside")
        ran.append(1)
    assert ran == [1]


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), StopIteration(), KeyboardInterrupt(), GeneratorExit(), MuteError()],
    ids=lambda error: type(error).__name__,
)
def test_what_a_span_s_body_raises_passes_through_as_it_is(telemetry, error):
    with pytest.raises(type(error)) as caught, telemetry.span("work", {"job_id": "j"}):
        raise error
    assert caught.value is error


async def test_a_span_that_is_closed_elsewhere_does_no_harm(telemetry):
    """A generator that holds a span may be closed by another task, in another context."""

    async def holding():
        with telemetry.span("held", {"job_id": "held"}):
            yield 1

    generator = holding()
    await asyncio.create_task(anext(generator))
    await generator.aclose()
    with telemetry.span("next"):
        telemetry.event(Level.INFO, "still here")
