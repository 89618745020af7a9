"""Running one measurement in a process of its own, on one core.

The core is chosen once, in this process; its children inherit it. Numeric libraries and Go get one thread. Each line
gets the share of the core that its process had, from start to end: on a busy machine that tells what a rate is worth.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import MemoryRuns, Run, SnapshotRuns

HERE = Path(__file__).resolve().parent
OURS = "from stowplan_operator.cli import main; main()"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "GOMAXPROCS": "1",
    "PYTHONHASHSEED": "0",
}


class RunError(Exception):
    """A process did not give a measurement."""


def pin_to_one_core() -> int | None:
    """Pin this process and its children to the highest core it may use; None where that cannot be done."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def upstream_program() -> Path | None:
    """The real scheduler's benchmark, where tests/conformance/build.sh puts it; None if it is not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = Path(os.environ.get("STOWPLAN_BUILD") or cache / "stowplan") / "bin/bench"
    return program if os.access(program, os.X_OK) else None


def why_no_upstream() -> str:
    """One line for whoever wonders why the real scheduler is not compared with."""
    if shutil.which("go") is None:
        return "Go is not installed: measured without the real kube-scheduler"
    return "tests/conformance/build.sh bench has not been run: measured without the real kube-scheduler"


# ---- commands --------------------------------------------------------------------------------------------------------


def ours(run: Run) -> list[str]:
    """The command that measures the scheduler core."""
    numbers = [f"--nodes={run.nodes}", f"--pods={run.pods}", f"--initial={run.initial}", f"--percent={run.percent}"]
    return [sys.executable, "-c", OURS, "bench", "scheduler", f"--workload={run.workload}", *numbers]


def upstream(program: Path, run: Run) -> list[str]:
    """The command that measures the real scheduler."""
    numbers = [f"-nodes={run.nodes}", f"-pods={run.pods}", f"-initial={run.initial}", f"-percent={run.percent}"]
    return [str(program), f"-workload={run.workload}", *numbers, "-parallelism=1"]


def scalar(run: Run) -> list[str]:
    """The command that measures the scalar reference."""
    numbers = [run.nodes, run.initial, run.reference_pods, run.percent]
    return [sys.executable, str(HERE / "scalar_rate.py"), run.workload, *map(str, numbers)]


def profile(run: Run) -> list[str]:
    """The command that tells where our time goes."""
    numbers = [run.nodes, run.initial, run.pods, run.percent]
    return [sys.executable, str(HERE / "hot_spots.py"), run.workload, *map(str, numbers)]


def snapshot(runs: SnapshotRuns, nodes: int) -> list[str]:
    """The command that measures updates of the snapshot."""
    copies = "copy" if nodes == runs.deep_copy_nodes else "no-copy"
    return [
        sys.executable,
        str(HERE / "snapshot_cost.py"),
        *map(str, (nodes, runs.pods_per_node, runs.updates, copies)),
    ]


def memory(runs: MemoryRuns, workload: str) -> list[str]:
    """The command that measures memory."""
    return [sys.executable, str(HERE / "memory_use.py"), workload, str(runs.nodes), str(runs.pods)]


# ---- running ---------------------------------------------------------------------------------------------------------


def json_line(command: Sequence[str], timeout_seconds: float) -> Mapping[str, Any]:
    """The one JSON line that the command prints, with core_share (0 to 1) added. Raises RunError."""
    began, before = time.perf_counter(), _children_seconds()
    output = _output(command, timeout_seconds)
    share = (_children_seconds() - before) / (time.perf_counter() - began)
    return {**parsed(output), "core_share": round(min(share, 1.0), 3)}


def _children_seconds() -> float:
    """Processor time of all children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _output(command: Sequence[str], timeout_seconds: float) -> str:
    environment = {**os.environ, **ONE_THREAD}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired as failure:
        raise RunError(f"not done after {timeout_seconds:g} s") from failure
    except OSError as failure:
        raise RunError(str(failure)) from failure
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise RunError(f"exit code {done.returncode}: {last}")
    return done.stdout


def parsed(output: str) -> Mapping[str, Any]:
    """The JSON object in the one line of `output`. Raises RunError."""
    lines = output.splitlines()
    try:
        (line,) = lines
        value = json.loads(line)
    except ValueError as failure:
        raise RunError(f"expected one JSON line, got {len(lines)} lines: {output[:80]!r}") from failure
    if not isinstance(value, dict):
        raise RunError(f"expected a JSON object, got {output[:80]!r}")
    return value
