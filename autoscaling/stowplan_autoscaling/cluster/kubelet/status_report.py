"""What the kubelet writes about one pod.

Phase, readiness with the time of its last change, start time and restarts go over the object as it is stored now, so
that nothing of anybody else is lost. Times are stamped as the API server shows them. Follows
pkg/kubelet/status/status_manager.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.pods import FAILED, FALSE, PENDING, SUCCEEDED, TRUE, ClusterPod
from stowplan_scheduler.objects import PodCondition
from stowplan_scheduler.timestamps import format_time

if TYPE_CHECKING:
    from .kubelets import Kubelets
    from .timeline import PodTimeline

DISRUPTED: Final = PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")
"""The condition of an evicted pod (pkg/kubelet/eviction/eviction_manager.go)."""


class StatusReport:
    """The status of one pod as it was written last. `evicted`: why the node gave it up, if it did."""

    __slots__ = ("_env", "_timeline", "evicted", "phase", "ready", "started")

    def __init__(self, env: Kubelets, timeline: PodTimeline) -> None:
        self._env = env
        self._timeline = timeline
        self.phase = PENDING
        self.ready = FALSE
        self.started = 0
        self.evicted = ""

    def take_over(self, pod: ClusterPod) -> None:
        """The pod has a status already."""
        self.phase, self.ready = pod.status.phase, pod.ready or FALSE
        self.started = self._env.server.stamp(self._env.kernel.now) if pod.started is None else pod.started

    def write(self, phase: str, ready: str, restarts: int) -> None:
        """Store it, unless the object is gone or another one of the same name."""
        env, timeline = self._env, self._timeline
        pod: ClusterPod | None = env.pods.get(timeline.key)
        if pod is None or pod.metadata.uid != timeline.uid:
            return
        now = env.kernel.now
        stamp = env.server.stamp(now)
        timeline.restarts = restarts
        if ready == TRUE and timeline.ready is None:
            timeline.ready = now
        self.phase, self.ready = phase, ready
        status = pod.status
        if status.phase != phase or pod.started is None:
            conditions = status.conditions
            if phase == FAILED and self.evicted:
                conditions = (*conditions, DISRUPTED)
            status = replace(status, phase=phase, start_time=_text(self.started), conditions=conditions)
        env.server.put(
            "Pod",
            replace(
                pod,
                status=status,
                started=self.started,
                ready=ready,
                ready_since=pod.ready_since if pod.ready == ready else stamp,
                restarts=restarts,
                finished=stamp if phase in {SUCCEEDED, FAILED} else None,
            ),
        )


@lru_cache(maxsize=4096)
def _text(time: int) -> str:
    return format_time(time)
