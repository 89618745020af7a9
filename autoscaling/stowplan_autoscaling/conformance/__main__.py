"""Command line of the conformance suite."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from .cluster import run_cluster
from .cluster_autoscaler import run_cluster_autoscaler
from .hpa import run_hpa
from .karpenter import run_karpenter
from .workloads import run_workloads

MODES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "hpa": run_hpa,
    "cluster": run_cluster,
    "karpenter": run_karpenter,
    "workloads": run_workloads,
    "cluster-autoscaler": run_cluster_autoscaler,
}


def main(arguments: list[str]) -> int:
    """Answer every scenario line of standard input; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in MODES:
        modes = "|".join(MODES)
        print(f"usage: python -m stowplan_autoscaling.conformance {modes} < scenarios.jsonl", file=sys.stderr)
        return 2
    # Nothing here makes reference cycles; the collector would walk long-lived objects for nothing.
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    answer = MODES[arguments[0]]
    for line in sys.stdin:
        if line.strip():
            print(msgspec.json.encode(answer(json.loads(line))).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
