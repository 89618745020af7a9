"""Optional parts of objects that a test knows to be there."""

from __future__ import annotations

from typing import TypeVar

from stowplan_scheduler.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinity, ResourceMap

T = TypeVar("T")


def some(value: T | None) -> T:
    """The value; fails the test if it is absent."""
    assert value is not None
    return value


def node_affinity(pod: Pod) -> NodeAffinity:
    """spec.affinity.nodeAffinity."""
    return some(some(pod.spec.affinity).node_affinity)


def pod_anti_affinity(pod: Pod) -> PodAffinity:
    """spec.affinity.podAntiAffinity."""
    return some(some(pod.spec.affinity).pod_anti_affinity)


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """The terms of the required node affinity."""
    required: NodeSelector = some(node_affinity(pod).required_during_scheduling_ignored_during_execution)
    return required.node_selector_terms


def requests(pod: Pod) -> ResourceMap:
    """The requests of the first container."""
    return some(pod.spec.containers[0].resources.requests)
