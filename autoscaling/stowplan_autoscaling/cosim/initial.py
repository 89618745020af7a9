"""The objects that a run begins with, in the types of the virtual cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import RUNNING, ClusterPod
from stowplan_autoscaling.resources.autoscaler_checks import autoscaler_of, scaled_object_of
from stowplan_autoscaling.resources.typed import OWN_READERS, typed_object
from stowplan_scheduler.objects import Namespace, ObjectMeta, controller_of
from stowplan_scheduler.timestamps import parse_time

from .autoscalers import KIND as HPA
from .autoscalers import stored_hpa

if TYPE_CHECKING:
    from stowplan_autoscaling.keda import ScaledObject
    from stowplan_autoscaling.resources.manifests import Manifest
    from stowplan_autoscaling.supply.pools import Pool
    from stowplan_autoscaling.supply.provider import Provider

    from .world import World

_FIRST: Final = ("Namespace", "PriorityClass", "Node", "DeviceClass", "ResourceSlice", "LimitRange", "ResourceQuota")
"""What others refer to, in this order; then the rest as they were given, and bare pods last."""


def create_objects(world: World, *, only: Collection[str] = (), without: Collection[str] = ()) -> None:
    """Create all but ScaledObjects, of some kinds or without some kinds, and the namespaces that they need.

    What the API server refuses is an event, as it is a message for `kubectl apply`.
    """
    for namespace in _namespaces(world.simulation.objects):
        if world.server.find("Namespace", namespace) is None:
            world.server.create("Namespace", Namespace(metadata=ObjectMeta(name=namespace)))
    for manifest in sorted(world.simulation.objects, key=lambda each: _rank(each.kind)):
        if manifest.kind in {"ScaledObject", *without} or (only and manifest.kind not in only):
            continue
        try:
            world.server.create(manifest.kind, _object(manifest))
        except ApiError as failure:
            world.event("FailedCreate", manifest.described, str(failure), kind="Warning")


def add_initial_nodes(pools: tuple[Pool, ...], provider: Provider) -> None:
    """The nodes that pools begin with: of the cheapest type, dealt to the zones in turn."""
    for pool in pools:
        machine, cheapest = pool.cheapest()
        offers = [offer for offer in machine.offers if offer.capacity_type == cheapest.capacity_type]
        for number in range(pool.spec.first_count):
            provider.add_initial(pool, machine, offers[number % len(offers)])


def scaled_objects(world: World) -> list[ScaledObject]:
    """Those of KEDA."""
    return [scaled_object_of(manifest) for manifest in world.simulation.of("ScaledObject")]


def _rank(kind: str) -> int:
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + (kind == "Pod") + 2 * (kind in OWN_READERS)


def _namespaces(objects: tuple[Manifest, ...]) -> list[str]:
    """Namespaces that objects are in and nobody gives."""
    given = {manifest.name for manifest in objects if manifest.kind == "Namespace"}
    used = dict.fromkeys(["default", *(manifest.namespace for manifest in objects if manifest.namespace)])
    return [name for name in used if name not in given]


def _object(manifest: Manifest) -> Any:
    if manifest.kind == HPA:
        return stored_hpa(autoscaler_of(manifest))
    obj = typed_object(manifest)
    return adopted(obj, manifest.value) if isinstance(obj, ClusterPod) else obj


def adopted(pod: ClusterPod, manifest: dict[str, Any]) -> ClusterPod:
    """A pod with the facts that stand in its manifest's status and metadata."""
    owner = controller_of(pod.metadata)
    pod = replace(pod, owner_uid="" if owner is None else owner.uid)
    if not pod.spec.node_name:
        return pod
    ready = condition_of(pod.status.conditions, "Ready")
    raw: dict[str, Any] = next(
        (each for each in (manifest.get("status") or {}).get("conditions") or () if each.get("type") == "Ready"), {}
    )
    created = _time(manifest["metadata"].get("creationTimestamp"))
    started = _time(pod.status.start_time)
    return replace(
        pod,
        created=created or 0,
        scheduled=created if started is None else started,
        started=started,
        ready="" if ready is None or pod.status.phase != RUNNING else ready.status,
        ready_since=_time(raw.get("lastTransitionTime")) or 0,
    )


def _time(text: Any) -> int | None:
    return parse_time(text) if isinstance(text, str) and text else None
