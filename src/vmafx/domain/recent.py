"""Recent: what was made of an object lately, so that it is made once for many who want it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Recent"]

_SourceT = TypeVar("_SourceT")
_MadeT = TypeVar("_MadeT")


class Recent(Generic[_SourceT, _MadeT]):
    """Makes one thing of another, and remembers the latest of them by the identity of what they were made of.

    Args:
        make: Makes it; the same of the same object at any time.
        count_max: How many are remembered, at least 1.
    """

    def __init__(self, make: Callable[[_SourceT], _MadeT], *, count_max: int) -> None:
        self._make = make
        self._count_max = count_max
        self._known: dict[int, tuple[_SourceT, _MadeT]] = {}

    def of(self, source: _SourceT) -> _MadeT:
        """Return what is made of an object; of one that was asked for lately, what was made then."""
        known = self._known.get(id(source))
        if known is not None:  # it holds its source, so nothing else has that identity
            return known[1]
        made = self._make(source)
        self._known[id(source)] = (source, made)
        if len(self._known) > self._count_max:
            del self._known[next(iter(self._known))]
        return made
