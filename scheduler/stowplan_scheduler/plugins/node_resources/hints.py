"""Which changes may let a pod fit that NodeResourcesFit rejected (plugins/noderesources/fit.go of Kubernetes v1.37.2).

Node changes are judged against the *empty* node: what its pods take now is the next cycle's business. The resources
that a profile ignores are not ignored here, as upstream.
"""

from __future__ import annotations

from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_DELETE,
    Action,
    ClusterEvent,
    EventRegistration,
    Hint,
)
from stowplan_scheduler.framework.cluster_event import (
    Resource as EventResource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.names import DEVICE_CLASS_PREFIX
from stowplan_scheduler.objects import Node
from stowplan_scheduler.plugins.changes import (
    RecentShapes,
    device_classes,
    has_place,
    nodes,
    pods,
    present,
    queue_if,
)
from stowplan_scheduler.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resource, pod_requests


def events(stores: Stores) -> tuple[EventRegistration, ...]:
    """The registrations of NodeResourcesFit; `stores` for the device classes of the moment."""
    hints = _Hints(stores)
    assigned, target = EventResource.ASSIGNED_POD, EventResource.TARGET_POD
    node_change = ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
    class_change = ClusterEvent(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE)
    return (
        EventRegistration(ASSIGNED_POD_DELETE, _after_pod_deleted),
        EventRegistration(node_change, hints.after_node_change),
        EventRegistration(class_change, _after_device_class_change),
        EventRegistration(ClusterEvent(assigned, Action.UPDATE_POD_SCALE_DOWN), hints.after_other_scaled_down),
        EventRegistration(ClusterEvent(target, Action.UPDATE_POD_SCALE_DOWN)),
    )


class _Hints:
    """The hints that need more than the objects of the event."""

    __slots__ = ("_nodes", "_shapes", "_stores")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._shapes = RecentShapes()
        self._nodes: list[tuple[Node, Resource]] = []

    def after_node_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        """The pod fits the empty node and, on an update, something that it asks for has grown."""
        before, after = nodes(old, new)
        now = self._allocatable(present(after))
        if not self._fits_empty(pod, now):
            return Hint.SKIP
        return queue_if(before is None or self._has_grown(pod, self._allocatable(before), now))

    def _allocatable(self, node: Node) -> Resource:
        for held, amounts in self._nodes:
            if held is node:
                return amounts
        amounts = Resource.from_map(node.status.allocatable)
        self._nodes = [(node, amounts), *self._nodes[:1]]
        return amounts

    def _fits_empty(self, pod: PodInfo, allocatable: Resource) -> bool:
        request = pod.shape.fit
        if allocatable.allowed_pod_number < 1:
            return False
        return all(
            request.get(name) <= allocatable.get(name) or self._left_to_devices(name, allocatable)
            for name in _requested(request)
        )

    def _has_grown(self, pod: PodInfo, before: Resource, now: Resource) -> bool:
        names = _requested(pod.shape.fit)
        return any(now.get(name) > before.get(name) for name in (PODS, *names)) or any(
            self._left_to_devices(name, now) for name in names
        )

    def _left_to_devices(self, name: str, allocatable: Resource) -> bool:
        """Whether DynamicResources decides: only where the node itself has none of the resource."""
        return name in self._stores.served and allocatable.get(name) == 0

    def after_other_scaled_down(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A pod on a node asks for less of something that the waiting pod asks for."""
        before, after = pods(old, new)
        modified = present(after)
        if not modified.spec.node_name:
            return Hint.SKIP
        was, now = self._shapes.of(present(before)).node_requested, self._shapes.of(modified).node_requested
        return queue_if(any(was.get(name) > now.get(name) for name in _requested(pod.shape.node_requested)))


def _requested(request: Resource) -> list[str]:
    """The names of what is asked for, zeros left out."""
    return [name for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if request.get(name) > 0] + [
        name for name, amount in request.scalar.items() if amount > 0
    ]


def _after_pod_deleted(pod: PodInfo, old: object, new: object) -> Hint:
    before, _ = pods(old, new)
    return queue_if(has_place(present(before)))


def _after_device_class_change(pod: PodInfo, old: object, new: object) -> Hint:
    """The class came to serve a resource that the pod names; its implicit name counts only when it is new."""
    before, after = device_classes(old, new)
    device_class = present(after)
    name = device_class.spec.extended_resource_name
    if before is not None and (before.spec.extended_resource_name or "") == (name or ""):
        return Hint.SKIP
    # Presence counts, even with an amount of 0, so the derived amounts of the shape do not do.
    named = pod_requests(pod.pod, use_status=False, pod_level=True)
    is_new = before is None and DEVICE_CLASS_PREFIX + device_class.metadata.name in named
    return queue_if(is_new or (name is not None and name in named))
