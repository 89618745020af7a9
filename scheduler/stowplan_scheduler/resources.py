"""Resource amounts of nodes and pods, in the units in which the scheduler compares them.

`Resource` follows framework.Resource (pkg/scheduler/framework/types.go): milli cores, bytes, and a count per scalar
resource. `pod_requests` follows PodRequests of staging/src/k8s.io/component-helpers/resource/helpers.go; the functions
below it are the views that the scheduler takes (framework/types.go, plugins/noderesources/fit.go and
resource_allocation.go).
All of Kubernetes v1.37.2 with its default feature gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from .names import (
    is_attachable_volume_resource,
    is_dra_extended_resource,
    is_extended_resource,
    is_hugepage_resource,
    is_native_resource,
    is_pod_level_resource,
    is_prefixed_native_resource,
    is_scalar_resource,
)
from .objects import Container, ContainerStatus, Pod, ResourceMap
from .quantity import NANOS, NANOS_PER_MILLI, milli_value, parse_quantity, value

__all__ = [
    "CPU",
    "DEFAULT_MEMORY_REQUEST",
    "DEFAULT_MILLI_CPU_REQUEST",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "PODS",
    "Requests",
    "Resource",
    "aggregate_limits",
    "aggregate_requests",
    "balanced_request",
    "fit_request",
    "is_attachable_volume_resource",
    "is_dra_extended_resource",
    "is_extended_resource",
    "is_hugepage_resource",
    "is_native_resource",
    "is_pod_level_resource",
    "is_prefixed_native_resource",
    "is_scalar_resource",
    "node_requested",
    "non_zero_requested",
    "pod_level_requests_set",
    "pod_limits",
    "pod_requests",
    "resource_of",
    "score_request",
]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

DEFAULT_MILLI_CPU_REQUEST: Final = 100
"""What a container that names no cpu counts for in scores (pkg/scheduler/util/pod_resources.go)."""

DEFAULT_MEMORY_REQUEST: Final = 200 * 1024 * 1024
"""What a container that names no memory counts for in scores, in bytes."""

_DEFAULTS: Final = {CPU: DEFAULT_MILLI_CPU_REQUEST * NANOS_PER_MILLI, MEMORY: DEFAULT_MEMORY_REQUEST * NANOS}

# Most pods and many nodes have no scalar resource: they share one mapping, which nothing ever changes in place.
_NO_SCALARS: Final[dict[str, int]] = {}

Requests = dict[str, int]
"""Resource name -> nano units."""

_View = Callable[[Container], "ResourceMap | None"]


class Resource:
    """An amount of every resource: cpu in milli cores, memory and ephemeral storage in bytes, scalars in units.

    `allowed_pod_number` matters for nodes only. Change `scalar` through the methods alone: instances may share it while
    it is empty.
    """

    __slots__ = ("allowed_pod_number", "ephemeral_storage", "memory", "milli_cpu", "scalar")

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        milli_cpu: int = 0,
        memory: int = 0,
        ephemeral_storage: int = 0,
        allowed_pod_number: int = 0,
        scalar: Mapping[str, int] | None = None,
    ) -> None:
        self.milli_cpu = milli_cpu
        self.memory = memory
        self.ephemeral_storage = ephemeral_storage
        self.allowed_pod_number = allowed_pod_number
        self.scalar: dict[str, int] = dict(scalar) if scalar else _NO_SCALARS

    @classmethod
    def from_map(cls, amounts: ResourceMap) -> Resource:
        """The amounts of a list of Kubernetes quantities, such as status.allocatable. Raises QuantityError."""
        return resource_of({name: parse_quantity(amount) for name, amount in amounts.items()})

    def add(self, other: Resource) -> None:
        """Add the amounts of another resource."""
        self._combine(other, 1)

    def sub(self, other: Resource) -> None:
        """Take the amounts of another resource away; a scalar that reaches 0 is forgotten."""
        self._combine(other, -1)

    def _combine(self, other: Resource, sign: int) -> None:
        self.milli_cpu += sign * other.milli_cpu
        self.memory += sign * other.memory
        self.ephemeral_storage += sign * other.ephemeral_storage
        self.allowed_pod_number += sign * other.allowed_pod_number
        for name, amount in other.scalar.items():
            self.set_scalar(name, self.scalar.get(name, 0) + sign * amount)

    def set_scalar(self, name: str, amount: int) -> None:
        """Set one scalar resource; 0 removes it."""
        if amount == 0:
            if name in self.scalar:
                del self.scalar[name]
        elif self.scalar:
            self.scalar[name] = amount
        else:
            self.scalar = {name: amount}

    def clone(self) -> Resource:
        """An independent copy."""
        copy = Resource.__new__(Resource)
        copy.milli_cpu = self.milli_cpu
        copy.memory = self.memory
        copy.ephemeral_storage = self.ephemeral_storage
        copy.allowed_pod_number = self.allowed_pod_number
        copy.scalar = self.scalar.copy() if self.scalar else _NO_SCALARS
        return copy

    def get(self, name: str) -> int:
        """The amount under its Kubernetes name, 0 if there is none."""
        if name == CPU:
            return self.milli_cpu
        if name == MEMORY:
            return self.memory
        if name == EPHEMERAL_STORAGE:
            return self.ephemeral_storage
        if name == PODS:
            return self.allowed_pod_number
        return self.scalar.get(name, 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            self.milli_cpu == other.milli_cpu
            and self.memory == other.memory
            and self.ephemeral_storage == other.ephemeral_storage
            and self.allowed_pod_number == other.allowed_pod_number
            and self.scalar == other.scalar
        )

    def __repr__(self) -> str:
        return (
            f"Resource(milli_cpu={self.milli_cpu}, memory={self.memory}, ephemeral_storage={self.ephemeral_storage}, "
            f"allowed_pod_number={self.allowed_pod_number}, scalar={dict(sorted(self.scalar.items()))})"
        )


def resource_of(requests: Mapping[str, int]) -> Resource:
    """Nano amounts in the scheduler's units; names that it does not count are left out, and so are scalars of 0."""
    result = Resource()
    for name, nanos in requests.items():
        if name == CPU:
            result.milli_cpu = milli_value(nanos)
        elif name == MEMORY:
            result.memory = value(nanos)
        elif name == EPHEMERAL_STORAGE:
            result.ephemeral_storage = value(nanos)
        elif name == PODS:
            result.allowed_pod_number = value(nanos)
        elif is_scalar_resource(name):
            result.set_scalar(name, value(nanos))
    return result


