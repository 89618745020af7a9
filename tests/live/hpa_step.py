"""The demand step: a real HPA on real metrics-server data, fed by kwok with a demand that the driver divides.

What a pod uses is the demand divided by the pods that run, set twice a second. The driver also reads every kubelet
that often: kwok counts what was used since it was last asked at what is used now, so that it would otherwise book a
change of demand from the last round of metrics-server on. This is what cAdvisor's housekeeping is to a real kubelet.
"""

from __future__ import annotations

import contextlib
import csv
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from integration.control_plane import CONTROLLER_MANAGER, SCHEDULER, ControlPlane
from integration.kube_api import ANYTHING, KubeApi, Manifest, sure
from live.comparison import Band, Row, Step, band_of, compare_steps, steps_of
from live.peers import Certificates, Peers, aggregation
from live.prediction import SCENARIOS, manifests, predict, table

NAME: Final = "hpa-step"
DURATION: Final = 560.0
SCRAPE_PHASE: Final = 5.0
"""Seconds from the creation of the HPA to the first round of metrics-server, as spec.metrics.server.phase."""
RESOLUTION: Final = 15.0
NODES: Final = 4

EARLY: Final = 1.0
LATE: Final = 4.0
"""A look of the HPA controller comes 15 s after the end of the one before, and is seen at the next reading: each is a
moment later than the predicted one, and the 35th by as many moments."""

_PERIOD: Final = 0.5
_TICKS: Final = re.compile(r"^metrics_server_manager_tick_duration_seconds_count (\S+)$", re.MULTILINE)


class Sample(NamedTuple):
    """One reading. Replicas: spec.replicas. Desired and utilization: as the HPA's status has them."""

    seconds: float
    demand: float
    running: int
    replicas: int
    desired: int
    utilization: int | None


def demand_at(seconds: float) -> float:
    """Cores in all; series of the scenario."""
    return 0.9 if 60 <= seconds < 200 else 0.1


# ---- prediction ----------------------------------------------------------------------------------------------------


def predicted(results: Path, seeds: Sequence[int]) -> list[list[Step]]:
    """The replicas of each seed."""
    folders = predict(SCENARIOS / f"{NAME}.yaml", results / "prediction", seeds)
    return [replicas_of(table(folder, "series/autoscalers.csv")) for folder in folders]


def replicas_of(rows: Iterable[dict[str, str]]) -> list[Step]:
    """The replicas at the start, and each change that the autoscaler made."""
    found = list(rows)
    first = (0.0, int(found[0]["current"]))
    return steps_of([first, *((float(row["seconds"]), int(row["desired"])) for row in found if row["desired"])])


# ---- observation ---------------------------------------------------------------------------------------------------


def observe(program: Path, programs: Path, certificates: Certificates, folder: Path) -> list[Sample]:
    """Let it happen. Raises ControlPlaneError, OSError, RefusedError."""
    components = (CONTROLLER_MANAGER, SCHEDULER)
    flags = {"kube-apiserver": aggregation(certificates)}
    with (
        ControlPlane(program, folder / "control-plane", components=components, flags=flags) as plane,
        Peers(plane, programs, certificates) as peers,
        contextlib.closing(plane.api) as api,
    ):
        peers.start_kwok()
        nodes = [node(f"node-{number + 1}") for number in range(NODES)]
        for each in nodes:
            sure(api.create(each))
        peers.start_metrics_server()
        with contextlib.closing(peers.metrics_server) as server:
            last = next_round(server)
        time.sleep(max(last + RESOLUTION - SCRAPE_PHASE - time.monotonic(), 0))
        with contextlib.closing(peers.kubelets) as kubelets:
            samples = _Driver(api, kubelets, nodes).run()
    write(folder / "observation.csv", samples)
    return samples


