"""The plugins for volumes and devices, as far as they are decided: what they do for pods that use neither.

VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone and DynamicResources have nothing to do for most pods,
but two of them still take part in scoring. A pod that does use persistent volumes, in-tree disks or resource claims is
refused before any node is looked at, with a reason that says so: no answer is better than a guess. Which pods a plugin
is concerned with is upstream's rule in each case.

An extended resource that a device class serves is decided where no device has to be chosen: every node has some of it
itself (a device plugin's), or there are no devices at all. Any other pod that asks for one is refused, too.

Follows plugins/{volumerestrictions,nodevolumelimits,volumebinding,volumezone,dynamicresources} of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from stowplan_scheduler.cache.node_view import NodeView
from stowplan_scheduler.framework.cluster import Cluster
from stowplan_scheduler.framework.cluster_event import Action, ClusterEvent, EventRegistration, Resource
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.diagnosis import Diagnosis
from stowplan_scheduler.framework.interface import (
    FilterPlugin,
    Inputs,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterResult,
    PreScoreResult,
    ReasonIds,
    ReservePlugin,
    ScorePlugin,
    Scores,
    default_normalize,
)
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.search import Search
from stowplan_scheduler.framework.selection import Rng
from stowplan_scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from stowplan_scheduler.names import is_dra_extended_resource
from stowplan_scheduler.objects import Pod, Volume
from stowplan_scheduler.resources import Resource as Amounts

VOLUMES: Final = "volumes"
RESOURCE_CLAIMS: Final = "resource claims"
DEVICE_CLASS_RESOURCE: Final = "extended resource served by a device class"


def unsupported_feature(pod: Pod) -> str | None:
    """What the pod uses that Stowplan never decides: VOLUMES, RESOURCE_CLAIMS or None.

    Config maps, secrets, empty directories, image volumes and inline CSI volumes matter to no scheduling rule.
    """
    if any(_has_claim(v) or _has_disk(v) or _is_migratable(v) for v in pod.spec.volumes):
        return VOLUMES
    if pod.spec.resource_claims:
        return RESOURCE_CLAIMS
    return None


def served_requests(request: Amounts, served: Container[str]) -> tuple[str, ...]:
    """The requested extended resources that device classes serve; DynamicResources has to do with such a pod."""
    return tuple(name for name in sorted(request.scalar) if name in served and is_dra_extended_resource(name))


def needs_allocator(pod: Pod, request: Amounts, names: tuple[str, ...], *, has_slices: bool) -> bool:
    """Whether devices must be chosen on a node that has none of the served resources `names` itself.

    If not, there is no device and the node is out. Upstream's allocator gives another answer where it is asked for more
    devices than a claim can hold (an error), or for none because only the pod's overhead names the resource (success).
    """
    return (
        has_slices
        or sum(request.scalar[name] for name in names) > _MAX_DEVICES
        or any(name in (pod.spec.overhead or ()) for name in names)
    )


_MAX_DEVICES = 32
"""Upstream resource/v1 AllocationResultsMaxSize."""


def _refusal(feature: str) -> Status:
    return unresolvable(f"the pod uses {feature}, which Stowplan does not decide yet")


def _has_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _has_disk(volume: Volume) -> bool:
    """A disk that several pods of a node may fight about (volumerestrictions, needsRestrictionsCheck)."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.rbd is not None
        or volume.iscsi is not None
    )


