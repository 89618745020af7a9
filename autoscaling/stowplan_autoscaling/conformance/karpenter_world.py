"""Scenarios of mode `karpenter` as objects of the engine: pools, nodes, pods, catalogue.

Follows the Go program that recorded the answers: its clock, uids, conditions and defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.cluster.objects.policy import PodDisruptionBudget
from stowplan_autoscaling.supply.karpenter.amounts import nano_amounts
from stowplan_autoscaling.supply.karpenter.cluster_state import ClusterState
from stowplan_autoscaling.supply.karpenter.instance_types import InstanceType
from stowplan_autoscaling.supply.karpenter.kwok_catalogue import DOMAIN, KWOK_WELL_KNOWN, kwok_instance_types
from stowplan_autoscaling.supply.karpenter.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    NODE_POOL,
    REGISTERED,
    TRUE,
    ZONE,
)
from stowplan_autoscaling.supply.karpenter.node_claims import NodeClaim
from stowplan_autoscaling.supply.karpenter.node_pools import DEFAULT_EXPIRE_AFTER, Budget, Disruption, NodePool
from stowplan_autoscaling.supply.karpenter.requirement import Requirement
from stowplan_autoscaling.supply.karpenter.scheduler import Catalogue, Engine, Options
from stowplan_scheduler.config.gotext import parse_duration
from stowplan_scheduler.objects import (
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
)
from stowplan_scheduler.quantity import quantity_text
from stowplan_scheduler.timestamps import format_time, parse_time

EPOCH: Final = parse_time("2026-01-05T12:00:00Z")
SECOND: Final = 10**9
PlacedNode = tuple[Mapping[str, Any], Sequence[Pod]]
"""A node of a scenario with the pods on it."""

_NODE_CLASS: Final = f"{DOMAIN}/kwoknodeclass"
_TYPES: Final = kwok_instance_types()


def options_of(scenario: Mapping[str, Any]) -> Options:
    """The settings of a scenario."""
    given = scenario.get("options") or {}
    return Options(
        ignore_preferences=given.get("preferencePolicy") == "Ignore",
        min_values_policy=given.get("minValuesPolicy") or "Strict",
        spot_to_spot=bool(given.get("spotToSpotConsolidation")),
        well_known=KWOK_WELL_KNOWN,
        domains=frozenset({"karpenter.sh", DOMAIN}),
    )


def instance_types(scenario: Mapping[str, Any]) -> list[InstanceType]:
    """The catalogue, narrowed to the scenario's types and with its offerings out of stock."""
    wanted = set(scenario.get("instanceTypes") or ())
    found = [item for item in _TYPES if not wanted or item.name in wanted]
    for gone in scenario.get("unavailableOfferings") or ():
        found = [_without(item, gone) for item in found]
    return found


def _without(item: InstanceType, gone: Mapping[str, str]) -> InstanceType:
    if gone.get("instanceType") not in {None, "", item.name}:
        return item
    offerings = tuple(
        offer._replace(available=False)
        if gone.get("zone") in {None, "", offer.zone} and gone.get("capacityType") in {None, "", offer.capacity_type}
        else offer
        for offer in item.offerings
    )
    return InstanceType(
        name=item.name,
        requirements=item.requirements,
        offerings=offerings,
        capacity=item.capacity,
        overhead=item.overhead,
    )


