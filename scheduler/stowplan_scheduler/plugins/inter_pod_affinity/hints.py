"""Which changes may let a pod fit that InterPodAffinity rejected (plugins/interpodaffinity/plugin.go of v1.37.2).

Labels of namespaces are not looked up here: a namespaceSelector is asked about a namespace without labels, so one with
In or Exists never matches, an empty one and one with NotIn or DoesNotExist does.

If required terms do not parse nobody can tell what helps: the hints raise SelectorError then, which counts as Queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.pod_info import AffinityTerm, PodInfo
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.plugins.changes import RecentShapes, has_place, nodes, pods, present, queue_if
from stowplan_scheduler.selectors import SelectorError

Terms = Sequence[AffinityTerm]


def events() -> tuple[EventRegistration, ...]:
    """The registrations of InterPodAffinity."""
    shapes = RecentShapes()

    def after_assigned_pod_change(pod: PodInfo, old: object, new: object) -> Hint:
        return _after_assigned_pod_change(pod, old, new, shapes)

    assigned = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
    return (
        EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, assigned), after_assigned_pod_change),
        EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
        EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), _after_node_change),
    )


def _after_assigned_pod_change(pod: PodInfo, old: object, new: object, shapes: RecentShapes) -> Hint:
    before, after = pods(old, new)
    if any(other is not None and not has_place(other) for other in (before, after)):
        return Hint.SKIP
    terms, anti_terms = _terms(pod)
    if before is not None and after is not None:
        wanted_now = not _matches_all(terms, before) and _matches_all(terms, after)
        return queue_if(wanted_now or (_matches_any(anti_terms, before) and not _matches_any(anti_terms, after)))
    if after is not None:
        return queue_if(_matches_all(terms, after))
    gone = present(before)
    return queue_if(_matches_any(anti_terms, gone) or _matches_any(_anti_terms(gone, shapes), pod.pod))


def _terms(pod: PodInfo) -> tuple[Terms, Terms]:
    """The required affinity and anti-affinity terms of the waiting pod. Raises SelectorError."""
    shape = pod.shape
    if shape.required_terms_unparsed:
        raise SelectorError([shape.affinity_error])
    return shape.required_affinity, shape.required_anti_affinity


def _anti_terms(pod: Pod, shapes: RecentShapes) -> Terms:
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    shape = shapes.of(pod)
    if shape.anti_terms_unparsed:
        raise SelectorError([shape.affinity_error])
    return shape.required_anti_affinity


def _matches(term: AffinityTerm, pod: Pod) -> bool:
    return term.matches(pod.metadata.namespace, pod.metadata.labels, None)


def _matches_all(terms: Terms, pod: Pod) -> bool:
    """One pod must satisfy all terms; no term at all is satisfied by nobody."""
    return bool(terms) and all(_matches(term, pod) for term in terms)


def _matches_any(terms: Terms, pod: Pod) -> bool:
    return any(_matches(term, pod) for term in terms)


def _after_node_change(pod: PodInfo, old: object, new: object) -> Hint:
    before, after = nodes(old, new)
    node = present(after)
    terms, anti_terms = _terms(pod)
    if before is None:
        # A node without the key of an anti-affinity term always takes the pod; one with it may open a new domain.
        return queue_if(bool(anti_terms) or any(term.topology_key in node.metadata.labels for term in terms))
    return queue_if(
        any(_joined(term.topology_key, before, node) for term in terms)
        or any(_left(term.topology_key, before, node) for term in anti_terms)
    )


def _joined(key: str, before: Node, after: Node) -> bool:
    """Whether the node is now in a domain in which it was not."""
    value = after.metadata.labels.get(key)
    return value is not None and before.metadata.labels.get(key) != value


def _left(key: str, before: Node, after: Node) -> bool:
    """Whether the node is no longer in the domain in which it was."""
    value = before.metadata.labels.get(key)
    return value is not None and after.metadata.labels.get(key) != value
