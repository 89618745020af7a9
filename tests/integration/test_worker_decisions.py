"""The same pods, one at a time, decided by the real kube-scheduler and by our worker: the same nodes and messages.

Each has a control plane of its own with the same nodes, and is given 300 pods one after the other: the next one when
the last one has a node, or is told why not and is removed. So both decide from the same state as long as they agree,
and the first difference, if there is one, is what the test shows.

Ties are part of it: we take the same one of several best nodes. For that kube-scheduler must look at the nodes in the
same order each time, which it does with one thread and if it sees them come one by one: a list that it finds at its
start goes through a map without order.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from integration.control_plane import SCHEDULER, ControlPlane
from integration.kube_api import KubeApi, Manifest, sure
from integration.scheduling_load import HOSTNAME, NAMESPACE, ZONE, make_ready, node, pod
from integration.worker_process import KUBE_SCHEDULER_CONFIGURATION, WorkerProcess, worker_configuration

pytestmark = [pytest.mark.rig, pytest.mark.slow]

NAME: Final = "default-scheduler"
PODS: Final = 300
SEED: Final = 20261130
PATIENCE: Final = 60.0


class Decision(NamedTuple):
    """What became of one pod: its node, or the condition that says why it has none, and the events about it."""

    node: str
    condition: tuple[str, str, str] | None
    nominated: str
    events: tuple[tuple[str, str, str, str], ...]


# ---- the cluster and the pods ----------------------------------------------------------------------------------------


def nodes() -> list[Manifest]:
    """40 nodes of three sizes in three zones; some tainted, one cordoned, one alone in its pool."""
    found = []
    for number in range(40):
        labels = {
            ZONE: f"zone-{'abc'[number % 3]}",
            "pool": f"pool-{number % 5}",
            "disk": "ssd" if number % 4 else "hdd",
        }
        taints = []
        if number % 7 == 0:
            taints.append({"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
        if number % 6 == 1:
            taints.append({"key": "spot", "value": "yes", "effect": "PreferNoSchedule"})
        if number == 39:
            labels["pool"] = "lonely"
        made = node(
            f"node-{number:02d}",
            cpu=("8", "16", "4")[number % 3],
            memory=("32Gi", "32Gi", "16Gi")[number % 3],
            pods="30",
            labels=labels,
            taints=taints,
        )
        if number == 20:
            made["spec"]["unschedulable"] = True
        found.append(made)
    return found


def pods() -> Iterator[Manifest]:
    """Of all kinds; what is drawn depends on the seed alone."""
    rng = random.Random(SEED)
    for number in range(PODS):
        kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        extra = KINDS[kind][1](rng)
        labels = {"app": f"app-{rng.randrange(6)}", "kind": kind, **extra.pop("labels", {})}
        cpu, memory = (
            extra.pop("cpu", f"{rng.randrange(1, 9) * 100}m"),
            extra.pop("memory", f"{rng.randrange(1, 9) * 128}Mi"),
        )
        yield pod(f"{kind}-{number:03d}", NAME, cpu=cpu, memory=memory, labels=labels, **extra)


def affinity(part: str, field: str, value: Any) -> dict[str, Any]:
    return {"affinity": {part: {f"{field}DuringSchedulingIgnoredDuringExecution": value}}}


def required_nodes(key: str, operator: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    return affinity("nodeAffinity", "required", {"nodeSelectorTerms": terms})


def spread(key: str, skew: int, when: str, group: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"group": group}},
    }
    return {"labels": {"group": group}, "topologySpreadConstraints": [constraint]}


def apart(group: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"group": group}}, "topologyKey": key}
    return {"labels": {"group": group}, **affinity("podAntiAffinity", "required", [term])}


def near(app: str, weight: int) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return affinity("podAffinity", "preferred", [{"weight": weight, "podAffinityTerm": term}])


def host_port(number: int) -> dict[str, Any]:
    port = {"containerPort": 80, "hostPort": number}
    container = {"name": "main", "image": "web:1", "ports": [port], "resources": {"requests": {"cpu": "100m"}}}
    return {"containers": [container]}


KINDS: Final[Mapping[str, tuple[int, Callable[[random.Random], dict[str, Any]]]]] = {
    "plain": (30, lambda rng: {}),
    "large": (6, lambda rng: {"cpu": f"{rng.randrange(3, 8)}", "memory": f"{rng.randrange(4, 12)}Gi"}),
    "selected": (8, lambda rng: {"nodeSelector": {"pool": f"pool-{rng.randrange(5)}"}}),
    "required": (8, lambda rng: required_nodes("disk", "In" if rng.random() < 0.5 else "NotIn", "hdd")),
    "tolerant": (8, lambda rng: {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}),
    "spread": (8, lambda rng: spread(ZONE, 1, "DoNotSchedule", f"spread-{rng.randrange(2)}")),
    "scattered": (6, lambda rng: spread(HOSTNAME, 1, "ScheduleAnyway", f"scatter-{rng.randrange(2)}")),
    "apart": (8, lambda rng: apart(f"apart-{rng.randrange(2)}", HOSTNAME)),
    "per-zone": (4, lambda rng: apart("per-zone", ZONE)),
    "near": (6, lambda rng: near(f"app-{rng.randrange(6)}", rng.randrange(1, 101))),
    "ported": (4, lambda rng: host_port(8000 + rng.randrange(2))),
    "impossible": (3, lambda rng: {"cpu": "64"}),
    "nowhere": (2, lambda rng: {"nodeSelector": {"pool": "none"}}),
    "never": (2, lambda rng: {"cpu": "20", "preemptionPolicy": "Never", "priorityClassName": "high-never"}),
}
"""Kinds of pods: how often, and what they ask for."""


def priority_class(name: str, policy: str) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
        "preemptionPolicy": policy,
    }


# ---- deciding --------------------------------------------------------------------------------------------------------


def decisions(api: KubeApi) -> Iterator[tuple[str, Decision]]:
    """One pod after the other; those that found no node are removed."""
    for manifest in pods():
        made = sure(api.create(manifest))
        found = settled(api, made)
        yield made["metadata"]["name"], found
        if not found.node:
            sure(api.delete(manifest))


def settled(api: KubeApi, manifest: Manifest) -> Decision:
    """What a pod comes to. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE
    while True:
        pod = sure(api.read(manifest))
        condition = scheduled_condition(pod)
        name = pod["spec"].get("nodeName", "")
        if name or condition is not None:
            # The event is written on its own, some time around the condition.
            events = events_about(api, pod)
            if events:
                nominated = pod["status"].get("nominatedNodeName", "")
                return Decision(name, None if name else condition, nominated, events)
        if time.monotonic() > deadline:
            raise TimeoutError(f"pod {pod['metadata']['name']} is not decided about: {pod['status']}")
        time.sleep(0.005)


