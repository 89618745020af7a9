"""How many nodes may be deleted side by side.

Follows pkg/core/scaledown/budgets of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupTable, NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode


@dataclass(slots=True)
class Bucket:
    """Nodes of one group that are to go."""

    group: NodeGroup
    nodes: list[ObservedNode]

    @property
    def is_atomic(self) -> bool:
        """Whether the group has all its nodes or none."""
        return self.group.options.zero_or_max_node_scaling


class ScaleDownBudget:
    """`parallel` deletions in all, `drain` of them with pods to evict, that may still be started."""

    def __init__(self, table: GroupTable, parallel: int, drain: int, registered: Callable[[str], int]) -> None:
        """`registered`: number of registered nodes of a group."""
        self._table = table
        self._parallel = parallel
        self._drain = drain
        self._registered = registered
        self._may_overflow = True

    def crop(self, empty: Sequence[ObservedNode], drain: Sequence[ObservedNode]) -> tuple[list[Bucket], list[Bucket]]:
        """(empty nodes, nodes to be drained) that may go now, by group. Atomic groups come first, as a whole."""
        empties, drains = self._buckets(empty), self._buckets(drain)
        drained = {bucket.group.id: bucket for bucket in drains if bucket.is_atomic}
        emptied = {bucket.group.id for bucket in empties if bucket.is_atomic}
        go_empty: list[Bucket] = []
        go_drain: list[Bucket] = []
        for bucket in [each for each in empties if each.is_atomic]:
            partner = drained.get(bucket.group.id)
            pods = len(partner.nodes) if partner is not None else 0
            if not self._has_room(len(bucket.nodes) + pods, pods):
                break
            if not self._is_whole(bucket.group, len(bucket.nodes) + pods):
                continue
            go_empty.append(bucket)
            if partner is not None:
                go_drain.append(partner)
            self._take(len(bucket.nodes) + pods, pods)
        self._drain = min(self._parallel, self._drain)
        for bucket in [each for each in drains if each.is_atomic and each.group.id not in emptied]:
            if self._drain < len(bucket.nodes) and (self._drain == 0 or not self._may_overflow):
                break
            if self._is_whole(bucket.group, len(bucket.nodes)):
                go_drain.append(bucket)
                self._take(len(bucket.nodes), len(bucket.nodes))
        self._parallel -= _crop_single(go_empty, empties, self._parallel)
        self._drain = min(self._parallel, self._drain)
        _crop_single(go_drain, drains, self._drain)
        return go_empty, go_drain

    def _has_room(self, nodes: int, drained: int) -> bool:
        """One group that is too large may go alone, or it never could."""
        if self._parallel >= nodes and self._drain >= drained:
            return True
        return self._may_overflow and self._parallel != 0 and not (drained and self._drain == 0)

    def _take(self, nodes: int, drained: int) -> None:
        self._parallel -= nodes
        self._drain -= drained
        self._may_overflow = False

    def _is_whole(self, group: NodeGroup, count: int) -> bool:
        return count in {self._table.target(group.id), self._registered(group.id)}

    def _buckets(self, nodes: Sequence[ObservedNode]) -> list[Bucket]:
        found: dict[str, Bucket] = {}
        for seen in nodes:
            group = self._table.groups.get(seen.group or "")
            if group is not None:
                found.setdefault(group.id, Bucket(group, [])).nodes.append(seen)
        return list(found.values())


def _crop_single(go: list[Bucket], buckets: Sequence[Bucket], budget: int) -> int:
    """Let nodes of groups that need not go as a whole into `go`; how many."""
    left = budget
    for bucket in buckets:
        if bucket.is_atomic:
            continue
        if left < 1:
            break
        go.append(Bucket(bucket.group, bucket.nodes[:left]))
        left -= len(bucket.nodes[:left])
    return budget - left
