"""What kind of pod a pod is, in Karpenter's eyes. Times in nanoseconds.

Follows pkg/utils/pod/scheduling.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.config.gotext import parse_duration
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.timestamps import parse_time

from .labels import DO_NOT_DISRUPT, TRUE
from .taints import DISRUPTED, all_tolerated

PENDING: Final = "Pending"
_UNSCHEDULABLE: Final = "Unschedulable"


def is_active(pod: Pod) -> bool:
    """Neither finished nor on its way out."""
    return not pod.is_terminal and not pod.is_terminating


def is_owned_by(pod: Pod, api_version: str, kind: str) -> bool:
    """Whether one of the owners is of a kind."""
    for owner in pod.metadata.owner_references:  # noqa: SIM110 - asked of every pod that changes
        if owner.kind == kind and owner.api_version == api_version:
            return True
    return False


def is_daemon(pod: Pod) -> bool:
    """Whether a daemon set owns the pod."""
    return is_owned_by(pod, "apps/v1", "DaemonSet")


def is_mirror(pod: Pod) -> bool:
    """Whether a node owns the pod: a static pod, which nothing can evict."""
    return is_owned_by(pod, "v1", "Node")


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod needs a new place when its node goes.

    A pod of a stateful set does so even while it terminates: its successor comes only once it is gone.
    """
    comes_back = is_active(pod) or (pod.is_terminating and is_owned_by(pod, "apps/v1", "StatefulSet"))
    return comes_back and not is_daemon(pod) and not is_mirror(pod)


def is_provisionable(pod: Pod) -> bool:
    """Whether the scheduler has given up on the pod, so that it may need a new node."""
    failed = any(c.type == "PodScheduled" and c.reason == _UNSCHEDULABLE for c in pod.status.conditions)
    bound = bool(pod.spec.node_name or pod.status.nominated_node_name)
    return failed and not bound and not is_daemon(pod) and not is_mirror(pod)


def may_not_be_disrupted(pod: Pod, now: int) -> bool:
    """Whether the annotation karpenter.sh/do-not-disrupt still protects the pod.

    "true" always does, a duration for that long after the pod's start; other values are ignored.
    """
    value = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if value is None:
        return False
    if value == TRUE:
        return True
    try:
        duration = parse_duration(value)
    except ValueError:
        return False
    if duration <= 0:
        return False
    started = pod.status.start_time
    return started is None or now - parse_time(started) < duration


def is_disruptable(pod: Pod, now: int) -> bool:
    """Whether the pod lets its node go."""
    return not is_active(pod) or not may_not_be_disrupted(pod, now)


def is_evictable(pod: Pod, now: int) -> bool:
    """Whether Karpenter would ask for the pod's eviction."""
    stays = all_tolerated((DISRUPTED,), pod.spec.tolerations) or is_mirror(pod)
    return is_active(pod) and not stays and not may_not_be_disrupted(pod, now)
