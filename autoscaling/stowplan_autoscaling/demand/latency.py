"""How long a request takes, from how busy its pod is.

A pod with `cores` cores is a station of c = max(1, cores) servers that share the work; a request runs on one server at
a time. Its mean response time is

    wait outside the CPU + S + W,   S = work · c / (cores · speed),   W = S · u^(sqrt(2(c + 1)) - 1) / (c · (1 - u))

with utilisation u = arrival rate / service rate. For c = 1 this is S / (1 - u): exact for M/M/1, and for M/G/1 with
processor sharing, whose mean does not depend on the distribution of the work. For c > 1 it is Sakasegawa's
approximation of M/M/c ("An approximation formula Lq = a·p^b/(1 - p)", Annals of the Institute of Statistical
Mathematics 29, 1977), which takes any real c. At u above MOST_BUSY the stationary formula means nothing: u is capped
there, and the time to work off the backlog that has formed is added instead. A bounded number of threads is a second
station in front, with a server per thread that is busy for S and the wait outside the CPU.

Quantiles take W as exponential and everything else as fixed: exact for the waiting time of M/M/1 given that one waits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .series import Floats

MOST_BUSY: Final = 0.98
"""Utilisation beyond which waiting is taken from the backlog, no longer from the stationary formula."""

_HALVINGS: Final = 50


@dataclass(frozen=True, slots=True)
class Response:
    """Response times per pod: a fixed part, an exponential part of mean `waiting`, and how much each pod serves."""

    fixed: Floats
    waiting: Floats
    rate: Floats

    @property
    def per_pod(self) -> Floats:
        """Mean response time of each pod, seconds."""
        return self.fixed + self.waiting

    @property
    def mean(self) -> float:
        """Mean response time over all requests served, seconds; NaN if none is."""
        served = float(self.rate.sum())
        # Pods that serve nothing may have no finite response time.
        busy = self.rate > 0
        return float((self.per_pod[busy] * self.rate[busy]).sum()) / served if served else math.nan

    def share_above(self, seconds: float) -> float:
        """Share of the requests served that take longer; NaN if none is served."""
        busy = self.rate > 0
        served = float(self.rate[busy].sum())
        if not served:
            return math.nan
        late = seconds - self.fixed[busy]
        waiting = self.waiting[busy]
        above = np.where(late < 0, 1.0, 0.0)
        waits = (waiting > 0) & (late >= 0)
        above[waits] = np.exp(-late[waits] / waiting[waits])
        return float((above * self.rate[busy]).sum()) / served

    def quantile(self, share: float) -> float:
        """The time within which that share of the requests served is answered, seconds; NaN if none is."""
        busy = self.rate > 0
        if not busy.any():
            return math.nan
        low, high = 0.0, float((self.fixed[busy] - math.log1p(-share) * self.waiting[busy]).max())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.share_above(middle) > 1 - share else (low, middle)
        return high


def service_time(work: Floats, cores: Floats, speed: Floats) -> Floats:
    """S: seconds that one request runs if it is alone. `work` in core seconds; infinite without cores."""
    share = np.minimum(cores, 1.0) * speed
    result = np.full_like(work, np.inf)
    np.divide(work, share, out=result, where=share > 0)
    return np.where(work == 0, 0.0, result)


def waiting_time(service: Floats, cores: Floats, busy: Floats) -> Floats:
    """W: mean seconds in line, or slowed down by others, at utilisation `busy`."""
    servers = np.maximum(cores, 1.0)
    u = np.minimum(busy, MOST_BUSY)
    finite = np.isfinite(servers) & np.isfinite(service)
    c = np.where(finite, servers, 1.0)
    waiting = np.where(finite, service, 0.0) * u ** (np.sqrt(2 * (c + 1)) - 1) / (c * (1 - u))
    return np.where(np.isfinite(servers), np.where(finite, waiting, np.inf), 0.0)
