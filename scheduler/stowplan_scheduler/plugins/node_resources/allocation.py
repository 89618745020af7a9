"""Shared by the two resource scorers: the amounts that count, and shares of what a node has.

Follows pkg/scheduler/framework/plugins/noderesources/resource_allocation.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.node_table import Int64s
from stowplan_scheduler.resources import Resource, is_scalar_resource


@dataclass(frozen=True, slots=True)
class Scored:
    """The configured resources that count for a pod: names, and as columns of shape (n, 1) weights and amounts.

    Amounts are millicores for cpu, else units. `weight_sum` is the sum of the weights.
    """

    names: tuple[str, ...]
    weights: Int64s
    amounts: Int64s
    weight_sum: int


def scored_resources(resources: Sequence[tuple[str, int]], request: Resource) -> Scored:
    """The configured (name, weight) pairs with what the pod asks for.

    A scalar resource that the pod does not ask for is left out.
    """
    found = [(name, weight, request.get(name)) for name, weight in resources]
    counted = [item for item in found if item[2] or not is_scalar_resource(item[0])]
    columns = np.array([(weight, amount) for _, weight, amount in counted], np.int64).reshape(-1, 2)
    weights = columns[:, :1]
    return Scored(tuple(item[0] for item in counted), weights, columns[:, 1:], int(weights.sum()))


def whole_shares(part: Int64s, whole: Int64s) -> Int64s:
    """part * 100 // whole for part, whole >= 0 and whole > 0, elementwise."""
    product = part * 100
    if product.size and np.maximum.reduce(product, axis=None) < 1 << 52:
        # A float64 quotient of integers below 2^52 cannot round up to the next integer, and it is several times
        # faster than an integer division.
        return (product / whole).astype(np.int64)
    return product // whole
