"""How many pods the controllers behind a budget's pods are meant to have.

The sum of the scales of the distinct controllers: a Deployment found through its ReplicaSet, a ReplicaSet of its own, a
StatefulSet, a ReplicationController; any other kind is asked for its scale subresource. Follows getExpectedScale and
its finders in pkg/controller/disruption/disruption.go of Kubernetes v1.37.2. Of several pods whose controller cannot be
found upstream names one by map order; here it is the first that was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stowplan_scheduler.objects import OwnerReference, controller_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.informers import Informers

    from .budget_pods import BudgetPods

_APPS: Final = ("apps", "extensions")
_GROUPS: Final = {
    "ReplicationController": ("",),
    "ReplicaSet": _APPS,
    "StatefulSet": ("apps",),
}

_WITH_SCALE: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
_WITHOUT_SCALE: Final = {
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "Node": "nodes",
    "Pod": "pods",
}

Scale = tuple[str, int]
"""(uid, replicas) of a controller."""


class ExpectedScaleError(Exception):
    """A pod's controller cannot be found; the text is the controller's."""


def expected_scale(pods: BudgetPods, namespace: str, informers: Informers, server: ApiServer) -> int:
    """The sum of the scales. Raises ExpectedScaleError."""
    scales: dict[str, int] = {}
    for uid, owner in pods.owners.items():
        if uid in scales:
            continue
        found = _find(owner.reference, namespace, informers, server)
        if found is None:
            raise ExpectedScaleError(f'found no controllers for pod "{next(iter(owner.pods))}"')
        scales[found[0]] = found[1]
    return sum(scales.values())


def _find(owner: OwnerReference, namespace: str, informers: Informers, server: ApiServer) -> Scale | None:
    if _group(owner) in _GROUPS.get(owner.kind, ()):
        controller = _seen(informers, owner, namespace)
        if controller is not None and owner.kind == "ReplicaSet":
            found = _of_replica_set(controller, informers, namespace)
        else:
            found = None if controller is None else _scale(controller)
        if found is not None:
            return found
    return _from_subresource(owner, namespace, server)


def _of_replica_set(replica_set: Any, informers: Informers, namespace: str) -> Scale | None:
    """The Deployment's scale; the ReplicaSet's own where no Deployment controls it."""
    owner = controller_of(replica_set.metadata)
    if owner is None or owner.kind != "Deployment":
        return _scale(replica_set)
    deployment = _seen(informers, owner, namespace) if _group(owner) in _APPS else None
    return None if deployment is None else _scale(deployment)


def _from_subresource(owner: OwnerReference, namespace: str, server: ApiServer) -> Scale | None:
    """What the API server says, rather than what has been seen of it."""
    if owner.kind in _WITHOUT_SCALE:
        raise ExpectedScaleError(f"{_WITHOUT_SCALE[owner.kind]} does not implement the scale subresource")
    if owner.kind not in _WITH_SCALE:
        raise ExpectedScaleError(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
    found = server.find(owner.kind, f"{namespace}/{owner.name}")
    return _scale(found) if found is not None and found.metadata.uid == owner.uid else None


def _seen(informers: Informers, owner: OwnerReference, namespace: str) -> Any | None:
    if owner.kind not in informers.seen:
        return None
    found = informers.get(owner.kind, f"{namespace}/{owner.name}")
    return found if found is not None and found.metadata.uid == owner.uid else None


def _scale(controller: Any) -> Scale:
    replicas: int | None = controller.spec.replicas
    return controller.metadata.uid, 1 if replicas is None else replicas


def _group(owner: OwnerReference) -> str:
    return owner.api_version.rpartition("/")[0]
