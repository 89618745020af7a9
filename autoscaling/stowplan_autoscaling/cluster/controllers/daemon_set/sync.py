"""One sync of one DaemonSet.

Follows syncDaemonSet (pkg/controller/daemon/daemon_controller.go and update.go of Kubernetes v1.37.2): first each
node gets the pod that it lacks and loses those that it should not have; if there was nothing to do, pods of an old
revision are replaced within maxUnavailable, or beside new ones within maxSurge; then the status is written. At most
250 pods are made and 250 deleted in one go. Nodes are visited by name where upstream goes by chance.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.client import SLOW_START, SlowStart
from stowplan_autoscaling.cluster.errors import ApiError, NotFoundError
from stowplan_autoscaling.cluster.int_or_percent import scaled_value
from stowplan_autoscaling.cluster.objects.apps import ROLLING_UPDATE
from stowplan_autoscaling.cluster.objects.daemon_set import DaemonSet
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED, ClusterPod
from stowplan_autoscaling.kernel import SECOND

from . import history
from .ledger import Ledger, by_age
from .placement import new_pod

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.expectations import Expectations, WriteRecord
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
    from stowplan_autoscaling.kernel import Kernel

    from .backoff import FailureBackoff
    from .placement import Eligibility

KIND: Final = "DaemonSet"
BURST_REPLICAS: Final = 250
"""Pods made, and pods deleted, in one go."""
STATUS_TRIES: Final = 2


class DaemonSetSync:
    """The set as seen, and its ledger."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        queue: WorkQueue,
        expectations: Expectations,
        written: WriteRecord,
        backoff: FailureBackoff,
        ledger: Ledger,
        key: str,
        daemon_set: DaemonSet,
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._queue = queue
        self._expectations = expectations
        self._written = written
        self._backoff = backoff
        self._ledger = ledger
        self._key = key
        self._set = daemon_set

    # ---- the flow ----------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The whole sync. Raises ApiError."""
        held = tuple(self._informers.children(self._set.metadata.uid).values())
        found = yield from history.construct(self._client, self._set, held)
        if not self._expectations.are_satisfied(self._key, self._kernel.now):
            yield from self._update_status(found.digest, observed=False)
            return
        failure: ApiError | None = None
        try:
            yield from self._update(found)
        except ApiError as error:
            failure = error
        try:
            yield from self._update_status(found.digest, observed=True)
        except ApiError as error:
            failure = failure or error
        if failure is not None:
            raise failure

    def _update(self, found: history.History) -> Steps:
        self._ledger.refresh(found.digest, self._kernel.now)
        yield from self._manage()
        if self._expectations.are_satisfied(self._key, self._kernel.now) and self._is_rolling:
            self._ledger.refresh(found.digest, self._kernel.now)
            yield from self._roll()
        pods = self._informers.group(self._set.metadata.uid).pods.values()
        yield from history.clean_up(self._client, self._set, found.old, pods)

    @property
    def _is_rolling(self) -> bool:
        return self._set.spec.update_strategy.type == ROLLING_UPDATE

    def _limit(self, name: str, total: int) -> int:
        """maxUnavailable or maxSurge of so many nodes."""
        if not self._is_rolling:
            return 0
        rolling = self._set.spec.update_strategy.rolling_update
        return scaled_value(getattr(rolling, name), total, round_up=True)

    # ---- a pod for each node -----------------------------------------------------------------

    def _manage(self) -> Steps:
        """What the nodes lack and what they have too much; nodes that are as they should be are not looked at again."""
        ledger = self._ledger
        names, ledger.todo = sorted(ledger.todo), {}
        lacking: list[str] = []
        surplus: list[ClusterPod] = []
        stray: list[ClusterPod] = []
        for name in names:
            if name not in ledger.eligible:
                # Nobody else deletes a pod that waits for a node which is gone.
                stray.extend(pod for pod in ledger.pods.get(name, {}).values() if not pod.spec.node_name)
                continue
            eligible, pods = ledger.at(name)
            needs, deletions = self._inspect(name, eligible, pods)
            surplus.extend(deletions)
            if needs:
                lacking.append(name)
            if needs or deletions:
                ledger.todo[name] = None
        surplus.extend(stray)
        yield from self._sync_nodes(surplus, lacking)

    def _inspect(
        self, name: str, eligible: Eligibility, pods: Mapping[str, ClusterPod]
    ) -> tuple[bool, list[ClusterPod]]:
        """Whether the node needs a pod, and the pods to delete there (podsShouldBeOnNode)."""
        if eligible.run and not pods:
            return True, []
        if not eligible.keep:
            return False, [pod for pod in pods.values() if pod.deleted is None]
        deletions: list[ClusterPod] = []
        running: list[ClusterPod] = []
        for pod in pods.values():
            if pod.deleted is not None:
                continue
            if pod.status.phase == FAILED:
                if self._gives_up(name, pod):
                    deletions.append(pod)
            elif pod.status.phase == SUCCEEDED:
                said = f"Found succeeded daemon pod {pod.key} on node {name}, will try to delete it"
                self._client.event(KIND, self._set, "SucceededDaemonPod", said)
                deletions.append(pod)
            else:
                running.append(pod)
        running.sort(key=by_age)
        if self._limit("max_surge", 1) <= 0:
            return False, deletions + running[1:]
        if len(running) <= 1:
            return eligible.run and not running, deletions
        self._ledger.todo[name] = None
        return False, deletions + self._surplus_while_surging(running)

    def _gives_up(self, name: str, pod: ClusterPod) -> bool:
        """Whether a failed pod is deleted now; the kubelet may refuse its successor, so this backs off."""
        key = f"{self._set.metadata.uid}/{self._set.status.observed_generation}/{name}"
        now = self._kernel.now
        if self._backoff.is_waiting(key, now):
            self._ledger.todo[name] = None
            self._queue.add_after(self._key, self._backoff.delay(key))
            return False
        self._backoff.advance(key, now)
        said = f"Found failed daemon pod {pod.key} on node {name}, will try to kill it"
        self._client.event(KIND, self._set, "FailedDaemonPod", said, warning=True)
        return True

    def _surplus_while_surging(self, running: Sequence[ClusterPod]) -> list[ClusterPod]:
        """All but the oldest pod of each kind; the old one, too, when it is not ready or the new one is available."""
        ledger = self._ledger
        new = next((pod for pod in running if ledger.is_updated(pod)), None)
        old = next((pod for pod in running if not ledger.is_updated(pod)), None)
        surplus = [pod for pod in running if pod is not new and pod is not old]
        if new is not None and old is not None:
            if not old.is_ready or ledger.is_available(new, self._kernel.now):
                surplus.append(old)
        return surplus

    # ---- rolling update ----------------------------------------------------------------------

    def _roll(self) -> Steps:
        desired = self._ledger.sums.desired
        unavailable, surge = self._limit("max_unavailable", desired), self._limit("max_surge", desired)
        if desired > 0 and unavailable == 0 and surge == 0:
            unavailable = 1
        if surge == 0:
            yield from self._replace(unavailable)
        else:
            yield from self._surge(surge, desired)

    def _replace(self, most: int) -> Steps:
        """Delete old pods: unavailable ones always, available ones as far as the limit allows."""
        ledger = self._ledger
        victims = [ledger.outdated[name] for name in sorted(ledger.outdated)]
        room = most - ledger.sums.unavailable
        if room > 0 and ledger.candidates:
            victims.extend(ledger.candidates[name] for name in sorted(ledger.candidates)[:room])
        yield from self._sync_nodes(victims, [])

    def _surge(self, most: int, desired: int) -> Steps:
        """Make new pods beside old ones, at once where the old one is unavailable; delete what that relieves."""
        ledger, now = self._ledger, self._kernel.now
        victims: list[ClusterPod] = []
        misplaced: list[ClusterPod] = []
        candidates: list[str] = []
        allowed: list[str] = []
        surging = available = 0
        for name in sorted(ledger.pods):
            pair = ledger.split(ledger.pods[name])
            if pair is None:
                surging += 1
                continue
            new, old = pair
            counted = old or new
            available += counted is not None and ledger.is_available(counted, now)
            if old is None:
                continue
            if new is not None:
                if ledger.is_available(new, now):
                    victims.append(old)
                else:
                    surging += 1
                continue
            if name not in ledger.eligible:
                raise ApiError(f'couldn\'t get node for nodeName "{name}": node "{name}" not found')
            is_placed = ledger.eligible[name].run
            if ledger.is_available(old, now):
                if is_placed:
                    candidates.append(name)
                else:
                    misplaced.append(old)
            elif is_placed:
                allowed.append(name)
            else:
                victims.append(old)
        # Nodes that are given up keep their pods until there are enough elsewhere.
        victims.extend(misplaced[: max(0, available - desired)])
        yield from self._sync_nodes(victims, allowed + candidates[: max(0, most - surging)])

    # ---- creations and deletions -------------------------------------------------------------

    def _sync_nodes(self, victims: Sequence[ClusterPod], lacking: Sequence[str]) -> Steps:
        """Make and delete pods. Raises the first failure."""
        victims, lacking = victims[:BURST_REPLICAS], lacking[:BURST_REPLICAS]
        self._expectations.expect(self._key, len(lacking), len(victims), self._kernel.now)
        failure: ApiError | None = None
        if lacking:
            failure = yield from self._create(lacking)
        for pod in self._by_age(victims):
            error = yield from self._delete(pod)
            failure = failure or error
        if failure is not None:
            raise failure

    def _create(self, names: Sequence[str]) -> Generator[int, None, ApiError | None]:
        client, daemon_set, placement = self._client, self._set, self._ledger.placement
        base = new_pod(daemon_set, self._ledger.digest)
        waiting = _batch_by_batch(names)

        def create() -> None:
            try:
                made: ClusterPod = client.server.create("Pod", replace(base, spec=placement.spec_for(next(waiting))))
            except ApiError as failure:
                client.event(KIND, daemon_set, "FailedCreate", f"Error creating: {failure}", warning=True)
                raise
            self._written.wrote(self._key, "Pod", made.version)
            client.event(KIND, daemon_set, "SuccessfulCreate", f"Created pod: {made.metadata.name}")

        batches = SlowStart(client, len(names), create)
        yield from batches.run()
        self._expectations.lower(self._key, len(names) - batches.done, 0)
        return batches.failure

    def _by_age(self, pods: Sequence[ClusterPod]) -> list[ClusterPod]:
        """In order of creation: the requests go out together, so which pods are chosen decides, not in which order."""
        if len(pods) < 2:
            return list(pods)
        places = {key: place for place, key in enumerate(self._informers.group(self._set.metadata.uid).pods)}
        return sorted(pods, key=lambda pod: places.get(pod.key, -1))

    def _delete(self, pod: ClusterPod) -> Generator[int, None, ApiError | None]:
        client = self._client
        yield from client.turn()
        try:
            client.server.delete("Pod", pod.key)
        except NotFoundError:
            self._expectations.lower(self._key, 0, 1)
        except ApiError as failure:
            self._expectations.lower(self._key, 0, 1)
            client.event(KIND, self._set, "FailedDelete", f"Error deleting: {failure}", warning=True)
            return failure
        else:
            client.event(KIND, self._set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        return None

    # ---- status ------------------------------------------------------------------------------

    def _update_status(self, digest: str, *, observed: bool) -> Steps:
        """Write the sums if they differ. `observed`: the generation was acted on."""
        self._ledger.refresh(digest, self._kernel.now)
        sums, old, generation = self._ledger.sums, self._set.status, self._set.metadata.generation
        status = replace(
            old,
            desired_number_scheduled=sums.desired,
            current_number_scheduled=sums.current,
            number_misscheduled=sums.misscheduled,
            number_ready=sums.ready,
            updated_number_scheduled=sums.updated,
            number_available=sums.available,
            number_unavailable=sums.desired - sums.available,
        )
        if status != old or old.observed_generation < generation:
            yield from self._write(replace(status, observed_generation=generation) if observed else status)
        wait = self._set.spec.min_ready_seconds
        if wait > 0 and sums.ready != sums.available:
            self._queue.add_after(self._key, wait * SECOND)

    def _write(self, status: object) -> Steps:
        """With one more try on what is stored now, as upstream."""
        server, basis = self._client.server, self._set
        for attempt in range(1, STATUS_TRIES + 1):
            yield from self._client.turn()
            try:
                stored: DaemonSet = server.update_status(KIND, replace(basis, status=status))
            except ApiError:
                if attempt == STATUS_TRIES:
                    raise
                yield from self._client.turn()
                basis = server.get(KIND, self._key)
            else:
                self._written.wrote(self._key, KIND, stored.version)
                return


def _batch_by_batch(names: Sequence[str]) -> Iterator[str]:
    """Nodes in the order of the requests: those of one batch go out together, so within it the name decides."""
    start, size = 0, SLOW_START
    while start < len(names):
        yield from sorted(names[start : start + size])
        start += size
        size *= 2
