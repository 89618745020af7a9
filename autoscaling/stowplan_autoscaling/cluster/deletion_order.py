"""Which pods a ReplicaSet or Job gives up first (pkg/controller/controller_utils.go of Kubernetes v1.37.2).

Ages are compared as whole powers of two of nanoseconds; pods of one power go by UID, which is as good as chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Final

from .pods import TRUE, ClusterPod

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final[Mapping[str, int]] = {"Pending": 0, "Unknown": 1, "Running": 2}
_CROWDS: Final = 2**24
"""More than there are pods on a node."""
_COSTS: Final = 2**33 * _CROWDS


def choose_victims(
    pods: Sequence[ClusterPod], count: int, related: Iterable[ClusterPod], now: int
) -> Sequence[ClusterPod]:
    """The `count` pods to delete, of active ones.

    `related`: the active pods of all ReplicaSets of the same owner, for the crowding on nodes.
    """
    if count >= len(pods):
        return pods
    heads = _heads(pods, Counter([pod.spec.node_name for pod in related]))
    # Crowding alone tells most pods apart: only those that are among the first by their heads need a closer look.
    limit = sorted(heads)[count - 1]
    first = [(head, pod) for head, pod in zip(heads, pods, strict=True) if head <= limit]
    if _are_all_different([pod for _, pod in first]):
        keys = [
            (head, _magnitude(now - (pod.ready_since if pod.ready == TRUE else pod.created)), pod.metadata.uid, index)
            for index, (head, pod) in enumerate(first)
        ]
        return [first[key[-1]][1] for key in sorted(keys)[:count]]

    # With ties the comparison is no strict order, and what is sorted along matters.
    def compare(a: int, b: int) -> int:
        if heads[a] != heads[b]:
            return -1 if heads[a] < heads[b] else 1
        return _tail(pods[a], pods[b], now)

    return [pods[index] for index in sorted(range(len(pods)), key=cmp_to_key(compare))[:count]]


def _heads(pods: Sequence[ClusterPod], crowd: Mapping[str, int]) -> list[int]:
    """Without a node, early phase, not ready, cheap to delete, on a crowded node: the smaller, the sooner.

    Packed into one number, since most pods differ in the last part only. Where all of them do, that part is enough.
    """
    nodes = [pod.spec.node_name for pod in pods]
    kinds = {(pod.status.phase, pod.ready, bool(pod.metadata.annotations)) for pod in pods}
    if len(kinds) == 1 and not pods[0].metadata.annotations and all(nodes):
        return [-crowd.get(name, 0) for name in nodes]
    return [
        (
            ((1 if pod.spec.node_name else 0) * 3 + _PHASES.get(pod.status.phase, 0)) * 2
            + (pod.ready == TRUE)
        ) * _COSTS
        + (deletion_cost(pod) if pod.metadata.annotations else 0) * _CROWDS
        - crowd.get(pod.spec.node_name, 0)
        for pod in pods
    ]  # fmt: skip


def _are_all_different(pods: Sequence[ClusterPod]) -> bool:
    """Whether no two pods became ready, or were created, at one moment, and none was restarted: no tie to look into."""
    ready = [pod.ready_since for pod in pods if pod.ready == TRUE]
    others = [pod.created for pod in pods if pod.ready != TRUE]
    if len(set(ready)) != len(ready) or len(set(others)) != len(others):
        return False
    return sum([pod.restarts for pod in pods]) == 0


def deletion_cost(pod: ClusterPod) -> int:
    """The pod's annotation; 0 where it is absent or not a 32-bit number."""
    text = pod.metadata.annotations.get(DELETION_COST)
    if text is None:
        return 0
    try:
        cost = int(text)
    except ValueError:
        return 0
    return cost if -(2**31) <= cost < 2**31 else 0


def _tail(a: ClusterPod, b: ClusterPod, now: int) -> int:
    """Ready for a shorter time, more restarts, younger."""
    if a.is_ready and b.is_ready and a.ready_since != b.ready_since:
        return _younger(a.ready_since, b.ready_since, a, b, now)
    if a.restarts != b.restarts:
        return -1 if a.restarts > b.restarts else 1
    if a.created != b.created:
        return _younger(a.created, b.created, a, b, now)
    return 0


def _younger(mine: int, other: int, a: ClusterPod, b: ClusterPod, now: int) -> int:
    difference = _magnitude(now - mine) - _magnitude(now - other)
    if difference:
        return difference
    return -1 if a.metadata.uid < b.metadata.uid else 1


def _magnitude(age: int) -> int:
    return int(math.log2(age)) if age > 0 else -1
