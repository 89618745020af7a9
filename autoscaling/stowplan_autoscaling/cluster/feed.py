"""The change feed: every write of the API server goes to every watcher, in order, after the watcher's latency.

A delivery is one change for one watcher. Deliveries come in the order of (time due, resource version, watcher), one per
call, so that the reaction to a change is complete, as far as it needs no time, before the next change is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel


class ChangeType(IntEnum):
    """What happened to an object."""

    ADDED = 0
    MODIFIED = 1
    DELETED = 2


class Change(NamedTuple):
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

    __slots__ = ("handler", "kinds", "latency", "name", "selects", "waiting")

    def __init__(
        self,
        name: str,
        kinds: frozenset[str],
        latency: int,
        handler: Callable[[Change], None],
        selects: Selects | None,
    ) -> None:
        self.name = name
        self.kinds = kinds
        self.latency = latency
        self.handler = handler
        self.selects = selects
        self.waiting: deque[Change] = deque()


class ChangeFeed:
    """All watchers of one API server."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._watchers: list[Watcher] = []
        self._due: int | None = None
        """When the first delivery is due; a watcher gets its changes in order, so that is one of the first ones."""
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
        watcher = Watcher(name, kinds, latency, handler, selects)
        self._watchers.append(watcher)
        return watcher

    def publish(self, version: int, change: ChangeType, kind: str, key: str, old: Any, new: Any) -> None:
        """Pass a write on to whoever watches its kind."""
        now, made = self._kernel.now, None
        for watcher in self._watchers:
            if kind in watcher.kinds and (watcher.selects is None or watcher.selects(kind, old, new)):
                due = now + watcher.latency
                if made is None or made.due != due:
                    made = Change(due, version, change, kind, key, old, new)
                    if self._due is None or due < self._due:
                        self._due = due
                watcher.waiting.append(made)

    def next_at(self) -> int | None:
        """When the next delivery is due."""
        return self._due

    def deliver(self, now: int) -> bool:
        """Deliver the change that is due first, if it is due; returns whether it was."""
        if self._due is None or self._due > now:
            return False
        first: Watcher | None = None
        due = version = 0
        after: int | None = None
        for watcher in self._watchers:
            if watcher.waiting:
                head = watcher.waiting[0]
                if first is None or head.due < due or (head.due == due and head.version < version):
                    if first is not None:
                        after = due
                    first, due, version = watcher, head.due, head.version
                elif after is None or head.due < after:
                    after = head.due
        if first is None:
            return False
        change = first.waiting.popleft()
        if first.waiting and (after is None or first.waiting[0].due < after):
            after = first.waiting[0].due
        self._due = after
        first.handler(change)
        return True
