"""Pods of Jobs: each wants its cores for as long as its work lasts, and gets on as fast as its share of them allows.

The kubelet's model has the work left and ends the container; here is what it wants and uses meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from stowplan_autoscaling.kernel import Timer

from .roster import Floats, Ints, Roster

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.kubelet import Kubelets
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.metrics import UsageHistory

    from .applications import Applications
    from .pods import PodLife
    from .world import World

LOAD: Final = "tasks"
"""Name of all of them together in the history of use."""

_EMPTY: Final = np.zeros(0, np.int64)


class _Run:
    __slots__ = ("cpu", "row", "speed", "timer", "uid")

    def __init__(self, row: int, uid: str, cpu: float) -> None:
        self.row = row
        self.uid = uid
        self.cpu = cpu
        self.speed = 1.0
        self.timer: Timer | None = None


class Tasks:
    """All running pods of Jobs."""

    def __init__(self, world: World, roster: Roster, applications: Applications, changed: Callable[[], None]) -> None:
        """`changed` is called when what a task wants has changed by itself."""
        self._world = world
        self._roster = roster
        self._applications = applications
        self._changed = changed
        self._runs: dict[str, _Run] = {}
        self._rows: Ints | None = _EMPTY
        self._wanted: Floats = np.zeros(0)
        self._speeds: Floats = np.zeros(0)
        self._list: list[tuple[str, _Run]] = []
        self._ended: dict[str, int] = {}
        """Rows of pods that work no more; the history of use still knows them by these."""
        self.history: UsageHistory | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def begin(self, pod: ClusterPod, life: PodLife, start: str) -> None:
        """The containers of a pod run; pods that are no tasks use nothing. `start` names the kubelet's draws."""
        workload = life.workload
        task = None if workload is None else self._applications.task_of(workload.name)
        if workload is None or task is None:
            return
        self.end(life.key)
        row = self._roster.add(pod, workload.number)
        if self.history is not None:
            self.history.assign(row, self.history.load(LOAD), life.uid)
        self._free(life.key)
        run = self._runs[life.key] = _Run(row, life.uid, life.cpu / 1000 if task.cpu is None else task.cpu)
        self._roster.memory[row] = life.memory if task.memory is None else task.memory
        if task.wait:
            u = self._world.streams.uniform("kubelet/run", start)
            wanted, run.cpu = run.cpu, 0.0
            when = self._world.kernel.now + round(task.run.of(u) * task.wait)
            run.timer = self._world.kernel.later(when, lambda: self._work(run, wanted))
        self._rows = None

    def _work(self, run: _Run, cpu: float) -> None:
        """The wait is over."""
        run.timer = None
        run.cpu = cpu
        self._rows = None
        self._changed()

    def end(self, key: str) -> bool:
        """A pod works no more; returns whether it was a task at work."""
        run = self._runs.pop(key, None)
        if run is None:
            return False
        if run.timer is not None:
            run.timer.cancel()
        self._roster.keep(run.row)
        self._ended[key] = run.row
        self._rows = None
        return True

    def forget(self, key: str) -> None:
        """The pod itself is gone."""
        self._free(key)

    def _free(self, key: str) -> None:
        row = self._ended.pop(key, None)
        if row is not None:
            self._roster.free(row)

    # ---- looks -------------------------------------------------------------------------------

    def want(self) -> None:
        """Put the cores that they want into the roster."""
        if self._rows is None:
            self._list = list(self._runs.items())
            count = len(self._list)
            self._rows = np.fromiter((run.row for _, run in self._list), np.int64, count)
            self._wanted = np.fromiter((run.cpu for _, run in self._list), np.float64, count)
            self._speeds = np.fromiter((run.speed for _, run in self._list), np.float64, count)
        self._roster.demand[self._rows] = self._wanted

    def account(self, seconds: float) -> None:
        """Book the core seconds used since the last look by those that are still there."""
        if not self._runs:
            return
        rows = np.fromiter((run.row for run in self._runs.values()), np.int64, len(self._runs))
        self._roster.ledger.seconds[rows] += self._roster.division.granted[rows] * seconds

    def set_speeds(self, kubelets: Kubelets) -> None:
        """Tell the kubelets how fast the work gets on."""
        if self._rows is None or not self._rows.size:
            return
        speeds = np.ones(len(self._rows))
        np.divide(self._roster.division.available[self._rows], self._wanted, out=speeds, where=self._wanted > 0)
        speeds = np.minimum(speeds, 1.0)
        for index in np.flatnonzero(speeds != self._speeds).tolist():
            key, run = self._list[index]
            run.speed = float(speeds[index])
            kubelets.set_speed(key, run.speed)
        self._speeds = speeds

    @property
    def rows(self) -> Ints:
        """Of those that were at work at the last look."""
        return _EMPTY if self._rows is None else self._rows
