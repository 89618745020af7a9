"""The garbage collector: what belonged to a removed object goes, too.

Follows pkg/controller/garbagecollector/garbagecollector.go of Kubernetes v1.37.2 as far as owners that are gone: their
dependents are looked up and deleted in the background, each with two requests; the client has twice the usual limits
(40 requests a second, burst 60). Foreground deletion and orphaning are left out: an object is removed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stowplan_autoscaling.cluster.errors import NotFoundError
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_scheduler.objects import controller_of, key_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

OWNERS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
"""Kinds that own others."""
DEPENDENTS: Final = ("Pod", "ReplicaSet", "Job", "ControllerRevision")
"""Kinds that are owned and looked after."""


class GarbageCollector:
    """The one of a cluster. `kinds`, `dependents`: those of the owners and owned that the informers watch.

    Owners that were never there are not missed: a dump need not hold them.
    """

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        *,
        workers: int = 20,
        kinds: tuple[str, ...] = OWNERS,
        dependents: tuple[str, ...] = (),
    ) -> None:
        self._informers = informers
        self._client = client
        self._gone: set[str] = set()
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        for kind in kinds:
            informers.handle(kind, self._owner_changed)
        for kind in dependents:
            informers.handle(kind, self._dependent_changed)

    def _owner_changed(self, old: Any, new: Any) -> None:
        if new is None and old is not None:
            self._gone.add(old.metadata.uid)
            self.queue.add(old.metadata.uid)

    def _dependent_changed(self, old: Any, new: Any) -> None:
        """One may be seen only after its owner has gone."""
        if old is not None or new is None:
            return
        owner = controller_of(new.metadata)
        if owner is not None and owner.uid in self._gone:
            self.queue.add(owner.uid)

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
