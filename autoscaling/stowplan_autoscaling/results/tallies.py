"""What the report says about each workload, service, node and so on, added up row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .levels import Counted, Curve, Held, Values, rounded
from .records import (
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    NodeSample,
    PodRecord,
    ServiceSample,
    Waiting,
    WorkloadSample,
)
from .report import (
    AutoscalerReport,
    ClusterReport,
    NodeReport,
    ObjectiveReport,
    SchedulingReport,
    ServiceReport,
    WaitingReport,
    WorkloadReport,
)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class WaitingTally:
    """Pods and how long they waited."""

    def __init__(self) -> None:
        self._ready = Values()
        self._sums = [0.0] * len(Waiting._fields)
        self._never = 0

    def take(self, row: PodRecord) -> None:
        """One pod. The wait of one that an autoscaler wanted begins before it was created."""
        if row.ready is None:
            self._never += 1
            return
        before = row.waiting.metric + row.waiting.autoscaler + row.waiting.controller
        self._ready.add(row.ready - row.created + before)
        for index, part in enumerate(row.waiting):
            self._sums[index] += part

    def report(self) -> WaitingReport:
        """What they come to."""
        ready = self._ready.distribution()
        split = {
            name: rounded(_share(total, ready.count)) for name, total in zip(Waiting._fields, self._sums, strict=True)
        }
        return WaitingReport(ready=ready, split=split, never_ready=self._never)


class WorkloadTally:
    """One workload."""

    def __init__(self, name: str, duration: float) -> None:
        self._name = name
        self._replicas, self._ready, self._pending, self._cpu = Held(), Held(), Held(), Held()
        self._curve = Curve(duration)
        self._created = 0
        self._counts: Counter[str] = Counter()
        self._throttled = 0.0
        self._waiting = WaitingTally()

    def take(self, row: WorkloadSample) -> None:
        """A sample."""
        self._replicas.set(row.seconds, row.replicas)
        self._ready.set(row.seconds, row.ready)
        self._pending.set(row.seconds, row.pending)
        self._cpu.set(row.seconds, row.cpu_used)
        self._curve.set(row.seconds, row.ready)

    def take_pod(self, row: PodRecord) -> None:
        """A pod at its end."""
        self._created += 1
        self._waiting.take(row)

    def count(self, what: str, amount: float) -> None:
        """Something that happened to its pods."""
        if what == "throttled_core_seconds":
            self._throttled += amount
        else:
            self._counts[what] += int(amount)

    def report(self, until: float) -> WorkloadReport:
        """What it comes to."""
        return WorkloadReport(
            workload=self._name,
            replicas=self._replicas.level(until),
            ready=self._ready.level(until),
            pending=self._pending.level(until),
            cpu_used=self._cpu.level(until),
            pods_created=self._created,
            throttled_core_seconds=rounded(self._throttled),
            oom_kills=self._counts["oom_kills"],
            evictions=self._counts["evictions"],
            waiting=self._waiting.report(),
            curve=self._curve.means(until),
        )


class ServiceTally:
    """One entry of spec.demand. Rates are those since the sample before; the latency is that of the moment."""

    def __init__(self, name: str, duration: float) -> None:
        self._name = name
        self._last: float | None = None
        self._offered = self._served = self._failed = self._latency = self._timed = 0.0
        self._worst: float | None = None
        self._age = 0.0
        self._queue = Held()
        self._curve = Curve(duration)

    def take(self, row: ServiceSample) -> None:
        """A sample."""
        self._add_up(row)
        self._last = row.seconds
        self._queue.set(row.seconds, row.queue_length)
        self._curve.set(row.seconds, row.offered)
        self._age = max(self._age, row.queue_age)
        if row.latency is not None:
            self._worst = max(self._worst or 0.0, row.latency)

    def _add_up(self, row: ServiceSample) -> None:
        """What the rates come to since the last sample."""
        length = 0.0 if self._last is None else row.seconds - self._last
        self._offered += row.offered * length
        self._served += row.served * length
        self._failed += row.failed * length
        if row.latency is not None:
            self._latency += row.latency * row.served * length
            self._timed += row.served * length

    def report(self, until: float) -> ServiceReport:
        """What it comes to."""
        return ServiceReport(
            demand=self._name,
            offered=rounded(self._offered),
            served=rounded(self._served),
            failed=rounded(self._failed),
            latency=rounded(self._latency / self._timed) if self._timed else None,
            worst_latency=None if self._worst is None else rounded(self._worst),
            queue_length=self._queue.level(until),
            worst_queue_age=rounded(self._age),
            curve=self._curve.means(until),
        )


class ObjectiveTally:
    """One objective."""

    def __init__(self, name: str, wanted: float) -> None:
        self._name = name
        self._wanted = wanted
        self._total = self._missed = self._seconds = 0.0

    def add(self, total: float, missed: float, missed_seconds: float) -> None:
        """So much more."""
        self._total += total
        self._missed += missed
        self._seconds += missed_seconds

    def report(self) -> ObjectiveReport:
        """What it comes to. Nothing at all is no miss."""
        share = rounded(1 - _share(self._missed, self._total))
        return ObjectiveReport(
            name=self._name,
            wanted=self._wanted,
            share=share,
            met=share >= self._wanted,
            total=rounded(self._total),
            missed=rounded(self._missed),
            missed_seconds=rounded(self._seconds),
        )


class AutoscalerTally:
    """One HPA or scaled object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._syncs = self._ups = self._downs = 0
        self._desired = Held()
        self._reasons: Counter[str] = Counter()

    def take(self, row: AutoscalerSample) -> None:
        """A sync."""
        self._syncs += 1
        self._ups += row.desired > row.current
        self._downs += row.desired < row.current
        self._desired.set(row.seconds, row.desired)
        if row.reason:
            self._reasons[row.reason] += 1

    def report(self, until: float) -> AutoscalerReport:
        """What it comes to."""
        return AutoscalerReport(
            autoscaler=self._name,
            syncs=self._syncs,
            scale_ups=self._ups,
            scale_downs=self._downs,
            desired=self._desired.level(until),
            stopped_by=dict(sorted(self._reasons.items())),
        )


