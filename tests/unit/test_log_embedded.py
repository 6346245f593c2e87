"""Events through a logger of the embedding service, which nothing else is changed about (ADR 0020)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from vmafx.adapters.telemetry.embedded import LoggingTelemetry
from vmafx.adapters.telemetry.scope import ScopeFilter
from vmafx.ports.telemetry import Level


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def logger(kept) -> Iterator[logging.Logger]:
    logger = logging.getLogger("service.vmafx")
    logger.setLevel(logging.INFO)
    logger.addHandler(kept)
    yield logger
    logger.removeHandler(kept)
    logger.setLevel(logging.NOTSET)


def test_an_event_is_a_record_with_its_fields_as_extra(logger, kept):
    LoggingTelemetry(logger).event(Level.WARN, "job pulled 100 %s", {"job_id": "j", "slot": 1})
    (record,) = kept.records
    assert (record.getMessage(), record.levelno, record.name) == (
        "job pulled 100 %s",
        logging.WARNING,
        logger.name,
    )
    assert (record.job_id, record.slot) == ("j", 1)
    assert record.funcName == "test_an_event_is_a_record_with_its_fields_as_extra"


def test_fields_named_like_attributes_of_records_are_renamed(logger, kept):
    LoggingTelemetry(logger).event(
        Level.INFO, "m", {"name": "n", "args": "a", "message": "x", "asctime": "t"}
    )
    (record,) = kept.records
    assert (record.name, record.args) == (logger.name, ())
    assert (record.name_, record.args_, record.message_, record.asctime_) == ("n", "a", "x", "t")


def test_an_error_is_a_text_and_its_traceback_is_there_at_debug_only(logger, kept):
    telemetry = LoggingTelemetry(logger)
    error = OSError("reset")
    telemetry.event(Level.ERROR, "m", error=error)
    logger.setLevel(logging.DEBUG)
    telemetry.event(Level.ERROR, "m", {"error": "said already"}, error=error)
    first, second = kept.records
    assert (first.error, first.exc_info) == ("OSError: reset", None)
    assert (second.error, second.exc_info[1]) == ("said already", error)


def test_a_level_that_is_not_shown_costs_nothing(logger, kept):
    LoggingTelemetry(logger).event(Level.DEBUG, "m", {"x": 1})
    assert kept.records == []


def test_without_a_logger_it_is_the_one_of_the_library(caplog):
    with caplog.at_level(logging.INFO, logger="vmafx"):
        LoggingTelemetry().event(Level.INFO, "m")
    assert [(record.name, record.message) for record in caplog.records] == [("vmafx", "m")]


def test_a_filter_brings_the_ids_to_every_record_of_a_handler(logger, kept):
    kept.addFilter(ScopeFilter())
    telemetry = LoggingTelemetry(logger)
    with telemetry.span("vmafx.scoring", {"job_id": "j", "model": "m"}):
        logger.info("of another library")
        logger.info("with its own", extra={"job_id": "other"})
        telemetry.event(Level.INFO, "m")
    logger.info("outside")
    assert [getattr(record, "job_id", None) for record in kept.records] == ["j", "other", "j", None]
    assert not any(hasattr(record, "model") for record in kept.records)
