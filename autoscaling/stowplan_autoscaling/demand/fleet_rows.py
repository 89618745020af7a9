"""Where the state of all services lies: one row per pod, one entry per service.

Each service has a stretch of rows, at least as long as it has pods. Rows beyond the last pod are like a pod whose
container has not started: they use nothing and count nowhere. All stretches follow each other in the order of services.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .ceilings import Bound, Ceiling, bound
from .ledger import Ledger
from .pods import NO_PODS, Booleans, Costs, PodColumns, Times
from .series import Floats, Series
from .series.lines import Lines

if TYPE_CHECKING:
    from .service import ServiceModel

Ints = NDArray[np.int64]

_LEAST_ROWS: Final = 4
_FLAGS: Final = {
    "calm": True, "_fresh": False, "_alike": True, "_ample": True, "_flown": False, "_owed": False,
    "_still": False, "_keeps": False,
}  # fmt: skip
"""Columns of truth values, one entry per service, and what they hold for a new one."""
_COUNTERS: Final = (
    "now",
    "settled",
    "arrived",
    "served",
    "dropped",
    "through",
    "easy",
    "ceiling",
    "quiet_from",
    "wanted_by",
    "_following",
    "_portion",
    "_wants",
    "_least",
    "_basis",
)
_COSTS: Final = (
    "idle_cpu", "base_memory", "memory_growth", "startup_cpu", "startup_memory", "warmup", "warmup_factor",
    "cost", "wait", "request_memory", "threads", "waiting", "timeout",
)  # fmt: skip
UNUSED: Final = {
    "started": np.nan, "startup_ends": np.nan, "ready_since": np.nan, "speed": 1.0, "share": 0.0, "cores": 0.0,
    "backlog": 0.0, "done": 0.0, "work": 0.0, "free": 0.0, "alone": 0.0, "by_cpu": 0.0,
    "by_threads": 0.0, "unbounded": 0.0, "rate": 0.0, "limit": 0.0, "wanted": 0.0, "idle": 0.0, "held": 0.0,
    "place": 0,
}  # fmt: skip
"""The columns of what changes, and what they hold where there is no pod."""


_FIRST_KIND: Final = 1
"""The kind NOBODY comes before those of the services."""
NOT_RUNNING: Final = 0
IDLE: Final = 1
WORKING: Final = 2
STATES: Final = 3
"""What a pod can be: without a running container, running without getting work, getting work."""


class EachCosts(NamedTuple):
    """What the pods of each service cost, one entry per service."""

    idle_cpu: Floats
    cost: Floats
    wait: Floats
    threads: Floats
    most: Floats
    """Requests per second of one pod for which its threads are enough when it has all the cores that it wants."""


class Part:
    """Some services, in ascending order, and their rows, as these are laid out now."""

    def __init__(self, numbers: Ints, first: Ints, size: Ints) -> None:
        """`first` and `size`: of the stretch of rows that each of them has."""
        self.numbers = numbers
        self._first = first
        self._size = size

    @cached_property
    def rows(self) -> slice | Ints:
        """Their rows. Finding them costs more than most of what is asked of services."""
        if len(self.numbers) == 1:
            begin = int(self._first[0])
            return slice(begin, begin + int(self._size[0]))
        of = self.of
        return np.arange(len(of)) + (self._first - self.starts)[of]

    @cached_property
    def starts(self) -> Ints:
        """Where the rows of each begin among all of these."""
        starts: Ints = self._size.cumsum() - self._size
        return starts

    @cached_property
    def of(self) -> Ints:
        """By row: which of `numbers` it belongs to."""
        return np.repeat(np.arange(len(self.numbers)), self._size)


class Everything(Part):
    """All services."""

    @cached_property
    def rows(self) -> slice | Ints:
        """All rows."""
        return slice(0, int(self._size.sum()))


class FleetRows:
    """The state of all services, and where in its columns each of them stands."""

    # By service.
    now: Floats
    settled: Floats
    arrived: Floats
    served: Floats
    dropped: Floats
    """Requests since the start: timed out, lost with their pod, or without a pod to go to."""
    through: Floats
    """Requests since the last settling that went through evenly."""
    easy: Floats
    """The load up to which no pod gets more than it can serve."""
    ceiling: Floats
    """Requests per second that the ceilings leave."""
    quiet_from: Floats
    """When the last of its containers has done its start-up work."""
    wanted_by: Floats
    """Cores that all its pods together want, as `want` found them."""
    _following: Floats
    """When the load changes next by itself, as far as it was asked for."""
    _portion: Floats
    """Of its load: what each pod has to do that gets work."""
    _wants: Floats
    """Cores that each pod wants at least which gets work."""
    _least: Floats
    """Cores that each pod which gets work may use at least, where the exact number is not known."""
    _basis: Floats
    """The cores per pod for which `easy` was found out; infinite if that is worth nothing for others."""

    # By row: costs, what pods are like, and what they can do.
    idle_cpu: Floats
    base_memory: Floats
    memory_growth: Floats
    startup_cpu: Floats
    startup_memory: Floats
    warmup: Floats
    warmup_factor: Floats
    cost: Floats
    wait: Floats
    request_memory: Floats
    threads: Floats
    waiting: Floats
    timeout: Floats
    started: Floats
    startup_ends: Floats
    ready_since: Floats
    speed: Floats
    share: Floats
    """Of the load of its service."""
    cores: Floats
    backlog: Floats
    done: Floats
    """Requests served since the last settling, beyond `through`."""
    work: Floats
    free: Floats
    alone: Floats
    by_cpu: Floats
    by_threads: Floats
    unbounded: Floats
    rate: Floats
    limit: Floats
    wanted: Floats
    """Cores, as `want` found them."""
    idle: Floats
    held: Floats
    """Cores and bytes of a running container that does nothing, once its start-up work is done; leaks apart."""
    place: Ints
    """Where the pod is in the ledger; 0 beyond the last pod."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.models: list[ServiceModel] = []
        self.loads: list[Series] = []
        self.ceilings: list[tuple[Ceiling, ...]] = []
        self.bounds: list[Bound] = []
        self.pods: list[PodColumns] = []
        self.first: Ints = np.zeros(0, np.int64)
        """By service: its first row."""
        self.count: Ints = np.zeros(0, np.int64)
        """By service: how many pods there are."""
        self.takers: Ints = np.zeros(0, np.int64)
        """By service: how many of them get work."""
        self.calm: Booleans = np.zeros(0, np.bool_)
        """By service: whether nothing waits."""
        self._fresh: Booleans = np.zeros(0, np.bool_)
        """By service: whether what its pods can do is known."""
        self._alike: Booleans = np.zeros(0, np.bool_)
        """By service: whether pods in the same state do the same, as long as nothing waits and all are well supplied.
        They do unless their nodes differ in speed, ceilings cut what they do, or they warm up."""
        self._ample: Booleans = np.zeros(0, np.bool_)
        """By service: whether all pods have had at least the cores that they use idle."""
        self._flown: Booleans = np.zeros(0, np.bool_)
        """By service: whether `done` holds anything."""
        self._still: Booleans = np.zeros(0, np.bool_)
        """By service: whether its pods hold the memory that they held when `moved_memory` named it last."""
        self._keeps: Booleans = np.zeros(0, np.bool_)
        """By service: whether its pods hold the same memory whatever they do, once they have started."""
        self._owed: Booleans = np.zeros(0, np.bool_)
        """By service: whether `cores` are still to be had from `source`."""
        self.source: Callable[[Ints], Floats] | None = None
        """Says how many cores the pods at such places (`place`) may use: see `Fleet.leave`."""
        self._each: EachCosts | None = None
        self._size: Ints = np.zeros(0, np.int64)
        self._lines = Lines()
        for name in (*_COUNTERS, *_COSTS):
            setattr(self, name, np.zeros(0))
        for name, empty in UNUSED.items():
            setattr(self, name, np.full(0, empty))
        self._all: Part | None = None
        # What no service asks for needs no operation on the columns.
        self._warms_up = False
        self._holds_memory = False
        self._grows = False
        self._has_ceilings = False
        self._waits_for_ever = False

    def __len__(self) -> int:
        return len(self.models)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.started)

    def add(self, model: ServiceModel, load: Series, ceilings: Sequence[Ceiling], start: float) -> int:
        """One more service, without pods; returns its number."""
        self.models.append(model)
        self.loads.append(load)
        self.ceilings.append(tuple(ceilings))
        self.bounds.append(bound(self.ceilings[-1], 0))
        self.pods.append(NO_PODS)
        self._lines.add(load)
        for name in _COUNTERS:
            setattr(self, name, np.append(getattr(self, name), start if name in {"now", "settled"} else 0.0))
        for name, value in _FLAGS.items():
            setattr(self, name, np.append(getattr(self, name), value))
        self._warms_up |= model.warmup_factor != 1 and model.warmup > 0
        self._holds_memory |= model.memory_per_request > 0
        self._grows |= model.memory_growth > 0
        self._has_ceilings |= bool(self.ceilings[-1])
        self._waits_for_ever |= not np.isfinite(model.timeout)
        number = len(self) - 1
        self._keeps[number] = not (model.memory_per_request or model.memory_growth)
        self.takers, self.count = np.append(self.takers, 0), np.append(self.count, 0)
        self.first = np.append(self.first, self.rows)
        self._size = np.append(self._size, _LEAST_ROWS)
        for name, first in [*UNUSED.items(), *zip(_COSTS, _costs_of(model), strict=True)]:
            setattr(self, name, np.append(getattr(self, name), np.full(_LEAST_ROWS, first)))
        self._all = self._each = None
        return number

    # ---- rows ------------------------------------------------------------------------------------------------------

    def all(self) -> Part:
        """All services."""
        if self._all is None:
            self._all = Everything(np.arange(len(self)), self.first, self._size)
        return self._all

    def part(self, numbers: Sequence[int] | Ints) -> Part:
        """Some services, by ascending numbers."""
        if len(numbers) == len(self):
            return self.all()
        chosen = np.asarray(numbers, dtype=np.int64)
        return Part(chosen, self.first[chosen], self._size[chosen])

    def kind(self, number: int, state: Ints) -> Ints:
        """What pods of a service in these states are called in the ledger."""
        return _FIRST_KIND + STATES * number + state

    def owner(self, places: Ints) -> Ints:
        """The service that the pods at these places belong to; -1 for nobody's."""
        found: Ints = (self.ledger.kind[places] - _FIRST_KIND) // STATES
        return found

    def by_kind(self) -> tuple[Floats, Floats]:
        """A column of zeros, one for each kind, and a view of it by service and state."""
        column = np.zeros(_FIRST_KIND + STATES * len(self))
        return column, column[_FIRST_KIND:].reshape(len(self), STATES)

    def own(self, number: int) -> slice:
        """The rows of the pods of one service."""
        first = int(self.first[number])
        return slice(first, first + len(self.pods[number]))

    def _widen(self, number: int, size: int) -> None:
        """Give a service so many rows, more than it has: those of the services after it move."""
        begin, end = int(self.first[number]), int(self.first[number] + self._size[number])
        more = size - (end - begin)
        columns = [*UNUSED.items(), *((name, getattr(self, name)[begin]) for name in _COSTS)]
        for name, empty in columns:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column[:end], np.full(more, empty), column[end:]]))
        # Parts that were made before keep what they were made of.
        self.first, self._size = self.first.copy(), self._size.copy()
        self.first[number + 1 :] += more
        self._size[number] = size
        self._all = None

    @property
    def each(self) -> EachCosts:
        """What the pods of each service cost."""
        if self._each is None:
            first = self.first
            cost, wait, threads = self.cost[first], self.wait[first], self.threads[first]
            self._each = EachCosts(self.idle_cpu[first], cost, wait, threads, thread_rate(threads, cost + wait))
        return self._each

    def _moment(self, part: Part) -> float | Floats:
        """Up to when the services have come: one time if it is the same for all, else by row."""
        now = self.now[part.numbers]
        first = float(now[0]) if now.size else 0.0
        return first if (now == first).all() else now[part.of]

    def _costs(self, rows: slice | Ints) -> Costs:
        return Costs(
            self.idle_cpu[rows],
            self.base_memory[rows],
            self.memory_growth[rows],
            self.startup_cpu[rows],
            self.startup_memory[rows],
            self.warmup[rows],
            self.warmup_factor[rows],
        )

    def _times(self, rows: slice | Ints) -> Times:
        return Times(self.started[rows], self.startup_ends[rows], self.ready_since[rows])


def thread_rate(threads: Floats, each: Floats) -> Floats:
    """Requests per second that so many threads allow with `each` seconds per request; infinite without a bound."""
    result = np.full_like(each, np.inf)
    np.divide(threads, each, out=result, where=(each > 0) & np.isfinite(threads))
    return result


def _costs_of(model: ServiceModel) -> tuple[float, ...]:
    """In the order of _COSTS; what has no bound is infinite."""
    return (
        model.idle_cpu,
        model.memory,
        model.memory_growth,
        model.startup.cpu,
        model.startup.memory,
        model.warmup,
        model.warmup_factor,
        model.cpu_per_request,
        model.wait_per_request,
        model.memory_per_request,
        np.inf if model.threads is None else float(model.threads),
        np.inf if model.waiting is None else float(model.waiting),
        model.timeout,
    )
