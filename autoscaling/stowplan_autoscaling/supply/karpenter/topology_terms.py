"""The topology terms of a shape: what becomes a group in a round. Worked out once per shape.

Only where a term selects namespaces by their labels it depends on the namespaces that there are.

Follows newForTopologies, newForAffinities and buildNamespaceList of pkg/controllers/provisioning/scheduling
(topology.go) of Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan_scheduler.objects import PodAffinityTerm, PodSpec
from stowplan_scheduler.selectors import LabelQuery

from .preferences import SCHEDULE_ANYWAY
from .shapes import Shape, anti_terms
from .topology_groups import AFFINITY, ANTI_AFFINITY, Term

_MEMO_LIMIT: Final = 1 << 16

Namespaces = Mapping[str, Mapping[str, str]]
"""Name -> labels."""


class ShapeTerms(NamedTuple):
    """`own`: spread, affinity and anti-affinity; `held`: required anti-affinity, which keeps others out."""

    own: tuple[Term, ...]
    held: tuple[Term, ...]


NO_TERMS: Final = ShapeTerms((), ())


class TermMemo:
    """The terms of shapes; preferences are left out if they are ignored."""

    def __init__(self, *, ignore_preferences: bool) -> None:
        self._ignore_preferences = ignore_preferences
        self._known: dict[Shape, ShapeTerms] = {}

    def of(self, shape: Shape, namespaces: Namespaces) -> ShapeTerms:
        """The terms of a shape. `namespaces`: those that there are."""
        if not shape.has_terms:
            return NO_TERMS
        known = self._known.get(shape)
        if known is None:
            known = ShapeTerms(tuple(self._own(shape, namespaces)), tuple(_held(shape, namespaces)))
            if not _looks_at_namespaces(shape.spec):
                if len(self._known) > _MEMO_LIMIT:
                    self._known.clear()
                self._known[shape] = known
        return known

    def _own(self, shape: Shape, namespaces: Namespaces) -> list[Term]:
        spec = shape.spec
        found = [
            Term.of_spread(shape.namespace, shape.labels, spec, constraint)
            for constraint in spec.topology_spread_constraints
            if not (self._ignore_preferences and constraint.when_unsatisfiable == SCHEDULE_ANYWAY)
        ]
        affinity = spec.affinity
        if affinity is None:
            return found
        for kind, wish in ((AFFINITY, affinity.pod_affinity), (ANTI_AFFINITY, affinity.pod_anti_affinity)):
            if wish is None:
                continue
            terms = list(wish.required_during_scheduling_ignored_during_execution)
            if not self._ignore_preferences:
                terms += [t.pod_affinity_term for t in wish.preferred_during_scheduling_ignored_during_execution]
            found += [_affinity_term(kind, shape, term, namespaces) for term in terms]
        return found


def _held(shape: Shape, namespaces: Namespaces) -> list[Term]:
    return [_affinity_term(ANTI_AFFINITY, shape, term, namespaces) for term in anti_terms(shape.spec)]


def _affinity_term(kind: str, shape: Shape, term: PodAffinityTerm, namespaces: Namespaces) -> Term:
    if term.namespace_selector is None:
        among = frozenset(term.namespaces) if term.namespaces else frozenset((shape.namespace,))
    else:
        query = LabelQuery.of(term.namespace_selector)
        selected = {name for name, labels in namespaces.items() if query.matches(labels)}
        among = frozenset(selected.union(term.namespaces))
    return Term.of_affinity(kind, term.topology_key, among, term.label_selector)


def _looks_at_namespaces(spec: PodSpec) -> bool:
    affinity = spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespace_selector is not None
        for wish in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if wish is not None
        for term in (
            *wish.required_during_scheduling_ignored_during_execution,
            *(each.pod_affinity_term for each in wish.preferred_during_scheduling_ignored_during_execution),
        )
    )
