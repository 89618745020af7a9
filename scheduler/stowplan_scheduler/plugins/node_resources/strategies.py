"""The three scoring strategies of NodeResourcesFit.

Follows least_allocated.go, most_allocated.go and requested_to_capacity_ratio.go in
pkg/scheduler/framework/plugins/noderesources of Kubernetes v1.37.2. Each takes the configured resources with the pod's
amounts and a view, and returns int64 scores in 0..100, shape (view.size,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from stowplan_scheduler.cache.node_table import Bools, Int64s
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.interface import MAX_NODE_SCORE

from .allocation import Scored, whole_shares

Strategy = Callable[[Scored, NodeView], Int64s]

MAX_UTILIZATION = 100
MAX_CUSTOM_SCORE = 10


def least_allocated(resources: Scored, view: NodeView) -> Int64s:
    """Free share after placement; 0 where the request exceeds what is left."""
    return _weighted(resources, view, _free_share)


def most_allocated(resources: Scored, view: NodeView) -> Int64s:
    """Used share after placement, at most 100 (non-zero defaults may exceed the capacity)."""
    return _weighted(resources, view, _used_share)


def _free_share(requested: Int64s, capacity: Int64s) -> Int64s:
    return whole_shares(np.maximum(capacity - requested, 0), capacity)


def _used_share(requested: Int64s, capacity: Int64s) -> Int64s:
    return whole_shares(np.minimum(requested, capacity), capacity)


def _weighted(resources: Scored, view: NodeView, share: Callable[[Int64s, Int64s], Int64s]) -> Int64s:
    """Weighted mean over the resources that the node has at all."""
    capacity = view.allocatable(resources.names)
    requested = view.non_zero_requested(resources.names) + resources.amounts
    if view.all_have(resources.names):
        scores = share(requested, capacity) * resources.weights
        total: Int64s = scores[0] + scores[1] if len(scores) == 2 else scores.sum(axis=0)
        weight = resources.weight_sum
        # Halving is what the default resources need; a shift is the same for non-negative numbers.
        return total >> 1 if weight == 2 else total // max(weight, 1)
    has: Bools = capacity != 0
    scores = np.where(has, share(requested, np.where(has, capacity, 1)), 0) * resources.weights
    weights = (has * resources.weights).sum(axis=0)
    mean: Int64s = np.where(weights > 0, scores.sum(axis=0) // np.maximum(weights, 1), 0)
    return mean


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """Score by a broken line over the utilisation; `shape` holds (utilization 0..100, score 0..10) points."""
    line = np.array([broken_linear(shape, u) for u in range(MAX_UTILIZATION + 1)], np.int64)

    def score(resources: Scored, view: NodeView) -> Int64s:
        capacity = view.allocatable(resources.names)
        has: Bools = capacity != 0
        capacity = np.where(has, capacity, 1)
        requested = view.non_zero_requested(resources.names) + resources.amounts
        scores = np.where(has, line[_used_share(requested, capacity)], 0)
        # Upstream counts a resource only where its score is above 0.
        weights = ((scores > 0) * resources.weights).sum(axis=0)
        # math.Round: half away from zero; all values are non-negative.
        mean = (scores * resources.weights).sum(axis=0) / np.maximum(weights, 1)
        whole = np.floor(mean)
        rounded: Int64s = (whole + (mean - whole >= 0.5)).astype(np.int64)
        return rounded

    return score


def broken_linear(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """The line's value at a utilisation, on the scale 0..100 (upstream helper.BuildBrokenLinearFunction).

    Integer division truncates toward zero, also on falling pieces.
    """
    scale = MAX_NODE_SCORE // MAX_CUSTOM_SCORE
    points = [(x, y * scale) for x, y in shape]
    if utilization <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if utilization <= x1:
            rise = (y1 - y0) * (utilization - x0)
            step = abs(rise) // (x1 - x0)
            return y0 + (step if rise >= 0 else -step)
    return points[-1][1]
