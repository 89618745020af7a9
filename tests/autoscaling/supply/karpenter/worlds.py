"""Small clusters for tests of the Karpenter engine: kwok's catalogue, one pool, nodes by type and zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.karpenter import (
    Catalogue,
    ClusterState,
    Engine,
    InstanceType,
    NodeClaim,
    NodePool,
    Offering,
    Options,
    Requirement,
    Requirements,
    Results,
    one_of,
    schedule,
)
from stowplan_autoscaling.supply.karpenter.disruption import DisruptionController, DisruptionQueue
from stowplan_autoscaling.supply.karpenter.disruption.simulation import Scene
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import CPU_LABEL, DOMAIN, KWOK_WELL_KNOWN, kwok_instance_types
from stowplan_autoscaling.supply.karpenter.labels import (
    ARCH,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODE_POOL,
    ON_DEMAND,
    OS,
    REGISTERED,
    SPOT,
    TRUE,
    ZONE,
)
from stowplan_scheduler.objects import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    Taint,
)
from stowplan_scheduler.quantity import NANOS, parse_quantity, quantity_text
from support.builders import PodBuilder

NOW = 1_700_000_000 * SECOND
A, B, C, D = (f"test-zone-{letter}" for letter in "abcd")
KWOK = kwok_instance_types()

_WAITS = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


def pool(name: str = "default", *more: Requirement, cpu_below: int | None = None, **fields: Any) -> NodePool:
    """A pool of linux machines for amd64, on demand, in zone a unless the requirements say otherwise."""
    usual = [one_of(OS, "linux"), one_of(ARCH, "amd64"), one_of(CAPACITY_TYPE, ON_DEMAND), one_of(ZONE, A)]
    named = {requirement.key for requirement in more}
    wanted = [*(r for r in usual if r.key not in named), *more]
    if cpu_below is not None:
        wanted.append(Requirement.of(CPU_LABEL, "Lt", [str(cpu_below)]))
    return NodePool(name=name, requirements=tuple(wanted), **fields)


def instance_type(
    name: str, cpu: str, memory: str, price: float, *, zones: Iterable[str] = (A,), spot: float | None = None,
    labels: Mapping[str, str] | None = None,
) -> InstanceType:  # fmt: skip
    """A type with one price in all its zones, and perhaps a lower one for spot."""
    kinds = {ON_DEMAND: price} | ({SPOT: spot} if spot is not None else {})
    zones = tuple(zones)
    own = {INSTANCE_TYPE: name, ARCH: "amd64", OS: "linux", **(labels or {})}
    return InstanceType(
        name=name,
        requirements=Requirements.of(
            [*(one_of(key, value) for key, value in own.items()), one_of(ZONE, *zones), one_of(CAPACITY_TYPE, *kinds)]
        ),
        offerings=tuple(Offering(zone, kind, cost) for zone in zones for kind, cost in kinds.items()),
        capacity={"cpu": parse_quantity(cpu), "memory": parse_quantity(memory), "pods": 110 * NANOS},
    )


class World:
    """An engine with its catalogue and cluster."""

    def __init__(
        self, *pools: NodePool, types: Iterable[InstanceType] = KWOK, daemons: Iterable[Pod] = (), **options: Any
    ) -> None:
        self.options = Options(well_known=KWOK_WELL_KNOWN, domains=frozenset({"karpenter.sh", DOMAIN}), **options)
        self.engine = Engine(self.options)
        self.types = {item.name: item for item in types}
        self.pools = {each.name: each for each in pools or (pool(),)}
        self.daemons = tuple(daemons)
        self.state = ClusterState(self.engine.shapes)
        self.catalogue = self.made_catalogue()
        self.queue = DisruptionQueue(self.state)
        self.controller = DisruptionController(self.queue)

    def made_catalogue(self) -> Catalogue:
        """The catalogue of the pools as they are."""
        table = self.engine.table(tuple(self.types.values()))
        tables = dict.fromkeys(self.pools, table)
        return Catalogue(self.pools.values(), tables, self.daemons, self.options, self.engine.axis)

    @property
    def scene(self) -> Scene:
        """What disruption methods look at."""
        return Scene(self.engine, self.catalogue, self.state)

    def node(
        self, name: str, type: str, *pods: PodBuilder, zone: str = A, kind: str = ON_DEMAND,
        owner: str | None = "default", initialized: bool = True, since: int = NOW,
        taints: tuple[Taint, ...] = (), labels: Mapping[str, str] | None = None, **claim: Any,
    ) -> None:  # fmt: skip
        """A node of a pool (`owner`; None: of nobody) with pods on it."""
        item = self.types[type]
        own = {r.key: r.single for r in item.requirements if r.single is not None}
        own |= {ZONE: zone, CAPACITY_TYPE: kind, HOSTNAME: name, **(labels or {})}
        if owner is not None:
            own |= {NODE_POOL: owner, REGISTERED: TRUE, **({INITIALIZED: TRUE} if initialized else {})}
            fields = {"initialized": since if initialized else None, "consolidatable": since, "created": since, **claim}
            self.state.update_claim(
                NodeClaim(
                    name=f"claim-{name}", provider_id=f"id-{name}", labels=own, capacity=item.capacity,
                    allocatable=item.allocatable, **fields,
                ),
                NOW,
            )  # fmt: skip
        self.state.update_node(
            Node(
                metadata=ObjectMeta(name=name, labels=own),
                spec=NodeSpec(provider_id=f"id-{name}", taints=taints),
                status=NodeStatus(
                    capacity={n: quantity_text(v) for n, v in item.capacity.items()},
                    allocatable={n: quantity_text(v) for n, v in item.allocatable.items()},
                    conditions=(NodeCondition(type="Ready", status="True"),),
                ),
            ),
            NOW,
        )
        for builder in pods:
            self.state.update_pod(builder.on(name).build(), NOW)

    def pending(self, *pods: PodBuilder) -> None:
        """Pods that the scheduler has given up on."""
        for builder in pods:
            made = builder.build()
            self.state.update_pod(replace(made, status=PodStatus(phase="Pending", conditions=(_WAITS,))), NOW)

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A disruption budget."""
        self.state.budgets[budget.metadata.name] = budget

    def round(self, now: int = NOW) -> Results:
        """One provisioning round."""
        return schedule(self.engine, self.catalogue, self.state, now)


def claims_of(results: Results) -> list[tuple[str, list[str], str]]:
    """(pool, pods, cheapest type) of each claim, by pods."""
    rows = [
        (claim.pool, sorted(pod.metadata.name for pod in claim.pods), claim.types[0].name) for claim in results.claims
    ]
    return sorted(rows, key=lambda row: row[1])


def moves_of(results: Results) -> dict[str, list[str]]:
    """Existing node -> pods that it gets."""
    return {node.name: sorted(pod.metadata.name for pod in pods) for node, pods in results.existing}
