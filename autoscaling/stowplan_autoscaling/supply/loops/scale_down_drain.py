"""How the Cluster Autoscaler's decision to delete a node is carried out: delay, evictions, wait, machine.

    tainted --delay--> evict all, again every 10 s for 2 min --> look every 5 s --> machine goes
                  |-> may not go after all   |-> refused           |-> still there
                  '-------------------- failed: the taint goes ----'

Follows pkg/core/scaledown/actuation/{actuator,drain,group_deletion_scheduler}.go of kubernetes-sigs/cluster-autoscaler
with default flags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.errors import ApiError, NotFoundError
from stowplan_autoscaling.cluster.eviction import evict
from stowplan_autoscaling.kernel import SECOND
from stowplan_autoscaling.supply.cluster_autoscaler.decisions import (
    EVICTION_HEADROOM,
    EVICTION_RETRY,
    GONE_POLL,
    DeleteNode,
)

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.api_server import ApiServer
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel

_DEFAULT_GRACE: Final = 30


class ScaleDownDrain:
    """The deletion of one node. `failure`: why it was given up, "" if not.

    `objection()` says why the node may not go after all, "" for nothing; it is asked after the delay. `on_done` is told
    at the end, `failure` being set by then; the machine is still there.
    """

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        decision: DeleteNode,
        *,
        objection: Callable[[], str],
        on_done: Callable[[ScaleDownDrain], None],
    ) -> None:
        self._kernel = kernel
        self._server = server
        self._objection = objection
        self._on_done = on_done
        self._until = 0
        self._waiting = {info.pod.key: info.pod.metadata.uid for info in decision.evict}
        self._refused = dict(self._waiting)
        self.decision = decision
        self.failure = ""

    def start(self) -> None:
        """Begin after the delay; the taint is on the node already."""
        self._kernel.at(self._kernel.now + self.decision.delay, self._begin)

    def _begin(self) -> None:
        objection = self._objection()
        if objection:
            self._finish(objection)
            return
        self._until = self._kernel.now + self.decision.give_up
        for info in self.decision.evict_daemons:
            self._try(info.pod.key, info.pod.metadata.uid)
        self._evict()

    def _evict(self) -> None:
        """Try those that were not evicted yet; all are tried side by side, each until its time is up."""
        for key, uid in list(self._refused.items()):
            if self._try(key, uid):
                del self._refused[key]
        if not self._refused:
            self._until = self._kernel.now + self.decision.max_grace * SECOND + EVICTION_HEADROOM
            self._look()
        else:
            self._kernel.at(self._kernel.now + EVICTION_RETRY, self._evict_again)

    def _evict_again(self) -> None:
        """Whether there is time left is looked at after each pause."""
        if self._kernel.now < self._until:
            self._evict()
        else:
            self._finish(f"{next(iter(self._refused))} could not be evicted in {self.decision.give_up // SECOND} s")

    def _try(self, key: str, uid: str) -> bool:
        """Whether the pod is on its way out, or gone."""
        pod: ClusterPod | None = self._server.find("Pod", key)
        if pod is None or pod.metadata.uid != uid:
            return True
        grace = pod.spec.termination_grace_period_seconds
        try:
            evict(
                self._server,
                key,
                self._kernel.now,
                grace=min(_DEFAULT_GRACE if grace is None else grace, self.decision.max_grace),
            )
        except NotFoundError:
            return True
        except ApiError:
            return False
        return True

    def _look(self) -> None:
        left = [key for key, uid in self._waiting.items() if self._is_there(key, uid)]
        if not left:
            self._finish("")
        elif self._kernel.now < self._until:
            self._kernel.at(self._kernel.now + GONE_POLL, self._look)
        else:
            self._finish(f"{left[0]} has not ended in time")

    def _is_there(self, key: str, uid: str) -> bool:
        pod: ClusterPod | None = self._server.find("Pod", key)
        return pod is not None and pod.metadata.uid == uid and pod.spec.node_name == self.decision.node

    def _finish(self, failure: str) -> None:
        self.failure = failure
        self._on_done(self)
