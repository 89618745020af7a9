"""Measuring the scheduler core: pods per second from the queue to the confirmed binding.

What is timed is more than what the real scheduler's benchmark times (snapshot, decision, assume): each pod also
enters the queue, is popped, and its Bind effect is answered.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass

import numpy as np

from stowplan_operator.garbage import relax_collector
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.effects import Bind
from stowplan_scheduler.events import EffectDone, ObjectAdded
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.scheduler import Scheduler

from .workloads import WORKLOADS

INITIAL = 1000
"""Pods placed before the clock starts, as in the real scheduler's benchmark."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the benchmark; keys and units are those of tests/benchmarks/upstream."""

    workload: str
    nodes: int
    pods: int
    percent: int
    pods_per_s: int
    heap_mb: int
    placed: int

    def as_json(self) -> dict[str, object]:
        """The line as the real scheduler's benchmark prints it, with the number of pods that were placed."""
        return {
            "workload": self.workload,
            "nodes": self.nodes,
            "pods": self.pods,
            "percent": self.percent,
            "parallelism": 1,
            "gomaxprocs": 1,
            "pods_per_s": self.pods_per_s,
            "heap_mb": self.heap_mb,
            "placed": self.placed,
        }


def prepared(workload: str, nodes: int, percent: int, *, memo: bool = True) -> Scheduler:
    """A scheduler that knows the nodes of a workload."""
    config = load_configuration(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": percent,
        }
    )
    scheduler = Scheduler(config, np.random.default_rng(0), memo=memo)
    make_node, _ = WORKLOADS[workload]
    for number in range(nodes):
        scheduler.receive(ObjectAdded(make_node(number)), 0)
    return scheduler


def place(scheduler: Scheduler, pod: Pod, now: int) -> int:
    """Queue a pod, try it, and answer the binding; returns the number of bindings."""
    scheduler.receive(ObjectAdded(pod), now)
    bound = 0
    for effect in scheduler.run_cycle(now):
        if isinstance(effect, Bind):
            scheduler.receive(EffectDone(effect.id), now)
            bound += 1
    return bound


def measure(
    workload: str, nodes: int, pods: int, percent: int, *, initial: int = INITIAL, memo: bool = True
) -> Measurement:
    """Time `pods` pods of a workload after `initial` ones; objects are made before the clock starts."""
    scheduler = prepared(workload, nodes, percent, memo=memo)
    _, make_pod = WORKLOADS[workload]
    for number in range(initial):
        place(scheduler, make_pod(number), number)
    queue = [make_pod(initial + number) for number in range(pods)]
    relax_collector()
    began = time.perf_counter()
    placed = sum(place(scheduler, pod, initial + number) for number, pod in enumerate(queue))
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return Measurement(workload, nodes, pods, percent, int(pods / took), peak, placed)
