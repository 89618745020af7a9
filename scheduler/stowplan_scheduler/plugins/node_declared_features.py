"""NodeDeclaredFeatures: what a pod needs of the kubelet must be declared by the node.

Follows plugins/nodedeclaredfeatures/nodedeclaredfeatures.go and
staging/src/k8s.io/component-helpers/nodedeclaredfeatures of Kubernetes v1.37.2.
"""

from __future__ import annotations

from functools import partial
from typing import Final, cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.interface import FilterPlugin, Inputs, PreFilterResult, ReasonIds
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP, Code
from stowplan_scheduler.objects import Pod

from .changes import nodes, pods, present, queue_if
from .vectors import CodeValues

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
VOLUME_BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"


def required_features(pod: Pod) -> frozenset[str]:
    """The declared features that the pod needs; of upstream's nine only these three matter to scheduling."""
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers)
    found = []
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        found.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.append(USER_NAMESPACES_HOST_NETWORK)
    if any(mount.bind_mount_options for c in containers for mount in c.volume_mounts):
        found.append(VOLUME_BIND_MOUNT_OPTIONS)
    return frozenset(found)


class NodeDeclaredFeatures(FilterPlugin):
    """The node must declare every feature that the pod needs."""

    name = "NodeDeclaredFeatures"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False

    def __init__(self) -> None:
        super().__init__()
        self._lacking = self.reasons.id(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match Pod's required features"
        )

    def filter_key(self, pod: PodInfo) -> frozenset[str]:
        return required_features(pod.pod)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        required = required_features(pod.pod)
        if not required:
            return PreFilterResult(SKIP)
        return PreFilterResult(state=CodeValues(partial(self._verdict, required), np.int16))

    def _verdict(self, required: frozenset[str], declared: frozenset[str]) -> int:
        return 0 if required <= declared else self._lacking

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        table = view.table
        return cast(CodeValues[frozenset[str]], state).at(table.feature_sets, table.features[view.rows])

    def events(self) -> tuple[EventRegistration, ...]:
        return (
            EventRegistration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), _after_node_change
            ),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE), _after_own_update),
        )


def _after_node_change(pod: PodInfo, old: object, new: object) -> Hint:
    """Any other list of features will do, whether or not the pod needs what changed: upstream does not look closer."""
    before, after = nodes(old, new)
    declared = present(after).status.declared_features
    return queue_if(before is None or before.status.declared_features != declared)


def _after_own_update(pod: PodInfo, old: object, new: object) -> Hint:
    before, after = pods(old, new)
    return queue_if(required_features(present(before)) != required_features(present(after)))
