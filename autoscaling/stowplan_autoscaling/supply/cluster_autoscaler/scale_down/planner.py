"""Which nodes are not needed, and which of them should be deleted now.

Follows pkg/core/scaledown/planner/planner.go and the AtomicResizeFilteringProcessor of pkg/processors/nodes of
kubernetes-sigs/cluster-autoscaler. The time limit of a simulation is left out, and so are pods that were evicted a
short while ago: upstream's list of them is always empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.supply.cluster_autoscaler.decisions import Unremovable
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupConfig, GroupTable, NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation, ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.quotas import QuotaTracker
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot

from . import reasons
from .actuator import ActuationStatus
from .disruption import RemainingBudgets
from .drain_rules import DrainRules
from .eligibility import EligibilityChecker
from .removal import Destinations, Removal, RemovalSimulator
from .unneeded import Removable, UnneededNodes
from .utilization import UtilizationRule


class Planner:
    """See the module. `unremovable`: why nodes stay, of the last loop."""

    def __init__(
        self,
        options: AutoscalingOptions,
        table: GroupTable,
        config: GroupConfig,
        snapshot: ClusterSnapshot,
        observation: Observation,
        rules: DrainRules,
    ) -> None:
        self._options = options
        self._table = table
        self._snapshot = snapshot
        self._observation = observation
        utilization = UtilizationRule(observation, ignore_mirrors=options.ignore_mirror_pods_utilization)
        self._eligibility = EligibilityChecker(options, table, config, snapshot, utilization)
        self._simulator = RemovalSimulator(snapshot, rules, observation)
        self.unneeded = UnneededNodes(table, config)
        self.unremovable: dict[str, Unremovable] = {}
        self.utilization: dict[str, float] = {}
        self._recent: dict[str, int] = {}
        self._least_interval = max(1, options.scale_down_unneeded_time)
        self._updated: int | None = None
        self._failed = False
        self.is_settled = False
        """Whether another update would find the same, as long as nothing but time changes, until `next_change`."""
        self._until: int | None = None

    # ---- what is not needed ------------------------------------------------------------------

    def update(
        self,
        destinations: Sequence[ObservedNode],
        candidates: Sequence[ObservedNode],
        status: ActuationStatus,
        now: int,
    ) -> None:
        """Look at the candidates in order. `destinations`: nodes that pods may move to."""
        self.skip(now)
        searches, before = self._snapshot.matches, self.unneeded.by_name.keys()
        leaving = status.empty | status.drained
        places = Destinations({seen.node.metadata.name for seen in destinations} - leaving)
        self._snapshot.fork()
        try:
            self._categorize(places, [seen for seen in candidates if seen.node.metadata.name not in leaving], now)
        finally:
            self._snapshot.revert()
        self._simulator.drop_old_hints()
        # With every pod where it was the last time, no search moved on and no hint changed.
        same = searches == self._snapshot.matches and before == self.unneeded.by_name.keys()
        self.is_settled = same and not self._failed and self._eligibility.is_lasting

    def forget_findings(self) -> None:
        """Judge all nodes anew."""
        self._eligibility.forget_findings()

    def skip(self, now: int) -> None:
        """A loop in which an update would find what the last one has found."""
        if self._updated is not None:
            self._least_interval = min(self._least_interval, now - self._updated)
        self._updated = now

    def can_skip(self, now: int) -> bool:
        """Whether this loop comes no sooner than loops did before: the interval decides how much is looked at."""
        return self._updated is not None and now - self._updated >= self._least_interval

    def _categorize(self, places: Destinations, candidates: Sequence[ObservedNode], now: int) -> None:
        self._recent = {name: until for name, until in self._recent.items() if until > now and name in self._snapshot}
        eligible, self.utilization, self.unremovable = self._eligibility.filter(candidates, self._recent, now)
        budgets = RemainingBudgets(self._observation.budgets)
        by_name = {seen.node.metadata.name: seen for seen in candidates}
        limit = self._unneeded_limit()
        removable: list[Removable] = []
        atomic = 0
        self._failed, self._until = False, None
        for name in eligible:
            if len(removable) - atomic >= limit:
                break
            removal = self._simulator.simulate(name, places, budgets, now)
            if removal.moves.until is not None:
                self._until = min(removal.moves.until, self._until or removal.moves.until)
            if not removal.possible:
                self._note(name, removal, now)
                continue
            pods = removal.moves.pods
            seen = by_name[name]
            removable.append(Removable(seen, removal.moves, risky=not budgets.allows_in_parallel(pods)))
            places.discard(name)
            budgets.remove(pods)
            atomic += self._is_atomic(seen)
        self.unneeded.update(removable, now)

    def _note(self, name: str, removal: Removal, now: int) -> None:
        moves = removal.moves
        self._failed = True
        self._recent[name] = now + self._options.unremovable_node_recheck_timeout
        if moves.blocking is None:
            self.unremovable[name] = Unremovable(reasons.NO_PLACE)
        else:
            self.unremovable[name] = Unremovable(reasons.BLOCKED_BY_POD, moves.blocking, moves.reason)

    def _unneeded_limit(self) -> int:
        """More unneeded nodes than this could not be deleted in time anyway."""
        parallel = self._options.max_scale_down_parallelism
        limit = len(self.unneeded.by_name) + 2 * parallel
        interval = self._least_interval
        loops = max(self._options.scale_down_unneeded_time, interval) // interval if interval > 0 else limit
        return min(limit, parallel * loops + parallel)

    def _group(self, seen: ObservedNode) -> NodeGroup | None:
        return self._table.groups.get(seen.group or "")

    def _is_atomic(self, seen: ObservedNode) -> bool:
        group = self._group(seen)
        return group is not None and group.options.zero_or_max_node_scaling

    def next_change(self, now: int) -> int | None:
        """When time alone will change the outcome: a node may be looked at again, or has been unneeded long enough."""
        rechecks = min(self._recent.values(), default=None)
        times = (rechecks, self.unneeded.next_change(now), self._until)
        return min((each for each in times if each is not None), default=None)

    # ---- what is to go now -------------------------------------------------------------------

    def nodes_to_delete(self, status: ActuationStatus, now: int) -> tuple[list[ObservedNode], list[ObservedNode]]:
        """(empty nodes, nodes to be drained) that have been unneeded for long enough, in order."""
        nodes = []
        for info in self._snapshot.infos():
            assert info.node is not None
            seen = self._observation.nodes.get(info.name)
            nodes.append((info.node, seen.group if seen is not None else None))
        tracker = QuotaTracker.to_minimum(self._options, nodes)
        empty, drain, unremovable = self.unneeded.removable_at(status.per_group, tracker, now)
        self._add_reasons(unremovable)
        drain = [each for each in drain if not each.risky] + [each for each in drain if each.risky]
        found: tuple[list[ObservedNode], list[ObservedNode]] = ([], [])
        for each in self._whole_groups([*empty, *drain]):
            if each.moves.on_completion:
                self._add_reasons({each.name: reasons.ON_COMPLETION})
            else:
                found[1 if each.moves.pods else 0].append(each.seen)
        return found

    def _add_reasons(self, found: dict[str, str]) -> None:
        self.unremovable.update({name: Unremovable(reason) for name, reason in found.items()})

    def _whole_groups(self, nodes: Sequence[Removable]) -> list[Removable]:
        """Of groups that have all their nodes or none, either all nodes go or none does."""
        single = [each for each in nodes if not self._is_atomic(each.seen)]
        by_group: dict[str, list[Removable]] = {}
        for each in nodes:
            if self._is_atomic(each.seen):
                by_group.setdefault(each.seen.group or "", []).append(each)
        for group_id, members in by_group.items():
            registered = sum(seen.group == group_id for seen in self._observation.nodes.values())
            if len(members) in {self._table.target(group_id), registered}:
                single.extend(members)
            else:
                self._add_reasons({each.name: reasons.ATOMIC_FAILED for each in members})
        return single