def node_pool(raw: Mapping[str, Any]) -> NodePool:
    """A pool in karpenter.sh/v1, with the defaults of its definition."""
    spec = raw["spec"]
    template = spec.get("template") or {}
    meta, inner = template.get("metadata") or {}, template.get("spec") or {}
    disruption = spec.get("disruption") or {}
    grace = inner.get("terminationGracePeriod")
    limits = spec.get("limits")
    return NodePool(
        name=raw["metadata"]["name"],
        requirements=tuple(
            Requirement.of(r["key"], r["operator"], tuple(r.get("values") or ()), r.get("minValues"))
            for r in inner.get("requirements") or ()
        ),
        weight=spec.get("weight") or 0,
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        taints=msgspec.convert(inner.get("taints") or (), tuple[Taint, ...]),
        startup_taints=msgspec.convert(inner.get("startupTaints") or (), tuple[Taint, ...]),
        limits=None if limits is None else nano_amounts(limits),
        disruption=Disruption(
            policy=disruption.get("consolidationPolicy") or "WhenEmptyOrUnderutilized",
            consolidate_after=_duration(disruption.get("consolidateAfter"), 0),
            budgets=(Budget(),) if disruption.get("budgets") is None else tuple(map(_budget, disruption["budgets"])),
        ),
        expire_after=_duration(inner.get("expireAfter"), DEFAULT_EXPIRE_AFTER),
        termination_grace_period=None if grace is None else parse_duration(grace),
        marks={_NODE_CLASS: "default"},
    )


def _duration(text: str | None, absent: int) -> int:
    """The program that recorded the answers takes Never for an absent value."""
    return absent if text is None or text == "Never" else parse_duration(text)


def _budget(raw: Mapping[str, Any]) -> Budget:
    reasons, duration = raw.get("reasons"), raw.get("duration")
    return Budget(
        nodes=raw["nodes"],
        reasons=None if reasons is None else tuple(reasons),
        schedule=raw.get("schedule"),
        duration=None if duration is None else parse_duration(duration),
    )


class PodMaker:
    """Makes the pods of workloads; uids count up in the order of making."""

    def __init__(self) -> None:
        self._made = 0

    def pods(self, workloads: Iterable[Mapping[str, Any]] | None, node: str) -> list[Pod]:
        """The replicas of workloads, on a node or pending ("")."""
        made = []
        for workload in workloads or ():
            replicas = workload.get("replicas")
            made += [
                self.pod(workload, f"{workload['name']}-{index}", node)
                for index in range(1 if replicas is None else replicas)
            ]
        return made

    def pod(self, workload: Mapping[str, Any], name: str, node: str) -> Pod:
        """One pod."""
        self._made += 1
        spec = msgspec.convert(workload.get("spec") or {}, PodSpec)
        if not spec.containers:
            only = Container(name="c", image="pause", resources=ResourceRequirements(requests=workload.get("requests")))
            spec = replace(spec, containers=(only,))
        created = format_time(EPOCH - (workload.get("ageSeconds") or 0) * SECOND)
        scheduled = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
        status = PodStatus(phase="Pending", conditions=(scheduled,))
        if node:
            conditions = (PodCondition(type="PodScheduled", status="True"), PodCondition(type="Ready", status="True"))
            status = PodStatus(phase="Running", conditions=conditions, start_time=created)
        return Pod(
            metadata=ObjectMeta(
                name=name,
                namespace="default",
                uid=f"00000000-0000-0000-0000-{self._made:012d}",
                creation_timestamp=created,
                labels=workload.get("labels") or {},
                annotations=workload.get("annotations") or {},
                owner_references=_owners(workload),
            ),
            spec=replace(spec, node_name=node),
            status=status,
        )


def _owners(workload: Mapping[str, Any]) -> tuple[OwnerReference, ...]:
    kind = workload.get("owner") or "ReplicaSet"
    if kind == "None":
        return ()
    name = workload["name"]
    version = "v1" if kind == "Node" else "apps/v1"
    return (OwnerReference(api_version=version, kind=kind, name=name, uid=f"owner-{name}", controller=True),)


def daemon_pod(pod: Pod) -> Pod:
    """The pod that Karpenter makes up for a daemon set: limits stand in for requests that are missing."""

    def filled(container: Container) -> Container:
        limits, requests = container.resources.limits or {}, container.resources.requests or {}
        return replace(container, resources=replace(container.resources, requests={**limits, **requests}))

    spec = replace(
        pod.spec,
        containers=tuple(map(filled, pod.spec.containers)),
        init_containers=tuple(map(filled, pod.spec.init_containers)),
    )
    return Pod(metadata=ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace), spec=spec)


