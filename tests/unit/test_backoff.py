"""The backoff law (ADR 0013)."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.domain.backoff import (
    REGISTER,
    REPORT,
    SPOOL,
    Backoff,
    BackoffPolicy,
    failed_pull,
    idle_poll,
)

UNITS = st.floats(0, 1)
SECONDS = st.floats(1e-6, 1e6)
POLICIES = st.builds(BackoffPolicy, base_s=SECONDS, cap_s=SECONDS, factor=st.floats(1, 10))


def _waits(policy: BackoffPolicy, *, unit: float, count: int) -> list[float]:
    backoff, waits = policy.start(), []
    for _ in range(count):
        wait_s, backoff = backoff.draw(unit)
        waits.append(wait_s)
    return waits


def test_window_doubles_from_base_to_cap() -> None:
    assert _waits(REGISTER, unit=1.0, count=9) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_lowest_draw_is_half_the_window() -> None:
    assert _waits(REGISTER, unit=0.0, count=3) == [0.25, 0.5, 1.0]


def test_draw_in_the_middle_is_three_quarters_of_the_window() -> None:
    assert _waits(BackoffPolicy(base_s=4.0, cap_s=4.0), unit=0.5, count=1) == [3.0]


def test_report_has_eight_attempts_and_so_seven_waits() -> None:
    backoff, waits = REPORT.start(), []
    while not backoff.exhausted:
        wait_s, backoff = backoff.draw(1.0)
        waits.append(wait_s)
    assert waits == [0.5, 1, 2, 4, 8, 15, 15]
    with pytest.raises(ValueError, match="8 attempts"):
        backoff.draw(1.0)


def test_single_attempt_leaves_no_wait() -> None:
    assert BackoffPolicy(base_s=1.0, cap_s=1.0, attempts_max=1).start().exhausted


def test_reset_returns_window_and_attempts_to_the_start() -> None:
    backoff = REPORT.start()
    for _ in range(7):
        _, backoff = backoff.draw(0.5)
    assert backoff.reset() == REPORT.start()


def test_failed_pull_grows_from_the_poll_interval_to_30_s() -> None:
    assert _waits(failed_pull(2.0), unit=1.0, count=6) == [2, 4, 8, 16, 30, 30]


def test_idle_poll_never_grows() -> None:
    assert _waits(idle_poll(2.0), unit=1.0, count=5) == [2.0] * 5


def test_spool_waits_grow_from_30_s_to_5_min() -> None:
    assert _waits(SPOOL, unit=1.0, count=6) == [30, 60, 120, 240, 300, 300]


def test_poll_interval_above_the_cap_raises_the_cap() -> None:
    assert _waits(failed_pull(45.0), unit=1.0, count=3) == [45.0] * 3


def test_cap_below_base_is_raised_to_base() -> None:
    assert BackoffPolicy(base_s=8.0, cap_s=2.0).cap_s == 8.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_s": 0.0},
        {"base_s": -1.0},
        {"base_s": math.nan},
        {"base_s": math.inf},
        {"cap_s": math.nan},
        {"cap_s": math.inf},
        {"factor": 0.5},
        {"factor": math.inf},
        {"factor": math.nan},
        {"attempts_max": 0},
    ],
)
def test_policy_refuses_numbers_outside_their_range(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BackoffPolicy(**{"base_s": 1.0, "cap_s": 2.0, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("interval_s", [0.0, -2.0, math.nan])
@pytest.mark.parametrize("policy_of", [failed_pull, idle_poll])
def test_poll_interval_must_be_above_zero(policy_of: type[BackoffPolicy], interval_s: float) -> None:
    with pytest.raises(ValueError, match="base_s"):
        policy_of(interval_s)


@pytest.mark.parametrize("unit", [-0.001, 1.001, math.nan, math.inf])
def test_chance_outside_0_to_1_is_refused(unit: float) -> None:
    with pytest.raises(ValueError, match="unit"):
        REGISTER.start().draw(unit)


@given(policy=POLICIES, units=st.lists(UNITS, min_size=1, max_size=40))
def test_every_draw_lies_in_the_upper_half_of_its_window(policy: BackoffPolicy, units: list[float]) -> None:
    backoff = policy.start()
    for unit in units:
        wait_s, after = backoff.draw(unit)
        assert backoff.window_s / 2 <= wait_s <= backoff.window_s
        backoff = after


@given(policy=POLICIES, units=st.lists(UNITS, min_size=1, max_size=40))
def test_windows_grow_by_the_factor_and_stop_at_the_cap(policy: BackoffPolicy, units: list[float]) -> None:
    windows: list[Backoff] = [policy.start()]
    for unit in units:
        windows.append(windows[-1].draw(unit)[1])
    assert windows[0].window_s == policy.base_s
    for before, after in pairwise(windows):
        assert after.window_s == min(before.window_s * policy.factor, policy.cap_s)
        assert before.window_s <= after.window_s <= policy.cap_s


@given(policy=POLICIES, units=st.lists(UNITS, max_size=10), unit=UNITS)
def test_after_a_reset_the_series_begins_anew(policy: BackoffPolicy, units: list[float], unit: float) -> None:
    backoff = policy.start()
    for each in units:
        _, backoff = backoff.draw(each)
    assert backoff.reset().draw(unit) == policy.start().draw(unit)


@given(policy=POLICIES, low=UNITS, high=UNITS)
def test_higher_chance_never_waits_shorter(policy: BackoffPolicy, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert policy.start().draw(low)[0] <= policy.start().draw(high)[0]
