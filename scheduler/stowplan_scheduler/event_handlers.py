"""What the scheduler makes of changes of the cluster: it brings its cache up to date, and wakes pods that wait.

Changes may come twice, late, or about what is not known.

Follows pkg/scheduler/eventhandlers.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stowplan_scheduler.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import DeviceClass, Namespace, Node, Pod, ResourceSlice, key_of
from stowplan_scheduler.queue import QueuedPodInfo, node_update_events, pod_update_events

if TYPE_CHECKING:
    from .scheduler import Scheduler

WATCHED_RESOURCES: Mapping[type, Resource] = {
    DeviceClass: Resource.DEVICE_CLASS,
    ResourceSlice: Resource.RESOURCE_SLICE,
}
"""Kinds other than pods and nodes whose changes may let a waiting pod fit."""


class EventHandlers:
    """Those of one scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._s = scheduler
        self._cache = scheduler.cache
        self._queue = scheduler.queue
        self.stores = scheduler.stores
        self._pods = scheduler.pods

    # ---- pods --------------------------------------------------------------------------------

    def pod_set(self, pod: Pod, now: int) -> None:
        """A pod was added or changed; finished pods count as gone."""
        if pod.is_terminal:
            self._pod_gone(pod, now)
            return
        pods = self._pods
        old = pods.by_key.get(pod.key)
        new = pods.interner.info(pod) if old is None else pods.interner.info_like(pod, old)
        if old is not None and (old.uid != new.uid or _left_its_node(old.pod, pod)):
            self._pod_gone(old.pod, now)
            old = None
        pods.put(new)
        if old is None:
            if pod.spec.node_name:
                self._assigned_added(new, now)
            elif pod.spec.scheduler_name in self._s.profiles:
                self._queue.add(new, now)
        elif old.pod.spec.node_name:
            self._assigned_updated(old, new, now)
        elif pod.spec.node_name:
            self._assigned_added(new, now)
            self._queue.delete(old.pod, now)
        elif self._is_ours(old):
            self._pending_updated(old, new, now)

    def pod_deleted(self, pod: Pod, now: int) -> None:
        """A pod was deleted."""
        if self._pods.holds(pod):
            self._pod_gone(pod, now)

    def _is_ours(self, info: PodInfo) -> bool:
        """Whether a pending pod has a profile here, or had one when it was given a node."""
        return info.pod.spec.scheduler_name in self._s.profiles or self._cache.is_assumed_pod(info)

    def _pod_gone(self, pod: Pod, now: int) -> None:
        old = self._pods.by_key.get(pod.key)
        if old is None:
            return
        self._pods.remove(old)
        last = old.pod
        if last.spec.node_name:
            self._cache.remove_pod(old)
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, last, None, now)
            return
        if not self._is_ours(old):
            return
        self._queue.delete(last, now)
        if self._cache.is_assumed_pod(old):
            self._assumed_deleted(old, now)
        elif last.status.nominated_node_name:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, last, None, now, _at_most(last.priority))

    def _assigned_added(self, info: PodInfo, now: int) -> None:
        self._cache.add_pod(info)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, info.pod, now)

    def _assigned_updated(self, before: PodInfo, new: PodInfo, now: int) -> None:
        self._cache.update_pod(new)
        if not self._queue.listens():
            return
        old = before.pod
        for event in pod_update_events(old, new.pod, Resource.ASSIGNED_POD, alike=before.shape is new.shape):
            self._queue.move_all_to_active_or_backoff(event, old, new.pod, now)

    def _pending_updated(self, before: PodInfo, new: PodInfo, now: int) -> None:
        old, version = before.pod, new.pod.metadata.resource_version
        if version and version == old.metadata.resource_version:
            return
        if self._cache.is_assumed_pod(new):
            if new.terminating and old.metadata.deletion_timestamp is None:
                self._assumed_deleted(new, now)
            return
        self._queue.update(old, new, now, alike=before.shape is new.shape)
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.pod.status.nominated_node_name:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, old, None, now, _at_most(old.priority))

    def _assumed_deleted(self, info: PodInfo, now: int) -> None:
        """A pod is deleted between assume and the confirmation of its binding."""
        assumed = self._cache.get_pod(info)
        if assumed is None:
            return
        if not self._s.attempts.reject_waiting(info.uid, "", "removed", now):
            self._cache.forget_pod(assumed)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, assumed.pod, None, now)

    # ---- nodes and the rest ------------------------------------------------------------------

    def node_set(self, node: Node, now: int) -> None:
        """A node was added or changed."""
        name = node.metadata.name
        held = self._cache.get_node(name)
        old = None if held is None else held.node
        if old is None:
            self._cache.add_node(node)
            self._queue.move_all_to_active_or_backoff(NODE_ADD, None, node, now)
            return
        self._cache.update_node(node)
        for event in node_update_events(old, node):
            self._queue.move_all_to_active_or_backoff(event, old, node, now)

    def node_deleted(self, node: Node, now: int) -> None:
        """A node was deleted."""
        held = self._cache.get_node(node.metadata.name)
        if held is None or held.node is None:
            return
        self._queue.move_all_to_active_or_backoff(NODE_DELETE, held.node, None, now)
        self._cache.remove_node(held.node)

    def other_set(self, other: Any, now: int) -> None:
        """Anything else was added or changed."""
        store = self._store_of(other)
        if store is None:
            return
        key = key_of(other.metadata)
        old = store.get(key)
        store[key] = other
        self._stores_changed(other)
        if isinstance(other, DeviceClass):
            self.stores.served.put(other, old if isinstance(old, DeviceClass) else None)
        resource = WATCHED_RESOURCES.get(type(other))
        if resource is not None:
            event = ClusterEvent(resource, Action.ADD if old is None else Action.UPDATE)
            self._queue.move_all_to_active_or_backoff(event, old, other, now)

    def other_deleted(self, other: Any) -> None:
        """Anything else was deleted."""
        store = self._store_of(other)
        gone = None if store is None else store.pop(key_of(other.metadata), None)
        if gone is None:
            return
        self._stores_changed(other)
        if isinstance(gone, DeviceClass):
            self.stores.served.remove(gone)

    def _stores_changed(self, other: object) -> None:
        self.stores.version += 1
        if isinstance(other, Namespace):
            self.stores.namespace_version += 1

    def _store_of(self, other: object) -> dict[str, object] | None:
        return getattr(self.stores, _STORE_NAMES.get(type(other).__name__, ""), None)


_STORE_NAMES = {
    "Namespace": "namespaces",
    "Service": "services",
    "ReplicationController": "replication_controllers",
    "ReplicaSet": "replica_sets",
    "StatefulSet": "stateful_sets",
    "PodDisruptionBudget": "pod_disruption_budgets",
    "DeviceClass": "device_classes",
    "ResourceSlice": "resource_slices",
}


def _left_its_node(old: Pod, new: Pod) -> bool:
    """An API server never moves a pod. Where a watch has lost track, the pod is taken for a new one.

    Upstream ends the process here; a core that went on with the pod on both nodes would be wrong for good.
    """
    return bool(old.spec.node_name) and old.spec.node_name != new.spec.node_name


def _at_most(priority: int) -> Callable[[QueuedPodInfo], bool]:
    return lambda waiting: waiting.info.priority <= priority
