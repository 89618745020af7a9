"""The DaemonSet controller: what wakes it.

Follows pkg/controller/daemon/daemon_controller.go of Kubernetes v1.37.2. A node that comes, or whose labels or taints
change, is looked at by a queue of its own, which then wakes the sets that it concerns; a node that goes wakes nobody.
Adoption of pods and revisions is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stowplan_autoscaling.cluster.expectations import Expectations, WriteRecord
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import controller_of, key_of

from .backoff import FailureBackoff
from .ledger import Ledger
from .placement import Placement
from .sync import DaemonSetSync

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_scheduler.objects import Node

KIND: Final = "DaemonSet"


class DaemonSetController:
    """All DaemonSets of a cluster. The informers must watch ControllerRevision, too."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 2) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._expectations = Expectations()
        self._written = WriteRecord(informers)
        self._backoff = FailureBackoff()
        self._ledgers: dict[str, Ledger] = {}
        """By uid of the set; made when it is first synced."""
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        self.node_queue = WorkQueue(kernel, self._node_sync, workers=workers)
        informers.handle(KIND, self._set_changed)
        informers.handle("Pod", self._pod_changed)
        informers.handle("Node", self._node_changed)

    # ---- what wakes it -----------------------------------------------------------------------

    def _set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if old is not None and (new is None or old.spec != new.spec or old.metadata.uid != new.metadata.uid):
            self._ledgers.pop(old.metadata.uid, None)
        changed = new or old
        if changed is None:
            return
        key = key_of(changed.metadata)
        if new is None or (old is not None and old.metadata.uid != new.metadata.uid):
            self._written.clear(key)
            self._expectations.forget(key)
        self.queue.add(key)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod.metadata)
        if pod is None or owner is None or owner.kind != KIND:
            return
        ledger = self._ledgers.get(owner.uid)
        if ledger is not None:
            ledger.pod_changed(old, new)
        key = f"{pod.metadata.namespace}/{owner.name}"
        found: DaemonSet | None = self._informers.get(KIND, key)
        if found is None or found.metadata.uid != owner.uid:
            return
        if new is None or new.deleted is not None:
            self._expectations.lower(key, 0, 1)
        elif old is None:
            self._expectations.lower(key, 1, 0)
        self.queue.add(key)
        wait = found.spec.min_ready_seconds
        if wait > 0 and old is not None and new is not None and new.deleted is None:
            if new.is_ready and not old.is_ready:
                self.queue.add_after(key, wait * SECOND + SECOND)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None:
            return
        if old is not None and new is not None:
            if old.metadata.labels == new.metadata.labels and old.spec.taints == new.spec.taints:
                return
        name = node.metadata.name
        for ledger in self._ledgers.values():
            ledger.node_changed(name, new)
        if new is not None:
            self.node_queue.add(name)

    def _node_sync(self, name: str) -> None:
        """Wake the sets that have to make or delete a pod there, or to count it anew."""
        node: Node | None = self._informers.get("Node", name)
        if node is None:
            return
        there = set()
        for pod in self._informers.pods_on(name).values():
            owner = controller_of(pod.metadata)
            if owner is not None and owner.kind == KIND:
                there.add(f"{pod.metadata.namespace}/{owner.name}")
        sets: dict[str, DaemonSet] = self._informers.all(KIND)
        for key in sorted(sets):
            ledger = self._ledgers.get(sets[key].metadata.uid)
            run, keep = Placement(sets[key]).judge(node) if ledger is None else ledger.at(name)[0]
            if key in there:
                is_concerned = not keep or sets[key].status.number_misscheduled > 0
            else:
                is_concerned = run
            if is_concerned:
                self.queue.add(key)

    # ---- syncs -------------------------------------------------------------------------------

    def sync(self, key: str) -> Steps | None:
        """Bring one DaemonSet closer to its spec. Raises ApiError to be called again."""
        self._written.check(key)
        found: DaemonSet | None = self._informers.get(KIND, key)
        if found is None:
            self._expectations.forget(key)
            self._written.clear(key)
            return None
        selector = found.spec.selector
        if selector is not None and not selector.match_labels and not selector.match_expressions:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._client.event(KIND, found, "SelectingAll", message, warning=True)
            return None
        uid = found.metadata.uid
        ledger = self._ledgers.get(uid)
        if ledger is None:
            pods = self._informers.group(uid).pods.values()
            ledger = self._ledgers[uid] = Ledger(found, self._informers.all("Node"), pods)
        return DaemonSetSync(
            self._kernel,
            self._informers,
            self._client,
            self.queue,
            self._expectations,
            self._written,
            self._backoff,
            ledger,
            key,
            found,
        ).steps()
