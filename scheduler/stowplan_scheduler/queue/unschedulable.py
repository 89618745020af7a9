"""Pods that wait for something to change: rejected ones, and gated ones that were never tried.

Besides the pods themselves an index by rejector is kept: an event looks only at pods rejected by a plugin that listens
to it, and costs nothing if there is none. The lower bound on the waiting time does the same for the periodic flush.

Follows pkg/scheduler/backend/queue/unschedulable_entities.go of Kubernetes v1.37.2 for pods; the index is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .queued_pod import QueuedPodInfo

Rejector = tuple[str, str]
"""(scheduler name, plugin name): plugins of one name listen to other events in other profiles."""


class _Filed(NamedTuple):
    """How a pod was entered, so that it can be taken out whatever has changed since."""

    rejectors: tuple[Rejector, ...]
    gated: bool


class UnschedulablePods:
    """The pods by key, and by rejector."""

    __slots__ = ("_by_rejector", "_filed", "_oldest", "_pods", "gated_count")

    def __init__(self) -> None:
        """No pod yet."""
        self._pods: dict[str, QueuedPodInfo] = {}
        self._filed: dict[str, _Filed] = {}
        self._by_rejector: dict[Rejector, dict[str, QueuedPodInfo]] = {}
        self._oldest: int | None = None
        self.gated_count = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All pods, in the order in which they were parked."""
        return iter(self._pods.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod with this key."""
        return self._pods.get(key)

    def park(self, pod: QueuedPodInfo) -> bool:
        """Add a pod, or enter it anew after its rejectors or its gate changed. Whether it is new here."""
        is_new = self.remove(pod.key) is None
        name = pod.scheduler_name
        filed = _Filed(tuple((name, plugin) for plugin in sorted(pod.rejectors)), pod.is_gated)
        self._pods[pod.key] = pod
        self._filed[pod.key] = filed
        self.gated_count += filed.gated
        for rejector in filed.rejectors:
            self._by_rejector.setdefault(rejector, {})[pod.key] = pod
        looked_at = pod.last_looked_at
        self._oldest = looked_at if self._oldest is None else min(self._oldest, looked_at)
        return is_new

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod with this key, if it is here."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        filed = self._filed.pop(key)
        self.gated_count -= filed.gated
        for rejector in filed.rejectors:
            others = self._by_rejector[rejector]
            del others[key]
            if not others:
                del self._by_rejector[rejector]
        if not self._pods:
            self._oldest = None
        return pod

    def rejected_by(self, rejectors: Iterable[Rejector]) -> list[QueuedPodInfo]:
        """The pods that any of these rejected, each once, in an order that depends on the history alone."""
        lists = [found for rejector in rejectors if (found := self._by_rejector.get(rejector))]
        if len(lists) == 1:
            return list(lists[0].values())
        merged: dict[str, QueuedPodInfo] = {}
        for found in lists:
            merged.update(found)
        return list(merged.values())

    @property
    def oldest(self) -> int | None:
        """No pod has waited since before this instant; None without pods. A bound: that pod may have left."""
        return self._oldest

    def waiting_since_before(self, instant: int) -> list[QueuedPodInfo]:
        """The pods that nobody has looked at since before `instant`. Costs nothing while the bound rules them out."""
        if self._oldest is None or self._oldest >= instant:
            return []
        self._oldest = min(pod.last_looked_at for pod in self._pods.values())
        return [pod for pod in self._pods.values() if pod.last_looked_at < instant]

    def problems(self) -> list[str]:
        """What is inconsistent: the index, the counts, pods that nothing but a timeout could wake."""
        found = [f"{pod.key} is unschedulable without a rejector" for pod in self if not pod.rejectors]
        expected: dict[Rejector, dict[str, QueuedPodInfo]] = {}
        for pod in self:
            for plugin in sorted(pod.rejectors):
                expected.setdefault((pod.scheduler_name, plugin), {})[pod.key] = pod
        if expected != self._by_rejector:
            found.append("the index by rejector is stale")
        if self.gated_count != sum(pod.is_gated for pod in self):
            found.append("the count of gated pods is wrong")
        if self._pods and (self._oldest is None or self._oldest > min(pod.last_looked_at for pod in self)):
            found.append("a pod has waited longer than the bound says")
        return found
