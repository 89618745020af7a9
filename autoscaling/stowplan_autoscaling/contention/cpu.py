"""Who gets how much CPU on a node: weights, quota, and what neighbours take away.

The kubelet makes a tree of control groups: below `kubepods` the Guaranteed pods, one group for all Burstable pods and
one for all BestEffort pods (pkg/kubelet/cm/qos_container_manager_linux.go). Each has a weight:

    shares = max(2, milli · 1024 / 1000)                  MilliCPUToShares, helpers_linux.go; at most 262144
    weight = 1 + (shares - 2) · 9999 / 262142             getCPUWeight, cgroup_manager_linux.go; integers, truncated

of the pod's request, of the sum of the requests for the Burstable group, and of 2 shares for BestEffort. The kernel
divides the CPU among those who want it in proportion to weight, first among the children of `kubepods`, then within
each group; nobody gets more than he wants, and nothing is left idle that somebody wants: water-filling. A pod's limit
is a quota per 100 ms (MilliCPUToQuota, at least 1 ms of it, so at least 10 milli cores); what it wants beyond is
throttled, whether the node is busy or not.

The containers of a pod are taken together. All nodes are computed in one go; amounts are counted in whole nano cores,
so that a node's result does not depend on what happens on other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .qos import UNLIMITED, QosClass

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
SHARES_PER_CORE: Final = 1024
MIN_MILLI_LIMIT: Final = 10
"""A quota is at least 1 ms in 100 ms."""

_PERIOD: Final = 0.1
"""Seconds of a quota's period."""

NANO: Final = 10**9
"""Amounts are counted in whole parts of so many."""
_MOST_CORES: Final = 1e6
"""Cores of a demand without bound: more than any node has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShares:
    """What each pod gets; cores, in the order in which the pods were given."""

    granted: Floats
    """What it uses: at most what it wants and what its limit allows."""
    available: Floats
    """What it could use at least if it alone wanted more, within its limit. What a service is given to work with."""
    alone: Floats
    """What it would get if it were alone on the node."""
    throttled: Floats
    """What its limit refuses."""

    @property
    def throttled_share(self) -> Floats:
        """The part of what each pod wanted that its limit refused, 0 to 1."""
        return _ratio(self.throttled, self.alone + self.throttled)

    @property
    def lost_to_others(self) -> Floats:
        """Noisy neighbours: the part of what it would get alone that others took, 0 to 1."""
        return np.maximum(_ratio(self.alone - self.granted, self.alone), 0.0)


def throttled_periods(demand: Floats, limit: Ints, rate: Floats) -> Floats:
    """Share of the 100 ms periods in which a pod uses up its quota: it may be high where the average is far below.

    `demand` in cores, `limit` in milli cores (UNLIMITED: 0), `rate` requests per second. In a period of P seconds a
    Poisson number of requests of mean rate · P brings its work; the sum is taken as normal, with a standard deviation
    of demand · P / sqrt(rate · P). Without requests the demand is taken as steady.
    """
    quota = np.where(limit == UNLIMITED, np.inf, np.maximum(limit, MIN_MILLI_LIMIT) / 1000)
    deviation = np.zeros_like(demand)
    np.divide(demand, np.sqrt(rate * _PERIOD), out=deviation, where=rate > 0)
    distance = np.where(demand > quota, -np.inf, np.inf)
    np.divide(quota - demand, deviation, out=distance, where=deviation > 0)
    return _above(distance)


def _above(z: Floats) -> Floats:
    """The part of a standard normal distribution above z (Abramowitz and Stegun 26.2.17: to within 7.5e-8)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * series
    result: Floats = np.where(z >= 0, tail, 1 - tail)
    return result


def in_nano(cores: Floats) -> Floats:
    """Whole nano cores; a demand without bound is more than any node has."""
    found: Floats = np.rint(np.minimum(cores, _MOST_CORES) * NANO)
    return found


