"""PreFilter and Filter of every default plugin, for pods without volumes and resource claims.

Follows plugins/{nodename,nodeunschedulable,tainttoleration,nodeaffinity,nodeports,noderesources,nodedeclaredfeatures}
of Kubernetes v1.37.2; spread and affinity between pods have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan_scheduler.objects import Pod, Taint
from stowplan_scheduler.resources import fit_request, is_dra_extended_resource, is_extended_resource

from .cluster import ANY_IP, NodeState, Port, host_ports
from .cycle import Cycle
from .inter_pod_affinity import filter_affinity, required_counts
from .selectors import NAME_FIELD, node_selector_matches, pod_may_run_on, required_affinity
from .status import SKIP, SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, PluginError, Status, unresolvable, unschedulable
from .taints import tolerated, untolerated_taint
from .topology_spread import filter_spread, hard_spread

NodeNames = frozenset[str] | None
"""The only nodes that may be looked at; None: all."""

PreFilter = Callable[[Cycle], tuple[Status, NodeNames]]
Filter = Callable[[Cycle, NodeState], Status]

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


# ---- PreFilter -------------------------------------------------------------------------------------------------------


def pre_filter_nothing(_cycle: Cycle) -> tuple[Status, NodeNames]:
    """Plain success."""
    return SUCCESS, None


def pre_filter_skip(_cycle: Cycle) -> tuple[Status, NodeNames]:
    """The plugin has nothing to do with pods that have neither volumes nor devices."""
    return SKIP, None


def pre_filter_node_name(cycle: Cycle) -> tuple[Status, NodeNames]:
    """spec.nodeName leaves one node."""
    name = cycle.pod.spec.node_name
    return SUCCESS, frozenset({name}) if name else None


def pre_filter_node_affinity(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Terms that all name nodes leave only these nodes."""
    required, added = required_affinity(cycle.pod), cycle.profile.added_affinity
    enforced = added is not None and added.required_during_scheduling_ignored_during_execution is not None
    if required is None and not enforced and not cycle.pod.spec.node_selector:
        return SKIP, None
    if required is None or not required.node_selector_terms:
        return SUCCESS, None
    names: set[str] = set()
    for term in required.node_selector_terms:
        named = [set(f.values) for f in term.match_fields if f.key == NAME_FIELD and f.operator == "In"]
        if not named:
            return SUCCESS, None  # the terms are alternatives, and this one allows every node
        names |= set.intersection(*named)
    if not names:
        return unresolvable("pod affinity terms conflict"), None
    return SUCCESS, frozenset(names)


