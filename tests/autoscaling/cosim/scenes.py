"""Small simulations for tests of whole runs, and their results by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from stowplan_autoscaling.cosim import Run
from stowplan_autoscaling.resources import load_simulation
from stowplan_autoscaling.results import MemorySink, PodRecord, RunReport
from support.simulations import write

Row = TypeVar("Row")


class Played:
    """A run and what came of it."""

    def __init__(self, report: RunReport, sink: MemorySink, run: Run) -> None:
        self.report = report
        self.sink = sink
        self.run = run

    def rows(self, kind: type[Row]) -> list[Row]:
        """The rows of one table."""
        return [row for row in self.sink.rows if isinstance(row, kind)]

    def pods(self, workload: str) -> list[PodRecord]:
        """The pods of a workload in order of creation."""
        found = [row for row in self.rows(PodRecord) if row.workload == workload]
        return sorted(found, key=lambda row: (row.created, row.pod))

    def times(self, reason: str) -> list[float]:
        """When events of a reason happened."""
        return [event.seconds for event in self.sink.events if event.reason == reason]


def play(folder: Path, simulation: dict[str, Any]) -> Played:
    """Run it to its end."""
    folder.mkdir(exist_ok=True)
    sink = MemorySink()
    run = Run(load_simulation(write(folder, simulation)), None, None, sink)
    return Played(run.go(), sink, run)


def scene(
    *objects: dict[str, Any],
    demand: list[dict[str, Any]] | None = None,
    duration: str = "10m",
    nodes: int = 1,
    cpu: str = "16",
    memory: str = "64Gi",
    **spec: Any,
) -> dict[str, Any]:
    """A simulation without chance: pods take a second to start, metrics are measured at fixed times."""
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "scene"},
        "spec": {
            "duration": duration,
            "cluster": {"nodeGroups": [{"name": "node", "count": nodes, "capacity": {"cpu": cpu, "memory": memory}}]},
            "kubelet": {"sandboxMin": "1s", "sandboxMax": "1s"},
            "metrics": {"housekeeping": {"jitter": 0}, "server": {"phase": "0s"}},
            "workloads": {"objects": list(objects)},
            "demand": demand or [],
            **spec,
        },
    }


def deployment(name: str = "web", replicas: int = 1, **container: Any) -> dict[str, Any]:
    """A Deployment with one container that requests a core and a GiB unless told otherwise."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "image": f"{name}:1",
                            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                            **container,
                        }
                    ]
                },
            },
        },
    }


def hpa(name: str = "web", percent: int = 50, *, most: int = 10, metrics: list[Any] | None = None) -> dict[str, Any]:
    """An HPA on cpu, or on other metrics."""
    cpu = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": metrics or [cpu],
        },
    }


def steps(*points: tuple[str, int]) -> dict[str, Any]:
    """A series of steps (time, value)."""
    return {"steps": {"points": [{"at": at, "value": value} for at, value in points]}}


def visits(series: dict[str, Any], target: str = "web", name: str = "visits", **web: Any) -> dict[str, Any]:
    """Requests of 10 ms of a core each."""
    return {
        "name": name,
        "target": {"namespace": "shop", "name": target},
        "series": series,
        "web": {"cpuPerRequest": "10m", **web},
    }
