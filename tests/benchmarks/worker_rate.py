"""Pods per second on a real control plane: kube-scheduler and our worker in turn, each with the same load.

    python tests/benchmarks/worker_rate.py [--nodes 1000] [--pods 5000] [--turns 3] [--concurrency 32] [--json FILE]

Each turn has a control plane of its own: etcd and API server, without controllers and kubelets. Nodes are there before
the clock starts. A loader then creates the pods, so many at a time, while the scheduler places them; a watch sees each
pod on its node. The rate is pods by the seconds from the first creation to the last binding seen. Everything shares the
machine's cores, the loader too, so the ratio says more than the rates.

kube-scheduler's client is allowed 5,000 requests per second, as in its own benchmark; by default it binds 50.

Exit codes: 0 everything ran, 1 something could not run, 2 bad use.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import build_folder
from integration.control_plane import API_SERVER, SCHEDULER, ControlPlane, ControlPlaneError
from stowplan_operator.api.call import Call
from stowplan_operator.api.client import ApiClient
from stowplan_operator.api.connection import load_connection
from stowplan_operator.api.kinds import Resource
from stowplan_operator.api.reflector import Reflector

KUBE_SCHEDULER: Final = "kube-scheduler"
STOWPLAN: Final = "stowplan"
PATIENCE: Final = 300.0
"""Seconds without any progress after which a turn counts as failed."""

PROFILE: Final = "default-scheduler"
CONFIGURATION: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

_SHAPES: Final = tuple((cpu, memory) for cpu in (100, 200, 300, 500) for memory in (128, 256, 512, 640, 1024))
"""Of pods: millicores and MiB; 20 templates, as real workloads have some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One measurement. Seconds of the processor and peak memory (MB) of the scheduler; seconds of the API server."""

    scheduler: str
    nodes: int
    pods: int
    seconds: float
    cpu_seconds: float
    memory: float
    api_cpu_seconds: float

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds

    def text(self) -> str:
        """One line."""
        return (
            f"{self.scheduler:15} {self.rate:6.0f} pods/s  {self.seconds:6.1f} s  "
            f"{1000 * self.cpu_seconds / self.pods:5.2f} ms of processor per pod, {self.memory:4.0f} MB; "
            f"API server {1000 * self.api_cpu_seconds / self.pods:5.2f} ms per pod"
        )


# ---- the load --------------------------------------------------------------------------------------------------------


def node(number: int) -> dict[str, Any]:
    """32 cores, 128 GiB, 110 pods; three zones."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{'abc'[number % 3]}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(number: int) -> dict[str, Any]:
    """One of 20 templates."""
    cpu, memory = _SHAPES[number % len(_SHAPES)]
    container = {
        "name": "web",
        "image": "registry.example/web:1",
        "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:06d}", "namespace": "default", "labels": {"app": f"app-{number % 20}"}},
        "spec": {"schedulerName": PROFILE, "automountServiceAccountToken": False, "containers": [container]},
    }


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class SlimPod(msgspec.Struct):
    """Whether it has a node."""

    metadata: _Meta
    spec: _Spec


