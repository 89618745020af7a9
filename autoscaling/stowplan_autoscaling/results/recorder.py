"""Takes what happens in a run, passes it on to a sink, and adds it up to the report.

recorder = Recorder(RunHeader.of(loaded), sink)
recorder.row(WorkloadSample(...))            # at each sample, attempt, end of a pod ...
recorder.event(EventRecord(...))
recorder.count("oom_kills", "Deployment shop/web")
recorder.reached(seconds)                    # often; writes a checkpoint now and then
report = recorder.finish(seconds)            # or finish(seconds, stopped="interrupted")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from stowplan_autoscaling.prices import NO_PRICES, PriceBook
from stowplan_autoscaling.resources.values import format_duration
from stowplan_autoscaling.supply.stock_outs import times_without_machines
from stowplan_scheduler import __version__
from stowplan_scheduler.timestamps import format_time

from .levels import rounded
from .records import (
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    EventRecord,
    NodeRecord,
    NodeSample,
    PodRecord,
    PoolSample,
    Row,
    ServiceSample,
    SupplyRecord,
    WorkloadSample,
)
from .report import SCHEMA, ContentionReport, InputsReport, LoopReport, ObjectiveReport, PoolReport, RunReport
from .sink import ResultSink
from .supply_findings import SupplyFindings
from .supply_tallies import CostTally, LoopTally, Paid, PoolTally
from .tallies import (
    AutoscalerTally,
    ClusterTally,
    NodeTally,
    ObjectiveTally,
    SchedulingTally,
    ServiceTally,
    WaitingTally,
    WorkloadTally,
)

if TYPE_CHECKING:
    from stowplan_autoscaling.resources import LoadedSimulation

KUBERNETES: Final = "v1.37.2"
"""Whose behaviour is simulated."""

INTERRUPTED: Final = "interrupted"

_NANO: Final = 10**9
_CHECKPOINTS: Final = 48
"""So many checkpoints are written in a run."""

Count = Literal["oom_kills", "evictions", "preempted", "nodes_lost", "throttled_core_seconds"]


class UnfinishedError(RuntimeError):
    """A run that could not reach its end: a stated bound was passed. What was finished is in `report`."""

    def __init__(self, message: str, report: RunReport) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingObjective:
    """An objective about the time until pods are ready, in seconds; "" is about all workloads."""

    workload: str
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What is known before a run begins. `objectives`: name -> share that must hold. `duration` in seconds.

    `sold_out`: times (begin, end), in seconds, in which nobody who wants a node can have one.
    """

    inputs: InputsReport
    duration: float
    warnings: tuple[str, ...] = ()
    objectives: tuple[tuple[str, float], ...] = ()
    pending: tuple[tuple[str, PendingObjective], ...] = ()
    prices: PriceBook = NO_PRICES
    loops: tuple[LoopReport, ...] = ()
    sold_out: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, loaded: LoadedSimulation, loops: tuple[LoopReport, ...] = ()) -> Self:
        """That of a simulation. `loops`: what is known of its control loops."""
        spec = loaded.spec
        return cls(
            inputs=InputsReport(
                name=loaded.name,
                digest=loaded.digest,
                seed=spec.seed,
                start=format_time(spec.start),
                version=__version__,
                kubernetes=KUBERNETES,
            ),
            duration=spec.duration / _NANO,
            warnings=loaded.warnings,
            loops=loops,
            sold_out=_sold_out(loaded),
            prices=loaded.prices,
            objectives=tuple((objective.name, objective.share) for objective in spec.slo),
            pending=tuple(
                (
                    objective.name,
                    PendingObjective(
                        workload="" if objective.target is None else str(objective.target),
                        within=objective.pending / _NANO,
                    ),
                )
                for objective in spec.slo
                if objective.pending is not None
            ),
        )


def _sold_out(loaded: LoadedSimulation) -> tuple[tuple[float, float], ...]:
    spec = loaded.spec
    if spec.supply.none is not None:
        return ()
    times = times_without_machines(loaded.pools, spec.provider.stock_outs, spec.duration)
    return tuple((begin / _NANO, end / _NANO) for begin, end in times)


