"""The recent past of pods whose model only knows the present: counters noted at each look, read between the looks.

A model of demand runs forward: it has each pod's cumulated CPU time and memory now. The kubelet is asked about moments
of the last minute. `UsageHistory` stands between the two:

    history = UsageHistory(keep=server.history)
    history.assign(row, history.load("default/web"), uid)              # a pod of that load is in that row from now on
    history.note(loads, now, cpu_seconds, memory)                      # at each look at the models of some loads
    MetricsServer(usage=history, ...)

Between two looks CPU time grows in a straight line, so that the integral over whole intervals between looks is exact;
memory keeps the value of the look before. Note a look when pods come or go, and whenever their use may have changed.

The caller has the use of all pods in columns, and says which row is whose. A look keeps a copy of the columns whole
(a slot), whichever loads it is about: copying a column is quicker than picking rows. Loads know which slots hold their
looks.
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
_FIRST_SLOTS: Final = 16

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
        moved = np.minimum(np.maximum(t - self.origin, -1), self.span - 2) + load * self.span
        found: Ints = self.moments.searchsorted(moved, "right") - self.first[load]
        return found


class UsageHistory:
    """A UsageBatch made of looks at models. `keep`: how far back it can be asked, in nanoseconds."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._numbers: dict[str, int] = {}
        self._times: Ints = np.zeros((0, _FIRST_LOOKS), np.int64)
        """By load: when its latest looks were; as many of them as `_count` says."""
        self._slots: Ints = np.zeros((0, _FIRST_LOOKS), np.int64)
        """By load: where these looks are."""
        self._count: Ints = np.zeros(0, np.int64)
        self._rows: dict[str, int] = {}
        self._load: Ints = np.full(_FIRST_ROWS, UNKNOWN)
        self._cpu: Floats = np.zeros((_FIRST_SLOTS, _FIRST_ROWS))
        """By slot and row."""
        self._memory: Floats = np.zeros((_FIRST_SLOTS, _FIRST_ROWS))
        self._uses: Ints = np.zeros(_FIRST_SLOTS, np.int64)
        """By slot: how many looks of loads are there."""
        self._free = list(range(_FIRST_SLOTS - 1, -1, -1))
        """Slots that may be free; some others are, too."""
        self._newest = UNKNOWN
        """The slot of the latest look."""
        self._now = 0
        self._order: _Order | None = None
        self.epoch = 0
        """See UsageBatch."""

    # ---- whose rows are whose

    def load(self, name: str) -> int:
        """The number of a load."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            one = np.zeros((1, self._times.shape[1]), np.int64)
            self._times, self._slots = np.concatenate([self._times, one]), np.concatenate([self._slots, one])
            self._count = np.append(self._count, 0)
        return number

    def assign(self, row: int, load: int, uid: str) -> None:
        """The row belongs to a pod of this load from now on. A pod takes along what it used in another row."""
        if row >= len(self._load):
            self._widen(row + 1)
        before = self._rows.get(uid)
        if before is None:
            self._cpu[:, row] = self._memory[:, row] = 0
        elif before != row:
            self._cpu[:, row], self._memory[:, row] = self._cpu[:, before], self._memory[:, before]
            self._load[before] = UNKNOWN
            self.epoch += 1
        self._rows[uid] = row
        self._load[row] = load

    def release(self, uid: str) -> None:
        """Nobody asks about the pod any more."""
        row = self._rows.pop(uid, None)
        if row is not None:
            self._load[row] = UNKNOWN

    def _widen(self, rows: int) -> None:
        more = max(rows, 2 * len(self._load)) - len(self._load)
        self._load = np.concatenate([self._load, np.full(more, UNKNOWN)])
        self._cpu = np.pad(self._cpu, ((0, 0), (0, more)))
        self._memory = np.pad(self._memory, ((0, 0), (0, more)))

    # ---- looks

    def note(self, loads: Ints, now: int, cpu_seconds: Floats, memory: Floats) -> None:
        """Note the core seconds since their start and the bytes of all pods of some loads. `now` must not go back.

        Both columns go by row; in the rows of other loads they hold what these had at their last look.
        """
        if now < self._now:
            raise ValueError(f"cannot go back from {self._now} to {now}")
        slot = self._slot(now)
        size = len(cpu_seconds)
        if size > len(self._load):
            self._widen(size)
        self._cpu[slot, :size], self._memory[slot, :size] = cpu_seconds, memory
        self._look(loads, now, slot)
        self._order = None

    def _look(self, loads: Ints, now: int, slot: int) -> None:
        """A new look at each load, or the one before moved to now if it came too soon after its own predecessor."""
        count = self._count[loads]
        last = self._times[loads, count - 1]
        again = (count > 0) & ((last == now) | ((count > 1) & (last - self._times[loads, count - 2] < _GAP)))
        moved = loads[again]
        if moved.size:
            self._leave(self._slots[moved, count[again] - 1])
        full = loads[~again & (count == self._times.shape[1])]
        if full.size:
            self._make_room(full, now - self._keep)
        self._count[loads] += ~again
        look = self._count[loads] - 1
        self._times[loads, look], self._slots[loads, look] = now, slot
        self._uses[slot] += len(loads)

    def _leave(self, slots: Ints) -> None:
        """So many looks are no longer in these slots."""
        self._uses -= np.bincount(slots, minlength=len(self._uses))

    def _slot(self, now: int) -> int:
        """Where a look of now goes: one slot for all looks of a moment."""
        if self._newest != UNKNOWN and now == self._now:
            return self._newest
        self._now = now
        if not self._free:
            self._free = self._unused()
        if not self._free:
            self._forget(now - self._keep)
            self._free = self._unused()
        if not self._free:
            self._add_slots()
        self._newest = self._free.pop()
        return self._newest

    def _unused(self) -> list[int]:
        free = np.flatnonzero(self._uses == 0)
        found: list[int] = free[free != self._newest][::-1].tolist()
        return found

    def _add_slots(self) -> None:
        size = len(self._uses)
        self._free = list(range(2 * size - 1, size - 1, -1))
        self._uses = np.concatenate([self._uses, np.zeros(size, np.int64)])
        self._cpu = np.concatenate([self._cpu, np.zeros_like(self._cpu)])
        self._memory = np.concatenate([self._memory, np.zeros_like(self._memory)])

    def _forget(self, oldest: int) -> None:
        """Drop what nobody asks for any more; loads without a newer look have what they had in the newest slot, too."""
        every = np.arange(len(self._count))
        self._drop(every, self._older(every, oldest))
        idle = every[(self._count == 1) & (self._times[:, 0] <= oldest)]
        self._leave(self._slots[idle, 0])
        self._slots[idle, 0] = self._newest
        self._uses[self._newest] += len(idle)

    def _make_room(self, loads: Ints, oldest: int) -> None:
        """Drop the looks older than `oldest`, but for the last of them; double the room if that is not much."""
        dropped, width = self._older(loads, oldest), self._times.shape[1]
        if int((self._count[loads] - dropped).max()) > width // 2:
            self._times, self._slots = (np.pad(each, ((0, 0), (0, width))) for each in (self._times, self._slots))
        self._drop(loads, dropped)

    def _older(self, loads: Ints, oldest: int) -> Ints:
        """How many looks of each load there are before the last one that is older than that."""
        is_look = np.arange(self._times.shape[1]) < self._count[loads][:, None]
        older: Ints = (is_look & (self._times[loads] <= oldest)).sum(axis=1) - 1
        return np.maximum(older, 0)

    def _drop(self, loads: Ints, dropped: Ints) -> None:
        """Forget the first looks of loads."""
        gone = np.zeros(len(self._count), np.int64)
        gone[loads] = dropped
        self._leave(self._slots[np.arange(self._times.shape[1]) < gone[:, None]])
        self._times, self._slots = _moved(self._times, gone), _moved(self._slots, gone)
        self._count = self._count - gone

    # ---- UsageBatch

    def handles(self, pod_uids: Sequence[str]) -> Ints:
        """See UsageBatch.handles: the rows."""
        return np.array([self._rows.get(uid, UNKNOWN) for uid in pod_uids], np.int64)

    def use_of(self, handles: Ints, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        """See UsageBatch.use_of; unknown pods have used nothing."""
        known = self._known(handles)
        if 0 < known.size == len(handles):
            return self._use(handles, a, b)
        used, size = np.zeros(len(handles)), np.zeros(len(handles), np.int64)
        if known.size:
            used[known], size[known] = self._use(handles[known], a[known], b[known])
        return used, size

    def _known(self, handles: Ints) -> Ints:
        """Where the pods are that have been looked at."""
        if not len(self._count):
            return np.zeros(0, np.int64)
        load = self._load[handles]
        return np.flatnonzero((handles != UNKNOWN) & (load != UNKNOWN) & (self._count[load] > 0))

    def _use(self, rows: Ints, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        load = self._load[rows]
        up_to = self._ordered().looks_up_to(load, b)
        used = self._at(rows, load, b, up_to) - self._at(rows, load, a, self._ordered().looks_up_to(load, a))
        before = np.maximum(up_to - 1, 0)
        found = self._memory[self._slots[load, before], rows]
        nothing = found <= 0
        if nothing.any():
            # A pod that was not there at that look has the memory of the look after.
            after = np.minimum(before + 1, self._count[load] - 1)
            found = np.where(nothing, self._memory[self._slots[load, after], rows], found)
        return used, np.rint(found).astype(np.int64)

    def _at(self, rows: Ints, load: Ints, t: Ints, up_to: Ints) -> Floats:
        """Cumulated CPU at t[i]; as at the first look before it, as at the last after it."""
        after = np.minimum(np.maximum(up_to, 1), self._count[load] - 1)
        before = np.maximum(after - 1, 0)
        start, end = self._times[load, before], self._times[load, after]
        part = np.minimum(np.maximum((t - start) / np.maximum(end - start, 1), 0.0), 1.0)
        low, high = self._cpu[self._slots[load, before], rows], self._cpu[self._slots[load, after], rows]
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
