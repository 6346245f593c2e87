"""Keys kept in order: the same answers as a sorted list, at a cost that does not grow with it."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vmafx.adapters.store.ordered import Grouped, Ordered

MANY = 5000  # some chunks


class Counting:
    """A key that counts how often any is compared."""

    compared = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: Counting) -> bool:
        Counting.compared += 1
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counting) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


def shuffled(count: int, by: int = 1777) -> list[int]:
    """All numbers below `count`, which has no divisor in common with `by`."""
    return [number * by % count for number in range(count)]


def filled(values: list[int]) -> Ordered[int]:
    keys: Ordered[int] = Ordered()
    for value in values:
        keys.add(value)
    return keys


@given(
    st.lists(st.integers(0, 30), unique=True),
    st.lists(st.integers(0, 30)),
    st.none() | st.integers(-1, 31),
)
def test_it_answers_as_a_sorted_list_does(added: list[int], removed: list[int], place: int | None) -> None:
    keys, model = filled(added), set(added)
    for key in removed:
        if key in model:
            keys.remove(key)
            model.remove(key)
        else:
            with pytest.raises(KeyError):
                keys.remove(key)
    in_order = sorted(model)
    assert len(keys) == len(in_order)
    assert list(keys.above(place)) == [key for key in in_order if place is None or key > place]
    assert keys.first() == (in_order[0] if in_order else None)
    assert keys.last() == (in_order[-1] if in_order else None)


@pytest.mark.parametrize("by", [1, 3, 1777, 4999])
def test_many_keys_stay_in_order_while_they_come_and_go(by: int) -> None:
    values = shuffled(MANY, by)
    keys = filled(values)
    gone = set(values[:: 1 + by % 3])
    for key in gone:
        keys.remove(key)
    left = [key for key in range(MANY) if key not in gone]
    assert list(keys.above()) == left
    assert list(keys.above(MANY // 2)) == [key for key in left if key > MANY // 2]
    for key in gone:
        keys.add(key)
    assert list(keys.above()) == list(range(MANY))
    for key in range(MANY):
        assert keys.first() == key
        keys.remove(key)
    assert (len(keys), keys.first(), keys.last()) == (0, None, None)


@pytest.mark.parametrize("values", [list(range(MANY)), list(range(MANY))[::-1], shuffled(MANY)])
def test_no_operation_looks_at_more_than_a_few_keys(values: list[int]) -> None:
    keys: Ordered[Counting] = Ordered()
    most = 0
    for value in values:
        Counting.compared = 0
        keys.add(Counting(value))
        most = max(most, Counting.compared)
    for value in values[:100]:
        Counting.compared = 0
        list(islice(keys.above(Counting(value)), 3))
        keys.remove(Counting(value))
        most = max(most, Counting.compared)
    assert most < 60


def test_a_group_without_keys_takes_no_room() -> None:
    grouped: Grouped[str, int] = Grouped()
    grouped.add("a", 2)
    grouped.add("a", 1)
    grouped.add("b", 3)
    assert list(grouped.of("a").above()) == [1, 2]
    assert list(grouped.of("none").above()) == []
    assert list(grouped.groups()) == ["a", "b"]
    grouped.remove("a", 1)
    grouped.remove("a", 2)
    assert list(grouped.groups()) == ["b"]
    with pytest.raises(KeyError):
        grouped.remove("a", 1)
