"""The manifests under deploy/kustomize as plain values: what a kustomization lists, and roles as sets of rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
Grant = tuple[str, str, str, str, str]
"""Namespace ("" for all), group, resource (pods/binding for a part of one), verb, name ("" where any will do)."""

OWN_NAMESPACE = "stowplan-system"


def read(path: Path) -> list[Manifest]:
    """The documents of one file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document is not None]


def listed(kustomization: Path) -> Iterator[Path]:
    """The files that a kustomization brings in, those of other kustomizations too; without what it changes in them."""
    (content,) = read(kustomization / "kustomization.yaml")
    for entry in content["resources"]:
        path = (kustomization / entry).resolve()
        if path.is_dir():
            yield from listed(path)
        else:
            yield path


def documents(kustomization: Path) -> list[Manifest]:
    """All objects of a kustomization, as they stand in its files."""
    return [document for path in listed(kustomization) for document in read(path)]


def name_of(manifest: Manifest) -> str:
    """As in messages: Role stowplan-system/stowplan-worker."""
    meta = manifest["metadata"]
    return f"{manifest['kind']} {meta['namespace']}/{meta['name']}" if "namespace" in meta else named(manifest)


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def pod_templates(manifests: Iterable[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The pods that objects make, each with the name of its object."""
    for manifest in manifests:
        kind, spec = manifest["kind"], manifest.get("spec") or {}
        if kind == "Pod":
            yield name_of(manifest), manifest
        elif kind == "CronJob":
            yield name_of(manifest), spec["jobTemplate"]["spec"]["template"]
        elif kind in {"DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"}:
            yield name_of(manifest), spec["template"]


def grants(manifests: Iterable[Manifest], account: str) -> set[Grant]:
    """What the roles bound to a ServiceAccount of ours allow."""
    everything = list(manifests)
    roles = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in everything
    }
    allowed: set[Grant] = set()
    for binding in everything:
        if binding["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        subject = {"kind": "ServiceAccount", "name": account, "namespace": OWN_NAMESPACE}
        if subject not in binding["subjects"]:
            continue
        namespace, kind = binding["metadata"].get("namespace", ""), binding["roleRef"]["kind"]
        role = roles[kind, namespace if kind == "Role" else "", binding["roleRef"]["name"]]
        for rule in role["rules"]:
            names = rule.get("resourceNames") or [""]
            parts = product([namespace], rule["apiGroups"], rule["resources"], rule["verbs"], names)
            allowed.update(parts)
    return allowed
