"""Speed of the virtual cluster beside the real controllers: simulated hours per second, and memory of a large cluster.

    python tests/benchmarks/cluster_rate.py [--nodes N]... [--no-upstream] [--no-memory]

The scenarios are those of `gen_cluster.py --bench 20|200|1000` (14, 140 and 740 nodes at most, two hours). Ours and the
real controllers (tests/conformance/build.sh controllers) take turns; seconds are those of the processor, without those
of the same scenario cut off after its first second: start of the process and of the controllers. The last lines are the
HPA alone, and the most memory that a cluster of 1,000 nodes and 30,000 pods takes.

Exit codes: 0 everything ran, 1 something could not run, 2 bad use.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))  # as a program it has only its own folder on the path

from benchmarks.hpa_rate import measure_rate  # noqa: E402

GENERATOR = REPOSITORY / "tests/conformance/controllers/gen_cluster.py"
OURS = (sys.executable, "-m", "stowplan_autoscaling.conformance", "cluster")

TARGETS = {20: 5.0, 200: 10.0, 1000: 20.0}
"""By the generator's size: how many times as fast as the real controllers."""

NODES_THEN = {20: 14, 200: 140, 1000: 740}
"""By the generator's size: nodes at the peak."""

HPA_TARGET = 30_000
MEMORY_TARGET_MB = 2048


@dataclass(frozen=True, slots=True)
class Line:
    """One size: simulated hours, and seconds of each side; `theirs` None if the real controllers are not there."""

    nodes: int
    hours: float
    ours: float
    theirs: float | None
    target: float

    def text(self) -> str:
        """A line of the table."""
        mine = f"{self.nodes:5d} nodes: {self.hours / self.ours:8.3f} simulated hours/s"
        if self.theirs is None:
            return mine
        ratio = self.theirs / self.ours
        verdict = "reached" if ratio >= self.target else "missed"
        other = f"real controllers {self.hours / self.theirs:8.3f}"
        return f"{mine}, {other}: {ratio:5.1f}x (target {self.target:g}x {verdict})"


def scenario(size: int) -> dict[str, Any]:
    """The benchmark scenario of the generator."""
    command = [sys.executable, str(GENERATOR), "--bench", str(size)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def seconds(command: Sequence[str], text: str) -> float:
    """Processor time of a process that answers the text."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "GOMAXPROCS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, input=text, check=True, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(size: int, upstream: Path | None, rounds: int) -> Line:
    """Both sides in turns."""
    wanted = scenario(size)
    text = json.dumps(wanted) + "\n"
    start = json.dumps({**scenario(20), "until": 1}) + "\n"
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds(OURS, text) - seconds(OURS, start))
        if upstream is not None:
            command = (str(upstream), "cluster")
            theirs.append(seconds(command, text) - seconds(command, start))
    return Line(
        NODES_THEN.get(size, size), wanted["until"] / 3600, median(ours), median(theirs) if theirs else None,
        TARGETS.get(size, 1.0),
    )  # fmt: skip


def large_cluster(nodes: int = 1000, pods: int = 30_000) -> dict[str, Any]:
    """A scenario that fills a cluster with pods behind autoscalers, for ten minutes."""
    small = scenario(20)
    template = small["objects"]["nodes"][0]
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    zones = ("a", "b", "c")
    made = []
    for number in range(nodes):
        name = f"node-{number:04d}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zones[number % 3]}
        status = {"capacity": room, "allocatable": room}
        made.append({**template, "metadata": {"name": name, "labels": labels}, "status": status})
    apps = small["objects"]["deployments"]
    for app in apps:
        app["spec"]["replicas"] = pods // len(apps)
    for hpa in small["objects"]["hpas"]:
        hpa["spec"].update(minReplicas=pods // len(apps), maxReplicas=pods // len(apps))
    small["objects"]["nodes"] = made
    return {**small, "id": "large", "supply": None, "until": 600, "cycle": 0.0005}


def memory_mb() -> float:
    """The largest size of a process that simulates the large cluster."""
    program = (
        "import json, resource, sys\n"
        "from stowplan_autoscaling.conformance.cluster import run_cluster\n"
        "result = run_cluster(json.loads(sys.stdin.read()))\n"
        "running = sum('ready' in pod for pod in result['pods'])\n"
        "print(running, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    text = json.dumps(large_cluster())
    done = subprocess.run([sys.executable, "-c", program], input=text, check=True, capture_output=True, text=True)
    running, size = done.stdout.split()
    print(f"large cluster: {int(running):,} pods ready on 1,000 nodes", file=sys.stderr)
    return float(size)


def controllers_program() -> Path | None:
    """What `tests/conformance/build.sh controllers` built, if it is there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = Path(os.environ.get("STOWPLAN_BUILD") or cache / "stowplan") / "bin/controllers"
    program = Path(os.environ.get("STOWPLAN_CONTROLLERS") or built)
    return program if os.access(program, os.X_OK) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, action="append", choices=sorted(TARGETS), help="sizes of the generator")
    parser.add_argument("--no-upstream", action="store_true", help="without the real controllers")
    parser.add_argument("--no-memory", action="store_true", help="without the large cluster")
    chosen = parser.parse_args(arguments)
    upstream = None if chosen.no_upstream else controllers_program()
    if upstream is None and not chosen.no_upstream:
        print("cluster_rate: the real controllers are not built (make oracle): ours alone", file=sys.stderr)
    try:
        for size in chosen.nodes or sorted(TARGETS):
            print(measure(size, upstream, 1 if size >= 1000 else 3).text(), flush=True)
        rate = measure_rate(1000, 10, 10).per_second
        print(f"HPA alone: {rate:,.0f} reconciles/s (target {HPA_TARGET:,} {_verdict(rate >= HPA_TARGET)})", flush=True)
        if not chosen.no_memory:
            size_mb = memory_mb()
            verdict = _verdict(size_mb <= MEMORY_TARGET_MB)
            print(f"1,000 nodes, 30,000 pods: {size_mb:,.0f} MiB (target {MEMORY_TARGET_MB:,} MiB {verdict})")
    except subprocess.CalledProcessError as failure:
        print(f"cluster_rate: {failure}: {str(failure.stderr)[-500:]}", file=sys.stderr)
        return 1
    return 0


def _verdict(reached: bool) -> str:
    return "reached" if reached else "missed"


if __name__ == "__main__":
    sys.exit(main())
