"""Which changes may let a pod fit that PodTopologySpread rejected.

Follows plugins/podtopologyspread/plugin.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Hint, Resource
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.plugins.changes import has_place, nodes, pods, present, queue_if
from stowplan_scheduler.selectors import LabelQuery

Labels = Mapping[str, str]


class HardConstraint(Protocol):
    """What hints read of a constraint."""

    @property
    def topology_key(self) -> str:
        """The label that tells domains apart."""

    @property
    def query(self) -> LabelQuery:
        """Which pods count, matchLabelKeys included."""

    @property
    def honors_taints(self) -> bool:
        """Whether nodeTaintsPolicy is Honor."""


ConstraintsOf = Callable[[PodInfo], Sequence[HardConstraint]]
"""The DoNotSchedule constraints of a pod: its own, or the defaults of the profile if it declares none at all."""


def events(constraints_of: ConstraintsOf) -> tuple[EventRegistration, ...]:
    """The registrations of PodTopologySpread."""
    hints = _Hints(constraints_of)
    assigned = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
    target = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
    node = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
    return (
        EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, assigned), hints.after_assigned_pod_change),
        EventRegistration(ClusterEvent(Resource.TARGET_POD, target), hints.after_own_change),
        EventRegistration(ClusterEvent(Resource.NODE, node), hints.after_node_change),
    )


class _Hints:
    __slots__ = ("_constraints_of",)

    def __init__(self, constraints_of: ConstraintsOf) -> None:
        self._constraints_of = constraints_of

    def after_assigned_pod_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A pod that counts came or went, or its labels made it count or not."""
        before, after = pods(old, new)
        if any(other is not None and not _is_involved(other, pod) for other in (before, after)):
            return Hint.SKIP
        constraints = self._constraints_of(pod)
        if before is not None and after is not None:
            return _after_label_change(before, after, constraints)
        labels = present(after or before).metadata.labels
        return queue_if(any(constraint.query.matches(labels) for constraint in constraints))

    def after_own_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        """Other tolerations open other nodes where taints are honoured; other labels may count differently."""
        before, after = pods(old, new)
        was, now = present(before), present(after)
        constraints = self._constraints_of(pod)
        if was.spec.tolerations != now.spec.tolerations and any(c.honors_taints for c in constraints):
            return Hint.QUEUE
        return _after_label_change(was, now, constraints)

    def after_node_change(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A node with all topology keys came, went, or changed one of their values or its taints."""
        before, after = nodes(old, new)
        keys = [constraint.topology_key for constraint in self._constraints_of(pod)]
        was = before is not None and _has_all(before.metadata.labels, keys)
        now = after is not None and _has_all(after.metadata.labels, keys)
        if before is None or after is None or was != now:
            return queue_if(was or now)
        moved = any(before.metadata.labels.get(key) != after.metadata.labels.get(key) for key in keys)
        return queue_if(now and (moved or before.spec.taints != after.spec.taints))


def _is_involved(other: Pod, pod: PodInfo) -> bool:
    return has_place(other) and other.metadata.namespace == pod.pod.metadata.namespace


def _after_label_change(before: Pod, after: Pod, constraints: Sequence[HardConstraint]) -> Hint:
    was, now = before.metadata.labels, after.metadata.labels
    return queue_if(was != now and any(c.query.matches(was) != c.query.matches(now) for c in constraints))


def _has_all(labels: Labels, keys: Sequence[str]) -> bool:
    return all(key in labels for key in keys)
