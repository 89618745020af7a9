"""Pod garbage collection: finished pods above a number, and pods whose node is gone.

Follows pkg/controller/podgc/gc_controller.go of Kubernetes v1.37.2. A check every 20 s; a node that is missing is
looked for again after a quarantine of 40 s. Of equally old pods the one that was made first goes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, TRUE, ClusterPod
from stowplan_autoscaling.kernel import SECOND, Timer

from .node_lifecycle.conditions import ready_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.work_queue import Steps
    from stowplan_autoscaling.kernel import Kernel

CHECK_PERIOD: Final = 20 * SECOND
QUARANTINE: Final = 40 * SECOND
TERMINATED_POD_THRESHOLD: Final = 12_500
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbageCollector:
    """The one of a cluster."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        *,
        threshold: int = TERMINATED_POD_THRESHOLD,
        quarantine: int = QUARANTINE,
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._threshold = threshold
        self._quarantine = quarantine
        self._suspects: dict[str, Timer] = {}
        self._due: list[str] = []
        self._finished: dict[str, ClusterPod] = {}
        self._terminating: dict[str, ClusterPod] = {}
        informers.handle("Pod", self._pod_changed)

    def start(self) -> None:
        """Check now, and every 20 s after the end of a check."""
        self._kernel.at(self._kernel.now, self._check)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is not None:
            if new.deleted is not None:
                self._terminating[new.key] = new
            if _is_finished(new):
                self._finished[new.key] = new
        elif old is not None and (old.deleted is not None or _is_finished(old)):
            self._terminating.pop(old.key, None)
            self._finished.pop(old.key, None)

    def _check(self) -> None:
        self._go_on(self._collect())

    def _go_on(self, steps: Steps) -> None:
        for when in steps:
            if when > self._kernel.now:
                self._kernel.at(when, lambda: self._go_on(steps))
                return
        self._kernel.at(self._kernel.now + CHECK_PERIOD, self._check)

    def _collect(self) -> Steps:
        yield from self._collect_finished()
        yield from self._collect_out_of_service()
        yield from self._collect_orphans()

    def _collect_finished(self) -> Steps:
        excess = len(self._finished) - self._threshold
        if excess > 0:
            ordered = sorted(self._finished.values(), key=lambda pod: (pod.created, pod.metadata.name))
            yield from self._remove(ordered[:excess])

    def _collect_out_of_service(self) -> Steps:
        """Pods that hang on a node which an administrator has declared dead."""
        lost = []
        for pod in self._terminating.values():
            node = self._informers.get("Node", pod.spec.node_name)
            if node is None or not any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
                continue
            if ready_status(node) != TRUE:
                lost.append(pod)
        yield from self._remove(sorted(lost, key=lambda pod: (pod.created, pod.metadata.name)))

    def _collect_orphans(self) -> Steps:
        nodes = self._informers.all("Node")
        for name in self._informers.on_node:
            if name not in nodes and name not in self._suspects:
                self._quarantine_node(name)
        due, self._due = self._due, []
        gone = {name for name in due if name not in nodes and self._client.server.find("Node", name) is None}
        orphans = [pod for name in due if name in gone for pod in self._informers.pods_on(name).values()]
        yield from self._remove(sorted(orphans, key=lambda pod: pod.created))

    def _quarantine_node(self, name: str) -> None:
        end = self._kernel.now + self._quarantine
        self._suspects[name] = self._kernel.at(end, lambda: self._released(name))

    def _released(self, name: str) -> None:
        del self._suspects[name]
        self._due.append(name)

    def _remove(self, pods: Iterable[ClusterPod]) -> Steps:
        """Mark them failed and delete them without grace."""
        server = self._client.server
        for pod in pods:
            try:
                if not _is_finished(pod):
                    yield from self._client.turn()
                    stored: ClusterPod = server.get("Pod", pod.key)
                    server.patch(replace(stored, status=replace(stored.status, phase=FAILED)))
                yield from self._client.turn()
                server.delete("Pod", pod.key, grace=0)
            except NotFoundError:
                continue


def _is_finished(pod: ClusterPod) -> bool:
    return pod.status.phase in {SUCCEEDED, FAILED}