class Seen:
    """Counts pods with a node; a reflector's handler."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.last = 0.0
        self.changed_at = asyncio.Event()

    def replaced(self, kind: str, objects: list[SlimPod], version: str) -> None:
        """A list."""
        for each in objects:
            self._see(each)

    def changed(self, kind: str, type: str, object: SlimPod, version: str) -> None:
        """An event."""
        self._see(object)

    def advanced(self, kind: str, version: str) -> None:
        """A bookmark."""

    def _see(self, each: SlimPod) -> None:
        if each.spec.node_name and each.metadata.name not in self.bound:
            self.bound.add(each.metadata.name)
            self.last = time.monotonic()
            self.changed_at.set()


async def load(kubeconfig: Path, pods: int, concurrency: int) -> float:
    """Create the pods and wait until all have a node; returns the seconds. Raises TimeoutError, ApiError."""
    async with ApiClient(load_connection(kubeconfig), timeout=60, connections=concurrency + 2) as client:
        seen = Seen()
        watch = asyncio.ensure_future(Reflector(client, Resource(kind="Pod", plural="pods", type=SlimPod), seen).run())
        began = time.monotonic()
        numbers = iter(range(pods))

        async def create() -> None:
            for number in numbers:
                body = msgspec.json.encode(pod(number))
                (await client.call(Call("POST", "/api/v1/namespaces/default/pods", body=body))).sure()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(create())
            while len(seen.bound) < pods:
                seen.changed_at.clear()
                async with asyncio.timeout(PATIENCE):
                    await seen.changed_at.wait()
        finally:
            watch.cancel()
        return seen.last - began


async def create_nodes(kubeconfig: Path, count: int) -> None:
    """All of them, 16 at a time."""
    async with ApiClient(load_connection(kubeconfig), timeout=60) as client:
        numbers = iter(range(count))

        async def create() -> None:
            for number in numbers:
                (await client.call(Call("POST", "/api/v1/nodes", body=msgspec.json.encode(node(number))))).sure()

        async with asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(create())


# ---- the two schedulers ----------------------------------------------------------------------------------------------


def run_turn(scheduler: str, rig: Path, folder: Path, nodes: int, pods: int, concurrency: int) -> Turn:
    """One turn in a control plane of its own. Raises ControlPlaneError, OSError, TimeoutError."""
    folder.mkdir(parents=True)
    # A new node is tainted until a controller has seen that it is ready; there is none.
    flags: dict[str, Sequence[str]] = {"kube-apiserver": ("--disable-admission-plugins", "TaintNodesByCondition")}
    theirs = scheduler == KUBE_SCHEDULER
    if theirs:
        client = {"kubeconfig": "kubeconfig", "qps": 5000, "burst": 5000}
        settings = {"clientConnection": client, "leaderElection": {"leaderElect": False}}
        (folder / "scheduler.json").write_text(json.dumps({**CONFIGURATION, **settings}))
        flags[SCHEDULER] = ("--config", "scheduler.json")
    with ControlPlane(rig, folder, components=(SCHEDULER,) if theirs else (), flags=flags) as plane:
        asyncio.run(create_nodes(plane.kubeconfig, nodes))
        with contextlib.ExitStack() as stack:
            process = plane.pid(SCHEDULER) if theirs else stack.enter_context(worker(plane, folder))
            api = plane.pid(API_SERVER)
            # Both have seen all nodes by then.
            time.sleep(2)
            before, api_before = cpu_seconds(process), cpu_seconds(api)
            seconds = asyncio.run(load(plane.kubeconfig, pods, concurrency))
            return Turn(
                scheduler=scheduler,
                nodes=nodes,
                pods=pods,
                seconds=seconds,
                cpu_seconds=cpu_seconds(process) - before,
                memory=peak_memory(process),
                api_cpu_seconds=cpu_seconds(api) - api_before,
            )


@contextlib.contextmanager
def worker(plane: ControlPlane, folder: Path) -> Iterator[int]:
    """Our worker with the default profile, ready; gives its process id."""
    config, ready = folder / "worker.json", folder / "ready"
    config.write_text(json.dumps({**CONFIGURATION, "leaderElection": {"leaderElect": False}}))
    command = [
        *(sys.executable, "-m", "stowplan_operator", "worker"),
        *("--config", str(config), "--kubeconfig", str(plane.kubeconfig)),
        *("--bind", "127.0.0.1:0", "--ready-file", str(ready)),
    ]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise ControlPlaneError(f"the worker did not start:\n{(folder / 'worker.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    """Of a process, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


# ---- the run ---------------------------------------------------------------------------------------------------------


def ratio(turns: Sequence[Turn]) -> float:
    """Our rate by kube-scheduler's, medians."""
    rates = {name: [turn.rate for turn in turns if turn.scheduler == name] for name in (STOWPLAN, KUBE_SCHEDULER)}
    return statistics.median(rates[STOWPLAN]) / statistics.median(rates[KUBE_SCHEDULER])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=3, help="of each scheduler (default: 3)")
    parser.add_argument("--concurrency", type=int, default=32, help="pods that are created at a time (default: 32)")
    parser.add_argument("--only", choices=(KUBE_SCHEDULER, STOWPLAN), help="one of the two alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to it")
    options = parser.parse_args(arguments)
    rig = Path(os.environ.get("STOWPLAN_RIG") or build_folder() / "rig")
    names = (options.only,) if options.only else (KUBE_SCHEDULER, STOWPLAN)
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(options.turns):
            for name in names:
                folder = Path(scratch) / f"{name}-{number}"
                try:
                    turn = run_turn(name, rig, folder, options.nodes, options.pods, options.concurrency)
                except (ControlPlaneError, OSError, TimeoutError, ExceptionGroup) as failure:
                    print(f"worker_rate: {name}: {failure}", file=sys.stderr)
                    return 1
                turns.append(turn)
                print(turn.text(), flush=True)
    if not options.only:
        print(f"ratio {ratio(turns):.2f} (target 1.0), {options.nodes:,} nodes, {options.pods:,} pods")
    if options.json is not None:
        options.json.write_text(json.dumps([{**asdict(turn), "rate": turn.rate} for turn in turns], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