def _is_migratable(volume: Volume) -> bool:
    """An in-tree volume that CSI drivers have taken over (csi-translation-lib, IsInlineMigratable)."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.cinder is not None
        or volume.azure_disk is not None
        or volume.azure_file is not None
        or volume.vsphere_volume is not None
        or volume.portworx_volume is not None
    )


class _VolumeRule(FilterPlugin):
    """PreFilter that skips pods without volumes of its concern and refuses the others."""

    filter_inputs = Inputs.NODE
    filter_reads_requests = False

    @staticmethod
    def concerns(volume: Volume) -> bool:
        """Whether the plugin has to do with such a volume."""
        return volume.persistent_volume_claim is not None

    def filter_key(self, pod: PodInfo) -> bool:
        return any(map(self.concerns, pod.pod.spec.volumes))

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        return PreFilterResult(_refusal(VOLUMES) if self.filter_key(pod) else SKIP)

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        return np.zeros(view.size, np.int16)

    def events(self) -> tuple[EventRegistration, ...]:
        """Volumes of a pod never change, so no event can help."""
        return ()


class VolumeRestrictions(_VolumeRule):
    """Disks that exclude each other, and claims for one pod only."""

    name = "VolumeRestrictions"

    @staticmethod
    def concerns(volume: Volume) -> bool:
        return volume.persistent_volume_claim is not None or _has_disk(volume)


class NodeVolumeLimits(_VolumeRule):
    """How many volumes of a driver a node takes."""

    name = "NodeVolumeLimits"

    @staticmethod
    def concerns(volume: Volume) -> bool:
        return _has_claim(volume) or _is_migratable(volume)


class VolumeZone(_VolumeRule):
    """Bound volumes and the zones of nodes."""

    name = "VolumeZone"


class VolumeBinding(_VolumeRule, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Claims and the volumes for them. Since v1.37 it takes part in scoring for every pod: without claims with 0."""

    name = "VolumeBinding"
    score_inputs = Inputs.NODE
    score_reads_requests = False

    @staticmethod
    def concerns(volume: Volume) -> bool:
        return _has_claim(volume)

    def score_key(self, pod: PodInfo) -> Hashable:
        return None

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """Never Skip, unlike up to v1.36: with storage capacity scoring the plugin always takes part."""
        return PreScoreResult()

    def score(self, state: object, view: NodeView) -> Scores:
        return np.zeros(view.size, np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing was reserved: only pods without claims come this far."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SKIP


class DynamicResources(FilterPlugin, PostFilterPlugin, ScorePlugin, PreEnqueuePlugin, ReservePlugin, PreBindPlugin):
    """Devices. Scores every node 0 for pods without claims, as upstream does."""

    name = "DynamicResources"
    # Device classes and slices come and go, and with them what the plugin has to do.
    filter_inputs = Inputs.CLUSTER
    score_inputs = Inputs.NODE
    score_reads_requests = False
    normalizes = True

    def __init__(self) -> None:
        """Nothing to configure."""
        super().__init__()
        self._no_device = self.reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "cannot allocate all claims")
        self._not_listed = self.reasons.id(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "cannot fit resource")

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Lets pods with claims into the queue, so that they get the refusal below and not a wait for its own sake."""
        return SUCCESS

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        if pod.pod.spec.resource_claims:
            return PreFilterResult(_refusal(RESOURCE_CLAIMS))
        stores, request = cluster.stores, pod.shape.fit
        if not (request.scalar and stores.served):
            return PreFilterResult(SKIP)
        names = served_requests(request, stores.served)
        if not names:
            return PreFilterResult(SKIP)
        if needs_allocator(pod.pod, request, names, has_slices=bool(stores.resource_slices)) and not all(
            cluster.table.all_have(name) for name in names
        ):
            return PreFilterResult(_refusal(f"an {DEVICE_CLASS_RESOURCE}"))
        others = tuple(n for n in sorted(request.scalar) if n not in names and is_dra_extended_resource(n))
        return PreFilterResult(state=_Extended(names, others))

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """A node without a served resource has no device for it; every other extended resource must be listed."""
        extended = cast("_Extended", state)
        codes = np.zeros(view.size, np.int16)
        codes[(view.allocatable(extended.served) == 0).any(axis=0)] = self._no_device
        for name, amounts in zip(extended.others, view.allocatable(extended.others), strict=True):
            # An amount of 0 is enough here, even where NodeResourcesFit ignores the resource.
            for index in np.flatnonzero(amounts == 0).tolist():
                node = view.info(index).node
                if node is None or name not in node.status.allocatable:
                    codes[index] = self._not_listed
        return codes

    def post_filter(self, pod: PodInfo, search: Search, diagnosis: Diagnosis, rng: Rng) -> PostFilterResult:
        """Nothing to deallocate: a rejection without a reason, so that preemption runs.

        Where an earlier PreFilter ended the loop, upstream misses the state that its own PreFilter would have written
        and fails; preemption then does not run. It does not run after a refusal of ours either: no victim would help.
        """
        if unsupported_feature(pod.pod) is not None:
            return PostFilterResult(unresolvable())
        if self.name in search.state.not_asked:
            return PostFilterResult(error("not found"))
        return PostFilterResult(unschedulable())

    def score_key(self, pod: PodInfo) -> Hashable:
        return None

    def score(self, state: object, view: NodeView) -> Scores:
        return np.zeros(view.size, np.int64)

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        return default_normalize(scores, reverse=False)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing was reserved: whatever the pod uses, the node has it itself."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SKIP

    def events(self) -> tuple[EventRegistration, ...]:
        """Nodes, classes and slices; claims are not watched."""
        node_change = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        return (
            EventRegistration(ClusterEvent(Resource.NODE, node_change)),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE)),
            EventRegistration(ClusterEvent(Resource.RESOURCE_SLICE, Action.ADD | Action.UPDATE)),
        )


@dataclass(frozen=True, slots=True)
class _Extended:
    """The extended resources that a pod asks for, by whether device classes serve them."""

    served: tuple[str, ...]
    others: tuple[str, ...]
