"""The OpenB GPU cluster lists: nodes and pods as CSV, and the inflated workload of the packing experiments on them.

Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Pods: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, in most lists,
`gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time`. GPU shares become an extended resource in
thousandths of a device, summed over the devices of a node; the model becomes a node label. The original simulator has
no limit on the number of pods of a node, so neither has such a node here (`PODS_PER_NODE`).

The format and the inflation follow hkust-adsl/kubernetes-scheduler-simulator (FGD, USENIX ATC '23).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final, TypeVar

import numpy as np
from msgspec.structs import replace

from stowplan_scheduler.defaulting import admit_manifest_pod
from stowplan_scheduler.objects import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Quantity,
    ResourceRequirements,
)
from stowplan_scheduler.quantity import NANOS, parse_quantity

from .csv_lines import csv_lines
from .errors import InputError, shown

GPU_RESOURCE: Final = "stowplan.io/gpu-milli"
MODEL_LABEL: Final = "stowplan.io/gpu-model"
GPU_COUNT_ANNOTATION: Final = "stowplan.io/gpu-count"
"""How many devices a pod wants: its gpu-milli are spread evenly over them."""

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
PODS_PER_NODE: Final = 10_000
NAMESPACE: Final = "default"

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_OPTIONAL_POD_COLUMNS: Final = ("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
_MOST: Final = 10**12
"""Beyond any machine, and within the scheduler's integers."""

Row = Mapping[str, str]
Warn = Callable[[str], None]
_T = TypeVar("_T")


def read_openb(stream: BinaryIO, source: str, warn: Warn) -> Iterator[tuple[int, Node | Pod]]:
    """Yields (line, object): the nodes in file order, or the pods in order of creation, all of them pending.

    Raises InputError with file and line.
    """
    rows = csv_lines(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""), source)
    _, header = next(rows, (1, []))
    header = [name.strip() for name in header]
    if set(NODE_COLUMNS) <= set(header):
        _warn_unknown(header, NODE_COLUMNS, source, warn)
        yield from _each(rows, header, source, _node)
    elif set(POD_COLUMNS) <= set(header):
        _warn_unknown(header, (*POD_COLUMNS, *_OPTIONAL_POD_COLUMNS), source, warn)
        # The lists are not in order of time. Pods of one instant keep their order in the file.
        made = _PodMaker().make
        pods = list(_each(rows, header, source, lambda row: (_integer(row, "creation_time", default=0), made(row))))
        for line, (_, pod) in sorted(pods, key=lambda entry: entry[1][0]):
            yield line, pod
    else:
        columns = f"{','.join(NODE_COLUMNS)} (nodes) or {','.join(POD_COLUMNS)} (pods)"
        raise InputError(f"{source}: line 1", "", "", f"not an OpenB list: the header must have the columns {columns}")


def _each(
    rows: Iterable[tuple[int, list[str]]], header: list[str], source: str, make: Callable[[Row], _T]
) -> Iterator[tuple[int, _T]]:
    for line, row in rows:
        if len(row) != len(header):
            message = f"has {len(row)} columns, the header has {len(header)}"
            raise InputError(f"{source}: line {line}", "", "", message)
        try:
            yield line, make(dict(zip(header, row, strict=True)))
        except _CellError as error:
            raise InputError(f"{source}: line {line}", "", error.column, str(error)) from None


def _warn_unknown(header: list[str], known: Sequence[str], source: str, warn: Warn) -> None:
    if unknown := [name for name in header if name not in known]:
        warn(f"{source}: columns that are not known were ignored: {', '.join(unknown)}")


