"""What a candidate changes about Kubernetes objects: patches, and other requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stowplan_autoscaling.inputs.collect import Collector, Place
from stowplan_autoscaling.inputs.decode import KINDS
from stowplan_autoscaling.inputs.errors import FieldError, shown

from .candidates import Candidate, PatchTarget, Requests
from .findings import near
from .manifests import Manifest
from .merging import merged

_IDENTITY = ("apiVersion", "kind")


def patched(objects: Sequence[Manifest], candidate: Candidate, field: str) -> list[Manifest]:
    """The objects as the candidate wants them; they are checked afterwards. `field`: its path.

    Raises FieldError, InputError.
    """
    result = list(objects)
    for index, patch in enumerate(candidate.patches):
        where = f"{field}.patches[{index}]"
        position = _position(result, patch.target, f"{where}.target")
        before = result[position]
        value = merged(before.value, _owned(patch.patch, before, f"{where}.patch"))
        result[position] = replace(before, value=value)
    for index, requests in enumerate(candidate.requests):
        where = f"{field}.requests[{index}]"
        ref = requests.target
        target = PatchTarget(kind=ref.kind, namespace=ref.namespace, name=ref.name)
        position = _position(result, target, f"{where}.target")
        before = result[position]
        result[position] = replace(before, value=_with_requests(before, requests, where))
    for before, after in zip(objects, result, strict=True):
        if after is not before and after.kind in KINDS and not after.dumped:
            Collector().add(after.value, Place(after.place), after.kind, after.api_version)
    return result


def _position(objects: Sequence[Manifest], target: PatchTarget, field: str) -> int:
    wanted = {target.key} if target.namespace else {target.name, f"default/{target.name}"}
    of_kind = [manifest.key for manifest in objects if manifest.kind == target.kind]
    for position, manifest in enumerate(objects):
        if manifest.kind == target.kind and manifest.key in wanted:
            return position
    if not of_kind:
        raise FieldError(field, f"no {target}: there is no {target.kind}{near(target.kind, _kinds(objects))}")
    raise FieldError(field, f"no {target}{near(target.key, sorted(of_kind))}")


def _kinds(objects: Sequence[Manifest]) -> list[str]:
    return sorted({manifest.kind for manifest in objects})


def _owned(patch: Mapping[str, Any], manifest: Manifest, field: str) -> Mapping[str, Any]:
    """The patch, which must not make another object of it."""
    for name in _IDENTITY:
        if patch.get(name, manifest.value.get(name)) != manifest.value.get(name):
            raise FieldError(f"{field}.{name}", f"{shown(patch[name])}: a patch cannot make another object of it")
    metadata = patch.get("metadata", {})
    for name, owned in (("name", manifest.name), ("namespace", manifest.namespace)):
        if isinstance(metadata, dict) and metadata.get(name, owned) != owned:
            raise FieldError(
                f"{field}.metadata.{name}", f"{shown(metadata[name])}: a patch cannot make another object of it"
            )
    return patch


def _with_requests(manifest: Manifest, requests: Requests, field: str) -> dict[str, Any]:
    wanted = {
        name: amount for name, amount in (("cpu", requests.cpu), ("memory", requests.memory)) if amount is not None
    }
    path = ("spec", "jobTemplate", "spec", "template") if manifest.kind == "CronJob" else ("spec", "template")
    containers = _containers(manifest.value, path)
    names = [str(container.get("name")) for container in containers]
    if requests.container and requests.container not in names:
        known = near(requests.container, sorted(names))
        raise FieldError(
            f"{field}.container", f"no container {shown(requests.container)} in {manifest.described}{known}"
        )
    chosen = [name for name in names if requests.container in {"", name}]
    patch: Any = {"spec": {"containers": [{"name": name, "resources": {"requests": wanted}} for name in chosen]}}
    for step in reversed(path):
        patch = {step: patch}
    value: dict[str, Any] = merged(manifest.value, patch)
    return value


def _containers(value: Any, path: Sequence[str]) -> list[dict[str, Any]]:
    """Those of the pod template; none where the object has no such thing, which its own check reports."""
    for step in (*path, "spec", "containers"):
        value = value.get(step) if isinstance(value, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
