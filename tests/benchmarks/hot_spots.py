"""Where the scheduler's time goes in one workload: the functions with the most time of their own.

    python tests/benchmarks/hot_spots.py WORKLOAD NODES INITIAL PODS PERCENT

The profiler makes small functions look dearer than they are: read the order, not the seconds. Prints one JSON line.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from stowplan_operator.bench.measure import place, prepared
from stowplan_operator.bench.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 15

Key = tuple[str, int, str]
"""File, line, function, as pstats has it."""


def profiled(workload: str, nodes: int, initial: int, pods: int, percent: int) -> pstats.Stats:
    """Statistics of placing `pods` pods after `initial` ones."""
    scheduler = prepared(workload, nodes, percent)
    _, make_pod = WORKLOADS[workload]
    for number in range(initial):
        place(scheduler, make_pod(number), number)
    queue = [make_pod(initial + number) for number in range(pods)]
    profiler = cProfile.Profile()
    profiler.enable()
    for number, pod in enumerate(queue):
        place(scheduler, pod, initial + number)
    profiler.disable()
    return pstats.Stats(profiler)


def name_of(key: Key) -> str:
    """folder/file:line function, or the name of a built-in function."""
    file, line, function = key
    return function if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {function}"


def hot_spots(statistics: pstats.Stats, pods: int) -> list[dict[str, object]]:
    """The dearest functions; microseconds and calls per pod."""
    # pstats has had this mapping for ever, but typeshed does not know it.
    entries = cast("Mapping[Key, tuple[int, int, float, float, object]]", vars(statistics)["stats"])
    dearest = sorted(entries.items(), key=lambda item: (-item[1][2], item[0]))[:SHOWN]
    return [
        {
            "function": name_of(key),
            "calls_per_pod": round(calls / pods, 2),
            "own_us_per_pod": round(own * 1e6 / pods, 1),
            "total_us_per_pod": round(total * 1e6 / pods, 1),
        }
        for key, (_, calls, own, total, _) in dearest
    ]


def main(argv: list[str]) -> None:
    """Print one JSON line."""
    workload, *numbers = argv
    nodes, initial, pods, percent = map(int, numbers)
    found = hot_spots(profiled(workload, nodes, initial, pods, percent), pods)
    print(json.dumps({"workload": workload, "nodes": nodes, "percent": percent, "hot_spots": found}))


if __name__ == "__main__":
    main(sys.argv[1:])
