"""The running containers of all nodes as arrays: one row per container, one slot per pod.

Rows and slots of pods that end are used again. Everything that is read at a scrape is an array, so that a scrape of
tens of thousands of containers is a handful of array operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.streams import Streams

from .housekeeping import NEVER, Housekeeping, Rhythm
from .points import Points
from .usage import UNKNOWN, ContainerShare, Ints, UsageBatch

NO_SLOT: Final = -1


@dataclass(frozen=True, slots=True)
class RunningPod:
    """Where a pod's containers are: `rows` maps container names to rows."""

    uid: str
    slot: int
    rows: dict[str, int]


class ContainerTable:
    """Running containers, their housekeeping and their counters."""

    def __init__(self, usage: UsageBatch, streams: Streams, housekeeping: Housekeeping) -> None:
        self._usage = usage
        self._streams = streams
        self._housekeeping = housekeeping
        self.running: dict[str, RunningPod] = {}
        self._free_rows: list[int] = []
        self._free_slots: list[int] = []
        self.slots = 0
        """How many pod slots there are, used or free."""
        self.alive = np.zeros(0, np.bool_)
        self.node = np.zeros(0, np.int64)
        self.slot = np.zeros(0, np.int64)
        self.points = Points.of_size(0)
        self._rhythm = Rhythm.of_size(0)
        self._uid: npt.NDArray[np.object_] = np.zeros(0, np.object_)
        self._handle = np.zeros(0, np.int64)
        self._epoch = usage.epoch
        self._cpu_share = np.zeros(0)
        self._memory_share = np.zeros(0)
        self._counted_to = np.zeros(0, np.int64)
        self._cpu = np.zeros(0, np.int64)
        self._memory = np.zeros(0, np.int64)

    # ---- pods come and go

    def start(self, pod: ClusterPod, node: int, shares: tuple[ContainerShare, ...], now: int) -> None:
        """The containers of a pod run from now on, on the node with that number."""
        uid = pod.metadata.uid
        if uid in self.running:
            return
        rows = {share.name: self._new_row() for share in shares}
        running = RunningPod(uid, self._new_slot(), rows)
        self.running[uid] = running
        for share in shares:
            row = rows[share.name]
            self.alive[row], self.node[row], self.slot[row], self._uid[row] = True, node, running.slot, uid
            self._handle[row] = UNKNOWN
            self._cpu_share[row], self._memory_share[row] = share.cpu, share.memory
            name = f"{pod.metadata.namespace}/{pod.metadata.name}/{share.name}"
            self._rhythm.seed[row] = int(self._streams.uniform("housekeeping", name) * 2**53)
            self._begin(row, now)

    def restart(self, uid: str, container: str | None, now: int) -> None:
        """A container of a pod, or all of them, started again: its counter begins at zero."""
        running = self.running[uid]
        for name, row in running.rows.items():
            if container is None or name == container:
                self._begin(row, now)

    def end(self, uid: str) -> None:
        """The pod's containers are gone."""
        running = self.running.pop(uid, None)
        if running is None:
            return
        for row in running.rows.values():
            self.alive[row] = False
            self.points.forget(row)
            self._free_rows.append(row)
        self._free_slots.append(running.slot)

    def _begin(self, row: int, now: int) -> None:
        self._rhythm.start(row, int(self._rhythm.seed[row]), now)
        self.points.start[row] = self._counted_to[row] = now
        self._cpu[row] = self._memory[row] = 0

    def _new_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        self.slots += 1
        return self.slots - 1

    def _new_row(self) -> int:
        if not self._free_rows:
            self._grow(max(64, 2 * len(self.alive)))
        return self._free_rows.pop()

    def _grow(self, size: int) -> None:
        known = len(self.alive)
        self._free_rows.extend(range(size - 1, known - 1, -1))
        for holder in (self, self.points, self._rhythm):
            for name in _arrays(holder):
                array = getattr(holder, name)
                wider = np.zeros(size, array.dtype)
                wider[:known] = array
                setattr(holder, name, wider)
        self.points.time[known:] = self.points.earlier_time[known:] = self._rhythm.moment[known:] = NEVER

    # ---- what a kubelet answers

    def measure(self, rows: Ints, read_at: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """What kubelets answer that are read at read_at[i] for rows[i].

        Returns (rows, moments, cumulated CPU in nanoseconds, working set in bytes), without the containers that
        housekeeping has not seen yet.
        """
        self._rhythm.advance(rows, read_at, self._housekeeping)
        moment = self._rhythm.moment[rows]
        seen = moment != NEVER
        rows, moment = rows[seen], moment[seen]
        # What was counted but not answered is weighed again.
        self._take_in(rows[(moment > self._counted_to[rows]) | (moment > self.points.time[rows])])
        return rows, moment, self._cpu[rows], self._memory[rows]

    def _take_in(self, rows: Ints) -> None:
        """Bring the CPU counters to the moment of the latest housekeeping, and take the memory of that moment."""
        if not rows.size:
            return
        until = self._rhythm.moment[rows]
        seconds, size = self._usage.use_of(self._handles(rows), self._counted_to[rows], until)
        self._cpu[rows] += np.rint(seconds * self._cpu_share[rows] * 1e9).astype(np.int64)
        self._memory[rows] = np.rint(size * self._memory_share[rows]).astype(np.int64)
        self._counted_to[rows] = until

    def _handles(self, rows: Ints) -> Ints:
        """What the source calls the pods of rows."""
        if self._epoch != self._usage.epoch:
            self._epoch = self._usage.epoch
            self._handle[:] = UNKNOWN
        unknown = rows[self._handle[rows] == UNKNOWN]
        if unknown.size:
            self._handle[unknown] = self._usage.handles(self._uid[unknown].tolist())
        return self._handle[rows]


def _arrays(holder: object) -> list[str]:
    names: Iterable[str] = vars(holder) if hasattr(holder, "__dict__") else getattr(type(holder), "__slots__", ())
    return [name for name in names if isinstance(getattr(holder, name), np.ndarray)]
