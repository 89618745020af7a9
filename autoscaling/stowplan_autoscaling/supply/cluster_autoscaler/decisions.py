"""What a loop decides, as data: to be carried out by whoever runs the autoscaler.

Times are nanoseconds; sizes are numbers of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stowplan_scheduler.objects import Taint

if TYPE_CHECKING:
    from stowplan_scheduler.framework.pod_info import PodInfo

    from .cluster_state import Failure

# Results of a scale-up, in upstream's words
SUCCESSFUL: Final = "ScaleUpSuccessful"
NO_OPTIONS: Final = "ScaleUpNoOptionsAvailable"
NOT_NEEDED: Final = "ScaleUpNotNeeded"
NOT_TRIED: Final = "ScaleUpNotTried"
ERROR: Final = "ScaleUpError"
UP_IN_COOLDOWN: Final = "ScaleUpInCooldown"
LIMITED_BY_MAX_NODES: Final = "ScaleUpLimitedByMaxNodesTotal"

# Results of a scale-down
DOWN_NOT_TRIED: Final = "NotTried"
DOWN_IN_COOLDOWN: Final = "InCooldown"
NO_CANDIDATES: Final = "NoCandidates"
NO_NODE_DELETED: Final = "NoNodeDeleted"
DELETE_STARTED: Final = "NodeDeleteStarted"


@dataclass(frozen=True, slots=True)
class IncreaseSize:
    """Set a group's target size to `size`, which is `amount` more than it was."""

    group: str
    amount: int
    size: int


@dataclass(frozen=True, slots=True)
class DecreaseTargetSize:
    """Lower a group's target size by `amount` without deleting a node: what was asked for never came."""

    group: str
    amount: int


@dataclass(frozen=True, slots=True)
class DeleteInstances:
    """Delete machines that never became nodes; `reason`: "unregistered" or "failed creation"."""

    group: str
    instances: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AddTaint:
    """Put a taint on a node; `cordon`: make it unschedulable too."""

    node: str
    taint: Taint
    cordon: bool = False


@dataclass(frozen=True, slots=True)
class RemoveTaint:
    """Take the taint of that key off a node; `uncordon`: make it schedulable too."""

    node: str
    key: str
    uncordon: bool = False


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node that carries its taint by now.

    Wait `delay`; ask `StaticAutoscaler.pods_to_move` again whether the node may go; evict `evict` (all must go) and
    `evict_daemons` (best effort), each with a grace of at most `max_grace` s; try a refused eviction again each
    `EVICTION_RETRY` until `give_up` has passed; wait until they are gone, at most `max_grace` s and
    `EVICTION_HEADROOM`; then delete the machine. Tell the autoscaler with `deletion_ended` how it ended.
    """

    node: str
    group: str
    drain: bool
    evict: tuple[PodInfo, ...]
    evict_daemons: tuple[PodInfo, ...]
    delay: int
    give_up: int
    max_grace: int


Decision = IncreaseSize | DecreaseTargetSize | DeleteInstances | AddTaint | RemoveTaint | DeleteNode

EVICTION_RETRY: Final = 10 * 10**9
EVICTION_HEADROOM: Final = 30 * 10**9
GONE_POLL: Final = 5 * 10**9


@dataclass(frozen=True, slots=True)
class OptionReport:
    """A way to scale up that was put to the expander."""

    group: str
    node_count: int
    pods: tuple[PodInfo, ...]
    similar: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnhelpedPod:
    """A pod that no scale-up would help. Reasons by group: `rejected` it would not fit, `skipped` it may not grow."""

    pod: PodInfo
    rejected: Mapping[str, tuple[str, ...]]
    skipped: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class ScaleUpStatus:
    """How scaling up went. `plan`: (group, size before, size after)."""

    result: str = NOT_TRIED
    plan: list[tuple[str, int, int]] = field(default_factory=list)
    triggered: tuple[PodInfo, ...] = ()
    awaiting: tuple[PodInfo, ...] = ()
    """Pods that another group would help, in a later loop."""
    unhelped: list[UnhelpedPod] = field(default_factory=list)
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups that were not considered, and why."""
    limited_by: tuple[str, ...] = ()
    """What made the plan smaller than the chosen option: "max-nodes-total", "cpu", "memory", "max-size"."""


@dataclass(frozen=True, slots=True)
class Unremovable:
    """A node that stays. `pod` and `pod_reason`: what blocks it; `utilization`: None where it was not worked out."""

    reason: str
    pod: PodInfo | None = None
    pod_reason: str = ""
    utilization: float | None = None


@dataclass(frozen=True, slots=True)
class ScaledDownNode:
    """A node whose deletion was started. `evicted`: pods on it that must go, in order."""

    node: str
    group: str
    evicted: tuple[PodInfo, ...]
    utilization: float | None


@dataclass(slots=True)
class ScaleDownStatus:
    """How scaling down went. `unneeded`: names in order, with the time since when."""

    result: str = DOWN_NOT_TRIED
    unneeded: dict[str, int] = field(default_factory=dict)
    unremovable: dict[str, Unremovable] = field(default_factory=dict)
    deleted: list[ScaledDownNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group as the status ConfigMap tells it. `upcoming`: nodes that are still to come."""

    target: int
    ready: int
    unready: int
    not_started: int
    unregistered: int
    long_unregistered: int
    upcoming: int
    healthy: bool


@dataclass(slots=True)
class LoopResult:
    """One loop: what is to be done, in order, and why.

    `healthy`: whether the cluster was fit to be scaled. `options` and `chosen`: what the expander saw and took; several
    rounds if salvos are on.
    """

    now: int
    decisions: list[Decision] = field(default_factory=list)
    scale_up: ScaleUpStatus = field(default_factory=ScaleUpStatus)
    scale_down: ScaleDownStatus = field(default_factory=ScaleDownStatus)
    options: list[OptionReport] = field(default_factory=list)
    chosen: str = ""
    failures: list[Failure] = field(default_factory=list)
    groups: dict[str, GroupStatus] = field(default_factory=dict)
    healthy: bool = True
