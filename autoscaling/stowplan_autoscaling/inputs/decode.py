"""From a decoded document, or a piece of raw JSON, to a typed object of a known kind.

Decoding is strict about types and silent about fields that this project does not read. A null stands for an absent
field, as in Go. Whatever is wrong becomes a FieldError with the path that Kubernetes would print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

import msgspec

from stowplan_scheduler.objects import (
    DEFAULT_NAMESPACE,
    DaemonSet,
    Deployment,
    DeviceClass,
    Job,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceSlice,
    Service,
    StatefulSet,
)

from .errors import FieldError, shown

ClusterObject = (
    Node
    | Pod
    | Namespace
    | PriorityClass
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | PodDisruptionBudget
    | DeviceClass
    | ResourceSlice
    | Deployment
    | DaemonSet
    | Job
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that is read: its type, API group, the versions that are understood, and whether it has a namespace."""

    type: type[ClusterObject]
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    legacy_group: str = ""

    def has_group(self, api_version: str) -> bool:
        """Whether an apiVersion is of this kind's group, or the one it came from."""
        group, slash, _ = api_version.rpartition("/")
        return group == self.group or bool(slash and group == self.legacy_group)

    def understands(self, api_version: str) -> bool:
        """Whether the apiVersion is one of those whose fields are known."""
        group, _, version = api_version.rpartition("/")
        return group == self.group and version in self.versions


KINDS: Final[Mapping[str, Kind]] = {
    "Node": Kind(type=Node, namespaced=False),
    "Pod": Kind(type=Pod),
    "Namespace": Kind(type=Namespace, namespaced=False),
    "PriorityClass": Kind(type=PriorityClass, group="scheduling.k8s.io", namespaced=False),
    "Service": Kind(type=Service),
    "ReplicationController": Kind(type=ReplicationController),
    "ReplicaSet": Kind(type=ReplicaSet, group="apps", legacy_group="extensions"),
    "StatefulSet": Kind(type=StatefulSet, group="apps"),
    "Deployment": Kind(type=Deployment, group="apps", legacy_group="extensions"),
    "DaemonSet": Kind(type=DaemonSet, group="apps", legacy_group="extensions"),
    "Job": Kind(type=Job, group="batch"),
    "PodDisruptionBudget": Kind(type=PodDisruptionBudget, group="policy"),
    "DeviceClass": Kind(type=DeviceClass, group="resource.k8s.io", versions=("v1", "v1beta2"), namespaced=False),
    "ResourceSlice": Kind(
        type=ResourceSlice, group="resource.k8s.io", versions=("v1", "v1beta2", "v1beta1"), namespaced=False
    ),
}


class _HeadMeta(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None


class Head(msgspec.Struct, rename="camel"):
    """What says of which kind an object is and where it comes from, read before the rest."""

    kind: str | None = None
    api_version: str | None = None
    metadata: _HeadMeta | None = None
    status: msgspec.Raw = msgspec.Raw()

    @property
    def described(self) -> str:
        """Kind and name for messages, as far as they are known: "Pod default/web"."""
        meta = self.metadata or _HeadMeta()
        kind = KINDS.get(self.kind or "")
        namespace = meta.namespace or (DEFAULT_NAMESPACE if kind is not None and kind.namespaced else "")
        name = f"{namespace}/{meta.name}" if namespace and meta.name else meta.name or "(no name)"
        return f"{self.kind or 'object'} {name}"

    @property
    def is_dumped(self) -> bool:
        """Whether the object was read from a cluster: an API server gave it an identity, or a controller a status."""
        meta = self.metadata
        if meta is None:
            return False
        has_status = bytes(self.status) not in {b"", b"null", b"{}"}
        return bool(meta.uid or ((meta.resource_version or meta.creation_timestamp) and has_status))


_RAW_HEAD: Final = msgspec.json.Decoder(Head)
_DECODERS: Final = {name: msgspec.json.Decoder[Any](kind.type) for name, kind in KINDS.items()}


def read_head(value: Any) -> Head:
    """The head of an object. Raises FieldError where the value is no Kubernetes object at all."""
    try:
        if isinstance(value, msgspec.Raw):
            return _RAW_HEAD.decode(value)
        if not isinstance(value, dict):
            raise FieldError("", f"must be a Kubernetes object, got {shown(value)}")
        return _head_of_mapping(value)
    except msgspec.ValidationError as error:
        raise explain(error, plain(value)) from None


def _head_of_mapping(value: dict[str, Any]) -> Head:
    head = {name: value[name] for name in ("kind", "apiVersion", "metadata") if name in value}
    converted = msgspec.convert(head, Head)
    if value.get("status"):
        converted.status = msgspec.Raw(b"present")
    return converted


def decode_object(kind: str, value: Any) -> ClusterObject:
    """The typed object of a known kind. Raises FieldError."""
    try:
        if isinstance(value, msgspec.Raw):
            return _DECODERS[kind].decode(value)  # type: ignore[no-any-return]
        return msgspec.convert(value, KINDS[kind].type)
    except msgspec.ValidationError:
        # Often a null, which the types do not know: once more without them, and if that fails too, say why.
        return _decode_slowly(kind, plain(value))


def _decode_slowly(kind: str, value: Any) -> ClusterObject:
    value = without_nulls(value)
    try:
        return msgspec.convert(value, KINDS[kind].type)
    except msgspec.ValidationError as error:
        raise explain(error, value) from None


def plain(value: Any) -> Any:
    """Raw JSON decoded to plain values; plain values as they are. Raises DecodeError."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def without_nulls(value: Any) -> Any:
    """The value without members of mappings that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value]
    return value


