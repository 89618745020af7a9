"""How important a pod is to its node: the least important ones are preempted first.

Follows MoreImportantVictim of pkg/scheduler/framework/preemption/util.go and GetPodStartTime of
pkg/scheduler/util/utils.go of Kubernetes v1.37.2, for pods (gate GenericWorkload off).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.timestamps import parse_time

NOT_STARTED: Final = 1 << 63
"""Stands for "now", which is what upstream takes for a pod without status.startTime: later than any start."""


def start_time(pod: PodInfo) -> int:
    """When the pod started, in nanoseconds since the epoch. Raises TimestampError."""
    text = pod.pod.status.start_time
    return NOT_STARTED if text is None else parse_time(text)


def _rank(pod: PodInfo) -> tuple[int, int]:
    return -(pod.pod.spec.priority or 0), start_time(pod)


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """The most important first: higher priority, then earlier start. Pods alike in both keep their order.

    Upstream's sort promises no order for the latter; up to twelve pods it is the same.
    """
    return sorted(pods, key=_rank)
