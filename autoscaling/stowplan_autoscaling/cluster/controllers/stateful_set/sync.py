"""One sync of one StatefulSet.

Follows UpdateStatefulSet (pkg/controller/statefulset/stateful_set_control.go of Kubernetes v1.37.2): missing replicas
are made from the lowest ordinal up, surplus ones deleted from the highest down, then pods of an old revision are
deleted within maxUnavailable. OrderedReady does one of these at a time and waits for pods to be available; Parallel
does all at once, in batches of 1, 2, 4, ... up to 500.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from stowplan_autoscaling.cluster.int_or_percent import scaled_value
from stowplan_autoscaling.cluster.objects.stateful_set import ON_DELETE, RECREATE, StatefulSet, StatefulSetStatus
from stowplan_autoscaling.kernel import MILLISECOND

from . import identity
from .history import Revisions, find_revisions, truncate
from .identity import ordinal_of, revision_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.expectations import WriteRecord
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.objects.controller_revision import ControllerRevision
    from stowplan_autoscaling.cluster.pods import ClusterPod
    from stowplan_autoscaling.cluster.work_queue import Steps
    from stowplan_autoscaling.kernel import Kernel

MAX_BATCH: Final = 500
STATUS_TRIES: Final = 5
STATUS_RETRY_DELAY: Final = 10 * MILLISECOND

Act = Callable[[int], Generator[int, None, bool]]
"""Does something about one pod; returns whether an ordered sync must stop here."""


class StatefulSetSync:
    """The set and its pods as seen. `next_check`: nanoseconds until the next look, 0 for none."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        written: WriteRecord,
        key: str,
        stateful_set: StatefulSet,
        pods: Iterable[ClusterPod],
        revisions: Sequence[ControllerRevision],
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._written = written
        self._key = key
        self._set = stateful_set
        self._pods = [pod for pod in pods if pod.metadata.name.rpartition("-")[0] == stateful_set.metadata.name]
        self._place = {pod.metadata.uid: number for number, pod in enumerate(self._pods)}
        """Place in the order of creation."""
        self._held = revisions
        self._now = kernel.now
        self._wait = identity.whole_wait(stateful_set)
        self._ordered = not stateful_set.spec.is_parallel
        self._replicas: list[ClusterPod | None] = []
        self._condemned: list[ClusterPod] = []
        self._made: dict[int, ClusterPod] = {}
        """Pods that this sync made, by place. They are no part of the status yet."""
        self._deleted_old = 0
        self.next_check = 0

    # ---- the flow ----------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The whole sync. Raises ApiError."""
        revisions = yield from find_revisions(self._client, self._set, self._held)
        self._refuse_recreate()
        self._sort_out()
        failure: ApiError | None = None
        try:
            yield from self._act(revisions)
        except ApiError as error:
            failure = error
        status = self._status(revisions)
        try:
            yield from self._write(status)
        except ApiError as error:
            failure = failure or error
        yield from truncate(self._client, self._set, self._held, revisions, self._pods)
        if failure is not None:
            raise failure
        if self._wait > 0 and status.ready_replicas != status.available_replicas:
            self.next_check = identity.next_check(self._pods, self._wait, self._now)

    def _refuse_recreate(self) -> None:
        """The strategy belongs to a feature that is off."""
        if self._set.spec.strategy_type != RECREATE:
            return
        meta = self._set.metadata
        gate = "StatefulSetRecreateStrategy"
        message = f"statefulset {meta.namespace}/{meta.name} uses Recreate strategy but feature gate {gate} is disabled"
        self._client.event("StatefulSet", self._set, "UnknownStrategy", message, warning=True)
        raise ApiError(message)

    def _sort_out(self) -> None:
        """The pods by their ordinals: replicas, and those outside the range from the highest down."""
        first, count = self._set.spec.first_ordinal, self._set.spec.replicas
        self._replicas = [None] * count
        for pod in self._pods:
            ordinal = ordinal_of(pod)
            if first <= ordinal < first + count:
                self._replicas[ordinal - first] = pod
            elif ordinal >= 0:
                self._condemned.append(pod)
        self._condemned.sort(key=ordinal_of, reverse=True)

    def _act(self, revisions: Revisions) -> Steps:
        def replica(index: int) -> Generator[int, None, bool]:
            return self._replica(index, revisions)

        if (yield from self._for_all(len(self._replicas), replica, self._replica_order())):
            return
        lowest = self._first_unavailable()

        def condemned(index: int) -> Generator[int, None, bool]:
            return self._condemn(self._condemned[index], lowest)

        if (
            yield from self._for_all(
                len(self._condemned), condemned, lambda index: (0, self._place[self._condemned[index].metadata.uid])
            )
        ):
            return
        if self._set.spec.strategy_type != ON_DELETE:
            yield from self._update(revisions.update.metadata.name)

    def _replica_order(self) -> Callable[[int], tuple[int, int]]:
        """Within a batch pods are made first, by ordinal; which are missing is settled before the first batch."""
        places = [None if pod is None else self._place[pod.metadata.uid] for pod in self._replicas]

        def order(index: int) -> tuple[int, int]:
            place = places[index]
            return (0, index) if place is None else (1, place)

        return order

    def _for_all(self, count: int, act: Act, order: Callable[[int], tuple[int, int]]) -> Generator[int, None, bool]:
        """One after the other until one says stop; or all in batches, a failing batch being the last.

        Returns whether the sync is over. Raises ApiError.
        """
        if self._ordered:
            for index in range(count):
                if (yield from act(index)):
                    return True
            return False
        start, size = 0, min(count, 1)
        while size > 0:
            failure: ApiError | None = None
            for index in sorted(range(start, start + size), key=order):
                try:
                    yield from act(index)
                except ApiError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            start += size
            size = min(2 * size, count - start, MAX_BATCH)
        return False

    # ---- replicas ----------------------------------------------------------------------------

    def _replica(self, index: int, revisions: Revisions) -> Generator[int, None, bool]:
        pod = self._replicas[index]
        if pod is None:
            self._made[index] = yield from self._create(self._set.spec.first_ordinal + index, revisions)
            return True
        if identity.has_ended(pod):
            if pod.deleted is None:
                yield from self._delete(pod)
            return True
        return (
            pod.deleted is not None
            or not identity.is_running_and_ready(pod)
            or not identity.is_available(pod, self._wait, self._now)
        )

    def _create(self, ordinal: int, revisions: Revisions) -> Generator[int, None, ClusterPod]:
        pod = identity.new_pod(self._set, ordinal, revisions.current, revisions.update)
        yield from self._client.turn()
        try:
            made: ClusterPod = self._client.server.create("Pod", pod)
        except AlreadyExistsError:
            raise
        except ApiError as failure:
            self._event("Create", pod.metadata.name, failure)
            raise
        self._written.wrote(self._key, "Pod", made.version)
        self._event("Create", made.metadata.name)
        return made

    def _delete(self, pod: ClusterPod) -> Steps:
        yield from self._client.turn()
        try:
            self._client.server.delete("Pod", pod.key)
        except NotFoundError:
            pass
        except ApiError as failure:
            self._event("Delete", pod.metadata.name, failure)
            raise
        self._event("Delete", pod.metadata.name)

    def _event(self, verb: str, name: str, failure: ApiError | None = None) -> None:
        said = f"{verb} Pod {name} in StatefulSet {self._set.metadata.name}"
        if failure is None:
            self._client.event("StatefulSet", self._set, f"Successful{verb}", f"{said} successful")
        else:
            self._client.event(
                "StatefulSet", self._set, f"Failed{verb}", f"{said} failed error: {failure}", warning=True
            )

    # ---- pods outside the range --------------------------------------------------------------

    def _first_unavailable(self) -> str:
        """uid of the unavailable pod with the lowest ordinal; "" if a replica is missing, or all are available."""
        for pod in self._replicas:
            if pod is None:
                return ""
            if self._is_unavailable(pod):
                return pod.metadata.uid
        for pod in reversed(self._condemned):
            if self._is_unavailable(pod):
                return pod.metadata.uid
        return ""

    def _is_unavailable(self, pod: ClusterPod) -> bool:
        return pod.deleted is not None or not identity.is_available(pod, self._wait, self._now)

    def _condemn(self, pod: ClusterPod, lowest: str) -> Generator[int, None, bool]:
        if pod.deleted is not None:
            return True
        is_healthy = identity.is_running_and_ready(pod) and identity.is_available(pod, self._wait, self._now)
        if self._ordered and not is_healthy and pod.metadata.uid != lowest:
            return True
        yield from self._delete(pod)
        return True

    # ---- pods of an old revision -------------------------------------------------------------

    def _update(self, name: str) -> Steps:
        """Delete pods that are not of revision `name`, the highest ordinals first."""
        rolling = self._set.spec.rolling_update
        first = 0 if rolling is None else rolling.partition
        most = 1
        if rolling is not None:
            most = max(1, scaled_value(rolling.max_unavailable, self._set.spec.replicas, round_up=False))
        pods = [pod or self._made.get(index) for index, pod in enumerate(self._replicas)]
        unavailable = sum(pod is None or self._is_unavailable(pod) for pod in pods)
        old = [
            (index, pod)
            for index, pod in enumerate(pods)
            if pod is not None and revision_of(pod) != name and pod.deleted is None
        ]
        targets = [pod for index, pod in reversed(old) if index >= first]
        if self._ordered:
            victims = targets[: max(0, most - unavailable)]
        elif unavailable >= most and not any(self._is_unavailable(pod) for _, pod in old):
            victims = []
        else:
            # Old pods that are unavailable anyway cost nothing; what is left of the budget goes to available ones.
            broken = [pod for pod in targets if self._is_unavailable(pod)]
            sound = [pod for pod in targets if not self._is_unavailable(pod)]
            victims = broken + sound[: max(0, most - unavailable)]
        for pod in victims:
            yield from self._delete(pod)
            self._deleted_old += 1

    # ---- status ------------------------------------------------------------------------------

    def _status(self, revisions: Revisions) -> StatefulSetStatus:
        """The pods as they were seen, and what was deleted of the old revision."""
        current, update = revisions.current.metadata.name, revisions.update.metadata.name
        counted = [pod for pod in self._pods if ordinal_of(pod) >= 0]
        ready = [pod for pod in counted if identity.is_running_and_ready(pod)]
        labels = [revision_of(pod) for pod in counted if pod.deleted is None]
        status = StatefulSetStatus(
            observed_generation=self._set.metadata.generation,
            replicas=len(counted),
            ready_replicas=len(ready),
            available_replicas=sum(identity.is_available(pod, self._wait, self._now) for pod in ready),
            current_replicas=labels.count(current) - self._deleted_old,
            updated_replicas=labels.count(update),
            current_revision=current,
            update_revision=update,
            collision_count=revisions.collisions,
            conditions=self._set.status.conditions,
        )
        if status.updated_replicas == status.ready_replicas == status.replicas == self._set.spec.replicas:
            return replace(status, current_replicas=status.updated_replicas, current_revision=update)
        return status

    def _write(self, status: StatefulSetStatus) -> Steps:
        """Write the status if it differs; a conflict is tried again with what is seen then."""
        old = self._set.status
        newer = status.observed_generation > old.observed_generation
        same = replace(status, observed_generation=old.observed_generation, collision_count=old.collision_count)
        if not newer and same == old:
            return
        basis, tries = self._set, STATUS_TRIES
        while True:
            yield from self._client.turn()
            try:
                stored: StatefulSet = self._client.server.update_status("StatefulSet", replace(basis, status=status))
            except ConflictError:
                tries -= 1
                if tries == 0:
                    raise
                basis = self._informers.get("StatefulSet", self._key) or basis
                yield self._kernel.now + STATUS_RETRY_DELAY
            else:
                self._written.wrote(self._key, "StatefulSet", stored.version)
                return
