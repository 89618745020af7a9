"""The cluster as the autoscaler imagines it: forked, changed, and either kept or thrown away.

A snapshot holds the scheduler core's NodeInfos with its table and counters. Every question is put to the core's
PreFilter and Filter. A fork remembers what each node was like before its first change, so going back costs what was
changed.

Nodes stand in order of name; upstream has them in the order of a Go map. A search for any node begins behind the node
of the last match, whichever pod or purpose that was for, as upstream's does.

Laying the rows of the table out anew is what costs most. So a node that goes in a fork leaves a blank behind: a row
without labels, pods and room, which no rule can tell from no row at all. Blanks can also be reserved for nodes to come.

Follows pkg/simulator/clustersnapshot of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from stowplan_scheduler.cache.node_info import JournalEntry, NodeInfo, pod_changes
from stowplan_scheduler.cache.node_table import Bools, NodeTable
from stowplan_scheduler.cache.snapshot import RowChange, SnapshotDelta
from stowplan_scheduler.framework.cluster import Cluster, Stores
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.diagnosis import SchedulingError
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import PreFilterOutcome, Profile
from stowplan_scheduler.framework.search import RowArray, Search
from stowplan_scheduler.framework.status import SUCCESS, Code, Status, error
from stowplan_scheduler.objects import Node, NodeSpec, ObjectMeta

from .filters import NoNominations

_SMALLEST_PIECE = 32


class Saved(NamedTuple):
    """What a name stood for when a fork first touched it: no node, a node as it still is, or one to be restored."""

    info: NodeInfo | None
    before: NodeInfo | None
    blank: bool = False


class _Change:
    """What the table has not heard of yet about one NodeInfo."""

    __slots__ = ("entries", "info", "node_changed")

    def __init__(self, info: NodeInfo) -> None:
        self.info = info
        self.entries: list[JournalEntry] = []
        self.node_changed = False


class NodeFilter:
    """Which nodes may be taken, by name; the rows are looked up once per layout of the table."""

    __slots__ = ("_layout", "_mask", "allows")

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self.allows = allows
        self._layout = -1
        self._mask: Bools = np.zeros(0, np.bool_)

    def mask(self, table: NodeTable) -> Bools:
        """One flag per row."""
        if self._layout != table.layout:
            allows = self.allows
            self._mask = np.fromiter((allows(info.name) for info in table.infos), np.bool_, table.size)
            self._layout = table.layout
        return self._mask


class ClusterSnapshot:
    """See the module. NodeInfos that it gives out are to be read only."""

    def __init__(self, profile: Profile, stores: Stores | None = None) -> None:
        """An empty cluster, filtered by `profile`."""
        self.profile = profile
        self.cluster = Cluster(stores)
        self.last_match = 0
        """Position of the last match of a search for any node."""
        self.matches = 0
        """How many searches for any node have found one."""
        self._infos = self.cluster.snapshot.node_info_map
        self._forks: list[dict[str, Saved]] = []
        self._changes: dict[int, _Change] = {}
        self._relaid = False
        self._stamp = 0
        self._blanks: set[str] = set()
        self._present: RowArray | None = None
        """Rows that are no blanks, in order; None: to be worked out."""

    # ---- reading -----------------------------------------------------------------------------

    def get(self, name: str) -> NodeInfo | None:
        """A node with its pods. Its generation is a number for what it holds: the same again after a revert."""
        return None if name in self._blanks else self._infos.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._infos and name not in self._blanks

    def __len__(self) -> int:
        return len(self._infos) - len(self._blanks)

    def infos(self) -> list[NodeInfo]:
        """All nodes in order of name."""
        self._flush()
        infos, blanks = self.cluster.table.infos, self._blanks
        return [info for info in infos if info.name not in blanks] if blanks else infos

    @property
    def table(self) -> NodeTable:
        """The core's columns, up to date."""
        self._flush()
        return self.cluster.table

    # ---- forks -------------------------------------------------------------------------------

    def fork(self) -> None:
        """From now on, changes can be taken back."""
        self._forks.append({})

    def commit(self) -> None:
        """Keep the changes since the last fork, as if they had been made before it."""
        level = self._forks.pop()
        if self._forks:
            below = self._forks[-1]
            for name, saved in level.items():
                below.setdefault(name, saved)

    def revert(self) -> None:
        """Take the changes since the last fork back."""
        for name, (info, before, blank) in self._forks.pop().items():
            current = self._infos.get(name)
            self._set_blank(name, blank)
            if info is None:
                if current is not None:
                    del self._infos[name]
                    self._relaid = True
                continue
            if before is not None:
                self._restore(info, before)
            if current is not info:
                self._infos[name] = info
                held = info.generation
                self._change(info)
                info.generation = held
                self._relaid = True

    def _restore(self, info: NodeInfo, before: NodeInfo) -> None:
        change = self._change(info)
        change.entries.extend(pod_changes(info.pods, before.pods))
        change.node_changed = change.node_changed or info.node is not before.node
        before.copy_into(info)

    def _save(self, name: str, info: NodeInfo | None, *, changes: bool) -> None:
        if self._forks:
            level = self._forks[-1]
            if name not in level:
                before = info.clone() if changes and info is not None else None
                level[name] = Saved(info, before, name in self._blanks)

    def _set_blank(self, name: str, blank: bool) -> None:
        if blank != (name in self._blanks):
            (self._blanks.add if blank else self._blanks.discard)(name)
            self._present = None

    # ---- changes -----------------------------------------------------------------------------

    def add(self, info: NodeInfo) -> None:
        """A new node with its pods; the snapshot owns the NodeInfo from now on. Raises ValueError if it is known."""
        name = info.name
        if name in self._blanks:
            held = self._infos[name]
            self._save(name, held, changes=True)
            self._set_blank(name, blank=False)
            self._restore(held, info)
            self._change(held)
            return
        if name in self._infos:
            raise ValueError(f"node {name} already in snapshot")
        self._save(name, None, changes=False)
        info.row = -1
        info.journal = None
        self._infos[name] = info
        self._change(info)
        self._relaid = True

    def reserve(self, names: Iterable[str]) -> None:
        """Make rows for nodes that may be added later, in this fork."""
        for name in names:
            self.add(_blank(name))
            self._set_blank(name, blank=True)

    def remove(self, name: str) -> None:
        """A node goes with its pods."""
        info = self._infos[name]
        if self._forks:
            self._save(name, info, changes=True)
            self._restore(info, _blank(name))
            self._change(info)
            self._set_blank(name, blank=True)
        else:
            del self._infos[name]
            self._relaid = True

    def set_node(self, name: str, node: Node) -> None:
        """Another object for a node, under the same name."""
        info = self._infos[name]
        self._save(name, info, changes=True)
        info.set_node(node)
        self._change(info).node_changed = True

    def rewrite(self, name: str, model: NodeInfo) -> None:
        """Make a node and its pods what `model` says; its place stays."""
        info = self._infos[name]
        self._save(name, info, changes=True)
        self._restore(info, model)
        self._change(info)

    def add_pod(self, pod: PodInfo, name: str) -> None:
        """Put a pod on a node without asking whether it fits."""
        info = self._infos[name]
        self._save(name, info, changes=True)
        info.add_pod(pod)
        self._change(info).entries.append((pod, 1))

    def remove_pod(self, pod: PodInfo, name: str) -> None:
        """Take a pod off a node. Raises CacheError if it is not there."""
        info = self._infos[name]
        self._save(name, info, changes=True)
        held = info.remove_pod(pod)
        self._change(info).entries.append((held, -1))

    def _change(self, info: NodeInfo) -> _Change:
        self._stamp += 1
        info.generation = self._stamp
        change = self._changes.get(id(info))
        if change is None:
            change = self._changes[id(info)] = _Change(info)
        return change

    def _flush(self) -> None:
        """Tell the table what changed since it was last asked."""
        if not self._changes and not self._relaid:
            return
        snapshot, delta = self.cluster.snapshot, SnapshotDelta()
        claims = False
        for change in self._changes.values():
            info = change.info
            if self._infos.get(info.name) is not info:
                continue
            entries = change.entries if info.row >= 0 else [(pod, 1) for pod in info.pods]
            delta.changes.append(RowChange(info, entries, change.node_changed))
            if not self._relaid and entries:
                claims = claims or any(pod.shape.pod.spec.volumes for pod, _ in entries)
                if any(pod.shape.has_affinity for pod, _ in entries):
                    snapshot.relist(info)
        if self._relaid:
            snapshot.lay_out(sorted(self._infos), delta)
            self._present = None
        elif claims:
            snapshot.count_claims()
        self._changes.clear()
        self._relaid = False
        self.cluster.table.apply(snapshot, delta)

    # ---- questions ---------------------------------------------------------------------------

    def search(self, pod: PodInfo) -> tuple[Search, PreFilterOutcome]:
        """PreFilter, and a search over the nodes as they are. Raises SchedulingError for a pod that breaks a rule."""
        self._flush()
        return self.profile.search(pod, CycleState(), self.cluster, _NO_NOMINATIONS)

    def check(self, pod: PodInfo, name: str) -> Status:
        """Whether a pod fits on a node; otherwise the first objection."""
        try:
            search, outcome = self.search(pod)
        except SchedulingError as failure:
            return error(str(failure))
        if not outcome.status.is_success:
            return outcome.status
        if outcome.node_names is not None and name not in outcome.node_names:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), ", ".join(sorted(outcome.plugins)))
        row = self.cluster.table.row_of[name]
        verdict = int(search.verdicts(np.array([row], np.intp))[0])
        return self.profile.status(verdict) if verdict else SUCCESS

    def schedule(self, pod: PodInfo, name: str) -> Status:
        """Put a pod on a node if it fits there."""
        status = self.check(pod, name)
        if status.is_success:
            self.add_pod(pod, name)
        return status

    def schedule_anywhere(self, pod: PodInfo, acceptable: NodeFilter | None = None) -> str | None:
        """Put a pod on the first node, counted from behind the last match, where it fits; its name, None if nowhere."""
        try:
            search, outcome = self.search(pod)
        except SchedulingError:
            return None
        table = self.cluster.table
        if not outcome.status.is_success or not table.size:
            return None
        present = self._present_rows()
        if not len(present):
            return None
        allowed = ~table.unschedulable
        if acceptable is not None:
            allowed &= acceptable.mask(table)
        if outcome.node_names is not None:
            allowed &= _rows_named(table, outcome.node_names)
        row = _first_passing(search, allowed, int(present[(self.last_match + 1) % len(present)]))
        if row is None:
            return None
        self.last_match = int(present.searchsorted(row))
        self.matches += 1
        name = table.infos[row].name
        self.add_pod(pod, name)
        return name

    def _present_rows(self) -> RowArray:
        if self._present is None:
            table, blanks = self.cluster.table, self._blanks
            if blanks:
                rows = [row for row, info in enumerate(table.infos) if info.name not in blanks]
                self._present = np.array(rows, np.intp)
            else:
                self._present = np.arange(table.size, dtype=np.intp)
        return self._present


_NO_NOMINATIONS = NoNominations()


def _blank(name: str) -> NodeInfo:
    """A node without labels and room. It is cordoned, so that no search takes it."""
    info = NodeInfo()
    info.set_node(Node(metadata=ObjectMeta(name=name), spec=NodeSpec(unschedulable=True)))
    return info


def _rows_named(table: NodeTable, names: Iterable[str]) -> Bools:
    rows = np.zeros(table.size, np.bool_)
    rows[[table.row_of[name] for name in names if name in table.row_of]] = True
    return rows


def _first_passing(search: Search, allowed: Bools, start: int) -> int | None:
    """The first allowed row from `start` on, around the end, that passes every filter."""
    if not allowed.any():
        return None
    for rows in _pieces(start, len(allowed)):
        fits = allowed[rows]
        if fits.any():
            fits = fits & search.passing(rows)
            at = int(fits.argmax())
            if fits[at]:
                return int(rows.start) + at
    return None


def _pieces(start: int, size: int) -> Iterator[slice]:
    """Slices that go once around, growing."""
    for begin, end in ((start, size), (0, start)):
        length = _SMALLEST_PIECE
        while begin < end:
            stop = min(end, begin + length)
            yield slice(begin, stop)
            begin, length = stop, length * 4
