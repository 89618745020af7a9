"""The recent past of pods whose model only knows the present: counters noted at each look, read between the looks.

A model of demand runs forward: it has each pod's cumulated CPU time and memory now. The kubelet is asked about moments
of the last minute. `UsageHistory` stands between the two:

    history = UsageHistory(keep=server.history)
    history.record("default/web", uids, now, service.cpu_seconds, memory)     # at each look at the model
    MetricsServer(usage=history, ...)

Between two looks CPU time grows in a straight line, so that the integral over whole intervals between looks is exact;
memory keeps the value of the look before. Note a look when pods come or go, and whenever their use may have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from stowplan_autoscaling.kernel import SECOND

from .usage import Floats, Ints

_FIRST_LOOKS: Final = 8
_NOWHERE: Final = (-1, -1)


class _Load:
    """The looks at one load: one row per look, one column per pod."""

    __slots__ = ("columns", "count", "cpu", "free", "memory", "number", "times")

    def __init__(self, number: int) -> None:
        self.number = number
        self.times = np.zeros(_FIRST_LOOKS, np.int64)
        self.cpu = np.zeros((_FIRST_LOOKS, 0))
        self.memory = np.zeros((_FIRST_LOOKS, 0))
        self.count = 0
        self.columns: dict[str, int] = {}
        self.free: list[int] = []

    def new_column(self, uid: str) -> int:
        if not self.free:
            width = self.cpu.shape[1]
            wider = max(8, 2 * width)
            self.cpu = np.pad(self.cpu, ((0, 0), (0, wider - width)))
            self.memory = np.pad(self.memory, ((0, 0), (0, wider - width)))
            self.free.extend(range(wider - 1, width - 1, -1))
        column = self.free.pop()
        self.cpu[:, column] = self.memory[:, column] = 0
        self.columns[uid] = column
        return column

    def make_room(self, oldest: int) -> None:
        """Drop the looks older than `oldest`, but for the last of them; double the room if that is not much."""
        gone = max(0, int(np.searchsorted(self.times[: self.count], oldest, "right")) - 1)
        kept = self.count - gone
        for name in ("times", "cpu", "memory"):
            array = getattr(self, name)
            if kept > len(array) // 2:
                setattr(self, name, np.concatenate([array[gone:], np.zeros_like(array), np.zeros_like(array[:gone])]))
            else:
                array[:kept] = array[gone : self.count]
        self.count = kept


class UsageHistory:
    """A UsageBatch made of looks at models. `keep`: how far back it can be asked, in nanoseconds.

    `gap`: looks that are closer together than this are thinned out, which bounds the room that they take.
    """

    def __init__(self, keep: int, *, gap: int = SECOND) -> None:
        self._keep = keep
        self._gap = gap
        self._loads: dict[str, _Load] = {}
        self._numbered: list[_Load] = []
        self._places: dict[str, tuple[int, int]] = {}  # number of the load, column

    def record(self, load: str, pod_uids: Sequence[str], now: int, cpu_seconds: Floats, memory: Floats) -> None:
        """Note the core seconds since their start and the bytes of all pods of a load. `now` must not go back."""
        found = self._loads.get(load)
        if found is None:
            found = self._loads[load] = _Load(len(self._numbered))
            self._numbered.append(found)
        for uid in pod_uids:
            if uid not in found.columns:
                self._places[uid] = (found.number, found.new_column(uid))
        row = self._row(found, now)
        columns = [found.columns[uid] for uid in pod_uids]
        if row:
            # A pod that is not named any more keeps what it had.
            found.cpu[row], found.memory[row] = found.cpu[row - 1], found.memory[row - 1]
        found.cpu[row, columns], found.memory[row, columns] = cpu_seconds, memory
        if len(found.columns) > 2 * len(columns) + 8:
            self._sweep(found, set(pod_uids))

    def _row(self, load: _Load, now: int) -> int:
        """The row for a look at `now`: a new one, or that of the look before if it came too soon after its own."""
        times, count = load.times, load.count
        if count and now < times[count - 1]:
            raise ValueError(f"cannot go back from {times[count - 1]} to {now}")
        again = count and (now == times[count - 1] or (count > 1 and times[count - 1] - times[count - 2] < self._gap))
        if not again:
            if count == len(times):
                load.make_room(now - self._keep)
            load.count += 1
        load.times[load.count - 1] = now
        return load.count - 1

    def _sweep(self, load: _Load, present: set[str]) -> None:
        """Forget pods that are not named any more and whose last use is older than anybody asks."""
        oldest = load.times[load.count - 1] - self._keep
        since = max(0, int(np.searchsorted(load.times[: load.count], oldest, "right")) - 1)
        for uid, column in [item for item in load.columns.items() if item[0] not in present]:
            if load.cpu[since, column] == load.cpu[load.count - 1, column]:
                del load.columns[uid], self._places[uid]
                load.free.append(column)

    # ---- UsageBatch

    def cpu_seconds_of(self, pod_uids: Sequence[str], a: Ints, b: Ints) -> Floats:
        """See UsageBatch.cpu_seconds_of; unknown pods have used nothing."""
        used = np.zeros(len(pod_uids))
        for load, positions, columns in self._grouped(pod_uids):
            used[positions] = _at(load, b[positions], columns) - _at(load, a[positions], columns)
        return used

    def memory_of(self, pod_uids: Sequence[str], t: Ints) -> Ints:
        """See UsageBatch.memory_of."""
        size = np.zeros(len(pod_uids), np.int64)
        for load, positions, columns in self._grouped(pod_uids):
            before = np.maximum(np.searchsorted(load.times[: load.count], t[positions], "right") - 1, 0)
            after = np.minimum(before + 1, load.count - 1)
            known = load.memory[before, columns]
            size[positions] = np.rint(np.where(known > 0, known, load.memory[after, columns]))
        return size

    def _grouped(self, pod_uids: Sequence[str]) -> Iterator[tuple[_Load, Ints, Ints]]:
        """The pods by load: positions in the question and columns in the load."""
        if not pod_uids:
            return
        places = np.array([self._places.get(uid, _NOWHERE) for uid in pod_uids], np.int64).reshape(-1, 2)
        order = np.argsort(places[:, 0], kind="stable")
        numbers, first = np.unique(places[order, 0], return_index=True)
        for number, positions in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
            if number != _NOWHERE[0]:
                yield self._numbered[number], positions, places[positions, 1]


def _at(load: _Load, t: Ints, columns: Ints) -> Floats:
    """Cumulated CPU at t[i] of columns[i]; as at the first look before it, as at the last after it."""
    times = load.times[: load.count]
    after = np.clip(np.searchsorted(times, t, "right"), 1, max(load.count - 1, 1))
    if load.count == 1:
        after = np.zeros(len(t), np.int64)
    before = np.maximum(after - 1, 0)
    span = times[after] - times[before]
    part = np.clip((t - times[before]) / np.maximum(span, 1), 0.0, 1.0)
    low, high = load.cpu[before, columns], load.cpu[after, columns]
    value: Floats = low + part * (high - low)
    return value
