"""What can go wrong with a call to a FakeController, on cue or by seed (ADR 0014)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from vmafx.adapters.fakes.controller_calls import Answer, NodeCall
from vmafx.domain.retry import StatusCode

__all__ = [
    "Delay",
    "Fail",
    "Fault",
    "FaultRule",
    "Hang",
    "LoseAnswer",
    "SeededFaults",
    "Substitute",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """The call fails before anything is done."""

    code: StatusCode = StatusCode.UNAVAILABLE
    message: str = "fault on cue"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """The work is done, and the answer is lost on its way back."""

    code: StatusCode = StatusCode.UNAVAILABLE
    message: str = "answer lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """The call waits until it is released, then goes on.

    Attributes:
        answered: Whether it waits with the work done and the answer ready, rather than before both.
    """

    answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The call takes its time.

    Attributes:
        before_s: Seconds before the work is done.
        after_s: Seconds from then to the answer.
    """

    before_s: float = 0.0
    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """Nothing is done, and this is answered instead: empty ids, a refused heartbeat, a job that is none.

    Attributes:
        answer: The answer; it must be one of the call it is cued for. None is the answer of a pull that
            finds nothing, and of a report.
    """

    answer: Answer


Fault: TypeAlias = Fail | LoseAnswer | Hang | Delay | Substitute

FaultRule: TypeAlias = Callable[[NodeCall], Fault | None]
"""Says what goes wrong with a call; None lets it be."""

_CODES: Final = (
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.INTERNAL,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.UNAUTHENTICATED,
)


class SeededFaults:
    """A `FaultRule` that draws faults from a seed: the same calls in the same order meet the same faults.

    Args:
        seed: What it draws from.
        failed: The share of calls that fail before anything is done, 0 to 1.
        lost: The share whose answer is lost.
        delayed: The share that take their time.
        delay_max_s: How long one is delayed at most on its way there, and again on its way back, in seconds.

    Raises:
        ValueError: The shares are below 0 or more than 1 together.
    """

    def __init__(
        self,
        seed: int,
        *,
        failed: float = 0.05,
        lost: float = 0.05,
        delayed: float = 0.1,
        delay_max_s: float = 5.0,
    ) -> None:
        if min(failed, lost, delayed) < 0 or failed + lost + delayed > 1:
            raise ValueError("shares of faults must be 0 or more, and at most 1 together")
        self._random = Random(seed)  # noqa: S311 -- a history that can be repeated, no secret
        self._failed = failed
        self._lost = lost
        self._delayed = delayed
        self._delay_max_s = delay_max_s

    def __call__(self, call: NodeCall) -> Fault | None:
        """Return the fault of the next call, whatever it asks."""
        share = self._random.random()
        if share < self._failed:
            return Fail(code=self._random.choice(_CODES), message=f"drawn fault of {call.kind.value}")
        if share < self._failed + self._lost:
            return LoseAnswer()
        if share < self._failed + self._lost + self._delayed:
            before_s, after_s = (self._random.uniform(0, self._delay_max_s) for _ in range(2))
            return Delay(before_s=before_s, after_s=after_s)
        return None