# ---- the request of a pod ------------------------------------------------------------------------------------------


def pod_requests(pod: Pod, *, use_status: bool, pod_level: bool, non_missing: bool = False) -> Requests:
    """What the pod asks for, in nano units per resource name.

    `use_status`: also what the kubelet has allocated and actuated (in-place resize); the greatest of the three counts.
    `pod_level`: `spec.resources` replaces the sum of the containers for the resources that it names.
    `non_missing`: a container that lacks cpu or memory counts 100m or 200Mi (an explicit 0 stays 0).

    Raises QuantityError.
    """
    return _requests(pod, use_status, pod_level, _DEFAULTS if non_missing else {})


def _requests(pod: Pod, use_status: bool, pod_level: bool, defaults: Mapping[str, int]) -> Requests:
    requests = _with_status(pod, defaults) if use_status else aggregate_requests(pod, defaults)
    if pod_level and pod_level_requests_set(pod):
        for name, nanos in _pod_level(pod, use_status).items():
            if is_pod_level_resource(name):
                requests[name] = nanos
    _add(requests, _parse(pod.spec.overhead))
    return requests


def pod_limits(pod: Pod) -> Requests:
    """The most that the pod may use, in nano units per resource name; what has no limit is absent.

    Follows PodLimits of component-helpers/resource/helpers.go. Overhead is added to limits that there are.

    Raises QuantityError.
    """
    limits = aggregate_limits(pod)
    resources = pod.spec.resources
    if resources is not None and any(
        is_pod_level_resource(name) for name in (*(resources.requests or ()), *(resources.limits or ()))
    ):
        limits.update({name: n for name, n in _parse(resources.limits).items() if is_pod_level_resource(name)})
    for name, nanos in _parse(pod.spec.overhead).items():
        if limits.get(name):
            limits[name] += nanos
    return limits


def pod_level_requests_set(pod: Pod) -> bool:
    """Whether the pod as a whole asks for cpu, memory or huge pages."""
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level_resource(name) for name in resources.requests or ())


def _pod_level(pod: Pod, use_status: bool) -> Requests:
    spec = _parse(pod.spec.resources.requests if pod.spec.resources else None)
    if not use_status or pod.status.resources is None:
        return spec
    result = {} if _resize_infeasible(pod) else spec
    _raise_to(result, _parse(pod.status.resources.requests))
    _raise_to(result, _parse(pod.status.allocated_resources))
    return result


