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

The rules are in `fleet.py`, for any number of services at once; a `Service` is one of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .ceilings import Bound, Ceiling
from .checks import above, at_least, count
from .fleet import Fleet, Traffic
from .fleet_rows import Part
from .latency import Response
from .pods import PodColumns, PodModel
from .series import Floats, Series

REQUEST_TIMEOUT: Final = 60.0
"""Seconds after which a request that waits is given up: proxy_read_timeout of nginx and ingress-nginx, idle timeout of
an AWS load balancer."""

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


class Service:
    """One service of a fleet; of one of its own unless told otherwise. Times are seconds since the start of the run."""

    def __init__(
        self,
        model: ServiceModel,
        load: Series,
        *,
        ceilings: Sequence[Ceiling] = (),
        start: float = 0.0,
        fleet: Fleet | None = None,
    ) -> None:
        self.model = model
        self.load = load
        self.fleet = Fleet() if fleet is None else fleet
        self.number = self.fleet.add(model, load, ceilings, start)

    # ---- what happens to it ----------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Settle what happened up to `now` with the pods and cores in force. Raises ValueError for a time gone by."""
        self.fleet.advance(self._part, now)

    def set_pods(self, pods: PodColumns, *, lost: Collection[str] = ()) -> None:
        """Other pods, or the same in another state, from now on.

        The backlog of a pod that is gone or no longer ready goes to the others (connections are tried again), that of
        the pods in `lost` (killed) is dropped. New pods may use all the cores there are until `grant` says otherwise.
        """
        self.fleet.set_pods(self.number, pods, lost)

    def grant(self, cores: Floats) -> None:
        """Cores that each pod may use from now on: `CpuShares.available` of the contention on its node."""
        part = self._part
        by_row = np.zeros(len(part.of))
        by_row[: len(self.pods)] = cores
        self.fleet.grant(part, by_row)

    # ---- what it has done, and can do ------------------------------------------------------------------------------

    @property
    def _part(self) -> Part:
        return self.fleet.part([self.number])

    @property
    def own(self) -> slice:
        """The rows of its pods."""
        return self.fleet.own(self.number)

    @property
    def now(self) -> float:
        """Up to when everything is settled."""
        return float(self.fleet.now[self.number])

    @property
    def pods(self) -> PodColumns:
        """The pods in force."""
        return self.fleet.pods[self.number]

    @property
    def arrived(self) -> float:
        """Requests since the start."""
        return float(self.fleet.arrived[self.number])

    @property
    def served(self) -> float:
        """Requests since the start that were answered."""
        return float(self.fleet.served[self.number])

    @property
    def dropped(self) -> float:
        """Requests since the start: timed out, lost with their pod, or without a pod to go to."""
        return float(self.fleet.dropped[self.number])

    @property
    def backlog(self) -> Floats:
        """Per pod: requests that wait."""
        return self.fleet.backlog[self.own]

    @property
    def cpu_seconds(self) -> Floats:
        """Per pod: core seconds used since the pod was first named."""
        self.fleet.settle(self._part)
        return self.fleet.ledger.seconds[self.fleet.place[self.own]]

    @property
    def bound(self) -> Bound:
        """What the ceilings leave of the present pods."""
        return self.fleet.bounds[self.number]

    @property
    def capacity(self) -> float:
        """Requests per second that the ready pods can serve together with the cores in force."""
        return float(self._rate.sum())

    @property
    def _rate(self) -> Floats:
        self.fleet.refresh(self._part.numbers)
        return self.fleet.rate[self.own]

    def cpu_demand(self) -> Floats:
        """Cores that each pod would use now if nobody else were on its node, and it had no limit."""
        return self.fleet.want(self._part)[: len(self.pods)]

    @property
    def wanted(self) -> float:
        """Cores that all pods together want, as found last."""
        return float(self.fleet.wanted[self.own].sum())

    # ---- how it is -------------------------------------------------------------------------------------------------

    @property
    def response(self) -> Response:
        """Response times at this moment."""
        return self._own(self.fleet.measure(self._part).response)

    @property
    def traffic(self) -> Traffic:
        """What of the response times the samples of a run say: much less than `response`, and made for all at once."""
        return self.fleet.traffic(self.number)

    @property
    def waiting(self) -> float:
        """Requests that wait, in all pods together."""
        return 0.0 if self.fleet.calm[self.number] else float(self.backlog.sum())

    def _own(self, response: Response) -> Response:
        count = len(self.pods)
        return Response(response.fixed[:count], response.waiting[:count], response.rate[:count])

    def sample(self) -> ServiceSample:
        """Rates, response times, cores and memory at this moment."""
        found, count = self.fleet.measure(self._part), len(self.pods)
        own = self._own(found.response)
        load = self.load.at(self.now)
        return ServiceSample(
            arriving=load,
            serving=float(own.rate.sum()),
            backlog=self.waiting,
            limited_by=self._limited_by(load, found.arriving[:count]),
            response=own,
            cpu=found.cpu[:count],
            memory=found.memory[:count],
        )

    def _limited_by(self, load: float, arriving: Floats) -> str:
        fleet, number = self.fleet, self.number
        if not fleet.takers[number]:
            return BY_NO_POD if load > 0 else ""
        if fleet.calm[number] and load <= fleet.easy[number]:
            return ""
        own, rate = self.own, self._rate
        short = (fleet.share[own] > 0) & ((arriving > rate) | (fleet.backlog[own] > 0))
        if not short.any():
            return ""
        if float(rate.sum()) < float(fleet.unbounded[own].sum()):
            return self.bound.rate_by
        if self.bound.useful_by:
            return self.bound.useful_by
        threads = int((fleet.by_threads[own][short] < fleet.by_cpu[own][short]).sum())
        return BY_THREADS if 2 * threads > int(short.sum()) else BY_CPU
