"""Which nodes are worth a look: idle enough, not annotated, not looked at in vain a short while ago.

Follows pkg/core/scaledown/eligibility of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stowplan_autoscaling.supply.cluster_autoscaler.decisions import Unremovable
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupConfig, GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.observation import ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.pods import ANNOTATIONS, gpu_resource
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot
from stowplan_autoscaling.supply.cluster_autoscaler.taints import is_being_deleted
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.objects import Node

from . import reasons
from .utilization import UtilizationRule

SCALE_DOWN_DISABLED_KEY: Final = ANNOTATIONS + "scale-down-disabled"


def is_disabled(node: Node) -> bool:
    """Whether an annotation keeps the node."""
    return node.metadata.annotations.get(SCALE_DOWN_DISABLED_KEY) == "true"


class _Verdict(NamedTuple):
    """What was found for a node with these contents."""

    seen: ObservedNode
    generation: int
    reason: str
    used: float | None


_RECENT: Final = Unremovable(reasons.RECENTLY_UNREMOVABLE)


class EligibilityChecker:
    """See the module."""

    def __init__(
        self,
        options: AutoscalingOptions,
        table: GroupTable,
        config: GroupConfig,
        snapshot: ClusterSnapshot,
        utilization: UtilizationRule,
    ) -> None:
        self._options = options
        self._table = table
        self._config = config
        self._snapshot = snapshot
        self._utilization = utilization
        self._known: dict[str, _Verdict] = {}
        self.is_lasting = True
        """Whether time alone cannot change a verdict of the last loop."""

    def filter(
        self, candidates: Iterable[ObservedNode], recent: Iterable[str], now: int
    ) -> tuple[list[str], dict[str, float], dict[str, Unremovable]]:
        """(eligible names in order, utilization by name, why the others are not). `recent`: unremovable lately."""
        recent = set(recent)
        eligible: list[str] = []
        utilization: dict[str, float] = {}
        ineligible: dict[str, Unremovable] = {}
        known, self._known, self.is_lasting = self._known, {}, True
        for seen in candidates:
            name = seen.node.metadata.name
            if name in recent:
                ineligible[name] = _RECENT
                continue
            info = self._snapshot.get(name)
            assert info is not None
            verdict = known.get(name)
            if verdict is None or verdict.seen is not seen or verdict.generation != info.generation:
                verdict = _Verdict(seen, info.generation, *self._judge(seen, info, now))
            if verdict.reason == reasons.BEING_DELETED or any(pod.terminating for pod in info.pods):
                self.is_lasting = False
            else:
                self._known[name] = verdict
            reason, used = verdict.reason, verdict.used
            if used is not None:
                utilization[name] = used
            if reason:
                ineligible[name] = Unremovable(reason)
            else:
                eligible.append(name)
        return eligible, utilization, ineligible

    def forget_findings(self) -> None:
        """Judge all nodes anew."""
        self._known = {}

    def _judge(self, seen: ObservedNode, info: NodeInfo, now: int) -> tuple[str, float | None]:
        node = seen.node
        if is_being_deleted(node, now):
            return reasons.BEING_DELETED, None
        if is_disabled(node):
            return reasons.SCALE_DOWN_DISABLED, None
        group = self._table.groups.get(seen.group or "")
        if group is None:
            return reasons.NOT_AUTOSCALED, None
        used = self._utilization.of(info, now, ignore_daemons=self._config.ignores_daemon_sets(group))
        if used is None:
            return reasons.UNEXPECTED, None
        if not self._options.scale_down_unready_enabled and not seen.ready:
            return reasons.UNREADY_DISABLED, None
        threshold = self._config.utilization_threshold(group, gpu=gpu_resource(node) is not None)
        return (reasons.NOT_UNDERUTILIZED, used) if used > threshold else ("", used)
