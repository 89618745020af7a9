"""Which pods the autoscaler treats in a special way.

Follows pkg/utils/pod/pod.go, pkg/utils/drain/drain.go, pkg/utils/gpu/gpu.go and pkg/core/utils/expendable.go of
kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Node, Pod, controller_of
from stowplan_scheduler.quantity import parse_quantity

ANNOTATIONS: Final = "cluster-autoscaler.kubernetes.io/"
DAEMON_SET_POD: Final = ANNOTATIONS + "daemonset-pod"
SAFE_TO_EVICT: Final = ANNOTATIONS + "safe-to-evict"
SAFE_TO_EVICT_LOCAL_VOLUMES: Final = ANNOTATIONS + "safe-to-evict-local-volumes"
ENABLE_DS_EVICTION: Final = ANNOTATIONS + "enable-ds-eviction"
SCALE_UP_DELAY: Final = ANNOTATIONS + "pod-scale-up-delay"

MIRROR: Final = "kubernetes.io/config.mirror"
SOURCE: Final = "kubernetes.io/config.source"

GPU_RESOURCES: Final = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")

LONG_TERMINATING: Final = 30 * SECOND
"""A pod that outlives its grace period by this much counts as gone."""

_DEFAULT_GRACE: Final = 30


def is_daemon_set_pod(pod: PodInfo) -> bool:
    """Whether a DaemonSet, or an annotation that says so, makes the pod."""
    owner = pod.shape.owner
    if owner is not None and owner.kind == "DaemonSet":
        return True
    return pod.pod.metadata.annotations.get(DAEMON_SET_POD) == "true"


def controller_uid(pod: PodInfo) -> str:
    """The uid of the owner that controls the pod, "" without one. Shapes do not tell owners of one name apart."""
    owner = controller_of(pod.pod.metadata)
    return "" if owner is None else owner.uid


def is_mirror_pod(pod: PodInfo) -> bool:
    """Whether the pod stands for a static one."""
    return MIRROR in pod.pod.metadata.annotations


def is_static_pod(pod: PodInfo) -> bool:
    """Whether kubelet has the pod from elsewhere than the API server."""
    return pod.pod.metadata.annotations.get(SOURCE, "api") != "api"


def is_recreatable(pod: PodInfo) -> bool:
    """Whether the pod would come back somewhere else after an eviction."""
    return not (is_static_pod(pod) or is_mirror_pod(pod) or is_daemon_set_pod(pod))


def is_expendable(pod: Pod, cutoff: int) -> bool:
    """Whether the pod is too unimportant to count; one without priority never is."""
    return pod.spec.priority is not None and pod.spec.priority < cutoff


def is_long_terminating(pod: Pod, deleted: int | None, now: int) -> bool:
    """Whether the pod should be gone. `deleted`: its metadata.deletionTimestamp, None without one."""
    if deleted is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    grace = _DEFAULT_GRACE if grace is None else grace
    return deleted + grace * SECOND + LONG_TERMINATING < now


def requests_gpu(pod: PodInfo) -> bool:
    """Whether the pod asks for an accelerator of a known vendor."""
    return any(name in pod.shape.node_requested.scalar for name in GPU_RESOURCES)


def gpu_resource(node: Node) -> str | None:
    """The accelerator that the node has, None without one."""
    for name in GPU_RESOURCES:
        amount = node.status.allocatable.get(name)
        if amount is not None and parse_quantity(amount):
            return name
    return None
