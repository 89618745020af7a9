"""How much of a node its pods ask for.

Follows pkg/simulator/utilization/info.go of kubernetes-sigs/cluster-autoscaler. Devices of dynamic resource allocation
are left out.
"""

from __future__ import annotations

from typing import Final

from stowplan_autoscaling.supply.cluster_autoscaler.observation import Observation
from stowplan_autoscaling.supply.cluster_autoscaler.pods import (
    gpu_resource,
    is_daemon_set_pod,
    is_long_terminating,
    is_mirror_pod,
)
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.framework.pod_info import PodInfo

_MILLI: Final = 1000


class UtilizationRule:
    """Which pods count."""

    def __init__(self, observation: Observation, *, ignore_mirrors: bool) -> None:
        self._observation = observation
        self._ignore_mirrors = ignore_mirrors

    def of(self, info: NodeInfo, now: int, *, ignore_daemons: bool) -> float | None:
        """The larger of the shares of cpu and memory; that of its accelerators alone on a node that has some.

        None for a node without cpu or memory.
        """
        assert info.node is not None
        gpu = gpu_resource(info.node)
        if gpu is not None:
            return self._share(info, gpu, now, ignore_daemons=ignore_daemons) or 0.0
        cpu = self._share(info, "cpu", now, ignore_daemons=ignore_daemons)
        memory = self._share(info, "memory", now, ignore_daemons=ignore_daemons)
        return None if cpu is None or memory is None else max(cpu, memory)

    def _share(self, info: NodeInfo, resource: str, now: int, *, ignore_daemons: bool) -> float | None:
        unit = 1 if resource == "cpu" else _MILLI
        allocatable = info.allocatable.get(resource) * unit
        if not allocatable:
            return None
        if not ignore_daemons and not self._ignore_mirrors and not any(pod.terminating for pod in info.pods):
            return info.requested.get(resource) * unit / allocatable
        requested = ignored = 0
        for pod in info.pods:
            amount = pod.shape.node_requested.get(resource) * unit
            if (ignore_daemons and is_daemon_set_pod(pod)) or (self._ignore_mirrors and is_mirror_pod(pod)):
                ignored += amount
            elif not self._is_gone(pod, now):
                requested += amount
        left = allocatable - ignored
        if left == 0:
            return float("inf") if requested else float("nan")
        return requested / left

    def _is_gone(self, pod: PodInfo, now: int) -> bool:
        return pod.terminating and is_long_terminating(pod.pod, self._observation.facts(pod).deleted, now)
