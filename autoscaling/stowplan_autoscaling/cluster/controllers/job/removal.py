"""Which active pods a Job gives up when it has too many.

Follows activePodsForRemoval (pkg/controller/job/job_controller.go) and ActivePods (pkg/controller/controller_utils.go
of Kubernetes v1.37.2): without node, early phase, not ready, ready for a shorter time, more restarts, younger; by uid
where nothing tells two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan_autoscaling.cluster.pods import ClusterPod

from .indexes import UNKNOWN, index_of

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def pods_to_remove(pods: Sequence[ClusterPod], at_least: int, completions: int | None) -> list[ClusterPod]:
    """`completions`: of an indexed Job, else None. Surplus pods of an index go even if fewer would do."""
    surplus: list[ClusterPod] = []
    left: Sequence[ClusterPod] = pods
    if completions is not None:
        surplus, left = _split_duplicates(pods, completions)
    if len(surplus) < at_least:
        surplus.extend(sorted(left, key=removal_order)[: at_least - len(surplus)])
    return surplus


def _split_duplicates(pods: Sequence[ClusterPod], completions: int) -> tuple[list[ClusterPod], list[ClusterPod]]:
    """Pods without a valid index or beside a better one of the same index, and the others."""
    by_index: dict[int, list[ClusterPod]] = {}
    beyond: list[ClusterPod] = []
    for pod in sorted(pods, key=index_of):
        index = index_of(pod)
        (beyond if index >= completions else by_index.setdefault(index, [])).append(pod)
    surplus, left = by_index.pop(UNKNOWN, []), []
    for same in by_index.values():
        if len(same) > 1:
            same.sort(key=removal_order)
        surplus.extend(same[:-1])
        left.append(same[-1])
    return surplus + beyond, left


def removal_order(pod: ClusterPod) -> tuple[bool, int, bool, int, int, int, str]:
    """The smaller, the sooner."""
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        pod.is_ready,
        -pod.ready_since if pod.is_ready else 0,
        -pod.restarts,
        -pod.created,
        pod.metadata.uid,
    )
