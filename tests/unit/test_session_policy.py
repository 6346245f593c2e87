"""Which timing keeps a session (ADR 0013)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.domain.errors import ConfigurationError
from vmafx.domain.session_policy import LOSS_WINDOW_S, SessionPolicy, timing_problems, timing_warning

INTERVAL = "VMAFX_CONTROLLER_HEARTBEAT_INTERVAL"
TIMEOUT = "VMAFX_CONTROLLER_RPC_TIMEOUT"


@pytest.mark.parametrize(
    ("interval_s", "timeout_s"), [(10, 10), (30, 30), (59, 1), (1, 59), (0.05, 0.05), (25, 10)]
)
def test_timing_within_the_window_is_accepted(interval_s: float, timeout_s: float) -> None:
    assert timing_problems(interval_s, timeout_s) == ()
    SessionPolicy(heartbeat_interval_s=interval_s, rpc_timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("interval_s", "timeout_s", "settings"),
    [
        (60, 0.5, [INTERVAL]),
        (0.5, 60, [TIMEOUT]),
        (61, 61, [INTERVAL, TIMEOUT]),
        (0, 10, [INTERVAL]),
        (-1, 0, [INTERVAL, TIMEOUT]),
        (math.nan, 10, [INTERVAL]),
        (10, math.inf, [TIMEOUT]),
        (30, 30.001, [INTERVAL]),
        (59, 59, [INTERVAL]),
    ],
)
def test_timing_that_keeps_no_session_names_every_setting_at_fault(
    interval_s: float, timeout_s: float, settings: list[str]
) -> None:
    assert [problem.setting for problem in timing_problems(interval_s, timeout_s)] == settings
    with pytest.raises(ConfigurationError) as refusal:
        SessionPolicy(heartbeat_interval_s=interval_s, rpc_timeout_s=timeout_s)
    assert all(setting in str(refusal.value) for setting in settings)


def test_sum_above_the_window_names_both_settings_and_values() -> None:
    (problem,) = timing_problems(45, 20)
    for word in (INTERVAL, TIMEOUT, "45s", "20s", "60s"):
        assert word in str(problem)


@pytest.mark.parametrize(("interval_s", "timeout_s"), [(10, 10), (25, 10), (29.5, 1)])
def test_no_warning_while_one_heartbeat_may_be_lost(interval_s: float, timeout_s: float) -> None:
    assert timing_warning(interval_s, timeout_s) is None


@pytest.mark.parametrize(("interval_s", "timeout_s"), [(25, 10.001), (30, 30), (59, 1)])
def test_warning_when_one_lost_heartbeat_costs_the_session(interval_s: float, timeout_s: float) -> None:
    warning = timing_warning(interval_s, timeout_s)
    assert warning is not None
    assert INTERVAL in warning
    assert TIMEOUT in warning


@given(interval_s=st.floats(0.001, 120), timeout_s=st.floats(0.001, 120))
def test_accepted_timing_gets_one_answer_within_the_window(interval_s: float, timeout_s: float) -> None:
    accepted = not timing_problems(interval_s, timeout_s)
    assert accepted == (
        interval_s < LOSS_WINDOW_S and timeout_s < LOSS_WINDOW_S and interval_s + timeout_s <= LOSS_WINDOW_S
    )


@given(interval_s=st.floats(0.001, 59), timeout_s=st.floats(0.001, 59))
def test_timing_without_warning_is_never_refused(interval_s: float, timeout_s: float) -> None:
    if timing_warning(interval_s, timeout_s) is None:
        assert timing_problems(interval_s, timeout_s) == ()
