"""What a pod gives up, step by step, when it finds no place.

A step takes a pod's spec and gives the next, looser one. Order: the first of several required node affinity terms; the
heaviest preferred pod affinity, pod anti-affinity and node affinity; a spread constraint that may be violated; at last,
if some pool has PreferNoSchedule taints, all of these are tolerated.

Follows pkg/controllers/provisioning/scheduling/preferences.go of Karpenter core v1.15.0.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stowplan_scheduler.objects import NodeSelector, PodAffinity, PodSpec, Toleration
from stowplan_scheduler.tolerations import PREFER_NO_SCHEDULE

SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

_SOFT: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


def relaxed(spec: PodSpec, *, tolerate_prefer_no_schedule: bool) -> PodSpec | None:
    """The spec with one wish less; None if there is nothing left to give up."""
    for step in (
        without_required_term,
        _without_affinity,
        _without_anti_affinity,
        _without_preference,
        _without_spread,
    ):
        looser = step(spec)
        if looser is not None:
            return looser
    return tolerating_soft_taints(spec) if tolerate_prefer_no_schedule else None


def without_required_term(spec: PodSpec) -> PodSpec | None:
    """Without the first required node affinity term, if there are several: one of them must hold."""
    node = spec.affinity.node_affinity if spec.affinity else None
    required = node.required_during_scheduling_ignored_during_execution if node else None
    if spec.affinity is None or node is None or required is None or len(required.node_selector_terms) < 2:
        return None
    rest = NodeSelector(node_selector_terms=required.node_selector_terms[1:])
    loose = replace(node, required_during_scheduling_ignored_during_execution=rest)
    return replace(spec, affinity=replace(spec.affinity, node_affinity=loose))


def tolerating_soft_taints(spec: PodSpec) -> PodSpec | None:
    """With a toleration of every PreferNoSchedule taint; None if it has that one already."""
    key = (_SOFT.key, _SOFT.effect, _SOFT.operator, _SOFT.value)
    if any((t.key, t.effect, t.operator, t.value) == key for t in spec.tolerations):
        return None
    return replace(spec, tolerations=(*spec.tolerations, _SOFT))


def _lighter(affinity: PodAffinity) -> PodAffinity:
    terms = sorted(affinity.preferred_during_scheduling_ignored_during_execution, key=lambda term: -term.weight)
    return replace(affinity, preferred_during_scheduling_ignored_during_execution=tuple(terms[1:]))


def _without_affinity(spec: PodSpec) -> PodSpec | None:
    wish = spec.affinity.pod_affinity if spec.affinity else None
    if spec.affinity is None or wish is None or not wish.preferred_during_scheduling_ignored_during_execution:
        return None
    return replace(spec, affinity=replace(spec.affinity, pod_affinity=_lighter(wish)))


def _without_anti_affinity(spec: PodSpec) -> PodSpec | None:
    wish = spec.affinity.pod_anti_affinity if spec.affinity else None
    if spec.affinity is None or wish is None or not wish.preferred_during_scheduling_ignored_during_execution:
        return None
    return replace(spec, affinity=replace(spec.affinity, pod_anti_affinity=_lighter(wish)))


def _without_preference(spec: PodSpec) -> PodSpec | None:
    node = spec.affinity.node_affinity if spec.affinity else None
    if spec.affinity is None or node is None or not node.preferred_during_scheduling_ignored_during_execution:
        return None
    terms = sorted(node.preferred_during_scheduling_ignored_during_execution, key=lambda term: -term.weight)
    loose = replace(node, preferred_during_scheduling_ignored_during_execution=tuple(terms[1:]))
    return replace(spec, affinity=replace(spec.affinity, node_affinity=loose))


def _without_spread(spec: PodSpec) -> PodSpec | None:
    constraints = list(spec.topology_spread_constraints)
    for index, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            # The last one moves into the gap, as upstream does; the order decides what goes next.
            constraints[index] = constraints[-1]
            return replace(spec, topology_spread_constraints=tuple(constraints[:-1]))
    return None
