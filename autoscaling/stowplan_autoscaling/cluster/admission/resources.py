"""Kinds under the names that an API server uses in messages and in the object counts of quotas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_RESOURCES: Final = {
    "Pod": "pods",
    "Service": "services",
    "ReplicationController": "replicationcontrollers",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "ControllerRevision": "controllerrevisions.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "ScaledObject": "scaledobjects.keda.sh",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
    "Node": "nodes",
}

_ALIASES: Final = {
    "Service": "services",
    "ReplicationController": "replicationcontrollers",
    "ResourceQuota": "resourcequotas",
}
"""Kinds that quotas also count under an older name."""

NAMESPACED: Final = tuple(kind for kind in _RESOURCES if kind not in {"PriorityClass", "Node"})


def resource_of_kind(kind: str) -> str:
    """The resource of a kind with its group, such as "deployments.apps"."""
    return _RESOURCES.get(kind, f"{kind.lower()}s")


def counts_of_kind(kind: str) -> tuple[str, ...]:
    """The names under which a quota counts the objects of a kind."""
    names = (f"count/{resource_of_kind(kind)}",)
    return (*names, _ALIASES[kind]) if kind in _ALIASES else names


def tracked_counts(kind: str, names: Iterable[str]) -> list[str]:
    """Those of a quota's resources that count objects of a kind other than Pod, sorted."""
    counted = counts_of_kind(kind)
    return sorted(name for name in names if name in counted)


def forbidden(kind: str, name: str, reason: str) -> str:
    """The text of a refusal by admission."""
    return f'{resource_of_kind(kind)} "{name}" is forbidden: {reason}'
