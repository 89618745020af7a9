"""Cost of bringing the snapshot up to date after two nodes changed, and of copying everything instead.

    python tests/benchmarks/snapshot_cost.py NODES PODS_PER_NODE UPDATES copy|no-copy

Each update follows one pod that came or went on each of two nodes; the nodes move on from update to update. An update
includes the arrays of the node table. Prints one JSON line; times are medians in microseconds, copies in milliseconds.
"""

from __future__ import annotations

import copy
import gc
import json
import statistics
import sys
import time
from collections.abc import Iterator

from msgspec.structs import replace

from stowplan_operator.bench.measure import prepared
from stowplan_operator.bench.workloads import plain
from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.events import ObjectAdded, ObjectDeleted
from stowplan_scheduler.objects import Pod
from stowplan_scheduler.scheduler import Scheduler

WARM_UP = 20
"""Updates that are not counted: the first ones meet code that never ran."""


def bound_pod(number: int, node: int) -> Pod:
    """A plain pod that runs on a node."""
    pod = plain(number)
    return replace(pod, spec=replace(pod.spec, node_name=f"node-{node}"))


def filled(nodes: int, pods_per_node: int) -> Scheduler:
    """A scheduler with so many pods on each node and a snapshot that is up to date."""
    scheduler = prepared("plain", nodes, 0)
    for number in range(nodes * pods_per_node):
        scheduler.receive(ObjectAdded(bound_pod(number, number % nodes)), 0)
    scheduler.update_snapshot()
    return scheduler


def update_times(scheduler: Scheduler, nodes: int, updates: int, first: int) -> Iterator[int]:
    """Nanoseconds of each update. `first`: the number of the first new pod."""
    pair: list[Pod] = []
    for turn in range(updates):
        if pair:
            events = [ObjectDeleted(pod) for pod in pair]
            pair = []
        else:
            pair = [bound_pod(first + 2 * turn + i, (7 * turn + i * (nodes // 2)) % nodes) for i in range(2)]
            events = [ObjectAdded(pod) for pod in pair]  # type: ignore[misc]  # either kind of event is received alike
        for event in events:
            scheduler.receive(event, 0)
        began = time.perf_counter_ns()
        scheduler.update_snapshot()
        yield time.perf_counter_ns() - began


def node_infos(scheduler: Scheduler, nodes: int) -> list[NodeInfo]:
    """What the cache knows about each node."""
    infos = [scheduler.cache.get_node(f"node-{number}") for number in range(nodes)]
    return [info for info in infos if info is not None]


def copy_times(infos: list[NodeInfo]) -> dict[str, float]:
    """Milliseconds of two ways to copy everything: with all objects below, and node by node with shared objects."""
    began = time.perf_counter()
    copied = copy.deepcopy(infos)
    deep = time.perf_counter()
    cloned = [info.clone() for info in infos]
    done = time.perf_counter()
    if not len(copied) == len(cloned) == len(infos):
        raise ValueError("a copy has lost nodes")
    return {"deep_copy_ms": round((deep - began) * 1e3, 3), "clone_ms": round((done - deep) * 1e3, 3)}


def main(argv: list[str]) -> None:
    """Print one JSON line."""
    nodes, pods_per_node, updates = map(int, argv[:3])
    scheduler = filled(nodes, pods_per_node)
    gc.collect()
    gc.disable()  # a collection in between would be blamed on one update
    times = list(update_times(scheduler, nodes, WARM_UP + updates, nodes * pods_per_node))[WARM_UP:]
    line: dict[str, object] = {
        "nodes": nodes,
        "pods": nodes * pods_per_node,
        "update_us": round(statistics.median(times) / 1e3, 2),
        "update_us_p90": round(statistics.quantiles(times, n=10)[-1] / 1e3, 2),
    }
    if argv[3] == "copy":
        line |= copy_times(node_infos(scheduler, nodes))
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1:])
