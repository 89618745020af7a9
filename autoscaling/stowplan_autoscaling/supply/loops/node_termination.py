"""How Karpenter terminates one node: taint, tiers of pods, at least five seconds, then the machine.

    karpenter.sh/disrupted --> [ not critical | its daemons | critical | its daemons ], each when the one before is gone
                                 '-> evicted; refusals are tried again after 100 ms, 200 ms ... 10 s

With a grace period of termination, a pod whose own grace period would pass the deadline is deleted in time whatever its
budget says. Pods that tolerate the taint stay. Follows pkg/controllers/node/termination/{controller.go,
terminator/terminator.go, terminator/eviction.go} and pkg/utils/pod/scheduling.go of Karpenter v1.15.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.errors import ApiError, ConflictError, NotFoundError
from stowplan_autoscaling.cluster.eviction import evict
from stowplan_autoscaling.kernel import MILLISECOND, MINUTE, SECOND
from stowplan_autoscaling.supply.karpenter.pods import is_daemon, is_mirror
from stowplan_autoscaling.supply.karpenter.taints import DISRUPTED
from stowplan_scheduler.tolerations import is_tolerated

from .node_taints import add_taint

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel

POLL: Final = SECOND
MIN_DRAIN_TIME: Final = 5 * SECOND
STUCK_AFTER: Final = MINUTE
"""A pod that should have been gone for so long is waited for no more."""
_BASE_DELAY: Final = 100 * MILLISECOND
_MOST_DELAY: Final = 10 * SECOND
_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class NodeTermination:
    """The termination of one node.

    `pods_on(node)`: the pods of a node by key. `grace`: nanoseconds that it may take; None: for ever.
    `is_kept(pod)`: whether the pod must not be disrupted now.
    `on_drained` is told when the machine can go.
    """

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        node: str,
        *,
        pods_on: Callable[[str], Mapping[str, ClusterPod]],
        grace: int | None,
        is_kept: Callable[[ClusterPod], bool],
        on_drained: Callable[[NodeTermination], None],
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._pods_on = pods_on
        self._is_kept = is_kept
        self._on_drained = on_drained
        self._began = kernel.now
        self._deadline = None if grace is None else kernel.now + grace
        self._queued: dict[str, int] = {}
        """Delay of the next try by uid."""
        self.node = node

    def start(self) -> None:
        """Taint the node and begin."""
        add_taint(self._server, self.node, DISRUPTED)
        self._look()

    def _look(self) -> None:
        if self._server.find("Node", self.node) is None:
            self._on_drained(self)
            return
        waiting = [pod for pod in self._pods_on(self.node).values() if self._is_waited_for(pod)]
        late = [pod for pod in waiting if self._must_go(pod)]
        for pod in late:
            self._queue(pod)
        tiers: tuple[list[ClusterPod], ...] = ([], [], [], [])
        for pod in waiting:
            if pod not in late:
                tiers[_tier(pod)].append(pod)
        for pod in next((tier for tier in tiers if tier), ()):
            self._queue(pod)
        if waiting or self._kernel.now - self._began < MIN_DRAIN_TIME:
            self._kernel.at(self._kernel.now + POLL, self._look)
        else:
            self._on_drained(self)

    def _is_waited_for(self, pod: ClusterPod) -> bool:
        if pod.is_terminal:
            return False
        if pod.deleted is not None and self._kernel.now - pod.deleted > STUCK_AFTER:
            return False
        return not is_tolerated(DISRUPTED, pod.spec.tolerations) and not is_mirror(pod)

    def _must_go(self, pod: ClusterPod) -> bool:
        """Whether its own grace period would end after the deadline."""
        if self._deadline is None:
            return False
        if pod.deleted is not None:
            return pod.deleted > self._deadline
        grace = pod.spec.termination_grace_period_seconds
        return grace is not None and self._kernel.now > self._deadline - grace * SECOND

    # ---- the queue of evictions --------------------------------------------------------------

    def _queue(self, pod: ClusterPod) -> None:
        if pod.metadata.uid not in self._queued:
            self._queued[pod.metadata.uid] = _BASE_DELAY
            self._try(pod.key, pod.metadata.uid)

    def _try(self, key: str, uid: str) -> None:
        pod: ClusterPod | None = self._server.find("Pod", key)
        if pod is None or pod.metadata.uid != uid:
            self._queued.pop(uid, None)
        elif self._must_go(pod):
            self._delete(pod)
        elif pod.is_terminal or pod.deleted is not None:
            self._queued.pop(uid, None)
        elif self._is_kept(pod) or not self._evict(pod):
            delay = self._queued[uid]
            self._queued[uid] = min(2 * delay, _MOST_DELAY)
            self._kernel.at(self._kernel.now + delay, lambda: self._try(key, uid))

    def _evict(self, pod: ClusterPod) -> bool:
        """Whether that is settled."""
        try:
            evict(self._server, pod.key, self._kernel.now)
        except (NotFoundError, ConflictError):
            self._queued.pop(pod.metadata.uid, None)
            return True
        except ApiError:
            return False
        self._queued.pop(pod.metadata.uid, None)
        return True

    def _delete(self, pod: ClusterPod) -> None:
        deadline = self._kernel.now if self._deadline is None else self._deadline
        grace = max((deadline - self._kernel.now) // SECOND, 1)
        self._queued.pop(pod.metadata.uid, None)
        self._server.delete("Pod", pod.key, uid=pod.metadata.uid, grace=grace)


def _tier(pod: ClusterPod) -> int:
    return 2 * (pod.spec.priority_class_name in _CRITICAL) + is_daemon(pod)
