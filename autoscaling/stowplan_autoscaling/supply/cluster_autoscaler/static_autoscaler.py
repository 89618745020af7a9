"""The autoscaler: one loop after the other over what it observes, with decisions as data.

    autoscaler = StaticAutoscaler(options, groups, observation)
    observation.set_node(...), .set_pod(...), .set_group(...)     # what changed
    result = autoscaler.run_once(now)                             # every scan interval
    carry_out(result.decisions)
    autoscaler.deletion_ended(...), .scale_up_failed(...)         # how it went

No IO, no clock, no chance but a generator that is passed in. Follows RunOnce of pkg/core/static_autoscaler.go of
kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from stowplan_autoscaling.kernel import MINUTE
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.config import KubeSchedulerConfiguration
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Node

from .cluster_state import ClusterStateRegistry
from .decisions import (
    DOWN_IN_COOLDOWN,
    LIMITED_BY_MAX_NODES,
    NOT_NEEDED,
    SUCCESSFUL,
    UP_IN_COOLDOWN,
    DecreaseTargetSize,
    DeleteInstances,
    GroupStatus,
    LoopResult,
    RemoveTaint,
    ScaleUpStatus,
    UnhelpedPod,
)
from .expanders import ExpanderChain, ExpanderContext
from .filters import filter_profile
from .node_groups import GroupConfig, GroupState, GroupTable, InstanceError, NodeGroup
from .observation import Observation, ObservedNode
from .options import HOUR, AutoscalingOptions
from .pending import PendingPods, all_are_new
from .pods import is_expendable
from .scale_down import ActuationStatus, PodsToMove, RemainingBudgets, ScaleDown
from .scale_up import ClusterNodes, ScaleUpOrchestrator
from .snapshot import ClusterSnapshot, NodeFilter
from .taints import DELETION_CANDIDATE, TO_BE_DELETED, TaintConfig, has_taint
from .templates import TemplateNode, TemplateProvider

MAX_DELETION_TIME: Final = 5 * MINUTE
"""After this a deleted machine should be gone from the list of nodes."""


class StaticAutoscaler:
    """See the module."""

    def __init__(
        self,
        options: AutoscalingOptions,
        groups: Iterable[NodeGroup],
        observation: Observation,
        *,
        now: int,
        scheduler_config: KubeSchedulerConfiguration | None = None,
        expander_context: ExpanderContext | None = None,
    ) -> None:
        """`now`: when it starts. Raises ExpanderError, ProfileCountError and ConfigurationError."""
        self.options = options
        self.observation = observation
        self.table = GroupTable.of(tuple(groups))
        self._config = GroupConfig(options)
        self._taints = TaintConfig(options)
        stores = observation.stores
        self.snapshot = ClusterSnapshot(filter_profile(scheduler_config, stores), stores)
        self.cluster_state = ClusterStateRegistry(options, self.table, self._config)
        self._templates = TemplateProvider(options, self._taints)
        self._pending = PendingPods(options)
        expanders = ExpanderChain(options.expander, expander_context or ExpanderContext())
        self._orchestrator = ScaleUpOrchestrator(options, self.table, self.cluster_state, self.snapshot, expanders)
        self.scale_down = ScaleDown(options, self.table, self._config, self.snapshot, observation)
        self.last_scale_up = self._scale_up_before = now - HOUR
        self.last_scale_down_delete = now - HOUR
        self._nodes: list[ObservedNode] = []
        self._ready = 0
        """Nodes that are ready and not cordoned."""
        self._started = False

    # ---- one loop ----------------------------------------------------------------------------

    def run_once(self, now: int) -> LoopResult:
        """One loop."""
        result = LoopResult(now)
        self._clean_up(result)
        changed = self._take_in()
        if not self.options.scale_up_from_zero and not self._ready:
            self.scale_down.forget()
            return result
        status = self.scale_down.actuator.status()
        templates = self._templates.process(self.observation, self._nodes, self.table.groups, now)
        self.cluster_state.update(self._nodes, now, changed=changed)
        for group_id, amount in self.cluster_state.reverts:
            result.decisions.append(DecreaseTargetSize(group_id, amount))
        self._remove_old_unregistered(now, result)
        if not self.cluster_state.is_cluster_healthy():
            self.scale_down.forget()
            result.healthy = False
            return self._finish(result, now)
        self._delete_failed_creations(result)
        if self._fix_group_sizes(now, result):
            return self._finish(result, now)
        self.snapshot.fork()
        try:
            self._scale(templates, status, now, result)
        finally:
            self.snapshot.revert()
        return self._finish(result, now)

    def _scale(
        self,
        templates: Mapping[str, TemplateNode],
        status: ActuationStatus,
        now: int,
        result: LoopResult,
    ) -> None:
        """Upcoming nodes, pending pods, scale-up, scale-down."""
        counts, registered = self.cluster_state.upcoming_nodes(now)
        self._add_upcoming(counts, templates, "upcoming-{}")
        upcoming = set(registered)
        for name in registered:
            self.snapshot.remove(name)
        nodes = [seen for seen in self._nodes if seen.node.metadata.name not in upcoming] if upcoming else self._nodes
        pods, placed = self._pending.to_help(self.observation, self.snapshot, sorted(self.scale_down.actuator.drained))
        pods = self._pending.old_enough(self.observation, pods, now)
        as_observed = not (placed or counts or upcoming)
        if self._should_scale_up(pods, self._ready, now, result):
            result.scale_up = self._scale_up(pods, templates, now, result)
            if result.scale_up.result == SUCCESSFUL:
                result.scale_down.result = DOWN_IN_COOLDOWN
        if self.options.scale_down_enabled:
            waiting = result.scale_up.result == UP_IN_COOLDOWN
            cooldown = waiting or self._in_cooldown(now)
            as_observed = as_observed and not result.scale_up.plan
            self.scale_down.run(nodes, status, now, result, in_cooldown=cooldown, as_observed=as_observed)
            if result.scale_down.deleted:
                self.last_scale_down_delete = now
                self.cluster_state.recalculate()
        if self.options.enforce_node_group_min_size:
            held = result.scale_up
            result.scale_up = self._orchestrator.scale_up_to_min_size(self._cluster_nodes(), templates, now, result)
            if result.scale_up.result == SUCCESSFUL:
                self._note_scale_up(result.scale_up.plan, now)
            result.scale_up.plan = [*held.plan, *result.scale_up.plan]

    def _should_scale_up(self, pods: Sequence[PodInfo], ready_count: int, now: int, result: LoopResult) -> bool:
        options, status = self.options, result.scale_up
        if not pods:
            status.result = NOT_NEEDED
        elif 0 < options.max_nodes_total <= ready_count:
            status.result = LIMITED_BY_MAX_NODES
            status.limited_by = ("max-nodes-total",)
            status.unhelped = [UnhelpedPod(pod, {}, {}) for pod in pods]
        elif all_are_new(self.observation, pods, now):
            status.result = UP_IN_COOLDOWN
        else:
            return True
        return False

    def _scale_up(
        self, pods: Sequence[PodInfo], templates: Mapping[str, TemplateNode], now: int, result: LoopResult
    ) -> ScaleUpStatus:
        """One scale-up, or as many as help (--salvo-scale-up)."""
        plan: list[tuple[str, int, int]] = []
        left = {pod.uid: pod for pod in pods}
        for number in range(len(pods)):
            nodes = self._cluster_nodes()
            waiting = list(left.values())
            if self.options.salvo_scale_up:
                waiting.sort(key=lambda pod: self.observation.facts(pod).number)
            status = self._orchestrator.scale_up(waiting, nodes, templates, len(self._nodes), now, result)
            if status.result == SUCCESSFUL:
                self._note_scale_up(status.plan, now)
            grown, plan = status.plan, [*plan, *status.plan]
            status.plan = plan
            handled = status.triggered
            if not self.options.salvo_scale_up or status.result != SUCCESSFUL or not handled:
                return status
            for pod in handled:
                left.pop(pod.uid, None)
            if not left or not self._take_over(number, grown, handled, templates):
                return status
        return ScaleUpStatus(NOT_NEEDED)

    def _note_scale_up(self, plan: Sequence[tuple[str, int, int]], now: int) -> None:
        if self.last_scale_up != now:
            self._scale_up_before, self.last_scale_up = self.last_scale_up, now
        for group_id, _, _ in plan:
            self.scale_down.candidates.scale_ups[group_id] = now

    def _take_over(
        self,
        number: int,
        plan: Sequence[tuple[str, int, int]],
        handled: Sequence[PodInfo],
        templates: Mapping[str, TemplateNode],
    ) -> bool:
        """Put the new nodes of a scale-up with its pods into the snapshot; False if a pod finds no place there."""
        suffix = f"salvo-{number}"
        counts = {group_id: after - before for group_id, before, after in plan}
        self._add_upcoming(counts, templates, f"{{}}-{suffix}")
        acceptable = NodeFilter(lambda name: name.endswith(suffix))
        return all(self.snapshot.schedule_anywhere(pod, acceptable) is not None for pod in handled)

    def _add_upcoming(self, counts: Mapping[str, int], templates: Mapping[str, TemplateNode], suffix: str) -> None:
        for group_id, count in counts.items():
            template = templates.get(group_id)
            for number in range(count if template is not None else 0):
                assert template is not None
                self.snapshot.add(template.fresh(suffix.format(number)))

    def _cluster_nodes(self) -> ClusterNodes:
        """All nodes of the snapshot with the ids of their groups; upcoming nodes belong to none yet."""
        seen = self.observation.nodes
        found: list[tuple[Node, str | None]] = []
        for info in self.snapshot.infos():
            node = info.node
            assert node is not None
            observed = seen.get(node.metadata.name)
            found.append((node, observed.group if observed is not None else None))
        return found

    def _in_cooldown(self, now: int) -> bool:
        options = self.options
        if options.scale_down_delay_type_local:
            return False
        return (
            self.last_scale_up + options.scale_down_delay_after_add > now
            or self.last_scale_down_delete + options.scale_down_delay_after_delete > now
        )

    # ---- the state of the cluster ------------------------------------------------------------

    def _clean_up(self, result: LoopResult) -> None:
        """Before the first loop: taints of an earlier life are taken off."""
        if self._started:
            return
        self._started = True
        keys = [TO_BE_DELETED]
        if self.options.max_bulk_soft_taint_count == 0:
            keys.append(DELETION_CANDIDATE)
        for name, seen in sorted(self.observation.nodes.items()):
            for key in keys:
                if seen.group in self.table.groups and has_taint(seen.node, key):
                    uncordon = key == TO_BE_DELETED and self.options.cordon_node_before_terminating
                    result.decisions.append(RemoveTaint(name, key, uncordon))

    def _take_in(self) -> bool:
        """Bring nodes, pods and groups up to date with what was observed; whether a node or its pods changed."""
        observation = self.observation
        changed = bool(observation.dirty)
        for name in sorted(observation.dirty):
            self._take_in_node(name)
        observation.dirty.clear()
        if changed:
            known = {seen.node.metadata.name: seen for seen in self._nodes}
            self._nodes = [self._effective(seen, known.get(name)) for name, seen in sorted(observation.nodes.items())]
            self._ready = sum(seen.ready and not seen.node.spec.unschedulable for seen in self._nodes)
        for group_id in self.table.groups:
            state = observation.groups.get(group_id) or GroupState()
            self.table.states[group_id] = GroupState(state.target_size, state.instances)
        return changed

    def _take_in_node(self, name: str) -> None:
        seen = self.observation.nodes.get(name)
        if seen is None:
            if name in self.snapshot:
                self.snapshot.remove(name)
            return
        held = self.snapshot.get(name)
        info = NodeInfo()
        if held is not None:
            # What follows from the node object is worked out again only where the object differs.
            info.node, info.allocatable, info.declared_features = held.node, held.allocatable, held.declared_features
        info.set_node(seen.node)
        cutoff = self.options.expendable_pods_priority_cutoff
        pods = self.observation.pods_on(name)
        pods.sort(key=lambda pod: not pod.info.pod.spec.node_name)
        for pod in pods:
            if not is_expendable(pod.info.pod, cutoff):
                info.add_pod(pod.info)
        if held is not None:
            self.snapshot.rewrite(name, info)
        else:
            self.snapshot.add(info)

    def _effective(self, seen: ObservedNode, known: ObservedNode | None) -> ObservedNode:
        """A node with a start-up taint counts as not ready, since it was made. `known`: what it counted as before."""
        node = seen.node
        if not seen.ready or node.spec.unschedulable or not node.spec.taints:
            return seen
        if any(self._taints.is_startup_taint(taint.key) for taint in node.spec.taints):
            starting = ObservedNode(node, seen.group, seen.created, seen.created, False, seen.has_instance)
            return known if known is not None and known == starting else starting
        return seen

    def _remove_old_unregistered(self, now: int, result: LoopResult) -> None:
        """Machines that should have registered long ago are deleted, within the group's minimum."""
        for group_id, instances in self.cluster_state.old_unregistered(now).items():
            group = self.table.groups[group_id]
            if not self.options.force_delete_unregistered_nodes:
                instances = instances[: max(0, self.table.target(group_id) - group.min_size)]
            if group.options.zero_or_max_node_scaling and instances:
                instances = self._all_or_none(group, instances)
            if instances:
                result.decisions.append(DeleteInstances(group_id, tuple(instances), "unregistered"))
                self.table.change_target(group_id, -len(instances))

    def _delete_failed_creations(self, result: LoopResult) -> None:
        deleted = False
        for failed in self.cluster_state.failed_creations():
            group = self.table.groups[failed.group]
            instances = list(failed.instances)
            if group.options.zero_or_max_node_scaling:
                instances = self._all_or_none(group, instances)
            if instances:
                result.decisions.append(DeleteInstances(failed.group, tuple(instances), "failed creation"))
                self.table.change_target(failed.group, -len(instances))
                deleted = True
        if deleted:
            self.cluster_state.recalculate()

    def _all_or_none(self, group: NodeGroup, instances: Sequence[str]) -> list[str]:
        """What to delete of a group that has all of its nodes or none."""
        every = [instance.id for instance in self.table.states[group.id].instances]
        if len(every) == len(instances) or not group.options.allow_non_atomic_scale_up_to_max:
            return every
        return []

    def _fix_group_sizes(self, now: int, result: LoopResult) -> bool:
        """Lower target sizes that have been out of reach for long; whether there were any, which ends the loop.

        Where the cloud would refuse, the loop ends as well: upstream's ends with the cloud's error.
        """
        fixed = False
        for group_id, group in self.table.groups.items():
            incorrect = self.cluster_state.incorrect_size(group_id)
            if incorrect is None or incorrect.since + self._config.provision_time(group) >= now:
                continue
            missing = incorrect.expected - incorrect.current
            if missing > 0:
                if self.table.can_decrease(group_id, missing):
                    result.decisions.append(DecreaseTargetSize(group_id, missing))
                    self.table.change_target(group_id, -missing)
                fixed = True
        return fixed

    # ---- how decisions went ------------------------------------------------------------------

    def scale_up_failed(self, group_id: str, amount: int, error: InstanceError, now: int) -> None:
        """The cloud refused to increase a group by `amount`: the request is taken back, the group backs off."""
        self.cluster_state.register_scale_up(self.table.groups[group_id], -amount, now)
        self.cluster_state.register_failed_scale_up(group_id, amount, error, now)
        self.last_scale_up = self._scale_up_before

    def deletion_ended(self, node: str, now: int, *, deleted: bool) -> None:
        """A DeleteNode decision was carried out, or given up: the taint is to be taken off then."""
        group = self.scale_down.actuator.ended(node)
        if group is not None and deleted:
            self.cluster_state.register_scale_down(group, now + MAX_DELETION_TIME)
            self.scale_down.candidates.scale_downs[group] = now

    def forget_findings(self) -> None:
        """Drop what is remembered for no other reason than to save work: the next loop finds the same without it."""
        self._templates.forget_findings()
        self.cluster_state.forget_findings()
        self.scale_down.forget_findings()

    def pods_to_move(self, node: str, now: int) -> PodsToMove | None:
        """The pods of a node as it is now, sorted by what is to become of them; None if the node is gone.

        To be asked before a DeleteNode decision is carried out: a node with a blocking pod stays, and so does one that
        should be empty and is not.
        """
        if node not in self.observation.nodes:
            return None
        cutoff = self.options.expendable_pods_priority_cutoff
        pods = [
            pod.info
            for pod in self.observation.pods_on(node)
            if pod.info.pod.spec.node_name and not is_expendable(pod.info.pod, cutoff)
        ]
        return self.scale_down.rules.pods_to_move(pods, RemainingBudgets(self.observation.budgets), now)

    # ---- reporting ---------------------------------------------------------------------------

    def _finish(self, result: LoopResult, now: int) -> LoopResult:
        result.failures = [*self.cluster_state.failures]
        self.scale_down.report(result)
        result.groups = {group_id: self._group_status(group_id, now) for group_id in self.table.groups}
        return result

    def _group_status(self, group_id: str, now: int) -> GroupStatus:
        state = self.cluster_state
        readiness = state.per_group.get(group_id)
        safety = state.scale_up_safety(group_id, now)
        request = state.requests.get(group_id)
        return GroupStatus(
            target=self.table.target(group_id),
            ready=len(readiness.ready) if readiness else 0,
            unready=len(readiness.unready) if readiness else 0,
            not_started=len(readiness.not_started) if readiness else 0,
            unregistered=len(readiness.unregistered) if readiness else 0,
            long_unregistered=len(readiness.long_unregistered) if readiness else 0,
            upcoming=max(0, state.upcoming(group_id)) if request is not None else 0,
            healthy=safety.healthy,
        )
