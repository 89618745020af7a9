"""Draining a node as `kubectl drain` does: cordon, evict all pods side by side, wait until they are gone.

An eviction that a budget refuses is tried again after 5 s; whether an evicted pod is gone is looked at every second.
DaemonSet pods stay. Follows staging/src/k8s.io/kubectl/pkg/drain/{drain,filters}.go of Kubernetes v1.37.2, with
--ignore-daemonsets, --force and --delete-emptydir-data; the client's own rate limit (50 requests/s, burst 300) is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import controller_of

from .errors import ApiError, NotFoundError, TooManyRequestsError
from .eviction import evict

if TYPE_CHECKING:
    from stowplan_autoscaling.kernel import Kernel

    from .api_server import ApiServer
    from .pods import ClusterPod

RETRY: Final = 5 * SECOND
POLL: Final = SECOND


class Drain:
    """One drain of one node. `evicted`, `refusals` and `failures` say how it goes."""

    def __init__(
        self,
        kernel: Kernel,
        server: ApiServer,
        node: str,
        *,
        grace: int | None = None,
        on_done: Callable[[Drain], None] | None = None,
    ) -> None:
        """`grace`: seconds for each pod, by default its own. `on_done`: called when every pod is gone or has failed."""
        self._kernel = kernel
        self._server = server
        self._grace = grace
        self._on_done = on_done
        self._open: set[str] = set()
        self.node = node
        self.started: int | None = None
        self.finished: int | None = None
        self.evicted: list[str] = []
        """Keys of the pods whose eviction was accepted, in order."""
        self.refusals = 0
        """Evictions that a budget refused."""
        self.failures: dict[str, str] = {}
        """Texts of errors that end the attempts for a pod, by key."""

    def start(self, pods: Iterable[ClusterPod] | None = None) -> None:
        """Cordon the node and begin. `pods`: those on the node, if they are known. Raises NotFoundError."""
        self.started = self._kernel.now
        node = self._server.get("Node", self.node)
        if not node.spec.unschedulable:
            self._server.update("Node", replace(node, spec=replace(node.spec, unschedulable=True)))
        if pods is None:
            pods = [pod for pod in self._server.all("Pod").values() if pod.spec.node_name == self.node]
        leaving = sorted((pod for pod in pods if not _stays(pod)), key=lambda pod: pod.key)
        self._open.update(pod.key for pod in leaving)
        for pod in leaving:
            self._evict(pod.key, pod.metadata.uid)
        self._check_end()

    def _evict(self, key: str, uid: str) -> None:
        if self._is_gone(key, uid):
            self._close(key)
            return
        try:
            evict(self._server, key, self._kernel.now, grace=self._grace)
        except TooManyRequestsError:
            self.refusals += 1
            self._kernel.later(self._kernel.now + RETRY, lambda: self._evict(key, uid))
        except NotFoundError:
            self._close(key)
        except ApiError as failure:
            self.failures[key] = str(failure)
            self._close(key)
        else:
            self.evicted.append(key)
            self._wait(key, uid)

    def _wait(self, key: str, uid: str) -> None:
        if self._is_gone(key, uid):
            self._close(key)
        else:
            self._kernel.later(self._kernel.now + POLL, lambda: self._wait(key, uid))

    def _is_gone(self, key: str, uid: str) -> bool:
        pod: ClusterPod | None = self._server.find("Pod", key)
        return pod is None or pod.metadata.uid != uid

    def _close(self, key: str) -> None:
        self._open.discard(key)
        self._check_end()

    def _check_end(self) -> None:
        if not self._open and self.finished is None:
            self.finished = self._kernel.now
            if self._on_done is not None:
                self._on_done(self)


def _stays(pod: ClusterPod) -> bool:
    """Pods of DaemonSets, unless they have ended: others would only be made again."""
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "DaemonSet" and not pod.is_terminal
