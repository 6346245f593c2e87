"""The families of a controller are those that dashboards know (ADR 0025)."""

from __future__ import annotations

import pytest

from vmafx.app.controller import metrics
from vmafx.app.controller.metrics import CONTROLLER_FAMILIES
from vmafx.domain.job import RequeueReason
from vmafx.ports.metrics import Kind

EXPECTED = {
    "vmafx_build_info": (Kind.GAUGE, ("version",)),
    "vmafx_metrics_read_errors_total": (Kind.COUNTER, ("source",)),
    "vmafx_server_score_requests_total": (Kind.COUNTER, ()),
    "vmafx_server_score_errors_total": (Kind.COUNTER, ()),
    "vmafx_server_score_duration_seconds": (Kind.HISTOGRAM, ()),
    "vmafx_server_health_requests_total": (Kind.COUNTER, ()),
    "vmafx_server_ready_requests_total": (Kind.COUNTER, ()),
    "vmafx_controller_jobs_submitted_total": (Kind.COUNTER, ("tenant",)),
    "vmafx_controller_jobs_completed_total": (Kind.COUNTER, ("tenant",)),
    "vmafx_controller_jobs_failed_total": (Kind.COUNTER, ("tenant",)),
    "vmafx_controller_jobs_cancelled_total": (Kind.COUNTER, ("tenant",)),
    "vmafx_controller_jobs_requeued_total": (Kind.COUNTER, ("reason",)),
    "vmafx_controller_jobs_pending": (Kind.GAUGE, ("tenant",)),
    "vmafx_controller_jobs_running": (Kind.GAUGE, ("tenant",)),
    "vmafx_controller_queue_oldest_job_age_seconds": (Kind.GAUGE, ("tenant",)),
    "vmafx_controller_nodes_live": (Kind.GAUGE, ()),
    "vmafx_controller_job_queue_wait_seconds": (Kind.HISTOGRAM, ("tenant",)),
    "vmafx_controller_job_duration_seconds": (Kind.HISTOGRAM, ("tenant", "outcome")),
    "vmafx_quality_score": (Kind.HISTOGRAM, ("tenant", "model", "profile")),
}
BY_NAME = {family.name: family for family in CONTROLLER_FAMILIES}
BUCKETS = {
    metrics.SCORE_DURATION: "0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 120 300 600 1800",
    metrics.QUEUE_WAIT: "1 5 15 30 60 120 300 600 1200 1800 3600 7200",
    metrics.JOB_DURATION: "1 5 15 30 60 120 300 600 1200 1800 3600 7200",
    metrics.QUALITY_SCORE: "20 30 40 50 60 70 75 80 85 88 90 92 94 96 98 100",
}


def test_the_families_are_exactly_these():
    assert {f.name: (f.kind, f.labels) for f in CONTROLLER_FAMILIES} == EXPECTED
    assert len(CONTROLLER_FAMILIES) == len(BY_NAME)


def test_every_family_has_a_name_as_a_constant():
    constants = list(vars(metrics).values())
    assert all(name in constants for name in EXPECTED)


@pytest.mark.parametrize("name", BUCKETS)
def test_the_buckets_are_these(name):
    assert BY_NAME[name].buckets == tuple(float(bound) for bound in BUCKETS[name].split())


def test_only_histograms_have_buckets():
    assert {f.name for f in CONTROLLER_FAMILIES if f.buckets} == BUCKETS.keys()


def test_every_label_is_closed_or_limited():
    for family in CONTROLLER_FAMILIES:
        assert sorted(family.labels) == sorted([*family.closed, *family.limits]), family.name


def test_limits_are_those_that_dashboards_were_made_for():
    for family in CONTROLLER_FAMILIES:
        assert family.limits.get("tenant", 256) == 256
        assert family.limits.get("model", 64) == 64


def test_all_seven_reasons_are_there_from_the_start():
    assert set(BY_NAME[metrics.JOBS_REQUEUED].closed["reason"]) == {
        "node_lost",
        "lease_expired",
        "never_started",
        "retryable_failure",
        "released",
        "assign_rollback",
        "controller_restart",
    }
    assert len(RequeueReason) == 7


def test_closed_labels_hold_these():
    assert BY_NAME[metrics.JOB_DURATION].closed == {"outcome": ("completed", "failed", "cancelled")}
    assert BY_NAME[metrics.QUALITY_SCORE].closed == {"profile": ("none",)}
    assert BY_NAME[metrics.READ_ERRORS].closed == {"source": ("queue",)}


def test_merged_ages_show_the_oldest_and_counts_add_up():
    assert [f.name for f in CONTROLLER_FAMILIES if f.merged_by_max] == [metrics.OLDEST_JOB_AGE]


def test_every_family_has_one_sentence_of_help():
    for family in CONTROLLER_FAMILIES:
        assert family.help.endswith(".")
        assert "\n" not in family.help