def scheduled_condition(pod: Manifest) -> tuple[str, str, str] | None:
    for each in pod["status"].get("conditions", ()):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return each["status"], each["reason"], each["message"]
    return None


def events_about(api: KubeApi, pod: Manifest) -> tuple[tuple[str, str, str, str], ...]:
    uid = pod["metadata"]["uid"]
    answer = api.request(
        "GET", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events?fieldSelector=regarding.uid%3D{uid}"
    )
    return tuple(sorted((each["type"], each["reason"], each["action"], each["note"]) for each in sure(answer)["items"]))


def prepare(plane: ControlPlane, api: KubeApi) -> None:
    made = nodes()
    for manifest in (*made, priority_class("high-never", "Never")):
        sure(api.create(manifest))
    make_ready(plane, (each["metadata"]["name"] for each in made))


def test_300_pods_get_the_nodes_and_messages_that_kube_scheduler_gives(rig: Path, tmp_path: Path) -> None:
    theirs_folder, ours_folder = tmp_path / "theirs", tmp_path / "ours"
    theirs_folder.mkdir()
    # One thread: kube-scheduler then looks at nodes in order, and takes the same one of several best each time.
    settings = {"parallelism": 1, "clientConnection": {"kubeconfig": "kubeconfig", "qps": 500, "burst": 500}}
    configuration = {**KUBE_SCHEDULER_CONFIGURATION, **settings, "leaderElection": {"leaderElect": False}}
    (theirs_folder / "scheduler.json").write_text(json.dumps(configuration))
    flags = {SCHEDULER: ("--config", "scheduler.json")}
    with (
        ControlPlane(rig, theirs_folder, components=(SCHEDULER,), flags=flags) as plane,
        contextlib.closing(plane.api) as api,
    ):
        prepare(plane, api)
        theirs = dict(decisions(api))

    with (
        ControlPlane(rig, ours_folder, components=()) as plane,
        contextlib.closing(plane.api) as api,
    ):
        prepare(plane, api)
        with WorkerProcess(plane, ours_folder, worker_configuration(NAME)) as worker:
            worker.wait_leading()
            for name, decision in decisions(api):
                assert decision == theirs[name], f"pod {name} differs; the log is {worker.log}"

    placed = sum(1 for decision in theirs.values() if decision.node)
    assert len(theirs) == PODS
    # The pods are of all kinds, and some of them fit nowhere: else the test would show little.
    assert 200 <= placed <= 280
    assert len({decision.condition for decision in theirs.values() if not decision.node}) >= 6
