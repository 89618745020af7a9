"""Terms of the incoming pod with their namespace selectors resolved, and how pods match terms.

Follows pkg/scheduler/framework/plugins/interpodaffinity/plugin.go of Kubernetes v1.37.2: a namespaceSelector that
selects something is expanded to the names of the namespaces there are and then dropped; an empty one stays, it means
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.pod_info import AffinityTerm, PodShape


def resolve_namespaces(term: AffinityTerm, stores: Stores) -> AffinityTerm:
    """The term with its namespaceSelector expanded (upstream mergeAffinityTermNamespacesIfNotEmpty)."""
    query = term.namespace_query
    if query is None or query.is_empty:
        return term
    selected = {name for name, ns in stores.namespaces.items() if query.matches(ns.metadata.labels)}
    return replace(term, namespaces=term.namespaces | selected, namespace_query=None)


def matches(term: AffinityTerm, shape: PodShape) -> bool:
    """Whether a pod matches a resolved term of the incoming pod: namespace labels no longer play a part."""
    return term.matches(shape.namespace, shape.labels, None)


def matches_all(terms: Sequence[AffinityTerm], shape: PodShape) -> bool:
    """Whether a pod matches every term; no terms, no match."""
    return bool(terms) and all(matches(term, shape) for term in terms)