class World:
    """One state of a scenario: the nodes with their pods, what waits, and the engine that decides."""

    def __init__(
        self, scenario: Mapping[str, Any], nodes: Sequence[PlacedNode], pending: Sequence[Pod],
        daemons: Sequence[Pod],
    ) -> None:  # fmt: skip
        self.options = options_of(scenario)
        self.engine = Engine(self.options)
        types = instance_types(scenario)
        by_name = {item.name: item for item in types}
        table = self.engine.table(types)
        pools = [node_pool(raw) for raw in scenario["nodePools"]]
        self.catalogue = Catalogue(pools, {pool.name: table for pool in pools}, daemons, self.options, self.engine.axis)
        self.state = ClusterState(self.engine.shapes)
        for raw in scenario.get("pdbs") or ():
            budget = msgspec.convert(raw, PodDisruptionBudget)
            budget = replace(budget, metadata=replace(budget.metadata, namespace="default"))
            self.state.budgets[budget.metadata.name] = budget
        pool_by_name = {pool.name: pool for pool in pools}
        for raw, pods in nodes:
            pool = pool_by_name.get(raw.get("nodePool") or "")
            node, claim = _node(raw, pool, by_name[raw["instanceType"]])
            if claim is not None:
                self.state.update_claim(claim, EPOCH)
            self.state.update_node(node, EPOCH)
            if raw.get("deleting"):
                self.state.mark_for_deletion([node.spec.provider_id], EPOCH)
            for pod in pods:
                self.state.update_pod(pod, EPOCH)
        for pod in pending:
            self.state.update_pod(pod, EPOCH)


def _node(raw: Mapping[str, Any], pool: NodePool | None, item: InstanceType) -> tuple[Node, NodeClaim | None]:
    name = raw["name"]
    labels = dict(pool.labels) | {NODE_POOL: pool.name} if pool is not None else {}
    labels |= {r.key: r.single for r in item.requirements if r.single is not None}
    labels |= {INSTANCE_TYPE: item.name, ZONE: raw["zone"], CAPACITY_TYPE: raw["capacityType"], HOSTNAME: name}
    labels |= raw.get("labels") or {}
    initialized = raw.get("initialized") is not False
    if pool is not None:
        labels[REGISTERED] = TRUE
        if initialized:
            labels[INITIALIZED] = TRUE
    own = msgspec.convert(raw.get("taints") or (), tuple[Taint, ...])
    created = EPOCH - (raw.get("ageSeconds") or 3600) * SECOND
    provider_id = f"kwok://{name}"
    node = Node(
        metadata=ObjectMeta(
            name=name, labels=labels, annotations=raw.get("annotations") or {}, creation_timestamp=format_time(created)
        ),
        spec=NodeSpec(provider_id=provider_id, taints=(*(pool.taints if pool is not None else ()), *own)),
        status=NodeStatus(
            capacity=_texts(item.capacity),
            allocatable=_texts(item.allocatable),
            conditions=(NodeCondition(type="Ready", status="False" if raw.get("notReady") else "True"),),
        ),
    )
    if pool is None:
        return node, None
    quiet = raw.get("lastPodEventSecondsAgo")
    claim = NodeClaim(
        name=f"nc-{name}",
        provider_id=provider_id,
        created=created,
        labels=labels,
        annotations=raw.get("annotations") or {},
        taints=pool.taints,
        capacity=item.capacity,
        allocatable=item.allocatable,
        expire_after=pool.expire_after,
        initialized=created if initialized else None,
        consolidatable=created if raw.get("consolidatable") is not False else None,
        drifted=created if raw.get("drifted") else None,
        last_pod_event=None if quiet is None else EPOCH - quiet * SECOND,
    )
    return node, claim


def _texts(amounts: Mapping[str, int]) -> dict[str, str | int | float]:
    return {name: quantity_text(nanos) for name, nanos in amounts.items()}
