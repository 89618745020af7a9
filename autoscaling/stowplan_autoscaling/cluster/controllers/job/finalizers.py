"""The finalizer by which a pod stays until its Job has counted it (pkg/controller/job/tracking_utils.go of v1.37.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.batch import TRACKING_FINALIZER
from stowplan_autoscaling.cluster.pods import ClusterPod

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client


def has_finalizer(pod: ClusterPod) -> bool:
    """Whether the pod is not in the counters of its Job yet."""
    return TRACKING_FINALIZER in pod.metadata.finalizers


def remove_finalizer(client: Client, pod: ClusterPod) -> ClusterPod:
    """Takes the finalizer away; returns the pod as stored. Raises NotFoundError."""
    stored: ClusterPod = client.server.get("Pod", pod.key)
    left = tuple(name for name in stored.metadata.finalizers if name != TRACKING_FINALIZER)
    if len(left) == len(stored.metadata.finalizers):
        return stored
    changed: ClusterPod = client.server.put("Pod", replace(stored, metadata=replace(stored.metadata, finalizers=left)))
    return changed
