"""A queue and the workers that empty it: length, age of the oldest message, time to drain.

    queue.advance(now); queue.set_pods(columns); wanted = queue.cpu_demand(); queue.grant(available); queue.sample()

The same calls as a service (`service.py`), but there is one queue for all: workers fetch, so a faster one does more,
and nothing is lost. The length is exact between calls, and so is the age: first in, first out, so the oldest message
is the one that arrived when the total of arrivals was what has been done by now.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .ceilings import Bound, Ceiling, bound, level
from .checks import at_least, count
from .fluid import CATCH_UP, flow
from .latency import service_time
from .loaded import LoadedPods
from .pods import (
    PodColumns,
    PodModel,
    costs_of,
    fixed_cpu,
    fixed_cpu_seconds,
    fixed_memory,
    times_of,
    warm_factor,
)
from .series import Floats, Series
from .service import BY_CPU, BY_NO_POD, BY_THREADS

_NO_LIMIT: Final = np.asarray([np.inf])
_TRACE: Final = 1e-9
"""Share of all messages; more than what sums lose to rounding, and far less than one message."""
_LOOK_AHEAD: Final = 100_000
"""So many pieces of load `empty_at` looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerModel(PodModel):
    """What a message costs. Raises FieldError.

    `cpu_per_message` core seconds, `wait_per_message` seconds outside the CPU, `memory_per_message` bytes while a
    worker has it in hand, `concurrency` messages that a pod works on at once. A message needs some time.
    """

    cpu_per_message: float
    wait_per_message: float = 0.0
    memory_per_message: float = 0.0
    concurrency: int = 1

    def __post_init__(self) -> None:
        PodModel.__post_init__(self)
        at_least("cpuPerMessage", self.cpu_per_message)
        at_least("waitPerMessage", self.wait_per_message)
        at_least("memoryPerMessage", self.memory_per_message)
        count("concurrency", self.concurrency)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSample:
    """A queue at one moment. Rates per second; arrays have one entry per pod, in the order of its columns."""

    arriving: float
    serving: float
    length: float
    """Messages that wait."""
    age: float
    """Seconds since the oldest of them arrived; 0 if none waits."""
    drain: float
    """Seconds until the queue is empty if load and capacity stay as they are; infinite if it never is."""
    limited_by: str
    """What keeps it from working faster while messages wait: "", "cpu", "threads", "no ready pod", a ceiling's name."""
    cpu: Floats
    memory: Floats


