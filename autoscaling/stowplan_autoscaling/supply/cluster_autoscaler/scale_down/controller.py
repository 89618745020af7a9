"""The scale-down half of a loop: candidates, planner, actuator and soft taints in their order.

Follows scaleDown of pkg/core/static_autoscaler.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    DELETE_STARTED,
    DOWN_IN_COOLDOWN,
    NO_CANDIDATES,
    NO_NODE_DELETED,
    LoopResult,
    Unremovable,
)
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupConfig, GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation, ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot

from .actuator import ActuationStatus, Actuator
from .candidates import Candidates
from .drain_rules import DrainRules
from .planner import Planner
from .soft_taints import update_soft_taints


class ScaleDown:
    """See the module."""

    def __init__(
        self,
        options: AutoscalingOptions,
        table: GroupTable,
        config: GroupConfig,
        snapshot: ClusterSnapshot,
        observation: Observation,
    ) -> None:
        self._options = options
        self._table = table
        self.rules = DrainRules(options, observation)
        self.planner = Planner(options, table, config, snapshot, observation, self.rules)
        self.actuator = Actuator(options, table, snapshot, observation)
        self.candidates = Candidates(options, table, snapshot, self.rules)
        self._observation = observation
        self._settled: _Settled | None = None
        self._report: tuple[dict[str, int], dict[str, Unremovable]] | None = None

    def run(
        self,
        nodes: Sequence[ObservedNode],
        status: ActuationStatus,
        now: int,
        result: LoopResult,
        *,
        in_cooldown: bool,
        as_observed: bool,
    ) -> None:
        """Find unneeded nodes, and start to delete some outside a cool-down. `nodes`: without upcoming ones.

        `as_observed`: the snapshot holds what was observed and nothing else. If that, and all else that counts, is as
        it was in a loop that came to rest, the outcome is that loop's.
        """
        key = self._key(status, in_cooldown=in_cooldown) if as_observed else None
        settled = self._settled
        if settled is not None and key == settled.key and now < settled.until and self.planner.can_skip(now):
            self.planner.skip(now)
            result.scale_down.result = settled.result
            return
        before = len(result.decisions)
        self._run(nodes, status, now, result, in_cooldown=in_cooldown)
        self._report = self._settled = None
        at_rest = self.planner.is_settled and len(result.decisions) == before
        if key is not None and at_rest and not self._options.scale_down_delay_type_local:
            times = (self.planner.next_change(now), self.candidates.until)
            until = min((each for each in times if each is not None), default=_NEVER)
            self._settled = _Settled(key, until, result.scale_down.result)

    def _key(self, status: ActuationStatus, *, in_cooldown: bool) -> tuple[object, ...]:
        targets = tuple(self._table.target(group_id) for group_id in self._table.groups)
        return self._observation.version, targets, status, in_cooldown

    def _run(
        self,
        nodes: Sequence[ObservedNode],
        status: ActuationStatus,
        now: int,
        result: LoopResult,
        *,
        in_cooldown: bool,
    ) -> None:
        candidates = self.candidates.ordered(nodes, now)
        self.planner.update(nodes, candidates, status, now)
        unneeded = self.planner.unneeded.by_name
        self.candidates.previous = frozenset(unneeded)
        if in_cooldown:
            result.scale_down.result = DOWN_IN_COOLDOWN
        elif not candidates:
            result.scale_down.result = NO_CANDIDATES
        else:
            empty, drain = self.planner.nodes_to_delete(status, now)
            started = self.actuator.start(empty, drain, self.planner.utilization, now, result)
            result.scale_down.result = DELETE_STARTED if started else NO_NODE_DELETED
        most = self._options.max_bulk_soft_taint_count
        if most:
            grouped = [seen for seen in nodes if seen.group in self._table.groups]
            update_soft_taints(grouped, unneeded, most, now, result)

    def forget(self) -> None:
        """No node counts as unneeded any more."""
        self.planner.unneeded.clear()
        self._report = self._settled = None

    def forget_findings(self) -> None:
        """Work the next loop out from nothing."""
        self._report = self._settled = None
        self.candidates.forget_findings()
        self.planner.forget_findings()

    def report(self, result: LoopResult) -> None:
        """Why nodes stay, and which are not needed. The mappings are made once as long as nothing changes."""
        if self._report is None:
            utilization = self.planner.utilization
            unneeded = {name: each.since for name, each in self.planner.unneeded.by_name.items()}
            unremovable = {
                name: replace(why, utilization=utilization.get(name))
                for name, why in sorted(self.planner.unremovable.items())
            }
            self._report = (unneeded, unremovable)
        result.scale_down.unneeded, result.scale_down.unremovable = self._report


class _Settled(NamedTuple):
    """A loop that came to rest: what it depended on, until when it holds, and how it ended."""

    key: tuple[object, ...]
    until: int
    result: str


_NEVER: Final = 1 << 62
