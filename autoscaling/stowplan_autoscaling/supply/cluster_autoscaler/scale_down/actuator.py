"""Starting deletions, and keeping track of them.

Follows pkg/core/scaledown/actuation and deletiontracker of kubernetes-sigs/cluster-autoscaler. What upstream does in
the background (waiting, evicting, asking the cloud) is told to the caller as a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stowplan_autoscaling.supply.cluster_autoscaler.decisions import AddTaint, DeleteNode, LoopResult, ScaledDownNode
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupTable
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation, ObservedNode
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.pods import ENABLE_DS_EVICTION, is_daemon_set_pod, is_mirror_pod
from stowplan_autoscaling.supply.cluster_autoscaler.snapshot import ClusterSnapshot
from stowplan_autoscaling.supply.cluster_autoscaler.taints import deletion_taint
from stowplan_scheduler.framework.pod_info import PodInfo

from .budgets import Bucket, ScaleDownBudget


@dataclass(frozen=True, slots=True)
class ActuationStatus:
    """Deletions that are under way: names of empty and of drained nodes, and their number by group."""

    empty: frozenset[str]
    drained: frozenset[str]
    per_group: dict[str, int]


class Actuator:
    """See the module."""

    def __init__(
        self, options: AutoscalingOptions, table: GroupTable, snapshot: ClusterSnapshot, observation: Observation
    ) -> None:
        self._options = options
        self._table = table
        self._snapshot = snapshot
        self._observation = observation
        self._deletions: dict[str, tuple[str, bool]] = {}

    # ---- deletions under way -----------------------------------------------------------------

    @property
    def drained(self) -> list[str]:
        """Names of nodes that are being drained."""
        return [name for name, (_, drain) in self._deletions.items() if drain]

    def status(self) -> ActuationStatus:
        """Deletions under way now."""
        per_group: dict[str, int] = {}
        for group, _ in self._deletions.values():
            per_group[group] = per_group.get(group, 0) + 1
        drained = frozenset(self.drained)
        return ActuationStatus(frozenset(self._deletions) - drained, drained, per_group)

    def ended(self, name: str) -> str | None:
        """A deletion is over, well or not; the node's group, None if it was not under way."""
        found = self._deletions.pop(name, None)
        return None if found is None else found[0]

    # ---- starting ----------------------------------------------------------------------------

    def start(
        self,
        empty: Sequence[ObservedNode],
        drain: Sequence[ObservedNode],
        utilization: dict[str, float],
        now: int,
        result: LoopResult,
    ) -> bool:
        """Start as many deletions as may run side by side; whether there were any."""
        draining = len(self.drained)
        budget = ScaleDownBudget(
            self._table,
            self._options.max_scale_down_parallelism - len(self._deletions),
            self._options.max_drain_parallelism - draining,
            self._registered,
        )
        go_empty, go_drain = budget.crop(empty, drain)
        for buckets, drains in ((go_empty, False), (go_drain, True)):
            self._taint(buckets, now, result)
            for bucket in buckets:
                for seen in bucket.nodes:
                    self._delete(seen, bucket.group.id, utilization, result, drain=drains)
        return bool(go_empty or go_drain)

    def _registered(self, group_id: str) -> int:
        return sum(seen.group == group_id for seen in self._observation.nodes.values())

    def _taint(self, buckets: Sequence[Bucket], now: int, result: LoopResult) -> None:
        """All nodes first: a pod evicted from one of them should not come back to another."""
        cordon = self._options.cordon_node_before_terminating
        for bucket in buckets:
            for seen in bucket.nodes:
                result.decisions.append(AddTaint(seen.node.metadata.name, deletion_taint(now), cordon))

    def _delete(
        self, seen: ObservedNode, group: str, utilization: dict[str, float], result: LoopResult, *, drain: bool
    ) -> None:
        name, options = seen.node.metadata.name, self._options
        info = self._snapshot.get(name)
        by_default = (
            options.daemonset_eviction_for_occupied_nodes if drain else options.daemonset_eviction_for_empty_nodes
        )
        daemons, others = _to_evict(info.pods if info is not None else (), by_default=by_default)
        evicted = tuple(others) if drain else ()
        self._deletions[name] = (group, drain)
        result.scale_down.deleted.append(ScaledDownNode(name, group, evicted, utilization.get(name)))
        result.decisions.append(
            DeleteNode(
                node=name,
                group=group,
                drain=drain,
                evict=tuple(pod for pod in evicted if pod.pod.spec.node_name == name),
                evict_daemons=tuple(daemons),
                delay=options.node_delete_delay_after_taint,
                give_up=options.max_pod_eviction_time,
                max_grace=options.max_graceful_termination_sec,
            )
        )


def _to_evict(pods: Sequence[PodInfo], *, by_default: bool) -> tuple[list[PodInfo], list[PodInfo]]:
    """(pods of DaemonSets that are evicted, other pods)."""
    daemons: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        if is_mirror_pod(pod):
            continue
        if not is_daemon_set_pod(pod):
            others.append(pod)
            continue
        annotation = pod.pod.metadata.annotations.get(ENABLE_DS_EVICTION)
        if annotation == "true" or (annotation is None and by_default):
            daemons.append(pod)
    return daemons, others
