"""Shared by the two resource scorers: the amounts a pod asks for, and what a node has of the configured resources.

Follows pkg/scheduler/framework/plugins/noderesources/resource_allocation.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.node_table import Int64s
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.resources import Resource, is_scalar_resource


@dataclass(frozen=True, slots=True)
class Scored:
    """One configured resource: its weight, and what the pod asks for (millicores for cpu, else units)."""

    name: str
    weight: int
    amount: int


def scored_resources(resources: Sequence[tuple[str, int]], request: Resource) -> tuple[Scored, ...]:
    """The configured (name, weight) pairs that count for this pod.

    A scalar resource that the pod does not ask for is left out.
    """
    found = (Scored(name, weight, request.get(name)) for name, weight in resources)
    return tuple(item for item in found if item.amount or not is_scalar_resource(item.name))


def allocatable_and_used(view: NodeView, name: str, *, true_requests: bool) -> tuple[Int64s, Int64s]:
    """What the nodes have and what is requested of it, shape (view.size,).

    Without `true_requests` containers that name no cpu or memory count with 100m and 200 MiB.
    """
    used = view.requested(name) if true_requests else view.non_zero_requested(name)
    return view.allocatable(name), used


def whole_shares(part: Int64s, whole: Int64s) -> Int64s:
    """part * 100 // whole for part, whole >= 0 and whole > 0, shape (n,)."""
    product = part * 100
    if len(product) and product[product.argmax()] < 1 << 52:
        # A float64 quotient of integers below 2^52 cannot round up to the next integer, and it is several times
        # faster than an integer division.
        return (product / whole).astype(np.int64)
    return product // whole
