"""The garbage collector: what belonged to a removed object goes, too.

Follows pkg/controller/garbagecollector/garbagecollector.go of Kubernetes v1.37.2 as far as owners that are gone: their
dependents are looked up and deleted in the background, each with two requests; the client has twice the usual limits
(40 requests a second, burst 60). Foreground deletion and orphaning are left out: an object is removed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.api_server import key_of
from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

QPS: Final = 40.0
BURST: Final = 60
OWNERS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
"""Kinds that own others."""


class GarbageCollector:
    """The one of a cluster. `kinds`: those of the owners that the informers watch."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        *,
        workers: int = 20,
        kinds: tuple[str, ...] = OWNERS,
    ) -> None:
        self._informers = informers
        self._client = client
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        for kind in kinds:
            informers.handle(kind, self._owner_changed)

    def _owner_changed(self, old: Any, new: Any) -> None:
        if new is None and old is not None:
            self.queue.add(old.metadata.uid)

    def sync(self, uid: str) -> Steps | None:
        """Delete what an owner that is gone has left, the oldest first."""
        group, children = self._informers.groups.get(uid), self._informers.children(uid)
        dependents = [*(group.pods.values() if group is not None else ()), *children.values()]
        return self._delete(dependents) if dependents else None

    def _delete(self, dependents: list[Any]) -> Steps:
        server = self._client.server
        for each in dependents:
            kind, key = _kind_of(each), key_of(each.metadata)
            yield from self._client.turn()
            if server.find(kind, key) is None:
                continue
            yield from self._client.turn()
            try:
                server.delete(kind, key, uid=each.metadata.uid)
            except NotFoundError:
                continue


def _kind_of(obj: Any) -> str:
    return "Pod" if isinstance(obj, ClusterPod) else type(obj).__name__
