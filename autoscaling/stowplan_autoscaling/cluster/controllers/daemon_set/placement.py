"""Which nodes a DaemonSet runs on, and the pods that it makes for them.

Follows nodeShouldRunDaemonPod (pkg/controller/daemon/daemon_controller.go) and
pkg/controller/daemon/util/daemonset_util.go of Kubernetes v1.37.2. Nodes are judged by the scheduler's own rules for
node affinity and taints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from stowplan_autoscaling.cluster.pod_template import pod_from_template
from stowplan_scheduler.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OwnerReference,
    PodSpec,
    Toleration,
)
from stowplan_scheduler.selectors import NodeQuery
from stowplan_scheduler.tolerations import NO_EXECUTE, NO_SCHEDULE, find_untolerated_taint

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_scheduler.objects import Node

REVISION_LABEL: Final = "controller-revision-hash"
NODE_NAME_FIELD: Final = "metadata.name"

_PREFIX: Final = "node.kubernetes.io/"
_TOLERATED: Final = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK: Final = ("network-unavailable", NO_SCHEDULE)


class Eligibility(NamedTuple):
    """`run`: a pod should be made there. `keep`: one that is there may stay."""

    run: bool
    keep: bool


NOT_ELIGIBLE: Final = Eligibility(run=False, keep=False)


class Placement:
    """The rules of one pod template."""

    __slots__ = ("_node_name", "_query", "_specs", "spec")

    def __init__(self, daemon_set: DaemonSet) -> None:
        spec = daemon_set.spec.template.spec
        self.spec = replace(spec, tolerations=_with_daemon_tolerations(spec))
        """The spec of its pods, but for the node."""
        affinity = spec.affinity.node_affinity if spec.affinity else None
        self._query = NodeQuery.of(spec.node_selector, affinity)
        self._node_name = spec.node_name
        self._specs: dict[str, PodSpec] = {}

    def judge(self, node: Node) -> Eligibility:
        """Whether a node is one of the set's."""
        name, taints, tolerations = node.metadata.name, node.spec.taints, self.spec.tolerations
        if self._node_name not in {"", name} or not self._query.matches(node.metadata.labels, name):
            return NOT_ELIGIBLE
        if find_untolerated_taint(taints, tolerations) is None:
            return Eligibility(run=True, keep=True)
        return Eligibility(run=False, keep=find_untolerated_taint(taints, tolerations, (NO_EXECUTE,)) is None)

    def spec_for(self, node_name: str) -> PodSpec:
        """The spec of the pod for a node; the same object each time."""
        made = self._specs.get(node_name)
        if made is None:
            made = self._specs[node_name] = replace(self.spec, affinity=_pinned(self.spec.affinity, node_name))
        return made


def _with_daemon_tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """Those of the template, and those that keep a daemon on a node in trouble."""
    tolerations = list(spec.tolerations)
    for name, effect in (*_TOLERATED, *((_HOST_NETWORK,) if spec.host_network else ())):
        added = Toleration(key=_PREFIX + name, operator="Exists", effect=effect)
        same = [each for each in tolerations if replace(each, toleration_seconds=None) == added]
        if added in same:
            continue
        if same:
            tolerations = [added if each in same else each for each in tolerations]
        else:
            tolerations.append(added)
    return tuple(tolerations)


def _pinned(affinity: Affinity | None, node_name: str) -> Affinity:
    """The affinity with its required node terms replaced by the name of the node."""
    name = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node_name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
    affinity = affinity or Affinity()
    node_affinity = replace(
        affinity.node_affinity or NodeAffinity(), required_during_scheduling_ignored_during_execution=required
    )
    return replace(affinity, node_affinity=node_affinity)


def new_pod(daemon_set: DaemonSet, digest: str) -> ClusterPod:
    """A pod of the set, without a node yet."""
    meta = daemon_set.metadata
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name=meta.name, uid=meta.uid, controller=True)
    return pod_from_template(daemon_set.spec.template, meta, owner, labels={REVISION_LABEL: digest})


def target_node(pod: ClusterPod) -> str:
    """The node that the pod is on or is meant for; "" if it names none."""
    spec = pod.spec
    if spec.node_name:
        return spec.node_name
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""
