"""Events: what the outside world tells the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class ObjectAdded:
    """An object is there."""

    object: ApiObject


@dataclass(frozen=True, slots=True)
class ObjectUpdated:
    """An object changed; the scheduler remembers what it was before."""

    object: ApiObject


@dataclass(frozen=True, slots=True)
class ObjectDeleted:
    """An object is gone; the last known version of it."""

    object: ApiObject


@dataclass(frozen=True, slots=True)
class EffectDone:
    """The answer to an effect."""

    effect_id: int
    outcome: Outcome = DONE


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the last SetTimer has come."""


@dataclass(frozen=True, slots=True)
class PermitDecided:
    """An outside party allows (`reason` None) or rejects a pod that waits for the Permit plugin `plugin`."""

    uid: str
    plugin: str
    reason: str | None = None


Event = ObjectAdded | ObjectUpdated | ObjectDeleted | EffectDone | TimerFired | PermitDecided
