"""Pools in the Cluster Autoscaler's terms: node groups, what requests are worth, the priorities of the expander."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stowplan_autoscaling.supply.cluster_autoscaler.expanders import PodPrices
from stowplan_autoscaling.supply.cluster_autoscaler.node_groups import NodeGroup
from stowplan_autoscaling.supply.pools import Pool, node_of
from stowplan_scheduler.resources import Resource

_GIB_IN_CORES: Final = 0.004446 / 0.033174
"""Price of a GiB of memory over that of a core (cloudprovider/gce/gce_price_info.go)."""


def node_group_of(pool: Pool) -> NodeGroup:
    """A pool as a node group, with a node of its first offer as template."""
    kind = pool.types[0]
    offer = kind.offers[0]
    template = node_of(pool, kind, offer, f"{pool.name}-template", ready=True)
    return NodeGroup(
        id=pool.name,
        min_size=pool.spec.min,
        max_size=1000 if pool.spec.max is None else pool.spec.max,
        template=template,
        price=offer.price,
    )


def pod_prices_of(pools: Sequence[Pool]) -> PodPrices:
    """What requests are worth: a GiB against a core as upstream's provider for GCE has it, no pool being cheaper."""
    rates: list[float] = []
    for pool in pools:
        capacity = Resource.from_map({**pool.types[0].capacity})
        cores = capacity.milli_cpu / 1000 + capacity.memory / (1 << 30) * _GIB_IN_CORES
        if cores:
            rates.append(pool.types[0].offers[0].price / cores)
    core = min(rates, default=0.0) or 1.0
    return PodPrices(core=core, gib=core * _GIB_IN_CORES)


def priorities_of(pools: Sequence[Pool]) -> str:
    """The ConfigMap of the priority expander: pools by priority, by exact name."""
    by_priority: dict[int, list[str]] = {}
    for pool in pools:
        by_priority.setdefault(pool.spec.priority, []).append(f"^{re.escape(pool.name)}$")
    return "".join(
        f"{priority}:\n" + "".join(f"- {name}\n" for name in names) for priority, names in by_priority.items()
    )
