"""Stabilisation: a proposal must hold for a while before it is followed.

Follows stabilizeRecommendation and stabilizeRecommendationWithBehaviors in
pkg/controller/podautoscaler/horizontal.go of Kubernetes v1.37.2. The two differ at the edge of the window: without
`behavior` a recommendation that is exactly as old as the window still counts, with it, it does not.
"""

from __future__ import annotations

from .history import Recommendations

SCALE_UP_STABILIZED = "ScaleUpStabilized"
SCALE_DOWN_STABILIZED = "ScaleDownStabilized"
LOWER_BEFORE = "recent recommendations were lower than current one, applying the lowest recent recommendation"
HIGHER_BEFORE = "recent recommendations were higher than current one, applying the highest recent recommendation"


def stabilize_down(recommendations: Recommendations, proposal: int, window: int, now: int) -> int:
    """The largest recommendation of the window (nanoseconds), the proposal included, which is remembered."""
    stable, slot = largest_within(recommendations, proposal, window, now)
    recommendations.put(slot, proposal, now)
    return stable


def largest_within(recommendations: Recommendations, proposal: int, window: int, now: int) -> tuple[int, int]:
    """The same, and the slot that the proposal is to be put into."""
    cutoff, times = now - window, recommendations.times
    slot = len(times) - 1
    while slot >= 0 and times[slot] >= cutoff:
        slot -= 1
    largest = max(recommendations.replicas, default=proposal)
    if largest > proposal and slot >= 0:
        largest = max((replicas for replicas, time in recommendations if time >= cutoff), default=proposal)
    return max(largest, proposal), slot


def stabilize_both(
    recommendations: Recommendations, current: int, proposal: int, up_window: int, down_window: int, now: int
) -> int:
    """`current`, moved no further than every recommendation of the up window and of the down window wants it."""
    up_cutoff, down_cutoff = now - up_window, now - down_window
    lowest = highest = proposal
    slot = -1
    for index, (replicas, time) in enumerate(recommendations):
        if time > up_cutoff and replicas < lowest:
            lowest = replicas
        if time > down_cutoff and replicas > highest:
            highest = replicas
        if time < up_cutoff and time < down_cutoff:
            slot = index
    recommendations.put(slot, proposal, now)
    return min(max(current, lowest), highest)


def stabilized_reason(current: int, proposal: int) -> tuple[str, str]:
    """Reason and message where the stabilised number is not the proposal."""
    return (SCALE_UP_STABILIZED, LOWER_BEFORE) if proposal >= current else (SCALE_DOWN_STABILIZED, HIGHER_BEFORE)
