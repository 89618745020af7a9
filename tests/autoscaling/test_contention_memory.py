"""Memory: who is killed, who is evicted, and in which order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.contention import (
    HARD_THRESHOLD,
    UNLIMITED,
    available_memory,
    eviction_message,
    eviction_order,
    eviction_victims,
    kernel_victims,
    over_limit,
    under_pressure,
)

MI = 1024 * 1024


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(values, dtype=np.int64)


def test_a_container_over_its_limit_is_killed() -> None:
    """At the limit it still fits; without one nothing happens."""
    assert over_limit(ints(100, 101, 999), ints(100, 100, UNLIMITED)).tolist() == [False, True, False]


def test_eviction_begins_where_use_passes_allocatable() -> None:
    """Allocatable is capacity less reserved less 100Mi, so pods may use exactly that much."""
    capacity, allocatable = ints(1000 * MI, 1000 * MI), ints(700 * MI, 700 * MI)
    used = ints(300 * MI, 400 * MI, 700 * MI + 1)
    available = available_memory(node=ints(0, 0, 1), used=used, capacity=capacity, allocatable=allocatable)
    assert available.tolist() == [HARD_THRESHOLD, HARD_THRESHOLD - 1]
    assert under_pressure(available).tolist() == [False, True]


def test_a_greedy_system_evicts_pods_too() -> None:
    """The node's own signal: 1,000 less 400 of pods less 550 of the system leaves 50."""
    one = available_memory(
        node=ints(0),
        used=ints(400 * MI),
        capacity=ints(1000 * MI),
        allocatable=ints(700 * MI),
        system=ints(550 * MI),
    )
    assert one.tolist() == [50 * MI]


def test_the_order_of_eviction_is_over_request_then_priority_then_how_far_over() -> None:
    """rankMemoryPressure: 3 and 4 are over; 4 has the lower priority. Of those below, the closest to it goes first."""
    order = eviction_order(
        used=ints(10, 90, 50, 900, 200),
        request=ints(100, 100, 100, 100, 100),
        priority=ints(0, 0, 0, 5, 1),
    )
    assert order.tolist() == [4, 3, 1, 2, 0]


def test_a_pod_at_its_request_is_not_over_it() -> None:
    """The comparison is strict; ties keep the order given."""
    assert eviction_order(used=ints(100, 101), request=ints(100, 100), priority=ints(0, 9)).tolist() == [1, 0]
    assert eviction_order(used=ints(5, 5, 5), request=ints(5, 5, 5), priority=ints(1, 1, 1)).tolist() == [0, 1, 2]


def test_each_node_in_need_loses_one_pod_at_a_time_and_never_a_critical_one() -> None:
    """Node 0 is fine, node 1 has a critical pod that is far over, node 2 has critical pods only."""
    victims = eviction_victims(
        node=ints(0, 1, 1, 2),
        nodes=np.asarray([False, True, True]),
        used=ints(900, 900, 200, 900),
        request=ints(1, 1, 100, 1),
        priority=ints(0, 0, 7, 0),
        critical=np.asarray([False, True, False, True]),
    )
    assert victims == {1: 2}


def test_the_kernel_kills_by_share_and_adjustment_until_the_rest_fits() -> None:
    """`kubepods` has 1,000. Scores: 200 + 1000, 600 + 300, 500 - 997. 300 too much: the first is not enough."""
    threshold = 100
    victims = kernel_victims(
        node=ints(0, 0, 0, 1),
        used=ints(200, 600, 500, 999),
        oom_score=ints(1000, 300, -997, 1000),
        capacity=ints(1500, 1500),
        allocatable=ints(900, 900),
        threshold=threshold,
    )
    assert victims == {0: [0, 1]}


def test_the_message_is_the_kubelets() -> None:
    """Containers within their request are not blamed."""
    text = eviction_message(42 * MI, [("app", 300 * MI + 5, 100 * MI), ("proxy", MI, 2 * MI), ("log", MI, 0)])
    assert text == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 42Mi. "
        "Container app was using 314572805, request is 100Mi, has larger consumption of memory. "
        "Container log was using 1Mi, request is 0, has larger consumption of memory. "
    )


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(-2, 2)), min_size=1, max_size=20))
def test_the_order_equals_a_sort_by_three_keys(rows: list[tuple[int, int, int]]) -> None:
    """Python's stable sort as the reference."""
    used, request, priority = (ints(*column) for column in zip(*rows, strict=True))
    expected = sorted(range(len(rows)), key=lambda i: (used[i] <= request[i], priority[i], request[i] - used[i]))
    assert eviction_order(used=used, request=request, priority=priority).tolist() == expected
