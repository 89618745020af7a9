"""Mode `cluster-autoscaler`: recorded loops of the real Cluster Autoscaler, answered by ours in the declared order.

The scenario's cloud is played here: groups grow and shrink by what is decided, nodes never appear or go. As in the
recordings, nodes are two hours old and pods one minute, and no deletion is over by the next loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.inputs.decode import without_nulls
from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    DecreaseTargetSize,
    DeleteInstances,
    IncreaseSize,
    LoopResult,
    UnhelpedPod,
)
from stowplan_autoscaling.supply.cluster_autoscaler.expanders import ExpanderContext, PodPrices
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import GroupState, Instance, NodeGroup
from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.options import HOUR, AutoscalingOptions, FlagError
from stowplan_autoscaling.supply.cluster_autoscaler.static_autoscaler import StaticAutoscaler
from stowplan_scheduler.defaulting import default_object
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import (
    DEFAULT_NAMESPACE,
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    ResourceRequirements,
    Taint,
)

START: Final = 1_800_000_000 * SECOND

_NODE_AGE: Final = 2 * HOUR
_POD_AGE: Final = MINUTE
_OWNERS: Final = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}


def run_cluster_autoscaler(scenario: dict[str, Any]) -> dict[str, Any]:
    """The result line of one scenario."""
    try:
        world = _World(scenario)
    except FlagError as failure:
        return {"id": scenario["id"], "unsupported": str(failure)}
    loops = [world.loop(seconds) for seconds in scenario.get("loops") or (0,)]
    return {"id": scenario["id"], "loops": loops}


class _World:
    """The cluster and the cloud of a scenario."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.observation = Observation()
        self._workload_of: dict[str, str] = {}
        self._number = 0
        groups = [self._group(raw) for raw in scenario["groups"]]
        for raw in scenario.get("pending") or ():
            self._add_pods(raw, "")
        self.observation.set_budgets(_budget(raw) for raw in scenario.get("pdbs") or ())
        prices = scenario.get("podPricePerHour")
        context = ExpanderContext(
            pod_prices=PodPrices(core=prices["cpu"], gib=prices["memory"]) if prices else PodPrices(core=0, gib=0),
            priorities=scenario.get("priorityConfig") or "",
        )
        options = AutoscalingOptions.from_flags(
            {"node-delete-delay-after-taint": "0s", **(scenario.get("flags") or {})}
        )
        self._autoscaler = StaticAutoscaler(options, groups, self.observation, now=START, expander_context=context)

    # ---- the scenario ------------------------------------------------------------------------

    def _group(self, raw: Mapping[str, Any]) -> NodeGroup:
        nodes = raw.get("nodes") or []
        daemons = raw.get("daemonPods") or ()
        for each in nodes:
            node = _node(raw, each)
            name = node.metadata.name
            self.observation.set_node(node, group=raw["id"], created=START - _NODE_AGE)
            for workload in (*daemons, *(each.get("pods") or ())):
                self._add_pods(workload, name)
        target = raw.get("targetSize")
        instances = tuple(Instance(each["name"]) for each in nodes)
        self.observation.set_group(raw["id"], GroupState(len(nodes) if target is None else target, instances))
        template = _node(raw, {"name": f"{raw['id']}-template"})
        pods = [pod for workload in daemons for pod in self._pods(workload, template.metadata.name)]
        return NodeGroup(
            id=raw["id"],
            min_size=raw["min"],
            max_size=raw["max"],
            template=template,
            template_pods=tuple(pods),
            price=raw.get("price"),
        )

    def _add_pods(self, raw: Mapping[str, Any], node: str) -> None:
        spec = raw.get("spec") or {}
        local = tuple(each["name"] for each in spec.get("volumes") or () if _is_local(each))
        for pod in self._pods(raw, node):
            self._number += 1
            self.observation.set_pod(
                pod,
                number=self._number,
                created=START - _POD_AGE,
                unschedulable=not node,
                local_volumes=local,
            )
            self._workload_of[pod.metadata.uid] = raw["name"]
        kind = raw.get("owner") or "ReplicaSet"
        if kind in _OWNERS:
            key = f"{raw.get('namespace') or DEFAULT_NAMESPACE}/{raw['name']}"
            self.observation.set_owner(kind, key, raw.get("replicas") or 1)

    def _pods(self, raw: Mapping[str, Any], node: str) -> list[Pod]:
        kind = raw.get("owner") or "ReplicaSet"
        owners: tuple[OwnerReference, ...] = ()
        name = raw["name"]
        if kind in _OWNERS:
            owners = (
                OwnerReference(
                    api_version=_OWNERS[kind], kind=kind, name=name, uid=f"uid-{kind}-{name}", controller=True
                ),
            )
        spec: PodSpec = msgspec.convert(without_nulls(raw.get("spec") or {}), PodSpec)
        if not spec.containers:
            resources = ResourceRequirements(requests=raw.get("requests"))
            spec = replace(spec, containers=(Container(name="c", image="p", resources=resources),))
        spec = replace(spec, node_name=node)
        pods = []
        for index in range(raw.get("replicas") or 1):
            pod_name = f"{name}-{index}"
            meta = ObjectMeta(
                name=pod_name,
                namespace=raw.get("namespace") or DEFAULT_NAMESPACE,
                uid=f"{node}/{pod_name}",
                labels=raw.get("labels") or {},
                annotations=raw.get("annotations") or {},
                owner_references=owners,
            )
            pods.append(default_object(Pod(metadata=meta, spec=spec)))
        return pods

    # ---- loops -------------------------------------------------------------------------------

    def loop(self, seconds: int) -> dict[str, Any]:
        """One loop, and what the cloud makes of it."""
        now = START + seconds * SECOND
        before = {group_id: state.target_size for group_id, state in self.observation.groups.items()}
        result = self._autoscaler.run_once(now)
        for decision in result.decisions:
            match decision:
                case IncreaseSize(group, amount):
                    self._change_target(group, amount)
                case DecreaseTargetSize(group, amount):
                    self._change_target(group, -amount)
                case DeleteInstances(group, instances):
                    self._change_target(group, -len(instances))
        grown = {group for group, _, _ in result.scale_up.plan}
        plan = [
            {"group": group_id, "from": before[group_id], "to": after}
            for group_id, after in sorted(
                (group_id, max(new for group, _, new in result.scale_up.plan if group == group_id))
                for group_id in grown
            )
        ]
        return {"at": seconds, **self._summary(result), "plan": plan}

    def _change_target(self, group_id: str, amount: int) -> None:
        state = self.observation.groups[group_id]
        self.observation.set_group(group_id, GroupState(state.target_size + amount, state.instances))

    def _summary(self, result: LoopResult) -> dict[str, Any]:
        up, down = result.scale_up, result.scale_down
        return {
            "scaleUpResult": up.result,
            "options": [
                {
                    "group": option.group,
                    "nodes": option.node_count,
                    "pods": self._counts(option.pods),
                    "similar": list(option.similar),
                }
                for option in sorted(result.options, key=lambda option: option.group)
            ],
            "chosen": result.chosen,
            "podsTriggered": self._counts(up.triggered),
            "podsAwait": self._counts(up.awaiting),
            "podsRemainUnschedulable": self._unhelped(up.unhelped),
            "scaleDownResult": down.result,
            "unneeded": list(down.unneeded),
            "unremovable": {
                name: {
                    "reason": why.reason,
                    "pod": why.pod.pod.metadata.name if why.pod is not None else "",
                    "podReason": why.pod_reason,
                    "utilization": why.utilization or None,
                }
                for name, why in down.unremovable.items()
            },
            "deleted": {
                each.node: sorted(pod.pod.metadata.name for pod in each.evicted) or None for each in down.deleted
            },
        }

    def _counts(self, pods: Iterable[PodInfo]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for pod in pods:
            name = self._workload_of[pod.uid]
            counts[name] = counts.get(name, 0) + 1
        return counts

    def _unhelped(self, pods: Sequence[UnhelpedPod]) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for each in pods:
            entry = found.setdefault(
                self._workload_of[each.pod.uid],
                {
                    "count": 0,
                    "rejected": {group: list(why) for group, why in each.rejected.items()},
                    "skipped": {group: list(why) for group, why in each.skipped.items()},
                },
            )
            entry["count"] += 1
        return found


def _node(group: Mapping[str, Any], raw: Mapping[str, Any]) -> Node:
    name = raw["name"]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "oracle/group": group["id"],
        **(group.get("labels") or {}),
        **(raw.get("labels") or {}),
    }
    taints = [msgspec.convert(each, Taint) for each in (*(group.get("taints") or ()), *(raw.get("taints") or ()))]
    status = "False" if raw.get("notReady") else "True"
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations=raw.get("annotations") or {}),
        spec=NodeSpec(taints=tuple(taints), unschedulable=raw.get("unschedulable") or False),
        status=NodeStatus(
            capacity=group["capacity"],
            allocatable=group.get("allocatable") or group["capacity"],
            conditions=(NodeCondition(type="Ready", status=status),),
        ),
    )


def _budget(raw: Mapping[str, Any]) -> PodDisruptionBudget:
    found = msgspec.convert(without_nulls(raw), PodDisruptionBudget)
    if not found.metadata.namespace:
        found = replace(found, metadata=replace(found.metadata, namespace=DEFAULT_NAMESPACE))
    return found


def _is_local(volume: Mapping[str, Any]) -> bool:
    if "hostPath" in volume:
        return True
    directory = volume.get("emptyDir")
    return directory is not None and directory.get("medium") != "Memory"