class SchedulingTally:
    """All attempts."""

    def __init__(self) -> None:
        self._results: Counter[str] = Counter()
        self._evaluated, self._feasible = Counted(), Counted()
        self.preemptions = 0

    def take(self, row: AttemptRecord) -> None:
        """An attempt."""
        self._results[row.result] += 1
        self._evaluated.add(row.evaluated)
        if row.result == "Scheduled":
            self._feasible.add(row.feasible)

    def report(self) -> SchedulingReport:
        """What they come to."""
        return SchedulingReport(
            attempts=sum(self._results.values()),
            scheduled=self._results["Scheduled"],
            unschedulable=self._results["Unschedulable"],
            errors=self._results["Error"],
            preemptions=self.preemptions,
            evaluated=self._evaluated.counts(),
            feasible=self._feasible.counts(),
        )


class NodeTally:
    """One node."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._cpu, self._memory, self._pods = Held(), Held(), Held()
        self._last: NodeSample | None = None
        self._gone: float | None = None

    def take(self, row: NodeSample) -> bool:
        """A change; False for a row that says what the last one said."""
        if self._last is not None and self._last[1:] == row[1:]:
            return False
        self._last = row
        self._cpu.set(row.seconds, _share(row.cpu_requested, row.cpu_allocatable))
        self._memory.set(row.seconds, _share(row.memory_requested, row.memory_allocatable))
        self._pods.set(row.seconds, row.pods)
        self._gone = row.seconds if row.state == "Gone" else None
        return True

    def report(self, until: float) -> NodeReport:
        """What it comes to, while it was there."""
        until = until if self._gone is None else self._gone
        return NodeReport(
            node=self._name,
            cpu=self._cpu.level(until),
            memory=self._memory.level(until),
            pods=self._pods.level(until),
        )


class ClusterTally:
    """All nodes together."""

    def __init__(self) -> None:
        self._held = {
            name: Held()
            for name in (
                "nodes",
                "in_use",
                "pods",
                "pending",
                "cpu_requested",
                "cpu_used",
                "memory_requested",
                "memory_used",
            )
        }

    def take(self, row: ClusterSample) -> None:
        """A sample."""
        values = {
            "nodes": row.nodes,
            "in_use": row.in_use,
            "pods": row.pods,
            "pending": row.pending,
            "cpu_requested": _share(row.cpu_requested, row.cpu_allocatable),
            "cpu_used": _share(row.cpu_used, row.cpu_allocatable),
            "memory_requested": _share(row.memory_requested, row.memory_allocatable),
            "memory_used": _share(row.memory_used, row.memory_allocatable),
        }
        for name, value in values.items():
            self._held[name].set(row.seconds, value)

    def report(self, until: float, packing: Sequence[NodeReport]) -> ClusterReport:
        """What it comes to."""
        levels = {name: held.level(until) for name, held in self._held.items()}
        return ClusterReport(**levels, packing=tuple(packing))
