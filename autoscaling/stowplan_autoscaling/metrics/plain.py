"""A metrics server without its own ways: it measures all running pods now and then, and publishes a little later.

This is the metrics server of the comparison with the real controllers (tests/conformance/controllers): at
phase + k * interval every running pod on a present node is measured, `delay` later the result replaces the one before.
Beside `MetricsServer` it is the model to take where the path from use to metric is not the question.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.hpa.metrics import MetricsError, PodMetric
from stowplan_autoscaling.kernel import SECOND, whole_seconds
from stowplan_scheduler.selectors import LabelQuery

from .faults import Outage, lacking, outage_at
from .pod_index import PodIndex
from .usage import CPU, MEMORY, ContainerShare, InstantUsage, Shares, shares_by_request


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConfig:
    """Times in nanoseconds."""

    interval: int = 15 * SECOND
    """Between measurements; 0: measured whenever somebody asks."""
    phase: int = 0
    """Of the first measurement, after the start."""
    delay: int = 0
    """From measurement to publication."""
    window: int = 15 * SECOND
    """What the samples say about the time they cover."""
    warmup: int = 0
    """Pods that run for less than this are left out."""
    early: int = 0
    """How much before its nominal time a measurement is taken. It is stamped with the nominal time."""
    outages: tuple[Outage, ...] = ()


@dataclass(frozen=True, slots=True)
class _Running:
    node: str
    since: int
    shares: tuple[ContainerShare, ...]


@dataclass(frozen=True, slots=True)
class _Result:
    time: int
    usage: dict[str, tuple[int, int]]  # by uid: CPU and memory in milli units


_NOTHING = _Result(0, {})


class PlainMetricsServer:
    """The resource metrics API, measured at fixed times."""

    def __init__(
        self,
        config: PlainConfig = PlainConfig(),
        *,
        usage: InstantUsage,
        index: PodIndex,
        start: int,
        shares: Shares = shares_by_request,
    ) -> None:
        self.config = config
        self._usage = usage
        self._index = index
        self._shares = shares
        self._running: dict[str, _Running] = {}
        self._absent: set[str] = set()
        self._next = start + config.phase - config.early
        self._waiting: deque[tuple[int, _Result]] = deque()
        self._result = _NOTHING

    # ---- what happens in the cluster

    def node_added(self, name: str) -> None:
        """A node object appears, or a lost one answers again."""
        self._absent.discard(name)

    def node_lost(self, name: str) -> None:
        """Nobody can measure the pods of that node."""
        self._absent.add(name)

    def node_removed(self, name: str) -> None:
        """As a lost node: its pods are not measured."""
        self._absent.add(name)

    def pod_started(self, pod: ClusterPod, now: int) -> None:
        """The containers of a bound pod run."""
        self._running.setdefault(pod.metadata.uid, _Running(pod.spec.node_name, now, self._shares(pod)))

    def container_restarted(self, uid: str, container: str | None, now: int) -> None:
        """Restarts do not show here."""

    def pod_ended(self, uid: str) -> None:
        """The containers of a pod are gone."""
        self._running.pop(uid, None)

    # ---- measurements

    def next_event(self) -> int | None:
        """When something is to be done next; None if never."""
        if self.config.interval <= 0:
            return None
        return min(self._next, self._waiting[0][0]) if self._waiting else self._next

    def advance(self, now: int) -> None:
        """Do everything that is due."""
        while (due := self.next_event()) is not None and due <= now:
            if self._waiting and self._waiting[0][0] <= due:
                self._result = self._waiting.popleft()[1]
            else:
                self._waiting.append((due + self.config.delay, self._measure(due)))
                self._next += self.config.interval

    def _measure(self, now: int) -> _Result:
        uids = [
            uid
            for uid, pod in self._running.items()
            if pod.node not in self._absent and now - pod.since >= self.config.warmup
        ]
        cpu, memory = self._usage.measure(uids, now)
        usage = dict(zip(uids, zip(cpu, memory, strict=True), strict=True))
        return _Result(whole_seconds(now + self.config.early), usage)

    # ---- the API

    def resource(
        self, resource: str, namespace: str, selector: LabelQuery, container: str | None, now: int
    ) -> tuple[Mapping[str, PodMetric], int]:
        """See MetricsClient.resource."""
        outages = self.config.outages
        failure = outage_at(outages, "error", now)
        if failure is not None:
            raise MetricsError.unavailable("resource", failure.reason)
        result = self._measure(now) if self.config.interval <= 0 else self._result
        without = lacking(outages, now)
        members = self._index.members(namespace, selector)
        shown = [
            (name, uid)
            for name, uid in zip(members.names, members.uids, strict=True)
            if uid in result.usage and name not in without
        ]
        if not shown or outage_at(outages, "empty", now) is not None:
            raise MetricsError.nothing("resource")
        if resource not in {CPU, MEMORY}:
            return {}, result.time
        which = 0 if resource == CPU else 1
        answer: dict[str, PodMetric] = {}
        for name, uid in shown:
            value = result.usage[uid][which]
            if container is not None:
                pod = self._running.get(uid)
                part = None if pod is None else share_of(value, container, pod.shares, which)
                if part is None:
                    continue
                value = part
            answer[name] = PodMetric(result.time, self.config.window, value)
        return answer, result.time


def share_of(value: int, container: str, shares: Sequence[ContainerShare], which: int) -> int | None:
    """A container's part of a pod's amount: cut to whole units, the last container gets the rest; None if unknown."""
    rest = value
    for position, share in enumerate(shares):
        part = int(value * (share.cpu, share.memory)[which]) if position < len(shares) - 1 else rest
        if share.name == container:
            return part
        rest -= part
    return None
