"""The taint eviction controller: deletes pods from nodes with NoExecute taints, once they tolerate them no longer.

Follows pkg/controller/tainteviction/{taint_eviction,timed_workers}.go of Kubernetes v1.37.2. A change is worked off
when it is seen, which needs no request; deletions wait for the client, side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError
from stowplan_autoscaling.cluster.eviction import with_disruption_target
from stowplan_autoscaling.cluster.work_queue import Steps
from stowplan_autoscaling.kernel import MILLISECOND, SECOND, Timer
from stowplan_scheduler.objects import ObjectMeta, Taint, Toleration
from stowplan_scheduler.tolerations import NO_EXECUTE, tolerates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.objects.nodes import Node
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.kernel import Kernel

ATTEMPTS: Final = 5
PAUSE: Final = 10 * MILLISECOND
DELETION_BY_TAINT_MANAGER: Final = "DeletionByTaintManager"

_FOREVER: Final = -1


class Deletion:
    """A planned deletion; without timer it is under way."""

    __slots__ = ("planned_at", "timer")

    def __init__(self, planned_at: int) -> None:
        self.planned_at = planned_at
        self.timer: Timer | None = None


class TaintEvictionController:
    """The one of a cluster. Needs informers of Node and Pod."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._tainted: dict[str, tuple[Taint, ...]] = {}
        self._deletions: dict[str, Deletion] = {}
        informers.handle("Node", self._node_changed)
        informers.handle("Pod", self._pod_changed)

    @property
    def planned(self) -> dict[str, int]:
        """When pods will be deleted, by key."""
        return {key: each.timer.when for key, each in self._deletions.items() if each.timer is not None}

    # ---- what wakes it -----------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        before = () if old is None else _no_execute(old)
        after = () if new is None else _no_execute(new)
        if old is not None and new is not None and before == after:
            return
        node = new or old
        if node is None:
            return
        name = node.metadata.name
        if not after:
            self._tainted.pop(name, None)
        else:
            self._tainted[name] = after
        if new is None:
            # The deletions that were planned stay: the pods are as good as gone.
            return
        for key, pod in list(self._informers.pods_on(name).items()):
            if after:
                self._process(key, pod.spec.tolerations, after)
            else:
                self._cancel(key)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        if new is None:
            if old is not None:
                self._cancel(old.key)
            return
        if old is not None and old.spec is not new.spec:
            if old.spec.node_name == new.spec.node_name and old.spec.tolerations == new.spec.tolerations:
                return
        elif old is not None:
            return
        taints = self._tainted.get(new.spec.node_name)
        if taints:
            self._process(new.key, new.spec.tolerations, taints)

    # ---- planning ----------------------------------------------------------------------------

    def _process(self, key: str, tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> None:
        """processPodOnNode."""
        used = _used_tolerations(taints, tolerations)
        if used is None:
            self._cancel(key)
            self._add(key, self._kernel.now, self._kernel.now)
            return
        seconds = _shortest(used)
        if seconds == _FOREVER:
            self._cancel(key)
            return
        planned_at = self._kernel.now
        when = planned_at + seconds * SECOND
        planned = self._deletions.get(key)
        if planned is not None and planned.timer is not None:
            if planned.planned_at < planned_at:
                # The time runs from when the first taint was seen.
                return
            self._cancel(key)
        self._add(key, planned_at, when)

    def _add(self, key: str, planned_at: int, when: int) -> None:
        if key in self._deletions:
            return
        deletion = self._deletions[key] = Deletion(planned_at)
        if when <= self._kernel.now:
            self._kernel.soon(lambda: self._begin(key, deletion))
        else:
            deletion.timer = self._kernel.at(when, lambda: self._begin(key, deletion))

    def _cancel(self, key: str) -> None:
        planned = self._deletions.get(key)
        if planned is not None and planned.timer is not None:
            planned.timer.cancel()
            del self._deletions[key]
            self._event(key, f"Cancelling deletion of Pod {key}")

    # ---- deleting ----------------------------------------------------------------------------

    def _begin(self, key: str, deletion: Deletion) -> None:
        deletion.timer = None
        self._event(key, f"Marking for deletion Pod {key}")
        self._go_on(key, self._delete(key))

    def _go_on(self, key: str, steps: Steps) -> None:
        for when in steps:
            if when > self._kernel.now:
                self._kernel.at(when, lambda: self._go_on(key, steps))
                return
        self._deletions.pop(key, None)

    def _delete(self, key: str) -> Steps:
        for _ in range(ATTEMPTS):
            try:
                yield from self._mark_and_delete(key)
            except ApiError:
                yield self._kernel.now + PAUSE
            else:
                return

    def _mark_and_delete(self, key: str) -> Steps:
        server = self._client.server
        yield from self._client.turn()
        pod: ClusterPod = server.get("Pod", key)
        conditions = with_disruption_target(
            pod,
            DELETION_BY_TAINT_MANAGER,
            "Taint manager: deleting due to NoExecute taint",
            server.stamp(self._kernel.now),
        )
        if conditions != pod.status.conditions:
            yield from self._client.turn()
            pod = server.get("Pod", key)
            server.patch(replace(pod, status=replace(pod.status, conditions=conditions)))
        yield from self._client.turn()
        server.delete("Pod", key)

    def _event(self, key: str, message: str) -> None:
        namespace, _, name = key.rpartition("/")
        self._client.event("Pod", _Named(ObjectMeta(namespace=namespace, name=name)), "TaintManagerEviction", message)


class _Named:
    """What events are about where the pod itself may be gone."""

    __slots__ = ("metadata",)

    def __init__(self, metadata: ObjectMeta) -> None:
        self.metadata = metadata


def _no_execute(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def _used_tolerations(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> list[Toleration] | None:
    """The first toleration for each taint; None if a taint has none."""
    used = []
    for taint in taints:
        found = next((each for each in tolerations if tolerates(each, taint)), None)
        if found is None:
            return None
        used.append(found)
    return used


def _shortest(tolerations: Sequence[Toleration]) -> int:
    """Seconds that the pod may stay: 0 at least; -1 for ever."""
    limits = [each.toleration_seconds for each in tolerations if each.toleration_seconds is not None]
    return max(0, min(limits)) if limits else _FOREVER
