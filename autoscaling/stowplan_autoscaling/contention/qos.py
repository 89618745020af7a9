"""The QoS class of a pod, and what the kubelet derives from it for the kernel.

The class follows pkg/apis/core/v1/helper/qos/qos.go of Kubernetes v1.37.2 with its default feature gates; the
adjustment of the out-of-memory score follows pkg/kubelet/qos/policy.go; the limits that hold for a whole pod follow
ResourceConfigForPod in pkg/kubelet/cm/helpers_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from stowplan_scheduler.objects import Container, Pod, ResourceMap, ResourceRequirements
from stowplan_scheduler.quantity import milli_value, parse_quantity, value
from stowplan_scheduler.resources import (
    CPU,
    MEMORY,
    aggregate_limits,
    aggregate_requests,
    is_pod_level_resource,
    pod_level_requests_set,
    pod_requests,
)

SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Pods of this priority and above are never evicted by the kubelet (pkg/apis/scheduling, SystemCriticalPriority)."""

SYSTEM_NODE_CRITICAL: Final = "system-node-critical"
GUARANTEED_SCORE: Final = -997
BEST_EFFORT_SCORE: Final = 1000
UNLIMITED: Final = -1
"""No limit, where a limit is a number of milli cores or bytes."""

_NONE: Final[ResourceMap] = {}


class QosClass(IntEnum):
    """status.qosClass, in the order in which pods suffer."""

    BEST_EFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2

    @property
    def text(self) -> str:
        """The word of the API."""
        return _TEXTS[self]


_TEXTS: Final = {
    QosClass.BEST_EFFORT: "BestEffort",
    QosClass.BURSTABLE: "Burstable",
    QosClass.GUARANTEED: "Guaranteed",
}


def qos_class(pod: Pod) -> QosClass:
    """The class by requests and limits of cpu and memory: the pod's own if it states any, else its containers'."""
    if has_pod_level_resources(pod) and pod.spec.resources is not None:
        return _class_of(pod.spec.resources)
    classes = {_class_of(container.resources) for container in _containers(pod)}
    if not classes:
        return QosClass.BEST_EFFORT
    return classes.pop() if len(classes) == 1 else QosClass.BURSTABLE


def has_pod_level_resources(pod: Pod) -> bool:
    """Whether spec.resources names cpu, memory or huge pages."""
    own = pod.spec.resources
    if own is None:
        return False
    return any(is_pod_level_resource(name) for name in (*(own.requests or ()), *(own.limits or ())))


def _containers(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.init_containers
    yield from pod.spec.containers


def _class_of(resources: ResourceRequirements) -> QosClass:
    if not resources.requests and not resources.limits:
        return QosClass.BEST_EFFORT
    classes = {_shape(resources, CPU), _shape(resources, MEMORY)}
    return classes.pop() if len(classes) == 1 else QosClass.BURSTABLE


def _shape(resources: ResourceRequirements, name: str) -> QosClass:
    request = parse_quantity((resources.requests or _NONE).get(name, 0))
    limit = parse_quantity((resources.limits or _NONE).get(name, 0))
    if request != limit:
        return QosClass.BURSTABLE
    return QosClass.GUARANTEED if request else QosClass.BEST_EFFORT


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What the kubelet and the kernel know of a pod: milli cores and bytes, UNLIMITED for no limit."""

    qos: QosClass
    cpu_request: int
    cpu_limit: int
    memory_request: int
    memory_limit: int
    oom_score: int
    """oom_score_adj of its hungriest container: -997 to 1000."""
    priority: int
    critical: bool
    """Never evicted by the kubelet."""


def pod_resources(pod: Pod, *, memory_capacity: int) -> PodResources:
    """A pod's numbers for the contention on its node. `memory_capacity`: of the node, bytes.

    A limit holds for the pod only if every container has one, or the pod itself does. Compute it once per pod.
    """
    requests = pod_requests(pod, use_status=False, pod_level=True)
    own = (pod.spec.resources.limits or _NONE) if pod.spec.resources is not None else _NONE
    limits = aggregate_limits(pod)
    qos = qos_class(pod)
    memory_request = value(requests.get(MEMORY, 0))
    return PodResources(
        qos=qos,
        cpu_request=milli_value(requests.get(CPU, 0)),
        cpu_limit=_limit(pod, CPU, own, limits, milli=True),
        memory_request=memory_request,
        memory_limit=_limit(pod, MEMORY, own, limits, milli=False),
        oom_score=max((oom_score_adjust(pod, c, qos, memory_capacity) for c in pod.spec.containers), default=1000),
        priority=pod.priority,
        critical=pod.priority >= SYSTEM_CRITICAL_PRIORITY,
    )


def _limit(pod: Pod, name: str, own: ResourceMap, limits: dict[str, int], *, milli: bool) -> int:
    nanos = parse_quantity(own.get(name, 0))
    if not nanos:
        if not all(parse_quantity((c.resources.limits or _NONE).get(name, 0)) for c in _containers(pod)):
            return UNLIMITED
        nanos = limits.get(name, 0)
    # Overhead (the sandbox of a virtual machine) counts for limits that are set.
    nanos += parse_quantity((pod.spec.overhead or _NONE).get(name, 0))
    return milli_value(nanos) if milli else value(nanos)


def oom_score_adjust(pod: Pod, container: Container, qos: QosClass, memory_capacity: int) -> int:
    """oom_score_adj of a container's processes; the kernel kills the highest score first."""
    if pod.priority >= SYSTEM_CRITICAL_PRIORITY and pod.spec.priority_class_name == SYSTEM_NODE_CRITICAL:
        return GUARANTEED_SCORE
    if qos is QosClass.GUARANTEED:
        return GUARANTEED_SCORE
    if qos is QosClass.BEST_EFFORT:
        return BEST_EFFORT_SCORE
    request = _memory_request(container) + _unassigned_request(pod)
    score = 1000 - 1000 * request // memory_capacity
    return min(max(score, 1000 + GUARANTEED_SCORE), BEST_EFFORT_SCORE - 1)


def _memory_request(container: Container) -> int:
    return value(parse_quantity((container.resources.requests or _NONE).get(MEMORY, 0)))


def _unassigned_request(pod: Pod) -> int:
    """What the pod as a whole asks for beyond its containers, per container."""
    if not pod_level_requests_set(pod) or pod.spec.resources is None:
        return 0
    whole = value(parse_quantity((pod.spec.resources.requests or _NONE).get(MEMORY, 0)))
    rest = whole - value(aggregate_requests(pod).get(MEMORY, 0))
    return max(rest, 0) // (len(pod.spec.containers) + len(pod.spec.init_containers))
