"""The wait after a lost attempt: doubled, capped, without chance; and the policy that holds it (ADR 0012)."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.histories import START, after
from vmafx.domain.lease import LeasePolicy, loss_backoff_s, warranted_wait

seconds = st.floats(min_value=1e-3, max_value=1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("lost", "wait_s"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (10_000, 300)]
)
def test_the_wait_starts_at_5_s_doubles_and_stops_at_5_min(lost: int, wait_s: float):
    assert loss_backoff_s(lost, LeasePolicy()) == wait_s


@pytest.mark.parametrize("lost", [0, -1])
def test_there_is_no_wait_without_a_loss(lost: int):
    with pytest.raises(ValueError, match="lost_attempts"):
        loss_backoff_s(lost, LeasePolicy())


def test_a_cap_below_the_base_is_the_wait():
    assert loss_backoff_s(1, LeasePolicy(backoff_base_s=10, backoff_max_s=4)) == 4


@settings(max_examples=200)
@given(seconds, seconds, st.integers(1, 5000))
def test_a_wait_is_finite_positive_and_never_above_the_cap(base_s: float, cap_s: float, lost: int):
    policy = LeasePolicy(backoff_base_s=base_s, backoff_max_s=cap_s)
    wait_s = loss_backoff_s(lost, policy)
    assert math.isfinite(wait_s)
    assert min(base_s, cap_s) <= wait_s <= cap_s


@settings(max_examples=200)
@given(seconds, seconds, st.integers(1, 5000))
def test_each_wait_is_twice_the_one_before_or_the_cap(base_s: float, cap_s: float, lost: int):
    policy = LeasePolicy(backoff_base_s=base_s, backoff_max_s=cap_s)
    assert loss_backoff_s(lost + 1, policy) == min(2 * loss_backoff_s(lost, policy), cap_s)


@settings(max_examples=100)
@given(seconds, st.integers(1, 20))
def test_the_cap_is_reached_at_its_own_value_and_not_before(base_s: float, doublings: int):
    cap_s = base_s * 2.0**doublings
    assume(math.isfinite(cap_s))
    policy = LeasePolicy(backoff_base_s=base_s, backoff_max_s=cap_s)
    assert loss_backoff_s(doublings, policy) < cap_s
    assert loss_backoff_s(doublings + 1, policy) == cap_s
    assert loss_backoff_s(doublings + 2, policy) == cap_s


@pytest.mark.parametrize("name", ["lease_ttl_s", "session_ttl_s", "backoff_base_s", "backoff_max_s"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_policy_that_is_no_time_is_refused_by_name(name: str, bad: float):
    with pytest.raises(ValueError, match=name):
        LeasePolicy(**{name: bad})


def test_the_defaults_are_those_of_the_documentation():
    policy = LeasePolicy()
    assert (policy.lease_ttl_s, policy.session_ttl_s) == (60, 60)
    assert (policy.backoff_base_s, policy.backoff_max_s) == (5, 300)


@given(
    ahead_s=st.floats(-1e6, 1e6),
    lost=st.integers(0, 10),
    base_s=st.floats(1e-3, 1e3),
    cap_s=st.floats(1e-3, 1e3),
)
def test_a_wait_is_never_longer_than_a_loss_warrants_and_never_grows(ahead_s, lost, base_s, cap_s):
    policy = LeasePolicy(backoff_base_s=base_s, backoff_max_s=cap_s)
    stored = after(ahead_s)
    until = warranted_wait(stored, at=START, lost_attempts=lost, policy=policy)
    assert until <= stored
    assert until <= after(cap_s)
    assert until == stored or until >= START
    assert warranted_wait(until, at=START, lost_attempts=lost, policy=policy) == until


@given(lost=st.integers(1, 10))
def test_a_wait_that_was_just_begun_is_warranted(lost):
    stored = after(loss_backoff_s(lost, LeasePolicy()))
    assert warranted_wait(stored, at=START, lost_attempts=lost, policy=LeasePolicy()) == stored