def aggregate_requests(pod: Pod, defaults: Mapping[str, int] = _NO_SCALARS) -> Requests:
    """The requests of all containers together, init containers and sidecars considered, without overhead."""
    return _aggregate(pod, lambda container: container.resources.requests, defaults)


def aggregate_limits(pod: Pod) -> Requests:
    """The limits of all containers together, init containers and sidecars considered, without overhead."""
    return _aggregate(pod, lambda container: container.resources.limits, {})


def _aggregate(pod: Pod, view: _View, defaults: Mapping[str, int]) -> Requests:
    total: Requests = {}
    for container in pod.spec.containers:
        _add(total, _with_defaults(view(container), defaults))
    if not pod.spec.init_containers:
        return total
    sidecars: Requests = {}
    peak: Requests = {}
    for container in pod.spec.init_containers:
        own = _with_defaults(view(container), defaults)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            # An ordinary init container runs beside the sidecars that were started before it.
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _with_status(pod: Pod, defaults: Mapping[str, int]) -> Requests:
    infeasible = _resize_infeasible(pod)
    statuses = _container_statuses(pod)
    pod_level = pod.status.resources is not None and pod.status.resources.requests is not None
    if not infeasible and not statuses and not pod_level:
        return aggregate_requests(pod, defaults)

    def allocated(container: Container) -> ResourceMap | None:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return status.allocated_resources
        return None if infeasible else container.resources.requests

    def actuated(container: Container) -> ResourceMap | None:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests is not None:
            return status.resources.requests
        return allocated(container)

    result = {} if infeasible else aggregate_requests(pod, defaults)
    if pod_level and pod.status.resources is not None and pod.status.allocated_resources is not None:
        _raise_to(result, _parse(pod.status.resources.requests))
        _raise_to(result, _parse(pod.status.allocated_resources))
    else:
        _raise_to(result, _aggregate(pod, actuated, defaults))
        _raise_to(result, _aggregate(pod, allocated, defaults))
    return result


def _container_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """The first status of each name that says anything about resources, ordinary containers before init containers."""
    found: dict[str, ContainerStatus] = {}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        found.setdefault(status.name, status)
    return {
        name: status
        for name, status in found.items()
        if status.resources is not None or status.allocated_resources is not None
    }


def _resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _parse(amounts: ResourceMap | None) -> Requests:
    return {name: parse_quantity(amount) for name, amount in amounts.items()} if amounts else {}


def _with_defaults(amounts: ResourceMap | None, defaults: Mapping[str, int]) -> Requests:
    result = _parse(amounts)
    for name, nanos in defaults.items():
        result.setdefault(name, nanos)
    return result


def _add(total: Requests, other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        total[name] = total.get(name, 0) + nanos


def _raise_to(total: Requests, other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        if name not in total or nanos > total[name]:
            total[name] = nanos


# ---- the views that the scheduler takes ----------------------------------------------------------------------------


def fit_request(pod: Pod) -> Resource:
    """What NodeResourcesFit asks a node for (plugins/noderesources/fit.go, computePodResourceRequest)."""
    return resource_of(pod_requests(pod, use_status=False, pod_level=True))


def node_requested(pod: Pod) -> Resource:
    """What a pod on a node takes from it (framework/types.go, PodInfo.CalculateResource)."""
    return resource_of(pod_requests(pod, use_status=True, pod_level=True))


def non_zero_requested(pod: Pod) -> tuple[int, int]:
    """Milli cores and bytes that a pod on a node counts for in scores (PodInfo.CalculateResource).

    With pod-level requests the defaults stand in only for a resource that neither the pod nor a container names.
    """
    defaults: Mapping[str, int] = _DEFAULTS
    if pod_level_requests_set(pod):
        named = pod_requests(pod, use_status=True, pod_level=True)
        defaults = {name: nanos for name, nanos in _DEFAULTS.items() if name not in named}
    requests = _requests(pod, True, True, defaults)
    return milli_value(requests.get(CPU, 0)), value(requests.get(MEMORY, 0))


def score_request(pod: Pod) -> Resource:
    """The pod's side in the scores of NodeResourcesFit: with the defaults, without pod-level resources.

    The scorer of NodeResourcesFit is built without the feature switches (fit.go, NewFit), so it ignores
    `spec.resources`, although the filter honours it.
    """
    return resource_of(pod_requests(pod, use_status=False, pod_level=False, non_missing=True))


def balanced_request(pod: Pod) -> Resource:
    """The pod's side in the scores of NodeResourcesBalancedAllocation: true requests, pod level and status honoured."""
    return resource_of(pod_requests(pod, use_status=True, pod_level=True))
