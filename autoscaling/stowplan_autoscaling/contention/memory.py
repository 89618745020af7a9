"""Who has to go when memory runs out: killed by its limit, killed by the kernel, or evicted by the kubelet.

1. A container over its limit is killed at once (its control group has no more); it restarts after the crash-loop
back-off.
2. All pods together are bounded by the control group `kubepods`: capacity minus what is reserved, which is allocatable
   plus the eviction threshold. Beyond it the kernel kills the process with the highest score: its share of the memory
   in thousandths plus oom_score_adj (mm/oom_kill.c, oom_badness).
3. Every 10 s the kubelet looks whether less than the threshold is available, on the node or below `kubepods`, and then
   evicts one pod: first those over their request, then by priority, then by use beyond the request
   (rankMemoryPressure, pkg/kubelet/eviction/helpers.go). The next look is when that pod is gone.

Threshold and intervals are the defaults of Kubernetes v1.37.2 (eviction/defaults_linux.go, eviction_manager.go).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .qos import UNLIMITED

Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]

HARD_THRESHOLD: Final = 100 * 1024 * 1024
"""evictionHard memory.available, bytes."""

MONITORING_INTERVAL: Final = 10.0
"""Seconds between two looks of the eviction manager."""

CLEANUP_TIMEOUT: Final = 30.0
"""After an eviction it waits for the pod to be gone, for at most so many seconds."""

PRESSURE_TRANSITION: Final = 300.0
"""Seconds for which the node stays MemoryPressure=True after the last shortage."""

EVICTED: Final = "Evicted"
OOM_KILLED: Final = "OOMKilled"


def over_limit(used: Ints, limit: Ints) -> Booleans:
    """Which pods (or containers) use more bytes than their limit. UNLIMITED: none."""
    result: Booleans = (limit != UNLIMITED) & (used > limit)
    return result


def available_memory(
    *,
    node: Ints,
    used: Ints,
    capacity: Ints,
    allocatable: Ints,
    system: Ints | None = None,
    threshold: int = HARD_THRESHOLD,
) -> Ints:
    """Bytes that the kubelet sees as available on each node: the lower of node and `kubepods`.

    Per pod: `node` (row) and `used`; per node: `capacity`, `allocatable`, and what the `system` uses (default: what is
    reserved for it, so that both signals agree).
    """
    pods = np.zeros(len(capacity), dtype=np.int64)
    np.add.at(pods, node, used)
    root = np.minimum(allocatable + threshold, capacity)
    below: Ints = root - pods
    if system is None:
        return below
    result: Ints = np.minimum(below, capacity - system - pods)
    return result


def under_pressure(available: Ints, threshold: int = HARD_THRESHOLD) -> Booleans:
    """Nodes that have to evict: less than the threshold is available."""
    result: Booleans = available < threshold
    return result


def eviction_order(*, used: Ints, request: Ints, priority: Ints) -> Ints:
    """The pods of a node (rows) in the order in which the kubelet would evict them.

    Where upstream's sort leaves the order open, the order in which the pods were given decides.
    """
    beyond = used - request
    order: Ints = np.lexsort((-beyond, priority, ~(beyond > 0)))
    return order


def eviction_victims(
    *, node: Ints, nodes: Booleans, used: Ints, request: Ints, priority: Ints, critical: Booleans
) -> dict[int, int]:
    """For each node that has to evict, the pod (row) that goes now. A node with critical pods only has none."""
    rows = np.flatnonzero(nodes[node] & ~critical)
    order = eviction_order(used=used[rows], request=request[rows], priority=priority[rows])
    victims: dict[int, int] = {}
    for row in rows[order].tolist():
        victims.setdefault(int(node[row]), row)
    return dict(sorted(victims.items()))


def kernel_victims(
    *, node: Ints, used: Ints, oom_score: Ints, capacity: Ints, allocatable: Ints, threshold: int = HARD_THRESHOLD
) -> dict[int, list[int]]:
    """For each node whose pods use more than `kubepods` may: the pods (rows) killed until the rest fits, in order.

    The score is used · 1000 / memory + oom_score_adj, the memory being that of `kubepods`, as for a kill within a
    control group.
    """
    root = np.minimum(allocatable + threshold, capacity)
    over = available_memory(node=node, used=used, capacity=capacity, allocatable=allocatable, threshold=threshold) < 0
    victims: dict[int, list[int]] = {}
    for n in np.flatnonzero(over).tolist():
        rows = np.flatnonzero((node == n) & (used > 0))
        score = used[rows] * 1000 / max(int(root[n]), 1) + oom_score[rows]
        excess = int(used[rows].sum()) - int(root[n])
        victims[n] = []
        for row in rows[np.argsort(-score, kind="stable")].tolist():
            if excess <= 0:
                break
            victims[n].append(row)
            excess -= int(used[row])
    return victims


def eviction_message(available: int, containers: list[tuple[str, int, int]], threshold: int = HARD_THRESHOLD) -> str:
    """status.message of an evicted pod; follows evictionMessage. `containers`: name, bytes used, bytes requested."""
    text = "The node was low on resource: memory. "
    text += f"Threshold quantity: {_quantity(threshold)}, available: {_quantity(available)}. "
    for name, used, request in containers:
        if used > request:
            usage = f"was using {_quantity(used)}, request is {_quantity(request)}"
            text += f"Container {name} {usage}, has larger consumption of memory. "
    return text


def _quantity(amount: int) -> str:
    """Bytes as Kubernetes prints a quantity of binary format: whole Ki, Mi, Gi where they divide it."""
    for suffix, bits in (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if amount and amount % (1 << bits) == 0:
            return f"{amount >> bits}{suffix}"
    return str(amount)
