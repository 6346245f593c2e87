"""UUIDs of version 7: they sort by when they were made, so that an index grows at its end (RFC 9562)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["RANDOM_BITS", "uuid7"]

RANDOM_BITS: Final = 74
"""How many of its bits are chance."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_BITS: Final = 48
_LOW_BITS: Final = 62  # of the chance, those behind the variant; the others stand before it
_VERSION: Final = 7
_VARIANT: Final = 0b10


def uuid7(at: datetime, random_bits: int) -> str:
    """Return the UUID of an instant and of chance, in its usual form.

    Args:
        at: When it is made, aware; from 1970 to the year 9999, and only its milliseconds matter.
        random_bits: 74 bits of chance, as a number from 0 to 2**74 - 1.

    Raises:
        ValueError: `at` is before 1970, or `random_bits` is outside its range.
    """
    if not 0 <= random_bits < 1 << RANDOM_BITS:
        raise ValueError(f"random_bits={random_bits} must have at most {RANDOM_BITS} bits")
    now_ms = (at - _EPOCH) // timedelta(milliseconds=1)
    if now_ms < 0:
        raise ValueError(f"at={at} must not be before 1970")
    high, low = random_bits >> _LOW_BITS, random_bits & ((1 << _LOW_BITS) - 1)
    value = now_ms << (128 - _TIME_BITS) | _VERSION << 76 | high << 64 | _VARIANT << _LOW_BITS | low
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
