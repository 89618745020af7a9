"""All pods that use something, one row each: what contention on their nodes is computed from.

Rows are columns of numpy arrays; a row that becomes free is used again. Pods of which nothing is known use nothing and
have no row. Row 0 is nobody's: what has no pod may write there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.contention import PodResources, pod_resources
from stowplan_autoscaling.demand import Ledger
from stowplan_scheduler.quantity import parse_quantity, value
from stowplan_scheduler.resources import CPU, MEMORY

from .division import Division

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_FIRST_ROWS: Final = 64
_NANO: Final = 1e9
_INT_COLUMNS: Final = (
    "node", "request", "limit", "qos", "memory_request", "memory_limit", "oom_score", "priority", "workload",
)  # fmt: skip
_FLOAT_COLUMNS: Final = ("demand", "memory")


class NodeColumns:
    """What nodes have: cores, bytes, and whether they work. One row per node that ever was."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.cpu: Floats = np.zeros(0)
        self.memory: Ints = np.zeros(0, np.int64)
        self.allocatable: Ints = np.zeros(0, np.int64)
        self.works: Booleans = np.zeros(0, np.bool_)
        self.version = 0
        """How often the cores of nodes have changed."""

    def put(self, node: Node) -> None:
        """A node appears, or changes."""
        name = node.metadata.name
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self.names)
            self.names.append(name)
            self.cpu = np.append(self.cpu, 0.0)
            self.memory = np.append(self.memory, 0)
            self.allocatable = np.append(self.allocatable, 0)
            self.works = np.append(self.works, True)
            self.version += 1
        status = node.status
        allocatable = status.allocatable or {}
        capacity = status.capacity or allocatable
        cores = parse_quantity(capacity.get(CPU, allocatable.get(CPU, 0))) / _NANO
        if self.cpu[row] != cores:
            self.cpu[row] = cores
            self.version += 1
        self.allocatable[row] = value(parse_quantity(allocatable.get(MEMORY, 0)))
        self.memory[row] = value(parse_quantity(capacity.get(MEMORY, allocatable.get(MEMORY, 0))))

    def set_working(self, name: str, *, works: bool) -> None:
        """A node falls silent, or is heard again."""
        row = self.rows.get(name)
        if row is not None:
            self.works[row] = works


class Roster:
    """The rows. Columns are arrays of one length; `alive` says which rows count."""

    node: Ints
    request: Ints
    limit: Ints
    qos: Ints
    memory_request: Ints
    memory_limit: Ints
    oom_score: Ints
    priority: Ints
    workload: Ints
    demand: Floats
    memory: Floats

    def __init__(self, nodes: NodeColumns) -> None:
        self.nodes = nodes
        self.ledger = Ledger(_FIRST_ROWS)
        """What each has used: the places are the rows."""
        self._kept = 0
        """Rows that are no pod's any more, and must not be used again yet."""
        self.alive: Booleans = np.zeros(_FIRST_ROWS, np.bool_)
        self.critical: Booleans = np.zeros(_FIRST_ROWS, np.bool_)
        for name in _INT_COLUMNS:
            setattr(self, name, np.zeros(_FIRST_ROWS, np.int64))
        for name in _FLOAT_COLUMNS:
            setattr(self, name, np.zeros(_FIRST_ROWS))
        self.keys: list[str] = [""] * _FIRST_ROWS
        self._free = list(range(_FIRST_ROWS - 1, 0, -1))
        self._rows: Ints | None = None
        self.version = 0
        """How often rows have come or gone."""
        self._resources: dict[tuple[int, int], tuple[object, PodResources]] = {}
        self.division = Division(self)
        """What contention leaves to each."""

    def __len__(self) -> int:
        return len(self.keys) - len(self._free) - self._kept - 1

    @property
    def rows(self) -> Ints:
        """The rows that count, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.alive)
        return self._rows

    def add(self, pod: ClusterPod, workload: int) -> int:
        """A pod begins to use something; returns its row."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        node = self.nodes.rows[pod.spec.node_name]
        resources = self._resources_of(pod, int(self.nodes.memory[node]))
        self.keys[row] = pod.key
        self.node[row], self.workload[row] = node, workload
        self.request[row], self.limit[row], self.qos[row] = resources.cpu_request, resources.cpu_limit, resources.qos
        self.memory_request[row], self.memory_limit[row] = resources.memory_request, resources.memory_limit
        self.oom_score[row], self.priority[row] = resources.oom_score, resources.priority
        self.critical[row] = resources.critical
        for name in _FLOAT_COLUMNS:
            getattr(self, name)[row] = 0.0
        self.ledger.clear(row)
        self.alive[row] = True
        self.division.renew(row, is_new=True)
        self._rows = None
        self.version += 1
        return row

    def remove(self, row: int) -> None:
        """The pod uses nothing any more."""
        self.ledger.clear(row)
        self.memory[row] = 0.0
        self._end(row)
        self._free.append(row)

    def keep(self, row: int) -> None:
        """The same, but somebody may still ask what it used, until the row is given `free`."""
        self._end(row)
        self._kept += 1

    def free(self, row: int) -> None:
        """A row that was kept may be used again."""
        self._kept -= 1
        self._free.append(row)

    def _end(self, row: int) -> None:
        self.alive[row] = False
        self.demand[row] = 0.0
        self.keys[row] = ""
        self.division.renew(row, is_new=False)
        self._rows = None
        self.version += 1

    def _resources_of(self, pod: ClusterPod, memory: int) -> PodResources:
        """Pods of one template share their containers."""
        spec = pod.spec
        key = (id(spec.containers), memory)
        found = self._resources.get(key)
        if found is None or found[1].priority != pod.priority:
            found = self._resources[key] = spec.containers, pod_resources(pod, memory_capacity=max(memory, 1))
        return found[1]

    def _grow(self) -> None:
        size = len(self.keys)
        for name in ("alive", "critical", *_INT_COLUMNS, *_FLOAT_COLUMNS):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self.ledger.grow(2 * size)
        self.keys.extend([""] * size)
        self._free.extend(range(2 * size - 1, size - 1, -1))
        self._rows = None
