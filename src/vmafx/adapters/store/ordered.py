"""Keys kept in order, where adding and removing one costs little however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["Grouped", "Ordered"]

_CHUNK_MAX: Final = 1024


class Sortable(Protocol):
    """Can be compared with its like."""

    def __lt__(self, other: Any, /) -> bool:  # noqa: ANN401 -- tuples of many types are
        """Return whether it comes first."""
        ...


K = TypeVar("K", bound=Sortable)
G = TypeVar("G")


class Ordered(Generic[K]):
    """A set of keys in ascending order, in chunks, so that no operation touches more than a few of them."""

    def __init__(self) -> None:
        self._chunks: list[list[K]] = []  # none is empty
        self._lasts: list[K] = []  # the greatest key of each
        self._size = 0

    def __len__(self) -> int:
        """Return how many keys there are."""
        return self._size

    def add(self, key: K) -> None:
        """Add a key that is not there."""
        if not self._chunks:
            self._chunks.append([])
            self._lasts.append(key)
        place = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        chunk = self._chunks[place]
        insort(chunk, key)
        if len(chunk) > _CHUNK_MAX:
            half = len(chunk) // 2
            self._chunks.insert(place + 1, chunk[half:])
            self._lasts.insert(place + 1, chunk[-1])
            del chunk[half:]
        self._lasts[place] = chunk[-1]
        self._size += 1

    def remove(self, key: K) -> None:
        """Remove a key.

        Raises:
            KeyError: It is not there.
        """
        place = bisect_left(self._lasts, key)
        chunk = self._chunks[place] if place < len(self._chunks) else []
        index = bisect_left(chunk, key)
        if index == len(chunk) or chunk[index] != key:
            raise KeyError(key)
        del chunk[index]
        if chunk:
            self._lasts[place] = chunk[-1]
        else:
            del self._chunks[place], self._lasts[place]
        self._size -= 1

    def first(self) -> K | None:
        """Return the least key; None when there is none."""
        return self._chunks[0][0] if self._chunks else None

    def last(self) -> K | None:
        """Return the greatest key; None when there is none."""
        return self._lasts[-1] if self._lasts else None

    def above(self, key: K | None = None) -> Iterator[K]:
        """Yield the keys in order, those above `key` only if one is given; none may be added or removed."""
        start = 0 if key is None else bisect_right(self._lasts, key)
        for place in range(start, len(self._chunks)):
            chunk = self._chunks[place]
            begin = bisect_right(chunk, key) if key is not None and place == start else 0
            for index in range(begin, len(chunk)):
                yield chunk[index]


class Grouped(Generic[G, K]):
    """Ordered keys by group; a group without keys takes no room."""

    def __init__(self) -> None:
        self._groups: dict[G, Ordered[K]] = {}

    def add(self, group: G, key: K) -> None:
        """Add a key that is not there to a group."""
        self._groups.setdefault(group, Ordered()).add(key)

    def remove(self, group: G, key: K) -> None:
        """Remove a key from a group.

        Raises:
            KeyError: It is not there.
        """
        keys = self._groups[group]
        keys.remove(key)
        if not keys:
            del self._groups[group]

    def of(self, group: G) -> Ordered[K]:
        """Return the keys of a group, to be read."""
        return self._groups.get(group) or Ordered()

    def groups(self) -> Iterator[G]:
        """Yield the groups that have keys."""
        yield from self._groups
