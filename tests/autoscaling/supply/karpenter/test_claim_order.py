"""The order of open claims is the one that Go's sort gives them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.karpenter.claim_order import ClaimOrder
from stowplan_autoscaling.supply.karpenter.go_sort import go_sort

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


def test_three_thousand_pods_on_claims_leave_the_order_that_go_leaves() -> None:
    """Each step opens a claim or fills one; the number sums up all orders on the way, as a Go program did."""
    order, seen, state = ClaimOrder(), 0, 7
    sizes: list[int] = []
    for _ in range(3000):
        order.sort()
        state = (state * 1103515245 + 12345) % 2**31
        if not sizes or (state >> 16) % 100 < 5:
            sizes.append(1)
            order.append(1)
            continue
        at = (state >> 8) % len(sizes)
        sizes[order.slots[at]] += 1
        order.grow(at)
        for place, slot in enumerate(order.slots.tolist()):
            seen = (seen * 31 + slot * (place + 1) + sizes[slot]) % 1_000_003
    assert (len(sizes), seen) == (151, 61710)


@given(st.lists(st.integers(0, 9), max_size=120))
def test_sorting_loses_nothing_and_sorts(keys: list[int]) -> None:
    sizes, items = list(keys), list(range(len(keys)))
    go_sort(sizes, items)
    assert sizes == sorted(keys)
    assert sorted(items) == list(range(len(keys)))
    assert [keys[item] for item in items] == sizes
    if len(keys) <= 12:
        assert items == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.integers(0, 10_000), max_size=150))
def test_moving_one_claim_is_as_good_as_sorting_all(steps: list[int]) -> None:
    order = ClaimOrder()
    sizes: list[int] = []
    slots: list[int] = []
    for step in steps:
        order.sort()
        go_sort(sizes, slots)
        assert order.slots.tolist() == slots
        if not sizes or step % 4 == 0:
            order.append(1)
            slots.append(len(sizes))
            sizes.append(1)
        else:
            order.grow(step % len(sizes))
            sizes[step % len(sizes)] += 1
