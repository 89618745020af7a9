"""Nodes and pods for tests of schedulers on a real control plane: made quickly, waited for, and checked."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from integration.control_plane import ControlPlane
from integration.kube_api import KubeApi, Manifest, sure
from stowplan_scheduler.quantity import parse_quantity

NAMESPACE: Final = "default"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"

_CONNECTIONS: Final = 6
PATIENCE: Final = 120.0


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    fake: bool = False,
) -> Manifest:
    """A node that is ready. `fake`: kwok keeps it alive and plays its kubelet."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {HOSTNAME: name, **(labels or {})},
            "annotations": {"kwok.x-k8s.io/node": "fake"} if fake else {},
        },
        "spec": {"taints": list(taints)} if taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str,
    scheduler: str,
    *,
    cpu: str = "100m",
    memory: str = "64Mi",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod of a scheduler, with one container. It goes at once when it is deleted."""
    requests = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(labels or {"app": "web"})},
        "spec": {
            "schedulerName": scheduler,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "web:1", "resources": {"requests": requests}}],
            **spec,
        },
    }


def create_all(plane: ControlPlane, manifests: Iterable[Manifest]) -> None:
    """Create objects over several connections. Raises RefusedError."""
    local = threading.local()
    apis: list[KubeApi] = []

    def create(manifest: Manifest) -> None:
        if not hasattr(local, "api"):
            local.api = plane.api
            apis.append(local.api)
        sure(local.api.create(manifest))

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for _ in pool.map(create, manifests):
            pass
    for api in apis:
        api.close()


def make_ready(plane: ControlPlane, names: Iterable[str]) -> None:
    """Take off the taint that a new node gets until a controller has seen it ready; for planes without controllers."""
    with contextlib.closing(plane.api) as api:
        for name in names:
            manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            taints = sure(api.read(manifest))["spec"].get("taints", [])
            kept = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
            sure(api.patch(manifest, {"spec": {"taints": kept or None}}))


def pods_of(api: KubeApi, scheduler: str | None = None) -> list[Manifest]:
    """The pods of a scheduler, or all."""
    pods = api.all("v1", "Pod", NAMESPACE)
    return [each for each in pods if scheduler in {None, each["spec"]["schedulerName"]}]


def unbound(pods: Iterable[Manifest]) -> list[str]:
    """The names of those without a node."""
    return [each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")]


def wait_bound(api: KubeApi, count: int, *, patience: float = PATIENCE) -> list[Manifest]:
    """All pods, once there are `count` and each has a node. Raises TimeoutError."""
    deadline = time.monotonic() + patience
    while True:
        pods = pods_of(api)
        waiting = unbound(pods)
        if len(pods) >= count and not waiting:
            return pods
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(pods)} of {count} pods are there, {len(waiting)} without a node: {waiting[:5]}")
        time.sleep(0.2)


def overcommitted(nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> dict[str, str]:
    """What is asked for beyond what a node has, by node; {} if all is well. Pods that have ended ask for nothing."""
    asked: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in pods:
        name = each["spec"].get("nodeName")
        if not name or each["status"].get("phase") in {"Succeeded", "Failed"}:
            continue
        asked[name]["pods"] += parse_quantity("1")
        for container in each["spec"]["containers"]:
            for resource, amount in container["resources"].get("requests", {}).items():
                asked[name][resource] += parse_quantity(amount)
    found = {}
    for each in nodes:
        name, allocatable = each["metadata"]["name"], each["status"]["allocatable"]
        for resource, amount in asked[name].items():
            if amount > parse_quantity(allocatable.get(resource, "0")):
                found[name] = f"{resource}: {amount / 1e9:g} of {allocatable.get(resource, '0')}"
    return found
