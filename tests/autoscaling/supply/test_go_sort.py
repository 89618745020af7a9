"""Sorting as Go does it. Recorded with sort.Slice of Go 1.27.3 and, `go_sorted`, of Go 1.26."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.go_sort import go_sort, go_sorted

RECORDED = [
    ("103323222131", "1 0 9 11 4 6 7 8 2 3 5 10"),
    ("0010224041310", "7 1 12 3 0 9 11 2 5 4 10 6 8"),
    (
        "1113133441020200101302004342344320221323",
        "20 14 33 23 22 17 15 12 10 1 2 36 16 0 9 18 4 27 34 32 35 21 11 13 38 19 37 3 28 5 25 31 6 39 24 30 29 26 7 8",
    ),
    (
        "242320241432340240224423014000004143331012303042434134310410",
        """31 30 27 56 28 5 29 45 17 24 59 39 43 14 33 38 40 8 51 55 58 25 15 47 22 2 41 4 19 18 11 0 6 52 23 35 36 37
        12 54 10 3 42 49 44 32 46 7 48 9 50 34 13 53 16 20 26 57 21 1""",
    ),
]
"""Keys, and where Go 1.27.3 puts them: 12 stay in order, 13, 40 and 60 do not."""


@pytest.mark.parametrize(("keys", "order"), RECORDED)
def test_equal_keys_move_as_in_go(keys: str, order: str) -> None:
    sizes, items = [int(key) for key in keys], list(range(len(keys)))
    go_sort(sizes, items)
    assert items == [int(item) for item in order.split()]
    assert sizes == sorted(int(key) for key in keys)


def test_a_list_that_falls_is_turned_round() -> None:
    sizes, items = list(range(50, 0, -1)), list(range(50))
    go_sort(sizes, items)
    assert items == list(range(49, -1, -1))


def test_six_hundred_lists_of_all_sorts_end_up_as_in_go() -> None:
    """Random, few keys, saw teeth, a hill, nearly sorted, strides; the number sums up all results of a Go program."""
    seen, state = 0, 11

    def drawn() -> int:
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        return state >> 8

    for number in range(600):
        size = 13 + drawn() % 300
        keys = [_key(number, size, at, drawn) for at in range(size)]
        items = list(range(size))
        go_sort(keys, items)
        for at, item in enumerate(items):
            seen = (seen * 31 + item * (at + 1)) % 1_000_003
    assert seen == 928916


def _key(number: int, size: int, at: int, drawn: Callable[[], int]) -> int:
    kind = number % 6
    if kind == 0:
        return drawn() % (1 + size)
    if kind == 1:
        return drawn() % 3
    if kind == 2:
        return at % (2 + number % 7)
    if kind == 3:
        return at if at < size // 2 else size - at
    if kind == 4:
        return at if drawn() % 10 else drawn() % size
    return (at * at * 7 + at) % size


@given(st.lists(st.integers(0, 9), max_size=120))
def test_sorting_loses_nothing_and_sorts(keys: list[int]) -> None:
    sizes, items = list(keys), list(range(len(keys)))
    go_sort(sizes, items)
    assert sizes == sorted(keys)
    assert sorted(items) == list(range(len(keys)))
    assert [keys[item] for item in items] == sizes
    if len(keys) <= 12:
        assert items == sorted(range(len(keys)), key=keys.__getitem__)


def order(keys: list[int]) -> list[int]:
    """The positions of the keys in sorted order."""
    return go_sorted(range(len(keys)), keys.__getitem__)


def test_twelve_elements_are_sorted_stably() -> None:
    keys = [1, 0] * 6
    assert order(keys) == [1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10]


SLICES = [
    (
        "17 4 13 6 2 11 0 1 1 1 5 13 7 17 5",
        "6 9 7 8 4 1 10 14 3 12 5 11 2 0 13",
    ),
    (
        "0 0 0 -1 -1 -1 -2 -2 -2 -3 -3 -3 -4 -4",
        "13 12 9 11 10 6 7 8 5 4 3 0 2 1",
    ),
    (
        "0 0 1 1 1 0 1 0 0 1 1 0 1 0 0 0 0 0",
        "11 1 17 16 0 5 15 7 8 14 13 4 12 10 9 6 3 2",
    ),
    (
        """3 1 1 1 0 3 3 2 3 1 2 3 1 0 0 2 1 0 3 0 3 0 0 2 0 1 2 3 0 3 2 0 2 3 1 3 2 3 2 2 2 0 3 2 3 1 2 1 3 3 1 2 2
        1 0""",
        """13 22 21 28 4 54 24 19 31 17 14 41 53 12 45 34 16 9 47 50 3 2 1 25 26 39 52 51 7 46 30 10 32 43 15 40 36
        23 38 8 48 11 42 33 44 35 18 37 29 49 20 27 0 6 5""",
    ),
]
"""Keys, and the order in which Go 1.26 puts them."""


@pytest.mark.parametrize(("keys", "found"), SLICES)
def test_more_elements_are_not_sorted_stably(keys: str, found: str) -> None:
    assert order([int(key) for key in keys.split()]) == [int(place) for place in found.split()]


@given(st.lists(st.integers(0, 9), max_size=400))
def test_the_result_is_a_sorted_permutation(keys: list[int]) -> None:
    found = order(keys)
    assert sorted(found) == list(range(len(keys)))
    assert [keys[index] for index in found] == sorted(keys)


@given(st.lists(st.integers(-400, 400), max_size=400, unique=True))
def test_without_ties_there_is_one_result(keys: list[int]) -> None:
    assert [keys[index] for index in order(keys)] == sorted(keys)
