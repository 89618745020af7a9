"""The StatefulSet controller: what wakes it.

Follows pkg/controller/statefulset/stateful_set.go of Kubernetes v1.37.2. Adoption of pods and revisions is left out,
and so are volume claims: a pod is made without waiting for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.expectations import WriteRecord
from stowplan_autoscaling.cluster.objects.stateful_set import StatefulSet
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import controller_of, key_of

from .sync import StatefulSetSync

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel

KIND: Final = "StatefulSet"


class StatefulSetController:
    """All StatefulSets of a cluster. The informers must watch ControllerRevision, too."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 5) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._written = WriteRecord(informers)
        self._settled: dict[str, tuple[int, ...]] = {}
        """Versions of the set, its pods and its revisions at which a sync found nothing to do, by key."""
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        informers.handle(KIND, self._set_changed)
        informers.handle("Pod", self._pod_changed)

    def _set_changed(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        changed = new or old
        if changed is not None:
            self.queue.add(key_of(changed.metadata))

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod.metadata)
        if pod is None or owner is None or owner.kind != KIND:
            return
        key = f"{pod.metadata.namespace}/{owner.name}"
        found: StatefulSet | None = self._informers.get(KIND, key)
        if found is None or found.metadata.uid != owner.uid:
            return
        self.queue.add(key)
        wait = found.spec.min_ready_seconds
        if wait > 0 and old is not None and new is not None and new.is_ready and not old.is_ready:
            self.queue.add_after(key, wait * SECOND)

    def sync(self, key: str) -> Steps | None:
        """Bring one StatefulSet closer to its spec. Raises ApiError to be called again."""
        self._written.check(key)
        found: StatefulSet | None = self._informers.get(KIND, key)
        if found is None:
            self._written.clear(key)
            self._settled.pop(key, None)
            return None
        uid = found.metadata.uid
        group, revisions = self._informers.group(uid), tuple(self._informers.children(uid).values())
        versions = (found.version, group.version, *(each.version for each in revisions))
        if self._settled.get(key) == versions:
            return None
        run = StatefulSetSync(
            self._kernel, self._informers, self._client, self._written, key, found, group.pods.values(), revisions
        )
        return self._sync(key, run, versions)

    def _sync(self, key: str, run: StatefulSetSync, versions: tuple[int, ...]) -> Steps:
        before = self._client.server.version
        yield from run.steps()
        if run.next_check:
            self.queue.add_after(key, run.next_check)
        elif self._client.server.version == before:
            self._settled[key] = versions
