"""Sorting as Go's sort.Sort and sort.Slice do: not stable, but always the same for the same input.

Where the autoscaler sorts with ties and the order of equals decides something, only the same algorithm gives the same
answer. It is a pattern-defeating quicksort; up to 12 elements it is an insertion sort, which is stable.

Follows src/sort/zsortfunc.go and zsortinterface.go of Go 1.26.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_INSERTION: Final = 12
_NINTHER: Final = 50
_MOST_SWAPS: Final = 12
_MOST_STEPS: Final = 5
_SHORTEST_SHIFT: Final = 50
_MASK: Final = (1 << 64) - 1

_UNKNOWN, _RISING, _FALLING = range(3)


def go_sorted(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The items by rising key, equals in the order in which Go leaves them."""
    data = list(items)
    keys = [key(item) for item in data]
    if len(data) <= _INSERTION or all(keys[i] <= keys[i + 1] for i in range(len(keys) - 1)):
        # Insertion sort is stable, and what is in order already stays as it is.
        return [data[index] for index in sorted(range(len(data)), key=keys.__getitem__)]
    sorter = _Sorter(data, keys)
    sorter.sort(0, len(data), len(data).bit_length())
    return sorter.data


class _Sorter(Generic[T]):
    """One sort, in place."""

    def __init__(self, data: list[T], keys: list[Any]) -> None:
        self.data = data
        self._keys = keys

    def _less(self, one: int, other: int) -> bool:
        smaller: bool = self._keys[one] < self._keys[other]
        return smaller

    def _swap(self, one: int, other: int) -> None:
        data, keys = self.data, self._keys
        data[one], data[other] = data[other], data[one]
        keys[one], keys[other] = keys[other], keys[one]

    def sort(self, low: int, high: int, limit: int) -> None:
        """Sort [low, high); after `limit` bad pivots by heap."""
        balanced = partitioned = True
        while True:
            length = high - low
            if length <= _INSERTION:
                self._insertion(low, high)
                return
            if limit == 0:
                self._heap(low, high)
                return
            if not balanced:
                self._break_patterns(low, high)
                limit -= 1
            pivot, hint = self._choose_pivot(low, high)
            if hint == _FALLING:
                self._reverse(low, high)
                pivot, hint = (high - 1) - (pivot - low), _RISING
            if balanced and partitioned and hint == _RISING and self._partial_insertion(low, high):
                return
            if low > 0 and not self._less(low - 1, pivot):
                low = self._partition_equal(low, high, pivot)
                continue
            middle, partitioned = self._partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(low, middle, limit)
                low = middle + 1
            else:
                self.sort(middle + 1, high, limit)
                high = middle

    def _insertion(self, low: int, high: int) -> None:
        for begin in range(low + 1, high):
            at = begin
            while at > low and self._less(at, at - 1):
                self._swap(at, at - 1)
                at -= 1

    def _heap(self, low: int, high: int) -> None:
        length = high - low
        for root in range((length - 1) // 2, -1, -1):
            self._sift_down(root, length, low)
        for last in range(length - 1, -1, -1):
            self._swap(low, low + last)
            self._sift_down(0, last, low)

    def _sift_down(self, root: int, length: int, low: int) -> None:
        while (child := 2 * root + 1) < length:
            if child + 1 < length and self._less(low + child, low + child + 1):
                child += 1
            if not self._less(low + root, low + child):
                return
            self._swap(low + root, low + child)
            root = child

    def _partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """(new place of the pivot, whether nothing had to be moved): smaller elements before it, others after."""
        self._swap(low, pivot)
        left, right = self._narrow(low, low + 1, high - 1)
        if left > right:
            self._swap(right, low)
            return right, True
        self._swap(left, right)
        left, right = self._narrow(low, left + 1, right - 1)
        while left <= right:
            self._swap(left, right)
            left, right = self._narrow(low, left + 1, right - 1)
        self._swap(right, low)
        return right, False

    def _narrow(self, pivot: int, left: int, right: int) -> tuple[int, int]:
        while left <= right and self._less(left, pivot):
            left += 1
        while left <= right and not self._less(right, pivot):
            right -= 1
        return left, right

    def _partition_equal(self, low: int, high: int, pivot: int) -> int:
        """Elements equal to the pivot first; where the others begin. None is smaller."""
        self._swap(low, pivot)
        left, right = low + 1, high - 1
        while True:
            while left <= right and not self._less(low, left):
                left += 1
            while left <= right and self._less(low, right):
                right -= 1
            if left > right:
                return left
            self._swap(left, right)
            left += 1
            right -= 1

    def _partial_insertion(self, low: int, high: int) -> bool:
        """Put a few elements in place; whether all is sorted then."""
        at = low + 1
        for _ in range(_MOST_STEPS):
            while at < high and not self._less(at, at - 1):
                at += 1
            if at == high:
                return True
            if high - low < _SHORTEST_SHIFT:
                return False
            self._swap(at, at - 1)
            if at - low >= 2:
                for place in range(at - 1, 0, -1):
                    if not self._less(place, place - 1):
                        break
                    self._swap(place, place - 1)
            if high - at >= 2:
                for place in range(at + 1, high):
                    if not self._less(place, place - 1):
                        break
                    self._swap(place, place - 1)
        return False

    def _break_patterns(self, low: int, high: int) -> None:
        length = high - low
        if length < 8:
            return
        seed, modulus = length, 1 << length.bit_length()
        middle = low + length // 4 * 2
        for index in range(middle - 1, middle + 2):
            seed ^= (seed << 13) & _MASK
            seed ^= seed >> 7
            seed = (seed ^ (seed << 17)) & _MASK
            other = seed & (modulus - 1)
            if other >= length:
                other -= length
            self._swap(index, low + other)

    def _choose_pivot(self, low: int, high: int) -> tuple[int, int]:
        """(place of the pivot, whether the elements seem to rise or to fall)."""
        length = high - low
        step = length // 4
        one, two, three = low + step, low + step * 2, low + step * 3
        if length < 8:
            return two, _RISING
        swaps = 0
        if length >= _NINTHER:
            one, count = self._median(one - 1, one, one + 1)
            swaps += count
            two, count = self._median(two - 1, two, two + 1)
            swaps += count
            three, count = self._median(three - 1, three, three + 1)
            swaps += count
        two, count = self._median(one, two, three)
        swaps += count
        if swaps == 0:
            return two, _RISING
        return two, _FALLING if swaps == _MOST_SWAPS else _UNKNOWN

    def _median(self, one: int, two: int, three: int) -> tuple[int, int]:
        swaps = 0
        if self._less(two, one):
            one, two, swaps = two, one, swaps + 1
        if self._less(three, two):
            two, three, swaps = three, two, swaps + 1
        if self._less(two, one):
            one, two, swaps = two, one, swaps + 1
        return two, swaps

    def _reverse(self, low: int, high: int) -> None:
        self.data[low:high] = self.data[low:high][::-1]
        self._keys[low:high] = self._keys[low:high][::-1]
