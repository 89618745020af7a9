"""PreScore, Score and NormalizeScore of every default plugin, for pods without volumes and devices.

Follows plugins/{tainttoleration,nodeaffinity,noderesources,imagelocality,helper} of Kubernetes v1.37.2; spread and
affinity between pods have modules of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stowplan_scheduler.resources import balanced_request, is_scalar_resource, score_request

from .cluster import NodeState
from .cycle import Cycle
from .inter_pod_affinity import normalize_affinity, preferred_scores, score_affinity
from .profile import Weighted
from .selectors import preferred_terms, term_matches
from .status import PluginError
from .taints import disliked_taints
from .topology_spread import normalize_spread, round_half_away, score_spread, soft_spread

PreScore = Callable[[Cycle, Sequence[NodeState]], bool]
"""Prepares a score over the feasible nodes; False: Skip."""
Score = Callable[[Cycle, NodeState], int]
Normalize = Callable[[Cycle, Sequence[NodeState], Sequence[int]], list[int]]

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """The three steps of a score plugin; a missing step is None."""

    score: Score
    pre_score: PreScore | None = None
    normalize: Normalize | None = None


def always(_cycle: Cycle, _feasible: Sequence[NodeState]) -> bool:
    """Nothing to prepare, never skipped."""
    return True


def zero(_cycle: Cycle, _state: NodeState) -> int:
    """No volumes, no devices: nothing to prefer."""
    return 0


def default_normalize(raw: Sequence[int], *, reverse: bool = False) -> list[int]:
    """The highest becomes 100; reversed, the lowest number of bad things does."""
    highest = max([0, *raw])
    if highest == 0:
        return [100] * len(raw) if reverse else list(raw)
    scaled = [100 * score // highest for score in raw]
    return [100 - score for score in scaled] if reverse else scaled


def normalize_default(_cycle: Cycle, _states: Sequence[NodeState], raw: Sequence[int]) -> list[int]:
    """As an extension of a plugin."""
    return default_normalize(raw)


# ---- TaintToleration, NodeAffinity -----------------------------------------------------------------------------------


def score_taints(cycle: Cycle, state: NodeState) -> int:
    """Taints that the pod would rather avoid."""
    return disliked_taints(state.node, cycle.pod)


def normalize_taints(_cycle: Cycle, _states: Sequence[NodeState], raw: Sequence[int]) -> list[int]:
    """Fewer is better."""
    return default_normalize(raw, reverse=True)


def pre_score_node_affinity(cycle: Cycle, _feasible: Sequence[NodeState]) -> bool:
    """Skip only if neither the pod nor the profile has a preferred term at all, be it of weight 0."""
    affinity = cycle.pod.spec.affinity
    own = affinity.node_affinity if affinity else None
    terms = own.preferred_during_scheduling_ignored_during_execution if own else ()
    preferred_terms(terms)  # complains about terms that cannot be parsed
    added = cycle.profile.added_affinity
    return bool(terms) or bool(added and added.preferred_during_scheduling_ignored_during_execution)


def score_node_affinity(cycle: Cycle, state: NodeState) -> int:
    """The weights of the preferred terms that match."""
    affinity = cycle.pod.spec.affinity
    own = affinity.node_affinity if affinity else None
    score = 0
    for node_affinity in (cycle.profile.added_affinity, own):
        if node_affinity is not None:
            for term in preferred_terms(node_affinity.preferred_during_scheduling_ignored_during_execution):
                score += term.weight if term_matches(term.preference, state.node) else 0
    return score


# ---- NodeResourcesFit ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One resource of a node that a score looks at."""

    weight: int
    before: int
    after: int
    capacity: int


def usages(
    state: NodeState, resources: Weighted, request: Callable[[str], int], used: Callable[[str], int]
) -> list[Usage]:
    """The configured resources that the node has, without scalars that the pod does not want."""
    found = []
    for name, weight in resources:
        wanted, capacity = request(name), state.allocatable.get(name)
        if capacity == 0 or (wanted == 0 and is_scalar_resource(name)):
            continue
        found.append(Usage(weight=weight, before=used(name), after=used(name) + wanted, capacity=capacity))
    return found


def score_fit(cycle: Cycle, state: NodeState) -> int:
    """How empty, how full or how well shaped the node would be."""
    request = score_request(cycle.pod)
    found = usages(state, cycle.profile.fit_resources, request.get, state.non_zero_requested)
    if cycle.profile.fit_strategy == "RequestedToCapacityRatio":
        return _shaped(found, cycle.profile.fit_shape)
    total = sum(usage.weight for usage in found)
    if total == 0:
        return 0
    one = most_allocated if cycle.profile.fit_strategy == "MostAllocated" else least_allocated
    return sum(one(usage) * usage.weight for usage in found) // total


def least_allocated(usage: Usage) -> int:
    """The free share in percent, 0 if it is overcommitted."""
    return 0 if usage.after > usage.capacity else (usage.capacity - usage.after) * 100 // usage.capacity


def most_allocated(usage: Usage) -> int:
    """The used share in percent."""
    return min(usage.after, usage.capacity) * 100 // usage.capacity


def _shaped(found: Sequence[Usage], shape: Sequence[tuple[int, int]]) -> int:
    """The weighted mean of the shape's values, rounded; a value of 0 does not count at all."""
    points = [(utilization, score * 10) for utilization, score in shape]
    score, total = 0, 0
    for usage in found:
        percent = 100 if usage.after > usage.capacity else usage.after * 100 // usage.capacity
        value = broken_linear(points, percent)
        if value > 0:
            score += value * usage.weight
            total += usage.weight
    return round_half_away(float(score) / float(total)) if total else 0


