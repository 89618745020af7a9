"""Cluster events and queueing hints: which change may make a rejected pod schedulable.

Follows staging/src/k8s.io/kube-scheduler/framework/types.go and pkg/scheduler/framework/events.go of Kubernetes
v1.37.2. The action bits are internal: never write the numbers into a persistent format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from .pod_info import PodInfo


class Action(IntFlag):
    """What happened to a resource."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    ALL = 32767


class Resource(StrEnum):
    """Whose change it was. POD stands for all three pod resources in a registration."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    WILDCARD = "*"


_POD_RESOURCES = frozenset({Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD})

_ACTION_LABELS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}


class ClusterEvent(msgspec.Struct, frozen=True):
    """A resource and what happened to it; `special` names the events that are no change of an object."""

    resource: Resource
    action: Action
    special: str = ""

    @property
    def label(self) -> str:
        """Upstream's label, e.g. NodeUpdateNodeTaint or UnschedulableTimeout."""
        return self.special or f"{self.resource.value}{_ACTION_LABELS.get(self.action, 'Update')}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the event concerns every pod, whatever rejected it."""
        return self.resource is Resource.WILDCARD and self.action == Action.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether a registration for this event hears `incoming` (upstream MatchClusterEvents)."""
        same = (
            self.resource is Resource.WILDCARD
            or self.resource is incoming.resource
            or (self.resource is Resource.POD and incoming.resource in _POD_RESOURCES)
        )
        return same and bool(self.action & incoming.action) and int(incoming.action) <= int(self.action)


UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")
CONFIGURATION_CHANGE = ClusterEvent(Resource.WILDCARD, Action.ALL, "ConfigurationChange")
"""Ours: kube-scheduler reads its configuration once."""
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)
ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


class Hint(Enum):
    """What a queueing hint says: try the pod again, or leave it where it is."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


HintFn = Callable[["PodInfo", object, object], Hint]
"""(waiting pod, old object or None, new object or None) -> Hint; an exception counts as QUEUE."""


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """A plugin's interest in an event; without a hint function the answer is always QUEUE."""

    event: ClusterEvent
    hint: HintFn | None = None
