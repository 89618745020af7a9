"""Go's `sort.Slice` and `sort.Sort`, step by step: a pattern-defeating quicksort that does not keep equals in order.

Both engines sort with ties with it, so which of two equals comes first depends on how the algorithm moves them. Up to
12 elements it is an insertion sort, which does keep the order.

Follows src/sort/zsortfunc.go, zsortinterface.go and sort.go of Go 1.27.3; Go 1.26 sorts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MAX_INSERTION: Final = 12
_NINTHER: Final = 50
_MAX_STEPS: Final = 5
_MASK: Final = (1 << 64) - 1
_ALL_SWAPPED: Final = 12


def go_sorted(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The items by rising key, equals in the order in which Go leaves them."""
    data = list(items)
    keys = [key(item) for item in data]
    if len(data) <= _MAX_INSERTION or all(keys[i] <= keys[i + 1] for i in range(len(keys) - 1)):
        # Insertion sort is stable, and what is in order already stays as it is.
        return [data[index] for index in sorted(range(len(data)), key=keys.__getitem__)]
    go_sort(keys, data)
    return data


def go_sort(keys: list[Any], items: list[T]) -> None:
    """Sort both lists by the keys, in place, with the moves of Go."""
    _Sorter(keys, items).sort(0, len(keys), len(keys).bit_length())


def keeps_order(keys: list[Any]) -> bool:
    """Whether Go would take the keys, of which only one stands too far left or right, for nearly sorted.

    It then only moves that one element to its place, past smaller ones and not past equal ones.
    """
    size = len(keys)
    if size <= _MAX_INSERTION:
        return True
    return size >= _NINTHER and _Sorter(keys, keys).pivot(0, size)[1] == 0


class _Sorter:
    def __init__(self, keys: list[Any], items: list[Any]) -> None:
        self._keys = keys
        self._items = items

    def _swap(self, i: int, j: int) -> None:
        self._keys[i], self._keys[j] = self._keys[j], self._keys[i]
        self._items[i], self._items[j] = self._items[j], self._items[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while True:
            length = b - a
            if length <= _MAX_INSERTION:
                self._insertion(a, b)
                return
            if limit == 0:
                self._heap(a, b)
                return
            if not balanced:
                self._shuffle(a, b)
                limit -= 1
            pivot, swaps = self.pivot(a, b)
            if swaps == _ALL_SWAPPED:
                self._reverse(a, b)
                pivot = b - 1 - (pivot - a)
                swaps = 0
            if balanced and partitioned and swaps == 0 and self._nearly_sorted(a, b):
                return
            if a > 0 and not self._keys[a - 1] < self._keys[pivot]:
                a = self._split_equal(a, b, pivot)
                continue
            middle, partitioned = self._split(a, b, pivot)
            left, right = middle - a, b - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle

    def _insertion(self, a: int, b: int) -> None:
        keys = self._keys
        for i in range(a + 1, b):
            j = i
            while j > a and keys[j] < keys[j - 1]:
                self._swap(j, j - 1)
                j -= 1

    def _heap(self, a: int, b: int) -> None:
        size = b - a
        for root in range((size - 1) // 2, -1, -1):
            self._sift(root, size, a)
        for last in range(size - 1, -1, -1):
            self._swap(a, a + last)
            self._sift(0, last, a)

    def _sift(self, root: int, size: int, first: int) -> None:
        keys = self._keys
        while (child := 2 * root + 1) < size:
            if child + 1 < size and keys[first + child] < keys[first + child + 1]:
                child += 1
            if not keys[first + root] < keys[first + child]:
                return
            self._swap(first + root, first + child)
            root = child

    def _shuffle(self, a: int, b: int) -> None:
        length = b - a
        state, modulus = length, 1 << length.bit_length()
        for index in range(a + length // 4 * 2 - 1, a + length // 4 * 2 + 2):
            state ^= (state << 13) & _MASK
            state ^= state >> 7
            state ^= (state << 17) & _MASK
            other = state & (modulus - 1)
            self._swap(index, a + (other - length if other >= length else other))

    def pivot(self, a: int, b: int) -> tuple[int, int]:
        """The index of the pivot, and how many of the compared pairs stood the wrong way round."""
        length = b - a
        swaps = 0
        keys = self._keys

        def median(x: int, y: int, z: int) -> int:
            nonlocal swaps
            if keys[y] < keys[x]:
                swaps += 1
                x, y = y, x
            if keys[z] < keys[y]:
                swaps += 1
                y, z = z, y
            if keys[y] < keys[x]:
                swaps += 1
                x, y = y, x
            return y

        i, j, k = (a + length // 4 * quarter for quarter in (1, 2, 3))
        if length >= _NINTHER:
            i, j, k = (median(index - 1, index, index + 1) for index in (i, j, k))
        return median(i, j, k), swaps

    def _reverse(self, a: int, b: int) -> None:
        for offset in range((b - a) // 2):
            self._swap(a + offset, b - 1 - offset)

    def _nearly_sorted(self, a: int, b: int) -> bool:
        keys = self._keys
        i = a + 1
        for _ in range(_MAX_STEPS):
            while i < b and not keys[i] < keys[i - 1]:
                i += 1
            if i == b:
                return True
            if b - a < _NINTHER:
                return False
            self._swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not keys[j] < keys[j - 1]:
                        break
                    self._swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not keys[j] < keys[j - 1]:
                        break
                    self._swap(j, j - 1)
        return False

    def _split_equal(self, a: int, b: int, pivot: int) -> int:
        keys = self._keys
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not keys[a] < keys[i]:
                i += 1
            while i <= j and keys[a] < keys[j]:
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i += 1
            j -= 1

    def _split(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        keys = self._keys
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        untouched = True
        while True:
            while i <= j and keys[i] < keys[a]:
                i += 1
            while i <= j and not keys[j] < keys[a]:
                j -= 1
            if i > j:
                self._swap(j, a)
                return j, untouched
            self._swap(i, j)
            untouched = False
            i += 1
            j -= 1
