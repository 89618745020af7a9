"""Keys that wait for their time, in the order in which client-go's delaying queue lets them go.

Keys that are due at the same moment come in the order of Go's container/heap, which is neither that of planning nor
that of names: CronJobs of one minute start in it (staging/src/k8s.io/client-go/util/workqueue/delaying_queue.go of
v1.37.2).
"""

from __future__ import annotations


class _Entry:
    __slots__ = ("key", "place", "when")

    def __init__(self, key: str, when: int) -> None:
        self.key = key
        self.when = when
        self.place = 0


class DelayHeap:
    """A binary heap of keys by time; each key is in once, with its earliest time."""

    __slots__ = ("_entries", "_known")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._known: dict[str, _Entry] = {}

    @property
    def next_at(self) -> int | None:
        """When the first key is due."""
        return self._entries[0].when if self._entries else None

    def push(self, key: str, when: int) -> bool:
        """Have the key wait until `when`; a key that waits already only ever gets an earlier time.

        Returns whether that changed anything.
        """
        known = self._known.get(key)
        if known is None:
            entry = self._known[key] = _Entry(key, when)
            entry.place = len(self._entries)
            self._entries.append(entry)
            self._up(entry.place)
            return True
        if when >= known.when:
            return False
        known.when = when
        if not self._down(known.place, len(self._entries)):
            self._up(known.place)
        return True

    def pop(self) -> str:
        """Take the first key out. Raises IndexError if there is none."""
        entries = self._entries
        first, last = entries[0], entries.pop()
        if last is not first:
            entries[0] = last
            self._down(0, len(entries))
        del self._known[first.key]
        return first.key

    def _up(self, place: int) -> None:
        entries = self._entries
        entry = entries[place]
        while place > 0:
            parent = entries[(place - 1) // 2]
            if entry.when >= parent.when:
                break
            entries[place], parent.place, place = parent, place, parent.place
        entries[place], entry.place = entry, place

    def _down(self, place: int, size: int) -> bool:
        """Returns whether the entry has moved."""
        entries, start = self._entries, place
        entry = entries[place]
        while (at := 2 * place + 1) < size:
            child = entries[at]
            if at + 1 < size and entries[at + 1].when < child.when:
                child = entries[at + 1]
            if child.when >= entry.when:
                break
            entries[place], child.place, place = child, place, child.place
        entries[place], entry.place = entry, place
        return place > start
