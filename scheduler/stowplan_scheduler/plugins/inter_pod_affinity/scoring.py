"""InterPodAffinity, preferred terms: sums of weights per domain, the incoming pod's terms and the existing pods' ones.

Follows pkg/scheduler/framework/plugins/interpodaffinity/scoring.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stowplan_scheduler.cache.counters import Contribution, CounterHandle, TopologyCounter
from stowplan_scheduler.cache.node_table import NodeTable
from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.interface import MAX_NODE_SCORE, Scores
from stowplan_scheduler.framework.pod_info import AffinityTerm, PodInfo

from .terms import matches


class PreferredTerms:
    """The preferred terms of one shape of pod, resolved, with the counters of all preferences that concern it."""

    __slots__ = ("_hits", "_weights", "has_own")

    def __init__(
        self,
        pod: PodInfo,
        affinity: tuple[AffinityTerm, ...],
        anti_affinity: tuple[AffinityTerm, ...],
        namespace_labels: Mapping[str, str] | None,
        hard_weight: int,
    ) -> None:
        """`hard_weight`: what a required affinity term of another pod counts."""
        shape = pod.shape
        self.has_own = bool(affinity or anti_affinity)
        labels = tuple(sorted(shape.labels.items()))
        namespace = None if namespace_labels is None else tuple(sorted(namespace_labels.items()))
        key = ("preferred-affinity", shape.namespace, labels, namespace, affinity, anti_affinity, hard_weight)
        weights = _weights(pod, affinity, anti_affinity, namespace_labels, hard_weight)
        self._weights = CounterHandle(key, self._maker(weights, shape.labels))
        hits = self._maker(lambda other: tuple((k, 1) for k, _ in weights(other)), shape.labels)
        self._hits = CounterHandle((*key, "hits"), hits)

    def _maker(
        self, contribution: Callable[[PodInfo], Contribution], labels: Mapping[str, str]
    ) -> Callable[[NodeTable], TopologyCounter]:
        """Pods without affinity contribute only if the pod has preferences of its own."""
        if self.has_own:
            return lambda table: TopologyCounter(table, (), contribution, lambda info: info.pods)
        return lambda table: TopologyCounter(
            table, (), contribution, lambda info: info.pods_with_affinity, subject=labels
        )

    def counter(self, cluster: Cluster) -> TopologyCounter | None:
        """The summed weights per domain; None if no pod contributes anything (upstream Skip)."""
        if not self.has_own and not cluster.snapshot.have_pods_with_affinity:
            return None
        table = cluster.table
        counter = self._weights.get(table)
        if not counter.channels:
            return None
        if any(channel.total for channel in counter.channels.values()) or not counter.is_empty:
            return counter
        # Weights may cancel out, which upstream does not take for silence.
        return None if self._hits.get(table).is_empty else counter


def _weights(
    pod: PodInfo,
    affinity: tuple[AffinityTerm, ...],
    anti_affinity: tuple[AffinityTerm, ...],
    ns_labels: Mapping[str, str] | None,
    hard_weight: int,
) -> Callable[[PodInfo], Contribution]:
    """What one existing pod adds (upstream processExistingPod)."""
    namespace, labels = pod.shape.namespace, pod.shape.labels

    def is_meant(term: AffinityTerm) -> bool:
        return term.matches(namespace, labels, ns_labels)

    def contribution(other: PodInfo) -> Contribution:
        shape = other.shape
        found = [(t.topology_key, t.weight) for t in affinity if matches(t, shape)]
        found += [(t.topology_key, -t.weight) for t in anti_affinity if matches(t, shape)]
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
