"""A bounded store of what a plugin worked out for a shape of pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from .pod_info import PodInfo

T = TypeVar("T")

MAX_SHAPES = 4096


class ShapeCache(Generic[T]):
    """Values by shape; they hold as long as `version` stays the same, and the longest unused go first."""

    __slots__ = ("_entries", "_make")

    def __init__(self, make: Callable[[PodInfo], T]) -> None:
        """`make` must depend on the pod's shape and on what `version` counts, and on nothing else."""
        self._make = make
        self._entries: OrderedDict[int, tuple[int, T]] = OrderedDict()

    def get(self, pod: PodInfo, version: int = 0) -> T:
        """The value for the pod's shape."""
        number = pod.shape.number
        found = self._entries.get(number)
        if found is not None and found[0] == version:
            return found[1]
        value = self._make(pod)
        self._entries[number] = (version, value)
        if len(self._entries) > MAX_SHAPES:
            self._entries.popitem(last=False)
        return value
