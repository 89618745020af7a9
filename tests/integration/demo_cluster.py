"""The bookshop's profile on a real control plane, from kubectl apply to pods that are placed: `make demo-cluster`.

    python tests/integration/demo_cluster.py [--keep]

Starts etcd, API server, controllers and kube-scheduler of v1.37.2 on loopback, and kwok, which plays nodes and
kubelets; installs deploy/kustomize/default; runs the operator as a process with the token of its ServiceAccount; then
does with kubectl what a user does, and prints it. --keep leaves everything running until Ctrl-C, to look around.

Exit codes: 0 all pods are placed as the profile says, 1 they are not, 3 a program that it needs is not built.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parent.parent
REPOSITORY: Final = TESTS.parent
sys.path.insert(0, str(TESTS))  # as a program it has only its own folder on the path

from conftest import build_folder  # noqa: E402
from integration.accounts import kubeconfig_of  # noqa: E402
from integration.control_plane import CONTROLLER_MANAGER, HOST, SCHEDULER, ControlPlane, ControlPlaneError  # noqa: E402
from integration.kubectl import Kubectl, KubectlError  # noqa: E402
from integration.operator_process import NAMESPACE, OperatorProcess  # noqa: E402
from integration.stowplan_process import ProcessError  # noqa: E402
from live.peers import KWOK, Peers  # noqa: E402

BOOKSHOP: Final = REPOSITORY / "examples/bookshop"
PROFILE: Final = "batch-packer"
GROUP: Final = "default"
"""Of workers: what a profile gets that names none."""

JOBS: Final = 10
ON_ONE_NODE: Final = 7
"""Jobs of one core on a node of eight, of which 7.82 can be had."""

EXCERPT: Final = (
    "scheduler_schedule_attempts_total",
    "scheduler_pending_pods",
    "scheduler_cache_size",
    "scheduler_scheduling_attempt_duration_seconds_count",
    "scheduler_scheduling_attempt_duration_seconds_sum",
)


class DemoError(Exception):
    """The cluster is not as the demo wants to show it."""


def install(kubectl: Kubectl) -> None:
    """What a user does in any cluster. The pods of the operator would need an image: it runs here, as a process."""
    print("== Install ==")
    show(kubectl, "apply", "--kustomize", str(REPOSITORY / "deploy/kustomize/default"), quiet=True)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=50s")
    kubectl("scale", "deployment/stowplan-operator", "--namespace", NAMESPACE, "--replicas=0")
    print("(there is no image here: the operator's Deployment is scaled to 0, and the operator runs as a process, with")
    print(" the token and the rights of its ServiceAccount; kwok plays the nodes)")


def show(kubectl: Kubectl, *arguments: str, quiet: bool = False) -> None:
    """Run kubectl; show what was typed and what came, or how many lines of it. Raises KubectlError."""
    print(f"$ kubectl {' '.join(arguments)}".replace(f"{REPOSITORY}/", ""))
    output = kubectl(*arguments)
    print(f"{len(output.splitlines())} objects" if quiet else output.rstrip())


class Bookshop:
    """The shop in one cluster. `work`: the operator's folder."""

    def __init__(self, kubectl: Kubectl, work: Path) -> None:
        self._kubectl = kubectl
        self._work = work

    def run(self) -> None:
        """The bookshop. Raises DemoError."""
        print("\n== A profile, applied with kubectl ==")
        show(self._kubectl, "apply", "--filename", str(BOOKSHOP / "profile.yaml"))
        show(self._kubectl, "wait", "--for=condition=Ready", f"sprof/{PROFILE}", "--timeout=50s")
        print("\n== The storefront for kube-scheduler, image resizing for the profile ==")
        files = (BOOKSHOP / "workloads.yaml", BOOKSHOP / "cluster/jobs.yaml")
        show(self._kubectl, "apply", *(f"--filename={file}" for file in files))
        self._show_placement()
        print("\n== The profile ==")
        self._wait_figures()
        show(self._kubectl, "get", "sprof", "--output", "wide")
        print("\n== Metrics of its worker: kube-scheduler's names ==")
        print(self._metrics())

    def _show_placement(self) -> None:
        """Who placed what where, by the events that the schedulers wrote. Raises DemoError."""
        pods = self._placed()
        events = self._kubectl.get("events.events.k8s.io", "--namespace", "bookshop")["items"]
        by = {
            each["regarding"]["name"]: each["reportingController"] for each in events if each["reason"] == "Scheduled"
        }
        counted = Counter((pod["spec"]["nodeName"], by.get(pod["metadata"]["name"], "?")) for pod in pods)
        nodes = sorted(each["metadata"]["name"] for each in self._kubectl.get("nodes")["items"])
        schedulers = sorted({scheduler for _, scheduler in counted})
        print("\npods by node and by the scheduler that placed them:")
        print(f"  {'NODE':<12}" + "".join(f"{name:>20}" for name in schedulers))
        for node in nodes:
            print(f"  {node:<12}" + "".join(f"{counted[node, name] or '-':>20}" for name in schedulers))
        packed = sorted((counted[node, PROFILE] for node in nodes if node.startswith("batch")), reverse=True)
        if packed != [ON_ONE_NODE, JOBS - ON_ONE_NODE, 0]:
            raise DemoError(f"the Jobs are not packed: {packed} on the batch nodes")
        print(f"The Jobs fill one batch node before they open the next: {packed[0]} + {packed[1]} + {packed[2]}.")

    def _placed(self) -> list[dict[str, dict[str, str]]]:
        """All pods of the bookshop, once each has a node and an event says who placed it. Raises DemoError."""
        deadline = time.monotonic() + 60
        while True:
            # Events first: a pod that one tells of has its node in what is read after it.
            events = self._kubectl.get("events.events.k8s.io", "--namespace", "bookshop")["items"]
            pods = self._kubectl.get("pods", "--namespace", "bookshop")["items"]
            told = {each["regarding"]["name"] for each in events if each["reason"] == "Scheduled"}
            missing = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] not in told]
            if len(pods) >= JOBS + 5 and not missing:
                return list(pods)
            if time.monotonic() > deadline:
                raise DemoError(f"{len(pods)} pods are there; without a node: {', '.join(missing) or 'none'}")
            time.sleep(0.3)

    def _wait_figures(self) -> None:
        """Figures are written into a profile's status when they change, and at most every 30 s."""
        deadline = time.monotonic() + 45
        while time.monotonic() < deadline:
            status = self._kubectl.get("sprof", PROFILE).get("status", {})
            if status.get("utilizationPercent", 0) > 0:
                return
            time.sleep(0.5)

    def _metrics(self) -> str:
        port = json.loads((self._work / f"{GROUP}.ready").read_text(encoding="utf-8"))["port"]
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return "\n".join(line for line in lines if line.startswith(EXCERPT) and not line.endswith(" 0.0"))


