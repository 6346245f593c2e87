"""A scrape shows what the store counts, or leaves it out (ADR 0025)."""

from __future__ import annotations

import pytest

from tests.desks import DEV, RIVAL, a_caller, an_office
from vmafx.app.controller import events, metrics
from vmafx.app.controller.scrape import Scrape
from vmafx.domain.errors import StoreUnavailableError
from vmafx.ports.metrics import MetricsPage

pytestmark = pytest.mark.virtual_time

PAGE = MetricsPage(content=b"all", content_type="text/plain")


class Board:
    """An `Exposition` that keeps what it was told."""

    def __init__(self) -> None:
        self.shown = {}

    def replace(self, family, samples):
        self.shown[family] = {tuple(labels.values()): value for labels, value in samples}

    async def page(self):
        return PAGE


@pytest.fixture
def office(clock):
    return an_office(clock)


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def scrape(office, board):
    return Scrape(
        office.store,
        office.store,
        clock=office.clock,
        exposition=board,
        telemetry=office.telemetry,
    )


async def test_a_scrape_shows_what_each_tenant_has_in_hand(clock, office, board, scrape):
    caller = await a_caller(office)
    for _ in range(3):
        await office.submit()
        await clock.sleep(10)
    await office.submit(tenant=RIVAL)
    await caller.pull_job()
    assert await scrape.page() is PAGE
    assert board.shown == {
        metrics.JOBS_PENDING: {(DEV,): 2.0, (RIVAL,): 1.0},
        metrics.JOBS_RUNNING: {(DEV,): 1.0, (RIVAL,): 0.0},
        metrics.OLDEST_JOB_AGE: {(DEV,): 20.0, (RIVAL,): 0.0},
        metrics.NODES_LIVE: {(): 1.0},
    }


async def test_a_tenant_with_nothing_pending_has_no_oldest_job(office, board, scrape):
    caller = await a_caller(office)
    await office.submit()
    await caller.pull_job()
    await scrape.page()
    assert board.shown[metrics.OLDEST_JOB_AGE] == {}
    assert board.shown[metrics.JOBS_RUNNING] == {(DEV,): 1.0}


async def test_an_age_is_never_negative(clock, office, board, scrape):
    await office.submit()
    clock.step_wall(-30)
    await scrape.page()
    assert board.shown[metrics.OLDEST_JOB_AGE] == {(DEV,): 0.0}


async def test_sessions_that_have_run_out_are_not_live(clock, office, board, scrape):
    await a_caller(office)
    await clock.sleep(61)
    await scrape.page()
    assert board.shown[metrics.NODES_LIVE] == {(): 0.0}


async def test_what_cannot_be_read_is_absent_once_and_counted(office, board, scrape):
    await office.submit()
    await scrape.page()
    office.store.failing = StoreUnavailableError("busy")
    assert await scrape.page() is PAGE
    assert set(board.shown) == {
        metrics.JOBS_PENDING,
        metrics.JOBS_RUNNING,
        metrics.OLDEST_JOB_AGE,
        metrics.NODES_LIVE,
    }
    assert not any(board.shown.values())
    assert office.value(metrics.READ_ERRORS, source="queue") == 1
    assert office.telemetry.messages[-1] == events.METRICS_READ_FAILED
    office.store.failing = None
    await scrape.page()
    assert board.shown[metrics.JOBS_PENDING] == {(DEV,): 1.0}
    assert office.value(metrics.READ_ERRORS, source="queue") == 1
