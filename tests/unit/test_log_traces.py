"""Spans reach an SDK with their attributes, parents and errors, and cost nothing without one (ADR 0020)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, get_current_span

from vmafx.adapters.telemetry.joined import JoinedTelemetry
from vmafx.adapters.telemetry.traces import TracingTelemetry
from vmafx.domain.version import __version__


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


def test_spans_nest_and_carry_their_fields(provider, spans):
    telemetry = TracingTelemetry(provider)
    fields = {"job_id": "j", "backend": None, "frames": 10**40, "bad": "\udc80"}
    with telemetry.span("vmafx.scoring", fields), telemetry.span("vmafx.frame.extraction"):
        assert get_current_span().is_recording()
    assert not get_current_span().is_recording()
    inner, outer = spans.get_finished_spans()
    assert (inner.name, outer.name) == ("vmafx.frame.extraction", "vmafx.scoring")
    assert inner.parent.span_id == outer.context.span_id
    assert dict(outer.attributes) == {"job_id": "j", "frames": "a number of 133 bits", "bad": "\\udc80"}
    assert (outer.instrumentation_scope.name, outer.instrumentation_scope.version) == ("vmafx", __version__)


def test_an_error_is_recorded_and_passes_through(provider, spans):
    error = ValueError("no frames")
    with pytest.raises(ValueError, match="no frames") as caught, TracingTelemetry(provider).span("s"):
        raise error
    assert caught.value is error
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.events[0].attributes["exception.message"] == "no frames"


@pytest.mark.parametrize("moment", ["on_start", "on_end"])
def test_an_sdk_that_fails_costs_the_span_and_not_the_job(provider, caplog, moment):
    class Failing(SpanProcessor):
        pass

    def fail(*args, **kwargs):
        raise RuntimeError("the exporter fails")

    setattr(Failing, moment, fail)
    provider.add_span_processor(Failing())
    ran = []
    with TracingTelemetry(provider).span("s"):
        ran.append(1)
    assert ran == [1]
    assert "RuntimeError: the exporter fails" in [getattr(record, "error", None) for record in caplog.records]
    with pytest.raises(KeyError), TracingTelemetry(provider).span("s"):
        raise KeyError


def test_parts_that_are_joined_are_inside_at_once(provider, spans):
    joined = JoinedTelemetry(TracingTelemetry(provider), TracingTelemetry(provider))
    with joined.span("s"):
        pass
    inner, outer = spans.get_finished_spans()
    assert inner.parent.span_id == outer.context.span_id


def test_a_provider_that_is_set_later_is_used():
    code = """
from vmafx.adapters.telemetry.traces import TracingTelemetry
import sys
telemetry = TracingTelemetry()
with telemetry.span("nobody sees it"):
    pass
assert "opentelemetry.sdk" not in sys.modules
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
with telemetry.span("s"):
    print(trace.get_current_span().name)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.stdout, run.stderr) == ("s\n", "")
