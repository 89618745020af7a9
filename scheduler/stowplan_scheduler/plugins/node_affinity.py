"""NodeAffinity: nodeSelector, required and preferred node affinity, and the affinity that a profile adds to every pod.

Follows plugins/nodeaffinity/node_affinity.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.config.plugin_args import NodeAffinityArgs
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ScorePlugin,
    Scores,
    default_normalize,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.status import SKIP, Code, error, unresolvable
from stowplan_scheduler.objects import Node, NodeSelector, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from stowplan_scheduler.objects import NodeAffinity as NodeAffinitySpec
from stowplan_scheduler.selectors import (
    IN,
    METADATA_NAME,
    NodeQuery,
    NodeTermQuery,
    SelectorError,
    checked_node_selector,
    compile_preferred_terms,
)

from .changes import nodes, present, queue_if
from .vectors import any_term_mask, node_mask, reject, term_mask

WeightedTerms = tuple[tuple[int, NodeTermQuery], ...]


class NodeAffinity(FilterPlugin, ScorePlugin):
    """Filter: the node satisfies what pod and profile require. Score: the weights of the preferences that hold."""

    name = "NodeAffinity"
    filter_inputs = Inputs.NODE
    filter_reads_requests = False
    score_inputs = Inputs.NODE
    score_reads_requests = False
    normalizes = True

    def __init__(self, args: NodeAffinityArgs) -> None:
        """`args.added_affinity` holds for every pod of the profile. Raises SelectorError if it does not parse."""
        super().__init__()
        self._not_enforced = self.reasons.id(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match scheduler-enforced node affinity"
        )
        self._no_match = self.reasons.id(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match Pod's node affinity/selector"
        )
        added = args.added_affinity or NodeAffinitySpec()
        required = added.required_during_scheduling_ignored_during_execution
        self._added_terms = None if required is None else checked_node_selector(required)
        preferred = added.preferred_during_scheduling_ignored_during_execution
        self._adds_preferences = bool(preferred)
        self._added_preferences: WeightedTerms = compile_preferred_terms(preferred)

    # ---- filter -----------------------------------------------------------------------------

    def filter_key(self, pod: PodInfo) -> Hashable:
        selector = pod.pod.spec.node_selector
        return tuple(sorted(selector.items())) if selector else (), _required(pod.pod)

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        selector, required = pod.pod.spec.node_selector, _required(pod.pod)
        if required is None and self._added_terms is None and not selector:
            return PreFilterResult(SKIP)
        query = _query(pod.pod)
        names = None if required is None else _named_nodes(required)
        if names is not None and not names:
            return PreFilterResult(unresolvable("pod affinity terms conflict"))
        return PreFilterResult(node_names=names, state=query)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        verdicts = reject(~node_mask(cast(NodeQuery, state), view), self._no_match)
        if self._added_terms is not None:
            verdicts[~any_term_mask(self._added_terms, view)] = self._not_enforced
        return verdicts

    # ---- score ------------------------------------------------------------------------------

    def score_key(self, pod: PodInfo) -> Hashable:
        return _preferred(pod.pod)

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        preferred = _preferred(pod.pod)
        if not preferred and not self._adds_preferences:
            return PreScoreResult(SKIP)
        try:
            own = compile_preferred_terms(preferred)
        except SelectorError as failure:
            return PreScoreResult(error(str(failure)))
        return PreScoreResult(state=(*self._added_preferences, *own))

    def score(self, state: object, view: NodeView) -> Scores:
        total = np.zeros(view.size, np.int64)
        for weight, term in cast(WeightedTerms, state):
            total += weight * term_mask(term, view)
        return total

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        return default_normalize(scores, reverse=False)

    # ---- events -----------------------------------------------------------------------------

    def events(self) -> tuple[EventRegistration, ...]:
        event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventRegistration(event, self._after_node_change),)

    def _after_node_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        before, after = nodes(old, new)
        node = present(after)
        if self._added_terms is not None and not any(_matches(term, node) for term in self._added_terms):
            return Hint.SKIP
        query = _query(pod.pod)
        return queue_if(_matches_or_raises(query, node) and (before is None or not _matches(query, before)))


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return None
    return affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _preferred(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return ()
    return affinity.node_affinity.preferred_during_scheduling_ignored_during_execution


def _query(pod: Pod) -> NodeQuery:
    affinity = pod.spec.affinity
    return NodeQuery.of(pod.spec.node_selector, affinity.node_affinity if affinity else None)


def _matches(query: NodeQuery | NodeTermQuery, node: Node) -> bool:
    return query.matches(node.metadata.labels, node.metadata.name)


def _matches_or_raises(query: NodeQuery, node: Node) -> bool:
    """Like `_matches`, but raises SelectorError if no term matches and one does not parse: then nobody can tell."""
    if _matches(query, node):
        return True
    if all(requirement.matches(node.metadata.labels) for requirement in query.labels):
        errors = [text for term in query.terms or () for text in term.errors]
        if errors:
            raise SelectorError(errors)
    return False


def _named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """The only nodes that the terms leave, by name; None if some term names no nodes, or there is no term."""
    if not required.node_selector_terms:
        return None
    found: set[str] = set()
    for term in required.node_selector_terms:
        names = _names_of_term(term)
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _names_of_term(term: NodeSelectorTerm) -> set[str] | None:
    names: set[str] | None = None
    for field in term.match_fields:
        if field.key == METADATA_NAME and field.operator == IN:
            names = set(field.values) if names is None else names.intersection(field.values)
    return names
