"""Taints and tolerations.

Follows staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go and ToleratesTaint of core/v1, Kubernetes
v1.37.2, with gate TaintTolerationComparisonOperators off.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan_scheduler.objects import Node, Pod, Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated_taint(node: Node, pod: Pod) -> Taint | None:
    """The first taint that keeps the pod off the node."""
    for taint in node.spec.taints:
        if taint.effect in HARD_EFFECTS and not tolerated(taint, pod.spec.tolerations):
            return taint
    return None


def disliked_taints(node: Node, pod: Pod) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    relevant = [t for t in pod.spec.tolerations if t.effect in {"", "PreferNoSchedule"}]
    return sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, relevant) for taint in node.spec.taints)
