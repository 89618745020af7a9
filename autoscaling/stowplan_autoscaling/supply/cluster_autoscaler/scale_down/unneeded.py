"""Nodes that are not needed, and since when; which of them may go now.

Follows pkg/core/scaledown/unneeded/nodes.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupConfig, GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.quotas import QuotaTracker

from . import reasons
from .drain_rules import PodsToMove
from .eligibility import is_disabled


@dataclass(frozen=True, slots=True)
class Removable:
    """A node that can go. `risky`: its budgets do not allow all evictions at once."""

    seen: ObservedNode
    moves: PodsToMove
    risky: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.seen.node.metadata.name


@dataclass(frozen=True, slots=True)
class UnneededNode:
    """A removable node. `since`: when it was first found to be so; `threshold`: how long it must stay so."""

    removable: Removable
    since: int
    threshold: int


class UnneededNodes:
    """The unneeded nodes by name, in order of name."""

    def __init__(self, table: GroupTable, config: GroupConfig) -> None:
        self._table = table
        self._config = config
        self.by_name: dict[str, UnneededNode] = {}

    def update(self, nodes: Iterable[Removable], now: int) -> None:
        """These are unneeded now; those that were so before keep their time."""
        found: dict[str, UnneededNode] = {}
        for removable in sorted(nodes, key=lambda each: each.name):
            held = self.by_name.get(removable.name)
            since = now if held is None else held.since
            found[removable.name] = UnneededNode(removable, since, self._threshold(removable.seen))
        self.by_name = found

    def _threshold(self, seen: ObservedNode) -> int:
        group = self._table.groups.get(seen.group or "")
        return 0 if group is None else self._config.removal_time(group, ready=seen.ready)

    def clear(self) -> None:
        """All nodes are needed."""
        self.by_name = {}

    def next_change(self, now: int) -> int | None:
        """When the next node has been unneeded for long enough; None if none is waiting."""
        ends = (each.since + each.threshold for each in self.by_name.values() if each.threshold > 0)
        return min((end + 1 for end in ends if end >= now), default=None)

    def removable_at(
        self, in_deletion: Mapping[str, int], tracker: QuotaTracker, now: int
    ) -> tuple[list[Removable], list[Removable], dict[str, str]]:
        """(empty nodes that may go, nodes to be drained that may go, why the others may not).

        `in_deletion`: nodes by group that are on their way out.
        """
        sizes = {group_id: self._table.target(group_id) for group_id in self._table.groups}
        empty: list[Removable] = []
        drain: list[Removable] = []
        unremovable: dict[str, str] = {}
        for each in sorted(self.by_name.values(), key=lambda node: bool(node.removable.moves.pods)):
            reason = self._why_not(each, sizes, in_deletion, tracker, now)
            if reason:
                unremovable[each.removable.name] = reason
            else:
                (drain if each.removable.moves.pods else empty).append(each.removable)
        return empty, drain, unremovable

    def _why_not(
        self,
        each: UnneededNode,
        sizes: dict[str, int],
        in_deletion: Mapping[str, int],
        tracker: QuotaTracker,
        now: int,
    ) -> str:
        seen = each.removable.seen
        if is_disabled(seen.node):
            return reasons.SCALE_DOWN_DISABLED
        if each.threshold > 0 and each.since + each.threshold >= now:
            return reasons.NOT_UNNEEDED_LONG_ENOUGH if seen.ready else reasons.NOT_UNREADY_LONG_ENOUGH
        group = self._table.groups.get(seen.group or "")
        if group is None:
            return reasons.NOT_AUTOSCALED
        if sizes[group.id] - in_deletion.get(group.id, 0) <= group.min_size:
            return reasons.MIN_SIZE_REACHED
        if tracker.consume(seen.node, group.id, 1).exceeded:
            return reasons.MINIMAL_LIMIT
        sizes[group.id] -= 1
        return ""
