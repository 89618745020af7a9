"""What Stowplan says before anything is observed: the scenario's simulation, run for several seeds."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stowplan_autoscaling.demand.simkube import VERSION
from stowplan_autoscaling.supply.karpenter.instance_types import InstanceType
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import kwok_instance_types
from stowplan_autoscaling.supply.karpenter.labels import ARCH, OS
from stowplan_scheduler.quantity import NANOS

HERE: Final = Path(__file__).resolve().parent
SCENARIOS: Final = HERE / "scenarios"

_COMMAND: Final = "from stowplan_operator.cli import main; main()"
_EPOCH: Final = 1_767_571_200
"""Of traces: any whole second will do."""

Table = list[dict[str, str]]


def predict(scenario: Path, results: Path, seeds: Sequence[int]) -> list[Path]:
    """Results folders of `stowplan simulate`, one per seed. Raises CalledProcessError."""
    folders = []
    for seed in seeds:
        folder = results / f"seed-{seed}"
        arguments = ("simulate", "-f", scenario, "--seed", str(seed), "--results", folder, "--output", "json", "-q")
        subprocess.run([sys.executable, "-c", _COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
        folders.append(folder)
    return folders


def table(folder: Path, name: str) -> Table:
    """The rows of a table of a results folder."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def manifests(name: str) -> list[dict[str, Any]]:
    """The documents of a file of the scenarios: what runs on both sides."""
    with (SCENARIOS / name).open(encoding="utf-8") as file:
        return [each for each in yaml.safe_load_all(file) if each]


# ---- files that the simulation of the scenario karpenter reads -----------------------------------------------------


def write_catalogue(path: Path) -> None:
    """The instance types of Karpenter's kwok provider, as its own file has them."""
    path.write_bytes(msgspec.json.encode([_type(each) for each in kwok_instance_types()]))


def _type(kind: InstanceType) -> dict[str, Any]:
    return {
        "name": kind.name,
        "architecture": kind.requirements.get(ARCH).single,
        "operatingSystems": [kind.requirements.get(OS).single],
        "resources": {name: str(amount // NANOS) for name, amount in kind.capacity.items()},
        "offerings": [
            {
                "Price": offer.price,
                "Available": True,
                "Requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [offer.capacity_type]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [offer.zone]},
                ],
            }
            for offer in kind.offerings
        ],
    }


def write_scale_in(path: Path, deployments: Sequence[Mapping[str, Any]], replicas: int, seconds: int) -> None:
    """A trace in which the Deployments get so many replicas after so many seconds."""
    smaller = [{**each, "spec": {**each["spec"], "replicas": replicas}} for each in deployments]
    events = [
        {"ts": _EPOCH, "applied_objs": [], "deleted_objs": []},
        {"ts": _EPOCH + seconds, "applied_objs": smaller, "deleted_objs": []},
    ]
    config: dict[str, Any] = {"trackedObjects": {"apps/v1.Deployment": {}}}
    trace = {"version": VERSION, "config": config, "events": events, "pod_lifecycles": {}}
    path.write_bytes(msgspec.msgpack.encode(trace))