def cpu_shares(milli: Ints) -> Ints:
    """cpu.shares of requests in milli cores."""
    result: Ints = np.clip(np.asarray(milli, dtype=np.int64) * SHARES_PER_CORE // 1000, MIN_SHARES, MAX_SHARES)
    return result


def cpu_weight(shares: Ints) -> Ints:
    """cpu.weight of cpu.shares."""
    result: Ints = np.where(shares >= MAX_SHARES, 10_000, 1 + (shares - 2) * 9999 // 262_142)
    return result


def share_cpu(
    *,
    node: Ints,
    capacity: Floats,
    demand: Floats,
    request: Ints,
    limit: Ints,
    qos: Ints,
    system: Floats | None = None,
) -> CpuShares:
    """Divides the CPU of all nodes among their pods.

    Per pod: `node` (row of `capacity`, ascending or not), `demand` in cores (infinite: all it can get), `request` and
    `limit` in milli cores (UNLIMITED: none), `qos` (QosClass). Per node: `capacity` in cores and what the `system`
    (kubelet, daemons outside pods) uses of it. Pods may use all that the system leaves, also what is reserved for it.
    """
    tree = CpuTree(node=node, capacity=capacity, request=request, limit=limit, qos=qos, system=system)
    return tree.share(demand)


class CpuTree:
    """The control groups of all nodes as long as no pod comes or goes: for one demand after the other."""

    def __init__(
        self,
        *,
        node: Ints,
        capacity: Floats,
        request: Ints,
        limit: Ints,
        qos: Ints,
        system: Floats | None = None,
    ) -> None:
        """See `share_cpu`."""
        nodes = self._nodes = len(capacity)
        free = capacity if system is None else np.maximum(capacity - system, 0.0)
        whole = self._whole = np.rint(free * NANO).astype(np.int64)
        self.node, self._alone = node, whole[node]
        is_unlimited = limit == UNLIMITED
        self.limits = not bool(is_unlimited.all())
        """Whether a limit may refuse something to a pod."""
        self.quota = np.where(is_unlimited, np.int64(_MOST_CORES * NANO), np.maximum(limit, MIN_MILLI_LIMIT) * 10**6)
        """By pod: its limit, in nano cores."""
        weight = self._weight = cpu_weight(np.where(qos == QosClass.BEST_EFFORT, MIN_SHARES, cpu_shares(request)))
        child, children = self._child, self._children = _children(node, qos, nodes)
        top_weight = self._top_weight = _child_weights(request, qos, weight, child, children, nodes)
        first = np.arange(2 * nodes) % nodes if nodes else np.zeros(0, np.int64)
        top_node = self._top_node = np.concatenate((first, node[qos == QosClass.GUARANTEED]))
        self.entitled = _entitled(weight, top_weight, child, children, whole[node], node, top_node, nodes)
        """By pod: the nano cores that it gets when everybody on its node wants all."""

    def share(self, demand: Floats) -> CpuShares:
        """Divides the CPU; `demand` in cores, by pod."""
        wanted = in_nano(demand)
        asked = np.minimum(wanted, self.quota)
        granted, idle = self.fill(asked)
        found = np.minimum(np.maximum(granted + idle[self.node], self.entitled), self.quota)
        refused = np.minimum(wanted, np.maximum(self._alone, asked)) - asked
        return CpuShares(
            granted=granted / NANO,
            available=found / NANO,
            alone=np.minimum(asked, self._alone) / NANO,
            throttled=refused / NANO if self.limits else np.zeros(len(asked)),
        )

    def fill(self, asked: Floats) -> tuple[Floats, Floats]:
        """What each pod gets that asks for so much within its limit, and what each node has left; in nano cores."""
        granted = asked
        used = np.bincount(self.node, weights=granted, minlength=self._nodes)
        if (used > self._whole).any():
            granted = self._filled(asked.astype(np.int64))
            used = np.bincount(self.node, weights=granted, minlength=self._nodes)
        return granted, np.maximum(self._whole - used, 0.0)

    def _filled(self, asked: Ints) -> Floats:
        """What each gets where a node has less than its pods ask for."""
        child, weight = self._child, self._weight
        top_demand = _sums(asked, child, self._children)
        _, level = water_fill(self._top_node, self._whole, top_demand, self._top_weight)
        room = _granted(top_demand, self._top_weight, level[self._top_node])
        # What a group gets in whole nano cores; a group that gets all it wants hands it on without rounding.
        inside = np.where(room >= top_demand, top_demand, np.floor(room)).astype(np.int64)
        _, inner = water_fill(child, inside, asked, weight)
        return _granted(asked, weight, inner[child])


def _children(node: Ints, qos: Ints, nodes: int) -> tuple[Ints, int]:
    """The child of `kubepods` that each pod is in: BestEffort groups, Burstable groups, then Guaranteed pods."""
    guaranteed = qos == QosClass.GUARANTEED
    child = np.where(qos == QosClass.BURSTABLE, nodes + node, node)
    single = int(guaranteed.sum())
    child[guaranteed] = 2 * nodes + np.arange(single)
    return child.astype(np.int64), 2 * nodes + single


def _child_weights(request: Ints, qos: Ints, weight: Ints, child: Ints, children: int, nodes: int) -> Ints:
    burstable = _small_sums(np.where(qos == QosClass.BURSTABLE, request, 0), child, children)
    result = np.ones(children, dtype=np.int64)
    result[nodes : 2 * nodes] = cpu_weight(cpu_shares(burstable[nodes : 2 * nodes]))
    result[2 * nodes :] = weight[qos == QosClass.GUARANTEED]
    return result


def _entitled(
    weight: Ints, top_weight: Ints, child: Ints, children: int, whole: Ints, node: Ints, top_node: Ints, nodes: int
) -> Floats:
    """What each pod gets when everybody on its node wants all."""
    present = np.bincount(child, minlength=children) > 0
    together = np.bincount(top_node, weights=np.where(present, top_weight, 0), minlength=nodes)
    within = _small_sums(weight, child, children)
    return whole * (top_weight[child] / together[node]) * (weight / within[child])


def water_fill(group: Ints, capacity: Ints, demand: Ints, weight: Ints) -> tuple[Floats, Floats]:
    """Per entry what it gets, and per group the level: everybody gets min(demand, weight · level).

    `group` is a row of `capacity`; `demand` and `capacity` in whole units, `weight` at least 1. The level is infinite
    where all demand is met, else the one at which the capacity is used up. Groups do not touch each other, bit by bit.
    """
    groups = len(capacity)
    level = np.full(groups, np.inf)
    short = np.flatnonzero(_sums(demand, group, groups) > capacity)
    if not short.size:
        return demand.astype(np.float64), level
    renumbered = np.full(groups, -1, dtype=np.int64)
    renumbered[short] = np.arange(short.size)
    members = np.flatnonzero(renumbered[group] >= 0)
    level[short] = _levels(renumbered[group[members]], capacity[short], demand[members], weight[members])
    return _granted(demand, weight, level[group]), level


def _levels(group: Ints, capacity: Ints, demand: Ints, weight: Ints) -> Floats:
    """The levels of groups that are all short of capacity; `group` counts from 0 without holes."""
    order = np.lexsort((demand / weight, group))
    g, d, w = group[order], demand[order], weight[order]
    starts = np.flatnonzero(np.append(True, np.diff(g) > 0))
    # Before each entry, the demands below it are met in full and the weights from it on share the rest.
    met = np.cumsum(d) - d
    met -= met[starts][g]
    passed = np.cumsum(w) - w
    passed -= passed[starts][g]
    sharing = _sums(w, g, len(capacity))[g] - passed
    rest = capacity[g] - met
    # The first entry that its share of the rest does not satisfy sets the level. There is one: demand exceeds capacity.
    unmet = np.flatnonzero(d / w > rest / sharing)
    first = unmet[np.append(True, np.diff(g[unmet]) > 0)]
    levels: Floats = np.zeros(len(capacity))
    levels[g[first]] = np.maximum(rest[first], 0) / sharing[first]
    return levels


def _granted(demand: Ints, weight: Ints, level: Floats) -> Floats:
    result: Floats = np.minimum(demand, weight * level)
    return result


def _sums(amounts: Ints, group: Ints, groups: int) -> Ints:
    result = np.zeros(groups, dtype=np.int64)
    np.add.at(result, group, amounts)
    return result


def _small_sums(amounts: Ints, group: Ints, groups: int) -> Ints:
    """The same where sums of floats are exact: below 2**53."""
    return np.bincount(group, weights=amounts, minlength=groups).astype(np.int64)


def _ratio(part: Floats, whole: Floats) -> Floats:
    result = np.zeros_like(part)
    np.divide(part, whole, out=result, where=whole > 0)
    return result
