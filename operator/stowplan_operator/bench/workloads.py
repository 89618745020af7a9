"""Workloads of the scheduler benchmark: which nodes there are, and which pods come.

The first five are those of tests/benchmarks/upstream, node by node and pod by pod, so that the two programs can be
compared in one run. Names and amounts follow from the pod's number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan_scheduler.objects import (
    Affinity,
    Container,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GROUPS = 20

PodMaker = Callable[[int], Pod]
NodeMaker = Callable[[int], Node]


def node(number: int) -> Node:
    """32 CPUs, 128 GiB, 110 pods; three zones, five pools."""
    name = f"node-{number}"
    capacity: dict[str, str | int | float] = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "pool": f"p{number % 5}"}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        status=NodeStatus(capacity=capacity, allocatable=capacity),
    )


def tainted_node(number: int) -> Node:
    """As `node`; every fifth one is reserved, every seventh one is better avoided."""
    plain = node(number)
    taints = []
    if number % 5 == 0:
        taints.append(Taint(key="dedicated", value="batch", effect="NoSchedule"))
    if number % 7 == 0:
        taints.append(Taint(key="spot", effect="PreferNoSchedule"))
    return Node(metadata=plain.metadata, spec=NodeSpec(taints=tuple(taints)), status=plain.status)


def _pod(number: int, cpu: str, memory: str, **spec: object) -> Pod:
    name = f"pod-{number}"
    requests: dict[str, str | int | float] = {"cpu": cpu, "memory": memory}
    container = Container(
        name="c", image="registry.k8s.io/pause:3.10", resources=ResourceRequirements(requests=requests)
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, labels={"app": f"g{number % GROUPS}"}),
        spec=PodSpec(scheduler_name="default-scheduler", containers=(container,), **spec),  # type: ignore[arg-type]
    )


def _templated(number: int, **spec: object) -> Pod:
    group = number % GROUPS
    return _pod(number, f"{100 + 50 * group}m", f"{128 + 64 * group}Mi", **spec)


def _selector(number: int) -> LabelSelector:
    return LabelSelector(match_labels={"app": f"g{number % GROUPS}"})


def plain(number: int) -> Pod:
    """20 templates of cpu and memory."""
    return _templated(number)


def distinct(number: int) -> Pod:
    """Every pod asks for another amount."""
    return _pod(number, f"{100 + number}m", f"{128 + number}Mi")


def anti(number: int) -> Pod:
    """20 groups, required anti-affinity on the host name within the group."""
    term = PodAffinityTerm(label_selector=_selector(number), topology_key=HOSTNAME)
    required = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return _templated(number, affinity=Affinity(pod_anti_affinity=required))


def spread(number: int) -> Pod:
    """20 groups, DoNotSchedule over 3 zones, maxSkew 5."""
    constraint = TopologySpreadConstraint(
        max_skew=5, topology_key=ZONE, when_unsatisfiable="DoNotSchedule", label_selector=_selector(number)
    )
    return _templated(number, topology_spread_constraints=(constraint,))


def preferred(number: int) -> Pod:
    """20 groups, preferred affinity over zones."""
    term = PodAffinityTerm(label_selector=_selector(number), topology_key=ZONE)
    wanted = WeightedPodAffinityTerm(weight=10, pod_affinity_term=term)
    affinity = PodAffinity(preferred_during_scheduling_ignored_during_execution=(wanted,))
    return _templated(number, affinity=Affinity(pod_affinity=affinity))


def taints(number: int) -> Pod:
    """Node affinity for two of five pools, a preferred one, and every other pod tolerates the reserved nodes."""
    pools = NodeSelectorRequirement(key="pool", operator="In", values=(f"p{number % 5}", f"p{(number + 1) % 5}"))
    liked = NodeSelectorRequirement(key="pool", operator="In", values=(f"p{number % 5}",))
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(
            node_selector_terms=(NodeSelectorTerm(match_expressions=(pools,)),)
        ),
        preferred_during_scheduling_ignored_during_execution=(
            PreferredSchedulingTerm(weight=5, preference=NodeSelectorTerm(match_expressions=(liked,))),
        ),
    )
    tolerations = (Toleration(key="dedicated", operator="Exists"),) if number % 2 else ()
    return _templated(number, affinity=Affinity(node_affinity=affinity), tolerations=tolerations)


def mix(number: int) -> Pod:
    """Half plain, the rest evenly distinct amounts, anti-affinity, spread, preferences and node affinity."""
    makers: tuple[PodMaker, ...] = (plain, distinct, plain, anti, plain, spread, plain, preferred, plain, taints)
    return makers[number % len(makers)](number)


def backlog(number: int) -> Pod:
    """Pods that fit nowhere: 64 CPUs on nodes of 32."""
    return _pod(number, f"{64 + number % GROUPS}", "1Gi")


WORKLOADS: Mapping[str, tuple[NodeMaker, PodMaker]] = {
    "plain": (node, plain),
    "distinct": (node, distinct),
    "anti": (node, anti),
    "spread": (node, spread),
    "preferred": (node, preferred),
    "taints": (tainted_node, taints),
    "mix": (tainted_node, mix),
    "backlog": (node, backlog),
}
"""Node maker and pod maker by name."""

UPSTREAM = ("plain", "distinct", "anti", "spread", "preferred")
"""The workloads that the real scheduler's benchmark has too."""
