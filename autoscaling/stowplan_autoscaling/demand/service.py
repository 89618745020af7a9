"""A service that answers requests: from load and the state of its pods to CPU, memory, latency and lost requests.

    service.advance(now)                     # settle what happened with the capacity in force
    service.set_pods(columns)                # pods came, went, got ready
    wanted = service.cpu_demand()            # cores per pod, for the contention on the nodes
    service.grant(available)                 # cores that each pod may use from now on
    sample = service.sample()                # rates, latency and memory at this moment
    service.cpu_seconds, .served, .dropped   # counters since the start

Requests are spread evenly over the ready pods, as kube-proxy does, whatever each can do. Each pod has its own backlog,
exact between calls (`fluid.py`); a request that would wait longer than the timeout, or finds the line full, is
dropped. Requests that find no ready pod are dropped at once. What a pod can serve is the least of what its cores, its
threads and its share of the ceilings allow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .ceilings import Bound, Ceiling, bound, level
from .checks import above, at_least, count
from .fluid import flow
from .latency import Response, service_time, waiting_time
from .loaded import LoadedPods
from .pods import (
    PodColumns,
    PodModel,
    fixed_cpu,
    fixed_cpu_seconds,
    fixed_memory,
    warm_factor,
)
from .series import Floats, Series

REQUEST_TIMEOUT: Final = 60.0
"""Seconds after which a request that waits is given up: proxy_read_timeout of nginx and ingress-nginx, idle timeout of
an AWS load balancer."""

CATCH_UP: Final = 1.0
"""A pod with a backlog asks for the cores that would work it off in so many seconds."""

BY_CPU: Final = "cpu"
BY_THREADS: Final = "threads"
BY_NO_POD: Final = "no ready pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceModel(PodModel):
    """What a request costs. Raises FieldError.

    `cpu_per_request` core seconds; `wait_per_request` seconds that it spends outside the CPU (database, disk);
    `memory_per_request` bytes while it is in the pod; `threads` requests that a pod has in hand at once, and `waiting`
    that may wait for it (None: no bound); `timeout` seconds that a request waits at most, infinity for no end. For a
    load in cores, `cpu_per_request` is 1.
    """

    cpu_per_request: float
    wait_per_request: float = 0.0
    memory_per_request: float = 0.0
    threads: int | None = None
    waiting: int | None = None
    timeout: float = REQUEST_TIMEOUT

    def __post_init__(self) -> None:
        PodModel.__post_init__(self)
        at_least("cpuPerRequest", self.cpu_per_request)
        at_least("waitPerRequest", self.wait_per_request)
        at_least("memoryPerRequest", self.memory_per_request)
        if self.threads is not None:
            count("threads", self.threads)
        if self.waiting is not None:
            count("waiting", self.waiting)
        if self.timeout != math.inf:
            above("timeout", self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSample:
    """A service at one moment. Rates per second; arrays have one entry per pod, in the order of its columns."""

    arriving: float
    serving: float
    backlog: float
    """Requests that wait because capacity is short."""
    limited_by: str
    """What keeps it from serving all that arrives: "", "cpu", "threads", "no ready pod", or a ceiling's name."""
    response: Response
    """Response times: `.mean`, `.quantile(0.95)`, `.share_above(0.2)`."""
    cpu: Floats
    """Cores in use."""
    memory: Floats
    """Bytes in use."""


