"""Memory of the scheduler beyond the parsed objects, per node and per pod.

    python tests/benchmarks/memory_use.py WORKLOAD NODES PODS

Counted by tracemalloc, arrays of numpy included: node and pod objects exist before the first count. Three amounts, in
bytes: per node; per pod that comes with its node, as in a cluster that is read in; and per pod that the scheduler
placed itself, which adds the assumed pod object and the memo. Prints one JSON line.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc

import numpy as np
from msgspec.structs import replace

from stowplan_operator.bench.measure import measure, place
from stowplan_operator.bench.workloads import WORKLOADS
from stowplan_scheduler.config import load_configuration
from stowplan_scheduler.events import ObjectAdded
from stowplan_scheduler.objects import Node, Pod
from stowplan_scheduler.scheduler import Scheduler


def empty_scheduler() -> Scheduler:
    """The default profile."""
    config = load_configuration({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    return Scheduler(config, np.random.default_rng(0))


def used() -> int:
    """Bytes in use."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def fed(objects: list[Node] | list[Pod], scheduler: Scheduler) -> int:
    """Bytes that the scheduler takes for the objects."""
    before = used()
    for each in objects:
        scheduler.receive(ObjectAdded(each), 0)
    scheduler.update_snapshot()
    return used() - before


def placing(pods: list[Pod], scheduler: Scheduler) -> tuple[int, int]:
    """Bytes that the scheduler takes for pods that it places, and how many it placed."""
    before = used()
    placed = sum(place(scheduler, pod, number) for number, pod in enumerate(pods))
    return used() - before, placed


def main(argv: list[str]) -> None:
    """Print one JSON line."""
    workload, count_of_nodes, count_of_pods = argv[0], int(argv[1]), int(argv[2])
    make_node, make_pod = WORKLOADS[workload]
    nodes = [make_node(number) for number in range(count_of_nodes)]
    pods = [make_pod(number) for number in range(count_of_pods)]
    bound = [
        replace(pod, spec=replace(pod.spec, node_name=nodes[number % len(nodes)].metadata.name))
        for number, pod in enumerate(pods)
    ]
    measure(workload, 100, 100, 0, initial=10)  # whatever is imported or cached once belongs to no pod
    tracemalloc.start()
    reading = empty_scheduler()
    of_nodes, of_bound = fed(nodes, reading), fed(bound, reading)
    del reading
    placer = empty_scheduler()
    fed(nodes, placer)
    of_placed, placed = placing(pods, placer)
    line = {
        "workload": workload,
        "nodes": count_of_nodes,
        "pods": count_of_pods,
        "per_node": round(of_nodes / count_of_nodes),
        "per_bound_pod": round(of_bound / count_of_pods),
        "per_placed_pod": round(of_placed / count_of_pods),
        "memo_mb": round(sum(profile.memo.nbytes for profile in placer.profiles.values()) / 2**20, 1),
        "placed": placed,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1:])
