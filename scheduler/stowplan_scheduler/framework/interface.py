"""What a plugin is: the extension points and the contract of vector rules.

A filter or score rule answers for many nodes at once. It gets a `NodeView` (some rows of the node table, as they are
or as they would be) and returns one number per row: a reason id (0 = the node passes) or a raw score. It never raises
for a node; a failure is a reason with code ERROR, which surfaces only if upstream would have visited that node.

A rule declares its inputs, so that the runtime knows how long an answer holds:

* `Inputs.NODE`: the node object only (labels, taints, images). Kept per (rule, key) until the node changes.
* `Inputs.ROW`: the node and its pods. Kept per (rule, key) until the row changes.
* `Inputs.CLUSTER`: other nodes' pods, or anything else. Asked in every cycle; such rules read counters of their own.

The *key* of a rule is what it reads of the pod. For NODE and ROW rules `pre_filter` and `pre_score` must depend on that
key alone; their result is kept with it.

Whoever prefers one node at a time subclasses `PerNodeFilter` or `PerNodeScore`. Extension points follow
staging/src/k8s.io/kube-scheduler/framework/interface.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .cluster_event import EventRegistration
from .status import SUCCESS, Code, Status

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.cache.node_view import NodeView

    from .cluster import Cluster
    from .cycle_state import CycleState
    from .diagnosis import Diagnosis
    from .pod_info import PodInfo
    from .search import Search
    from .selection import Rng

ReasonIds = NDArray[np.int16]
Scores = NDArray[np.int64]

MAX_NODE_SCORE = 100


class Inputs(Enum):
    """What a rule reads besides the pod."""

    NODE = "node"
    ROW = "row"
    CLUSTER = "cluster"


class ReasonTable:
    """The reasons a filter rule can give; id 0 is "passes"."""

    __slots__ = ("_ids", "has_errors", "statuses")

    def __init__(self, plugin: str) -> None:
        """Only "passes" so far."""
        self.has_errors = False
        self.statuses: list[Status] = [Status(Code.SUCCESS, (), plugin)]
        self._ids: dict[tuple[Code, tuple[str, ...]], int] = {}

    def id(self, code: Code, *reasons: str) -> int:
        """The id of a status, made on first use."""
        found = self._ids.get((code, reasons))
        if found is None:
            found = len(self.statuses)
            self.statuses.append(Status(code, reasons, self.statuses[0].plugin))
            self._ids[code, reasons] = found
            self.has_errors = self.has_errors or code is Code.ERROR
        return found

    def of(self, status: Status) -> int:
        """The id of any status; 0 for success."""
        return 0 if status.is_success else self.id(status.code, *status.reasons)


class PreFilterResult(msgspec.Struct, frozen=True):
    """status Success, Skip (no Filter for this pod) or a rejection of the pod as a whole.

    `node_names` restricts the search to those nodes (None: all). `state` is handed to `filter`; it must not be changed
    afterwards.
    """

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    state: object = None


class PreScoreResult(msgspec.Struct, frozen=True):
    """status Success or Skip (no Score for this pod), anything else is an error; `state` is handed to `score`."""

    status: Status = SUCCESS
    state: object = None


class Plugin(ABC):
    """Any plugin. `name` is the name in a configuration."""

    name: ClassVar[str]

    def events(self) -> tuple[EventRegistration, ...] | None:
        """Which changes may make a pod schedulable that this plugin rejected; None: any change (upstream's default)."""
        return None


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success, or the reason why the pod must wait outside."""


class QueueSortPlugin(Plugin):
    """Orders the active queue."""

    @abstractmethod
    def sort_key(self, pod: PodInfo, timestamp: int) -> tuple[int, ...]:
        """Smaller comes first; `timestamp` is when the pod entered, in nanoseconds."""


class FilterPlugin(Plugin):
    """PreFilter and Filter of one plugin."""

    filter_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    filter_reads_requests: ClassVar[bool] = True
    """Whether the key depends on amounts of resources; if not, pods that differ only in those share the answer."""
    filter_by_amounts: ClassVar[bool] = False
    """Whether a ROW rule reads nothing of a node but `NodeInfo.amounts`: nodes alike in those share the answer."""

    def __init__(self) -> None:
        """Make the table of reasons."""
        self.reasons = ReasonTable(self.name)

    def filter_key(self, pod: PodInfo) -> Hashable:
        """What `pre_filter` and `filter` read of the pod (NODE and ROW rules)."""
        return pod.shape

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Look at the pod once before the nodes."""
        return PreFilterResult()

    @abstractmethod
    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """One reason id per row, shape (view.size,)."""

    def with_pods(
        self, state: object, pod: PodInfo, added: Sequence[PodInfo], removed: Sequence[PodInfo], node: NodeInfo
    ) -> object:
        """The state if pods were added to and removed from `node` (upstream AddPod and RemovePod of PreFilter).

        ROW rules need nothing here: a hypothetical view shows them the changed node.
        """
        return state


class ScorePlugin(Plugin):
    """PreScore, Score and NormalizeScore of one plugin."""

    score_inputs: ClassVar[Inputs] = Inputs.CLUSTER
    score_reads_requests: ClassVar[bool] = True
    """As `filter_reads_requests`."""
    score_by_amounts: ClassVar[bool] = False
    """As `filter_by_amounts`."""
    normalizes: ClassVar[bool] = False
    in_range: ClassVar[bool] = False
    """Final scores are in 0..100 by construction. Those of other rules are looked at."""

    def score_key(self, pod: PodInfo) -> Hashable:
        """What `pre_score` and `score` read of the pod (NODE and ROW rules)."""
        return pod.shape

    def pre_score(self, pod: PodInfo, cluster: Cluster, feasible: NodeView) -> PreScoreResult:
        """Look at the pod (and, CLUSTER rules only, at the feasible nodes) once before scoring."""
        return PreScoreResult()

    @abstractmethod
    def score(self, state: object, view: NodeView) -> Scores:
        """Raw scores, int64, shape (view.size,)."""

    def normalize(self, state: object, scores: Scores, view: NodeView | None) -> Scores:
        """Scores in 0..100 from raw ones; `view` holds the scored rows, None if all rows have the same raw score."""
        return scores


class PostFilterResult(msgspec.Struct, frozen=True):
    """status Success (room was made), Unschedulable (go on with the next plugin), anything else ends the loop.

    `nominated_node`: None keeps the nomination the pod has, "" takes it away, a name replaces it. `victims` are to be
    deleted, the most important first.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()


class PostFilterPlugin(Plugin):
    """Tries to make room for a pod that fits nowhere."""

    @abstractmethod
    def post_filter(self, pod: PodInfo, search: Search, diagnosis: Diagnosis, rng: Rng) -> PostFilterResult:
        """Look at the failed search: its cluster, its verdicts, and hypotheses about it (`search.hypothetical`)."""


class ReservePlugin(Plugin):
    """Reserves and, if the attempt fails later, gives back."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success, or why the node cannot be taken."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back what `reserve` took; must be idempotent."""


class PermitPlugin(Plugin):
    """Allows, delays or refuses binding."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, int]:
        """Status (Success, Wait or a rejection) and, for Wait, the longest wait in nanoseconds."""


class PreBindPlugin(Plugin):
    """Prepares binding with effects that the caller carries out."""

    @abstractmethod
    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success: a PreBind effect asks for something to be prepared. Skip: nothing to do. Else why not to bind."""


class BindPlugin(Plugin):
    """Binds a pod, or leaves it to the next plugin (Skip)."""

    @abstractmethod
    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Success: bind the pod to the node. Skip: not mine."""


class PostBindPlugin(Plugin):
    """Is told after a pod was bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Clean up."""


class PerNodeFilter(FilterPlugin):
    """Adapter for rules written for one node at a time."""

    def filter(self, state: object, view: NodeView) -> ReasonIds:
        """Ask `filter_node` row by row."""
        return np.array([self.reasons.of(self.filter_node(state, view.info(i))) for i in range(view.size)], np.int16)

    @abstractmethod
    def filter_node(self, state: object, node: NodeInfo) -> Status:
        """The verdict about one node."""


class PerNodeScore(ScorePlugin):
    """Adapter for scores written for one node at a time."""

    def score(self, state: object, view: NodeView) -> Scores:
        """Ask `score_node` row by row."""
        return np.array([self.score_node(state, view.info(i)) for i in range(view.size)], np.int64)

    @abstractmethod
    def score_node(self, state: object, node: NodeInfo) -> int:
        """The raw score of one node."""


def default_normalize(scores: Scores, *, reverse: bool) -> Scores:
    """Scale so that the largest becomes 100 (upstream plugins/helper/normalize_score.go)."""
    largest = int(scores.max()) if len(scores) else 0
    if largest <= 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled
