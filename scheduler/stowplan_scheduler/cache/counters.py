"""Topology counters: what pods add up to per topology domain, kept up to date pod by pod.

Inter-pod affinity and topology spread ask "how many pods that match this selector are in the zone of this node?".
Upstream scans the pods of all nodes in every cycle. Here a counter is made when a rule first asks; from then on it is
told each pod that came or went (`CounterRegistry.note`), so that a later question costs a look-up per node.

A counter has a channel per topology key that it meets, with two arrays: what the pods of each row contribute, and the
sums of that over the rows of each domain. What a pod contributes is decided once per shape of pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stowplan_scheduler.framework.pod_info import PodInfo, PodShape

    from .node_info import NodeInfo
    from .node_table import NodeTable
    from .node_view import Rows

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

Contribution = tuple[tuple[str, int], ...]
"""(topology key, weight) pairs of one pod."""

PodSource = Callable[["NodeInfo"], Iterable["PodInfo"]]
"""Which pods of a node can contribute at all: all of them, or those with affinity."""

Labels = tuple[tuple[str, str], ...]
"""Labels that a pod must have."""

MAX_REMEMBERED = 250_000
"""How many pairs of a shape of pods and a counter that it concerns are remembered: jobs always bring new shapes."""

MAX_COUNTER_BYTES = 256 << 20
MAX_COUNTERS = 8192
"""Beyond either bound an eighth of the counters is dropped, the longest unused first, and made anew when asked for.

The number counts too, because every pod that comes is told to all counters that it concerns, used or not.
"""

MOST_MOVES = 64
"""After so many moves of the rows all counters follow: what was missed must not grow without end."""

MEASURE_EVERY = 256
"""Counters grow with the nodes and with new domains: after so many new ones all are measured again."""


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
        "_contribution",
        "_eligible_fn",
        "_node_version",
        "_topology_version",
        "alive",
        "channels",
        "eligible",
        "layout",
        "number",
        "source",
        "subject",
        "table",
        "wanted",
    )

    def __init__(
        self,
        table: NodeTable,
        keys: Iterable[str],
        contribution: Callable[[PodInfo], Contribution],
        source: PodSource,
        eligible: Callable[[NodeTable], Bools] | None = None,
        *,
        wanted: Labels = (),
        subject: Mapping[str, str] | None = None,
    ) -> None:
        """Count the pods that are there. Channels of `keys` exist from the start, others as pods bring them.

        Which pods need not be asked: with `wanted`, those that lack one of these labels; with `subject`, those none of
        whose own affinity terms can mean a pod with these labels.
        """
        self.table = table
        self.source = source
        self.number = 0
        self.layout = 0
        """How many moves of the rows it has followed; see `CounterRegistry`."""
        self.alive = True
        self._contribution = contribution
        self._eligible_fn = eligible
        self.eligible: Bools | None = None
        self._topology_version = -1
        self._node_version = -1
        self.wanted = wanted
        self.subject = subject
        self.channels = {key: Channel(key, table.size) for key in keys}
        self._count()

    def _count(self) -> None:
        """All pods that are there."""
        staying: dict[PodShape, Contribution] = {}
        terminating: dict[PodShape, Contribution] = {}
        source, wanted = self.source, self.wanted[-1] if self.wanted else None
        for row, info in enumerate(self.table.infos):
            if not info.pods:
                continue
            for pod in source(info):
                shape, contributions = pod.shape, terminating if pod.terminating else staying
                found = contributions.get(shape)
                if found is None:
                    may = wanted is None or shape.labels.get(wanted[0]) == wanted[1]
                    may = may and self.may_concern(pod)
                    found = contributions[shape] = self.contribution(pod) if may else ()
                if found:
                    for key, weight in found:
                        self._channel(key).per_row[row] += weight

    def may_concern(self, pod: PodInfo) -> bool:
        """Whether a pod may contribute, judged by one label per term."""
        subject = self.subject
        if subject is None:
            return True
        for label in pod.shape.directed:  # noqa: SIM110 - a third of the time of any()
            if label is None or subject.get(label[0]) == label[1]:
                return True
        return False

    def _channel(self, key: str) -> Channel:
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(key, self.table.size)
            self._topology_version = -1
        return channel

    def contribution(self, pod: PodInfo) -> Contribution:
        """What `pod` adds."""
        return self._contribution(pod)

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


_Share = tuple[TopologyCounter, Contribution]


class CounterIndex:
    """Which counters a pod may concern, by one label each, so that a new pod does not ask all of them."""

    __slots__ = ("_directed", "_others", "_subjects", "_wanted")

    def __init__(self) -> None:
        """No counters yet."""
        # Each list is in order of number.
        self._others: list[TopologyCounter] = []
        self._wanted: dict[tuple[str, str], list[TopologyCounter]] = {}
        self._directed: list[TopologyCounter] = []
        self._subjects: dict[tuple[str, str], list[TopologyCounter]] = {}

    def add(self, counter: TopologyCounter) -> None:
        """Take in a counter newer than all others."""
        if counter.subject is not None:
            self._directed.append(counter)
            for label in counter.subject.items():
                self._subjects.setdefault(label, []).append(counter)
        elif counter.wanted:
            # Under the rarest label: the name of an app, say, not that of the tool that installed it.
            rarest = min(counter.wanted, key=lambda label: len(self._wanted.get(label, ())))
            self._wanted.setdefault(rarest, []).append(counter)
        else:
            self._others.append(counter)

    def newer(self, pod: PodInfo, seen: int) -> list[TopologyCounter]:
        """The counters with a greater number than `seen` that the pod may concern."""
        shape = pod.shape
        found = _newer(self._others, seen)
        for label in shape.labels.items():
            found += _newer(self._wanted.get(label, []), seen)
        directed: dict[int, TopologyCounter] = {}
        for named in shape.directed:
            meant = self._directed if named is None else self._subjects.get(named, [])
            directed.update((counter.number, counter) for counter in _newer(meant, seen))
        return [*found, *directed.values()]


def _newer(counters: list[TopologyCounter], seen: int) -> list[TopologyCounter]:
    at = len(counters)
    while at and counters[at - 1].number > seen:
        at -= 1
    return counters[at:]


class CounterRegistry:
    """All counters of a table, by what they count.

    Whenever nodes come or go rows get new numbers, and most counters are not asked for between two such moves: each
    follows when it is used next, all the moves since then at once.
    """

    __slots__ = (
        "_by_key",
        "_bytes",
        "_index",
        "_interested",
        "_joined",
        "_layout",
        "_made",
        "_moves",
        "_recent",
        "_remembered",
    )

    def __init__(self) -> None:
        """No counters yet."""
        self._by_key: dict[Hashable, TopologyCounter] = {}
        self._recent: OrderedDict[int, Hashable] = OrderedDict()
        # By shape: the number of the newest counter that was asked, and what the pod adds to which counters.
        self._interested: dict[int, tuple[int, list[_Share]]] = {}
        self._remembered = 0
        self._index = CounterIndex()
        self._made = 0
        # What was measured last, and the counters made since.
        self._bytes = 0
        self._layout = 0
        # The latest moves, and those from an earlier layout to the present one as one, the earliest last.
        self._moves: list[Int64s] = []
        self._joined: list[Int64s] = []

    def get(self, key: Hashable, make: Callable[[], TopologyCounter]) -> TopologyCounter:
        """The counter of that key, refreshed; made on first use."""
        counter = self._by_key.get(key)
        if counter is None:
            counter = make()
            self._made += 1
            counter.number = self._made
            counter.layout = self._layout
            self._by_key[key] = counter
            self._recent[counter.number] = key
            self._index.add(counter)
            counter.refresh()
            self._bytes += counter.nbytes
            self._evict()
            return counter
        return self.used(counter)

    def used(self, counter: TopologyCounter) -> TopologyCounter:
        """The same counter, refreshed and marked as used."""
        self._recent.move_to_end(counter.number)
        if counter.layout != self._layout:
            self._follow(counter)
        counter.refresh()
        return counter

    def note(self, row: int, pods: Iterable[tuple[PodInfo, int]]) -> None:
        """Tell the counters that pods came (+1) or went (-1)."""
        if not self._by_key:
            return
        for pod, sign in pods:
            for counter, contribution in self._shares(pod):
                if counter.layout != self._layout:
                    self._follow(counter)
                counter.add(row, contribution, sign)

    def _shares(self, pod: PodInfo) -> list[_Share]:
        """The counters to which such a pod contributes, and what; new counters are asked once per shape."""
        key = pod.shape.number * 2 + pod.terminating
        seen, interested = self._interested.get(key, (0, []))
        if seen != self._made:
            asked = ((counter, counter.contribution(pod)) for counter in self._index.newer(pod, seen))
            newer = [share for share in asked if share[1]]
            if self._remembered + len(newer) > MAX_REMEMBERED:
                self._forget()
            interested = interested + newer
            self._remembered += len(newer) + (0 if key in self._interested else 1)
            self._interested[key] = (self._made, interested)
        return interested

    def move_rows(self, previous: Int64s) -> None:
        """The table was laid out anew."""
        self._moves.append(previous)
        self._joined.clear()
        self._layout += 1
        if len(self._moves) == MOST_MOVES:
            for counter in self._by_key.values():
                self._follow(counter)
            self._moves.clear()
            self._joined.clear()

    def _follow(self, counter: TopologyCounter) -> None:
        """Have a counter follow the moves that it has not heard of."""
        missed, moves, joined = self._layout - counter.layout, self._moves, self._joined
        if not missed:
            return
        while len(joined) < missed:
            move = moves[-1 - len(joined)]
            joined.append(_then(move, joined[-1]) if joined else move)
        counter.move_rows(joined[missed - 1])
        counter.layout = self._layout

    def _forget(self) -> None:
        self._interested.clear()
        self._remembered = 0

    def _evict(self) -> None:
        """Some at a time: what shapes and the index know of the counters is lost with it."""
        if self._made % MEASURE_EVERY == 0:
            self._bytes = self.nbytes
        if self._bytes <= MAX_COUNTER_BYTES and len(self._by_key) <= MAX_COUNTERS:
            return
        self._bytes = self.nbytes
        while len(self._recent) > 1 and (
            self._bytes > MAX_COUNTER_BYTES * 7 // 8 or len(self._by_key) > MAX_COUNTERS * 7 // 8
        ):
            _, key = self._recent.popitem(last=False)
            dropped = self._by_key.pop(key)
            dropped.alive = False
            self._bytes -= dropped.nbytes
        # A dropped counter must not be told any more.
        self._forget()
        self._index = CounterIndex()
        for counter in self._by_key.values():
            self._index.add(counter)

    @property
    def nbytes(self) -> int:
        """Memory held by all counters, in bytes."""
        return sum(counter.nbytes for counter in self._by_key.values())

    def __iter__(self) -> Iterator[TopologyCounter]:
        """All counters, the oldest first."""
        return iter(self._by_key.values())


def _then(move: Int64s, later: Int64s) -> Int64s:
    """Two moves as one: new row i was row result[i] before both of them, or there was none."""
    if not len(move):
        return np.full(len(later), -1, np.int64)
    both = move[later]
    both[later < 0] = -1
    return both


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
