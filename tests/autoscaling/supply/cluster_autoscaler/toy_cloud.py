"""A cloud and a cluster that do what the autoscaler decides, with some bad luck; for runs of many loops.

Every change goes to several observations, so that autoscalers can be compared. Pods are bound by a scheduler of two
lines; evicted ones come back as new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    AddTaint,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNode,
    IncreaseSize,
    LoopResult,
    RemoveTaint,
)
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import (
    CREATING,
    OUT_OF_RESOURCES,
    GroupState,
    Instance,
    InstanceError,
    NodeGroup,
)
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.options import AutoscalingOptions
from stowplan_autoscaling.supply.cluster_autoscaler.static_autoscaler import StaticAutoscaler
from stowplan_scheduler.objects import Node, NodeCondition, Pod
from stowplan_scheduler.resources import Resource, fit_request

from .builders import HOST, T0, ZONE, make_pod

SHAPES = (("100m", "128Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("1500m", "512Mi"), ("3", "1Gi"))


class ToyCloud:
    """See the module. All autoscalers see the same; the first one's decisions are carried out."""

    def __init__(self, groups: Sequence[NodeGroup], options: AutoscalingOptions, seed: int, count: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.groups = {group.id: group for group in groups}
        self.observations = [Observation() for _ in range(count)]
        self.autoscalers = [StaticAutoscaler(options, groups, each, now=T0) for each in self.observations]
        self.now = T0
        self.targets = dict.fromkeys(self.groups, 0)
        self.instances: dict[str, dict[str, Instance]] = {group.id: {} for group in groups}
        self.ready_at: dict[str, int] = {}
        self.nodes: dict[str, tuple[str, Node, int]] = {}
        self.pods: dict[str, tuple[Pod, int, int]] = {}
        self.deletions: dict[str, tuple[int, DeleteNode]] = {}
        self._number = 0
        for observation in self.observations:
            for app in range(len(SHAPES)):
                observation.set_owner("ReplicaSet", f"default/app{app}", 5)

    # ---- one step ----------------------------------------------------------------------------

    def step(self) -> list[LoopResult]:
        """Ten seconds, and a loop of every autoscaler."""
        self.now += 10 * SECOND
        self._boot()
        self._delete()
        self._change_load()
        self._schedule()
        for observation in self.observations:
            for group_id, target in self.targets.items():
                observation.set_group(group_id, GroupState(target, tuple(self.instances[group_id].values())))
        results = [autoscaler.run_once(self.now) for autoscaler in self.autoscalers]
        self._carry_out(results[0])
        return results

    def _boot(self) -> None:
        for group_id, target in self.targets.items():
            instances = self.instances[group_id]
            while len(instances) < target:
                self._number += 1
                name = f"{group_id}-{self._number}"
                luck = self.rng.random()
                error = InstanceError(OUT_OF_RESOURCES, "STOCKOUT", "none left") if luck < 0.1 else None
                instances[name] = Instance(name, CREATING, error)
                late = 2000 if luck > 0.95 else int(self.rng.integers(20, 120))
                self.ready_at[name] = self.now + late * SECOND
            for name, instance in instances.items():
                if instance.error is not None or name in self.deletions:
                    continue
                if name not in self.nodes and self.ready_at[name] - 20 * SECOND <= self.now:
                    self._set_node(name, group_id, self._new_node(group_id, name, ready=False), self.now)
                if name in self.nodes and self.ready_at[name] <= self.now:
                    _, node, created = self.nodes[name]
                    if node.status.conditions[0].status != "True":
                        ready = (NodeCondition(type="Ready", status="True"),)
                        node = replace(node, status=replace(node.status, conditions=ready))
                        self._set_node(name, group_id, node, created)

    def _new_node(self, group_id: str, name: str, *, ready: bool) -> Node:
        template = self.groups[group_id].template
        zone = f"z{self._number % 2}"
        meta = replace(template.metadata, name=name, labels={**template.metadata.labels, HOST: name, ZONE: zone})
        condition = (NodeCondition(type="Ready", status="True" if ready else "False"),)
        return replace(template, metadata=meta, status=replace(template.status, conditions=condition))

    def _delete(self) -> None:
        for name, (when, decision) in [*self.deletions.items()]:
            if when > self.now:
                continue
            del self.deletions[name]
            deleted = self.rng.random() > 0.15
            if deleted:
                for uid, (pod, _, _) in [*self.pods.items()]:
                    if pod.spec.node_name == name:
                        self._remove_pod(uid)
                        self._add_pod(int(pod.metadata.labels["app"].removeprefix("app")))
                self._remove_instance(decision.group, name)
                self.targets[decision.group] -= 1
            else:
                group_id, node, created = self.nodes[name]
                spec = replace(node.spec, taints=(), unschedulable=False)
                self._set_node(name, group_id, replace(node, spec=spec), created)
            for autoscaler in self.autoscalers:
                autoscaler.deletion_ended(name, self.now, deleted=deleted)

    def _change_load(self) -> None:
        luck = self.rng.random()
        if luck < 0.04:
            app = int(self.rng.integers(len(SHAPES)))
            for _ in range(int(self.rng.integers(1, 25))):
                self._add_pod(app)
        elif luck < 0.10 and self.pods:
            for uid in self.rng.choice(sorted(self.pods), size=max(1, len(self.pods) // 4), replace=False):
                self._remove_pod(str(uid))

    def _schedule(self) -> None:
        free: dict[str, Resource] = {}
        for name, (_, node, _) in sorted(self.nodes.items()):
            if node.status.conditions[0].status == "True" and not node.spec.unschedulable:
                free[name] = Resource.from_map(node.status.allocatable)
        for pod, _, _ in self.pods.values():
            if pod.spec.node_name in free:
                free[pod.spec.node_name].sub(fit_request(pod))
        for uid, (pod, number, created) in [*self.pods.items()]:
            if pod.spec.node_name or pod.spec.topology_spread_constraints:
                continue
            asked = fit_request(pod)
            for name, left in free.items():
                if left.milli_cpu >= asked.milli_cpu and left.memory >= asked.memory:
                    left.sub(asked)
                    self._set_pod(uid, replace(pod, spec=replace(pod.spec, node_name=name)), number, created)
                    break

    # ---- decisions ---------------------------------------------------------------------------

    def _carry_out(self, result: LoopResult) -> None:
        for decision in result.decisions:
            match decision:
                case IncreaseSize(group, amount, size):
                    if self.rng.random() < 0.1:
                        for autoscaler in self.autoscalers:
                            autoscaler.scale_up_failed(group, amount, InstanceError(code="quota"), self.now)
                    else:
                        self.targets[group] += amount
                        assert self.targets[group] == size
                case DecreaseTargetSize(group, amount):
                    self.targets[group] -= amount
                    missing = [name for name in self.instances[group] if name not in self.nodes]
                    for name in missing[:amount]:
                        self._remove_instance(group, name)
                case DeleteInstances(group, instances):
                    for name in instances:
                        self._remove_instance(group, name)
                    self.targets[group] -= len(instances)
                case AddTaint(name, taint, cordon):
                    group_id, node, created = self.nodes[name]
                    spec = replace(node.spec, taints=(*node.spec.taints, taint), unschedulable=cordon)
                    self._set_node(name, group_id, replace(node, spec=spec), created)
                case RemoveTaint(name, key):
                    group_id, node, created = self.nodes[name]
                    spec = replace(node.spec, taints=tuple(each for each in node.spec.taints if each.key != key))
                    self._set_node(name, group_id, replace(node, spec=spec), created)
                case DeleteNode(node=name):
                    self.deletions[name] = (self.now + int(self.rng.integers(5, 90)) * SECOND, decision)

    # ---- changes -----------------------------------------------------------------------------

    def _set_node(self, name: str, group_id: str, node: Node, created: int) -> None:
        self.nodes[name] = (group_id, node, created)
        known = {taint.key for taint in node.spec.taints}
        assert len(known) == len(node.spec.taints)
        for observation in self.observations:
            held = observation.nodes.get(name)
            was_ready = held is not None and held.ready
            since = self.now if held is None or was_ready != (node.status.conditions[0].status == "True") else None
            observation.set_node(node, group=group_id, created=created, since=since)

    def _remove_instance(self, group_id: str, name: str) -> None:
        del self.instances[group_id][name]
        if self.nodes.pop(name, None) is not None:
            for observation in self.observations:
                observation.remove_node(name)

    def _add_pod(self, app: int) -> None:
        self._number += 1
        cpu, memory = SHAPES[app]
        spread = ZONE if app == 1 and self.rng.random() < 0.1 else ""
        pod = make_pod(f"p{self._number}", cpu, memory, app=f"app{app}", spread=spread)
        self._set_pod(pod.metadata.uid, pod, self._number, self.now)

    def _set_pod(self, uid: str, pod: Pod, number: int, created: int) -> None:
        self.pods[uid] = (pod, number, created)
        for observation in self.observations:
            observation.set_pod(pod, number=number, created=created, unschedulable=not pod.spec.node_name)

    def _remove_pod(self, uid: str) -> None:
        del self.pods[uid]
        for observation in self.observations:
            observation.remove_pod(uid)
