"""The Kubernetes objects of a simulation: from the file itself, from files beside it, from a dump, from node groups.

They are checked one by one as `stowplan simulate MANIFESTS` checks them, and stay plain values: the virtual cluster
decodes each into its own type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final

from stowplan_autoscaling.inputs.collect import Collector, Place
from stowplan_autoscaling.inputs.decode import KINDS, plain
from stowplan_autoscaling.inputs.errors import InputError, shown
from stowplan_autoscaling.inputs.json_reader import read_json
from stowplan_autoscaling.inputs.sources import Format, Progress, find_files, open_source
from stowplan_autoscaling.inputs.yaml_reader import read_yaml
from stowplan_scheduler.objects import DEFAULT_NAMESPACE

MORE_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "HorizontalPodAutoscaler": ("autoscaling/v2", "autoscaling/v1"),
    "CronJob": ("batch/v1",),
    "ResourceQuota": ("v1",),
    "LimitRange": ("v1",),
    "ScaledObject": ("keda.sh/v1alpha1",),
}
"""Kinds of a simulation beside those of a scheduler, with their versions. All have a namespace."""

_ELSEWHERE: Final[Mapping[str, str]] = {
    "KubeSchedulerConfiguration": "a scheduler configuration belongs into spec.schedulerProfiles",
    "Simulation": "there is one simulation, in a file of its own",
}
_LARGEST: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object. `value` is what YAML or JSON said, `dumped` whether it was read from a cluster."""

    kind: str
    api_version: str
    namespace: str
    name: str
    value: dict[str, Any]
    place: str
    dumped: bool = False

    @property
    def key(self) -> str:
        """namespace/name, or the name of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def described(self) -> str:
        """Kind and name for messages."""
        return f"{self.kind} {self.key}"

    def error(self, field: str, message: str) -> InputError:
        """A finding about this object."""
        return InputError(self.place, self.described, field, message)


class Files:
    """Reads the files that a simulation names, relative to its folder, and remembers their contents for the digest."""

    def __init__(self, source: str) -> None:
        self._folder = Path(source).parent
        self.digests: list[str] = []

    def path(self, name: str) -> str:
        """The path of a file by the name that the simulation gives it."""
        return str(self._folder / name)

    def read(self, path: str) -> tuple[bytes, Format]:
        """The contents, decompressed. Raises InputError."""
        with open_source(path, max_bytes=_LARGEST, stdin=None, progress=Progress(None, 0)) as opened:
            data = opened.stream.read()
            self.digests.append(sha256(data).hexdigest())
            return data, opened.format

    def note(self, path: str) -> None:
        """Takes a file into the digest that somebody else reads. Raises InputError."""
        try:
            with Path(path).open("rb") as file:
                self.digests.append(file_digest(file, sha256).hexdigest())
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            message = "no such file" if missing else f"cannot be read: {getattr(error, 'strerror', error)}"
            raise InputError(path, "", "", message) from None

    def expand(self, names: Iterable[str], field: str, source: str) -> Iterator[str]:
        """The paths behind names, folders and patterns, in order. Raises InputError."""
        for index, name in enumerate(names):
            try:
                yield from find_files(list(self._matching(name)))
            except InputError as error:
                raise InputError(source, "", f"{field}[{index}]", str(error)) from None

    def _matching(self, name: str) -> Iterator[str]:
        path = self._folder / name
        if not any(char in name for char in "*?[") or path.exists():
            yield str(path)
            return
        pattern = Path(name)
        root = Path(pattern.anchor) if pattern.is_absolute() else self._folder
        relative = str(pattern.relative_to(pattern.anchor)) if pattern.is_absolute() else name
        found = sorted(str(match) for match in root.glob(relative))
        if not found:
            raise InputError("", "", "", f"{shown(name)}: no file matches")
        yield from found


class Manifests:
    """Takes objects, checks each, and keeps them in order."""

    def __init__(self, files: Files, source: str) -> None:
        self._files = files
        self._source = source
        self._checker = Collector()
        self._seen: dict[tuple[str, str], Manifest] = {}
        self._ignored: Counter[str] = Counter()
        self.objects: list[Manifest] = []

    def add_inline(self, values: Iterable[dict[str, Any]], field: str) -> None:
        """Objects that stand in the simulation. Raises InputError."""
        for index, value in enumerate(values):
            self._add(value, f"{self._source}: {field}[{index}]", Place(f"{self._source}: {field}[{index}]"))

    def add_group(self, values: Iterable[dict[str, Any]], where: str) -> None:
        """Nodes of a group at a path. Raises InputError, FieldError."""
        for value in values:
            self._add(value, f"{self._source}: {where}", Place(f"{self._source}: {where}"))

    def check(self, value: dict[str, Any], where: str) -> Manifest:
        """Checks an object that is to be made later, of a kind that schedulers know. Raises InputError."""
        place = f"{self._source}: {where}"
        Collector().add(value, Place(place))
        return _known(value, value["kind"], value["apiVersion"], place)

    def add_files(self, names: Iterable[str], field: str) -> None:
        """Objects of files. Raises InputError."""
        for path in self._files.expand(names, field, self._source):
            for value, place, kind, version in self._values(path):
                self._add(value, str(place), place, kind, version)

    def _values(self, path: str) -> Iterator[tuple[Any, Place, str, str]]:
        data, form = self._files.read(path)
        if form is Format.JSON:
            from io import BytesIO

            for number, kind, version, value in read_json(BytesIO(data), path):
                yield plain(value), Place(path, "item", number) if number else Place(path), kind, version
            return
        if form is Format.CSV:
            raise InputError(path, "", "", "is a CSV file: Kubernetes objects in YAML or JSON are expected")
        for document in read_yaml(data, path):
            yield document.value, Place(path, "document", document.number), "", ""

    def _add(self, value: Any, where: str, place: Place, kind: str = "", version: str = "") -> None:
        if not isinstance(value, dict):
            raise InputError(where, "", "", f"must be a Kubernetes object, got {shown(value)}")
        kind = value.get("kind") or kind
        version = value.get("apiVersion") or version
        if not isinstance(kind, str) or not kind:
            raise InputError(where, "", "kind", "must be set: not a Kubernetes object")
        if not isinstance(version, str):
            raise InputError(where, "", "apiVersion", f"must be a string, got {shown(version)}")
        if kind.endswith("List") and isinstance(value.get("items"), list):
            inner = kind.removesuffix("List")
            for number, item in enumerate(value["items"], start=1):
                self._add(item, f"{where}, item {number}", place._replace(item=number), inner, version if inner else "")
            return
        if kind in _ELSEWHERE:
            raise InputError(where, "", "kind", f"{shown(kind)}: {_ELSEWHERE[kind]}")
        if kind in MORE_KINDS:
            self._keep(_further(value, kind, version, where))
        elif kind in KINDS and KINDS[kind].has_group(version or KINDS[kind].group + "/v1"):
            self._checker.add(value, Place(where), kind, version)
            self._keep(_known(value, kind, version, where))
        else:
            self._ignored[kind] += 1

    def _keep(self, manifest: Manifest) -> None:
        known = self._seen.setdefault((manifest.kind, manifest.key), manifest)
        if known is manifest:
            self.objects.append(manifest)
        elif known.value != manifest.value:
            raise manifest.error("metadata.name", f"occurs twice, first in {known.place}: names must be unique")

    def warnings(self) -> Iterator[str]:
        """What was left out."""
        if self._ignored:
            listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(self._ignored.items()))
            yield f"{sum(self._ignored.values())} objects of other kinds ignored: {listed}"


def _known(value: dict[str, Any], kind: str, version: str, where: str) -> Manifest:
    """A kind that the checker has accepted."""
    namespace = DEFAULT_NAMESPACE if KINDS[kind].namespaced else ""
    return _manifest(value, kind, version, where, namespace)


def _further(value: dict[str, Any], kind: str, version: str, where: str) -> Manifest:
    manifest = _manifest(value, kind, version, where, DEFAULT_NAMESPACE)
    versions = MORE_KINDS[kind]
    if version not in versions:
        raise manifest.error("apiVersion", f"{shown(version)}: must be {' or '.join(versions)}")
    if not isinstance(value.get("spec"), dict):
        raise manifest.error("spec", "must be set")
    return manifest


def _manifest(value: dict[str, Any], kind: str, version: str, where: str, namespace: str) -> Manifest:
    meta = value.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise InputError(where, kind, "metadata.name", "must be set")
    if namespace:
        namespace = meta.get("namespace") or namespace
    dumped = bool(meta.get("uid") or (meta.get("resourceVersion") and value.get("status")))
    name = meta["name"]
    return Manifest(
        kind=kind, api_version=version, namespace=namespace, name=name, value=value, place=where, dumped=dumped
    )
