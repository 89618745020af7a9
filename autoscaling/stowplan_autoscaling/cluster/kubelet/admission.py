"""Whether a node has room for a pod that was bound to it: the kubelet's own look at requests.

Follows the resource part of generalFilter (pkg/kubelet/lifecycle/predicate.go, which asks the scheduler's
noderesources.Fits) and the check of NoExecute taints, of Kubernetes v1.37.2. Node affinity, node name and ports are not
looked at again, and nothing is preempted for a critical pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from stowplan_scheduler.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resource, fit_request
from stowplan_scheduler.tolerations import find_untolerated_taint

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_scheduler.objects import Node

NO_EXECUTE: Final = "NoExecute"
_UNTOLERATED: Final = "node(s) had taints that the pod didn't tolerate"


class Rejection(NamedTuple):
    """Why a pod is not admitted: status.reason and status.message."""

    reason: str
    message: str


class RequestCache:
    """What pods ask for, computed once per template: pods of one share their lists of containers."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, int], tuple[object, Resource]] = {}

    def request(self, pod: ClusterPod) -> Resource:
        """The request, overhead included. Not to be changed."""
        spec = pod.spec
        parts = (spec.containers, spec.init_containers, spec.overhead, spec.resources)
        key = (id(parts[0]), id(parts[1]), id(parts[2]), id(parts[3]))
        found = self._known.get(key)
        if found is None:
            # The parts are kept, so that no other object gets their ids.
            found = self._known[key] = (parts, fit_request(pod))
        return found[1]


class NodeBudget:
    """What is left of one node."""

    __slots__ = ("_capacity", "_most_pods", "_pods", "_taints", "_used")

    def __init__(self, node: Node, most_pods: int) -> None:
        self._used = Resource()
        self._pods = 0
        self._most_pods = most_pods
        self.update(node)

    def update(self, node: Node) -> None:
        """The node changed."""
        self._capacity = Resource.from_map(node.status.allocatable)
        if PODS not in node.status.allocatable:
            self._capacity.allowed_pod_number = self._most_pods
        self._taints = tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)

    def admit(self, pod: ClusterPod, request: Resource) -> Rejection | None:
        """Give the pod its room, or say why not."""
        missing = self._missing(request)
        if missing is not None:
            return missing
        if self._taints and find_untolerated_taint(self._taints, pod.spec.tolerations) is not None:
            return Rejection("TaintToleration", f"Predicate TaintToleration failed: {_UNTOLERATED}")
        self.take(request)
        return None

    def take(self, request: Resource) -> None:
        """The pod has its room already, whatever there is."""
        self._pods += 1
        self._used.add(request)

    def release(self, request: Resource) -> None:
        """The pod's containers have ended."""
        self._pods -= 1
        self._used.sub(request)

    def _missing(self, request: Resource) -> Rejection | None:
        """The first resource that is short, in upstream's order."""
        capacity, used = self._capacity, self._used
        if self._pods + 1 > capacity.allowed_pod_number:
            return _rejection(PODS, 1, self._pods, capacity.allowed_pod_number)
        if request.milli_cpu and request.milli_cpu > capacity.milli_cpu - used.milli_cpu:
            return _rejection(CPU, request.milli_cpu, used.milli_cpu, capacity.milli_cpu)
        if request.memory and request.memory > capacity.memory - used.memory:
            return _rejection(MEMORY, request.memory, used.memory, capacity.memory)
        if (
            request.ephemeral_storage
            and request.ephemeral_storage > capacity.ephemeral_storage - used.ephemeral_storage
        ):
            return _rejection(
                EPHEMERAL_STORAGE, request.ephemeral_storage, used.ephemeral_storage, capacity.ephemeral_storage
            )
        for name, amount in request.scalar.items():
            # A resource that the node does not name belongs to the cluster (removeMissingExtendedResources).
            if name in capacity.scalar and amount > capacity.get(name) - used.get(name):
                return _rejection(name, amount, used.get(name), capacity.get(name))
        return None


def _rejection(name: str, requested: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
    )
