"""Node pools as the engines and the provider take them: which machines there are, at what price, and what their nodes
look like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from stowplan_autoscaling.cluster.admission.chain import NOT_READY
from stowplan_autoscaling.cluster.objects.nodes import Node
from stowplan_scheduler.objects import NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Taint

if TYPE_CHECKING:
    from stowplan_autoscaling.resources.cluster import Taint as TaintSpec
    from stowplan_autoscaling.resources.node_pools import NodePool

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"

POOL_LABEL: Final = "stowplan.io/node-pool"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
CAPACITY_TYPE_LABEL: Final = "karpenter.sh/capacity-type"
KARPENTER_POOL_LABEL: Final = "karpenter.sh/nodepool"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ARCH_LABEL: Final = "kubernetes.io/arch"
OS_LABEL: Final = "kubernetes.io/os"


class Offer(NamedTuple):
    """A machine of a type can be had there, on those terms, at that price per hour. `zone` "" is none in particular."""

    zone: str
    capacity_type: str
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """A kind of machine: amounts as texts of quantities; `labels` without those that kubelet and pools add."""

    name: str
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    architecture: str = "amd64"
    os: str = "linux"
    labels: Mapping[str, str] = field(default_factory=dict)
    offers: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool with its types, each with the offers that the pool may use, by name of the type. `spec` says the rest.

    `changes`: what becomes of it during the run, by time in nanoseconds from the start of the run.
    """

    spec: NodePool
    types: tuple[MachineType, ...]
    changes: tuple[tuple[int, Pool], ...] = ()
    taints: tuple[Taint, ...] = field(init=False)
    """Those of every node."""
    startup_taints: tuple[Taint, ...] = field(init=False)
    """Those of a node that is not initialised."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "taints", _taints(self.spec.taints))
        object.__setattr__(self, "startup_taints", _taints(self.spec.startup_taints))

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.spec.name

    def labels(self, machine: MachineType, offer: Offer) -> dict[str, str]:
        """The labels of such a node, all but its host name."""
        labels = {
            ARCH_LABEL: machine.architecture,
            OS_LABEL: machine.os,
            INSTANCE_TYPE_LABEL: machine.name,
            POOL_LABEL: self.name,
            KARPENTER_POOL_LABEL: self.name,
            CAPACITY_TYPE_LABEL: offer.capacity_type,
        }
        if offer.zone:
            labels[ZONE_LABEL] = offer.zone
        return {**labels, **machine.labels, **self.spec.labels}

    @property
    def all_types(self) -> tuple[MachineType, ...]:
        """The types with the offers that the pool may use now or after any of its changes, by name of the type."""
        if not self.changes:
            return self.types
        found: dict[str, MachineType] = {}
        for each in (self, *(after for _, after in self.changes)):
            for machine in each.types:
                known = found.get(machine.name)
                offers = () if known is None else known.offers
                more = tuple(offer for offer in machine.offers if offer not in offers)
                found[machine.name] = replace(machine, offers=(*offers, *more))
        return tuple(found[name] for name in sorted(found))

    def cheapest(self) -> tuple[MachineType, Offer]:
        """Where the initial nodes of a pool with a choice come from; the first by name at equal prices."""
        choices = [(offer.price, machine.name, offer, machine) for machine in self.types for offer in machine.offers]
        _, _, offer, machine = min(choices, key=lambda each: (each[0], each[1], each[2].capacity_type, each[2].zone))
        return machine, offer


def _taints(given: Iterable[TaintSpec]) -> tuple[Taint, ...]:
    return tuple(Taint(key=each.key, value=each.value, effect=each.effect) for each in given)


def provider_id(offer: Offer, name: str) -> str:
    """spec.providerID of a node."""
    return f"stowplan:///{offer.zone}/{name}"


def node_of(pool: Pool, machine: MachineType, offer: Offer, name: str, *, ready: bool) -> Node:
    """The Node as its kubelet registers it: not ready yet, and tainted; or `ready`, as one that has been there."""
    taints = pool.taints if ready else (*pool.taints, *pool.startup_taints, NOT_READY)
    condition = NodeCondition(
        type="Ready", status="True" if ready else "False", reason="KubeletReady" if ready else "KubeletNotReady"
    )
    return Node(
        metadata=ObjectMeta(name=name, labels={**pool.labels(machine, offer), HOSTNAME_LABEL: name}),
        spec=NodeSpec(taints=taints, provider_id=provider_id(offer, name)),
        status=NodeStatus(
            capacity=dict(machine.capacity), allocatable=dict(machine.allocatable), conditions=(condition,)
        ),
    )