class _CellError(ValueError):
    """A cell of a row is wrong."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column = column


def _integer(row: Row, column: str, *, default: int | None = None, most: int = _MOST) -> int:
    text = row.get(column, "").strip()
    if not text and default is not None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
        raise _CellError(column, f"{shown(text)}: must be an integer between 0 and {most:,}")
    return int(text)


def _name(row: Row, column: str) -> str:
    name = row[column].strip()
    if not name:
        raise _CellError(column, "must be set")
    return name


def _node(row: Row) -> Node:
    name = _name(row, "sn")
    model = row["model"].strip()
    devices = _integer(row, "gpu", most=1000)
    labels = {HOSTNAME_LABEL: name}
    allocatable: dict[str, Quantity] = {
        "cpu": f"{_integer(row, 'cpu_milli')}m",
        "memory": f"{_integer(row, 'memory_mib')}Mi",
        "pods": str(PODS_PER_NODE),
    }
    if model:
        labels[MODEL_LABEL] = model
    if devices:
        allocatable[GPU_RESOURCE] = str(1000 * devices)
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels=labels),
        status=NodeStatus(capacity=allocatable, allocatable=allocatable),
    )


class _PodMaker:
    """Makes pods; those of one shape share one spec."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[int, int, int, int, str], Pod] = {}

    def make(self, row: Row) -> Pod:
        count = _integer(row, "num_gpu", most=1000)
        milli = _integer(row, "gpu_milli", most=1000)
        if count and not milli:
            raise _CellError("gpu_milli", "0: must be between 1 and 1000 where num_gpu is set")
        if count > 1 and milli != 1000:
            raise _CellError("gpu_milli", f"{milli}: must be 1000 where num_gpu is more than 1")
        shape = (
            _integer(row, "cpu_milli"),
            _integer(row, "memory_mib"),
            count,
            milli if count else 0,
            row.get("gpu_spec", "").strip(),
        )
        if shape not in self._shapes:
            self._shapes[shape] = admit_manifest_pod(_pod_of_shape(*shape), ())
        pod = self._shapes[shape]
        name = _name(row, "name")
        return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{NAMESPACE}/{name}"))


def _pod_of_shape(cpu_milli: int, memory_mib: int, count: int, milli: int, models: str) -> Pod:
    amounts: dict[str, Quantity] = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
    limits: dict[str, Quantity] = {}
    if count:
        amounts[GPU_RESOURCE] = limits[GPU_RESOURCE] = str(count * milli)
    resources = ResourceRequirements(requests=amounts, limits=limits or None)
    return Pod(
        metadata=ObjectMeta(namespace=NAMESPACE, annotations={GPU_COUNT_ANNOTATION: str(count)} if count else {}),
        spec=PodSpec(containers=(Container(name="main", resources=resources),), affinity=_models(models)),
    )


def _models(text: str) -> Affinity | None:
    """`A|B` as a node affinity on the model."""
    models = tuple(model.strip() for model in text.split("|") if model.strip())
    if not models:
        return None
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=MODEL_LABEL, operator="In", values=models),))
    selector = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


# ---- inflation -----------------------------------------------------------------------------------------------------


def inflate(pods: Sequence[Pod], nodes: Sequence[Node], *, load_percent: int, seed: int) -> tuple[Pod, ...]:
    """A workload that asks for `load_percent` of the cluster's GPU, made from a list of pods.

    The pods are sorted by name and shuffled; then copies of pods drawn with replacement follow until the next one would
    pass the load. As in the original, the next one is counted by its share of a single device, and a list that is
    beyond the load already stays whole. Copies are named `<pod>-copy-<n>`. The same seed gives the same workload.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    ordered = sorted(pods, key=lambda pod: pod.key)
    inflated = [ordered[index] for index in generator.permutation(len(ordered))]
    total = sum(_gpu_milli(pod) for pod in inflated)
    limit = sum(_amount(node.status.allocatable.get(GPU_RESOURCE, 0)) for node in nodes) * load_percent / 100
    if not any(_gpu_milli(pod) for pod in ordered):
        return tuple(inflated)  # nothing to draw would ever add to the load
    copies: dict[str, int] = {}
    while True:
        drawn = ordered[int(generator.integers(len(ordered)))]
        if total + _gpu_milli(drawn) // _gpu_count(drawn) > limit:
            return tuple(inflated)
        total += _gpu_milli(drawn)
        copies[drawn.key] = copies.get(drawn.key, 0) + 1
        inflated.append(_copy(drawn, copies[drawn.key]))


def _copy(pod: Pod, number: int) -> Pod:
    meta = pod.metadata
    name = f"{meta.name}-copy-{number}"
    return replace(pod, metadata=replace(meta, name=name, uid=f"{meta.namespace}/{name}"))


def _gpu_count(pod: Pod) -> int:
    return int(pod.metadata.annotations.get(GPU_COUNT_ANNOTATION, "1"))


def _gpu_milli(pod: Pod) -> int:
    return sum(_amount((container.resources.requests or {}).get(GPU_RESOURCE, 0)) for container in pod.spec.containers)


def _amount(quantity: Quantity) -> int:
    return parse_quantity(quantity) // NANOS
