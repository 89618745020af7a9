"""The pods of one workload and the demand on them: one model per entry of spec.demand that has the workload as target.

Entries add up: each pod has the idle use and the memory of every entry, and what the node leaves it goes to the entries
by what they want.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import numpy as np

from stowplan_autoscaling.demand import PodColumns, Service, ServiceSample, WorkQueue
from stowplan_autoscaling.demand.worker import QueueSample

from .roster import Floats, Ints, Roster

if TYPE_CHECKING:
    from stowplan_autoscaling.resources.demand import Demand

Model = Service | WorkQueue
Sample = ServiceSample | QueueSample

_EMPTY: Final = np.zeros(0, np.int64)


class Member:
    """One running pod. `started` and `ready_since` in seconds since the start, NaN for not yet."""

    __slots__ = ("is_ready", "key", "ready_since", "row", "started", "startup", "uid", "works")

    def __init__(self, key: str, uid: str, row: int, started: float) -> None:
        self.key = key
        self.uid = uid
        self.row = row
        self.started = started
        self.startup = math.nan
        """Seconds of its start-up work at full speed; NaN: what the models say."""
        self.is_ready = False
        self.ready_since = math.nan
        self.works = True
        """Whether its node does."""


class Entry:
    """One entry of spec.demand at work."""

    __slots__ = ("counts_by_pod", "demand", "model", "served_by")

    def __init__(self, demand: Demand, model: Model) -> None:
        self.demand = demand
        self.model = model
        self.counts_by_pod = False
        """Whether somebody wants `served_by`."""
        self.served_by: Floats = np.zeros(0)
        """Requests that each pod has served, in the order of the columns."""


class Group:
    """A workload with its entries. `name` is the workload's."""

    def __init__(self, name: str, entries: list[Entry], roster: Roster) -> None:
        self.name = name
        self.entries = entries
        self.members: dict[str, Member] = {}
        self.is_dirty = True
        self.lost: list[str] = []
        """Pods that were killed since the last look."""
        self.columns = PodColumns(())
        self.uids: list[str] = []
        self.rows: Ints = _EMPTY
        self.demands: list[Floats] = [np.zeros(0) for _ in entries]
        self._roster = roster
        self._next = 0.0
        self._served = [0.0 for _ in entries]
        self._takes_dead = all(isinstance(entry.model, Service) for entry in entries)
        only = entries[0].model if len(entries) == 1 else None
        self.service = only if isinstance(only, Service) else None
        """The one model, if it is a service: its steps are done with those of all others (`Fleet`)."""
        self.startup_cpu = sum(entry.model.model.startup.cpu for entry in entries)

    # ---- one look, in this order -------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Settle what happened up to `now`, and who served it."""
        for entry in self.entries:
            entry.model.advance(now)
        self.count()

    def count(self) -> None:
        """Who served what was served since this was called last."""
        for index, entry in enumerate(self.entries):
            if not entry.counts_by_pod:
                continue
            done = entry.model.served - self._served[index]
            self._served[index] = entry.model.served
            takers = np.flatnonzero(self.columns.ready)[: entry.model.bound.useful]
            if done and takers.size:
                entry.served_by[takers] += done / takers.size

    def set_pods(self) -> None:
        """Take in which pods there are, and in which state."""
        members = list(self.members.values())
        rows = np.fromiter((each.row for each in members), np.int64, len(members))
        columns = PodColumns(
            tuple(self.members),
            ready=np.fromiter((self._gets_work(each) for each in members), np.bool_, len(members)),
            started=np.fromiter((each.started for each in members), np.float64, len(members)),
            ready_since=np.fromiter((each.ready_since for each in members), np.float64, len(members)),
            startup=np.fromiter((each.startup for each in members), np.float64, len(members)),
            place=rows,
        )
        lost: Collection[str] = set(self.lost)
        for entry in self.entries:
            if entry.counts_by_pod:
                entry.served_by = columns.carried(self.columns, entry.served_by).copy()
            entry.model.set_pods(columns, lost=lost)
        self.columns = columns
        self.uids = [each.uid for each in members]
        self.rows = rows
        self.lost = []
        self.is_dirty = False

    def _gets_work(self, member: Member) -> bool:
        """Requests go to pods of silent nodes as long as these count as ready; workers there fetch nothing."""
        return member.is_ready and (member.works or self._takes_dead)

    def want(self) -> None:
        """Put the cores that the pods want into the roster."""
        demand = np.zeros(len(self.rows))
        for index, entry in enumerate(self.entries):
            wanted = self.demands[index] = entry.model.cpu_demand()
            demand = demand + wanted
        self._roster.demand[self.rows] = demand

    def grant(self) -> None:
        """Hand on what the nodes leave to the pods."""
        available = self._roster.division.available[self.rows]
        if len(self.entries) == 1:
            self.entries[0].model.grant(available)
            return
        together = np.sum(self.demands, axis=0)
        part = np.ones(len(available))
        np.divide(available, together, out=part, where=together > 0)
        for entry, wanted in zip(self.entries, self.demands, strict=True):
            entry.model.grant(np.where(together <= available, wanted + available - together, wanted * part))

    def look_at(self) -> None:
        """Put the memory in use into the roster."""
        self._next = 0.0
        memory = np.zeros(len(self.rows))
        for entry in self.entries:
            memory = memory + entry.model.sample().memory
        self._roster.memory[self.rows] = memory

    # ---- asking ------------------------------------------------------------------------------

    @property
    def wanted(self) -> float:
        """Cores that all pods together want."""
        if self.service is not None:
            return self.service.wanted
        return float(sum(part.sum() for part in self.demands))

    @property
    def cpu_seconds(self) -> Floats:
        """Core seconds that each pod has used."""
        total = np.zeros(len(self.rows))
        for entry in self.entries:
            total = total + entry.model.cpu_seconds
        return total

    def next_change(self, now: float) -> float:
        """When the demand changes next by itself, after `now`; as of the last look."""
        if self._next > now:
            return self._next
        found = math.inf
        for entry in self.entries:
            found = min(found, entry.model.load.next_change(now))
            if isinstance(entry.model, WorkQueue) and entry.model.length > 0:
                found = min(found, entry.model.empty_at())
        self._next = found
        return found
