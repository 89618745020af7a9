"""The snapshot as columns: what vector rules read.

One row per node of the snapshot, in snapshot order (row == position in `Snapshot.node_info_list`). `apply` takes the
delta of a snapshot update and rewrites only the rows that changed. Whoever keeps results per row learns what to
compute again from

* `rows`: a log of the rows whose pods or node changed;
* `counters`: topology counters, which are told every pod that came or went;
* `node_version` moves when something of a node itself changed (`node_stamp[row]` says when), `topology_version` when a
  label of a node did or the rows were laid out anew, `layout` when rows have other positions than before.

Numbers are int64 in Kubernetes' units: millicores, bytes, counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.objects import Taint

from .counters import CounterRegistry
from .flags import all_true
from .node_info import NodeInfo
from .snapshot import RowChange, Snapshot, SnapshotDelta

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

ABSENT = 0
"""The code of a node that lacks a label."""

BASE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
"""The resources with a line of their own in the matrices `allocatable_base` and `requested_base`, in this order."""

_COLUMNS = ("allowed_pods", "pod_count", "node_stamp", "taints", "images", "features", "unschedulable", "with_ports")


class Interned(Generic[K]):
    """Values and the small numbers that stand for them, in order of first appearance."""

    __slots__ = ("codes", "values")

    def __init__(self, values: Iterable[K] = ()) -> None:
        """Start with `values` as codes 0, 1, ..."""
        self.values: list[K] = list(values)
        self.codes: dict[K, int] = {value: code for code, value in enumerate(self.values)}

    def code(self, value: K) -> int:
        """The code of `value`, new if it was never seen."""
        code = self.codes.get(value)
        if code is None:
            code = len(self.values)
            self.codes[value] = code
            self.values.append(value)
        return code


class LabelColumn:
    """The codes of one label key over all rows; code 0 means that the node lacks the label."""

    __slots__ = ("_is_complete", "_version", "codes", "interned", "key")

    def __init__(self, key: str, infos: list[NodeInfo]) -> None:
        """Read the label off every node."""
        self.key = key
        self.interned: Interned[str | None] = Interned((None,))
        self.codes: Int32s = np.fromiter((self.code_of(info) for info in infos), np.int32, len(infos))
        self._version = -1
        self._is_complete = False

    def is_complete(self, version: int) -> bool:
        """Whether no node lacks the label. Worked out again when the table's `topology_version` has moved."""
        if self._version != version:
            self._is_complete = all_true(self.codes)
            self._version = version
        return self._is_complete

    def code_of(self, info: NodeInfo) -> int:
        """The code of a node's value."""
        node = info.node
        value = None if node is None else node.metadata.labels.get(self.key)
        return ABSENT if value is None else self.interned.code(value)


class ChangeLog(Generic[T]):
    """An append-only list whose front is dropped when it grows long; readers keep absolute positions."""

    __slots__ = ("_limit", "entries", "start")

    def __init__(self, limit: int) -> None:
        """Keep between `limit` and twice as many entries."""
        self.entries: list[T] = []
        self.start = 0
        self._limit = limit

    @property
    def end(self) -> int:
        """The position after the newest entry."""
        return self.start + len(self.entries)

    def since(self, position: int) -> list[T] | None:
        """The entries from `position` on, or None if some of them are gone."""
        offset = position - self.start
        return None if offset < 0 else self.entries[offset:]

    def trim(self) -> None:
        """Drop the older half when the log is twice as long as it needs to be."""
        if len(self.entries) > 2 * self._limit:
            drop = len(self.entries) - self._limit
            del self.entries[:drop]
            self.start += drop

    def clear(self) -> None:
        """Forget everything; every older position counts as gone."""
        self.start = self.end + 1
        self.entries = []


_SPARE_VALUES = 1024


def _renumbered(interned: Interned[K], codes: Int32s) -> tuple[Interned[K], Int32s]:
    """The values that are in use with new numbers; the value with code 0 keeps it."""
    fresh: Interned[K] = Interned(interned.values[:1])
    numbers = [fresh.code(interned.values[code]) for code in codes.tolist()]
    return fresh, np.array(numbers, np.int32)


