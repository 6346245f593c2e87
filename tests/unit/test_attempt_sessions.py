"""Sessions of nodes as the controller keeps them: their boundaries and their order (ADR 0012)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories import ACME, TICK_S, a_session, after
from vmafx.domain.job import NodeName, SessionId
from vmafx.domain.nodesession import SessionKey, registration_instant


def test_at_its_last_instant_a_session_is_live_and_just_after_it_is_not():
    session = a_session(at_s=0, live_s=60)
    assert session.live(after(60))
    assert not session.live(after(60 + TICK_S))


def test_a_heartbeat_gives_a_session_its_whole_life_anew():
    renewed = a_session(at_s=0, live_s=60).renewed(after(40), ttl_s=60)
    assert renewed.last_heartbeat_at == after(40)
    assert renewed.expires_at == after(100)


def test_an_extension_is_no_heartbeat():
    extended = a_session(at_s=0, live_s=60).renewed(after(40), ttl_s=60).extended(after(500), ttl_s=60)
    assert extended.last_heartbeat_at == after(40)
    assert extended.expires_at == after(560)


def test_an_extension_after_a_step_of_the_clock_ends_an_immortal_session():
    immortal = a_session(at_s=0, live_s=1e9)
    assert immortal.extended(after(0), ttl_s=60).expires_at == after(60)


@pytest.mark.parametrize("changes", [{"id": SessionId("")}, {"node": NodeName("")}, {"tenant": ""}])
def test_a_session_without_a_name_is_refused(changes: dict[str, str]):
    with pytest.raises(ValueError, match="a session needs"):
        replace(a_session(), **changes)


def test_a_session_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="registered_at"):
        replace(a_session(), registered_at=datetime(2031, 1, 1))  # noqa: DTZ001 -- the point


def test_a_key_holds_a_digest_and_never_shows_it():
    digest = bytes(range(32))
    key = SessionKey(tenant=ACME, session=SessionId("s"), token_sha256=digest)
    assert repr(digest) not in repr(key)
    assert "token" not in repr(key)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_digest_of_another_length_is_refused(size: int):
    with pytest.raises(ValueError, match="32 bytes"):
        SessionKey(tenant=ACME, session=SessionId("s"), token_sha256=bytes(size))


def test_the_first_session_of_a_name_registers_at_its_instant():
    assert registration_instant(after(5), None) == after(5)


def test_a_registration_at_the_instant_of_the_one_before_comes_a_microsecond_later():
    assert registration_instant(after(5), after(5)) == after(5 + TICK_S)
    assert registration_instant(after(3), after(5)) == after(5 + TICK_S)


def test_a_later_registration_keeps_its_instant():
    assert registration_instant(after(5), after(4)) == after(5)


@settings(max_examples=100)
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=20))
def test_sessions_of_a_name_are_ordered_as_they_registered_whatever_the_clock_does(steps: list[int]):
    registered: list[datetime] = []
    now = after(0)
    for step in steps:
        now += timedelta(microseconds=step)
        registered.append(registration_instant(now, registered[-1] if registered else None))
    assert all(earlier < later for earlier, later in pairwise(registered))
