"""What a new node of each group would be like: a real one of the group cleaned up, or the group's template.

Follows pkg/simulator/node_info_utils.go and pkg/processors/nodeinfosprovider of kubernetes-sigs/cluster-autoscaler. Its
random suffixes of names are a fixed one here; names only have to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.controllers.daemon_set.placement import Placement, new_pod
from stowplan_autoscaling.kernel import MINUTE
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.objects import Node
from stowplan_scheduler.objects.meta import key_of

from .node_groups import NodeGroup
from .observation import ObservedNode
from .options import AutoscalingOptions
from .pods import controller_uid, is_daemon_set_pod, is_mirror_pod
from .taints import TO_BE_DELETED, TaintConfig, has_taint

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet

    from .observation import Observation

HOST_NAME: Final = "kubernetes.io/hostname"
TEMPLATE_LABEL: Final = "cluster-autoscaler.kubernetes.io/template-node"
STABILIZATION: Final = MINUTE
"""A node serves as a model once it has been ready for longer."""

_DEPRECATED_LABELS: Final = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}
_CRITICAL: Final = "system-node-critical"
_NEVER: Final = 1 << 62


class TemplateNode:
    """A model of a new node with the pods that come with it."""

    __slots__ = ("_model", "name")

    def __init__(self, node: Node, pods: Iterable[PodInfo]) -> None:
        """Raises QuantityError for an amount that cannot be read."""
        self._model = NodeInfo()
        self._model.set_node(node)
        for pod in pods:
            self._model.add_pod(pod)
        self.name = node.metadata.name

    @property
    def node(self) -> Node:
        """The node object."""
        node = self._model.node
        assert node is not None
        return node

    @property
    def info(self) -> NodeInfo:
        """The model itself, to be read only."""
        return self._model

    def copy(self) -> NodeInfo:
        """The model under its own name, for a snapshot."""
        return self._model.clone()

    def fresh(self, suffix: str) -> NodeInfo:
        """One more node like it, for a snapshot."""
        info = self._model.clone()
        info.node = renamed(self.node, f"{self.name}-{suffix}")
        return info


def renamed(node: Node, name: str) -> Node:
    """A node like this one under another name."""
    meta = node.metadata
    return replace(node, metadata=replace(meta, name=name, labels={**meta.labels, HOST_NAME: name}))


@dataclass(frozen=True, slots=True)
class _Cached:
    template: TemplateNode
    added: int


class TemplateProvider:
    """The templates of all groups, made anew where something changed (upstream MixedTemplateNodeInfoProvider)."""

    def __init__(self, options: AutoscalingOptions, taints: TaintConfig) -> None:
        self._options = options
        self._taints = taints
        self._cache: dict[str, _Cached] = {}
        self._made: dict[str, tuple[tuple[object, ...], TemplateNode]] = {}
        self._placements: dict[str, tuple[DaemonSet, Placement]] = {}
        self._last: dict[str, TemplateNode] = {}
        self._last_version = -1
        self._until = 0
        self._good: list[str] = []

    def process(
        self, observation: Observation, nodes: Iterable[ObservedNode], groups: Mapping[str, NodeGroup], now: int
    ) -> dict[str, TemplateNode]:
        """Group id -> template. `nodes`: all nodes by name; a group without any way to a template is left out."""
        if observation.version == self._last_version and now < self._until:
            for group_id in self._good:
                self._cache[group_id] = _Cached(self._last[group_id], now)
            return self._last
        good: dict[str, ObservedNode] = {}
        bad: dict[str, ObservedNode] = {}
        until = _NEVER
        for seen in nodes:
            if seen.group in groups:
                (good if _is_good(seen, now) else bad).setdefault(seen.group or "", seen)
                if seen.ready and seen.since + STABILIZATION >= now:
                    until = min(until, seen.since + STABILIZATION + 1)
        found: dict[str, TemplateNode] = {}
        for group_id, seen in good.items():
            found[group_id] = template = self._from_node(observation, seen, group_id)
            self._cache[group_id] = _Cached(template, now)
        for group_id, group in groups.items():
            if group_id in found:
                continue
            cached = self._cache.get(group_id)
            if cached is not None and now - cached.added <= self._options.node_info_cache_expire_time:
                found[group_id] = cached.template
                until = min(until, cached.added + self._options.node_info_cache_expire_time + 1)
                continue
            self._cache.pop(group_id, None)
            found[group_id] = self._from_group(observation, group)
        for group_id, seen in bad.items():
            if group_id not in found:
                found[group_id] = self._from_node(observation, seen, group_id)
        self._last = {group_id: found[group_id] for group_id in groups if group_id in found}
        self._last_version, self._until, self._good = observation.version, until, [*good]
        return self._last

    def forget_findings(self) -> None:
        """Make the next templates anew."""
        self._last_version = -1
        self._made.clear()

    def _from_node(self, observation: Observation, seen: ObservedNode, group_id: str) -> TemplateNode:
        name = seen.node.metadata.name
        pods = [pod.info for pod in observation.pods_on(name) if pod.deleted is None]
        key = (seen.node, *pods, observation.daemon_sets)
        return self._keep(
            group_id, key, lambda: self._make(observation, seen.node, pods, group_id, force=self._options.force_ds)
        )

    def _from_group(self, observation: Observation, group: NodeGroup) -> TemplateNode:
        def make() -> TemplateNode:
            pods = [observation.interner.info(pod) for pod in group.template_pods]
            node = group.template
            labels = dict(node.metadata.labels)
            for stable, deprecated in _DEPRECATED_LABELS.items():
                if stable in labels:
                    labels[deprecated] = labels[stable]
            node = replace(node, metadata=replace(node.metadata, labels=labels))
            return self._make(observation, node, pods, group.id, force=True)

        return self._keep(group.id, (group, observation.daemon_sets), make)

    def _keep(self, group_id: str, key: tuple[object, ...], make: Callable[[], TemplateNode]) -> TemplateNode:
        """The template made of the same objects the last time, or a new one."""
        held = self._made.get(group_id)
        if held is not None and _same(held[0], key):
            return held[1]
        template = make()
        self._made[group_id] = (key, template)
        return template

    def _make(
        self, observation: Observation, node: Node, pods: list[PodInfo], group_id: str, *, force: bool
    ) -> TemplateNode:
        name = f"template-node-for-{group_id}-0"
        clean = renamed(node, name)
        spec = replace(
            clean.spec,
            taints=tuple(taint for taint in clean.spec.taints if self._taints.keeps(taint)),
            unschedulable=clean.spec.unschedulable and not self._taints.scale_from_unschedulable,
        )
        labels = {**clean.metadata.labels, TEMPLATE_LABEL: "true"}
        clean = replace(clean, spec=spec, metadata=replace(clean.metadata, labels=labels))
        kept = [pod for pod in pods if is_mirror_pod(pod) or is_daemon_set_pod(pod)]
        running = {controller_uid(pod) for pod in kept}
        return TemplateNode(clean, [*kept, *self._daemons(observation, clean, running, force=force)])

    def _daemons(self, observation: Observation, node: Node, running: set[str], *, force: bool) -> Iterable[PodInfo]:
        """Pods of DaemonSets that a new node would get and the model does not have."""
        for daemon_set in observation.daemon_sets:
            if daemon_set.metadata.uid in running:
                continue
            placement = self._placement(daemon_set)
            spec = placement.spec
            critical = spec.priority_class_name == _CRITICAL and spec.preemption_policy in {
                None,
                "PreemptLowerPriority",
            }
            if placement.judge(node).run and (force or critical):
                yield _daemon_pod(observation.interner, daemon_set, node)

    def _placement(self, daemon_set: DaemonSet) -> Placement:
        key = key_of(daemon_set.metadata)
        held = self._placements.get(key)
        if held is None or held[0] is not daemon_set:
            held = self._placements[key] = (daemon_set, Placement(daemon_set))
        return held[1]


def _daemon_pod(interner: PodInterner, daemon_set: DaemonSet, node: Node) -> PodInfo:
    pod = new_pod(daemon_set, "")
    name = f"{daemon_set.metadata.name}-{node.metadata.name}"
    meta = replace(pod.metadata, name=name, uid=name)
    return interner.info(replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node.metadata.name)))


def _is_good(seen: ObservedNode, now: int) -> bool:
    """Whether the node is a fair example of its group (upstream isNodeGoodTemplateCandidate)."""
    node = seen.node
    return (
        seen.ready
        and seen.since + STABILIZATION < now
        and not node.spec.unschedulable
        and not has_taint(node, TO_BE_DELETED)
    )


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
