"""Node groups as the autoscaler knows them, and what the cloud says of each in a loop.

Follows pkg/cloudprovider/cloud_provider.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from stowplan_scheduler.objects import Node, Pod

from .options import AutoscalingOptions, GroupOptions

RUNNING: Final = "Running"
CREATING: Final = "Creating"
DELETING: Final = "Deleting"

OUT_OF_RESOURCES: Final = "OutOfResourcesErrorClass"
"""Error class of a stock-out or an exhausted quota of the cloud."""
OTHER_ERROR: Final = "OtherErrorClass"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A group of equal nodes that is scaled as one. `template`: a node of it as it would register.

    `template_pods`: pods that come with each node (mirror pods; those of DaemonSets may be given here or be derived
    from the observed DaemonSets). `price`: per node and hour, in any currency.
    """

    id: str
    min_size: int
    max_size: int
    template: Node
    template_pods: tuple[Pod, ...] = ()
    price: float | None = None
    options: GroupOptions = field(default_factory=GroupOptions)
    exists: bool = True


@dataclass(frozen=True, slots=True)
class InstanceError:
    """Why an instance could not be made, or a scale-up failed."""

    error_class: str = OTHER_ERROR
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine of a group. `id` is the node's spec.providerID, or its name where it has none."""

    id: str
    state: str = RUNNING
    error: InstanceError | None = None


@dataclass(slots=True)
class GroupState:
    """What the cloud says of a group now."""

    target_size: int = 0
    instances: tuple[Instance, ...] = ()


class GroupConfig:
    """The options of each group: its own where it has one, otherwise the flags'."""

    __slots__ = ("_options",)

    def __init__(self, options: AutoscalingOptions) -> None:
        self._options = options

    def utilization_threshold(self, group: NodeGroup, *, gpu: bool) -> float:
        """Above this share of its resources a node is needed; `gpu`: the node has accelerators."""
        own, options = group.options, self._options
        if gpu:
            threshold = own.scale_down_gpu_utilization_threshold
            return options.scale_down_gpu_utilization_threshold if threshold is None else threshold
        threshold = own.scale_down_utilization_threshold
        return options.scale_down_utilization_threshold if threshold is None else threshold

    def removal_time(self, group: NodeGroup, *, ready: bool) -> int:
        """How long a node must have been unneeded."""
        own, options = group.options, self._options
        if ready:
            return (
                options.scale_down_unneeded_time
                if own.scale_down_unneeded_time is None
                else own.scale_down_unneeded_time
            )
        return options.scale_down_unready_time if own.scale_down_unready_time is None else own.scale_down_unready_time

    def provision_time(self, group: NodeGroup) -> int:
        """How long an instance may take to register."""
        own = group.options.max_node_provision_time
        return self._options.max_node_provision_time if own is None else own

    def startup_time(self, group: NodeGroup) -> int:
        """How long a registered node may take to become ready."""
        own = group.options.max_node_startup_time
        return self._options.max_node_startup_time if own is None else own

    def ignores_daemon_sets(self, group: NodeGroup) -> bool:
        """Whether the pods of DaemonSets are left out of a node's utilization."""
        own = group.options.ignore_daemonsets_utilization
        return self._options.ignore_daemonsets_utilization if own is None else own


@dataclass(slots=True)
class GroupTable:
    """The groups by id, in the declared order, with their state in this loop."""

    groups: dict[str, NodeGroup]
    states: dict[str, GroupState] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: tuple[NodeGroup, ...]) -> GroupTable:
        """Groups in order of id, all of size 0."""
        ordered = sorted(groups, key=lambda group: group.id)
        return cls({group.id: group for group in ordered}, {group.id: GroupState() for group in ordered})

    def target(self, group_id: str) -> int:
        """The target size."""
        return self.states[group_id].target_size

    def can_decrease(self, group_id: str, amount: int) -> bool:
        """Whether the cloud would lower the target: not below the number of machines that are there."""
        state = self.states[group_id]
        return state.target_size - amount >= len(state.instances)

    def change_target(self, group_id: str, amount: int) -> None:
        """What the cloud's answer to a request of this loop will be."""
        self.states[group_id].target_size += amount
