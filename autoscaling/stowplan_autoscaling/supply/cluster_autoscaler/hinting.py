"""Placing many pods one by one, each first where it was placed the last time.

Follows pkg/simulator/scheduling/hinting_simulator.go and hints.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan_scheduler.framework.pod_info import PodInfo

from .equivalence import SimilarPods
from .snapshot import ClusterSnapshot, NodeFilter


class HintingSimulator:
    """Remembers where pods went; what was not used in a round is forgotten after the next."""

    __slots__ = ("_current", "_old")

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def drop_old_hints(self) -> None:
        """End a round."""
        self._old, self._current = self._current, {}

    def try_schedule(
        self,
        snapshot: ClusterSnapshot,
        pods: Iterable[PodInfo],
        acceptable: NodeFilter | None = None,
        *,
        break_on_failure: bool = False,
    ) -> dict[str, str]:
        """Place the pods in the snapshot, higher priorities first; uid -> node of those that found a place.

        `break_on_failure`: go on with the next lower priority as soon as a pod fits nowhere.
        """
        similar = SimilarPods()
        placed: dict[str, str] = {}
        for group in _by_priority(pods):
            rest = [pod for pod in group if not self._by_hint(snapshot, pod, acceptable, placed)]
            for pod in rest:
                if not self._anywhere(snapshot, pod, acceptable, similar, placed) and break_on_failure:
                    break
        return placed

    def _by_hint(
        self, snapshot: ClusterSnapshot, pod: PodInfo, acceptable: NodeFilter | None, placed: dict[str, str]
    ) -> bool:
        hint = self._current.get(pod.uid) or self._old.get(pod.uid)
        if hint is None or hint not in snapshot or (acceptable is not None and not acceptable.allows(hint)):
            return False
        if not snapshot.schedule(pod, hint).is_success:
            return False
        self._current[pod.uid] = placed[pod.uid] = hint
        return True

    def _anywhere(
        self,
        snapshot: ClusterSnapshot,
        pod: PodInfo,
        acceptable: NodeFilter | None,
        similar: SimilarPods,
        placed: dict[str, str],
    ) -> bool:
        if similar.is_unschedulable(pod):
            return False
        name = snapshot.schedule_anywhere(pod, acceptable)
        if name is None:
            similar.set_unschedulable(pod)
            return False
        self._current[pod.uid] = placed[pod.uid] = name
        return True


def _by_priority(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """Pods by falling priority; within one, in order."""
    groups: dict[int, list[PodInfo]] = {}
    for pod in pods:
        groups.setdefault(pod.priority, []).append(pod)
    return [groups[priority] for priority in sorted(groups, reverse=True)]
