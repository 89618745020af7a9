"""Gathers the objects of all inputs and turns them into what a scheduler would find in a cluster.

Objects that were read from a cluster ("dumped") are taken as they are. Objects of manifests get what an API server and
the controllers would have done to them: defaults, priority, tolerations, and pods for workload objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from stowplan_scheduler.defaulting import (
    METADATA_NAME_LABEL,
    PriorityConflictError,
    UnknownPriorityClassError,
    admit_manifest_pod,
    default_object,
)
from stowplan_scheduler.objects import (
    DEFAULT_NAMESPACE,
    DaemonSet,
    Deployment,
    DeviceClass,
    Job,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    ResourceSlice,
    Service,
    StatefulSet,
    controller_of,
    key_of,
)
from stowplan_scheduler.quantity import QuantityError

from . import checks, workloads
from .decode import KINDS, ClusterObject, Head, decode_object, plain, read_head
from .errors import FieldError, InputError
from .json_reader import MAX_DEPTH, malformed

MAX_PODS: Final = 2_000_000
"""Pods of one workload object, and of the whole input."""

_Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
_OWNER_KINDS: Final = {
    Deployment: "Deployment",
    ReplicaSet: "ReplicaSet",
    ReplicationController: "ReplicationController",
    StatefulSet: "StatefulSet",
    DaemonSet: "DaemonSet",
    Job: "Job",
}

_MATTERS: Final[Mapping[str, str]] = {
    "CronJob": "their pods are not made",
    "LimitRange": "their defaults are not applied",
    "ResourceQuota": "they limit nothing here",
    "RuntimeClass": "their overhead is not added",
    "PersistentVolumeClaim": "volumes are not modelled",
    "PersistentVolume": "volumes are not modelled",
    "StorageClass": "volumes are not modelled",
    "ResourceClaim": "device claims are not modelled",
    "ResourceClaimTemplate": "device claims are not modelled",
    "ResourceSlice": "device claims are not modelled",
}
"""Kinds that are not read although they can change what a scheduler does."""

_T = TypeVar("_T")


class Place(NamedTuple):
    """Where an object was read. `unit` is "document", "item" or "line"; `item` counts inside a list in a document."""

    source: str
    unit: str = ""
    number: int = 0
    item: int = 0

    def __str__(self) -> str:
        text = f"{self.source}: {self.unit} {self.number}" if self.unit else self.source
        return f"{text}, item {self.item}" if self.item else text


class Origins(Mapping[tuple[str, str], str]):
    """Where each object was read: (kind, key) -> "web.yaml: document 3". The texts are made when asked for."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], Place] = {}

    def __getitem__(self, key: tuple[str, str]) -> str:
        return str(self._places[key])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def note(self, kind: str, key: str, place: Place) -> Place | None:
        """Notes a place; returns the earlier one, and keeps it, where the object has been seen before."""
        known = self._places.setdefault((kind, key), place)
        return None if known is place else known


