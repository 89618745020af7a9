"""Folders of runs for tests of what reads them: made by rule, with all tables, in a second, without a simulation.

A day of a shop: a service behind an autoscaler, a queue, two pools of nodes that come and go. The numbers are plausible
and mean nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from stowplan_autoscaling.results import (
    SCHEMA,
    AttemptRecord,
    AutoscalerSample,
    ClusterSample,
    EventRecord,
    FolderSink,
    LoopReport,
    NodeRecord,
    NodeSample,
    Paid,
    PodRecord,
    PoolSample,
    Recorder,
    RunHeader,
    RunReport,
    ServiceSample,
    SupplyRecord,
    Waiting,
    WorkloadSample,
)
from stowplan_autoscaling.results.report import InputsReport, Level, NodeReport

GIB = 2**30
CORES, MEMORY = 7.82, 29 * GIB
"""What a node has to give."""


LOOPS = (
    LoopReport(
        loop="HorizontalPodAutoscaler shop/web",
        metric="cpu utilisation",
        target="60 %",
        interval="15 s",
        delay="up to 30 s (scrape 15 s, window 15 s)",
        minimum="4 replicas",
        maximum="40 replicas",
    ),
    LoopReport(
        loop="Provisioning",
        metric="pods that fit on no node",
        target="0",
        interval="1 s to 10 s",
        delay="90 s until a node is ready",
        minimum="general 2",
        maximum="general 20, spot 40",
    ),
    LoopReport(
        loop="Consolidation",
        metric="nodes that are not needed",
        target="least cost",
        interval="10 s",
        delay="15 s validation",
        minimum="",
        maximum="budget 10 %",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What tells one candidate's runs from another's."""

    pods_per_node: int = 5
    boot: float = 90.0
    empty_after: float = 600.0
    prices: tuple[float, float] = (0.384, 0.142)
    pools: tuple[str, str] = ("general", "spot")
    service: str = "visits"
    workload: str = "Deployment shop/web"
    extra_workloads: int = 2
    step: float = 60.0
    duration: float = 86_400.0
    short_nodes: int = 0
    """Nodes that come and go besides, for a Gantt with many."""


@dataclass(slots=True)
class _Node:
    name: str
    pool: int
    requested: float
    ready: float
    empty_since: float | None = None
    ended: float | None = None
    end: str = "Running"
    pods: int = 0


