"""What a service leans on, and how much of it there is: throughput that no number of pods gets past.

| ceiling | bounds |
|---|---|
| `Connections` | requests per second: min(pods · per pod, pool) connections, each held for a while per request |
| `ApiQuota` | requests per second: calls per second that somebody else allows |
| `Partitions` | useful consumers: one consumer per partition at most |
| `PodIps` | pods that get an address at all |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .checks import above, count


class Ceiling(Protocol):
    """A bound on what pods can do together."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def useful(self, pods: int) -> int:
        """How many of so many pods can do anything."""

    def rate(self, pods: int) -> float:
        """The most that so many pods can serve together, per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """Database connections: every pod opens `per_pod`, the server grants `pool` in all; those beyond get no work.

    A request holds a connection for `held` seconds.
    """

    name: str = "connections"
    pool: int
    per_pod: int
    held: float

    def __post_init__(self) -> None:
        count("pool", self.pool)
        count("perPod", self.per_pod)
        above("held", self.held)

    def useful(self, pods: int) -> int:
        return min(pods, math.ceil(self.pool / self.per_pod))

    def rate(self, pods: int) -> float:
        return min(pods * self.per_pod, self.pool) / self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiQuota:
    """Somebody else's API allows `rate_limit` calls per second; a request needs `calls` of them."""

    name: str = "api-quota"
    rate_limit: float
    calls: float = 1.0

    def __post_init__(self) -> None:
        above("rateLimit", self.rate_limit)
        above("calls", self.calls)

    def useful(self, pods: int) -> int:
        return pods

    def rate(self, pods: int) -> float:
        return self.rate_limit / self.calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """A topic's partitions: each is read by one consumer at a time."""

    name: str = "partitions"
    partitions: int

    def __post_init__(self) -> None:
        count("partitions", self.partitions)

    def useful(self, pods: int) -> int:
        return min(pods, self.partitions)

    def rate(self, pods: int) -> float:
        return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIps:
    """Addresses for pods: those beyond stay without network. `admits` is for whoever starts pods."""

    name: str = "pod-ips"
    addresses: int

    def __post_init__(self) -> None:
        count("addresses", self.addresses, 0)

    def admits(self, in_use: int) -> bool:
        """Whether one more pod gets an address."""
        return in_use < self.addresses

    def useful(self, pods: int) -> int:
        return min(pods, self.addresses)

    def rate(self, pods: int) -> float:
        return math.inf


@dataclass(frozen=True, slots=True)
class Bound:
    """What the ceilings leave: so many useful pods, so many requests per second; and which of them said so."""

    useful: int
    useful_by: str
    """The ceiling that made pods useless, "" if none did."""
    rate: float
    rate_by: str
    """The ceiling with the lowest rate, "" if there is none."""


def bound(ceilings: Sequence[Ceiling], pods: int) -> Bound:
    """The lowest of each. Of equal ones the first counts."""
    useful, useful_by, rate, rate_by = pods, "", math.inf, ""
    for ceiling in ceilings:
        if (fewer := ceiling.useful(pods)) < useful:
            useful, useful_by = fewer, ceiling.name
    for ceiling in ceilings:
        if (lower := ceiling.rate(useful)) < rate:
            rate, rate_by = lower, ceiling.name
    return Bound(useful, useful_by, rate, rate_by)


def level(capacities: Sequence[float], together: float) -> float:
    """The x for which the sum of min(capacity, x) is `together`; infinite if they do not reach it.

    An equal share of a bound for everybody, and what some cannot use for the others.
    """
    left = together
    ordered = sorted(capacities)
    if sum(ordered) <= together:
        return math.inf
    for i, capacity in enumerate(ordered):
        share = left / (len(ordered) - i)
        if capacity >= share:
            return share
        left -= capacity
    return math.inf
