"""Speed and memory of whole simulations: a day of services behind autoscalers on machines that Karpenter rents.

    python tests/benchmarks/run_rate.py [--size a|b]... [--short] [--hours H] [--keep FOLDER]

| size | services | pods at the peak | nodes at the peak | bindings | target |
|---|---|---|---|---|---|
| a | 50 | 2,000 | 100 | | 30 s |
| b | 300 | 30,000 | 1,000 | 150,000 | 240 s and 2 GB |

Seconds are those of the processor, of the whole process: start, reading the file, run, results folder. `--short`
simulates a twelfth of the day, `--hours` that many hours; targets shrink with them. `--keep` leaves the simulations and
their results in a folder.

Exit codes: 0 everything ran, 1 something could not run, 2 bad use.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; from stowplan_operator.cli import main; sys.argv[0] = 'stowplan'; main()"

DAY = 24.0
SHORT = 2.0
"""Hours of `--short`."""

COST = 0.01
"""Core seconds of a request."""

UTILIZATION = 0.6
"""What autoscalers aim at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A cluster: how large, its load, and what is to be reached for a day of it. Memory in megabytes."""

    services: int
    pods: int
    """Of each service at its peak."""
    cores: tuple[float, ...]
    """What pods request; services take turns."""
    initial: int
    """Nodes that are there at the start: room for the pods of the start."""
    period: int
    """Hours from peak to peak. The day begins where the load is lowest."""
    seconds: float
    memory: float | None = None


SIZES = {
    "a": Size(services=50, pods=40, cores=(1.0, 0.5, 0.5), initial=30, period=24, seconds=30),
    "b": Size(services=300, pods=100, cores=(0.5,), initial=340, period=5, seconds=240, memory=2000),
}


def simulation(size: Size) -> dict[str, Any]:
    """The document. Each service has a Deployment, an HPA and a load that swings between a third and its peak."""
    objects: list[dict[str, Any]] = []
    demand: list[dict[str, Any]] = []
    for number in range(size.services):
        cores = size.cores[number % len(size.cores)]
        objects += [deployment(number, size.pods, cores), autoscaler(number, size.pods)]
        demand.append(load(number, round(size.pods * cores * UTILIZATION / COST), size.period))
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": f"day-of-{size.services}-services"},
        "spec": {
            "duration": "24h",
            "seed": 1,
            "settle": "10m",
            "cluster": {},
            "bounds": {"pods": 4 * size.services * size.pods},
            "instanceTypes": [
                {"name": "n16", "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "price": "0.768"},
                {"name": "c16", "capacity": {"cpu": "16", "memory": "32Gi", "pods": "110"}, "price": "0.68"},
            ],
            "nodePools": [
                {
                    "name": "general",
                    "instanceTypes": ["n16", "c16"],
                    "zones": ["a", "b", "c"],
                    "initial": size.initial,
                    "disruption": {"consolidateAfter": "5m", "budgets": [{"nodes": "10%"}]},
                }
            ],
            "supply": {"karpenter": {}},
            "workloads": {"objects": objects},
            "demand": demand,
            "sampling": {"period": "60s"},
        },
    }


def name_of(number: int) -> str:
    """Of a service."""
    return f"service-{number:03d}"


def deployment(number: int, pods: int, cores: float) -> dict[str, Any]:
    """With the pods that the load of midnight needs, about."""
    name = name_of(number)
    container = {
        "name": "web",
        "image": f"shop/{name}:1",
        "resources": {"requests": {"cpu": f"{round(cores * 1000)}m", "memory": "512Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": max(pods // 3, 2),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def autoscaler(number: int, pods: int) -> dict[str, Any]:
    """On cpu."""
    name = name_of(number)
    target = {"type": "Utilization", "averageUtilization": round(100 * UTILIZATION)}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 2,
            "maxReplicas": 2 * pods,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def load(number: int, peak: int, period: int) -> dict[str, Any]:
    """Requests; peaks come within half an hour of each other, so that nearly all pods are there at once."""
    return {
        "name": f"load-{number:03d}",
        "target": {"namespace": "shop", "name": name_of(number)},
        "series": {
            "diurnal": {
                "low": round(peak / 3),
                "high": peak,
                "peak": f"{30 * period + number % 30}m",
                "period": f"{period}h",
                "noise": "0.03",
            }
        },
        "web": {"cpuPerRequest": f"{round(COST * 1000)}m", "waitPerRequest": "20ms", "threads": 64, "memory": "200Mi"},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run: seconds of the processor, largest size of the process in megabytes, and how much there was to do."""

    hours: float
    seconds: float
    memory: float
    bindings: int
    attempts: int
    syncs: int
    pods: int
    nodes: int

    def text(self, name: str, size: Size) -> str:
        """A line of the table."""
        return (
            f"{name}: {self.hours:g} h, {size.services} services, {self.pods:,} pods and {self.nodes:,} nodes at the "
            f"peak, {self.bindings:,} bindings of {self.attempts:,} attempts, {self.syncs:,} syncs: "
            f"{self.seconds:.1f} s, {self.memory:.0f} MB ({self._verdict(size)})"
        )

    def _verdict(self, size: Size) -> str:
        """Against the targets, the one of time for as long as was simulated."""
        most = size.seconds * self.hours / DAY
        reached = self.seconds <= most and (size.memory is None or self.memory <= size.memory)
        memory = "" if size.memory is None else f" and {size.memory:g} MB"
        return f"target {most:g} s{memory} {'reached' if reached else 'missed'}"


def measure(size: Size, hours: float, folder: Path) -> Measured:
    """Simulate in a process of its own. Raises CalledProcessError."""
    folder.mkdir(parents=True, exist_ok=True)
    source, results = folder / "simulation.yaml", folder / "results"
    source.write_text(yaml.safe_dump(simulation(size), sort_keys=False))
    arguments = ["simulate", "-f", str(source), "--results", str(results), "-o", "json", "-q"]
    command = [sys.executable, "-c", PROGRAM, *arguments, "--duration", f"{round(hours * 3600)}s"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return read(results, hours, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def read(results: Path, hours: float, seconds: float, memory: float) -> Measured:
    """What a results folder says of the work that was done."""
    summary = json.loads((results / "summary.json").read_text())
    with (results / "series" / "cluster.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return Measured(
        hours=hours,
        seconds=seconds,
        memory=memory,
        bindings=summary["scheduling"]["scheduled"],
        attempts=summary["scheduling"]["attempts"],
        syncs=sum(each["syncs"] for each in summary["autoscalers"]),
        pods=max(int(row["pods"]) for row in rows),
        nodes=max(int(row["nodes"]) for row in rows),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", action="append", choices=sorted(SIZES), help="which (default: all)")
    parser.add_argument("--short", action="store_true", help=f"{SHORT:g} hours instead of a day")
    parser.add_argument("--hours", type=float, help="so many hours instead of a day")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where to leave simulations and results")
    options = parser.parse_args(arguments)
    hours = options.hours if options.hours is not None else SHORT if options.short else DAY
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.size or sorted(SIZES):
            try:
                found = measure(SIZES[name], hours, (options.keep or Path(scratch)) / name)
            except (OSError, subprocess.CalledProcessError) as failure:
                print(f"run_rate: {failure}", file=sys.stderr)
                return 1
            print(found.text(name, SIZES[name]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
