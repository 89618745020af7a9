"""Where the state of all services lies: one row per pod, one entry per service.

Each service has a stretch of rows, at least as long as it has pods. Rows beyond the last pod are like a pod whose
container has not started: they use nothing and count nowhere. All stretches follow each other in the order of services.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .ceilings import Bound, Ceiling, bound
from .pods import NO_PODS, Booleans, Costs, PodColumns, Times
from .series import Floats, Series
from .series.lines import Lines

if TYPE_CHECKING:
    from .service import ServiceModel

Ints = NDArray[np.int64]

_LEAST_ROWS: Final = 4
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
    "_following",
)
_COSTS: Final = (
    "idle_cpu", "base_memory", "memory_growth", "startup_cpu", "startup_memory", "warmup", "warmup_factor",
    "cost", "wait", "request_memory", "threads", "waiting", "timeout",
)  # fmt: skip
UNUSED: Final = {
    "started": np.nan, "startup_ends": np.nan, "ready_since": np.nan, "speed": 1.0, "share": 0.0, "cores": 0.0,
    "backlog": 0.0, "done": 0.0, "used": 0.0, "work": 0.0, "free": 0.0, "alone": 0.0, "by_cpu": 0.0,
    "by_threads": 0.0, "unbounded": 0.0, "rate": 0.0, "limit": 0.0, "wanted": 0.0, "idle": 0.0, "held": 0.0,
    "place": 0,
}  # fmt: skip
"""The columns of what changes, and what they hold where there is no pod."""


class Part(NamedTuple):
    """Some services, in ascending order, and their rows."""

    numbers: Ints
    rows: slice | Ints
    starts: Ints
    """Where the rows of each begin among all of these."""
    of: Ints
    """By row: which of `numbers` it belongs to."""


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
    _following: Floats
    """When the load changes next by itself, as far as it was asked for."""

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
    used: Floats
    """Core seconds."""
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
    """Where the caller keeps the pod (`PodColumns.place`); 0 beyond the last pod."""

    def __init__(self) -> None:
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
        self._size: Ints = np.zeros(0, np.int64)
        self._lines = Lines()
        self._service: Ints = np.zeros(0, np.int64)
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
        self._has_threads_without_end = False

    def __len__(self) -> int:
        return len(self.models)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._service)

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
        self.calm, self._fresh = np.append(self.calm, True), np.append(self._fresh, False)
        self._warms_up |= model.warmup_factor != 1 and model.warmup > 0
        self._holds_memory |= model.memory_per_request > 0
        self._grows |= model.memory_growth > 0
        self._has_ceilings |= bool(self.ceilings[-1])
        self._waits_for_ever |= not np.isfinite(model.timeout)
        self._has_threads_without_end |= model.threads is None
        number = len(self) - 1
        self.takers, self.count = np.append(self.takers, 0), np.append(self.count, 0)
        self.first = np.append(self.first, self.rows)
        self._size = np.append(self._size, _LEAST_ROWS)
        self._service = np.append(self._service, np.full(_LEAST_ROWS, number))
        for name, first in [*UNUSED.items(), *zip(_COSTS, _costs_of(model), strict=True)]:
            setattr(self, name, np.append(getattr(self, name), np.full(_LEAST_ROWS, first)))
        self._all = None
        return number

    # ---- rows ------------------------------------------------------------------------------------------------------

    def all(self) -> Part:
        """All services."""
        if self._all is None:
            self._all = Part(np.arange(len(self)), slice(0, self.rows), self.first, self._service)
        return self._all

    def part(self, numbers: Sequence[int] | Ints) -> Part:
        """Some services, by ascending numbers."""
        if len(numbers) == len(self):
            return self.all()
        chosen = np.asarray(numbers, dtype=np.int64)
        first, size = self.first[chosen], self._size[chosen]
        if len(chosen) == 1:
            begin = int(first[0])
            return Part(chosen, slice(begin, begin + int(size[0])), np.zeros(1, np.int64), np.zeros(size[0], np.int64))
        starts = np.cumsum(size) - size
        of = np.repeat(np.arange(len(chosen)), size)
        return Part(chosen, np.arange(len(of)) + (first - starts)[of], starts, of)

    def own(self, number: int) -> slice:
        """The rows of the pods of one service."""
        first = int(self.first[number])
        return slice(first, first + len(self.pods[number]))

    def _lay_out(self, size: Ints) -> None:
        """Give every service so many rows."""
        first = np.cumsum(size) - size
        count, of = self.count, np.repeat(np.arange(len(self)), self.count)
        position = np.arange(len(of)) - (np.cumsum(count) - count)[of]
        before, after = self.first[of] + position, first[of] + position
        service = np.repeat(np.arange(len(self)), size)
        for name, empty in UNUSED.items():
            column = np.full(len(service), empty)
            column[after] = getattr(self, name)[before]
            setattr(self, name, column)
        for name in _COSTS:
            setattr(self, name, getattr(self, name)[self.first][service])
        self.first, self._size, self._service = first, size, service
        self._all = None

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
