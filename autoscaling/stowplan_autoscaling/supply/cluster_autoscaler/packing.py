"""Packing pods whose fit is arithmetic: how many of one shape go on a node, instead of one question per pod.

Pods whose only rule about other pods is "is there room?" are placed by numbers: what a node has left, divided by what a
pod asks for. Everything else (spreading, affinity, host ports, volumes) goes the long way through the snapshot. The
order in which nodes are tried, and so the outcome, is that of the long way; a test holds the two equal.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.framework.diagnosis import SchedulingError
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.plugins.node_resources.fit import FitState, NodeResourcesFit

from .estimation_limits import EstimationLimiter
from .snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod of one shape takes: amounts > 0 by resource, to be compared with what is left, and what it adds."""

    amounts: tuple[tuple[str, int], ...]
    pod: PodInfo


def arithmetic_demand(snapshot: ClusterSnapshot, pod: PodInfo) -> Demand | None:
    """The demand of a pod for which room is all that counts on equal nodes; None if another rule has a say.

    Rules that read the node object alone need no look here: they say the same about all nodes of one template.
    """
    shape = pod.shape
    if shape.has_required_anti_affinity or shape.pod.spec.volumes:
        return None
    try:
        search, outcome = snapshot.search(pod)
    except SchedulingError:
        return None
    if not outcome.status.is_success or outcome.node_names is not None or search.filters:
        return None
    rules = search.plan.bundle.filters
    if len(rules) != 1 or not isinstance(rules[0][1], NodeResourcesFit):
        return None
    fit = rules[0][2]
    if not isinstance(fit, FitState) or fit.served is not None:
        return None
    return Demand(tuple(zip(fit.names, (int(n) for n in fit.amounts[:, 0]), strict=True)), pod)


class _Bin:
    """A new node: what is left of each resource, and places for pods."""

    __slots__ = ("left", "name", "places", "used")

    def __init__(self, name: str, model: NodeInfo) -> None:
        self.name = name
        self.places = model.allocatable.allowed_pod_number - len(model.pods)
        self.left: dict[str, int] = {}
        self.used = False
        allocatable, requested = model.allocatable, model.requested
        for resource in ("cpu", "memory", "ephemeral-storage", *allocatable.scalar, *requested.scalar):
            self.left[resource] = allocatable.get(resource) - requested.get(resource)

    def room(self, demand: Demand) -> int:
        """How many pods of the demand still fit."""
        left = self.left
        room = max(0, self.places)
        for resource, amount in demand.amounts:
            room = min(room, max(0, left.get(resource, 0) // amount))
        return room

    def take(self, demand: Demand, count: int) -> None:
        """Let so many pods of the demand in."""
        requested, left = demand.pod.shape.node_requested, self.left
        self.places -= count
        self.used = True
        for resource in left:
            amount = requested.get(resource)
            if amount:
                left[resource] -= amount * count


class Packer:
    """Bins of one template, filled group by group as the estimator fills nodes."""

    def __init__(self, snapshot: ClusterSnapshot, model: NodeInfo, limiter: EstimationLimiter) -> None:
        """`model`: the template. New nodes are named like the template, `-e-` and a number."""
        self._snapshot = snapshot
        self._model = model
        self._limiter = limiter
        self._prefix = f"{model.name}-e-"
        self._bins: list[_Bin] = []
        self._order: list[tuple[str, int]] = []
        self._may_grow = True
        names = [info.name for info in snapshot.infos()]
        self._base = bisect_left(names, self._prefix)
        self._others = len(names)
        self.scheduled: list[PodInfo] = []

    @property
    def node_count(self) -> int:
        """New nodes with at least one pod."""
        return sum(each.used for each in self._bins)

    def pack(self, pods: Sequence[PodInfo], demand: Demand) -> None:
        """Place equivalent pods, first on nodes that are there, then on new ones."""
        placed = self._on_existing(len(pods), demand)
        if self._may_grow and placed < len(pods):
            placed += self._on_new(len(pods) - placed, demand)
        self.scheduled.extend(pods[:placed])

    def _on_existing(self, count: int, demand: Demand) -> int:
        """One pod to each node in turn, beginning behind the last match, until nothing fits any more."""
        order = [number for _, number in self._order]
        room = {number: self._bins[number].room(demand) for number in order}
        if not order or not any(room.values()):
            return 0
        total = self._others + len(order)
        start = (self._snapshot.last_match + 1) % total - self._base
        if not 0 <= start < len(order):
            start = 0
        turn = [(position, number) for position, number in enumerate(order) if room[number]]
        turn = [each for each in turn if each[0] >= start] + [each for each in turn if each[0] < start]
        taken = dict.fromkeys(order, 0)
        placed = 0
        last = self._snapshot.last_match
        while turn and placed < count:
            for position, number in turn:
                taken[number] += 1
                placed += 1
                last = self._base + position
                if placed == count:
                    break
            turn = [each for each in turn if taken[each[1]] < room[each[1]]]
        for number, many in taken.items():
            if many:
                self._bins[number].take(demand, many)
        self._snapshot.last_match = last
        return placed

    def _on_new(self, count: int, demand: Demand) -> int:
        """Fill the last node, then one new node after the other."""
        placed = 0
        if self._bins:
            placed += self._fill(self._bins[-1], count, demand)
        while placed < count:
            if self._bins and not self._bins[-1].used:
                return placed
            if not self._limiter.permission():
                self._may_grow = False
                return placed
            filled = self._fill(self._add(), count - placed, demand)
            if not filled:
                return placed
            placed += filled
        return placed

    def _fill(self, target: _Bin, count: int, demand: Demand) -> int:
        many = min(count, target.room(demand))
        if many:
            target.take(demand, many)
        return many

    def _add(self) -> _Bin:
        number = len(self._bins)
        added = _Bin(f"{self._prefix}{number}", self._model)
        self._bins.append(added)
        insort(self._order, (added.name, number))
        return added
