"""What an API server does as far as workers can see it: objects with versions, a history per kind, and its refusals.

Plain objects, no HTTP. Each rule here is one that was observed on a real API server; test_world_conformance.py does the
same steps on both and compares what is observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan_scheduler.objects import Node, Pod, PodCondition, PodDisruptionBudget, key_of

BUDGET = "PodDisruptionBudget"
KINDS = (BUDGET, "Node", "Pod")
"""In the order in which a scheduler is told of what is there at the start."""

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
NOW = "2026-01-01T00:00:00Z"
"""Every time stamp: nobody looks at more than its presence."""

ENDED = frozenset({"Succeeded", "Failed"})


class Answered(msgspec.Struct, frozen=True):
    """A status code and a message; the object, of a read."""

    status: int
    message: str = ""
    object: Any = None


class Happened(msgspec.Struct, frozen=True):
    """An entry of a kind's history."""

    revision: int
    type: str
    object: Any


class World:
    """Objects by kind and key, and what happened to them, in order of one revision."""

    def __init__(self) -> None:
        self.revision = 0
        self.now = 0
        self.objects: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self.history: dict[str, list[Happened]] = {kind: [] for kind in KINDS}
        self.compacted = 0
        """History up to this revision is forgotten: a watch from before is Expired."""
        self.lease: dict[str, Any] | None = None
        self.listeners: list[Callable[[str, Happened], None]] = []
        self._uids = 0

    @property
    def pods(self) -> dict[str, Pod]:
        """By namespace/name."""
        return self.objects["Pod"]

    @property
    def nodes(self) -> dict[str, Node]:
        """By name."""
        return self.objects["Node"]

    @property
    def budgets(self) -> dict[str, PodDisruptionBudget]:
        """By namespace/name."""
        return self.objects[BUDGET]

    def pods_on(self, node: str) -> list[Pod]:
        """The pods that take room on a node."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == node and pod.status.phase not in ENDED]

    # ---- objects -----------------------------------------------------------------------------

    def create(self, made: Any) -> Any:
        """A new object with a new UID. The name must be free."""
        self._uids += 1
        kind, key = type(made).__name__, key_of(made.metadata)
        assert key not in self.objects[kind], key
        metadata = replace(made.metadata, uid=f"{kind.lower()}-{self._uids}", creation_timestamp=NOW, generation=1)
        if kind == "Pod" and made.spec.scheduling_gates:
            status = replace(made.status, conditions=_with(made.status.conditions, _GATED))
            made = replace(made, status=status)
        return self._put(kind, ADDED, replace(made, metadata=metadata))

    def update(self, changed: Any) -> Any:
        """An object changed; nothing happens if nothing did."""
        kind, key = type(changed).__name__, key_of(changed.metadata)
        if self.objects[kind][key] == changed:
            return changed
        return self._put(kind, MODIFIED, changed)

    def remove(self, kind: str, key: str) -> None:
        """An object is gone at once."""
        gone = self.objects[kind].pop(key)
        self._note(kind, DELETED, gone)

    def _put(self, kind: str, what: str, made: Any) -> Any:
        made = self._note(kind, what, made)
        self.objects[kind][key_of(made.metadata)] = made
        return made

    def _note(self, kind: str, what: str, made: Any) -> Any:
        self.revision += 1
        made = replace(made, metadata=replace(made.metadata, resource_version=str(self.revision)))
        happened = Happened(self.revision, what, made)
        self.history[kind].append(happened)
        for listener in self.listeners:
            listener(kind, happened)
        return made

    # ---- what watches show -----------------------------------------------------------------------

    def listed(self, kind: str) -> list[Any]:
        """A list; pods that have ended are not asked for."""
        return _not_ended(kind, self.objects[kind])

    def listed_once(self, kind: str, revision: int) -> list[Any]:
        """The list of a moment that is over."""
        found: dict[str, Any] = {}
        for happened in self.history[kind]:
            if happened.revision > revision:
                break
            key = key_of(happened.object.metadata)
            if happened.type == DELETED:
                del found[key]
            else:
                found[key] = happened.object
        return _not_ended(kind, found)

    def since(self, kind: str, revision: int) -> Iterator[Happened]:
        """What a watch from that revision shows, with the selector of pods that have not ended."""
        history = self.history[kind]
        low, high = 0, len(history)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if history[middle].revision <= revision else (low, middle)
        for happened in history[low:]:
            if kind == "Pod" and happened.type != DELETED and happened.object.status.phase in ENDED:
                # To whoever selects, an object that no longer matches is deleted.
                yield Happened(happened.revision, DELETED, happened.object)
            else:
                yield happened

    def compact(self) -> None:
        """No watch can begin from before now, as at a server that was restarted."""
        self.compacted = self.revision

    # ---- requests about pods ---------------------------------------------------------------------

    def read(self, key: str) -> Answered:
        """GET."""
        pod = self.pods.get(key)
        return _absent(key) if pod is None else Answered(200, object=pod)

    def bind(self, key: str, uid: str, node: str) -> Answered:
        """POST binding: the node is not looked at at all."""
        pod = self.pods.get(key)
        if pod is None:
            return _absent(key)
        if pod.metadata.uid != uid:
            return _precondition(key, uid, pod)
        if pod.metadata.deletion_timestamp is not None:
            return Answered(409, f"pod {pod.metadata.name} is being deleted, cannot be assigned to a host")
        if pod.spec.node_name:
            return Answered(409, f'pod {pod.metadata.name} is already assigned to node "{pod.spec.node_name}"')
        if pod.spec.scheduling_gates:
            return Answered(409, f"pod {pod.metadata.name} has non-empty .spec.schedulingGates")
        condition = PodCondition(type="PodScheduled", status="True", last_transition_time=NOW)
        status = replace(pod.status, conditions=_with(pod.status.conditions, condition))
        self.update(replace(pod, spec=replace(pod.spec, node_name=node), status=status))
        return Answered(201)

    def patch(self, key: str, uid: str, condition: PodCondition | None, nominated: str | None) -> Answered:
        """Strategic merge patch of the status with the UID in it: another one is refused as a change of it."""
        pod = self.pods.get(key)
        if pod is None:
            return _absent(key)
        if pod.metadata.uid != uid:
            return Answered(422, f'Pod "{pod.metadata.name}" is invalid: metadata.uid: {uid}: field is immutable')
        status = pod.status
        if condition is not None:
            stamped = replace(condition, last_transition_time=condition.last_transition_time or NOW)
            status = replace(status, conditions=_with(status.conditions, stamped))
        if nominated is not None:
            status = replace(status, nominated_node_name=nominated)
        self.update(replace(pod, status=status))
        return Answered(200)

    def delete(self, key: str, uid: str = "") -> Answered:
        """DELETE with the pod's own grace period: on a node it stays until its kubelet is done, else it is gone."""
        pod = self.pods.get(key)
        if pod is None:
            return _absent(key)
        if uid and pod.metadata.uid != uid:
            held = pod.metadata.uid
            return Answered(409, f"the UID in the precondition ({uid}) does not match the UID in record ({held})")
        if (pod.spec.node_name and pod.status.phase not in ENDED) or pod.metadata.finalizers:
            metadata = replace(pod.metadata, deletion_timestamp=NOW)
            self.update(replace(pod, metadata=metadata))
        else:
            self.remove("Pod", key)
        return Answered(200)

    # ---- the lease -----------------------------------------------------------------------------------

    def lease_read(self) -> Answered:
        """GET."""
        return Answered(404, "not found") if self.lease is None else Answered(200, object=self.lease)

    def lease_create(self, body: dict[str, Any]) -> Answered:
        """POST: exactly one of several contenders wins."""
        if self.lease is not None:
            return Answered(409, "already exists")
        return self._lease_put(body, 201)

    def lease_update(self, body: dict[str, Any]) -> Answered:
        """PUT with the version that it is based on."""
        if self.lease is None:
            return Answered(404, "not found")
        if body["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            return Answered(409, "the object has been modified")
        return self._lease_put(body, 200)

    def _lease_put(self, body: dict[str, Any], status: int) -> Answered:
        self.revision += 1
        self.lease = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": str(self.revision)}}
        return Answered(status, object=self.lease)


_GATED = PodCondition(
    type="PodScheduled",
    status="False",
    reason="SchedulingGated",
    message="Scheduling is blocked due to non-empty scheduling gates",
    last_transition_time=NOW,
)
"""What the API server itself says on a pod that comes with gates."""


def _not_ended(kind: str, found: dict[str, Any]) -> list[Any]:
    return [each for each in found.values() if kind != "Pod" or each.status.phase not in ENDED]


def _absent(key: str) -> Answered:
    return Answered(404, f'pods "{key.partition("/")[2]}" not found')


def _precondition(key: str, uid: str, pod: Pod) -> Answered:
    return Answered(409, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod.metadata.uid}")


def _with(conditions: tuple[PodCondition, ...], condition: PodCondition) -> tuple[PodCondition, ...]:
    """The list with that condition in the place of the one of its type, or at the end."""
    if any(held.type == condition.type for held in conditions):
        return tuple(condition if held.type == condition.type else held for held in conditions)
    return (*conditions, condition)
