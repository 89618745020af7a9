"""Rows of the results: at every sampling period for workloads, services, nodes, cluster; one per attempt and per pod.

Also what objectives count: requests and their latency between looks, time with a queue that is too old.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from stowplan_autoscaling.cluster.controllers.node_lifecycle.conditions import ready_status
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod
from stowplan_autoscaling.contention.memory import OOM_KILLED
from stowplan_autoscaling.demand import Service
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.results import (
    AttemptRecord,
    ClusterSample,
    EventRecord,
    NodeSample,
    PodRecord,
    ServiceSample,
    WorkloadSample,
)
from stowplan_scheduler.effects import AttemptFailed, Bind, DeleteVictim, Effect, RecordEvent
from stowplan_scheduler.quantity import milli_value, parse_quantity, value

from .metrics_engine import in_flight
from .node_pools import NodePools, Room
from .pods import PENDING, READY, STARTING, TERMINATING, PodBook, PodLife, Workload
from .roster import Floats
from .waiting import waiting_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan_autoscaling.cluster.kubelet import Kubelets, PodTimeline
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.resources.faults import Objective
    from stowplan_scheduler.framework.runtime import Decision
    from stowplan_scheduler.queue import QueuedPodInfo

    from .arrivals import JobStream
    from .groups import Entry, Group
    from .load_engine import LoadEngine
    from .misfits import Misfits
    from .world import World


class Observations:
    """The one of a run. `on_sample` is told the seconds at every sample."""

    def __init__(
        self,
        world: World,
        book: PodBook,
        loads: LoadEngine,
        kubelets: Kubelets,
        streams: dict[str, JobStream],
        pools: NodePools,
        on_sample: Callable[[float], None],
    ) -> None:
        self._world = world
        self._book = book
        self._loads = loads
        self._kubelets = kubelets
        self._streams = streams
        self._pools = pools
        self._on_sample = on_sample
        self._attempt: Decision | None = None
        self._ticks = 0
        self._totals: dict[str, tuple[float, float, float]] = {}
        self._last = 0.0
        self._slo = [_Meter(world, objective, loads) for objective in world.spec.slo if objective.demand]
        self._latency: dict[str, float] = {}
        """By demand: the response time that its first objective of latency wants."""
        for meter in self._slo:
            if meter.latency:
                self._latency.setdefault(meter.demand, meter.latency)
        self._rooms: dict[str, Room] = {}
        """By node that exists: what its pods request, and what it has for them."""
        self._ready_nodes = 0
        self.misfits: Misfits | None = None
        """Set where somebody buys nodes."""
        book.on_ended = self.pod_ended
        loads.after_look.append(self._measure)

    def start(self) -> None:
        """The first sample is at the start."""
        self._world.kernel.later(self._world.kernel.now, self._tick)

    def _tick(self) -> None:
        """On a grid of its own: what takes time at an instant does not move the next one."""
        self.sample()
        self._ticks += 1
        kernel = self._world.kernel
        kernel.later(self._world.start + self._ticks * self._world.spec.sampling.period, self._tick)

    def _measure(self, _: list[Group]) -> None:
        if self._slo:
            self._loads.measure()
        for meter in self._slo:
            meter.look()

    # ---- samples -----------------------------------------------------------------------------

    def sample(self) -> None:
        """One row for each of everything."""
        seconds = round(self._world.seconds, 6)
        self._loads.look()
        self._loads.measure()
        cpu, memory, throttled = self._used()
        for workload in self._book.workloads.values():
            self._sample_workload(workload, seconds, cpu, memory, throttled)
        for number, amount in self._loads.throttled.items():
            name = next(each.name for each in self._book.workloads.values() if each.number == number)
            self._world.recorder.count("throttled_core_seconds", name, amount)
        self._loads.throttled.clear()
        for name, entry in self._loads.entries.items():
            self._sample_service(name, entry, seconds)
        for name, stream in self._streams.items():
            self._sample_jobs(name, stream, seconds)
        self._sample_nodes(seconds)
        self._pools.sample(seconds)
        self._sample_cluster(seconds, float(cpu.sum()), float(memory.sum()))
        self._last = seconds
        self._on_sample(seconds)

    def _used(self) -> tuple[Floats, Floats, Floats]:
        """Cores, bytes and throttled cores by number of the workload."""
        roster, count = self._loads.roster, len(self._book.workloads)
        rows = roster.rows
        number = roster.workload[rows]
        cpu: Floats = np.bincount(number, weights=roster.division.granted[rows], minlength=count).astype(np.float64)
        memory: Floats = np.bincount(number, weights=roster.memory[rows], minlength=count).astype(np.float64)
        throttled: Floats = np.bincount(number, weights=roster.division.throttled[rows], minlength=count).astype(
            np.float64
        )
        return cpu, memory, throttled

    def _sample_workload(
        self,
        workload: Workload,
        seconds: float,
        cpu: Floats,
        memory: Floats,
        throttled: Floats,
    ) -> None:
        states, number = workload.states, workload.number
        self._world.recorder.row(
            WorkloadSample(
                seconds,
                workload.name,
                workload.active if workload.replicas is None else workload.replicas,
                workload.active,
                states[PENDING],
                states[STARTING],
                states[READY],
                states[TERMINATING],
                float(cpu[number]),
                workload.cpu / 1000,
                round(float(memory[number])),
                workload.memory,
                float(throttled[number]),
            )
        )

    def _sample_service(self, name: str, entry: Entry, seconds: float) -> None:
        """Rates are means since the sample before, so that the rows add up to what the run served."""
        model = entry.model
        if isinstance(model, Service):
            offered, served, failed = self._rates(name, (model.arrived, model.served, model.dropped))
            (rate, mean), waiting = model.traffic, model.waiting
            latency = None if math.isnan(mean) else mean
            flight = in_flight(rate, mean, waiting)
            within = self._within(name, model)
            row = ServiceSample(seconds, name, offered, served, failed, flight, latency, within, waiting, 0.0)
        else:
            offered, served, failed = self._rates(name, (model.arrived, model.served, 0.0))
            found = model.sample()
            in_hand = min(found.serving, model.capacity) if found.serving else 0.0
            row = ServiceSample(seconds, name, offered, served, failed, in_hand, None, 1.0, found.length, found.age)
        self._world.recorder.row(row)

    def _rates(self, name: str, totals: tuple[float, float, float]) -> list[float]:
        length = self._world.seconds - self._last
        before = self._totals.get(name, totals)
        self._totals[name] = totals
        return [max(now - then, 0.0) / length if length else 0.0 for now, then in zip(totals, before, strict=True)]

    def _within(self, name: str, model: Service) -> float:
        """Share of the requests that meet the demand's latency objective."""
        latency = self._latency.get(name)
        late = math.nan if latency is None else model.response.share_above(latency)
        return 1.0 if math.isnan(late) else 1 - late

    def _sample_jobs(self, name: str, stream: JobStream, seconds: float) -> None:
        offered, served, _ = self._rates(name, (float(stream.arrived), float(stream.finished), 0.0))
        states = self._book.workload(stream.workload).states
        under_way = stream.arrived - stream.finished
        row = ServiceSample(seconds, name, offered, served, 0.0, under_way, None, 1.0, states[PENDING], 0.0)
        self._world.recorder.row(row)

    def _sample_nodes(self, seconds: float) -> None:
        book, nodes = self._book, self._world.server.all("Node")
        for name in book.changed_nodes:
            node: Node | None = nodes.get(name)
            count = book.nodes.get(name)
            pods, cpu, memory = (0, 0, 0) if count is None else (count.pods, count.cpu, count.memory)
            if node is None:
                self._rooms.pop(name, None)
                row = NodeSample(seconds, name, "Gone", pods, cpu / 1000, 0.0, memory, 0)
                room = Room(pods, cpu, memory, 0, 0)
            else:
                has_cpu, has_memory = _allocatable_of(node)
                row = NodeSample(seconds, name, _state_of(node), pods, cpu / 1000, has_cpu, memory, has_memory)
                room = self._rooms[name] = Room(pods, cpu, memory, round(has_cpu * 1000), has_memory)
            self._world.recorder.row(row)
            self._pools.node_changed(name, node, row.state, room)
        if book.changed_nodes:
            self._ready_nodes = sum(_state_of(node) in {"Ready", "Cordoned"} for node in nodes.values())
        book.changed_nodes.clear()

    def _sample_cluster(self, seconds: float, cpu: float, memory: float) -> None:
        book = self._book
        # What pods request that have no node, or whose node is gone, is held nowhere.
        rooms = self._rooms.values()
        self._world.recorder.row(
            ClusterSample(
                seconds,
                len(self._world.server.all("Node")),
                self._ready_nodes,
                book.in_use,
                book.active,
                book.pending,
                cpu,
                sum(room.cpu for room in rooms) / 1000,
                sum(room.has_cpu for room in rooms) / 1000,
                round(memory),
                sum(room.memory for room in rooms),
                sum(room.has_memory for room in rooms),
            )
        )

    # ---- attempts ----------------------------------------------------------------------------

    def decided(self, pod: QueuedPodInfo, decision: Decision | None) -> None:
        """An attempt has come to its end; what follows from it comes as effects."""
        self._attempt = decision
        life = self._book.lives.get(pod.info.pod.key)
        if life is None:
            return
        life.attempts += 1
        if life.failed is not None:
            begun = self._world.kernel.now - self._world.spec.controllers.scheduler.attempt
            if begun > life.failed:
                life.failures.append((life.failed, begun))
            life.failed = None

    def effect(self, effect: Effect) -> None:
        """The scheduler asks for something."""
        if not self._world.has_begun:
            if isinstance(effect, AttemptFailed):
                self._note_failure(effect)
        elif isinstance(effect, Bind):
            self._attempted(effect.pod.key, effect.pod.spec.scheduler_name, effect.node_name)
        elif isinstance(effect, AttemptFailed):
            self._failed(effect)
        elif isinstance(effect, DeleteVictim):
            life = self._book.lives.get(effect.victim.key)
            if life is not None:
                life.end = "Preempted"
            self._world.recorder.preempted(1)
        elif isinstance(effect, RecordEvent):
            kind: Literal["Normal", "Warning"] = "Warning" if effect.type == "Warning" else "Normal"
            about = f"Pod {effect.regarding.key}"
            source = effect.regarding.spec.scheduler_name
            self._world.recorder.event(
                EventRecord(self._world.seconds, source, kind, effect.reason, about, effect.note)
            )

    def _attempted(self, key: str, profile: str, node: str) -> None:
        decision = self._attempt
        evaluated, feasible = (0, 0) if decision is None else (decision.evaluated_nodes, decision.feasible_nodes)
        self._world.recorder.row(
            AttemptRecord(self._world.seconds, key, profile, "Scheduled", node, evaluated, feasible, "", "")
        )

    def _failed(self, effect: AttemptFailed) -> None:
        """Of an attempt without a node all filters have run; a nominated pod's own node alone is not told apart."""
        self._note_failure(effect)
        self._world.recorder.row(
            AttemptRecord(
                self._world.seconds,
                effect.pod.key,
                effect.pod.spec.scheduler_name,
                "Unschedulable" if effect.rejected else "Error",
                "",
                len(self._world.server.all("Node")),
                0,
                effect.nominated_node or "",
                effect.message,
            )
        )

    def _note_failure(self, effect: AttemptFailed) -> None:
        life = self._book.lives.get(effect.pod.key)
        if life is not None:
            life.failed = self._world.kernel.now
            if self.misfits is not None:
                self.misfits.look(life, effect.pod)

    # ---- pods --------------------------------------------------------------------------------

    def pod_ended(self, life: PodLife, pod: ClusterPod) -> None:
        """A pod is gone: its row."""
        if not self._world.has_begun:
            return
        self._record(life, pod, ended=self._world.seconds)

    def rest(self) -> None:
        """The rows of the pods that are there at the end."""
        pods = self._world.server.all("Pod")
        for key, life in self._book.lives.items():
            self._record(life, pods[key], ended=None)
        self._pools.rest()

    def _record(self, life: PodLife, pod: ClusterPod, *, ended: float | None) -> None:
        world = self._world
        timeline = self._kubelets.timelines.get(life.key)
        if timeline is not None and timeline.uid != life.uid:
            timeline = None
        finished = None if timeline is None else timeline.finished
        if pod.is_terminal and finished is not None:
            ended = world.since_start(finished)
        now = world.kernel.now if ended is None else world.time_of(ended)
        started = None if timeline is None else timeline.started
        world.recorder.row(
            PodRecord(
                life.key,
                "" if life.workload is None else life.workload.name,
                life.node,
                world.since_start(life.created),
                None if life.bound is None else world.since_start(life.bound),
                None if started is None else world.since_start(started),
                None if life.ready is None else world.since_start(life.ready),
                ended,
                _end_of(life, pod, timeline, is_gone=ended is not None),
                life.attempts,
                life.restarts,
                waiting_of(life, timeline, max(now, life.created)),
            )
        )


