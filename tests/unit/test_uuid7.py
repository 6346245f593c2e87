"""UUIDs of version 7: their layout, and that they sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.domain.uuid7 import RANDOM_BITS, uuid7

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
instants = st.integers(0, 8000 * 365 * 86_400_000).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
chance = st.integers(0, 2**RANDOM_BITS - 1)


def test_the_published_example_comes_out():
    at = datetime(2022, 2, 22, 19, 22, 22, tzinfo=UTC)
    assert uuid7(at, 0xCC3 << 62 | 0x18C4DC0C0C07398F) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@given(instants, chance)
def test_version_variant_and_all_bits_of_chance_are_kept(at, bits):
    made = UUID(uuid7(at, bits))
    assert str(made) == uuid7(at, bits)
    assert (made.version, made.variant) == (7, RFC_4122)
    high, low = made.int >> 64 & 0xFFF, made.int & (1 << 62) - 1
    assert high << 62 | low == bits
    assert made.int >> 80 == (at - EPOCH) // timedelta(milliseconds=1)


@given(instants, chance, chance)
def test_a_later_one_sorts_later_as_a_text(at, bits, later_bits):
    assert uuid7(at, bits) < uuid7(at + timedelta(milliseconds=1), later_bits)


@pytest.mark.parametrize("bits", [-1, 2**RANDOM_BITS])
def test_too_much_chance_is_refused(bits):
    with pytest.raises(ValueError, match="random_bits"):
        uuid7(datetime(2024, 1, 1, tzinfo=UTC), bits)


def test_an_instant_before_the_epoch_is_refused():
    with pytest.raises(ValueError, match="1970"):
        uuid7(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 0)
