"""What the metrics path measures: the use of pods, as a model of demand knows it.

A measurement is taken at a moment that lies in the past when somebody reads it, so a source must be able to look back
by `MetricsServer.history`: the oldest moment that is still asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_scheduler.objects import Container
from stowplan_scheduler.quantity import parse_quantity

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CPU: Final = "cpu"
MEMORY: Final = "memory"


class UsageSource(Protocol):
    """The use of one pod at a time; all its containers together."""

    def cpu_seconds(self, pod_uid: str, a: int, b: int) -> float:
        """CPU time used in [a, b), in core seconds: the exact integral of the pod's CPU use. a, b in nanoseconds."""
        ...

    def memory(self, pod_uid: str, t: int) -> int:
        """Working set at t, in bytes."""
        ...


UNKNOWN: Final = -1
"""The handle of a pod that a source does not know (yet)."""


class UsageBatch(Protocol):
    """The use of many pods at once: what a source for tens of thousands of pods implements.

    Pods are asked about by handles, numbers that the source gives them.
    """

    @property
    def epoch(self) -> int:
        """Handles hold as long as this stays the same."""
        ...

    def handles(self, pod_uids: Sequence[str]) -> Ints:
        """The handles of pods, UNKNOWN for those that have none."""
        ...

    def use_of(self, handles: Ints, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        """CPU time of pod i in [a[i], b[i]), in core seconds, and its working set at b[i], in bytes.

        Both 0 if it is unknown. A pod can occur more than once.
        """
        ...


class InstantUsage(Protocol):
    """The use of pods at the very moment of asking, for the plain metrics server."""

    def measure(self, pod_uids: Sequence[str], now: int) -> tuple[Sequence[int], Sequence[int]]:
        """CPU and memory of each pod, in milli units (millicores; thousandths of a byte)."""
        ...


class EachPod:
    """A UsageBatch that asks a UsageSource pod by pod."""

    def __init__(self, source: UsageSource) -> None:
        self._source = source
        self._uids: list[str] = []
        self._handles: dict[str, int] = {}
        self.epoch = 0

    def handles(self, pod_uids: Sequence[str]) -> Ints:
        for uid in pod_uids:
            if uid not in self._handles:
                self._handles[uid] = len(self._uids)
                self._uids.append(uid)
        return np.fromiter((self._handles[uid] for uid in pod_uids), np.int64, len(pod_uids))

    def use_of(self, handles: Ints, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        uids, ends = [self._uids[handle] for handle in handles.tolist()], b.tolist()
        seconds = np.fromiter(map(self._source.cpu_seconds, uids, a.tolist(), ends), np.float64, len(uids))
        return seconds, np.fromiter(map(self._source.memory, uids, ends), np.int64, len(uids))


@dataclass(frozen=True, slots=True)
class ContainerShare:
    """A container and its part of the pod's use; the parts of a pod sum to 1."""

    name: str
    cpu: float = 1.0
    memory: float = 1.0


Shares = Callable[[ClusterPod], tuple[ContainerShare, ...]]
"""How a pod's use divides over its containers."""


def shares_by_request(pod: ClusterPod) -> tuple[ContainerShare, ...]:
    """The default division: in proportion to requests, evenly where a container of the pod has none.

    Sidecars (restartable init containers) are containers like others here; ordinary init containers have ended.
    """
    containers = [*(c for c in pod.spec.init_containers if c.restart_policy == "Always"), *pod.spec.containers]
    cpu, memory = _parts(containers, CPU), _parts(containers, MEMORY)
    return tuple(ContainerShare(c.name, cpu[i], memory[i]) for i, c in enumerate(containers))


def _parts(containers: Sequence[Container], resource: str) -> list[float]:
    amounts = [parse_quantity((c.resources.requests or {}).get(resource, 0)) for c in containers]
    if all(amounts):
        return [amount / sum(amounts) for amount in amounts]
    return [1 / len(amounts)] * len(amounts)
