"""What a DaemonSet has on each node, kept up to date with the changes of nodes and pods.

Upstream walks over all nodes several times in each sync. Here a change marks its node, a sync looks at marked nodes
only, and the sums over all nodes are kept: so a sync costs what has changed, not what there is. Nodes whose numbers
change as time passes (a ready pod within minReadySeconds) stay marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from stowplan_autoscaling.kernel import SECOND

from .placement import NOT_ELIGIBLE, REVISION_LABEL, Eligibility, Placement, target_node

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_scheduler.objects import Node

_NO_PODS: Mapping[str, ClusterPod] = {}


class NodeNumbers(NamedTuple):
    """What one node adds to the status, and to what is unavailable during an update."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0
    unavailable: int = 0


NOTHING = NodeNumbers()


class Ledger:
    """The nodes of one DaemonSet, as long as its spec stays the same."""

    __slots__ = (
        "_marked", "_numbers", "_open", "_wait", "candidates", "digest", "eligible", "outdated", "placement", "pods",
        "sums", "todo",
    )  # fmt: skip

    def __init__(self, daemon_set: DaemonSet, nodes: Mapping[str, Node], pods: Iterable[ClusterPod]) -> None:
        self.placement = Placement(daemon_set)
        self._wait = daemon_set.spec.min_ready_seconds * SECOND
        self.digest = ""
        """Hash of the revision that `updated`, `candidates` and `outdated` refer to."""
        self.eligible: dict[str, Eligibility] = {name: self.placement.judge(node) for name, node in nodes.items()}
        self.pods: dict[str, dict[str, ClusterPod]] = {}
        """By node and key. Ended pods that are being deleted are left out."""
        self._numbers: dict[str, NodeNumbers] = {}
        self.sums = NOTHING
        self.candidates: dict[str, ClusterPod] = {}
        """Available pods of another revision, by node, where there is no other pod."""
        self.outdated: dict[str, ClusterPod] = {}
        """The same for unavailable ones."""
        self._marked: dict[str, None] = dict.fromkeys(self.eligible)
        self._open: dict[str, None] = {}
        self.todo: dict[str, None] = dict.fromkeys(self.eligible)
        """Nodes at which pods may have to be made or deleted."""
        for pod in pods:
            self.pod_changed(None, pod)

    # ---- changes -----------------------------------------------------------------------------

    def node_changed(self, name: str, node: Node | None) -> None:
        """A node came, went, or has other labels or taints."""
        if node is None:
            self.eligible.pop(name, None)
        else:
            self.eligible[name] = self.placement.judge(node)
        self._mark(name)

    def pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        """A pod of the set came, went or changed."""
        pod = new or old
        name = "" if pod is None else target_node(pod)
        if pod is None or not name:
            return
        if new is not None and not (new.deleted is not None and new.is_terminal):
            self.pods.setdefault(name, {})[new.key] = new
        else:
            held = self.pods.get(name)
            if held is not None:
                held.pop(pod.key, None)
                if not held:
                    del self.pods[name]
        self._mark(name)

    def _mark(self, name: str) -> None:
        self._marked[name] = None
        self.todo[name] = None

    # ---- numbers -----------------------------------------------------------------------------

    def refresh(self, digest: str, now: int) -> None:
        """Bring the sums up to date; `digest` is the hash of the revision that pods are to have."""
        if digest != self.digest:
            self.digest = digest
            self._marked = dict.fromkeys((*self.eligible, *self.pods, *self._numbers))
        names = self._marked | self._open
        if not names:
            return
        self._marked = {}
        sums = list(self.sums)
        for name in names:
            old, new = self._numbers.pop(name, NOTHING), self._evaluate(name, now)
            if new != NOTHING:
                self._numbers[name] = new
            if new != old:
                sums = [total + more - less for total, more, less in zip(sums, new, old, strict=True)]
        self.sums = NodeNumbers(*sums)

    def is_available(self, pod: ClusterPod, now: int) -> bool:
        """Whether the pod has been ready for minReadySeconds."""
        return pod.is_ready and (self._wait == 0 or pod.ready_since + self._wait <= now)

    def _evaluate(self, name: str, now: int) -> NodeNumbers:
        self._open.pop(name, None)
        self.candidates.pop(name, None)
        self.outdated.pop(name, None)
        eligible = self.eligible.get(name)
        pods = self.pods.get(name)
        run = eligible is not None and eligible.run
        if pods is None:
            return NodeNumbers(desired=1, unavailable=1) if run else NOTHING
        if any(pod.is_ready and not self.is_available(pod, now) for pod in pods.values()):
            self._open[name] = None
        unavailable = self._evaluate_update(name, pods, now)
        if not run:
            return NodeNumbers(misscheduled=eligible is not None, unavailable=unavailable)
        first = min(pods.values(), key=by_age)
        return NodeNumbers(
            desired=1,
            current=1,
            ready=first.is_ready,
            available=self.is_available(first, now),
            updated=self.is_updated(first),
            unavailable=unavailable,
        )

    def _evaluate_update(self, name: str, pods: Mapping[str, ClusterPod], now: int) -> int:
        """Whether the node counts as unavailable in an update without surge; notes pods that it may replace."""
        pair = self.split(pods)
        if pair is None:
            return 1
        new, old = pair
        if (new is None) == (old is None):
            return 1
        if new is not None:
            return not self.is_available(new, now)
        if old is not None and self.is_available(old, now):
            self.candidates[name] = old
            return 0
        if old is not None:
            self.outdated[name] = old
        return 1

    def is_updated(self, pod: ClusterPod) -> bool:
        """Whether the pod is of the revision that it should have."""
        return pod.metadata.labels.get(REVISION_LABEL) == self.digest

    def split(self, pods: Mapping[str, ClusterPod]) -> tuple[ClusterPod | None, ClusterPod | None] | None:
        """The pod of the right revision and the other one, deleted ones left out; None if there are more than that."""
        new = old = None
        for pod in pods.values():
            if pod.deleted is not None:
                continue
            if self.is_updated(pod):
                if new is not None:
                    return None
                new = pod
            elif old is not None:
                return None
            else:
                old = pod
        return new, old

    def at(self, name: str) -> tuple[Eligibility, Mapping[str, ClusterPod]]:
        """What holds for a node, and its pods."""
        return self.eligible.get(name, NOT_ELIGIBLE), self.pods.get(name, _NO_PODS)


def by_age(pod: ClusterPod) -> tuple[bool, int, str]:
    """Pods that have a node first, then the older (podByCreationTimestampAndPhase)."""
    return not pod.spec.node_name, pod.created, pod.metadata.name
