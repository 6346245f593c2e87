"""Backoff: how long to wait before the next try; the window is data, chance is passed in (ADR 0013)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

__all__ = [
    "REGISTER",
    "REPORT",
    "SPOOL",
    "Backoff",
    "BackoffPolicy",
    "failed_pull",
    "idle_poll",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """How a window grows.

    Attributes:
        base_s: The first window, in seconds, above 0.
        cap_s: The largest window, in seconds; one below the base means the base.
        factor: What a window is multiplied by after each draw, at least 1.
        attempts_max: How often the thing may be tried; one wait fewer is drawn. None means without end.

    Raises:
        ValueError: A number is outside its range or not finite.
    """

    base_s: float
    cap_s: float
    factor: float = 2.0
    attempts_max: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base_s) and self.base_s > 0):
            raise ValueError(f"base_s={self.base_s} must be above 0 seconds")
        if not math.isfinite(self.cap_s):
            raise ValueError(f"cap_s={self.cap_s} must be a number of seconds")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise ValueError(f"factor={self.factor} must be at least 1")
        if self.attempts_max is not None and self.attempts_max < 1:
            raise ValueError(f"attempts_max={self.attempts_max} must be at least 1")
        if self.cap_s < self.base_s:
            object.__setattr__(self, "cap_s", self.base_s)

    def start(self) -> Backoff:
        """Return a backoff that has not waited yet."""
        return Backoff(policy=self, window_s=self.base_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A series of waits under way; `BackoffPolicy.start` makes one.

    Attributes:
        policy: How the window grows.
        window_s: The window that the next wait is drawn from, in seconds.
        draws: How many waits were drawn since the start or the last reset.
    """

    policy: BackoffPolicy
    window_s: float
    draws: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether the tries are used up, so that no wait is left to draw."""
        limit = self.policy.attempts_max
        return limit is not None and self.draws >= limit - 1

    def draw(self, unit: float) -> tuple[float, Backoff]:
        """Return the next wait, and the backoff after it.

        Args:
            unit: Chance: a number from 0 to 1, both ends included, uniform for an even spread.

        Returns:
            Seconds to wait, within the upper half of the window, and the backoff with the grown window.

        Raises:
            ValueError: `unit` is outside its range, or the tries are used up.
        """
        if not 0 <= unit <= 1:
            raise ValueError(f"unit={unit} must be from 0 to 1")
        if self.exhausted:
            raise ValueError(f"no wait is left after {self.policy.attempts_max} attempts")
        half_s = self.window_s / 2
        grown_s = min(self.window_s * self.policy.factor, self.policy.cap_s)
        return half_s + unit * half_s, replace(self, window_s=grown_s, draws=self.draws + 1)

    def reset(self) -> Backoff:
        """Return the backoff as it was at the start."""
        return self.policy.start()


REGISTER: Final = BackoffPolicy(base_s=0.5, cap_s=30.0)
"""Between tries to register; without end."""

REPORT: Final = BackoffPolicy(base_s=0.5, cap_s=15.0, attempts_max=8)
"""Between tries to deliver a report: eight tries, seven waits."""

SPOOL: Final = BackoffPolicy(base_s=30.0, cap_s=300.0)
"""Between tries to deliver what lies in the spool, under a live session; without end."""

_FAILED_PULL_CAP_S: Final = 30.0


def failed_pull(poll_interval_s: float) -> BackoffPolicy:
    """Return the policy after failed pulls; any pull that succeeds, with or without a job, resets it.

    Args:
        poll_interval_s: The poll interval in seconds, above 0; it is the first window.

    Raises:
        ValueError: The interval is not above 0.
    """
    return BackoffPolicy(base_s=poll_interval_s, cap_s=_FAILED_PULL_CAP_S)


def idle_poll(poll_interval_s: float) -> BackoffPolicy:
    """Return the policy after pulls that found no job: jittered like the others, but it never grows.

    Args:
        poll_interval_s: The poll interval in seconds, above 0.

    Raises:
        ValueError: The interval is not above 0.
    """
    return BackoffPolicy(base_s=poll_interval_s, cap_s=poll_interval_s, factor=1.0)
