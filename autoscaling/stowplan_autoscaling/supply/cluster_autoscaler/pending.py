"""Which pending pods need new nodes: not the unimportant ones, not those that fit somewhere, not daemons.

Follows pkg/core/podlistprocessor and ArrangePodsBySchedulability of pkg/utils/kubernetes/listers.go of
kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.go_sort import go_sorted
from stowplan_scheduler.config.gotext import parse_duration
from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner

from .hinting import HintingSimulator
from .observation import Observation, ObservedPod
from .options import AutoscalingOptions
from .pods import SCALE_UP_DELAY, is_daemon_set_pod, is_expendable, is_recreatable, requests_gpu
from .snapshot import ClusterSnapshot

NEW_FOR: int = 2 * SECOND
"""Pods that are all younger than this wait a loop, for more to come."""
NEW_GPU_FOR: int = 30 * SECOND


class PendingPods:
    """Prepares the pending pods of a loop; remembers where those went that fitted somewhere."""

    def __init__(self, options: AutoscalingOptions) -> None:
        self._options = options
        self._hints = HintingSimulator()
        self._allowed = frozenset(options.allowed_scheduler_names)

    def unschedulable(self, observation: Observation) -> list[ObservedPod]:
        """The pods that the scheduler could not place, in order of creation."""
        found = [pod for pod in observation.waiting.values() if pod.deleted is None and self._counts(pod)]
        return sorted(found, key=lambda pod: pod.number)

    def _counts(self, pod: ObservedPod) -> bool:
        return pod.unschedulable and (not self._allowed or pod.info.pod.spec.scheduler_name in self._allowed)

    def to_help(
        self, observation: Observation, snapshot: ClusterSnapshot, draining: Iterable[str]
    ) -> tuple[list[PodInfo], int]:
        """(pods that fit nowhere, number of pods that were placed in the snapshot).

        Pods of draining nodes are taken in: they will have to go somewhere too.
        """
        cutoff = self._options.expendable_pods_priority_cutoff
        pods = [pod.info for pod in self.unschedulable(observation) if not is_expendable(pod.info.pod, cutoff)]
        pods.extend(_drained(observation, snapshot, draining))
        if not pods:
            self._hints.drop_old_hints()
            return [], 0
        pods = go_sorted(pods, lambda pod: -pod.priority)
        placed = self._hints.try_schedule(snapshot, pods)
        self._hints.drop_old_hints()
        rest = [pod for pod in pods if pod.uid not in placed and not is_daemon_set_pod(pod)]
        return rest, len(placed)

    def old_enough(self, observation: Observation, pods: Sequence[PodInfo], now: int) -> list[PodInfo]:
        """The pods that are older than the flag's, or their own, delay."""
        return [pod for pod in pods if now - observation.facts(pod).created > self._delay(pod)]

    def _delay(self, pod: PodInfo) -> int:
        delay = self._options.new_pod_scale_up_delay
        text = pod.pod.metadata.annotations.get(SCALE_UP_DELAY)
        if text is None:
            return delay
        try:
            own = parse_duration(text)
        except ValueError:
            return delay
        return max(delay, own)


def all_are_new(observation: Observation, pods: Iterable[PodInfo], now: int) -> bool:
    """Whether it is worth while to wait a loop for more pods."""
    oldest, oldest_gpu = now, None
    for pod in pods:
        created = observation.facts(pod).created
        oldest = min(oldest, created)
        if requests_gpu(pod):
            oldest_gpu = created if oldest_gpu is None else min(oldest_gpu, created)
    if oldest + NEW_FOR > now:
        return True
    return oldest_gpu is not None and oldest_gpu + NEW_GPU_FOR > now


def without_node(interner: PodInterner, pod: PodInfo) -> PodInfo:
    """The pod as if it were to be placed anew."""
    if not pod.pod.spec.node_name:
        return pod
    return PodInfo(replace(pod.pod, spec=replace(pod.pod.spec, node_name="")), pod.shape)


def _drained(observation: Observation, snapshot: ClusterSnapshot, draining: Iterable[str]) -> list[PodInfo]:
    found = []
    for name in draining:
        info = snapshot.get(name)
        for pod in info.pods if info is not None else ():
            if not pod.terminating and is_recreatable(pod):
                found.append(without_node(observation.interner, pod))
    return found
