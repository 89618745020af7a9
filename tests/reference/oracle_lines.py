"""Answers the oracle's evaluate scenarios: JSON lines on stdin, JSON lines on stdout.

    python -m reference < scenarios.jsonl > answers.jsonl

A scenario whose pod has volumes or devices is answered with {"id":..., "unsupported":...}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stowplan_scheduler.defaulting import default_pod
from stowplan_scheduler.objects import (
    DEFAULT_NAMESPACE,
    DeviceClass,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    Volume,
)

from .cluster import ReferenceCluster
from .decide import evaluate, new_cycle
from .filters import device_backed_requests
from .profile import Profile, profiles_of

Scenario = Mapping[str, Any]
T = TypeVar("T")


def answer(scenario: Scenario) -> dict[str, Any]:
    """The result of one scenario."""
    profiles = profiles_of(scenario.get("config"))
    classes = _objects(scenario, "priorityClasses", PriorityClass)
    pod = read_pod(scenario["pod"], classes)
    cluster = read_cluster(scenario, classes, profiles)
    if what := unsupported(cluster, pod, bool(scenario["objects"].get("resourceSlices"))):
        return {"id": scenario["id"], "unsupported": what}
    nominated = [read_pod(raw, classes) for raw in scenario.get("nominated") or ()]
    if pod.spec.scheduler_name not in profiles:
        return {"id": scenario["id"], "error": f"no profile for schedulerName {pod.spec.scheduler_name}"}
    profile = profiles[pod.spec.scheduler_name]
    return {"id": scenario["id"], **evaluate(cluster, profile, pod, known(nominated, profiles))}


def unsupported(cluster: ReferenceCluster, pod: Pod, devices: bool) -> str:
    """Why the reference cannot decide about the pod; empty if it can."""
    if pod.spec.resource_claims:
        return "resource claims"
    for volume in pod.spec.volumes:
        if volume != Volume(name=volume.name, image=volume.image):
            return "volumes"
    cycle = new_cycle(cluster, Profile(), pod)
    for resource in sorted(device_backed_requests(cycle)):
        if devices and any(state.allocatable.get(resource) == 0 for state in cluster.nodes):
            return f"devices for {resource}"
    return ""


def known(pods: Iterable[Pod], profiles: Mapping[str, Profile]) -> list[Pod]:
    """The pods that this scheduler is responsible for."""
    return [pod for pod in pods if pod.spec.scheduler_name in profiles]


def read_cluster(
    scenario: Scenario, classes: Sequence[PriorityClass], profiles: Mapping[str, Profile]
) -> ReferenceCluster:
    """The initial objects of a scenario."""
    namespaces = _objects(scenario, "namespaces", Namespace)
    if all(namespace.metadata.name != DEFAULT_NAMESPACE for namespace in namespaces):
        namespaces.append(Namespace(metadata=ObjectMeta(name=DEFAULT_NAMESPACE)))
    pods = [read_pod(raw, classes) for raw in scenario["objects"].get("pods") or ()]
    return ReferenceCluster(
        _objects(scenario, "nodes", Node),
        [pod for pod in pods if pod.spec.node_name or pod.spec.scheduler_name in profiles],
        namespaces=namespaces,
        services=_namespaced(scenario, "services", Service),
        replication_controllers=_namespaced(scenario, "replicationControllers", ReplicationController),
        replica_sets=_namespaced(scenario, "replicaSets", ReplicaSet),
        stateful_sets=_namespaced(scenario, "statefulSets", StatefulSet),
        pdbs=_namespaced(scenario, "podDisruptionBudgets", PodDisruptionBudget),
        device_classes=_objects(scenario, "deviceClasses", DeviceClass),
    )


def _objects(scenario: Scenario, kind: str, typ: type[T]) -> list[T]:
    return msgspec.convert(scenario["objects"].get(kind) or [], list[typ])  # type: ignore[valid-type]


def _namespaced(scenario: Scenario, kind: str, typ: type[T]) -> list[T]:
    raw = scenario["objects"].get(kind) or []
    with_namespace = [
        {**obj, "metadata": {"namespace": DEFAULT_NAMESPACE, **(obj.get("metadata") or {})}} for obj in raw
    ]
    return msgspec.convert(with_namespace, list[typ])  # type: ignore[valid-type]


def read_pod(raw: Mapping[str, Any], classes: Sequence[PriorityClass]) -> Pod:
    """A pod with the API server's defaults and its priority."""
    return admitted(default_pod(msgspec.convert(raw, Pod)), classes)


def admitted(pod: Pod, classes: Sequence[PriorityClass]) -> Pod:
    """What the Priority admission plugin does: the named class, or else the global default with the lowest value."""
    if pod.spec.priority is not None:
        return pod
    named = [c for c in classes if c.metadata.name == pod.spec.priority_class_name]
    defaults = sorted((c for c in classes if c.global_default), key=lambda c: c.value)
    chosen = named or ([] if pod.spec.priority_class_name else defaults)
    if not chosen:
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=0))
    policy = pod.spec.preemption_policy or chosen[0].preemption_policy
    spec = msgspec.structs.replace(
        pod.spec,
        priority=chosen[0].value,
        priority_class_name=chosen[0].metadata.name,
        preemption_policy=policy,
    )
    return msgspec.structs.replace(pod, spec=spec)


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        if line.strip():
            sys.stdout.write(json.dumps(answer(json.loads(line)), ensure_ascii=False) + "\n")
