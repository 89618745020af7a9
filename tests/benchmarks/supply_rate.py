"""Time of one loop of a node autoscaler, on one core.

    python tests/benchmarks/supply_rate.py cluster-autoscaler|karpenter

Timed is the loop alone: not the making of the cluster, nor what is done with the decisions. Seconds are those of the
processor, so that other work on the machine counts as little as possible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))  # as a program it has only its own folder on the path

from benchmarks import supply_cluster_autoscaler, supply_karpenter  # noqa: E402

ENGINES: dict[str, Callable[[], Iterator[tuple[str, float, str]]]] = {
    "cluster-autoscaler": supply_cluster_autoscaler.lines,
    "karpenter": supply_karpenter.lines,
}
"""Engine -> what it timed, in seconds, and what came of it."""


def main(arguments: list[str]) -> int:
    """Print a line per case; returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in ENGINES:
        print(f"usage: supply_rate.py {'|'.join(ENGINES)}", file=sys.stderr)
        return 2
    for name, seconds, outcome in ENGINES[arguments[0]]():
        print(f"{name}: {seconds * 1000:.1f} ms {outcome}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
