"""Pods that are as good as the same for placing: one of them is looked at, the others follow.

Follows pkg/core/scaleup/equivalence/groups.go, pkg/simulator/scheduling/similar_pods.go and PodSpecSemanticallyEqual of
pkg/utils/utils.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan_scheduler.framework.pod_info import PodInfo

from .pods import controller_uid, is_daemon_set_pod

MOST_GROUPS_PER_CONTROLLER: Final = 10
"""A controller whose pods all differ would otherwise cost a comparison of each with each."""

Reasons = tuple[str, ...]


def are_equivalent(one: PodInfo, other: PodInfo) -> bool:
    """Whether labels and specs are the same. Shapes tell by what rules read, specs by the rest of what is decoded."""
    if one.shape is not other.shape:
        return False
    return one.pod.spec is other.pod.spec or one.pod.spec == other.pod.spec


@dataclass(slots=True, eq=False)
class PodGroup:
    """Equivalent pods in order. `rejected`: group id -> why a new node of it would not take such a pod.

    `schedulable`: some group's new node would take it.
    """

    pods: list[PodInfo]
    rejected: dict[str, Reasons] = field(default_factory=dict)
    fitting: list[str] = field(default_factory=list)
    schedulable: bool = False

    @property
    def sample(self) -> PodInfo:
        """The pod that stands for all of them."""
        return self.pods[0]


def build_pod_groups(pods: Iterable[PodInfo]) -> list[PodGroup]:
    """Equivalent pods of one controller together, in order of first appearance; pods without one stay alone.

    Upstream hands the groups on in the order of a Go map.
    """
    groups: list[PodGroup] = []
    by_controller: dict[str, list[PodGroup]] = {}
    for pod in pods:
        owner = pod.shape.owner
        if owner is None or is_daemon_set_pod(pod):
            groups.append(PodGroup([pod]))
            continue
        known = by_controller.setdefault(controller_uid(pod), [])
        group = next((group for group in known if are_equivalent(group.sample, pod)), None)
        if group is not None:
            group.pods.append(pod)
            continue
        group = PodGroup([pod])
        groups.append(group)
        if len(known) < MOST_GROUPS_PER_CONTROLLER:
            known.append(group)
    return groups


class SimilarPods:
    """Pods that fit nowhere in this round; those like them are not tried."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, list[PodInfo]] = {}

    def is_unschedulable(self, pod: PodInfo) -> bool:
        """Whether an equivalent pod of the same controller has failed."""
        if pod.shape.owner is None:
            return False
        known: Sequence[PodInfo] = self._known.get(controller_uid(pod), ())
        return any(are_equivalent(failed, pod) for failed in known)

    def set_unschedulable(self, pod: PodInfo) -> None:
        """The pod fits nowhere."""
        if pod.shape.owner is None or is_daemon_set_pod(pod):
            return
        known = self._known.setdefault(controller_uid(pod), [])
        if len(known) < MOST_GROUPS_PER_CONTROLLER:
            known.append(pod)