class WorkQueue(LoadedPods):
    """The state of one queue and its workers. Times are seconds since the start of the run."""

    def __init__(
        self,
        model: WorkerModel,
        load: Series,
        *,
        ceilings: Sequence[Ceiling] = (),
        backlog: float = 0.0,
        start: float = 0.0,
    ) -> None:
        super().__init__(load, ceilings, start)
        self.model = model
        self._costs = costs_of(model)
        self._times = times_of(model, self.pods)
        self.arrived = at_least("backlog", backlog)
        """Messages since the start, with those that waited then."""
        self.length = float(backlog)
        self._done = 0.0
        self._start = start
        self._before = backlog - load.cumulative(start)
        self._capacity()

    # ---- what happens to it ----------------------------------------------------------------------------------------

    def _piece(self, a: float, b: float, value: float, slope: float) -> None:
        seconds = b - a
        arrived = seconds * (value + slope * seconds / 2)
        self.arrived += arrived
        if not self.length and max(value, value + slope * seconds) <= self.capacity:
            done = arrived
        else:
            one = np.asarray([[self.length], [value], [slope], [self.capacity]])
            part = flow(one[0], one[1], one[2], one[3], _NO_LIMIT, seconds)
            done, self.length = float(part.served[0]), float(part.backlog[0])
        self.served += done
        self._done += done

    def _settle(self) -> None:
        """Book what the pods did since pods, cores or costs last changed."""
        if self._settled == self.now:
            return
        fixed = fixed_cpu_seconds(self._costs, self._times, self._cores, self._settled, self.now)
        self._cpu_seconds = self._cpu_seconds + fixed + self._done * self._part * self._work / self.pods.speed
        self._done = 0.0
        self._settled = self.now

    def set_pods(self, pods: PodColumns, *, lost: Collection[str] = ()) -> None:
        """Other pods, or the same in another state, from now on. What a lost one had in hand is delivered again.

        New pods may use all the cores there are until `grant` says otherwise.
        """
        self._settle()
        self._take_over(pods)
        self._times = times_of(self.model, pods)
        self._capacity()

    def grant(self, cores: Floats) -> None:
        """Cores that each pod may use from now on: `CpuShares.available` of the contention on its node."""
        self._settle()
        self._cores = np.asarray(cores, dtype=np.float64)
        self._capacity()

    # ---- what it can do --------------------------------------------------------------------------------------------

    def _capacity(self) -> None:
        model, pods = self.model, self.pods
        self._work = model.cpu_per_message * warm_factor(self._costs, self._times, self.now)
        ready = np.flatnonzero(pods.ready)
        self._bound = bound(self.ceilings, len(ready))
        self._mask = np.zeros(len(pods), dtype=np.bool_)
        self._mask[ready[: self._bound.useful]] = True
        free = np.maximum(self._cores - np.minimum(self._cores, model.idle_cpu), 0.0)
        with_cpu = self._rates(free)
        self._own = float(with_cpu.sum())
        self.capacity = min(self._own, self._bound.rate)
        """Messages per second that the workers can do together."""
        weight = np.where(np.isfinite(with_cpu), with_cpu, 1.0) if math.isfinite(self._own) else np.isinf(with_cpu)
        together = float(weight.sum())
        self._part = weight / together if together else np.zeros(len(pods))
        self._by_cpu = self._own < float(self._rates(np.full(len(pods), np.inf)).sum()) * (1 - 1e-12)

    def _rates(self, cores: Floats) -> Floats:
        """Messages per second of each useful pod with so many cores."""
        model, speed = self.model, self.pods.speed
        each = service_time(self._work, cores, speed) + model.wait_per_message
        rates = np.full(len(self.pods), np.inf)
        np.divide(float(model.concurrency), each, out=rates, where=each > 0)
        whole = np.full(len(self.pods), np.inf)
        # An infinite number of cores and no work at all: no bound.
        np.divide(cores * speed, self._work, out=whole, where=self._work > 0)
        return np.where(self._mask, np.minimum(rates, whole), 0.0)

    @property
    def bound(self) -> Bound:
        """What the ceilings leave of the present pods."""
        return self._bound

    def cpu_demand(self) -> Floats:
        """Cores that each pod would use now if nobody else were on its node, and it had no limit."""
        model, pods = self.model, self.pods
        fixed = fixed_cpu(self._costs, self._times, self.now)
        if not self._mask.any() or not model.cpu_per_message:
            return fixed
        rates = self._rates(np.full(len(pods), np.inf))
        together = self._bound.rate if self.length > 0 else min(self._bound.rate, self.load.at(self.now))
        share = level(rates[self._mask].tolist(), together)
        result: Floats = fixed + np.minimum(rates, share) * self._work / pods.speed
        return result

    # ---- how it is -------------------------------------------------------------------------------------------------

    @property
    def age(self) -> float:
        """Seconds since the oldest waiting message arrived; those from before the start count from the start."""
        if self.length <= 0:
            return 0.0
        # A trace of a message beyond those that are done: where nothing arrived for a while, the oldest that waits is
        # the first one after that while, not the last one before it.
        done = self.arrived - self.length - self._before
        head = self.load.time_of(done + min(self.length, _TRACE * max(self.arrived, 1.0)))
        return self.now - min(max(head, self._start), self.now)

    @property
    def drain(self) -> float:
        """Seconds until the queue is empty if load and capacity stay as they are; infinite if it never is."""
        if self.length <= 0:
            return 0.0
        net = self.capacity - self.load.at(self.now)
        return self.length / net if net > 0 else math.inf

    def empty_at(self) -> float:
        """When the queue will be empty with the present capacity and the load to come; infinite if not foreseeable."""
        if self.length <= 0:
            return self.now
        length, t = self.length, self.now
        for _ in range(_LOOK_AHEAD):
            end = self.load.next_change(t)
            a, s = self.load.at(t) - self.capacity, self.load.slope(t)
            found = _first_root(length, a, s)
            if t + found <= end:
                return t + found
            if not math.isfinite(end):
                return math.inf
            length += (end - t) * (a + s * (end - t) / 2)
            t = end
        return math.inf

    def sample(self) -> QueueSample:
        """Rates, age, cores and memory at this moment."""
        model, pods = self.model, self.pods
        arriving = self.load.at(self.now)
        serving = min(arriving + self.length / CATCH_UP, self.capacity)
        own = serving * self._part
        each = service_time(self._work, self._cores, pods.speed) + model.wait_per_message
        in_hand = np.where(own > 0, np.minimum(own * np.where(own > 0, each, 0.0), float(model.concurrency)), 0.0)
        used = np.minimum(fixed_cpu(self._costs, self._times, self.now), self._cores)
        return QueueSample(
            arriving=arriving,
            serving=serving,
            length=self.length,
            age=self.age,
            drain=self.drain,
            limited_by=self._limited_by(arriving),
            cpu=used + own * self._work / pods.speed,
            memory=fixed_memory(self._costs, self._times, self.now) + model.memory_per_message * in_hand,
        )

    def _limited_by(self, arriving: float) -> str:
        if self.length <= 0 and arriving <= self.capacity:
            return ""
        if not self._mask.any():
            return BY_NO_POD
        if self._bound.rate < self._own:
            return self._bound.rate_by
        if self._bound.useful_by:
            return self._bound.useful_by
        return BY_CPU if self._by_cpu else BY_THREADS


def _first_root(length: float, a: float, s: float) -> float:
    """The first x > 0 with length + a·x + s·x²/2 = 0; infinite if there is none. `length` is above 0."""
    square = a * a - 2 * s * length
    if square < 0:
        return math.inf
    # The two roots without cancellation: q and then length / q.
    q = -a + math.sqrt(square) if a < 0 else -a - math.sqrt(square)
    roots = [2 * length / q] if q else []
    if s:
        roots.append(q / s)
    return min((x for x in roots if x > 0), default=math.inf)
