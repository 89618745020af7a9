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

from .allocation import Scored, allocatable_and_used, whole_shares

Strategy = Callable[[Sequence[Scored], NodeView], Int64s]

MAX_UTILIZATION = 100
MAX_CUSTOM_SCORE = 10


def least_allocated(resources: Sequence[Scored], view: NodeView) -> Int64s:
    """Free share after placement; 0 where the request exceeds what is left."""
    return _weighted(resources, view, _free_share)


def most_allocated(resources: Sequence[Scored], view: NodeView) -> Int64s:
    """Used share after placement, at most 100 (non-zero defaults may exceed the capacity)."""
    return _weighted(resources, view, _used_share)


def _free_share(requested: Int64s, capacity: Int64s) -> Int64s:
    return whole_shares(np.maximum(capacity - requested, 0), capacity)


def _used_share(requested: Int64s, capacity: Int64s) -> Int64s:
    return whole_shares(np.minimum(requested, capacity), capacity)


def _weighted(resources: Sequence[Scored], view: NodeView, share: Callable[[Int64s, Int64s], Int64s]) -> Int64s:
    """Weighted mean over the resources that the node has at all."""
    total: Int64s | None = None
    constant_weight, weights = 0, np.zeros(0, np.int64)
    for resource in resources:
        capacity, used = allocatable_and_used(view, resource.name, true_requests=False)
        requested = used + resource.amount
        if view.all_have(resource.name):
            scores = share(requested, capacity)
            constant_weight += resource.weight
        else:
            has: Bools = capacity != 0
            scores = np.where(has, share(requested, np.where(has, capacity, 1)), 0)
            weights = has * resource.weight + (weights if len(weights) else 0)
        scores = scores if resource.weight == 1 else scores * resource.weight
        total = scores if total is None else total + scores
    if total is None:
        return np.zeros(view.size, np.int64)
    if not len(weights):
        # Halving is what the default resources need; a shift is the same for non-negative numbers.
        return total >> 1 if constant_weight == 2 else total // constant_weight
    weights = weights + constant_weight
    return np.where(weights > 0, total // np.maximum(weights, 1), 0)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Strategy:
    """Score by a broken line over the utilisation; `shape` holds (utilization 0..100, score 0..10) points."""
    line = np.array([broken_linear(shape, u) for u in range(MAX_UTILIZATION + 1)], np.int64)

    def score(resources: Sequence[Scored], view: NodeView) -> Int64s:
        total = np.zeros(view.size, np.int64)
        weights = np.zeros(view.size, np.int64)
        for resource in resources:
            capacity, used = allocatable_and_used(view, resource.name, true_requests=False)
            has: Bools = capacity != 0
            capacity = np.where(has, capacity, 1)
            utilization = whole_shares(np.minimum(used + resource.amount, capacity), capacity)
            scores = np.where(has, line[utilization], 0)
            total += scores * resource.weight
            # Upstream counts a resource only where its score is above 0.
            weights += (scores > 0) * resource.weight
        # math.Round: half away from zero; all values are non-negative.
        mean = total / np.maximum(weights, 1)
        whole = np.floor(mean)
        return (whole + (mean - whole >= 0.5)).astype(np.int64)

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
