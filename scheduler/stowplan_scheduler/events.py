"""Events: what the outside world tells the scheduler. Structs, for they are made with every change of every object."""

from __future__ import annotations

from typing import Final

import msgspec

from stowplan_scheduler.effects import DONE, Outcome
from stowplan_scheduler.objects import (
    DeviceClass,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceSlice,
    Service,
    StatefulSet,
)

ApiObject = (
    Pod
    | Node
    | Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | PodDisruptionBudget
    | DeviceClass
    | ResourceSlice
    | PriorityClass
)
"""The kinds that the scheduler watches. Priority classes are resolved by admission; they are accepted and ignored."""

WATCHED: Final = (
    "Namespace",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
    "DeviceClass",
    "ResourceSlice",
    "Node",
    "Pod",
)
"""The kinds whose changes matter, in the order in which a scheduler is told of what is there at the start."""


class ObjectAdded(msgspec.Struct, frozen=True):
    """An object is there."""

    object: ApiObject


class ObjectUpdated(msgspec.Struct, frozen=True):
    """An object changed; the scheduler remembers what it was before."""

    object: ApiObject


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object is gone; the last known version of it."""

    object: ApiObject


class EffectDone(msgspec.Struct, frozen=True):
    """The answer to an effect."""

    effect_id: int
    outcome: Outcome = DONE


class TimerFired(msgspec.Struct, frozen=True):
    """The time of the last SetTimer has come."""


class PermitDecided(msgspec.Struct, frozen=True):
    """An outside party allows (`reason` None) or rejects a pod that waits for the Permit plugin `plugin`."""

    uid: str
    plugin: str
    reason: str | None = None


Event = ObjectAdded | ObjectUpdated | ObjectDeleted | EffectDone | TimerFired | PermitDecided