@dataclass(frozen=True, slots=True)
class _Entry:
    """An object with what is known of its origin."""

    kind: str
    obj: ClusterObject
    dumped: bool
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInput:
    """What a scheduler would find in the cluster that the inputs describe.

    Pods stand in the order of the input, those that have a node already (`spec.node_name`) among them; pods that have
    finished are left out. `origin` maps (kind, key), such as ("Pod", "default/web"), to the place it was read from; a
    pod made from a workload has the workload's. `warnings` are single lines.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    namespaces: tuple[Namespace, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    services: tuple[Service, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    stateful_sets: tuple[StatefulSet, ...] = ()
    pod_disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    warnings: tuple[str, ...] = ()
    origin: Mapping[tuple[str, str], str]


class Collector:
    """Takes objects one by one, then builds the ClusterInput. Raises InputError for whatever cannot be used."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._seen: dict[tuple[str, str], ClusterObject] = {}
        self._origins = Origins()
        self._warnings: list[str] = []
        self._ignored: Counter[str] = Counter()
        self._versions: Counter[str] = Counter()
        self._generated: Counter[tuple[str, str]] = Counter()
        self._finished = 0
        self._claim_templates = 0

    def warn(self, text: str) -> None:
        """Adds a warning."""
        self._warnings.append(text)

    # ---- taking objects in

    def add(self, value: Any, place: Place, kind: str = "", api_version: str = "") -> None:
        """Takes one object: plain values or raw JSON. `kind` and `api_version` are what a surrounding list implies."""
        head = None
        try:
            head = read_head(value)
            head.kind = head.kind or kind or None
            head.api_version = head.api_version or api_version or None
            self._add(value, head, place, implied=bool(kind))
        except FieldError as error:
            raise InputError.of(str(place), head.described if head else "", error) from None
        except RecursionError:
            raise InputError(str(place), "", "", f"nested too deeply: at most {MAX_DEPTH} levels are allowed") from None
        except msgspec.DecodeError as error:  # raw JSON is only looked into here
            raise malformed(error, bytes(value), str(place)) from None

    def _add(self, value: Any, head: Head, place: Place, *, implied: bool) -> None:
        if head.kind is None:
            raise FieldError("kind", "must be set: not a Kubernetes object")
        if head.kind.endswith("List") and head.kind not in KINDS and self._add_list(value, head, place):
            return
        if not self._is_read(head, implied=implied):
            return
        obj = decode_object(head.kind, value)
        if isinstance(obj, Pod) and obj.is_terminal:
            self._finished += 1
            return
        self.add_object(head.kind, obj, place, dumped=head.is_dumped)

    def _add_list(self, value: Any, head: Head, place: Place) -> bool:
        items = cast("dict[str, Any]", plain(value)).get("items")
        if items is None:
            return head.kind == "List"
        if not isinstance(items, list):
            raise FieldError("items", "must be a list")
        kind = (head.kind or "").removesuffix("List")
        for number, item in enumerate(items, start=1):
            self.add(item, place._replace(item=number), kind, (head.api_version or "") if kind else "")
        return True

    def _is_read(self, head: Head, *, implied: bool) -> bool:
        """Whether the object is of a kind that is read; counts what is not, and versions that are not known."""
        name, version = head.kind or "", head.api_version or ""
        kind = KINDS.get(name)
        if name == "KubeSchedulerConfiguration":
            raise FieldError("kind", "is a scheduler configuration, not part of a cluster: give it with --config")
        if kind is None or (version and not kind.has_group(version)):
            self._ignored[name if kind is None else f"{name} of {version}"] += 1
            return False
        if (version and not kind.understands(version)) or not (version or implied):
            self._versions[f"{name} {version or 'without apiVersion'}"] += 1
        return True

    def add_object(self, kind: str, obj: ClusterObject, place: Place, *, dumped: bool) -> None:
        """Takes one typed object. Raises FieldError for what is wrong with it, InputError for a duplicate."""
        obj = self._identified(kind, obj)
        self._check(obj, dumped=dumped)
        if not dumped and not isinstance(obj, Pod):
            obj = default_object(obj)
        if self._note(kind, obj, place):
            self._entries.append(_Entry(kind, obj, dumped, place))

    def _identified(self, kind: str, obj: ClusterObject) -> ClusterObject:
        """The object with a name and, where its kind has one, a namespace."""
        meta = obj.metadata
        namespace = (meta.namespace or DEFAULT_NAMESPACE) if KINDS[kind].namespaced else ""
        name = meta.name
        if not name and meta.generate_name:
            self._generated[namespace, meta.generate_name] += 1
            name = f"{meta.generate_name}{self._generated[namespace, meta.generate_name]:05d}"
        if not name:
            raise FieldError("metadata.name", "must be set")
        uid = meta.uid or (f"{namespace}/{name}" if namespace else name)
        if (meta.name, meta.namespace, meta.uid) == (name, namespace, uid):
            return obj
        return replace(obj, metadata=replace(meta, name=name, namespace=namespace, uid=uid))

    def _note(self, kind: str, obj: ClusterObject, place: Place) -> bool:
        """Notes where the object was read; False for the same object once more, which does no harm."""
        key = key_of(obj.metadata)
        earlier = self._origins.note(kind, key, place)
        shared = not isinstance(obj, Node | Pod)
        if earlier is None:
            if shared:
                self._seen[kind, key] = obj
            return True
        if shared and self._seen[kind, key] == obj:
            return False
        message = f"occurs twice, first in {earlier}: names must be unique"
        raise InputError(str(place), f"{kind} {key}", "metadata.name", message)

    def _check(self, obj: ClusterObject, *, dumped: bool) -> None:
        match obj:
            case Node():
                checks.check_node(obj)
                if not dumped:
                    checks.check_manifest_node(obj)
            case Pod():
                checks.check_pod(obj)
                if not dumped:
                    checks.check_labels("metadata.labels", obj.metadata.labels)
                    checks.check_manifest_spec(obj.spec, "spec")
            case PriorityClass():
                checks.check_priority(obj.value)
            case PodDisruptionBudget():
                checks.check_selector("spec.selector", obj.spec.selector)
            case Deployment() | ReplicaSet() | ReplicationController() | StatefulSet() | DaemonSet() | Job():
                if not dumped:
                    self._check_workload(obj)

    @staticmethod
    def _check_workload(obj: _Workload) -> None:
        template = obj.spec.template or PodTemplateSpec()
        if not isinstance(obj, Job | ReplicationController):
            checks.check_selector("spec.selector", obj.spec.selector)
        checks.check_labels("spec.template.metadata.labels", template.metadata.labels)
        checks.check_pod_spec(template.spec, "spec.template.spec")
        checks.check_manifest_spec(template.spec, "spec.template.spec")
        if isinstance(obj, Job):
            checks.check_count("spec.parallelism", obj.spec.parallelism, MAX_PODS)
            checks.check_count("spec.completions", obj.spec.completions, MAX_PODS)
        else:
            checks.check_count("spec.replicas", obj.spec.replicas, MAX_PODS)

    # ---- building the result

    def build(self, source: str) -> ClusterInput:
        """The cluster. `source` names the input in the message that it has no nodes."""
        nodes = tuple(default_object(node) for node in self._of(Node))
        if not nodes:
            raise InputError(source, "", "", "no nodes: the input must have at least one Node")
        classes = self._of(PriorityClass)
        pods, replica_sets = self._pods(nodes, classes)
        return ClusterInput(
            nodes=nodes,
            pods=pods,
            namespaces=self._namespaces(pods),
            priority_classes=classes,
            services=self._of(Service),
            replication_controllers=self._of(ReplicationController),
            replica_sets=(*self._of(ReplicaSet), *replica_sets),
            stateful_sets=self._of(StatefulSet),
            pod_disruption_budgets=self._of(PodDisruptionBudget),
            device_classes=self._of(DeviceClass),
            resource_slices=self._of(ResourceSlice),
            warnings=self._all_warnings(nodes, pods),
            origin=self._origins,
        )

    def _of(self, kind: type[_T]) -> tuple[_T, ...]:
        return tuple(entry.obj for entry in self._entries if isinstance(entry.obj, kind))

    def _pods(
        self, nodes: tuple[Node, ...], classes: tuple[PriorityClass, ...]
    ) -> tuple[tuple[Pod, ...], list[ReplicaSet]]:
        """All pods in the order of the input, and the ReplicaSets that were made for deployments."""
        owners = self._owners()
        pods: list[Pod] = []
        made: list[ReplicaSet] = []
        for entry in self._entries:
            obj = entry.obj
            if isinstance(obj, Pod):
                admit = _admission(classes, "spec")
                pods.append(obj if entry.dumped else self._checked(entry, admit, obj))
            elif isinstance(obj, _Workload) and not entry.dumped:
                if (entry.kind, key_of(obj.metadata)) not in owners:
                    pods.extend(self._expanded(entry, obj, nodes, classes, made))
            if len(pods) > MAX_PODS:
                raise InputError(str(entry.place), "", "", f"too many pods: at most {MAX_PODS:,} are allowed")
        return tuple(pods), made

    def _owners(self) -> set[tuple[str, str]]:
        """The workloads whose pods, or whose ReplicaSets, are in the input themselves."""
        owners = set()
        for entry in self._entries:
            if isinstance(entry.obj, Pod | ReplicaSet):
                owner = controller_of(entry.obj.metadata)
                if owner is not None:
                    owners.add((owner.kind, f"{entry.obj.metadata.namespace}/{owner.name}"))
        return owners

    def _expanded(
        self,
        entry: _Entry,
        obj: _Workload,
        nodes: tuple[Node, ...],
        classes: tuple[PriorityClass, ...],
        made: list[ReplicaSet],
    ) -> Iterator[Pod]:
        def expand(workload: _Workload) -> Iterable[Pod]:
            admit = _admission(classes, "spec.template.spec")
            match workload:
                case Deployment():
                    replica_set = workloads.replica_set_of(workload)
                    self._note("ReplicaSet", replica_set, entry.place)
                    made.append(replica_set)
                    return workloads.pods_of_replica_set(replica_set, admit)
                case ReplicaSet():
                    return workloads.pods_of_replica_set(workload, admit)
                case ReplicationController():
                    return workloads.pods_of_replication_controller(workload, admit)
                case StatefulSet():
                    self._claim_templates += bool(workload.spec.volume_claim_templates)
                    return workloads.pods_of_stateful_set(workload, admit)
                case DaemonSet():
                    # All at once, so that what is wrong is found here.
                    return list(workloads.pods_of_daemon_set(workload, nodes, admit))
                case Job():
                    return workloads.pods_of_job(workload, admit)

        for pod in self._checked(entry, expand, obj):
            self._note("Pod", pod, entry.place)
            yield pod

    @staticmethod
    def _checked(entry: _Entry, act: Callable[[Any], _T], obj: ClusterObject) -> _T:
        try:
            return act(obj)
        except FieldError as error:
            raise InputError.of(str(entry.place), f"{entry.kind} {key_of(obj.metadata)}", error) from None

    def _namespaces(self, pods: tuple[Pod, ...]) -> tuple[Namespace, ...]:
        """The namespaces of the input and, with the label that each has, those that its pods imply."""
        given = self._of(Namespace)
        known = {namespace.metadata.name for namespace in given}
        implied = dict.fromkeys(pod.metadata.namespace for pod in pods if pod.metadata.namespace not in known)
        return (
            *given,
            *(
                Namespace(metadata=ObjectMeta(name=name, uid=name, labels={METADATA_NAME_LABEL: name}))
                for name in implied
            ),
        )

    # ---- warnings

    def _all_warnings(self, nodes: tuple[Node, ...], pods: tuple[Pod, ...]) -> tuple[str, ...]:
        return (*self._warnings, *self._warnings_of_kinds(), *self._warnings_of_pods(nodes, pods))

    def _warnings_of_kinds(self) -> Iterator[str]:
        for kind, count in sorted(self._ignored.items()):
            if kind in _MATTERS:
                yield f"{count} {kind} ignored: {_MATTERS[kind]}"
        others = {kind: count for kind, count in sorted(self._ignored.items()) if kind not in _MATTERS}
        if others:
            listed = ", ".join(f"{kind} ({count})" for kind, count in others.items())
            yield f"{sum(others.values())} objects of other kinds ignored: {listed}"
        for version, count in sorted(self._versions.items()):
            kind = version.split(" ", 1)[0]
            known = "/".join(part for part in (KINDS[kind].group, KINDS[kind].versions[0]) if part)
            yield f"{count} {version} read as {known}"

    def _warnings_of_pods(self, nodes: tuple[Node, ...], pods: tuple[Pod, ...]) -> Iterator[str]:
        if self._finished:
            yield f"{self._finished} finished pods (Succeeded, Failed) left out"
        if self._claim_templates:
            yield (
                f"{self._claim_templates} StatefulSets with volumeClaimTemplates: "
                "their pods stay pending, because volumes are not decided yet"
            )
        names = {node.metadata.name for node in nodes}
        lost = [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in names]
        if lost:
            example = f"{lost[0].key} on {lost[0].spec.node_name}"
            yield f"{len(lost)} pods are on nodes that are not in the input, such as {example}"


def _admission(classes: tuple[PriorityClass, ...], field: str) -> workloads.Admit:
    """Admission of manifest pods, with errors about the spec that stands at `field`."""

    def admit(pod: Pod) -> Pod:
        try:
            return admit_manifest_pod(pod, classes)
        except UnknownPriorityClassError:
            name = pod.spec.priority_class_name
            known = sorted(
                {found.metadata.name for found in classes} | {"system-cluster-critical", "system-node-critical"}
            )
            message = f'"{name}": no such PriorityClass; the input has {", ".join(known)}'
            raise FieldError(f"{field}.priorityClassName", message) from None
        except PriorityConflictError as error:
            message = str(error).partition(": ")[2]
            raise FieldError(f"{field}.priority", message) from None
        except QuantityError as error:
            raise FieldError(field, str(error)) from None

    return admit