def broken_linear(points: Sequence[tuple[int, int]], x: int) -> int:
    """The value of a broken line; the division truncates towards zero as in Go."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            rise = (y1 - y0) * (x - x0)
            step = abs(rise) // (x1 - x0)
            return y0 + (step if rise >= 0 else -step)
    return points[-1][1]


# ---- NodeResourcesBalancedAllocation ---------------------------------------------------------------------------------


def pre_score_balanced(cycle: Cycle, _feasible: Sequence[NodeState]) -> bool:
    """Skip for a pod that requests none of the resources."""
    request = balanced_request(cycle.pod)
    return any(request.get(name) for name, _ in cycle.profile.balanced_resources)


def score_balanced(cycle: Cycle, state: NodeState) -> int:
    """How much the pod evens out the use of the resources: 50 to 100, 75 is neutral."""
    request = balanced_request(cycle.pod)
    found = usages(state, cycle.profile.balanced_resources, request.get, state.requested)
    after = balance([usage.after / usage.capacity for usage in found])
    before = balance([usage.before / usage.capacity for usage in found])
    return 50 + (50 + after - before) // 2


def balance(shares: Sequence[float]) -> int:
    """100 minus the standard deviation of the shares in percent."""
    capped = [min(1.0, share) for share in shares]
    deviation = 0.0
    if len(capped) == 2:
        deviation = abs((capped[0] - capped[1]) / 2)
    elif len(capped) > 2:
        mean = sum(capped) / float(len(capped))
        squares = 0.0
        for share in capped:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / float(len(capped)))
    return int((1 - deviation) * 100.0)


# ---- ImageLocality ---------------------------------------------------------------------------------------------------


def normalized_image(name: str) -> str:
    """A name without a tag means the latest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def score_images(cycle: Cycle, state: NodeState) -> int:
    """The bytes that need not be pulled, weighted by how common the images are, between two thresholds."""
    spec = cycle.pod.spec
    images = [c.image for c in (*spec.init_containers, *spec.containers)]
    images += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    total = 0
    for image in images:
        if normalized_image(image) in state.images:
            size, holders = state.images[normalized_image(image)]
            total += int(float(size) * (float(holders) / float(len(cycle.cluster.nodes))))
    low, high = 23 * MIB, 1000 * MIB * len(images)
    clamped = min(max(total, low), high)
    return 100 * (clamped - low) // (high - low)


# ---- PodTopologySpread, InterPodAffinity -----------------------------------------------------------------------------


def pre_score_spread(cycle: Cycle, feasible: Sequence[NodeState]) -> bool:
    """Count the pods of the domains."""
    cycle.soft_spread = soft_spread(cycle.cluster, cycle.profile, cycle.pod, feasible)
    return cycle.soft_spread is not None


def score_spread_of(cycle: Cycle, state: NodeState) -> int:
    """Pods around the node."""
    if cycle.soft_spread is None:
        raise PluginError('error reading "PreScorePodTopologySpread" from cycleState: not found')
    return score_spread(cycle.soft_spread, state)


def normalize_spread_of(cycle: Cycle, states: Sequence[NodeState], raw: Sequence[int]) -> list[int]:
    """Fewer is better."""
    if cycle.soft_spread is None:
        raise PluginError('error reading "PreScorePodTopologySpread" from cycleState: not found')
    return normalize_spread(cycle.soft_spread, [state.node.metadata.name for state in states], raw)


def pre_score_affinity(cycle: Cycle, _feasible: Sequence[NodeState]) -> bool:
    """Sum up the preferences of all pods."""
    cycle.affinity_scores = preferred_scores(cycle.cluster, cycle.profile, cycle.pod)
    return cycle.affinity_scores is not None


def score_affinity_of(cycle: Cycle, state: NodeState) -> int:
    """The preferences for this node."""
    if cycle.affinity_scores is None:
        raise PluginError('failed to read "PreScoreInterPodAffinity" from cycleState: not found')
    return score_affinity(cycle.affinity_scores, state)


def normalize_affinity_of(_cycle: Cycle, _states: Sequence[NodeState], raw: Sequence[int]) -> list[int]:
    """Stretched to 0..100."""
    return normalize_affinity(raw)


SCORERS: dict[str, Scorer] = {
    "TaintToleration": Scorer(pre_score=always, score=score_taints, normalize=normalize_taints),
    "NodeAffinity": Scorer(pre_score=pre_score_node_affinity, score=score_node_affinity, normalize=normalize_default),
    "NodeResourcesFit": Scorer(pre_score=always, score=score_fit),
    "VolumeBinding": Scorer(pre_score=always, score=zero),
    "PodTopologySpread": Scorer(pre_score=pre_score_spread, score=score_spread_of, normalize=normalize_spread_of),
    "InterPodAffinity": Scorer(pre_score=pre_score_affinity, score=score_affinity_of, normalize=normalize_affinity_of),
    "DynamicResources": Scorer(score=zero, normalize=normalize_default),
    "NodeResourcesBalancedAllocation": Scorer(pre_score=pre_score_balanced, score=score_balanced),
    "ImageLocality": Scorer(score=score_images),
}
