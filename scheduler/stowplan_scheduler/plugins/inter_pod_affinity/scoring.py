"""InterPodAffinity, preferred terms: sums of weights per domain, the incoming pod's terms and the existing pods' ones.

Follows pkg/scheduler/framework/plugins/interpodaffinity/scoring.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stowplan_scheduler.cache.counters import Contribution, TopologyCounter
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.interface import MAX_NODE_SCORE, Scores
from stowplan_scheduler.framework.pod_info import AffinityTerm, PodInfo

from .terms import matches


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """The incoming pod's preferred terms, resolved, and the labels of its namespace."""

    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    namespace_labels: Mapping[str, str] | None
    version: int

    @property
    def any(self) -> bool:
        """Whether the pod has preferences of its own."""
        return bool(self.affinity or self.anti_affinity)


def score_counter(pod: PodInfo, terms: PreferredTerms, hard_weight: int, cluster: Cluster) -> TopologyCounter | None:
    """The summed weights per domain; None if no pod contributes anything (upstream Skip).

    Pods without affinity contribute only if the incoming pod has preferences.
    """
    if not terms.any and not cluster.snapshot.have_pods_with_affinity:
        return None
    shape = pod.shape
    key = (
        "preferred-affinity",
        shape.namespace,
        tuple(sorted(shape.labels.items())),
        terms.affinity,
        terms.anti_affinity,
        terms.version,
    )
    counters, table = cluster.table.counters, cluster.table
    weights = _weights(pod, terms, hard_weight)

    def make(contribution: Callable[[PodInfo], Contribution]) -> TopologyCounter:
        if terms.any:
            return TopologyCounter(table, (), contribution, lambda info: info.pods)
        return TopologyCounter(table, (), contribution, lambda info: info.pods_with_affinity)

    counter = counters.get(key, lambda: make(weights))
    if counter.is_empty:
        # Weights may cancel out, which upstream does not take for silence.
        hits = counters.get((*key, "hits"), lambda: make(lambda other: tuple((k, 1) for k, _ in weights(other))))
        if hits.is_empty:
            return None
    return counter


def _weights(pod: PodInfo, terms: PreferredTerms, hard_weight: int) -> Callable[[PodInfo], Contribution]:
    """What one existing pod adds (upstream processExistingPod)."""
    namespace, labels, ns_labels = pod.shape.namespace, pod.shape.labels, terms.namespace_labels

    def is_meant(term: AffinityTerm) -> bool:
        return term.matches(namespace, labels, ns_labels)

    def contribution(other: PodInfo) -> Contribution:
        shape = other.shape
        found = [(t.topology_key, t.weight) for t in terms.affinity if matches(t, shape)]
        found += [(t.topology_key, -t.weight) for t in terms.anti_affinity if matches(t, shape)]
        if hard_weight > 0:
            found += [(t.topology_key, hard_weight) for t in shape.required_affinity if is_meant(t)]
        found += [(t.topology_key, t.weight) for t in shape.preferred_affinity if is_meant(t)]
        found += [(t.topology_key, -t.weight) for t in shape.preferred_anti_affinity if is_meant(t)]
        return tuple(found)

    return contribution


def raw_scores(counter: TopologyCounter, view: NodeView) -> Scores:
    """The sums of the node's domains over all keys; may be negative."""
    total = np.zeros(view.size, np.int64)
    for key in counter.channels:
        total += counter.at(key, view.rows)
    return total


def normalized(scores: Scores) -> Scores:
    """Stretch to 0..100 in float64, in upstream's order of operations; all 0 if all are equal."""
    least = int(scores.min())
    span = int(scores.max()) - least
    if span == 0:
        return np.zeros(len(scores), np.int64)
    return (float(MAX_NODE_SCORE) * ((scores - least).astype(np.float64) / float(span))).astype(np.int64)
