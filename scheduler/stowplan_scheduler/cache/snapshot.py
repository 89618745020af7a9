"""The snapshot that a scheduling cycle reads, and the delta that tells what an update changed in it.

Follows pkg/scheduler/backend/cache/snapshot.go of Kubernetes v1.37.2, and updateNodeInfoSnapshotList of cache.go. The
delta has no counterpart upstream: it lets tables and counters follow the snapshot without reading all of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from .errors import CacheError
from .node_info import JournalEntry, NodeInfo, add_counts

NO_PODS: Final = (1 << 63) - 1
"""Stands for the lowest priority where there are no pods."""

_row = attrgetter("row")


class RowChange(msgspec.Struct):
    """A NodeInfo of the snapshot that was written anew.

    `pods` are the pods that came (+1) and went (-1), all of its pods if the NodeInfo is new. Added up over all deltas,
    they give the pods of each row as (uid, shape, terminating); another object for the same pod makes no entry.
    `node_changed`: something of the node that a rule can read, or the states of its images.
    """

    info: NodeInfo
    pods: Sequence[JournalEntry]
    node_changed: bool


class SnapshotDelta(msgspec.Struct):
    """What one update changed, the most recently changed node first.

    `relaid`: rows have other positions; `previous_rows` then has for each row the old one, or -1. `removed` are the
    NodeInfos that left the snapshot, with the node and the pods that they had in it; their row is -1 by now.
    """

    changes: list[RowChange] = []
    relaid: bool = False
    previous_rows: list[int] | None = None
    removed: list[NodeInfo] = []


class SnapshotInconsistent(CacheError):  # noqa: N818 - says what is the case, as upstream's text
    """The snapshot and the node tree disagreed. The snapshot was repaired already, and `delta` tells how."""

    def __init__(self, message: str, delta: SnapshotDelta) -> None:
        super().__init__(message)
        self.delta = delta


class Snapshot:
    """The nodes as they were when the snapshot was last updated (`Cache.update_snapshot`).

    `node_info_list` is in the order of the node tree when it was last laid out, and `node_info_list[i].row == i`.
    `have_pods_with_affinity` and `have_pods_with_required_anti_affinity` are in the same order.
    `used_pvc_ref_counts`: namespace/name of a claim -> number of uses by pods. No pod has a priority below
    `lowest_priority`; NO_PODS without pods.
    """

    __slots__ = (
        "generation",
        "have_pods_with_affinity",
        "have_pods_with_required_anti_affinity",
        "lowest_priority",
        "node_info_list",
        "node_info_map",
        "used_pvc_ref_counts",
    )

    def __init__(self) -> None:
        """An empty snapshot, older than everything."""
        self.node_info_map: dict[str, NodeInfo] = {}
        self.node_info_list: list[NodeInfo] = []
        self.have_pods_with_affinity: list[NodeInfo] = []
        self.have_pods_with_required_anti_affinity: list[NodeInfo] = []
        self.used_pvc_ref_counts: dict[str, int] = {}
        self.lowest_priority = -NO_PODS
        self.generation = 0

    def __len__(self) -> int:
        return len(self.node_info_list)

    def get(self, name: str) -> NodeInfo | None:
        """The NodeInfo of a node, None if the snapshot has no such node."""
        info = self.node_info_map.get(name)
        return None if info is None or info.node is None else info

    def is_claim_used(self, key: str) -> bool:
        """Whether a pod uses the claim `namespace/name` (upstream IsPVCUsedByPods)."""
        return self.used_pvc_ref_counts.get(key, 0) > 0

    def lay_out(self, names: Iterable[str], delta: SnapshotDelta) -> None:
        """Make all lists anew, in the order of `names`, and tell `delta`. For the cache."""
        infos = self.node_info_map
        before, after = self.node_info_list, [infos[name] for name in names if name in infos]
        previous = [info.row for info in after]
        for info in before:
            info.row = -1
        for row, info in enumerate(after):
            info.row = row
        if delta.previous_rows is not None:
            # Laid out for the second time in one update: whoever reads the delta knows only the rows before the first.
            previous = [-1 if row < 0 else delta.previous_rows[row] for row in previous]
        self.node_info_list = after
        self.have_pods_with_affinity = [info for info in after if info.pods_with_affinity]
        self.have_pods_with_required_anti_affinity = [i for i in after if i.pods_with_required_anti_affinity]
        self.count_claims()
        delta.relaid = True
        delta.previous_rows = previous
        delta.removed.extend(info for info in before if info.row < 0)

    def relist(self, info: NodeInfo) -> None:
        """Put a node of the list into the two lists of nodes with affinity, or take it out. For the cache."""
        _set_member(self.have_pods_with_affinity, info, bool(info.pods_with_affinity))
        _set_member(self.have_pods_with_required_anti_affinity, info, bool(info.pods_with_required_anti_affinity))

    def count_claims(self) -> None:
        """Count the uses of claims from nothing. For the cache."""
        counts: dict[str, int] = {}
        for info in self.node_info_list:
            for key, uses in (info.pvc_ref_counts or {}).items():
                counts[key] = counts.get(key, 0) + uses
        self.used_pvc_ref_counts = counts

    def apply_claim_changes(self, changes: Mapping[str, int]) -> bool:
        """Add up changes of the uses of claims; False if one of them comes out negative. For the cache."""
        counts = self.used_pvc_ref_counts
        for key, amount in changes.items():
            add_counts(counts, (key,), amount)
        return all(counts.get(key, 0) >= 0 for key in changes)


def _set_member(members: list[NodeInfo], info: NodeInfo, wanted: bool) -> None:
    """Insert into, or remove from, a list that is ordered by row."""
    at = bisect_left(members, info.row, key=_row)
    present = at < len(members) and members[at] is info
    if wanted and not present:
        members.insert(at, info)
    elif present and not wanted:
        del members[at]