def missing_programs(folder: Path) -> list[str]:
    """What has to be built first."""
    return [name for name in ("rig", KWOK) if not os.access(folder / name, os.X_OK)]


def play(programs: Path, folder: Path, *, keep: bool) -> None:
    """Start everything, show it, stop everything. Raises ControlPlaneError, DemoError, KubectlError, ProcessError."""
    work = folder / "work"
    components = (CONTROLLER_MANAGER, SCHEDULER)
    with ControlPlane(programs / "rig", folder, components=components) as plane, Peers(plane, programs) as peers:
        kubectl = Kubectl(plane)
        peers.start_kwok()
        kubectl("apply", "--filename", str(BOOKSHOP / "cluster/nodes.yaml"))
        install(kubectl)
        kubeconfig = kubeconfig_of(plane, "stowplan-operator", NAMESPACE, folder)
        with OperatorProcess(plane, folder, kubeconfig=kubeconfig, options=("--work-dir", str(work))) as operator:
            operator.wait_acting()
            Bookshop(kubectl, work).run()
            if keep:
                print(f"\nIt runs until Ctrl-C: export KUBECONFIG={plane.kubeconfig}", flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
            operator.stop()


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make demo-cluster", description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--keep", action="store_true", help="leave it running until Ctrl-C")
    keep = parser.parse_args(arguments).keep
    programs = build_folder()
    missing = missing_programs(programs)
    if missing:
        print(f"demo-cluster: not built: {', '.join(missing)}", file=sys.stderr)
        print("  run tests/conformance/build.sh rig kwok (needs Go; minutes the first time)", file=sys.stderr)
        return 3
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    folder = Path(tempfile.mkdtemp(prefix="stowplan-demo-"))
    began = time.monotonic()
    try:
        play(programs, folder, keep=keep)
    except (ControlPlaneError, DemoError, KubectlError, ProcessError, subprocess.TimeoutExpired) as error:
        print(f"demo-cluster: {error}\n  the logs are in {folder}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        print("demo-cluster: interrupted; everything is stopped", file=sys.stderr)
        return 130
    shutil.rmtree(folder, ignore_errors=True)
    print(f"\nCleaned up. It took {time.monotonic() - began:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
