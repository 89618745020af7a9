"""Simulations for tests, as files in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Change = Callable[[dict[str, Any]], object]

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
        },
    },
}
HPA: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
            }
        ],
    },
}


def small() -> dict[str, Any]:
    """Ten minutes of a Deployment with an HPA on two nodes; a fresh copy each time."""
    return {
        "apiVersion": "stowplan.io/v1alpha1",
        "kind": "Simulation",
        "metadata": {"name": "small"},
        "spec": {
            "duration": "10m",
            "cluster": {"nodeGroups": [{"name": "plain", "count": 2, "capacity": {"cpu": "4", "memory": "16Gi"}}]},
            "workloads": {"objects": [yaml.safe_load(yaml.safe_dump(DEPLOYMENT)), yaml.safe_load(yaml.safe_dump(HPA))]},
            "demand": [
                {
                    "name": "visits",
                    "target": {"namespace": "shop", "name": "web"},
                    "series": {"constant": {"value": 10}},
                    "web": {"cpuPerRequest": "12m"},
                }
            ],
        },
    }


def write(folder: Path, simulation: Any, name: str = "simulation.yaml") -> str:
    """The path of the simulation as a file."""
    path = folder / name
    path.write_text(simulation if isinstance(simulation, str) else yaml.safe_dump(simulation, sort_keys=False))
    return str(path)


def at(path: str, value: Any) -> Change:
    """Sets the field at a path such as spec.demand.0.name."""

    def change(simulation: dict[str, Any]) -> None:
        *steps, last = path.split(".")
        target: Any = simulation
        for step in steps:
            target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
        target[int(last) if isinstance(target, list) else last] = value

    return change


def without(path: str) -> Change:
    """Takes the field at a path away."""

    def change(simulation: dict[str, Any]) -> None:
        *steps, last = path.split(".")
        target: Any = simulation
        for step in steps:
            target = target[int(step)] if isinstance(target, list) else target[step]
        del target[last]

    return change
