"""Lets pods that have equal parts hold them once: pods of one owner, and a pod and what it was before.

A pod is 4 to 8 KB of objects, most of it the same for all pods of a template. Whoever compares parts by identity first,
as the scheduler's core does, also finds at once that nothing which it reads has changed.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from stowplan_scheduler.objects import ObjectMeta, Pod, PodSpec, PodStatus, controller_of

OWNERS: Final = 10_000
"""Owners of which a pod is remembered; the oldest is forgotten first."""

_META: Final = ("labels", "annotations", "owner_references", "finalizers")
_SPEC: Final = (
    "containers",
    "init_containers",
    "volumes",
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "scheduling_gates",
    "overhead",
    "resources",
    "resource_claims",
)
_STATUS: Final = (
    "conditions",
    "container_statuses",
    "init_container_statuses",
    "allocated_resources",
    "resources",
    "resource_claim_statuses",
)


class OwnerSharing:
    """Lets pods of one owner hold equal parts once. `owners`: of how many owners a pod is remembered."""

    def __init__(self, owners: int = OWNERS) -> None:
        self._owners = owners
        self._samples: dict[str, Pod] = {}

    def share(self, pod: Pod) -> Pod:
        """An equal pod, with the parts of an earlier pod of its owner where they are equal."""
        owner = controller_of(pod.metadata)
        if owner is None or not owner.uid:
            return pod
        sample = self._samples.get(owner.uid)
        if sample is not None:
            return with_parts_of(sample, pod)
        if len(self._samples) >= self._owners:
            del self._samples[next(iter(self._samples))]
        self._samples[owner.uid] = pod
        return pod


def with_parts_of(old: Pod, new: Pod) -> Pod:
    """A pod that equals `new` and holds the parts of `old` where they are equal."""
    metadata: ObjectMeta = _merged(old.metadata, new.metadata, _META)
    spec: PodSpec = old.spec if old.spec == new.spec else _merged(old.spec, new.spec, _SPEC)
    status: PodStatus = old.status if old.status == new.status else _merged(old.status, new.status, _STATUS)
    return replace(new, metadata=metadata, spec=spec, status=status)


def _merged(old: Any, new: Any, fields: tuple[str, ...]) -> Any:
    """`new` with those fields of `old` that are equal."""
    equal = {}
    for field in fields:
        held, found = getattr(old, field), getattr(new, field)
        if held is not found and held == found:
            equal[field] = held
    return replace(new, **equal) if equal else new
