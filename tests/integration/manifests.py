"""Manifests for both sides, as short as a test can say what matters."""

from __future__ import annotations

from typing import Any, Final

from integration.kube_api import Manifest

Amounts = dict[str, str]

LABELS: Final = {"app": "web"}


def resources(requests: Amounts | None = None, limits: Amounts | None = None) -> Manifest:
    """The resources of a container or a pod."""
    parts = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in parts.items() if amounts is not None}


def container(name: str = "main", requests: Amounts | None = None, limits: Amounts | None = None) -> Manifest:
    """A container."""
    return {"name": name, "image": "web:1", "resources": resources(requests, limits)}


def sidecar(name: str, requests: Amounts | None = None, limits: Amounts | None = None) -> Manifest:
    """An init container that keeps running."""
    return {**container(name, requests, limits), "restartPolicy": "Always"}


def pod(name: str, *containers: Manifest, **spec: Any) -> Manifest:
    """A pod; with one container that asks for nothing if none is given."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def simple_pod(name: str, requests: Amounts | None = None, limits: Amounts | None = None, **spec: Any) -> Manifest:
    """A pod with one container."""
    return pod(name, container("main", requests, limits), **spec)


def deployment(replicas: int, requests: Amounts | None = None) -> Manifest:
    """The Deployment web."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container("main", requests)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template},
    }


def replica_set(name: str, replicas: int) -> Manifest:
    """A ReplicaSet of pods with the labels app=web and set=`name`."""
    labels = {**LABELS, "set": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def quota(hard: Amounts, name: str = "quota", **spec: Any) -> Manifest:
    """A ResourceQuota."""
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def of_class(operator: str, *values: str) -> Manifest:
    """The scope selector of a quota on priority classes."""
    expression: Manifest = {"scopeName": "PriorityClass", "operator": operator}
    return {"matchExpressions": [{**expression, "values": list(values)} if values else expression]}


def limit_range(*limits: Manifest, name: str = "limits") -> Manifest:
    """A LimitRange."""
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(limits)}}


def priority_class(name: str, value: int, **fields: Any) -> Manifest:
    """A PriorityClass."""
    meta = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": meta,
        "value": value,
        **fields,
    }


def budget(name: str = "guard", labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    """A PodDisruptionBudget over app=web, or other labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels or LABELS}, **spec},
    }