# ---- messages ------------------------------------------------------------------------------------------------------

_AT: Final = re.compile(r"^(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|(\[\.\.\.\])")
_EXPECTED: Final = re.compile(r"Expected `(?P<expected>[^`]*)`(?:, got `(?P<got>[^`]*)`)?")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_WORDS: Final = {
    "str": "a string",
    "int": "an integer",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (NoneType,),
}


def explain(error: msgspec.ValidationError, value: Any) -> FieldError:
    """Says in Kubernetes' terms what msgspec found wrong with a value: where, what stands there, what is allowed."""
    found = _AT.match(str(error))
    problem, path = (found["problem"], found["path"] or "") if found else (str(error), "")
    expected = _EXPECTED.match(problem)
    types = [part.strip() for part in expected["expected"].split("|")] if expected else []
    field, actual = _follow(path, value, types)
    if missing := _MISSING.match(problem):
        return FieldError(field_path(field, missing[1]), "must be set")
    if not types:
        return FieldError(field, problem[:1].lower() + problem[1:])
    return FieldError(field, _wrong_type(types, actual))


def _wrong_type(types: list[str], actual: Any) -> str:
    if "float" in types:
        return f"must be a quantity such as 500m, 2 or 4Gi, got {shown(actual)}"
    allowed = " or ".join(_WORDS.get(name, name) for name in types if name != "null")
    message = f"must be {allowed}, got {shown(actual)}"
    if "str" in types and isinstance(actual, bool):
        return message + " (YAML reads y, n, yes, no, on and off as true or false: quote it)"
    if "str" in types and isinstance(actual, int | float):
        return message + ": quote it"
    return message


def _follow(path: str, value: Any, types: list[str]) -> tuple[str, Any]:
    """The field path that a path of msgspec's means, and what stands there."""
    field = ""
    for name, index, anywhere in _STEP.findall(path):
        step: str | int | None = name or (int(index) if index else None)
        if anywhere:  # msgspec does not say which entry it is: the first of a wrong type
            step = _first_wrong(value, types)
        field = field_path(field, step)
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            value = None
    return field, value


def _first_wrong(value: Any, types: list[str]) -> str | int | None:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    allowed = tuple(found for name in types for found in _TYPES.get(name, ()))
    for step, entry in entries:
        if not isinstance(entry, allowed) or (isinstance(entry, bool) and bool not in allowed):
            return step
    return None


def field_path(field: str, step: str | int | None) -> str:
    """A path with one more step: `spec.containers[0]`, `labels[a.io/b]` where a plain dot would mislead."""
    if step is None:
        return field
    if isinstance(step, int):
        return f"{field}[{step}]"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
        return f"{field}[{step}]"
    return f"{field}.{step}" if field else step