class Recorder:
    """The results of one run. Rows and events must come in the order of virtual time."""

    def __init__(self, header: RunHeader, sink: ResultSink) -> None:
        self.header = header
        self._sink = sink
        duration = header.duration
        self._duration = duration
        self._every = duration / _CHECKPOINTS
        self._next = self._every
        self._now = 0.0
        self._events: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._throttled = 0.0
        self._cluster = ClusterTally()
        self._nodes: dict[str, NodeTally] = {}
        self._workloads: dict[str, WorkloadTally] = {}
        self._services: dict[str, ServiceTally] = {}
        self._autoscalers: dict[str, AutoscalerTally] = {}
        self._objectives = {name: ObjectiveTally(name, share) for name, share in header.objectives}
        self._scheduling = SchedulingTally()
        self._waiting = WaitingTally()
        self._pools: dict[str, PoolTally] = {}
        self._cost = CostTally(header.prices, duration)
        self._supply = SupplyFindings(header.sold_out)
        self._loops = {about.loop: LoopTally(about) for about in header.loops}
        self._takers: dict[type[Row], Callable[[Any], bool | None]] = {
            WorkloadSample: lambda row: self._workload(row.workload).take(row),
            ServiceSample: lambda row: self._service(row.demand).take(row),
            AutoscalerSample: self._take_sync,
            NodeSample: lambda row: self._node(row.node).take(row),
            ClusterSample: self._take_cluster,
            AttemptRecord: self._scheduling.take,
            PodRecord: self._take_pod,
            PoolSample: lambda row: self._pool(row.pool).take(row),
            NodeRecord: self._take_node,
            SupplyRecord: self._take_supply,
        }
        """What counts the rows of a table; False leaves a row out."""
        sink.checkpoint(self.report(0.0))

    # ---- taking things in ------------------------------------------------------------------------------------------

    def row(self, row: Row) -> None:
        """One row of any table."""
        if self._takers[type(row)](row) is not False:
            self._sink.row(row)

    def event(self, event: EventRecord) -> None:
        """One event."""
        self._events[event.reason] += 1
        self._sink.event(event)

    def count(self, what: Count, workload: str = "", amount: float = 1) -> None:
        """Something that is only counted, of a workload or of nobody's."""
        if what == "throttled_core_seconds":
            self._throttled += amount
        else:
            self._counts[what] += int(amount)
        if workload and what in {"oom_kills", "evictions", "throttled_core_seconds"}:
            self._workload(workload).count(what, amount)

    def objective(self, name: str, *, total: float, missed: float, missed_seconds: float = 0.0) -> None:
        """So many requests (or so much time) more, of which so much missed the objective."""
        self._objectives[name].add(total, missed, missed_seconds)

    def paid(self, node: str, paid: Paid) -> None:
        """A node is paid for from now on."""
        self._cost.begin(node, paid)

    def no_longer_paid(self, node: str, seconds: float) -> None:
        """It is so no more."""
        self._cost.end(node, seconds)

    def cannot_take(self, pod: str, workload: str, created: float, reasons: Mapping[str, str]) -> None:
        """No pool can ever take a pod that was made at that second; `reasons` by pool."""
        self._supply.cannot_take(pod, workload, created, reasons)

    def loop_ran(self, loop: str) -> None:
        """A control loop has looked at the cluster."""
        if loop in self._loops:
            self._loops[loop].runs += 1

    def preempted(self, pods: int) -> None:
        """An attempt that made room by removing pods."""
        self._scheduling.preemptions += 1
        self.count("preempted", amount=pods)

    def reached(self, seconds: float) -> None:
        """So far has virtual time come; a checkpoint is written when it is due. Call it before the last pods' rows."""
        self._now = seconds
        if seconds >= self._next:
            self._next = (seconds // self._every + 1) * self._every
            self._sink.checkpoint(self.report(seconds))

    def finish(self, seconds: float, *, stopped: str = "") -> RunReport:
        """The end of the run, complete unless something stopped it. Tells the sink."""
        report = self.report(seconds, complete=not stopped, stopped=stopped)
        self._sink.finish(report)
        return report

    def _take_sync(self, row: AutoscalerSample) -> None:
        found = self._autoscalers.get(row.autoscaler)
        if found is None:
            found = self._autoscalers[row.autoscaler] = AutoscalerTally(row.autoscaler)
        found.take(row)
        loop = self._loops.get(row.autoscaler)
        if loop is not None:
            loop.take_sync(row)

    def _take_cluster(self, row: ClusterSample) -> None:
        self._cluster.take(row)
        self._supply.take_cluster(row)

    def _take_node(self, row: NodeRecord) -> None:
        self._pool(row.pool).take_node(row)
        self._supply.take_node(row)

    def _take_supply(self, row: SupplyRecord) -> None:
        self._supply.take_supply(row)
        if row.loop in self._loops:
            self._loops[row.loop].take(row)

    def _take_pod(self, row: PodRecord) -> None:
        self._waiting.take(row)
        self._supply.take_pod(row)
        if row.workload:
            self._workload(row.workload).take_pod(row)
        for name, objective in self.header.pending:
            late = self._is_late(row, objective.within)
            if objective.workload in {"", row.workload} and late is not None:
                self._objectives[name].add(1, late, 0.0)

    def _is_late(self, row: PodRecord, within: float) -> bool | None:
        """None for a pod that was removed before it was ready, or is too young to tell."""
        if row.ready is not None:
            return row.ready - row.created > within
        waits_still = row.ended is None and self._now - row.created > within
        return True if waits_still else None

    def _workload(self, name: str) -> WorkloadTally:
        found = self._workloads.get(name)
        if found is None:
            found = self._workloads[name] = WorkloadTally(name, self._duration)
        return found

    def _service(self, name: str) -> ServiceTally:
        found = self._services.get(name)
        if found is None:
            found = self._services[name] = ServiceTally(name, self._duration)
        return found

    def _node(self, name: str) -> NodeTally:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = NodeTally(name)
        return found

    def _pool(self, name: str) -> PoolTally:
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = PoolTally(name, self._duration)
        return found

    # ---- the report ------------------------------------------------------------------------------------------------

    def report(self, seconds: float, *, complete: bool = False, stopped: str = "") -> RunReport:
        """What is known at a moment."""
        if not complete and not stopped:
            stopped = f"at {format_duration(round(seconds * 1000) * 1_000_000)} of the run"
        objectives: tuple[ObjectiveReport, ...] = tuple(tally.report() for tally in self._objectives.values())
        return RunReport(
            schema=SCHEMA,
            complete=complete,
            stopped=stopped,
            reached=rounded(seconds),
            duration=rounded(self._duration),
            inputs=self.header.inputs,
            warnings=self.header.warnings,
            cluster=self._cluster.report(seconds, [self._nodes[name].report(seconds) for name in sorted(self._nodes)]),
            workloads=tuple(self._workloads[name].report(seconds) for name in sorted(self._workloads)),
            services=tuple(tally.report(seconds) for tally in self._services.values()),
            objectives=objectives,
            autoscalers=tuple(self._autoscalers[name].report(seconds) for name in sorted(self._autoscalers)),
            waiting=self._waiting.report(),
            scheduling=self._scheduling.report(),
            contention=ContentionReport(
                throttled_core_seconds=rounded(self._throttled),
                oom_kills=self._counts["oom_kills"],
                evictions=self._counts["evictions"],
                preempted=self._counts["preempted"],
                nodes_lost=self._counts["nodes_lost"],
            ),
            events=dict(sorted(self._events.items())),
            pools=self._pool_reports(seconds),
            cost=self._cost.report(seconds),
            loops=tuple(tally.report() for tally in self._loops.values()),
            findings=(
                *(found for name in sorted(self._pools) if (found := self._pools[name].churn(seconds))),
                *self._supply.texts(seconds),
            ),
        )

    def _pool_reports(self, seconds: float) -> tuple[PoolReport, ...]:
        paid = self._cost.hours(seconds)
        reports = []
        for name in sorted(self._pools):
            hours, cost = paid.get(name, (0.0, 0.0))
            reports.append(self._pools[name].report(seconds, node_hours=hours, cost=cost))
        return tuple(reports)
