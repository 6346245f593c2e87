"""Script: how a fake answers, on cue first and by rule after that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Script"]

_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


class Script(Generic[_Question, _Answer]):
    """Answers with what was cued, in order, and by a rule when nothing is left of it.

    Args:
        rule: The answer to each question; may raise instead.
    """

    def __init__(self, rule: Callable[[_Question], _Answer]) -> None:
        self._rule = rule
        self._cued: deque[_Answer] = deque()

    def cue(self, *answers: _Answer) -> None:
        """Answer the next questions with `answers`, one each, after those cued before."""
        self._cued.extend(answers)

    def answer(self, question: _Question) -> _Answer:
        """Return the answer to `question`."""
        return self._cued.popleft() if self._cued else self._rule(question)
