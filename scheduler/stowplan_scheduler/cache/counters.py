"""Topology counters: what pods add up to per topology domain, kept up to date pod by pod.

Inter-pod affinity and topology spread ask "how many pods that match this selector are in the zone of this node?".
Upstream scans the pods of all nodes in every cycle. Here a counter is made when a rule first asks; from then on it is
told each pod that came or went (`CounterRegistry.note`), so that a later question costs a look-up per node.

A counter has a channel per topology key that it meets, with two arrays: what the pods of each row contribute, and the
sums of that over the rows of each domain. What a pod contributes is decided once per shape of pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stowplan_scheduler.framework.pod_info import PodInfo

    from .node_info import NodeInfo
    from .node_table import NodeTable
    from .node_view import Rows

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

Contribution = tuple[tuple[str, int], ...]
"""(topology key, weight) pairs of one pod."""

PodSource = Callable[["NodeInfo"], Iterable["PodInfo"]]
"""Which pods of a node can contribute at all: all of them, or those with affinity."""

MAX_SHAPES = 100_000
"""How many shapes of pods are remembered together with the counters they concern."""

MAX_COUNTER_BYTES = 256 << 20
"""Counters beyond this are dropped, the longest unused first, and made anew when asked for."""


class Channel:
    """One topology key of a counter. `sums[code]` belongs to the domain with that label code; `sums[0]` stays 0.

    `present[code]` says whether any row that counts is in the domain, `total` is the sum of all sums.
    """

    __slots__ = ("key", "per_row", "present", "sums", "total")

    def __init__(self, key: str, size: int) -> None:
        """Nothing counted yet."""
        self.key = key
        self.per_row: Int64s = np.zeros(size, np.int64)
        self.sums: Int64s = np.zeros(1, np.int64)
        self.present: Bools = np.zeros(1, np.bool_)
        self.total = 0


class TopologyCounter:
    """Sums of contributions per domain, over all rows or over the eligible ones.

    `contribution` must depend on the pod's shape and on whether it terminates, and on nothing else. `eligible`
    computes which rows count from the table's node columns; None: all of them.
    """

    __slots__ = (
        "_cached",
        "_contribution",
        "_eligible_fn",
        "_node_version",
        "_topology_version",
        "alive",
        "channels",
        "eligible",
        "number",
        "source",
        "table",
    )

    def __init__(
        self,
        table: NodeTable,
        keys: Iterable[str],
        contribution: Callable[[PodInfo], Contribution],
        source: PodSource,
        eligible: Callable[[NodeTable], Bools] | None = None,
    ) -> None:
        """Count the pods that are there. Channels of `keys` exist from the start, others as pods bring them."""
        self.table = table
        self.source = source
        self.number = 0
        self.alive = True
        self._contribution = contribution
        self._cached: dict[int, Contribution] = {}
        self._eligible_fn = eligible
        self.eligible: Bools | None = None
        self._topology_version = -1
        self._node_version = -1
        self.channels = {key: Channel(key, table.size) for key in keys}
        for row, info in enumerate(table.infos):
            for pod in source(info):
                for key, weight in self.contribution(pod):
                    self._channel(key).per_row[row] += weight

    def _channel(self, key: str) -> Channel:
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(key, self.table.size)
            self._topology_version = -1
        return channel

    def contribution(self, pod: PodInfo) -> Contribution:
        """What `pod` adds, decided once per shape."""
        key = pod.shape.number * 2 + pod.terminating
        found = self._cached.get(key)
        if found is None:
            found = self._contribution(pod)
            self._cached[key] = found
        return found

    def add(self, row: int, contribution: Contribution, sign: int) -> None:
        """A pod came to (+1) or left (-1) a row."""
        current = self._topology_version == self.table.topology_version
        for key, weight in contribution:
            channel = self._channel(key)
            channel.per_row[row] += sign * weight
            if current and (self.eligible is None or self.eligible[row]):
                code = self.table.labels(key).codes[row]
                if code and code < len(channel.sums):
                    channel.sums[code] += sign * weight
                    channel.total += sign * weight
                elif code:
                    self._topology_version = -1

    def move_rows(self, previous: Int64s) -> None:
        """Rows have new numbers: new row i was row previous[i], or starts from zero where that is -1."""
        for channel in self.channels.values():
            moved = (
                channel.per_row[np.maximum(previous, 0)] if len(channel.per_row) else np.zeros(len(previous), np.int64)
            )
            moved[previous < 0] = 0
            channel.per_row = moved
        self._topology_version = -1

    def refresh(self) -> None:
        """Bring the sums up to date with the nodes' labels and the eligible rows; call before reading."""
        table = self.table
        if self._eligible_fn is not None:
            if self._node_version != table.node_version:
                eligible = self._eligible_fn(table)
                self._node_version = table.node_version
                if self.eligible is None or not np.array_equal(eligible, self.eligible):
                    self.eligible = eligible
                    self._topology_version = -1
        if self._topology_version != table.topology_version:
            for channel in self.channels.values():
                self._sum_domains(channel)
            self._topology_version = table.topology_version

    def _sum_domains(self, channel: Channel) -> None:
        column = self.table.labels(channel.key)
        codes, weights = column.codes, channel.per_row
        if self.eligible is not None:
            codes, weights = codes[self.eligible], weights[self.eligible]
        # Sums stay far below 2^53, where float64 still counts exactly.
        domains = len(column.interned.values)
        channel.sums = np.bincount(codes, weights=weights, minlength=domains).astype(np.int64)
        channel.present = np.bincount(codes, minlength=domains) > 0
        channel.sums[0], channel.present[0] = 0, False
        channel.total = int(channel.sums.sum())

    def at(self, key: str, rows: Rows) -> Int64s:
        """The sum of each row's domain; 0 where the row lacks the key."""
        return self.channels[key].sums[self.table.labels(key).codes[rows]]

    @property
    def is_empty(self) -> bool:
        """Whether no domain has anything."""
        return not any(channel.sums.any() for channel in self.channels.values())

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays, in bytes."""
        return sum(channel.per_row.nbytes + channel.sums.nbytes for channel in self.channels.values())


class CounterRegistry:
    """All counters of a table, by what they count."""

    __slots__ = ("_by_key", "_interested", "_made", "_recent")

    def __init__(self) -> None:
        """No counters yet."""
        self._by_key: dict[Hashable, TopologyCounter] = {}
        self._recent: OrderedDict[int, Hashable] = OrderedDict()
        self._interested: dict[int, tuple[int, list[TopologyCounter]]] = {}
        self._made = 0

    def get(self, key: Hashable, make: Callable[[], TopologyCounter]) -> TopologyCounter:
        """The counter of that key, refreshed; made on first use."""
        counter = self._by_key.get(key)
        if counter is None:
            counter = make()
            self._made += 1
            counter.number = self._made
            self._by_key[key] = counter
            self._recent[counter.number] = key
            self._evict()
            counter.refresh()
            return counter
        return self.used(counter)

    def used(self, counter: TopologyCounter) -> TopologyCounter:
        """The same counter, refreshed and marked as used."""
        self._recent.move_to_end(counter.number)
        counter.refresh()
        return counter

    def note(self, row: int, pods: Iterable[tuple[PodInfo, int]]) -> None:
        """Tell the counters that pods came (+1) or went (-1)."""
        if not self._by_key:
            return
        for pod, sign in pods:
            for counter in self._counters_of(pod):
                counter.add(row, counter.contribution(pod), sign)

    def _counters_of(self, pod: PodInfo) -> list[TopologyCounter]:
        """The counters to which such a pod contributes; new counters are asked once per shape."""
        key = pod.shape.number * 2 + pod.terminating
        seen, interested = self._interested.get(key, (0, []))
        if seen != self._made:
            newer = [c for c in self._by_key.values() if c.number > seen and c.contribution(pod)]
            interested = [c for c in interested if c.number <= seen] + newer
            if len(self._interested) > MAX_SHAPES:
                self._interested.clear()
            self._interested[key] = (self._made, interested)
        return interested

    def move_rows(self, previous: Int64s) -> None:
        """The table was laid out anew."""
        for counter in self._by_key.values():
            counter.move_rows(previous)

    def _evict(self) -> None:
        while len(self._recent) > 1 and self.nbytes > MAX_COUNTER_BYTES:
            _, key = self._recent.popitem(last=False)
            self._by_key.pop(key).alive = False
            # Shapes remember whom to tell; a dropped counter must not be told any more.
            self._interested.clear()

    @property
    def nbytes(self) -> int:
        """Memory held by all counters, in bytes."""
        return sum(counter.nbytes for counter in self._by_key.values())

    def __iter__(self) -> Iterator[TopologyCounter]:
        """All counters, the oldest first."""
        return iter(self._by_key.values())


class CounterHandle:
    """Where a rule keeps a counter that it asks for in every cycle, so that its key is looked up once."""

    __slots__ = ("_counter", "_key", "_make")

    def __init__(self, key: Hashable, make: Callable[[NodeTable], TopologyCounter]) -> None:
        """`key`: what the counter counts, for all that ask for the same; `make` counts what is there."""
        self._key = key
        self._make = make
        self._counter: TopologyCounter | None = None

    def get(self, table: NodeTable) -> TopologyCounter:
        """The counter, refreshed."""
        counter = self._counter
        if counter is None or not counter.alive or counter.table is not table:
            counter = self._counter = table.counters.get(self._key, lambda: self._make(table))
            return counter
        return table.counters.used(counter)
