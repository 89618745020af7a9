"""The ReplicaSet controller: as many active pods as the spec says.

One sync follows syncReplicaSet (pkg/controller/replicaset/replica_set.go, replica_set_utils.go of Kubernetes v1.37.2),
without adoption: pods that no controller owns are left alone. The pods of a ReplicaSet are counted as they change, so a
sync costs the same for three pods and for three thousand.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.client import SlowStart
from stowplan_autoscaling.cluster.deletion_order import choose_victims
from stowplan_autoscaling.cluster.errors import ApiError, ConflictError, NotFoundError
from stowplan_autoscaling.cluster.expectations import Expectations, WriteRecord
from stowplan_autoscaling.cluster.objects.apps import Condition, ReplicaSet, ReplicaSetStatus
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pod_template import pod_from_template
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.kernel import SECOND, whole_seconds
from stowplan_scheduler.objects import OwnerReference, controller_of, key_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers, PodGroup
    from stowplan_autoscaling.kernel import Kernel

BURST_REPLICAS: Final = 500
"""Pods made or deleted in one sync."""

KIND: Final = "ReplicaSet"
REPLICA_FAILURE: Final = "ReplicaFailure"
_NOTHING_TO_DO: Final = -1


class ReplicaSetController:
    """All ReplicaSets of a cluster."""

    def __init__(self, kernel: Kernel, informers: Informers, client: Client, *, workers: int = 5) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._expectations = Expectations()
        self._written = WriteRecord(informers)
        self._keys: dict[str, str] = {}
        """Keys of the ReplicaSets that are there, by uid."""
        self._settled: dict[str, tuple[int, int, int, int]] = {}
        """Version of the object and the counts of its pods at which a sync found nothing to do, by key."""
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        self.queue.skips = self._needs_nothing
        informers.handle(KIND, self._replica_set_changed)
        informers.handle("Pod", self._pod_changed)

    # ---- what wakes it -----------------------------------------------------------------------

    def _replica_set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed.metadata)
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._forget(key)
            self._keys.pop(old.metadata.uid, None)
        if new is not None:
            self._keys[new.metadata.uid] = key
        self.queue.add(key)

    def _forget(self, key: str) -> None:
        self._written.clear(key)
        self._expectations.forget(key)
        self._settled.pop(key, None)

    def _pod_changed(self, old: ClusterPod | None, new: ClusterPod | None) -> None:
        pod = new or old
        if pod is None:
            return
        key = self._keys.get(pod.owner_uid)
        if key is None:
            return
        if new is None or new.deleted is not None:
            self._expectations.deletion_observed(key, pod.key)
        elif old is None:
            self._expectations.creation_observed(key)
        self.queue.add(key)
        if old is not None and new is not None and new.is_ready and not old.is_ready and new.deleted is None:
            owner: ReplicaSet | None = self._informers.get(KIND, key)
            if owner is not None and owner.spec.min_ready_seconds > 0:
                self.queue.add_after(key, owner.spec.min_ready_seconds * SECOND)

    def _needs_nothing(self, key: str) -> bool:
        """Whether a sync would find all as it should be: after each write of a status, and when a pod only moves on.

        What a sync has written is then seen: other counts change the status, and with it the version.
        """
        settled = self._settled.get(key)
        replica_set: ReplicaSet | None = self._informers.get(KIND, key)
        if settled is None or replica_set is None or settled[0] != replica_set.version:
            return False
        pods = self._informers.group(replica_set.metadata.uid)
        return settled == (replica_set.version, pods.active, pods.ready, pods.terminating)

    # ---- one sync ----------------------------------------------------------------------------

    def sync(self, key: str) -> Steps | None:
        """Bring one ReplicaSet closer to its spec. Raises ApiError to be called again."""
        self._written.check(key)
        replica_set: ReplicaSet | None = self._informers.get(KIND, key)
        if replica_set is None:
            self._forget(key)
            return None
        if self._needs_nothing(key):
            return None
        pods = self._informers.group(replica_set.metadata.uid)
        missing = replica_set.spec.replicas - pods.active
        if missing and self._expectations.are_satisfied(key, self._kernel.now):
            return self._manage(key, replica_set, pods, missing)
        self._finish(key, replica_set, pods, pods.active, pods.ready, pods.terminating, None)
        return None

    def _manage(self, key: str, replica_set: ReplicaSet, pods: PodGroup, missing: int) -> Steps:
        """Create or delete, then write the status of what was there before."""
        active, ready, terminating = pods.active, pods.ready, pods.terminating
        held = tuple(pods.active_pods.values())
        failure: ApiError | None
        if missing > 0:
            creation = self._create(key, replica_set, min(missing, BURST_REPLICAS))
            failure = yield from creation
        else:
            failure = yield from self._delete(key, replica_set, held, min(-missing, BURST_REPLICAS))
        self._finish(key, replica_set, pods, active, ready, terminating, failure, held)
        if failure is not None:
            raise failure

    def _create(self, key: str, replica_set: ReplicaSet, count: int) -> Generator[int, None, ApiError | None]:
        self._expectations.expect_creations(key, count, self._kernel.now)
        meta = replica_set.metadata
        owner = OwnerReference(api_version="apps/v1", kind=KIND, name=meta.name, uid=meta.uid, controller=True)
        pod = pod_from_template(replica_set.spec.template, meta, owner)
        client = self._client

        def create() -> None:
            try:
                made: ClusterPod = client.server.create("Pod", pod)
            except ApiError as failure:
                client.event(KIND, replica_set, "FailedCreate", f"Error creating: {failure}", warning=True)
                raise
            self._written.wrote(key, "Pod", made.version)
            client.event(KIND, replica_set, "SuccessfulCreate", f"Created pod: {made.metadata.name}")

        batches = SlowStart(client, count, create)
        yield from batches.run()
        for _ in range(count - batches.done):
            self._expectations.creation_observed(key)
        return batches.failure

    def _delete(
        self, key: str, replica_set: ReplicaSet, pods: tuple[ClusterPod, ...], count: int
    ) -> Generator[int, None, ApiError | None]:
        chosen = choose_victims(pods, count, self._related(replica_set), self._kernel.now)
        # Upstream starts a goroutine for each; on one processor the last one started runs first.
        victims = (*chosen[-1:], *chosen[:-1])
        self._expectations.expect_deletions(key, [pod.key for pod in victims], self._kernel.now)
        client = self._client
        first: ApiError | None = None
        for pod in victims:
            yield from client.turn()
            try:
                client.server.delete("Pod", pod.key)
                client.event(KIND, replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
            except NotFoundError:
                self._expectations.deletion_observed(key, pod.key)
            except ApiError as failure:
                self._expectations.deletion_observed(key, pod.key)
                client.event(KIND, replica_set, "FailedDelete", f"Error deleting: {failure}", warning=True)
                first = first or failure
        return first

    def _related(self, replica_set: ReplicaSet) -> list[ClusterPod]:
        """The active pods of all ReplicaSets of the same Deployment."""
        owner = controller_of(replica_set.metadata)
        if owner is None:
            return []
        siblings = self._informers.children(owner.uid).values()
        return [pod for sibling in siblings for pod in self._informers.group(sibling.metadata.uid).active_pods.values()]

    # ---- status ------------------------------------------------------------------------------

    def _finish(
        self,
        key: str,
        replica_set: ReplicaSet,
        pods: PodGroup,
        active: int,
        ready: int,
        terminating: int,
        failure: ApiError | None,
        held: tuple[ClusterPod, ...] | None = None,
    ) -> None:
        """Write the status if it is another one; plan the next look at pods that are not available yet."""
        wait = replica_set.spec.min_ready_seconds * SECOND
        available, next_check = ready, _NOTHING_TO_DO
        if wait > 0 and ready:
            if held is None:
                held = tuple(pods.active_pods.values())
            available, next_check = _availability(held, wait, self._kernel.now)
        old = replica_set.status
        status = ReplicaSetStatus(
            observed_generation=old.observed_generation,
            replicas=active,
            fully_labeled_replicas=active,
            ready_replicas=ready,
            available_replicas=available,
            terminating_replicas=terminating,
            conditions=self._conditions(replica_set, active, failure),
        )
        if status == old and replica_set.metadata.generation == old.observed_generation:
            stored = replica_set
        else:
            stored = self._write_status(
                replica_set, replace(status, observed_generation=replica_set.metadata.generation)
            )
        if wait == 0 and active == replica_set.spec.replicas and stored.spec is replica_set.spec:
            # A sync of what is stored now would find nothing to do; after a conflict its spec may be another one.
            self._settled[key] = (stored.version, active, ready, terminating)
        self._written.wrote(key, KIND, stored.version)
        if failure is None and wait > 0 and ready != available:
            self.queue.add_after(key, wait if next_check == _NOTHING_TO_DO else next_check)

    def _conditions(self, replica_set: ReplicaSet, active: int, failure: ApiError | None) -> tuple[Condition, ...]:
        conditions = replica_set.status.conditions
        known = condition_of(conditions, REPLICA_FAILURE)
        if failure is not None and known is None:
            reason = "FailedCreate" if active < replica_set.spec.replicas else "FailedDelete"
            return (
                *conditions,
                Condition(
                    type=REPLICA_FAILURE,
                    status="True",
                    reason=reason,
                    message=str(failure),
                    last_transition_time=whole_seconds(self._kernel.now),
                ),
            )
        if failure is None and known is not None:
            return tuple(condition for condition in conditions if condition.type != REPLICA_FAILURE)
        return conditions

    def _write_status(self, replica_set: ReplicaSet, status: ReplicaSetStatus) -> ReplicaSet:
        """With one retry on what is stored now, as upstream."""
        server = self._client.server
        try:
            stored: ReplicaSet = server.update_status(KIND, replace(replica_set, status=status))
        except ConflictError:
            fresh: ReplicaSet = server.get(KIND, key_of(replica_set.metadata))
            stored = server.update_status(KIND, replace(fresh, status=status))
        return stored


def _availability(pods: tuple[ClusterPod, ...], wait: int, now: int) -> tuple[int, int]:
    """How many are available, and in how many nanoseconds the next one will be."""
    available, next_check = 0, _NOTHING_TO_DO
    for pod in pods:
        if not pod.is_ready:
            continue
        rest = pod.ready_since + wait - now
        if rest <= 0:
            available += 1
        elif next_check == _NOTHING_TO_DO or rest < next_check:
            next_check = rest
    return available, next_check
