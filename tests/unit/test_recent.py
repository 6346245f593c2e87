"""What is made of an object once for many who want it."""

from __future__ import annotations

from vmafx.domain.recent import Recent


def test_of_one_object_it_is_made_once_and_of_an_equal_one_anew():
    made = []
    recent = Recent(lambda source: made.append(source) or len(made), count_max=2)
    one, equal = ["x"], ["x"]
    assert [recent.of(one), recent.of(one), recent.of(equal), recent.of(one)] == [1, 1, 2, 1]


def test_only_the_latest_are_remembered():
    made = []
    recent = Recent(lambda source: made.append(source) or len(made), count_max=2)
    first, *others = [[number] for number in range(3)]
    for source in (first, *others):
        recent.of(source)
    assert recent.of(others[-1]) == 3
    assert recent.of(first) == 4
    assert len(recent._known) == 2


def test_what_is_remembered_is_held_so_that_nothing_else_takes_its_place():
    recent = Recent(lambda source: source[0], count_max=1000)
    assert [recent.of([number]) for number in range(1000)] == list(range(1000))
