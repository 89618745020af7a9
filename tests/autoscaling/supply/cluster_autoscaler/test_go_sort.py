"""Sorting as Go does it. The permutations are those of sort.Slice of Go 1.26."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.cluster_autoscaler.go_sort import go_sorted


def order(keys: list[int]) -> list[int]:
    """The positions of the keys in sorted order."""
    return go_sorted(range(len(keys)), keys.__getitem__)


def test_twelve_elements_are_sorted_stably() -> None:
    keys = [1, 0] * 6
    assert order(keys) == [1, 3, 5, 7, 9, 11, 0, 2, 4, 6, 8, 10]


def test_more_elements_are_not_sorted_stably() -> None:
    assert order([17, 4, 13, 6, 2, 11, 0, 1, 1, 1, 5, 13, 7, 17, 5]) == [
        6,
        9,
        7,
        8,
        4,
        1,
        10,
        14,
        3,
        12,
        5,
        11,
        2,
        0,
        13,
    ]
    assert order([0, 0, 0, -1, -1, -1, -2, -2, -2, -3, -3, -3, -4, -4]) == [
        13,
        12,
        9,
        11,
        10,
        6,
        7,
        8,
        5,
        4,
        3,
        0,
        2,
        1,
    ]
    assert order([0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0]) == [
        11,
        1,
        17,
        16,
        0,
        5,
        15,
        7,
        8,
        14,
        13,
        4,
        12,
        10,
        9,
        6,
        3,
        2,
    ]
    keys = [
        3,
        1,
        1,
        1,
        0,
        3,
        3,
        2,
        3,
        1,
        2,
        3,
        1,
        0,
        0,
        2,
        1,
        0,
        3,
        0,
        3,
        0,
        0,
        2,
        0,
        1,
        2,
        3,
        0,
        3,
        2,
        0,
        2,
        3,
        1,
        3,
        2,
        3,
        2,
        2,
        2,
        0,
        3,
        2,
        3,
        1,
        2,
        1,
        3,
        3,
        1,
        2,
        2,
        1,
        0,
    ]
    assert order(keys) == [
        13,
        22,
        21,
        28,
        4,
        54,
        24,
        19,
        31,
        17,
        14,
        41,
        53,
        12,
        45,
        34,
        16,
        9,
        47,
        50,
        3,
        2,
        1,
        25,
        26,
        39,
        52,
        51,
        7,
        46,
        30,
        10,
        32,
        43,
        15,
        40,
        36,
        23,
        38,
        8,
        48,
        11,
        42,
        33,
        44,
        35,
        18,
        37,
        29,
        49,
        20,
        27,
        0,
        6,
        5,
    ]


@given(st.lists(st.integers(0, 9), max_size=400))
def test_the_result_is_a_sorted_permutation(keys: list[int]) -> None:
    found = order(keys)
    assert sorted(found) == list(range(len(keys)))
    assert [keys[index] for index in found] == sorted(keys)


@given(st.lists(st.integers(-400, 400), max_size=400, unique=True))
def test_without_ties_there_is_one_result(keys: list[int]) -> None:
    assert [keys[index] for index in order(keys)] == sorted(keys)