class Service(LoadedPods):
    """The state of one service. Times are seconds since the start of the run."""

    def __init__(
        self, model: ServiceModel, load: Series, *, ceilings: Sequence[Ceiling] = (), start: float = 0.0
    ) -> None:
        super().__init__(load, ceilings, start)
        self.model = model
        self.dropped = 0.0
        """Requests since the start: timed out, lost with their pod, or without a pod to go to."""
        self._done: Floats = np.zeros(0)
        self._through = 0.0
        self.backlog: Floats = np.zeros(0)
        """Per pod: requests that wait."""
        self._roster()
        self._capacity()

    # ---- what happens to it ----------------------------------------------------------------------------------------

    def _piece(self, a: float, b: float, value: float, slope: float) -> None:
        seconds = b - a
        arrived = seconds * (value + slope * seconds / 2)
        self.arrived += arrived
        if not self._takers:
            self.dropped += arrived
        elif self._calm and max(value, value + slope * seconds) <= self._easy:
            # No pod waits and none gets more than it can serve: all goes through.
            self.served += arrived
            self._through += arrived
        else:
            self._busy_piece(value, slope, seconds)

    def _busy_piece(self, value: float, slope: float, seconds: float) -> None:
        part = flow(self.backlog, self._share * value, self._share * slope, self._rate, self._limit, seconds)
        self.backlog = part.backlog
        self._calm = not part.backlog.any()
        self._done = self._done + part.served
        self.served += float(part.served.sum())
        self.dropped += float(part.dropped.sum())

    def _settle(self) -> None:
        """Book what the pods did since pods, cores or costs last changed."""
        if self._settled == self.now:
            return
        fixed = fixed_cpu_seconds(self.model, self.pods, self._cores, self._settled, self.now)
        done = self._done + self._through * self._share
        self._cpu_seconds = self._cpu_seconds + fixed + done * self._work / self.pods.speed
        self._done = np.zeros(len(self.pods))
        self._through = 0.0
        self._settled = self.now

    def set_pods(self, pods: PodColumns, *, lost: Collection[str] = ()) -> None:
        """Other pods, or the same in another state, from now on.

        The backlog of a pod that is gone or no longer ready goes to the others (connections are tried again), that of
        the pods in `lost` (killed) is dropped. New pods may use all the cores there are until `grant` says otherwise.
        """
        self._settle()
        gone = 0.0
        self.backlog = self.backlog.copy()
        for key, row in self.pods.rows.items():
            if key in lost:
                self.dropped += float(self.backlog[row])
                self.backlog[row] = 0.0
            elif key not in pods.rows or not pods.ready[pods.rows[key]]:
                gone += float(self.backlog[row])
                self.backlog[row] = 0.0
        self._done = np.zeros(len(pods))
        self.backlog = pods.carried(self.pods, self.backlog)
        self._take_over(pods)
        self._roster()
        self._capacity()
        self._hand_over(gone)

    def _hand_over(self, requests: float) -> None:
        if requests and self._takers:
            self.backlog = self.backlog + requests * self._share
        else:
            self.dropped += requests
        self._shed()

    def grant(self, cores: Floats) -> None:
        """Cores that each pod may use from now on: `CpuShares.available` of the contention on its node."""
        cores = np.asarray(cores, dtype=np.float64)
        if self.model.warmup_factor == 1 and np.array_equal(cores, self._cores):
            return
        self._settle()
        self._cores = cores
        self._capacity()
        self._shed()

    def _shed(self) -> None:
        """Requests that will not be answered in time with what the pods can do now."""
        self._calm = not self.backlog.any()
        if self._calm:
            return
        over = np.maximum(self.backlog - self._limit, 0.0)
        self.dropped += float(over.sum())
        self.backlog = self.backlog - over

    # ---- what it can do --------------------------------------------------------------------------------------------

    def _roster(self) -> None:
        """Who gets work, and how much of it."""
        ready = np.flatnonzero(self.pods.ready)
        self._bound = bound(self.ceilings, len(ready))
        takers = ready[: self._bound.useful]
        self._takers = len(takers)
        self._share = np.zeros(len(self.pods))
        self._share[takers] = 1 / len(takers) if self._takers else 0.0
        self._taking = self._share > 0

    def _capacity(self) -> None:
        """What each pod can serve per second, with the cores in force."""
        model, pods = self.model, self.pods
        self._work = model.cpu_per_request * warm_factor(model, pods, self.now)
        self._free = np.maximum(self._cores - np.minimum(self._cores, model.idle_cpu), 0.0)
        self._service = service_time(self._work, self._free, pods.speed)
        by_cpu = _quotient(self._free * pods.speed, self._work)
        self._by_threads = self._thread_rate(self._service)
        self._unbounded = np.where(self._taking, np.minimum(by_cpu, self._by_threads), 0.0)
        self._rate = self._bounded(self._unbounded)
        self._limit = np.full(len(pods), np.inf if model.waiting is None else float(model.waiting))
        if model.timeout != math.inf:
            self._limit = np.minimum(self._limit, self._rate * model.timeout)
        self._by_cpu = by_cpu
        self._easy = float(self._rate[self._taking].min()) * self._takers if self._takers else 0.0
        """The load up to which no pod gets more than it can serve."""
        self._calm = not self.backlog.any()

    def _bounded(self, rates: Floats) -> Floats:
        """Rates of the pods that get work, cut so that together they keep below the ceilings; 0 for the others."""
        if math.isinf(self._bound.rate):
            return rates
        share = level(rates[self._taking].tolist(), self._bound.rate)
        return np.where(self._taking, np.minimum(rates, share), 0.0)

    def _thread_rate(self, service: Floats) -> Floats:
        if self.model.threads is None:
            return np.full(len(self.pods), np.inf)
        return _quotient(np.full(len(self.pods), float(self.model.threads)), service + self.model.wait_per_request)

    @property
    def bound(self) -> Bound:
        """What the ceilings leave of the present pods."""
        return self._bound

    @property
    def capacity(self) -> float:
        """Requests per second that the ready pods can serve together with the cores in force."""
        return float(self._rate.sum())

    def cpu_demand(self) -> Floats:
        """Cores that each pod would use now if nobody else were on its node, and it had no limit."""
        model, pods = self.model, self.pods
        fixed = fixed_cpu(model, pods, self.now)
        if not self._takers:
            return fixed
        work = model.cpu_per_request * warm_factor(model, pods, self.now)
        wanted = self._share * self.load.at(self.now) + self.backlog / CATCH_UP
        if self.model.threads is not None:
            wanted = np.minimum(wanted, self._thread_rate(work / pods.speed))
        result: Floats = fixed + self._bounded(wanted) * work / pods.speed
        return result

    # ---- how it is -------------------------------------------------------------------------------------------------

    def sample(self) -> ServiceSample:
        """Rates, response times, cores and memory at this moment."""
        model, pods = self.model, self.pods
        load = self.load.at(self.now)
        arriving = self._share * load
        serving = np.minimum(arriving, self._rate)
        if not self._calm:
            serving = np.minimum(arriving + self.backlog / CATCH_UP, self._rate)
        response = self._response(serving)
        used = np.minimum(fixed_cpu(model, pods, self.now), self._cores)
        return ServiceSample(
            arriving=load,
            serving=float(serving.sum()),
            backlog=float(self.backlog.sum()),
            limited_by=self._limited_by(load, arriving),
            response=response,
            cpu=used + serving * self._work / pods.speed,
            memory=fixed_memory(model, pods, self.now) + self._request_memory(serving, response),
        )

    def _request_memory(self, serving: Floats, response: Response) -> Floats:
        """Bytes of the requests that are in each pod: rate times response time (Little), at most one per thread."""
        if not self.model.memory_per_request:
            return np.zeros(len(self.pods))
        inside = np.zeros(len(self.pods))
        np.multiply(serving, response.per_pod, out=inside, where=serving > 0)
        if self.model.threads is not None:
            inside = np.minimum(inside, float(self.model.threads))
        return inside * self.model.memory_per_request

    def _response(self, serving: Floats) -> Response:
        waiting = waiting_time(self._service, self._free, _share(serving, self._by_cpu))
        fixed = self._service + self.model.wait_per_request
        if self.model.threads is not None:
            threads = np.full(len(self.pods), float(self.model.threads))
            waiting = waiting + waiting_time(fixed, threads, _share(serving, self._by_threads))
        if not self._calm:
            fixed = fixed + _share(self.backlog, self._rate)
        return Response(fixed, waiting, serving)

    def _limited_by(self, load: float, arriving: Floats) -> str:
        if not self._takers:
            return BY_NO_POD if load > 0 else ""
        if self._calm and load <= self._easy:
            return ""
        short = self._taking & ((arriving > self._rate) | (self.backlog > 0))
        if not short.any():
            return ""
        if float(self._rate.sum()) < float(self._unbounded.sum()):
            return self._bound.rate_by
        if self._bound.useful_by:
            return self._bound.useful_by
        threads = int((self._by_threads[short] < self._by_cpu[short]).sum())
        return BY_THREADS if 2 * threads > int(short.sum()) else BY_CPU


def _share(amount: Floats, capacity: Floats) -> Floats:
    """amount / capacity; 0 where there is no capacity, or endless."""
    result = np.zeros_like(amount)
    np.divide(amount, capacity, out=result, where=(capacity > 0) & np.isfinite(capacity))
    return result


def _quotient(amount: Floats, cost: Floats) -> Floats:
    """amount / cost; infinite where the cost is 0."""
    result = np.full_like(amount, np.inf)
    np.divide(amount, cost, out=result, where=cost > 0)
    return result
