"""Small nodes and pods for the tests of the cache."""

from __future__ import annotations

import msgspec

from stowplan_scheduler.framework.pod_info import PodInfo, PodInterner
from stowplan_scheduler.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
    Volume,
)

_INTERNER = PodInterner()
_TERM = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "x"}), topology_key="zone")
AFFINITY = Affinity(pod_affinity=PodAffinity())
ANTI_AFFINITY = Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(_TERM,)))

Images = dict[str, int]
"""Image name -> size in bytes."""


def node(
    name: str,
    zone: str = "",
    cpu: str = "4",
    images: Images | None = None,
    features: tuple[str, ...] = (),
    region: str = "",
) -> Node:
    """A node with 110 places for pods; `cpu` is what it offers."""
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    if region:
        labels["topology.kubernetes.io/region"] = region
    held = tuple(ContainerImage(names=(image,), size_bytes=size) for image, size in (images or {}).items())
    status = NodeStatus(allocatable={"cpu": cpu, "pods": "110"}, images=held, declared_features=features)
    return Node(metadata=ObjectMeta(name=name, labels=labels), status=status)


def spec(
    cpu: str = "100m",
    affinity: Affinity | None = None,
    ports: tuple[tuple[str, int], ...] = (),
    claims: tuple[str, ...] = (),
    extra: dict[str, str] | None = None,
) -> PodSpec:
    """What a pod asks for: `ports` are (address, host port), `claims` names of volume claims."""
    requests: dict[str, str | int | float] = {"cpu": cpu, "memory": "1Gi", **(extra or {})}
    taken = tuple(ContainerPort(host_ip=ip, host_port=port) for ip, port in ports)
    container = Container(name="c", resources=ResourceRequirements(requests=requests), ports=taken)
    volumes = tuple(
        Volume(name=f"v{at}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for at, claim in enumerate(claims)
    )
    return PodSpec(containers=(container,), affinity=affinity, volumes=volumes)


PLAIN = spec()


def pod(uid: str, node_name: str = "", of: PodSpec = PLAIN, *, terminating: bool = False) -> PodInfo:
    """A pod in namespace "ns" on `node_name`. It has the shape of the unassigned pod, as an assumed pod has."""
    meta = ObjectMeta(name=f"pod-{uid}", namespace="ns", uid=uid)
    if terminating:
        meta = msgspec.structs.replace(meta, deletion_timestamp="2024-01-01T00:00:00Z")
    shape = _INTERNER.info(Pod(metadata=ObjectMeta(namespace="ns"), spec=of)).shape
    return PodInfo(Pod(metadata=meta, spec=msgspec.structs.replace(of, node_name=node_name)), shape)
