"""What the scenario's metrics server measures: the use of all running pods at one moment, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.demand.points import Usage
from stowplan_autoscaling.kernel import MICROSECOND, whole_seconds

if TYPE_CHECKING:
    from .cluster_world import PodLife

Int64 = NDArray[np.int64]
Booleans = NDArray[np.bool_]

NEVER: Final = 2**62
_EARLY: Final = 500 * MICROSECOND
_FIRST_CAPACITY: Final = 256


class Measurement:
    """Samples of `pods`, in milli units; `time` in nanoseconds. Memory is worked out if somebody asks for it."""

    __slots__ = ("_memory", "cpu", "pods", "time")

    def __init__(self, time: int, pods: Sequence[PodLife], cpu: Int64, memory: Callable[[], Int64]) -> None:
        self.time = time
        self.pods = pods
        self.cpu = cpu
        self._memory = memory

    @property
    def memory(self) -> Int64:
        """Of each pod, as it was at the time of the measurement."""
        return self._memory()


class Meter:
    """Pods in slots; what a measurement reads of them stands in columns."""

    def __init__(self, usage: Mapping[str, tuple[Usage | None, ...]]) -> None:
        """`usage`: CPU and memory by deployment."""
        self._usage = usage
        self._deployments: dict[str, int] = {}
        self._lives: list[PodLife | None] = []
        self._free: list[int] = []
        self._last: tuple[Int64, list[PodLife]] = (np.zeros(0, np.int64), [])
        self._deployment: Int64 = np.full(_FIRST_CAPACITY, -1, np.int64)
        self._number: Int64 = np.zeros(_FIRST_CAPACITY, np.int64)
        self._row: Int64 = np.full(_FIRST_CAPACITY, -1, np.int64)
        self._running: Int64 = np.full(_FIRST_CAPACITY, NEVER, np.int64)
        self._ready: Booleans = np.zeros(_FIRST_CAPACITY, np.bool_)

    def add(self, life: PodLife) -> None:
        """A pod was created."""
        if self._free:
            slot = self._free.pop()
            self._lives[slot] = life
        else:
            slot = len(self._lives)
            self._lives.append(life)
            if slot >= len(self._deployment):
                self._grow()
        life.slot = slot
        self._deployment[slot] = self._deployments.setdefault(life.deployment, len(self._deployments))
        self._number[slot] = life.index
        self._row[slot] = -1
        self._running[slot] = NEVER
        self._ready[slot] = False

    def _grow(self) -> None:
        for name, empty in (("_deployment", -1), ("_number", 0), ("_row", -1), ("_running", NEVER), ("_ready", 0)):
            column = getattr(self, name)
            longer = np.full(2 * len(column), empty, column.dtype)
            longer[: len(column)] = column
            setattr(self, name, longer)

    def start(self, life: PodLife) -> None:
        """It runs, on a node that is there."""
        self._running[life.slot] = life.running

    def note(self, life: PodLife) -> None:
        """Its readiness has changed."""
        self._ready[life.slot] = life.ready

    def lose(self, life: PodLife) -> None:
        """Its node is gone: it still counts as ready, but nobody measures it."""
        self._running[life.slot] = NEVER

    def remove(self, life: PodLife) -> None:
        """The pod is gone."""
        slot = life.slot
        self._deployment[slot] = -1
        self._running[slot] = NEVER
        self._ready[slot] = False
        self._lives[slot] = None
        self._last = (np.zeros(0, np.int64), [])
        life.slot = -1
        self._free.append(slot)

    def measure(self, now: int, warmup: int, t: float) -> Measurement:
        """All pods that have run for `warmup` nanoseconds; `t` is the nominal time in seconds."""
        slots = (now - self._running >= warmup).nonzero()[0]
        pods = self._pods_in(slots)
        deployment, ready = self._deployment[slots], self._ready[slots]
        counts = np.bincount(self._deployment[self._ready], minlength=len(self._deployments)).tolist()
        cpu = np.zeros(len(slots), np.int64)
        memory: list[tuple[Int64, Callable[[], Int64]]] = []
        for name, number in self._deployments.items():
            mine = (deployment == number).nonzero()[0]
            if not len(mine):
                continue
            of_cpu, of_memory = self._usage.get(name, (None, None))
            if of_cpu is not None:
                cpu[mine] = self._amounts(of_cpu, pods, slots, mine, ready, counts[number], t)()
            if of_memory is not None:
                memory.append((mine, self._amounts(of_memory, pods, slots, mine, ready, counts[number], t)))
        return Measurement(whole_seconds(now + _EARLY), pods, cpu, lambda: _joined(len(slots), memory))

    def _pods_in(self, slots: Int64) -> list[PodLife]:
        """The pods of slots; the same list as long as nothing has changed."""
        known, pods = self._last
        if len(known) != len(slots) or not (known == slots).all():
            pods = [life for slot in slots.tolist() if (life := self._lives[slot]) is not None]
            self._last = (slots, pods)
        return pods

    def note_row(self, life: PodLife, row: int) -> None:
        """The pod has this row among the autoscalers' samples; -1: none."""
        if life.slot >= 0:
            self._row[life.slot] = row

    def rows_of(self, pods: Sequence[PodLife]) -> Int64:
        """The rows of pods of a measurement that are still there; -1 for the others."""
        known, held = self._last
        # Where no pod has gone since the measurement, the slots are those that were measured.
        slots = known if pods is held else np.array([life.slot for life in pods], np.int64)
        rows: Int64 = np.where(slots >= 0, self._row[slots], -1)
        return rows

    def _amounts(
        self, usage: Usage, pods: list[PodLife], slots: Int64, mine: Int64, ready: Booleans, count: int, t: float
    ) -> Callable[[], Int64]:
        """The amounts of some pods at this moment, to be worked out at any time."""
        if usage.is_uniform:
            numbers, are_ready = self._number[slots[mine]], ready[mine]
            return lambda: usage.of_many(numbers, are_ready, count, t)
        lives = [pods[index] for index in mine.tolist()]
        amounts = [usage.of(life.log["name"], life.index, life.ready, count, t) for life in lives]
        return lambda: np.array(amounts, np.int64)


def _joined(size: int, parts: Sequence[tuple[Int64, Callable[[], Int64]]]) -> Int64:
    found = np.zeros(size, np.int64)
    for mine, amounts in parts:
        found[mine] = amounts()
    return found