def _end_of(life: PodLife, pod: ClusterPod, timeline: PodTimeline | None, *, is_gone: bool) -> str:
    if life.end:
        return life.end
    if timeline is not None and timeline.finished is not None:
        if timeline.deleted is not None and timeline.deleted <= timeline.finished:
            # Containers that end well when they are told to leave the phase Succeeded behind.
            return "Deleted"
        if pod.status.phase == FAILED and timeline.reason == OOM_KILLED:
            return OOM_KILLED
    if pod.status.phase in {SUCCEEDED, FAILED}:
        return pod.status.phase
    if is_gone:
        return "Deleted"
    return "Running" if pod.status.phase == "Running" else "Pending"


def _allocatable_of(node: Node) -> tuple[float, int]:
    amounts = node.status.allocatable or {}
    return milli_value(parse_quantity(amounts.get("cpu", 0))) / 1000, value(parse_quantity(amounts.get("memory", 0)))


def _state_of(node: Node) -> Literal["Ready", "Cordoned", "NotReady"]:
    if ready_status(node) not in {None, "True"}:
        return "NotReady"
    return "Cordoned" if node.spec.unschedulable else "Ready"


class _Meter:
    """Counts what one objective is about, from look to look."""

    def __init__(self, world: World, objective: Objective, loads: LoadEngine) -> None:
        self._world = world
        self._objective = objective
        self._entry = loads.entries[objective.demand]
        self.name = objective.name
        self.demand = objective.demand
        self.latency = None if objective.latency is None else objective.latency / SECOND
        self._age = None if objective.queue_age is None else objective.queue_age / SECOND
        self._before = (0.0, 0.0)
        self._time = 0.0

    def look(self) -> None:
        """Add what went on since the last look, judged by how it is now."""
        entry, seconds = self._entry, self._world.seconds
        length = seconds - self._time
        model = entry.model
        if length <= 0 or model.now != seconds:
            return
        self._time = seconds
        if self._age is not None:
            late = length if not isinstance(model, Service) and model.age > self._age else 0.0
            self._world.recorder.objective(self.name, total=length, missed=late, missed_seconds=late)
        elif self.latency is not None and isinstance(model, Service):
            self._count(model, self.latency, length)

    def _count(self, model: Service, latency: float, length: float) -> None:
        served, dropped = model.served - self._before[0], model.dropped - self._before[1]
        self._before = (model.served, model.dropped)
        late = model.response.share_above(latency)
        missed = dropped + (0.0 if math.isnan(late) else late * served)
        total = served + dropped
        is_missed = total > 0 and missed > (1 - self._objective.share) * total
        self._world.recorder.objective(
            self.name, total=total, missed=missed, missed_seconds=length if is_missed else 0.0
        )
