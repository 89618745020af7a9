"""Scaling up: which group gets how many nodes for the pods that fit nowhere.

Follows pkg/core/scaleup/orchestrator of kubernetes-sigs/cluster-autoscaler. Groups that would have to be created first
(node autoprovisioning) and all-or-nothing requests (ProvisioningRequest) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Node

from .cluster_state import ClusterStateRegistry
from .decisions import (
    ERROR,
    NO_OPTIONS,
    NOT_NEEDED,
    SUCCESSFUL,
    IncreaseSize,
    LoopResult,
    OptionReport,
    ScaleUpStatus,
    UnhelpedPod,
)
from .equivalence import PodGroup, Reasons, build_pod_groups
from .estimation_limits import EstimationLimiter, estimation_limit
from .estimator import BinpackingEstimator
from .expanders import ExpanderChain, Option
from .node_groups import GroupTable, NodeGroup
from .options import AutoscalingOptions
from .quotas import QUOTA_ID, QuotaCheck, QuotaTracker
from .similar_groups import GroupComparator, ScaleUpInfo, balance
from .snapshot import ClusterSnapshot
from .templates import TemplateNode

BACKOFF: Final[Reasons] = ("in backoff after failed scale-up",)
MAX_SIZE: Final[Reasons] = ("max node group size reached",)
NOT_READY: Final[Reasons] = ("not ready for scale-up",)
ATOMIC: Final[Reasons] = ("atomic scale-up exceeds cluster node count limit",)
FILTERED_OUT: Final[Reasons] = ("expansion options filtered out and no longer considered",)
FAILED: Final[Reasons] = ("scale-up execution failed",)

ClusterNodes = Sequence[tuple[Node, str | None]]
"""Nodes of the snapshot, upcoming ones included, with the ids of their groups."""

Fitting = dict[str, list[PodGroup]]
"""Group id -> the pods that a new node of it would take."""


@dataclass(slots=True)
class Round:
    """What one scale-up looks at."""

    pods: list[PodGroup]
    nodes: ClusterNodes
    templates: Mapping[str, TemplateNode]
    now: int


class ScaleUpOrchestrator:
    """See the module."""

    def __init__(
        self,
        options: AutoscalingOptions,
        table: GroupTable,
        state: ClusterStateRegistry,
        snapshot: ClusterSnapshot,
        expanders: ExpanderChain,
    ) -> None:
        self._options = options
        self._table = table
        self._state = state
        self._snapshot = snapshot
        self._expanders = expanders
        self._comparator = GroupComparator(options)
        self._estimator = BinpackingEstimator(snapshot, fastpath=options.fastpath_binpacking_enabled)

    # ---- for pending pods --------------------------------------------------------------------

    def scale_up(
        self,
        pods: Sequence[PodInfo],
        nodes: ClusterNodes,
        templates: Mapping[str, TemplateNode],
        cluster_size: int,
        now: int,
        result: LoopResult,
    ) -> ScaleUpStatus:
        """One scale-up; its decisions go to `result`. `cluster_size`: registered nodes."""
        this = Round(build_pod_groups(pods), nodes, templates, now)
        tracker = QuotaTracker.to_maximum(self._options, nodes)
        valid, skipped = self._valid_groups(this, tracker)
        fitting: Fitting = {group.id: self._fitting(this.pods, group, templates[group.id]) for group in valid}
        options = [option for group in valid if (option := self._option(this, group, fitting)) is not None]
        result.options.extend(_report(option) for option in options)
        if not options:
            return self._no_options(this, skipped)
        best = self._expanders.best_option(options, cluster_size)
        if best is None or best.node_count <= 0:
            _mark_all(this.pods, FILTERED_OUT)
            return self._no_options(this, skipped)
        result.chosen = best.group.id
        return self._carry_out(this, best, fitting, skipped, tracker, result)

    def _carry_out(
        self,
        this: Round,
        best: Option,
        fitting: Fitting,
        skipped: dict[str, Reasons],
        tracker: QuotaTracker,
        result: LoopResult,
    ) -> ScaleUpStatus:
        limited: list[str] = []
        count = self._capped(best.node_count, len(this.nodes))
        if count < best.node_count:
            limited.append("max-nodes-total")
        if count < 1:
            _mark_all(this.pods, FAILED)
            return ScaleUpStatus(
                ERROR,
                triggered=best.pods,
                unhelped=self._unhelped(this, skipped),
                skipped=skipped,
                limited_by=tuple(limited),
            )
        check = tracker.check(best.template.node, best.group.id, count)
        limited.extend(check.exceeded)
        infos = self._balanced(this, best.group, check.allowed, fitting, tracker)
        if sum(info.increase for info in infos) < check.allowed:
            limited.append("max-size")
        self._execute(infos, this.now, result)
        return ScaleUpStatus(
            SUCCESSFUL,
            plan=[(info.group.id, info.current_size, info.new_size) for info in infos],
            triggered=best.pods,
            awaiting=_awaiting(this.pods, best.group.id),
            unhelped=self._unhelped(this, skipped),
            skipped=skipped,
            limited_by=tuple(limited),
        )

    def _no_options(self, this: Round, skipped: dict[str, Reasons]) -> ScaleUpStatus:
        return ScaleUpStatus(NO_OPTIONS, unhelped=self._unhelped(this, skipped), skipped=skipped)

    def _execute(self, infos: Sequence[ScaleUpInfo], now: int, result: LoopResult) -> None:
        for info in infos:
            result.decisions.append(IncreaseSize(info.group.id, info.increase, info.new_size))
            self._table.change_target(info.group.id, info.increase)
            self._state.register_scale_up(info.group, info.increase, now)
        self._state.recalculate()

    # ---- for minimum sizes -------------------------------------------------------------------

    def scale_up_to_min_size(
        self, nodes: ClusterNodes, templates: Mapping[str, TemplateNode], now: int, result: LoopResult
    ) -> ScaleUpStatus:
        """Bring groups below their minimum up to it (--enforce-node-group-min-size)."""
        tracker = QuotaTracker.to_maximum(self._options, nodes)
        infos: list[ScaleUpInfo] = []
        for group in self._table.groups.values():
            target = self._table.target(group.id)
            template = templates.get(group.id)
            if target >= group.min_size or template is None or self._not_ready(group, now) is not None:
                continue
            if tracker.check(template.node, group.id, 1).exceeded:
                continue
            count = tracker.check(template.node, group.id, group.min_size - target).allowed
            count = self._capped(count, target)
            if count >= 1:
                infos.append(ScaleUpInfo(group, target, target + count, group.max_size))
        if not infos:
            return ScaleUpStatus(NOT_NEEDED)
        self._execute(infos, now, result)
        return ScaleUpStatus(SUCCESSFUL, plan=[(info.group.id, info.current_size, info.new_size) for info in infos])

    # ---- groups ------------------------------------------------------------------------------

    def _valid_groups(self, this: Round, tracker: QuotaTracker) -> tuple[list[NodeGroup], dict[str, Reasons]]:
        """(groups that may grow, why the others may not)."""
        valid: list[NodeGroup] = []
        skipped: dict[str, Reasons] = {}
        for group in self._table.groups.values():
            reason = self._why_not(group, this, tracker)
            if reason is None:
                valid.append(group)
            else:
                skipped[group.id] = reason
        return valid, skipped

    def _why_not(self, group: NodeGroup, this: Round, tracker: QuotaTracker) -> Reasons | None:
        reason = self._not_ready(group, this.now)
        if reason is not None:
            return reason
        target = self._table.target(group.id)
        if target >= group.max_size:
            return MAX_SIZE
        count = 1
        if group.options.zero_or_max_node_scaling:
            count = group.max_size - target
            total = self._options.max_nodes_total
            if total and len(this.nodes) + count > total:
                return ATOMIC
        template = this.templates.get(group.id)
        if template is None:
            return NOT_READY
        check = tracker.check(template.node, group.id, count)
        return _exceeded(check) if check.exceeded else None

    def _not_ready(self, group: NodeGroup, now: int) -> Reasons | None:
        safety = self._state.scale_up_safety(group.id, now)
        if safety.is_safe:
            return None
        return NOT_READY if not safety.healthy else BACKOFF

    def _capped(self, count: int, current: int) -> int:
        """New nodes within --max-nodes-total."""
        total = self._options.max_nodes_total
        return min(count, total - current) if total > 0 else count

    # ---- options -----------------------------------------------------------------------------

    def _fitting(self, pods: Sequence[PodGroup], group: NodeGroup, template: TemplateNode) -> list[PodGroup]:
        """The pods that an empty new node of the group would take; notes the reasons of the others."""
        found = []
        self._snapshot.fork()
        self._snapshot.add(template.copy())
        for pod_group in pods:
            status = self._snapshot.check(pod_group.sample, template.name)
            if status.is_success:
                found.append(pod_group)
                pod_group.schedulable = True
                pod_group.fitting.append(group.id)
            else:
                pod_group.rejected[group.id] = status.reasons
        self._snapshot.revert()
        return found

    def _option(self, this: Round, group: NodeGroup, fitting: Fitting) -> Option | None:
        """How many nodes of the group would take how many pods; None if no pod fits."""
        pods = fitting[group.id]
        if not pods:
            return None
        similar = self._similar(this, group, fitting)
        limit = estimation_limit(self._options, self._table, group, similar, len(this.nodes))
        template = this.templates[group.id]
        count, scheduled = self._estimator.estimate(pods, template, EstimationLimiter(limit))
        if count > 0 and group.options.zero_or_max_node_scaling:
            count = group.max_size
        if not count or not scheduled:
            return None
        return Option(group=group, template=template, node_count=count, pods=tuple(scheduled), similar=tuple(similar))

    def _similar(self, this: Round, group: NodeGroup, fitting: Fitting) -> list[NodeGroup]:
        """Groups with nodes like this one's that would take the same pods."""
        if not self._options.balance_similar_node_groups or group.options.zero_or_max_node_scaling:
            return []
        pods = fitting.get(group.id)
        if not pods:
            return []
        found = []
        for other in self._table.groups.values():
            template = this.templates.get(other.id)
            if other.id == group.id or template is None or other.id not in fitting:
                continue
            if not self._comparator.are_similar(this.templates[group.id], template):
                continue
            if not self._state.scale_up_safety(other.id, this.now).is_safe:
                continue
            theirs = {id(each) for each in fitting[other.id]}
            if all(id(each) in theirs for each in pods):
                found.append(other)
        return found

    # ---- sizes -------------------------------------------------------------------------------

    def _balanced(
        self, this: Round, group: NodeGroup, count: int, fitting: Fitting, tracker: QuotaTracker
    ) -> list[ScaleUpInfo]:
        """Spread the new nodes over similar groups, each within the cluster's limits."""
        groups = [group]
        for other in self._similar(this, group, fitting):
            if not tracker.check(this.templates[other.id].node, other.id, 1).exceeded:
                groups.append(other)
        infos = balance(self._table, groups, count)
        for info in infos:
            node = this.templates[info.group.id].node
            allowed = tracker.check(node, info.group.id, info.increase).allowed
            info.new_size = info.current_size + allowed
            if allowed:
                tracker.consume(node, info.group.id, allowed)
        return [info for info in infos if info.increase]

    # ---- what is left over -------------------------------------------------------------------

    def _unhelped(self, this: Round, skipped: Mapping[str, Reasons]) -> list[UnhelpedPod]:
        if not self._options.scaleup_simulation_for_skipped_node_groups_enabled:
            return [
                UnhelpedPod(pod, group.rejected, skipped)
                for group in this.pods
                if not group.schedulable
                for pod in group.pods
            ]
        left = [PodGroup(each.pods, dict(each.rejected)) for each in this.pods if not each.schedulable]
        for group_id in skipped:
            template = this.templates.get(group_id)
            if template is not None:
                self._fitting(left, self._table.groups[group_id], template)
        return [
            UnhelpedPod(pod, each.rejected, {key: why for key, why in skipped.items() if key not in each.rejected})
            for each in left
            for pod in each.pods
        ]


def _exceeded(check: QuotaCheck) -> Reasons:
    return (f'exceeded quota: "{QUOTA_ID}", resources: {", ".join(check.exceeded)}',)


def _report(option: Option) -> OptionReport:
    return OptionReport(option.group.id, option.node_count, option.pods, tuple(group.id for group in option.similar))


def _mark_all(groups: Sequence[PodGroup], reason: Reasons) -> None:
    """No pod is helped after all."""
    for group in groups:
        if group.schedulable:
            group.rejected.update(dict.fromkeys(group.fitting, reason))
            group.schedulable = False


def _awaiting(groups: Sequence[PodGroup], chosen: str) -> tuple[PodInfo, ...]:
    """Pods that the chosen group does not help and another would."""
    return tuple(pod for group in groups if group.schedulable and chosen in group.rejected for pod in group.pods)
