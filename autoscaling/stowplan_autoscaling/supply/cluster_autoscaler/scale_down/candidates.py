"""In which order nodes are looked at: empty ones first, then those that were not needed in the last loop.

Follows pkg/processors/scaledowncandidates of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot
from stowplan_autoscaling.supply.go_sort import go_sorted

from .disruption import RemainingBudgets
from .drain_rules import DrainRules


class Candidates:
    """Nodes of groups above their minimum, in order.

    With --scale-down-delay-type-local, groups that were scaled a short while ago are left out. `previous`: names of
    nodes that were not needed in the last loop.
    """

    def __init__(
        self, options: AutoscalingOptions, table: GroupTable, snapshot: ClusterSnapshot, rules: DrainRules
    ) -> None:
        self._options = options
        self._table = table
        self._snapshot = snapshot
        self._rules = rules
        self.previous: frozenset[str] = frozenset()
        self.scale_ups: dict[str, int] = {}
        self.scale_downs: dict[str, int] = {}
        self.until: int | None = None
        """When time alone may change the order of the last loop."""
        self._ranks: dict[str, _Rank] = {}
        self._sorted: tuple[list[str], list[int], list[int]] = ([], [], [])

    def ordered(self, nodes: Iterable[ObservedNode], now: int) -> list[ObservedNode]:
        """The candidates among `nodes`; equals as Go's sort leaves them."""
        open_groups = {
            group_id for group_id, group in self._table.groups.items() if self._table.target(group_id) > group.min_size
        }
        found = [seen for seen in nodes if seen.group in open_groups]
        found = self._by_rank(found, now)
        if self._options.scale_down_delay_type_local:
            found = [seen for seen in found if not self._is_recent(seen.group or "", now)]
        return found

    def forget_findings(self) -> None:
        """Rank all nodes anew."""
        self._ranks = {}
        self._sorted = ([], [], [])

    def _by_rank(self, nodes: list[ObservedNode], now: int) -> list[ObservedNode]:
        """The nodes in order of rank; as in the last loop if neither names nor ranks have changed."""
        names = [seen.node.metadata.name for seen in nodes]
        held, self._ranks, self.until = self._ranks, {}, None
        ranks = [self._rank(name, held.get(name), now) for name in names]
        known, known_ranks, order = self._sorted
        if names != known or ranks != known_ranks:
            order = go_sorted(range(len(names)), ranks.__getitem__)
            self._sorted = (names, ranks, order)
        return [nodes[index] for index in order]

    def _rank(self, name: str, held: _Rank | None, now: int) -> int:
        """Empty first, of these the ones without pods to wait for; then nodes that were not needed before."""
        info = self._snapshot.get(name)
        if info is None:
            return 4 + (name not in self.previous)
        if held is None or held.generation != info.generation or (held.until is not None and held.until <= now):
            moves = self._rules.pods_to_move(info.pods, _NO_BUDGETS, now, check_owners=False)
            empty = moves.blocking is None and not moves.pods
            held = _Rank(info.generation, (2 if moves.on_completion else 0) if empty else 4, moves.until)
        self._ranks[name] = held
        if held.until is not None:
            self.until = held.until if self.until is None else min(self.until, held.until)
        return held.rank + (name not in self.previous)

    def _is_recent(self, group_id: str, now: int) -> bool:
        options = self._options
        return _within(self.scale_ups.get(group_id), options.scale_down_delay_after_add, now) or _within(
            self.scale_downs.get(group_id), options.scale_down_delay_after_delete, now
        )


class _Rank(NamedTuple):
    """The rank of a node with these contents, until then (None: for ever)."""

    generation: int
    rank: int
    until: int | None


_NO_BUDGETS = RemainingBudgets()


def _within(when: int | None, delay: int, now: int) -> bool:
    return when is not None and when + delay > now
