"""Which pods' samples count: ready, unready, missing and ignored pods.

Follows groupPods in pkg/controller/podautoscaler/replica_calculator.go of Kubernetes v1.37.2. Only the resource "cpu"
looks at readiness: starting up costs cpu time that says nothing about the load.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, ClusterPod

from .metrics import PodMetric

CPU: Final = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessRules:
    """Flags of the controller, in nanoseconds."""

    cpu_initialization_period: int
    initial_readiness_delay: int


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Number of ready pods, and the names of the others."""

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def group_pods(
    pods: Sequence[ClusterPod], samples: Mapping[str, PodMetric], resource: str, rules: ReadinessRules, now: int
) -> PodGroups:
    """Sort the pods by whether and how they count; `resource` is "" for a custom metric."""
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        name, phase = pod.metadata.name, pod.status.phase
        if pod.deleted is not None or phase == FAILED:
            ignored.append(name)
        elif phase == PENDING:
            unready.append(name)
        elif (sample := samples.get(name)) is None:
            missing.append(name)
        elif resource == CPU and _is_unready(pod, sample, rules, now):
            unready.append(name)
        else:
            ready += 1
    return PodGroups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _is_unready(pod: ClusterPod, sample: PodMetric, rules: ReadinessRules, now: int) -> bool:
    started = pod.started
    if not pod.ready or started is None:
        return True
    if started + rules.cpu_initialization_period > now:
        # The sample must have been taken a whole window after the last change of readiness.
        return pod.ready == FALSE or sample.timestamp < pod.ready_since + sample.window
    # Unready pods that were ready once do count: they may be unready because of the load.
    return pod.ready == FALSE and started + rules.initial_readiness_delay > pod.ready_since


def without(samples: Mapping[str, PodMetric], groups: PodGroups) -> dict[str, int]:
    """Name to value of the samples that remain when ignored and unready pods are left out."""
    if not groups.unready and not groups.ignored:
        return {name: sample.value for name, sample in samples.items()}
    dropped: Container[str] = {*groups.unready, *groups.ignored}
    return {name: sample.value for name, sample in samples.items() if name not in dropped}
