"""The recent past of pods whose model only knows the present: counters noted at each look, read between the looks.

A model of demand runs forward: it has each pod's cumulated CPU time and memory now. The kubelet is asked about moments
of the last minute. `UsageHistory` stands between the two:

    history = UsageHistory(keep=server.history)
    history.record("default/web", uids, now, service.cpu_seconds, memory)     # at each look at the model
    MetricsServer(usage=history, ...)

Between two looks CPU time grows in a straight line, so that the integral over whole intervals between looks is exact;
memory keeps the value of the look before. Note a look when pods come or go, and whenever their use may have changed.

Pods of one load are looked at together. There is one row per pod with what it had at the latest looks of its load;
`record_many` notes looks at any number of loads in a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan_autoscaling.kernel import SECOND

from .usage import UNKNOWN, Floats, Ints

_GAP: Final = SECOND
"""Looks that are closer together are thinned out, which bounds the room that they take."""
_FIRST_LOOKS: Final = 8
_FIRST_ROWS: Final = 64

_Number = TypeVar("_Number", bound=np.generic)


class _Order(NamedTuple):
    """The looks of all loads in one ascending column: those of a load lie in a span of its own."""

    moments: Ints
    first: Ints
    """By load: the position of its first look."""
    origin: int
    span: int

    def looks_up_to(self, load: Ints, t: Ints) -> Ints:
        """How many looks of load[i] were at t[i] or before."""
        moved = np.clip(t - self.origin, -1, self.span - 2) + load * self.span
        found: Ints = np.searchsorted(self.moments, moved, "right") - self.first[load]
        return found


class UsageHistory:
    """A UsageBatch made of looks at models. `keep`: how far back it can be asked, in nanoseconds."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._numbers: dict[str, int] = {}
        self._times: Ints = np.zeros((0, _FIRST_LOOKS), np.int64)
        """By load: when its latest looks were; as many of them as `_count` says."""
        self._count: Ints = np.zeros(0, np.int64)
        self._rows: dict[str, int] = {}
        # Row 0 is nobody's: what has no pod may be noted there.
        self._free = list(range(_FIRST_ROWS - 1, 0, -1))
        self._load: Ints = np.full(_FIRST_ROWS, UNKNOWN)
        self._last: Ints = np.zeros(_FIRST_ROWS, np.int64)
        """By row: the last look that named the pod. It keeps what it had then."""
        self._cpu: Floats = np.zeros((_FIRST_ROWS, _FIRST_LOOKS))
        self._memory: Floats = np.zeros((_FIRST_ROWS, _FIRST_LOOKS))
        self._order: _Order | None = None
        self.epoch = 0
        """See UsageBatch."""

    # ---- looks

    def load(self, name: str) -> int:
        """The number of a load."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self._times = np.concatenate([self._times, np.zeros((1, self._times.shape[1]), np.int64)])
            self._count = np.append(self._count, 0)
        return number

    def row(self, load: int, uid: str) -> int:
        """The row of a pod of a load: the same as long as it is named at the looks."""
        row = self._rows.get(uid)
        if row is None:
            if not self._free:
                self._sweep()
            if not self._free:
                self._grow()
            row = self._rows[uid] = self._free.pop()
            self._load[row], self._last[row] = load, max(int(self._count[load]) - 1, 0)
            self._cpu[row] = self._memory[row] = 0
        return row

    def record(self, load: str, pod_uids: Sequence[str], now: int, cpu_seconds: Floats, memory: Floats) -> None:
        """Note the core seconds since their start and the bytes of all pods of a load. `now` must not go back."""
        number = self.load(load)
        rows = np.array([self.row(number, uid) for uid in pod_uids], np.int64)
        self.record_many(np.array([number]), now, np.zeros_like(rows), rows, cpu_seconds, memory)

    def record_many(self, loads: Ints, now: int, of: Ints, rows: Ints, cpu_seconds: Floats, memory: Floats) -> None:
        """The same for several loads: pod i has rows[i], and belongs to loads[of[i]]."""
        look = self._looks(loads, now)[of]
        missed = np.flatnonzero((self._last[rows] < look - 1) & (rows > 0))
        if missed.size:
            self._fill(rows[missed], look[missed])
        self._cpu[rows, look], self._memory[rows, look] = cpu_seconds, memory
        self._last[rows] = look
        self._order = None

    def _fill(self, rows: Ints, look: Ints) -> None:
        """Pods that are back kept what they had at the looks that did not name them."""
        for row, last, new in zip(rows.tolist(), self._last[rows].tolist(), look.tolist(), strict=True):
            for column in (self._cpu, self._memory):
                column[row, last + 1 : new] = column[row, last]

    def _looks(self, loads: Ints, now: int) -> Ints:
        """A new look at each load, or the one before if it came too soon after its own predecessor."""
        count = self._count[loads]
        last = np.where(count > 0, self._times[loads, count - 1], now)
        if (last > now).any():
            raise ValueError(f"cannot go back from {last.max()} to {now}")
        soon = (count > 1) & (last - self._times[loads, count - 2] < _GAP)
        again = (count > 0) & ((last == now) | soon)
        full = ~again & (count == self._times.shape[1])
        if full.any():
            self._make_room(loads[full], now - self._keep)
        self._count[loads] += ~again
        look: Ints = self._count[loads] - 1
        self._times[loads, look] = now
        return look

    def _make_room(self, loads: Ints, oldest: int) -> None:
        """Drop the looks older than `oldest`, but for the last of them; double the room if that is not much."""
        count, width = self._count[loads], self._times.shape[1]
        dropped = np.maximum((self._times[loads] <= oldest).sum(axis=1) - 1, 0)
        if int((count - dropped).max()) > width // 2:
            for name in ("_times", "_cpu", "_memory"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, width))))
        gone = np.zeros(len(self._count), np.int64)
        gone[loads] = dropped
        self._times = _moved(self._times, gone)
        self._count = self._count - gone
        rows = np.flatnonzero(self._load != UNKNOWN)
        moved = rows[gone[self._load[rows]] > 0]
        by_row = gone[self._load[moved]]
        self._cpu[moved], self._memory[moved] = _moved(self._cpu[moved], by_row), _moved(self._memory[moved], by_row)
        self._last[moved] = np.maximum(self._last[moved] - by_row, 0)

    def _sweep(self) -> None:
        """Forget pods that are not named any more and whose last use is older than anybody asks."""
        rows = np.flatnonzero(self._load != UNKNOWN)
        load, last = self._load[rows], self._last[rows]
        newest = self._times[load, np.maximum(self._count[load] - 1, 0)]
        gone = self._times[load, last] <= newest - self._keep
        old = set(rows[gone].tolist())
        if not old:
            return
        self.epoch += 1
        self._load[rows[gone]] = UNKNOWN
        for uid in [uid for uid, row in self._rows.items() if row in old]:
            self._free.append(self._rows.pop(uid))

    def _grow(self) -> None:
        size = len(self._load)
        self._free.extend(range(2 * size - 1, size - 1, -1))
        self._load = np.concatenate([self._load, np.full(size, UNKNOWN)])
        for name in ("_last", "_cpu", "_memory"):
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))

    # ---- UsageBatch

    def handles(self, pod_uids: Sequence[str]) -> Ints:
        """See UsageBatch.handles: the rows."""
        return np.array([self._rows.get(uid, UNKNOWN) for uid in pod_uids], np.int64)

    def cpu_seconds_of(self, handles: Ints, a: Ints, b: Ints) -> Floats:
        """See UsageBatch.cpu_seconds_of; unknown pods have used nothing."""
        used = np.zeros(len(handles))
        known = self._known(handles)
        if not known.size:
            return used
        used[known] = self._at(handles[known], b[known]) - self._at(handles[known], a[known])
        return used

    def memory_of(self, handles: Ints, t: Ints) -> Ints:
        """See UsageBatch.memory_of."""
        size = np.zeros(len(handles), np.int64)
        known = self._known(handles)
        if not known.size:
            return size
        rows = handles[known]
        load, last = self._load[rows], self._last[rows]
        before = np.maximum(self._ordered().looks_up_to(load, t[known]) - 1, 0)
        after = np.minimum(before + 1, self._count[load] - 1)
        found = self._memory[rows, np.minimum(before, last)]
        following = self._memory[rows, np.minimum(after, last)]
        size[known] = np.rint(np.where(found > 0, found, following))
        return size

    def _known(self, handles: Ints) -> Ints:
        """Where the pods are that have been looked at."""
        rows = np.maximum(handles, 0)
        load = self._load[rows]
        if not len(self._count):
            return np.zeros(0, np.int64)
        return np.flatnonzero((handles != UNKNOWN) & (load != UNKNOWN) & (self._count[load] > 0))

    def _at(self, rows: Ints, t: Ints) -> Floats:
        """Cumulated CPU at t[i]; as at the first look before it, as at the last after it."""
        load, last = self._load[rows], self._last[rows]
        final = self._count[load] - 1
        after = np.minimum(np.maximum(self._ordered().looks_up_to(load, t), 1), final)
        before = np.maximum(after - 1, 0)
        start, end = self._times[load, before], self._times[load, after]
        part = np.clip((t - start) / np.maximum(end - start, 1), 0.0, 1.0)
        low, high = self._cpu[rows, np.minimum(before, last)], self._cpu[rows, np.minimum(after, last)]
        value: Floats = low + part * (high - low)
        return value

    def _ordered(self) -> _Order:
        if self._order is None:
            valid = np.arange(self._times.shape[1]) < self._count[:, None]
            times = self._times[valid]
            origin = int(times.min())
            span = int(times.max()) - origin + 3
            moments = (self._times - origin + np.arange(len(self._count))[:, None] * span)[valid]
            self._order = _Order(moments, np.cumsum(self._count) - self._count, origin, span)
        return self._order


def _moved(table: NDArray[_Number], by: Ints) -> NDArray[_Number]:
    """Each row of a table moved to the left by so many places; what is on the right repeats the last entry."""
    width = table.shape[1]
    return np.take_along_axis(table, np.minimum(np.arange(width) + by[:, None], width - 1), axis=1)
