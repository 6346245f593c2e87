"""What one step of a node's session leads to, and the word for a step that cannot be (ADR 0013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from vmafx.domain.errors import IllegalTransitionError
from vmafx.domain.session_effects import Effect
from vmafx.domain.session_events import Event
from vmafx.domain.session_state import State

__all__ = ["Step", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an event led to.

    Attributes:
        state: The state after it.
        effects: What is to be done, in this order.
    """

    state: State
    effects: tuple[Effect, ...] = ()


def refuse(state: State, event: Event) -> NoReturn:
    """Refuse an event that cannot happen in a state.

    Raises:
        IllegalTransitionError: Always: whoever feeds the machine is wrong.
    """
    raise IllegalTransitionError(repr(state), repr(event))
