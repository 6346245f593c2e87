"""RecordingTelemetry keeps what it is told and answers questions about it (ADR 0014, ADR 0020)."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from vmafx.adapters.fakes.telemetry import RecordingTelemetry
from vmafx.ports.telemetry import Level


@pytest.fixture
def telemetry() -> RecordingTelemetry:
    return RecordingTelemetry()


def test_events_are_kept_in_order_with_their_fields_copied(telemetry):
    fields, error = {"job_id": "j"}, OSError("x")
    telemetry.event(Level.INFO, "job pulled", fields)
    telemetry.event(Level.WARN, "ReportResult failed; retrying", error=error)
    fields["job_id"] = "changed"
    assert telemetry.messages == ("job pulled", "ReportResult failed; retrying")
    assert telemetry.events_of("job pulled")[0].fields == {"job_id": "j"}
    assert telemetry.events[1].error is error
    assert telemetry.events_of("never said") == ()


async def test_spans_nest_by_task_and_say_what_they_ended_with(telemetry):
    error = ValueError("x")

    async def task(name: str) -> None:
        with telemetry.span(name):
            await asyncio.sleep(0)
            telemetry.event(Level.INFO, name)

    async def main() -> None:
        with telemetry.span("outer", {"job_id": "j"}):
            await asyncio.gather(task("a"), task("b"))
            raise error

    with pytest.raises(ValueError, match="x"):
        await main()
    assert [(span.name, span.inside, span.error) for span in telemetry.spans] == [
        ("a", ("outer",), None),
        ("b", ("outer",), None),
        ("outer", (), error),
    ]
    assert telemetry.events_of("a")[0].spans == ("outer", "a")
    assert telemetry.spans_of("outer")[0].fields == {"job_id": "j"}


def test_two_recordings_do_not_see_each_other_s_spans(telemetry):
    other = RecordingTelemetry()
    with telemetry.span("mine"), other.span("theirs"):
        other.event(Level.INFO, "m")
    assert other.events[0].spans == ("theirs",)


def test_numbers_are_kept_by_family_and_labels(telemetry):
    telemetry.count("jobs", {"outcome": "completed", "backend": "cpu"})
    telemetry.count("jobs", {"backend": "cpu", "outcome": "completed"}, by=2)
    telemetry.count("jobs")
    telemetry.gauge("running", 3)
    telemetry.gauge("running", 1)
    telemetry.observe("duration_s", 2.5)
    telemetry.observe("duration_s", 0.5)
    assert telemetry.value("jobs", {"outcome": "completed", "backend": "cpu"}) == 3
    assert telemetry.value("jobs") == 1
    assert telemetry.value("running") == 1
    assert telemetry.observations("duration_s") == (2.5, 0.5)
    telemetry.assert_no_misuse()


def test_what_was_never_told_is_none_and_not_0(telemetry):
    telemetry.observe("duration_s", 1)
    telemetry.count("jobs", {"outcome": "failed"})
    assert telemetry.value("jobs") is None
    assert telemetry.value("duration_s") is None
    assert telemetry.observations("jobs", {"outcome": "failed"}) == ()


@pytest.mark.parametrize("by", [-1, math.nan, math.inf])
def test_a_count_that_no_counter_can_take_is_a_misuse(telemetry, by):
    telemetry.count("jobs", by=by)
    assert telemetry.value("jobs") is None
    with pytest.raises(AssertionError, match="'jobs' was told to count"):
        telemetry.assert_no_misuse()


@pytest.mark.parametrize("labels", [7, {"tenant": []}], ids=str)
def test_labels_that_cannot_be_read_are_a_misuse(telemetry, labels):
    telemetry.count("x_total", labels)
    telemetry.gauge("x_live", 1.0, labels)
    telemetry.observe("x_seconds", 1.0, labels)
    assert [misuse.partition(":")[0] for misuse in telemetry.misuses] == [
        "counter 'x_total'",
        "gauge 'x_live'",
        "histogram 'x_seconds'",
    ]


def test_values_of_other_types_and_families_of_two_kinds_are_misuses(telemetry):
    telemetry.event(Level.INFO, "m", {"error": ValueError("x"), "ok": None, 7: "x"})
    with telemetry.span("s", {"path": b"x"}):
        pass
    telemetry.count("jobs")
    telemetry.gauge("jobs", 5)
    assert telemetry.value("jobs") == 5
    assert telemetry.misuses == [
        "event 'm': field 'error' is a ValueError",
        "event 'm': field 7 is a str",
        "span 's': field 'path' is a bytes",
        "metric 'jobs' was a counter, and now is a gauge",
    ]


def test_threads_lose_no_count(telemetry):
    def work() -> None:
        for _ in range(500):
            telemetry.count("n")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert telemetry.value("n") == 2000


def test_spans_that_end_out_of_order_leave_nothing_open(telemetry):
    first, second = telemetry.span("first"), telemetry.span("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    telemetry.event(Level.INFO, "between")
    second.__exit__(None, None, None)
    telemetry.event(Level.INFO, "after")
    assert [event.spans for event in telemetry.events] == [("second",), ()]
