"""The core leaves no reference cycles behind: what a pod used is freed when it goes, without the cycle collector."""

from __future__ import annotations

import gc

import pytest

from stowplan_operator.bench.measure import place, prepared
from stowplan_operator.bench.workloads import WORKLOADS


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_placing_pods_leaves_nothing_for_the_cycle_collector(workload: str) -> None:
    """Programs make the collector rare (stowplan_operator.garbage); a cycle per pod would then be a leak."""
    scheduler = prepared(workload, 120, 0)
    _, make_pod = WORKLOADS[workload]
    for number in range(50):
        place(scheduler, make_pod(number), number)
    gc.collect()
    gc.disable()
    try:
        for number in range(50, 150):
            place(scheduler, make_pod(number), number)
        assert gc.collect() == 0
    finally:
        gc.enable()