class NodeTable:
    """Columns over the rows of one snapshot."""

    __slots__ = (
        "_all_have",
        "_labels",
        "allocatable_base",
        "allowed_pods",
        "counters",
        "feature_sets",
        "features",
        "image_sets",
        "images",
        "infos",
        "layout",
        "node_stamp",
        "node_version",
        "non_zero_base",
        "pod_count",
        "requested_base",
        "row_of",
        "rows",
        "scalar_allocatable",
        "scalar_requested",
        "size",
        "taint_sets",
        "taints",
        "topology_version",
        "unschedulable",
        "with_ports",
    )

    def __init__(self) -> None:
        """An empty table."""
        self.size = 0
        self.infos: list[NodeInfo] = []
        self.row_of: dict[str, int] = {}
        self.layout = 0
        self.node_version = 0
        self.topology_version = 0
        self.rows: ChangeLog[int] = ChangeLog(8192)
        self._labels: dict[str, LabelColumn] = {}
        self._all_have: dict[str, tuple[int, bool]] = {}
        self.counters = CounterRegistry()
        self.taint_sets: Interned[tuple[Taint, ...]] = Interned(((),))
        self.image_sets: Interned[tuple[tuple[str, int, int], ...]] = Interned(((),))
        self.feature_sets: Interned[frozenset[str]] = Interned((frozenset(),))
        self._allocate(0)

    def _allocate(self, size: int) -> None:
        self.allocatable_base: Int64s = np.zeros((len(BASE_RESOURCES), size), np.int64)
        self.requested_base: Int64s = np.zeros((len(BASE_RESOURCES), size), np.int64)
        self.non_zero_base: Int64s = np.zeros((2, size), np.int64)
        self.scalar_allocatable: dict[str, Int64s] = {}
        self.scalar_requested: dict[str, Int64s] = {}
        self.allowed_pods: Int64s = np.zeros(size, np.int64)
        self.pod_count: Int64s = np.zeros(size, np.int64)
        self.node_stamp: Int64s = np.zeros(size, np.int64)
        self.taints: Int32s = np.zeros(size, np.int32)
        self.images: Int32s = np.zeros(size, np.int32)
        self.features: Int32s = np.zeros(size, np.int32)
        self.unschedulable: Bools = np.zeros(size, np.bool_)
        self.with_ports: Bools = np.zeros(size, np.bool_)

    # ---- following the snapshot -------------------------------------------------------------

    def apply(self, snapshot: Snapshot, delta: SnapshotDelta) -> None:
        """Take over what a snapshot update changed; O(changed rows), O(rows) only where nodes came or went."""
        fresh: frozenset[int] = self._relayout(snapshot, delta) if delta.relaid else frozenset()
        for change in delta.changes:
            row = change.info.row
            if row < 0:
                continue
            if row not in fresh:
                if not (change.pods or change.node_changed or change.info.used_ports):
                    # Only objects are new, as when a pod becomes ready: nothing that a rule can tell. A pod that is
                    # replaced takes its ports again, though.
                    continue
                self._load_usage(row, change.info)
                if change.node_changed:
                    self._load_node(row, change.info)
            self.rows.entries.append(row)
            if change.pods:
                self.counters.note(row, change.pods)
        self.rows.trim()

    def _relayout(self, snapshot: Snapshot, delta: SnapshotDelta) -> frozenset[int]:
        """Lay the rows out anew: old rows move, new ones are read. Returns the new ones."""
        size = len(snapshot.node_info_list)
        previous = np.full(size, -1, np.int64)
        if delta.previous_rows is not None:
            previous[:] = delta.previous_rows
        self.infos = snapshot.node_info_list
        self.row_of = {info.node.metadata.name: row for row, info in enumerate(self.infos) if info.node is not None}
        self._move_columns(previous, size)
        self.layout += 1
        self.node_version += 1
        self.topology_version += 1
        self.node_stamp[:] = self.node_version
        self.rows.clear()
        self.counters.move_rows(previous)
        fresh = [int(row) for row in np.flatnonzero(previous < 0)]
        for row in fresh:
            info = self.infos[row]
            self._load_usage(row, info)
            self._load_node_columns(row, info)
            for column in self._labels.values():
                column.codes[row] = column.code_of(info)
        for column in self._labels.values():
            if len(column.interned.values) > 2 * size + _SPARE_VALUES:
                column.interned, column.codes = _renumbered(column.interned, column.codes)
        return frozenset(fresh)

    def _move_columns(self, previous: Int64s, size: int) -> None:
        old_size = self.size
        self.size = size
        if not old_size:
            self._allocate(size)
            for column in self._labels.values():
                column.codes = np.zeros(size, np.int32)
            return
        source = np.maximum(previous, 0)
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[source])
        for name in ("allocatable_base", "requested_base", "non_zero_base"):
            setattr(self, name, getattr(self, name)[:, source])
        for columns in (self.scalar_allocatable, self.scalar_requested):
            for resource in columns:
                columns[resource] = columns[resource][source]
        for column in self._labels.values():
            column.codes = column.codes[source]

    def _load_usage(self, row: int, info: NodeInfo) -> None:
        # One number at a time: each tuple would first become an array.
        requested, base, non_zero = info.requested, self.requested_base, self.non_zero_base
        base[0, row] = requested.milli_cpu
        base[1, row] = requested.memory
        base[2, row] = requested.ephemeral_storage
        non_zero[0, row] = info.non_zero_cpu
        non_zero[1, row] = info.non_zero_memory
        self.pod_count[row] = len(info.pods)
        self.with_ports[row] = bool(info.used_ports)
        if requested.scalar or self.scalar_requested:
            self._load_scalars(row, requested.scalar, self.scalar_requested)

    def _load_scalars(self, row: int, amounts: dict[str, int], columns: dict[str, Int64s]) -> None:
        for name in amounts:
            if name not in columns:
                columns[name] = np.zeros(self.size, np.int64)
        for name, column in columns.items():
            column[row] = amounts.get(name, 0)

    def _load_node(self, row: int, info: NodeInfo) -> None:
        self.node_version += 1
        self.node_stamp[row] = self.node_version
        if self._load_labels(row, info):
            self.topology_version += 1
        self._load_node_columns(row, info)

    def _load_labels(self, row: int, info: NodeInfo) -> bool:
        changed = False
        for column in self._labels.values():
            code = column.code_of(info)
            if column.codes[row] != code:
                column.codes[row] = code
                changed = True
        return changed

    def _load_node_columns(self, row: int, info: NodeInfo) -> None:
        node, allocatable = info.node, info.allocatable
        self.allocatable_base[:, row] = allocatable.milli_cpu, allocatable.memory, allocatable.ephemeral_storage
        self.allowed_pods[row] = allocatable.allowed_pod_number
        if allocatable.scalar or self.scalar_allocatable:
            self._load_scalars(row, allocatable.scalar, self.scalar_allocatable)
        self._forget_unused()
        self.taints[row] = self.taint_sets.code(node.spec.taints if node else ())
        self.unschedulable[row] = node.spec.unschedulable if node else False
        self.features[row] = self.feature_sets.code(info.declared_features)
        states = info.image_states
        key = tuple(sorted((n, s.size, s.num_nodes) for n, s in states.items())) if states else ()
        self.images[row] = self.image_sets.code(key)

    def _forget_unused(self) -> None:
        """Number the values anew when most of them are no longer on any node: images and features come and go."""
        limit = 2 * self.size + _SPARE_VALUES
        if len(self.taint_sets.values) > limit:
            self.taint_sets, self.taints = _renumbered(self.taint_sets, self.taints)
        if len(self.image_sets.values) > limit:
            self.image_sets, self.images = _renumbered(self.image_sets, self.images)
        if len(self.feature_sets.values) > limit:
            self.feature_sets, self.features = _renumbered(self.feature_sets, self.features)

    # ---- reading ----------------------------------------------------------------------------

    def labels(self, key: str) -> LabelColumn:
        """The column of a label key, made on first use."""
        column = self._labels.get(key)
        if column is None:
            column = LabelColumn(key, self.infos)
            self._labels[key] = column
        return column

    def allocatable(self, resource: str) -> Int64s:
        """The column of allocatable amounts; zeros for a resource that no node has."""
        if resource in BASE_RESOURCES:
            column: Int64s = self.allocatable_base[BASE_RESOURCES.index(resource)]
            return column
        return self._scalar(resource, self.scalar_allocatable)

    def requested(self, resource: str) -> Int64s:
        """The column of requested amounts."""
        if resource in BASE_RESOURCES:
            column: Int64s = self.requested_base[BASE_RESOURCES.index(resource)]
            return column
        return self._scalar(resource, self.scalar_requested)

    def _scalar(self, name: str, columns: dict[str, Int64s]) -> Int64s:
        column = columns.get(name)
        if column is None:
            column = columns[name] = np.zeros(self.size, np.int64)
        return column

    def all_labelled(self, key: str) -> bool:
        """Whether every node has the label."""
        return self.labels(key).is_complete(self.topology_version)

    def all_have(self, resource: str) -> bool:
        """Whether every node has some of a resource; worked out again only after a node changed."""
        version, answer = self._all_have.get(resource, (-1, False))
        if version != self.node_version:
            answer = bool(self.allocatable(resource).all())
            self._all_have[resource] = (self.node_version, answer)
        return answer


__all__ = ["ABSENT", "Bools", "ChangeLog", "Int32s", "Int64s", "Interned", "LabelColumn", "NodeTable", "RowChange"]
