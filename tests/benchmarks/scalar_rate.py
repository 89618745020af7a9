"""Rate of the scalar reference, which loops over nodes and pods, and whether both decide the same.

    python tests/benchmarks/scalar_rate.py WORKLOAD NODES INITIAL PODS PERCENT

The shipped scheduler places `INITIAL` pods, since the reference would take minutes; then each pod is decided by both,
and the shipped scheduler's decision is carried out on both sides. Only the reference's decision is timed.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a program it has only its own folder on the path

from reference.cluster import ReferenceCluster, placed
from reference.decide import schedule
from reference.profile import default_profile
from stowplan_operator.bench.measure import prepared
from stowplan_operator.bench.workloads import WORKLOADS
from stowplan_scheduler.effects import Bind
from stowplan_scheduler.events import EffectDone, ObjectAdded
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import Profile


@dataclass(slots=True)
class Comparison:
    """`seconds`: time of the reference alone. `placed`: pods that found a node. `different`: names of pods."""

    pods: int
    seconds: float = 0.0
    placed: int = 0
    different: list[str] = field(default_factory=list)


class SideBySide:
    """One workload's cluster, known to both schedulers."""

    def __init__(self, workload: str, nodes: int, percent: int) -> None:
        """No pods yet."""
        make_node, self._make_pod = WORKLOADS[workload]
        self._percent = percent
        self._shipped = prepared(workload, nodes, percent)
        self._cluster = ReferenceCluster([make_node(number) for number in range(nodes)])
        self._profile = default_profile()
        self._wanted = ""
        self._seconds = 0.0

    def place(self, number: int) -> str:
        """Let the shipped scheduler decide, and tell the reference; returns the node, "" if there is none."""
        node = ""
        self._shipped.receive(ObjectAdded(self._make_pod(number)), number)
        for effect in self._shipped.run_cycle(number):
            if isinstance(effect, Bind):
                self._shipped.receive(EffectDone(effect.id), number)
                node = effect.node_name
        state = self._cluster.node(node)
        if state is not None:
            state.add(placed(self._make_pod(number)))
        return node

    def compare(self, number: int, result: Comparison) -> None:
        """Decide with both on the same state, from the same start index, and place the pod."""
        self._shipped.attempts.before_decision = self._decide
        node = self.place(number)
        self._shipped.attempts.before_decision = None
        result.seconds += self._seconds
        result.placed += bool(node)
        if node != self._wanted:
            result.different.append(f"pod-{number}: {node or 'none'} instead of {self._wanted or 'none'}")

    def _decide(self, pod: PodInfo, profile: Profile, start: int) -> None:
        began = time.perf_counter()
        self._wanted, _, _ = schedule(self._cluster, self._profile, pod.pod, self._percent, start)
        self._seconds = time.perf_counter() - began


def compare(workload: str, nodes: int, initial: int, pods: int, percent: int) -> Comparison:
    """Decide `pods` pods with both after `initial` ones."""
    both = SideBySide(workload, nodes, percent)
    for number in range(initial):
        both.place(number)
    result = Comparison(pods)
    for number in range(initial, initial + pods):
        both.compare(number, result)
    return result


def main(argv: list[str]) -> None:
    """Print one JSON line."""
    workload, *numbers = argv
    nodes, initial, pods, percent = map(int, numbers)
    result = compare(workload, nodes, initial, pods, percent)
    line = {
        "workload": workload,
        "nodes": nodes,
        "pods": pods,
        "percent": percent,
        "pods_per_s": round(pods / result.seconds, 2),
        "placed": result.placed,
        "different": result.different,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1:])