def pre_filter_node_ports(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Only for pods with host ports."""
    return SUCCESS if host_ports(cycle.pod) else SKIP, None


def pre_filter_spread(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Count the pods of the domains."""
    cycle.spread = hard_spread(cycle.cluster, cycle.profile, cycle.pod)
    return SUCCESS if cycle.spread else SKIP, None


def pre_filter_affinity(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Count the pods that affinity is about."""
    cycle.affinity = required_counts(cycle.cluster, cycle.pod)
    return SUCCESS if cycle.affinity else SKIP, None


def pre_filter_dynamic_resources(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Skip, unless an extended resource of the pod is one that devices may serve."""
    return SUCCESS if device_backed_requests(cycle) else SKIP, None


def pre_filter_declared_features(cycle: Cycle) -> tuple[Status, NodeNames]:
    """Only for pods that need a feature."""
    return SUCCESS if required_features(cycle.pod) else SKIP, None


# ---- Filter ----------------------------------------------------------------------------------------------------------


def filter_nothing(_cycle: Cycle, _state: NodeState) -> Status:
    """Nothing to object to."""
    return SUCCESS


def filter_node_name(cycle: Cycle, state: NodeState) -> Status:
    """spec.nodeName must be this node."""
    if cycle.pod.spec.node_name and cycle.pod.spec.node_name != state.node.metadata.name:
        return unresolvable("node(s) didn't match the requested node name")
    return SUCCESS


def filter_unschedulable(cycle: Cycle, state: NodeState) -> Status:
    """A cordoned node takes only pods that tolerate it."""
    if state.node.spec.unschedulable and not tolerated(UNSCHEDULABLE_TAINT, cycle.pod.spec.tolerations):
        return unresolvable("node(s) were unschedulable")
    return SUCCESS


def filter_taints(cycle: Cycle, state: NodeState) -> Status:
    """Every hard taint must be tolerated."""
    if untolerated_taint(state.node, cycle.pod) is not None:
        return unresolvable("node(s) had untolerated taint(s)")
    return SUCCESS


def filter_node_affinity(cycle: Cycle, state: NodeState) -> Status:
    """The affinity that the profile adds, then the pod's own."""
    added = cycle.profile.added_affinity
    enforced = added.required_during_scheduling_ignored_during_execution if added is not None else None
    if enforced is not None and not node_selector_matches(enforced, state.node):
        return unresolvable("node(s) didn't match scheduler-enforced node affinity")
    if not pod_may_run_on(cycle.pod, state.node):
        return unresolvable("node(s) didn't match Pod's node affinity/selector")
    return SUCCESS


def ports_conflict(wanted: Port, used: Port) -> bool:
    """Same protocol and number on overlapping addresses."""
    return wanted[1:] == used[1:] and (wanted[0] == used[0] or ANY_IP in {wanted[0], used[0]})


def filter_node_ports(cycle: Cycle, state: NodeState) -> Status:
    """No host port may be in use already."""
    for wanted in host_ports(cycle.pod):
        if any(ports_conflict(wanted, used) for used in state.ports):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
    return SUCCESS


def filter_fit(cycle: Cycle, state: NodeState) -> Status:
    """Pod count and every requested resource. What exceeds even the empty node cannot be resolved by preemption."""
    reasons, code = [], UNSCHEDULABLE
    if len(state.pods) + 1 > state.allocatable.allowed_pod_number:
        reasons.append("Too many pods")
    request = fit_request(cycle.pod)
    for resource in ("cpu", "memory", "ephemeral-storage", *sorted(request.scalar)):
        wanted, capacity = request.get(resource), state.allocatable.get(resource)
        if wanted <= capacity - state.requested(resource) or wanted == 0 or _not_checked(cycle, state, resource):
            continue
        reasons.append(f"Insufficient {resource}")
        if wanted > capacity:
            code = UNRESOLVABLE
    return Status(code=code, reasons=tuple(reasons)) if reasons else SUCCESS


def _not_checked(cycle: Cycle, state: NodeState, resource: str) -> bool:
    profile = cycle.profile
    if is_extended_resource(resource):
        group = resource.partition("/")[0]
        if resource in profile.ignored_resources or group in profile.ignored_resource_groups:
            return True
    return state.allocatable.get(resource) == 0 and resource in cycle.cluster.device_resources


def device_backed_requests(cycle: Cycle) -> set[str]:
    """The requested extended resources that a device class serves on nodes that have none themselves."""
    return {name for name, count in fit_request(cycle.pod).scalar.items() if count} & cycle.cluster.device_resources


def filter_dynamic_resources(cycle: Cycle, state: NodeState) -> Status:
    """The reference knows no devices: what only they could serve cannot be had.

    For a pod that asks for a resource with a device class, the plugin also repeats the check for its other extended
    resources, whatever NodeResourcesFit was told to ignore.
    """
    from_devices = device_backed_requests(cycle)
    missing = {name for name in fit_request(cycle.pod).scalar if state.allocatable.get(name) == 0}
    for name in sorted(missing - from_devices):
        if from_devices and is_dra_extended_resource(name) and name not in state.node.status.allocatable:
            return unresolvable("cannot fit resource")
    return unresolvable("cannot allocate all claims") if missing & from_devices else SUCCESS


def filter_spread_of(cycle: Cycle, state: NodeState) -> Status:
    """Hard spread constraints."""
    if cycle.spread is None:
        raise PluginError('reading "PreFilterPodTopologySpread" from cycleState: not found')
    return filter_spread(cycle.spread, state)


def filter_affinity_of(cycle: Cycle, state: NodeState) -> Status:
    """Required affinity between pods."""
    if cycle.affinity is None:
        raise PluginError('error reading "PreFilterInterPodAffinity" from cycleState: not found')
    return filter_affinity(cycle.affinity, state)


def required_features(pod: Pod) -> set[str]:
    """Node features without which the pod cannot run."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    features = set()
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        features.add("RestartAllContainersOnContainerExits")
    if pod.spec.host_network and pod.spec.host_users is False:
        features.add("UserNamespacesHostNetworkSupport")
    if any(mount.bind_mount_options for c in containers for mount in c.volume_mounts):
        features.add("VolumeBindMountOptions")
    return features


def filter_declared_features(cycle: Cycle, state: NodeState) -> Status:
    """The node must declare every required feature."""
    if required_features(cycle.pod) <= set(state.node.status.declared_features):
        return SUCCESS
    return unresolvable("node(s) didn't match Pod's required features")


PRE_FILTERS: dict[str, PreFilter] = {
    "NodeName": pre_filter_node_name,
    "NodeUnschedulable": pre_filter_nothing,
    "TaintToleration": pre_filter_nothing,
    "NodeAffinity": pre_filter_node_affinity,
    "NodePorts": pre_filter_node_ports,
    "NodeResourcesFit": pre_filter_nothing,
    "VolumeRestrictions": pre_filter_skip,
    "NodeVolumeLimits": pre_filter_skip,
    "VolumeBinding": pre_filter_skip,
    "VolumeZone": pre_filter_skip,
    "PodTopologySpread": pre_filter_spread,
    "InterPodAffinity": pre_filter_affinity,
    "DynamicResources": pre_filter_dynamic_resources,
    "NodeDeclaredFeatures": pre_filter_declared_features,
}

FILTERS: dict[str, Filter] = {
    "NodeName": filter_node_name,
    "NodeUnschedulable": filter_unschedulable,
    "TaintToleration": filter_taints,
    "NodeAffinity": filter_node_affinity,
    "NodePorts": filter_node_ports,
    "NodeResourcesFit": filter_fit,
    "VolumeRestrictions": filter_nothing,
    "NodeVolumeLimits": filter_nothing,
    "VolumeBinding": filter_nothing,
    "VolumeZone": filter_nothing,
    "PodTopologySpread": filter_spread_of,
    "InterPodAffinity": filter_affinity_of,
    "DynamicResources": filter_dynamic_resources,
    "NodeDeclaredFeatures": filter_declared_features,
}
