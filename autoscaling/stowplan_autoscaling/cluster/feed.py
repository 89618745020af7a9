"""The change feed: every write of the API server goes to every watcher, in order, after the watcher's latency.

A delivery is one change for one watcher. Deliveries come in the order of (time due, resource version, watcher), one per
call, so that the reaction to a change is complete, as far as it needs no time, before the next change is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel


class ChangeType(IntEnum):
    """What happened to an object."""

    ADDED = 0
    MODIFIED = 1
    DELETED = 2


class Change(msgspec.Struct, frozen=True):
    """One write. `old` is None for ADDED; for DELETED `new` is the last state of the object."""

    due: int
    version: int
    type: ChangeType
    kind: str
    key: str
    old: Any
    new: Any


Selects = Callable[[str, Any, Any], bool]
"""Whether a watcher asked for the change (kind, old, new) of an object; its field selector."""


class Watcher:
    """One client with its watches: a set of kinds, and how long a change takes to reach it (nanoseconds)."""

    __slots__ = ("handler", "kinds", "lane", "latency", "number", "selects")

    def __init__(
        self,
        number: int,
        kinds: frozenset[str],
        latency: int,
        handler: Callable[[Change], None],
        selects: Selects | None,
        lane: Lane,
    ) -> None:
        self.number = number
        self.kinds = kinds
        self.latency = latency
        self.handler = handler
        self.selects = selects
        self.lane = lane


Lane = deque[tuple[Change, Watcher]]
"""Deliveries that take equally long: first in, first out."""


class ChangeFeed:
    """Delivers changes to watchers: earlier ones first, of one moment the older change, then by watcher."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._watchers: list[Watcher] = []
        self._by_kind: dict[str, tuple[Watcher, ...]] = {}
        """Who watches a kind, as far as it was asked for."""
        self._lanes: list[Lane] = []
        """One for each latency there is."""
        self.due: int | None = None
        """When the first delivery is due."""
        kernel.feed = self

    def watch(
        self,
        name: str,
        kinds: frozenset[str],
        handler: Callable[[Change], None],
        latency: int = 0,
        *,
        selects: Selects | None = None,
    ) -> Watcher:
        """Register a watcher; it sees the writes that come after, or those of them that it `selects`."""
        lane = next((watcher.lane for watcher in self._watchers if watcher.latency == latency), None)
        if lane is None:
            lane = deque()
            self._lanes.append(lane)
        watcher = Watcher(len(self._watchers), kinds, latency, handler, selects, lane)
        self._watchers.append(watcher)
        self._by_kind.clear()
        return watcher

    def publish(self, version: int, change: ChangeType, kind: str, key: str, old: Any, new: Any) -> None:
        """Pass a write on to whoever watches its kind."""
        now, made = self._kernel.now, None
        watchers = self._by_kind.get(kind)
        if watchers is None:
            watchers = self._by_kind[kind] = tuple(each for each in self._watchers if kind in each.kinds)
        for watcher in watchers:
            if watcher.selects is None or watcher.selects(kind, old, new):
                due = now + watcher.latency
                if made is None or made.due != due:
                    made = Change(due, version, change, kind, key, old, new)
                    if self.due is None or due < self.due:
                        self.due = due
                watcher.lane.append((made, watcher))

    def deliver(self) -> None:
        """Deliver the change that is due first."""
        lanes = self._lanes
        if len(lanes) == 1:
            (lane,) = lanes
            change, watcher = lane.popleft()
            self.due = lane[0][0].due if lane else None
        else:
            change, watcher = min([lane for lane in lanes if lane], key=_rank).popleft()
            self.due = min([lane[0][0].due for lane in lanes if lane], default=None)
        watcher.handler(change)


def _rank(lane: Lane) -> tuple[int, int, int]:
    change, watcher = lane[0]
    return change.due, change.version, watcher.number
