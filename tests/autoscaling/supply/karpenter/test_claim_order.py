"""The order of open claims is the one that Go's sort gives them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan_autoscaling.supply.go_sort import go_sort
from stowplan_autoscaling.supply.karpenter.claim_order import ClaimOrder


def test_three_thousand_pods_on_claims_leave_the_order_that_go_leaves() -> None:
    """Each step opens a claim or fills one; the number sums up all orders on the way, as a Go program did."""
    order, seen, state = ClaimOrder(), 0, 7
    sizes: list[int] = []
    for _ in range(3000):
        order.sort()
        state = (state * 1103515245 + 12345) % 2**31
        if not sizes or (state >> 16) % 100 < 5:
            sizes.append(1)
            order.append(1)
            continue
        at = (state >> 8) % len(sizes)
        sizes[order.slots[at]] += 1
        order.grow(at)
        for place, slot in enumerate(order.slots.tolist()):
            seen = (seen * 31 + slot * (place + 1) + sizes[slot]) % 1_000_003
    assert (len(sizes), seen) == (151, 61710)


@given(st.lists(st.integers(0, 10_000), max_size=150))
def test_moving_one_claim_is_as_good_as_sorting_all(steps: list[int]) -> None:
    order = ClaimOrder()
    sizes: list[int] = []
    slots: list[int] = []
    for step in steps:
        order.sort()
        go_sort(sizes, slots)
        assert order.slots.tolist() == slots
        if not sizes or step % 4 == 0:
            order.append(1)
            slots.append(len(sizes))
            sizes.append(1)
        else:
            order.grow(step % len(sizes))
            sizes[step % len(sizes)] += 1
