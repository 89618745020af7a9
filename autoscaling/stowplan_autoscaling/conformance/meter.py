"""What the scenario's metrics server measures: the use of all running pods at one moment, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.demand.points import Usage
from stowplan_autoscaling.kernel import MICROSECOND, whole_seconds
from stowplan_scheduler.cache.flags import all_true

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


class _Layout:
    """The pods in some slots, and where those of each deployment stand; kept as long as no pod comes or goes."""

    __slots__ = ("bounds", "numbers", "order", "pods", "slots", "sorted_slots")

    def __init__(self, slots: Int64, pods: list[PodLife], deployments: Int64, numbers: Int64, count: int) -> None:
        """`deployments` and `numbers`: of all slots; `count`: how many deployments there are."""
        self.slots = slots
        self.pods = pods
        of_slots = deployments[slots]
        self.order = of_slots.argsort(kind="stable")
        """Indexes of the pods, deployment by deployment."""
        self.sorted_slots = slots[self.order]
        self.numbers = numbers[self.sorted_slots]
        self.bounds: list[int] = np.searchsorted(of_slots[self.order], np.arange(count + 1)).tolist()
        """Where each deployment begins in that order, and the end."""


_NO_SLOTS: Int64 = np.zeros(0, np.int64)
_EMPTY: Final = _Layout(_NO_SLOTS, [], _NO_SLOTS, _NO_SLOTS, 0)


class Meter:
    """Pods in slots; what a measurement reads of them stands in columns."""

    def __init__(self, usage: Mapping[str, tuple[Usage | None, ...]]) -> None:
        """`usage`: CPU and memory by deployment."""
        self._usage = usage
        self._deployments: dict[str, int] = {}
        self._lives: list[PodLife | None] = []
        self._free: list[int] = []
        self._last = _EMPTY
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
        self._last = _EMPTY
        life.slot = -1
        self._free.append(slot)

    def measure(self, now: int, warmup: int, t: float) -> Measurement:
        """All pods that have run for `warmup` nanoseconds; `t` is the nominal time in seconds."""
        layout = self._laid_out((self._running <= now - warmup).nonzero()[0])
        ready = self._ready[layout.sorted_slots]
        counts = np.bincount(self._deployment[self._ready], minlength=len(self._deployments)).tolist()
        size = len(ready)
        cpu = np.zeros(size, np.int64)
        memory: list[tuple[slice, Callable[[], Int64]]] = []
        for (name, number), (start, end) in zip(self._deployments.items(), pairwise(layout.bounds), strict=False):
            if start == end:
                continue
            mine = slice(start, end)
            of_cpu, of_memory = self._usage.get(name, (None, None))
            if of_cpu is not None:
                cpu[mine] = _amounts(of_cpu, layout, mine, ready, counts[number], t)()
            if of_memory is not None:
                memory.append((mine, _amounts(of_memory, layout, mine, ready, counts[number], t)))
        order = layout.order
        time = whole_seconds(now + _EARLY)
        return Measurement(time, layout.pods, _put_back(cpu, order), lambda: _put_back(_joined(size, memory), order))

    def _laid_out(self, slots: Int64) -> _Layout:
        """The pods of slots; the same object as long as nothing has changed."""
        known = self._last
        if len(known.slots) != len(slots) or not all_true(known.slots == slots):
            pods = [life for slot in slots.tolist() if (life := self._lives[slot]) is not None]
            known = self._last = _Layout(slots, pods, self._deployment, self._number, len(self._deployments))
        return known

    def note_row(self, life: PodLife, row: int) -> None:
        """The pod has this row among the autoscalers' samples; -1: none."""
        if life.slot >= 0:
            self._row[life.slot] = row

    def rows_of(self, pods: Sequence[PodLife]) -> Int64:
        """The rows of pods of a measurement that are still there; -1 for the others."""
        last = self._last
        if pods is last.pods:
            # No pod has gone since the measurement: the slots are those that were measured.
            return self._row[last.slots]
        slots = np.array([life.slot for life in pods], np.int64)
        rows: Int64 = np.where(slots >= 0, self._row[slots], -1)
        return rows


def _amounts(usage: Usage, layout: _Layout, mine: slice, ready: Booleans, count: int, t: float) -> Callable[[], Int64]:
    """The amounts of the pods of one deployment at this moment, to be worked out at any time."""
    if usage.is_uniform:
        numbers, are_ready = layout.numbers[mine], ready[mine]
        return lambda: usage.of_many(numbers, are_ready, count, t)
    lives = [layout.pods[index] for index in layout.order[mine].tolist()]
    amounts = [usage.of(life.log["name"], life.index, life.ready, count, t) for life in lives]
    return lambda: np.array(amounts, np.int64)


def _put_back(amounts: Int64, order: Int64) -> Int64:
    """Amounts that stand deployment by deployment, in the order of the pods."""
    found = np.empty(len(amounts), np.int64)
    found[order] = amounts
    return found


def _joined(size: int, parts: Sequence[tuple[slice, Callable[[], Int64]]]) -> Int64:
    found = np.zeros(size, np.int64)
    for mine, amounts in parts:
        found[mine] = amounts()
    return found
