"""From a claim of the solver to a machine: what is asked of the provider, and what the node will look like.

Which of equally cheap offerings comes is the provider's choice (kwok draws one); `cheapest` declares an order instead:
price, then the place in the catalogue, then the zone.

Follows ToNodeClaim of pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go and the labels that
kwok/cloudprovider/cloudprovider.go gives its nodes, Karpenter core v1.15.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stowplan_scheduler.objects import Taint

from .claims import Claim
from .hashing import HASH_VERSION, template_hash
from .instance_types import InstanceType, Offering, available_offerings
from .labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODE_POOL,
    NODE_POOL_HASH,
    NODE_POOL_HASH_VERSION,
    SIMULATION_KEYS,
)
from .requirement import one_of
from .requirements import Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What Karpenter asks a provider for. `types`: the cheapest first; amounts in nano units, durations in nanoseconds.

    `labels` are those that are settled already; the machine adds its type's and offering's, see `node_labels`.
    """

    pool: str
    types: tuple[InstanceType, ...]
    requirements: Requirements
    requests: Mapping[str, int]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    startup_taints: tuple[Taint, ...]
    expire_after: int | None
    termination_grace_period: int | None
    pods: tuple[str, ...]


def launch_request(claim: Claim, undefined: frozenset[str]) -> LaunchRequest:
    """The request for a claim. `undefined`: the labels that a machine may get although nobody mentions them."""
    pool = claim.template.pool
    types = tuple(claim.types)
    wanted = claim.requirements
    minimum = wanted.get(INSTANCE_TYPE).min_values
    wanted = wanted.adding([one_of(INSTANCE_TYPE, *(item.name for item in types))._replace(min_values=minimum)])
    kinds = {offer.capacity_type for item in types for offer in available_offerings(item, wanted, undefined)}
    if kinds:
        wanted = wanted.adding([one_of(CAPACITY_TYPE, *kinds)])
    wanted = wanted.without(SIMULATION_KEYS)
    own = {
        requirement.key: requirement.single
        for requirement in wanted
        if requirement.single is not None and requirement.key not in undefined and requirement.key != HOSTNAME
    }
    return LaunchRequest(
        pool=pool.name,
        types=types,
        requirements=wanted,
        requests=claim.requests,
        labels={**pool.labels, NODE_POOL: pool.name, **pool.marks, **own},
        annotations={**pool.annotations, NODE_POOL_HASH: template_hash(pool), NODE_POOL_HASH_VERSION: HASH_VERSION},
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
        pods=tuple(pod.key for pod in claim.pods),
    )


def offerings(request: LaunchRequest, undefined: frozenset[str]) -> Iterator[tuple[InstanceType, Offering]]:
    """Every type and offering that the request allows, the cheapest first."""
    found = [
        (offer.price, place, offer.zone, item, offer)
        for place, item in enumerate(request.types)
        for offer in available_offerings(item, request.requirements, undefined)
    ]
    found.sort(key=lambda row: row[:3])
    return ((item, offer) for *_, item, offer in found)


def cheapest(request: LaunchRequest, undefined: frozenset[str]) -> tuple[InstanceType, Offering] | None:
    """The type and offering that come if the cheapest is in stock."""
    return next(offerings(request, undefined), None)


def node_labels(request: LaunchRequest, item: InstanceType, offering: Offering, name: str) -> dict[str, str]:
    """The labels of the node that comes of it."""
    labels = dict(request.labels)
    for requirements in (request.requirements, item.requirements, offering.labels):
        labels |= {r.key: r.single for r in requirements if r.single is not None}
    return {**labels, INSTANCE_TYPE: item.name, HOSTNAME: name}
