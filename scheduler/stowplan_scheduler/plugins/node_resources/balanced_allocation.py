"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod brings into balance.

Follows pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.framework.interface import (
    MAX_NODE_SCORE,
    Inputs,
    PreScoreResult,
    ScorePlugin,
    Scores,
)
from stowplan_scheduler.framework.status import SKIP

from .allocation import Scored, scored_resources

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_table import Int64s
    from stowplan_scheduler.cache.node_view import NodeView
    from stowplan_scheduler.config.plugin_args import NodeResourcesBalancedAllocationArgs
    from stowplan_scheduler.framework.cluster import Cluster
    from stowplan_scheduler.framework.cluster_event import EventRegistration
    from stowplan_scheduler.framework.pod_info import PodInfo

Floats = NDArray[np.float64]

_HALF = MAX_NODE_SCORE // 2

_FEW = 1024
"""Up to so many nodes the balance with the pod and the one without are worked out together.

For more, arrays of both would be so large that the allocator returns them to the system and pays page faults each time.
"""


class NodeResourcesBalancedAllocation(ScorePlugin):
    """50..100; 75 means that the balance stays as it is."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    score_inputs: ClassVar[Inputs] = Inputs.ROW
    score_by_amounts: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        """`args` are validated and defaulted."""
        super().__init__()
        self._resources = tuple((r.name, r.weight) for r in args.resources)

    def events(self) -> tuple[EventRegistration, ...]:
        """It rejects nobody."""
        return ()

    def score_key(self, pod: PodInfo) -> Hashable:
        """The amounts of the configured resources."""
        request = pod.shape.balanced
        return tuple(request.get(name) for name, _ in self._resources)

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """Skip pods that request none of the resources: they would all go to the same node."""
        request = pod.shape.balanced
        if not any(request.get(name) for name, _ in self._resources):
            return PreScoreResult(SKIP)
        return PreScoreResult(state=scored_resources(self._resources, request))

    def score(self, state: object, view: NodeView) -> Scores:
        """How much the balance improves: 50 + (50 + S(with pod) - S(without)) // 2."""
        resources = cast("Scored", state)
        capacity = view.allocatable(resources.names)
        used = view.requested(resources.names)
        has_two = len(resources.names) == 2 and view.all_have(resources.names)
        if has_two and view.size <= _FEW:
            after, before = _balance_of_two(capacity, np.array((used + resources.amounts, used)))
        else:
            balance = _balance_of_two if has_two else _balance_of_present
            after, before = balance(capacity, used + resources.amounts), balance(capacity, used)
        change: Int64s = after - before
        change += _HALF
        # Truncation and floor agree: the sum is never negative.
        change >>= 1
        change += _HALF
        return change


def _balance_of_two(capacity: Int64s, requested: Int64s) -> Int64s:
    """S = int((1 - standard deviation of the used fractions) * 100) for two resources that every node has.

    The usual case; works in place, and halving is exact. `requested` has shape (2, n), or (m, 2, n) for m answers.
    """
    fractions = requested / capacity
    np.minimum(fractions, 1.0, out=fractions)
    distance = fractions[..., 0, :] - fractions[..., 1, :]
    np.abs(distance, out=distance)
    distance *= 0.5
    np.subtract(1.0, distance, out=distance)
    distance *= float(MAX_NODE_SCORE)
    balance: Int64s = distance.astype(np.int64)
    return balance


def _balance_of_present(capacities: Int64s, requests: Int64s) -> Int64s:
    """S for any resources: only what a node has counts, term by term in upstream's order."""
    size = capacities.shape[1]
    count = np.zeros(size, np.int64)
    total = np.zeros(size)
    fractions: list[tuple[NDArray[np.bool_], Floats]] = []
    for capacity, requested in zip(capacities, requests, strict=True):
        has = capacity != 0
        fraction = np.where(has, np.minimum(requested / np.where(has, capacity, 1), 1.0), 0.0)
        total += fraction
        count += has
        fractions.append((has, fraction))
    mean = total / np.maximum(count, 1)
    squares = np.zeros(size)
    for has, fraction in fractions:
        squares += np.where(has, (fraction - mean) * (fraction - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    deviation = np.where(count == 2, _half_distance(fractions), deviation)
    deviation = np.where(count < 2, 0.0, deviation)
    return ((1.0 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)


def _half_distance(fractions: Sequence[tuple[NDArray[np.bool_], Floats]]) -> Floats:
    """|first - second| / 2 of the two fractions of nodes that have exactly two; anything elsewhere."""
    size = len(fractions[0][1])
    first, second = np.zeros(size), np.zeros(size)
    seen = np.zeros(size, np.int64)
    for has, fraction in fractions:
        first = np.where(has & (seen == 0), fraction, first)
        second = np.where(has & (seen == 1), fraction, second)
        seen += has
    return np.abs((first - second) / 2.0)