def node(name: str) -> Manifest:
    """A node that kwok plays."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    path = f"/metrics/nodes/{name}/metrics/resource"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake", "metrics.k8s.io/resource-metrics-path": path},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def next_round(server: KubeApi) -> float:
    """Wait for the next round of metrics-server to end; when that was, by the monotonic clock."""
    before = _rounds(server)
    deadline = time.monotonic() + 3 * RESOLUTION
    while _rounds(server) == before:
        if time.monotonic() > deadline:
            raise TimeoutError("metrics-server does not read the kubelets")
        time.sleep(0.05)
    return time.monotonic()


def _rounds(server: KubeApi) -> float:
    found = _TICKS.search(server.request("GET", "/metrics", accept=ANYTHING).body.get("message", ""))
    return float(found[1]) if found else 0.0


class _Driver:
    """Makes the workload, plays the demand, and writes down what happens."""

    def __init__(self, api: KubeApi, kubelets: KubeApi, nodes: Sequence[Manifest]) -> None:
        self._api = api
        self._kubelets = kubelets
        self._nodes = nodes
        self._share = -1.0
        self._deployment, self._autoscaler = manifests("web.yaml")

    def run(self) -> list[Sample]:
        """One sample per reading."""
        sure(self._api.create(self._deployment))
        sure(self._api.create(self._autoscaler))
        begun = time.monotonic()
        samples: list[Sample] = []
        while (seconds := time.monotonic() - begun) < DURATION:
            samples.append(self._turn(seconds))
            time.sleep(max(begun + len(samples) * _PERIOD - time.monotonic(), 0))
        return samples

    def _turn(self, seconds: float) -> Sample:
        pods = self._api.all("v1", "Pod", "default")
        running = sum((each.get("status") or {}).get("phase") == "Running" for each in pods)
        demand = demand_at(seconds)
        share = demand / running if running else 0.0
        for each in self._nodes:
            path = each["metadata"]["annotations"]["metrics.k8s.io/resource-metrics-path"]
            sure(self._kubelets.request("GET", path, accept=ANYTHING))
        if share != self._share:
            change = {"metadata": {"annotations": {"stowplan.io/cpu-per-pod": f"{round(share * 1e9)}n"}}}
            for each in self._nodes:
                sure(self._api.patch(each, change))
            self._share = share
        deployment, autoscaler = sure(self._api.read(self._deployment)), sure(self._api.read(self._autoscaler))
        status: dict[str, Any] = autoscaler.get("status") or {}
        return Sample(
            round(seconds, 2),
            demand,
            running,
            deployment["spec"]["replicas"],
            status.get("desiredReplicas", 0),
            _utilization(status),
        )


def _utilization(status: dict[str, Any]) -> int | None:
    for metric in status.get("currentMetrics") or ():
        value: int | None = ((metric.get("resource") or {}).get("current") or {}).get("averageUtilization")
        return value
    return None


def write(path: Path, samples: Sequence[Sample]) -> None:
    """As CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Sample._fields)
        writer.writerows(samples)


# ---- both ----------------------------------------------------------------------------------------------------------


def compare(predictions: Sequence[Sequence[Step]], samples: Sequence[Sample]) -> list[Row]:
    """Replica steps equal, their times within a few seconds of the predicted looks."""
    observed = steps_of((each.seconds, each.replicas) for each in samples)
    return compare_steps(predictions, observed, unit="replicas", before=EARLY, after=LATE)


def unknown_phase(results: Path, phases: Sequence[float]) -> tuple[list[str], Band]:
    """What would come out, and when the first step would come, if nobody knew when metrics-server reads."""
    text = (SCENARIOS / f"{NAME}.yaml").read_text(encoding="utf-8")
    known = f"phase: {SCRAPE_PHASE:.0f}s"
    if known not in text:
        raise ValueError(f"{NAME}.yaml: spec.metrics.server.{known} is missing")
    folder = results / "phases"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "web.yaml").write_bytes((SCENARIOS / "web.yaml").read_bytes())
    stories = []
    for phase in phases:
        path = folder / f"{NAME}-{phase:g}.yaml"
        path.write_text(text.replace(known, f"phase: {round(phase * 1000)}ms"), encoding="utf-8")
        (run,) = predict(path, folder / f"{phase:g}", [1])
        stories.append(replicas_of(table(run, "series/autoscalers.csv")))
    sequences = sorted({" → ".join(str(step.value) for step in story) for story in stories})
    return sequences, band_of(story[1].seconds for story in stories)
