"""Which pods are placed, and which stay where they are."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from msgspec.structs import replace

from stowplan_scheduler.objects import DEFAULT_NAMESPACE, Pod, PodStatus, controller_of
from stowplan_scheduler.plugins.volumes_and_devices import unsupported_feature

MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Marks the API server's image of a pod that a kubelet runs from a file."""


def belongs_to_node(pod: Pod) -> bool:
    """Whether the pod comes and goes with its node: pods of DaemonSets, static pods and their mirrors.

    Such pods run on empty nodes too: they do not make a node one that is in use.
    """
    owner = controller_of(pod.metadata) if pod.metadata.owner_references else None
    if owner is not None and owner.kind in {"DaemonSet", "Node"}:
        return True
    return MIRROR_ANNOTATION in pod.metadata.annotations


def without_node(pod: Pod) -> Pod:
    """The pod as it was before it was placed for the first time."""
    return replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))


def keeps_its_node(pod: Pod, profiles: Container[str]) -> bool:
    """Whether a pod that has a node stays there even if all pods are placed anew.

    It does if it belongs to the node, if it is being deleted, if no profile here would place it, and if its volumes or
    resource claims make it a pod that is not decided yet.
    """
    return (
        belongs_to_node(pod)
        or pod.is_terminating
        or pod.spec.scheduler_name not in profiles
        or unsupported_feature(pod) is not None
    )


def find_pod(pods: Sequence[Pod], name: str) -> Pod | None:
    """The pod that `name` means: namespace/name, or a name in `default` or in any namespace if it is the only one.

    A name that is no pod's may be that of a workload: of its pods the last one is meant, which is placed last.
    """
    by_key = {pod.key: pod for pod in pods}
    exact = by_key.get(name) or by_key.get(f"{DEFAULT_NAMESPACE}/{name}")
    if exact is not None:
        return exact
    same = [pod for pod in pods if pod.metadata.name == name]
    if len(same) == 1:
        return same[0]
    namespace, _, workload = name.rpartition("/")
    made = [pod for pod in pods if namespace in {"", pod.metadata.namespace} and _is_made_by(pod, workload)]
    return made[-1] if made else None


def _is_made_by(pod: Pod, workload: str) -> bool:
    """Whether the pod's controller has this name, or is the ReplicaSet (name-hash) of a Deployment of this name."""
    owner = controller_of(pod.metadata) if pod.metadata.owner_references else None
    if owner is None:
        return False
    return owner.name == workload or (owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == workload)