class _Run:
    """One run, step by step."""

    def __init__(self, plan: Plan, seed: int, sink: FolderSink) -> None:
        self.plan, self.sink = plan, sink
        self.random = np.random.default_rng([seed, 5])
        self.nodes: list[_Node] = []
        self.made = 2
        self.pods: list[PodRecord] = []
        self.waiting: list[tuple[float, Waiting]] = []
        self.wanted = 4
        self.low_since: float | None = None
        self.header = RunHeader(
            inputs=InputsReport(
                name="shop",
                digest="5e" * 32,
                seed=seed,
                start="2026-03-02T00:00:00Z",
                version="0.3.0",
                kubernetes="v1.37.2",
            ),
            duration=plan.duration,
            objectives=(("fast-pages", 0.99),),
            loops=LOOPS,
        )
        self.recorder = Recorder(self.header, sink)
        for index in range(2):
            self._add(_Node(f"{plan.pools[0]}-{index}", 0, 0.0, 0.0))

    def offered(self, now: float) -> float:
        """Few at night, most at two, and half an hour in the evening that nobody has seen coming."""
        hour = now / 3600
        wave = 60 + 440 * (0.5 + 0.5 * math.cos((hour - 14) / 24 * 2 * math.pi)) ** 1.5
        spike = 520 * max(0.0, 1 - abs(hour - 20.3) / 0.45)
        return float((wave + spike) * (1 + 0.04 * self.random.standard_normal()))

    # ---- pods and nodes --------------------------------------------------------------------------------------------

    def room(self, now: float) -> int:
        ready = sum(node.ended is None and node.ready <= now for node in self.nodes)
        return ready * self.plan.pods_per_node

    def scale(self, now: float, offered: float) -> None:
        target = min(40, max(4, math.ceil(offered / 22)))
        if target > self.wanted:
            for _ in range(target - self.wanted):
                self.waiting.append((now, Waiting(metric=22.0, autoscaler=9.0 + 4 * float(self.random.random()))))
            self.wanted, self.low_since = target, None
        elif target < self.wanted:
            self.low_since = now if self.low_since is None else self.low_since
            if now - self.low_since >= 300:
                gone = self.wanted - target
                self.waiting = self.waiting[: max(0, len(self.waiting) - gone)]
                self.wanted, self.low_since = target, None
        else:
            self.low_since = None

    def place(self, now: float) -> None:
        """Pods that fit are placed; for the others nodes are asked for."""
        running = self.wanted - len(self.waiting)
        free = self.room(now) - running
        placed, self.waiting = self.waiting[: max(0, free)], self.waiting[max(0, free) :]
        for created, waiting in placed:
            self._place_pod(now, created, waiting)
        coming = sum(node.ended is None and node.ready > now for node in self.nodes)
        missing = len(self.waiting) - coming * self.plan.pods_per_node
        if missing > 0:
            self._ask_for_nodes(now, missing)

    def _place_pod(self, now: float, created: float, waiting: Waiting) -> None:
        chance = self.random
        name = f"{self.plan.workload.partition(' ')[2]}-{len(self.pods)}"
        late = now - created
        queue = 0.02 + 0.1 * float(chance.random())
        image = 0.2 if chance.random() < 0.7 else 6 + 5 * float(chance.random())
        start, readiness = 1 + float(chance.random()), 12 * float(np.exp(0.3 * chance.standard_normal()))
        waiting = waiting._replace(
            controller=0.2,
            queue=queue,
            supply=min(late, 11.0),
            node=max(0.0, min(late - 11.0, self.plan.boot)),
            backoff=max(0.0, late - 11.0 - self.plan.boot),
            image=image,
            start=start,
            readiness=readiness,
        )
        scheduled = now + queue
        ready = scheduled + image + start + readiness
        node = next(node.name for node in self.nodes if node.ended is None and node.ready <= now)
        pod = PodRecord(
            name,
            self.plan.workload,
            node,
            created,
            scheduled,
            ready - readiness,
            ready,
            None,
            "Running",
            1 + (late > 0),
            0,
            waiting,
        )
        self.pods.append(pod)
        self.recorder.row(AttemptRecord(scheduled, name, "default-scheduler", "Scheduled", node, 9, 5, "", ""))

    def _ask_for_nodes(self, now: float, pods: int) -> None:
        count = math.ceil(pods / self.plan.pods_per_node)
        pool = int(self.random.random() < 0.6)
        for _ in range(count):
            boot = self.plan.boot * float(np.exp(0.15 * self.random.standard_normal()))
            self._add(_Node(f"{self.plan.pools[pool]}-{self.made}", pool, now, now + boot))
            self.made += 1
        reason, message = "Unschedulable", f"{pods} pods fit on no node"
        self.recorder.row(SupplyRecord(now, "Provisioning", self.plan.pools[pool], count, pods, reason, False, message))
        if count > 1:
            self.recorder.row(SupplyRecord(now, "Consolidation", self.plan.pools[0], -1, 0, "Budget", True, "10 %"))

    def _add(self, node: _Node) -> None:
        plan = self.plan
        kind = ("on-demand", "spot")[node.pool]
        paid = Paid(
            pool=plan.pools[node.pool],
            instance_type="m7i.2xlarge",
            zone="zone-a",
            capacity_type=kind,
            price=plan.prices[node.pool],
            launched=node.requested,
        )
        self.nodes.append(node)
        self.recorder.paid(node.name, paid)

    def empty(self, now: float) -> None:
        """Nodes beyond need go once they have been empty for long enough."""
        needed = math.ceil((self.wanted - len(self.waiting)) / self.plan.pods_per_node)
        ready = [node for node in self.nodes if node.ended is None and node.ready <= now]
        for index, node in enumerate(ready):
            if index < max(2, needed):
                node.empty_since = None
            elif node.empty_since is None:
                node.empty_since = now
            elif now - node.empty_since >= self.plan.empty_after:
                node.ended, node.end = now, "Empty" if node.pool == 0 else "Underutilized"
                self.recorder.no_longer_paid(node.name, now)
                self.recorder.row(
                    SupplyRecord(now, "Consolidation", self.plan.pools[node.pool], -1, 0, "Empty", False, "")
                )
            elif node.pool == 1 and self.random.random() < 0.02:
                node.ended, node.end = now, "Interrupted"
                self.recorder.no_longer_paid(node.name, now)

    # ---- rows ------------------------------------------------------------------------------------------------------

    def sample(self, now: float, offered: float) -> None:
        plan = self.plan
        running = self.wanted - len(self.waiting)
        served = min(offered, running * 30.0)
        latency = 0.05 + 0.4 * max(0.0, offered / (running * 30.0) - 0.7)
        row = self.recorder.row
        row(
            WorkloadSample(
                now,
                plan.workload,
                self.wanted,
                self.wanted,
                len(self.waiting),
                0,
                running,
                0,
                running * 0.9,
                running * 1.2,
                running * GIB,
                running * 2 * GIB,
                0.0,
            )
        )
        for index in range(plan.extra_workloads):
            row(WorkloadSample(now, f"Deployment shop/extra-{index}", 2, 2, 0, 0, 2, 0, 0.2, 0.4, GIB, GIB, 0.0))
        row(
            ServiceSample(
                now, plan.service, offered, served, offered - served, served / 20, latency, served / offered, 0, 0
            )
        )
        row(ServiceSample(now, "orders", offered / 40, offered / 40, 0, 3, 0.5, 1, 4 + running % 3, 2))
        row(
            AutoscalerSample(
                now,
                "HorizontalPodAutoscaler shop/web",
                running,
                self.wanted,
                self.wanted,
                "cpu",
                62.0,
                60.0,
                17.0,
                "ReadyForNewScale",
            )
        )
        total = {"ready": 0, "all": 0}
        for pool in (0, 1):
            alive = [node for node in self.nodes if node.pool == pool and node.ended is None]
            ready = sum(node.ready <= now for node in alive)
            total["ready"] += ready
            total["all"] += len(alive)
            share = 0.0 if not ready else min(1.0, running / max(1, self.room(now)))
            sample = PoolSample(
                now,
                plan.pools[pool],
                ready,
                len(alive) - ready,
                0,
                len(alive) * plan.prices[pool],
                round(share * ready * plan.pods_per_node),
                share * ready * CORES * 0.6,
                share * ready * CORES * 0.9,
                ready * CORES,
                ready * CORES * (1 - share) * 0.4,
                int(share * ready * MEMORY * 0.4),
                int(share * ready * MEMORY * 0.55),
                int(ready * MEMORY),
                int(ready * MEMORY * share * 0.3),
            )
            row(sample)
        row(
            ClusterSample(
                now,
                total["all"],
                total["ready"],
                total["ready"],
                self.wanted + 4,
                len(self.waiting),
                running * 0.9,
                running * 1.2,
                total["ready"] * CORES,
                running * GIB,
                running * 2 * GIB,
                int(total["ready"] * MEMORY),
            )
        )
        self.recorder.objective("fast-pages", total=offered, missed=offered - served)

    def finish(self) -> RunReport:
        plan, end = self.plan, self.plan.duration
        self.recorder.reached(end)
        for pod in self.pods:
            self.recorder.row(pod)
        for created, waiting in self.waiting:
            self.recorder.row(
                PodRecord("shop/late", plan.workload, "", created, None, None, None, None, "Pending", 3, 0, waiting)
            )
        for index in range(plan.short_nodes):
            asked = end * index / max(1, plan.short_nodes)
            self.nodes.append(_Node(f"short-{index}", 1, asked, asked + plan.boot, None, asked + 1800, "Expired"))
        packing: list[NodeReport] = []
        for node in self.nodes:
            ended = node.ended
            began = "Initial" if node.requested == 0 else "Provisioning"
            self.recorder.row(
                NodeRecord(
                    node.name,
                    plan.pools[node.pool],
                    "m7i.2xlarge",
                    "zone-a",
                    ("on-demand", "spot")[node.pool],
                    plan.prices[node.pool],
                    node.requested,
                    node.requested + min(3.0, node.ready - node.requested),
                    node.requested + 0.7 * (node.ready - node.requested),
                    node.ready,
                    None if ended is None else max(node.ready, ended - 45),
                    ended,
                    began,
                    node.end,
                )
            )
            share = 0.35 + 0.6 * float(self.random.random())
            level = Level(minimum=0, mean=share, maximum=1, final=share)
            other = Level(minimum=0, mean=share * 0.6, maximum=1, final=share)
            packing.append(NodeReport(node=node.name, cpu=level, memory=other, pods=Level(mean=4)))
            self.recorder.row(NodeSample(end, node.name, "Ready", 4, CORES * share, CORES, GIB, MEMORY))
        self.recorder.event(EventRecord(end, "stowplan", "Normal", "End", "Simulation shop", "done"))
        report = self.recorder.report(end, complete=True)
        cluster = msgspec.structs.replace(report.cluster, packing=tuple(packing))
        return msgspec.structs.replace(report, cluster=cluster)


def write_run(folder: Path, plan: Plan, seed: int) -> RunReport:
    """A results folder of one run, and its report."""
    with FolderSink(str(folder)) as sink:
        run = _Run(plan, seed, sink)
        for step in range(int(plan.duration / plan.step) + 1):
            now = step * plan.step
            offered = run.offered(now)
            run.scale(now, offered)
            run.place(now)
            run.empty(now)
            run.sample(now, offered)
        report = run.finish()
        sink.finish(report)
    assert report.schema == SCHEMA
    return report
