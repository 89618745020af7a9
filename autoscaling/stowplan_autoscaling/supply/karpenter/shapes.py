"""Pod shapes: everything about a pod that decides where it fits, without who it is.

Pods of one workload have one shape, and what the solver finds out about a shape holds for all of them. A shape also
knows the next looser one (see `preferences`), so a workload is relaxed once, not pod by pod.

Follows PodData and updateCachedPodData of pkg/controllers/provisioning/scheduling/scheduler.go and NewPodRequirements
of pkg/scheduling/requirements.go, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stowplan_scheduler.objects import (
    ApiStruct,
    ContainerStatus,
    Pod,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    ResourceMap,
    ResourceRequirements,
    Toleration,
)
from stowplan_scheduler.quantity import NANOS
from stowplan_scheduler.resources import pod_requests

from .amounts import Axis, Demand
from .host_ports import host_ports
from .labels import HOSTNAME
from .preferences import relaxed
from .requirement import Requirement
from .requirements import EMPTY, Requirements

_MEMO_LIMIT: Final = 1 << 16
_NO_NODE: Final = ""


class Footing:
    """What a pod asks of a node as such: the same for all shapes that ask the same, so it compares by identity.

    None of the requirements holds for a node without the label. A node that takes such a pod is required no more than
    it was before, and so two such pods that go to one node share nothing but its room.
    """

    __slots__ = ("demand", "requirements", "tolerations")

    def __init__(self, demand: Demand, requirements: Requirements, tolerations: tuple[Toleration, ...]) -> None:
        self.demand = demand
        self.requirements = requirements
        self.tolerations = tolerations


class Shape:
    """A kind of pod. Amounts in nano units; `requests` counts one of "pods".

    `requirements` take the heaviest preference for a must, unless preferences are ignored; `strict` only what really
    must be. What is asked of the host name stands apart, in `host` and `strict_host`: names of hosts are never shared.
    `is_valid`: whether Karpenter takes such pods on, once that was asked. `keeps_others_out`: there is required
    anti-affinity; `has_terms`: there is spread, affinity or anti-affinity of any kind. `footing`: where the shape asks
    nothing of a node that cannot be said without naming pods, ports or hosts.
    """

    __slots__ = (
        "demand", "footing", "has_claims", "has_terms", "host", "is_valid", "keeps_others_out", "key", "labels",
        "looser", "namespace", "ports", "requests", "requirements", "spec", "strict", "strict_host", "tolerations",
    )  # fmt: skip

    def __init__(
        self, key: bytes, namespace: str, labels: Mapping[str, str], spec: PodSpec, requests: dict[str, int],
        axis: Axis, *, ignore_preferences: bool,
    ) -> None:  # fmt: skip
        self.key = key
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.requests = requests
        self.demand: Demand = axis.demand(requests)
        self.tolerations = spec.tolerations
        self.ports = host_ports(spec)
        self.has_claims = bool(spec.resource_claims)
        strict = pod_requirements(spec, preferences=False)
        wanted = strict if ignore_preferences else pod_requirements(spec, preferences=True)
        self.host: Requirement | None = wanted.find(HOSTNAME)
        self.strict_host: Requirement | None = strict.find(HOSTNAME)
        self.requirements = wanted.without((HOSTNAME,))
        self.strict = strict.without((HOSTNAME,))
        self.looser: dict[bool, Shape | None] = {}
        self.is_valid: bool | None = None
        self.keeps_others_out = bool(anti_terms(spec))
        self.has_terms = bool(spec.topology_spread_constraints) or has_affinity_terms(spec)
        self.footing: Footing | None = None


def is_alike(pod: Pod, before: Pod) -> bool:
    """Whether a pod has the shape that it had before, as far as that is plain: only its status is another one."""
    if pod.spec is not before.spec or pod.metadata is not before.metadata:
        return False
    return not (_has_allocated(pod) or _has_allocated(before))


def _has_allocated(pod: Pod) -> bool:
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


def has_affinity_terms(spec: PodSpec) -> bool:
    """Whether a pod has affinity to other pods or anti-affinity, required or preferred."""
    wishes = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity) if spec.affinity else ()
    return any(
        wish.required_during_scheduling_ignored_during_execution
        or wish.preferred_during_scheduling_ignored_during_execution
        for wish in wishes
        if wish is not None
    )


def anti_terms(spec: PodSpec) -> Sequence[PodAffinityTerm]:
    """The required anti-affinity of a pod."""
    wish = spec.affinity.pod_anti_affinity if spec.affinity else None
    return wish.required_during_scheduling_ignored_during_execution if wish is not None else ()


def pod_requirements(spec: PodSpec, *, preferences: bool) -> Requirements:
    """What a pod asks of its node's labels: the selector, the first required term, and the heaviest preference.

    The other required terms and the lighter preferences get their turn when the pod is relaxed.
    """
    found = Requirements.of_labels(spec.node_selector) if spec.node_selector else EMPTY
    node = spec.affinity.node_affinity if spec.affinity else None
    if node is None:
        return found
    if preferences and node.preferred_during_scheduling_ignored_during_execution:
        heaviest = max(node.preferred_during_scheduling_ignored_during_execution, key=lambda term: term.weight)
        found = found.adding(Requirements.of_expressions(heaviest.preference.match_expressions))
    required = node.required_during_scheduling_ignored_during_execution
    if required is not None and required.node_selector_terms:
        found = found.adding(Requirements.of_expressions(required.node_selector_terms[0].match_expressions))
    return found


class _Allocated(ApiStruct, frozen=True, kw_only=True):
    """What the kubelet says about a resize, which takes part in the requests."""

    containers: tuple[ContainerStatus, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()
    amounts: ResourceMap | None = None
    resources: ResourceRequirements | None = None
    conditions: tuple[PodCondition, ...] = ()


class Shapes:
    """The shapes seen so far, by content."""

    def __init__(self, axis: Axis, *, ignore_preferences: bool = False) -> None:
        self.axis = axis
        self._ignore_preferences = ignore_preferences
        self._known: dict[bytes, Shape] = {}
        self._footings: dict[tuple[Demand, Requirements, tuple[Toleration, ...]], Footing] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod. Raises QuantityError for a request that is no quantity."""
        spec = replace(pod.spec, node_name=_NO_NODE) if pod.spec.node_name else pod.spec
        meta, status = pod.metadata, pod.status
        allocated = None
        if _has_allocated(pod):
            allocated = _Allocated(
                containers=status.container_statuses,
                init_containers=status.init_container_statuses,
                amounts=status.allocated_resources,
                resources=status.resources,
                conditions=tuple(c for c in status.conditions if c.type == "PodResizePending"),
            )
        key = self._encode((meta.namespace, meta.labels, spec, allocated))
        shape = self._known.get(key)
        if shape is None:
            requests = pod_requests(pod, use_status=True, pod_level=True)
            requests["pods"] = NANOS
            shape = self._add(key, meta.namespace, meta.labels, spec, requests)
        return shape

    def relaxed(self, shape: Shape, *, tolerate_prefer_no_schedule: bool) -> Shape | None:
        """The next looser shape; None if there is nothing left to give up."""
        try:
            return shape.looser[tolerate_prefer_no_schedule]
        except KeyError:
            spec = relaxed(shape.spec, tolerate_prefer_no_schedule=tolerate_prefer_no_schedule)
            found = None
            if spec is not None:
                # Requests do not change, but they may come from a status that the specification does not show.
                key = self._encode((shape.key, spec))
                found = self._known.get(key) or self._add(key, shape.namespace, shape.labels, spec, shape.requests)
            shape.looser[tolerate_prefer_no_schedule] = found
            return found

    def _add(
        self, key: bytes, namespace: str, labels: Mapping[str, str], spec: PodSpec, requests: dict[str, int]
    ) -> Shape:
        if len(self._known) > _MEMO_LIMIT:
            self._known.clear()
        shape = Shape(key, namespace, labels, spec, requests, self.axis, ignore_preferences=self._ignore_preferences)
        shape.footing = self._footing(shape)
        self._known[key] = shape
        return shape

    def _footing(self, shape: Shape) -> Footing | None:
        if shape.ports or shape.has_claims or shape.host is not None:
            return None
        if any(requirement.tolerates_absence for requirement in shape.requirements):
            return None
        key = (shape.demand, shape.requirements, shape.tolerations)
        known = self._footings.get(key)
        if known is None:
            if len(self._footings) > _MEMO_LIMIT:
                self._footings.clear()
            known = self._footings[key] = Footing(*key)
        return known
