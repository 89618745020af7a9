"""The steps of one sync of one Deployment."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import AlreadyExistsError, ApiError
from stowplan_autoscaling.cluster.expectations import StaleReadError
from stowplan_autoscaling.cluster.objects.apps import (
    Condition,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from stowplan_autoscaling.cluster.objects.conditions import condition_of
from stowplan_autoscaling.cluster.pods import FAILED, SUCCEEDED
from stowplan_autoscaling.kernel import SECOND
from stowplan_scheduler.objects import ObjectMeta

from . import arithmetic, revisions, status

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
    from stowplan_autoscaling.kernel import Kernel


class Settled(msgspec.Struct, frozen=True):
    """Nothing is to be done for a Deployment of this version, but to look again before `until` (None: for ever).

    `fails_then`: the rollout fails at `until`. One that was complete before is looked at again and again instead, as
    long as a pod is missing: upstream never lets it fail.
    """

    version: int
    until: int | None
    fails_then: bool


def _settled(deployment: Deployment, made: DeploymentStatus) -> Settled:
    progress = condition_of(deployment.status.conditions, status.PROGRESSING)
    fails = progress is None or progress.reason != status.NEW_AVAILABLE
    return Settled(deployment.version, status.watch_until(deployment, made), fails)


class Steady(msgspec.Struct, frozen=True):
    """With these specs and metadata nothing is under way: a sync only brings the status up to date."""

    spec: DeploymentSpec
    metadata: ObjectMeta
    parts: tuple[ReplicaSetSpec | ObjectMeta, ...]
    """Of the ReplicaSets in their order, spec and metadata in turn."""
    new: int
    """Index of the new ReplicaSet."""

    def holds_for(self, deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> bool:
        """Whether nothing but statuses has changed."""
        if deployment.spec is not self.spec or deployment.metadata is not self.metadata:
            return False
        if 2 * len(replica_sets) != len(self.parts):
            return False
        parts = iter(self.parts)
        return all(each.spec is next(parts) and each.metadata is next(parts) for each in replica_sets)


def look_again(queue: WorkQueue, key: str, until: int | None, now: int) -> None:
    """Plan the next look at a rollout that fails at `until`."""
    if until is None:
        return
    if until - now < SECOND:
        queue.add_rate_limited(key)
    else:
        queue.add_after(key, until - now + SECOND)


class DeploymentSync:
    """The Deployment as seen and as changed so far in this sync, and its ReplicaSets, oldest first."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        queue: WorkQueue,
        key: str,
        deployment: Deployment,
        replica_sets: Sequence[ReplicaSet],
    ) -> None:
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._queue = queue
        self._key = key
        self._seen = self._d = deployment
        self._given = replica_sets
        self._all = revisions.by_age(replica_sets)
        self.settled: Settled | None = None
        """Set if a sync of what is stored now would find nothing to do."""
        self.steady: Steady | None = None
        """Set if nothing but statuses can change until somebody writes a spec."""
        self._wrote = False
        """A ReplicaSet was written in this sync: until it is seen, another sync would try that again."""
        self._refreshed = False
        """The new ReplicaSet was written in this sync."""

    def steady_steps(self, steady: Steady, replica_sets: Sequence[ReplicaSet]) -> Steps:
        """The whole sync where `steady` holds."""
        new = replica_sets[steady.new]
        if self._set_revision(new.metadata.annotations.get(revisions.REVISION, "")):
            yield from self._write_status()
        yield from self._report(self._all, new)
        self.steady = steady

    def _as_steady(self, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Steady | None:
        """What must stay for `steady_steps` to do; None if it would not do."""
        progress = condition_of(self._seen.status.conditions, status.PROGRESSING)
        if self._refreshed or progress is None or progress.reason == status.PAUSED:
            return None
        if new.spec.replicas != self._d.spec.replicas or any(each.spec.replicas for each in old):
            return None
        if self._is_to_clean_up(len(old) + 1):
            return None
        for index, each in enumerate(self._given):
            if each.metadata.uid == new.metadata.uid:
                parts = tuple([part for one in self._given for part in (one.spec, one.metadata)])
                return Steady(self._seen.spec, self._seen.metadata, parts, index)
        return None

    # ---- the flow ----------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The whole sync."""
        yield from self._note_pause()
        if self._d.spec.paused:
            yield from self._scale_and_report()
            return
        new, old = yield from self._sort_out(create=False)
        if self._is_scaling_event(new, old):
            yield from self._scale_and_report()
        elif arithmetic.is_rolling(self._d):
            if new is None or self._refreshed:
                new, old = yield from self._sort_out(create=True)
            if new is not None:
                yield from self._roll(new, old)
        else:
            yield from self._recreate()

    def _note_pause(self) -> Steps:
        """The condition Progressing says when a rollout is paused, so that the deadline does not run on."""
        if not arithmetic.has_deadline(self._d):
            return
        current = condition_of(self._d.status.conditions, status.PROGRESSING)
        if current is not None and current.reason == status.TIMED_OUT:
            return
        is_noted = current is not None and current.reason == status.PAUSED
        if self._d.spec.paused == is_noted:
            return
        reason, message = (
            (status.PAUSED, "Deployment is paused")
            if self._d.spec.paused
            else (status.RESUMED, "Deployment is resumed")
        )
        self._set(status.condition(status.PROGRESSING, "Unknown", reason, message, self._kernel.now))
        yield from self._write_status()

    def _scale_and_report(self) -> Steps:
        new, old = yield from self._sort_out(create=False)
        yield from self._scale(new, old)
        if self._d.spec.paused:
            yield from self._clean_up(old)
        replica_sets = [*old, *([new] if new is not None else [])]
        made = status.calculate_status(self._d, replica_sets, new, self._kernel.now)
        if made != self._d.status:
            self._d = replace(self._d, status=made)
            yield from self._write_status()

    def _is_scaling_event(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> bool:
        """Whether a ReplicaSet was sized for another number of replicas."""
        everyone = [*old, *([new] if new is not None else [])]
        noted = (arithmetic.annotation(each, arithmetic.DESIRED_REPLICAS) for each in arithmetic.active(everyone))
        return any(desired is not None and desired != self._d.spec.replicas for desired in noted)

    # ---- new and old -------------------------------------------------------------------------

    def _sort_out(self, *, create: bool) -> Generator[int, None, tuple[ReplicaSet | None, list[ReplicaSet]]]:
        """The ReplicaSet of the present template, made if `create`, and the others."""
        new = revisions.find_new(self._d, self._all)
        old = [each for each in self._all if new is None or each.metadata.uid != new.metadata.uid]
        revision = max((revisions.revision_of(each) for each in old), default=0) + 1
        if new is not None:
            new = yield from self._refresh(new, revision)
        elif create:
            new = yield from self._create(old, revision)
        return new, old

    def _refresh(self, new: ReplicaSet, revision: int) -> Generator[int, None, ReplicaSet]:
        """Bring annotations, minReadySeconds and the Deployment's revision up to date."""
        annotations = revisions.annotated(self._d, new, revision, exists=True)
        wait = self._d.spec.min_ready_seconds
        if annotations != new.metadata.annotations or new.spec.min_ready_seconds != wait:
            changed = replace(
                new,
                metadata=replace(new.metadata, annotations=annotations),
                spec=replace(new.spec, min_ready_seconds=wait),
            )
            self._refreshed = self._wrote = True
            yield from self._client.turn()
            stored: ReplicaSet = self._client.server.update("ReplicaSet", changed)
            return stored
        needs_update = self._set_revision(annotations.get(revisions.REVISION, ""))
        if arithmetic.has_deadline(self._d) and condition_of(self._d.status.conditions, status.PROGRESSING) is None:
            message = f'Found new replica set "{new.metadata.name}"'
            self._set(status.condition(status.PROGRESSING, "True", "FoundNewReplicaSet", message, self._kernel.now))
            needs_update = True
        if needs_update:
            yield from self._write_status()
        return new

    def _create(self, old: list[ReplicaSet], revision: int) -> Generator[int, None, ReplicaSet]:
        wanted = arithmetic.new_size(self._d, old, 0)
        made = revisions.replica_set_of(self._d, wanted, revision)
        yield from self._client.turn()
        try:
            created: ReplicaSet = self._client.server.create("ReplicaSet", made)
            is_new = self._wrote = True
        except AlreadyExistsError:
            created = yield from self._claim(made)
            is_new = False
        except ApiError as failure:
            yield from self._report_failure(made, failure)
            raise
        if is_new and wanted > 0:
            message = f"Scaled up replica set {created.metadata.name} from 0 to {wanted}"
            self._client.event("Deployment", self._d, "ScalingReplicaSet", message)
        needs_update = self._set_revision(str(revision))
        if is_new and arithmetic.has_deadline(self._d):
            message = f'Created new replica set "{created.metadata.name}"'
            self._set(status.condition(status.PROGRESSING, "True", "NewReplicaSetCreated", message, self._kernel.now))
            needs_update = True
        if needs_update:
            yield from self._write_status()
        return created

    def _claim(self, made: ReplicaSet) -> Generator[int, None, ReplicaSet]:
        """A ReplicaSet of that name is there: ours, not seen yet, or one whose template has the same hash."""
        name = f"{made.metadata.namespace}/{made.metadata.name}"
        seen: ReplicaSet | None = self._informers.get("ReplicaSet", name)
        if seen is None:
            raise ApiError(f'replicaset "{name}" not found')
        owners = seen.metadata.owner_references
        is_ours = any(owner.controller and owner.uid == self._d.metadata.uid for owner in owners)
        if is_ours and revisions.same_template(seen.spec.template, self._d.spec.template):
            return seen
        collisions = self._d.status.collision_count + 1
        self._d = replace(self._d, status=replace(self._d.status, collision_count=collisions))
        yield from self._write_status()
        raise AlreadyExistsError(f'replicaset "{name}" already exists')

    def _report_failure(self, made: ReplicaSet, failure: ApiError) -> Steps:
        message = f'Failed to create new replica set "{made.metadata.name}": {failure}'
        self._client.event("Deployment", self._d, "ReplicaSetCreateError", message, warning=True)
        if not arithmetic.has_deadline(self._d):
            return
        self._set(status.condition(status.PROGRESSING, "False", "ReplicaSetCreateError", message, self._kernel.now))
        try:
            yield from self._write_status()
        except ApiError:
            # The first failure is the one to report.
            return

    def _set_revision(self, revision: str) -> bool:
        annotations = self._d.metadata.annotations
        if annotations.get(revisions.REVISION, "") == revision:
            return False
        meta = replace(self._d.metadata, annotations={**annotations, revisions.REVISION: revision})
        self._d = replace(self._d, metadata=meta)
        return True

    # ---- scaling -----------------------------------------------------------------------------

    def _scale(self, new: ReplicaSet | None, old: list[ReplicaSet]) -> Steps:
        """Give the ReplicaSets their shares of another number of replicas."""
        everyone = [*reversed(old), *([new] if new is not None else [])]
        busy = arithmetic.active(everyone)
        if not everyone:
            return
        if len(busy) < 2:
            target = busy[0] if busy else new or everyone[0]
            if target.spec.replicas != self._d.spec.replicas:
                yield from self._resize(target, self._d.spec.replicas)
            return
        if new is not None and self._is_saturated(new):
            for each in arithmetic.active(old):
                yield from self._resize(each, 0)
            return
        if arithmetic.is_rolling(self._d):
            yield from self._scale_proportionally(busy)

    def _is_saturated(self, new: ReplicaSet) -> bool:
        replicas = self._d.spec.replicas
        return (
            new.spec.replicas == replicas
            and arithmetic.annotation(new, arithmetic.DESIRED_REPLICAS) == replicas
            and new.status.available_replicas == replicas
        )

    def _scale_proportionally(self, busy: list[ReplicaSet]) -> Steps:
        replicas = self._d.spec.replicas
        allowed = replicas + arithmetic.max_surge(self._d) if replicas > 0 else 0
        to_add = allowed - arithmetic.total(busy)
        if to_add:
            # By size; of equal ones the newer grow first and the older shrink first.
            busy = sorted(busy, key=lambda each: (each.created, each.metadata.name), reverse=to_add > 0)
            busy.sort(key=lambda each: -each.spec.replicas)
        sizes, added = [], 0
        for each in busy:
            part = arithmetic.share(each, self._d, to_add, added)
            sizes.append(each.spec.replicas + part)
            added += part
        if to_add:
            sizes[0] = max(0, sizes[0] + to_add - added)
        for each, size in zip(busy, sizes, strict=True):
            yield from self._resize(each, size, force=True)

    def _resize(self, target: ReplicaSet, size: int, *, force: bool = False) -> Generator[int, None, ReplicaSet]:
        """Write a ReplicaSet's size, and for which number of replicas it was made."""
        before = target.spec.replicas
        if not force and before == size:
            return target
        annotations = {**target.metadata.annotations, **revisions.sizes(self._d)}
        if before == size and annotations == target.metadata.annotations:
            return target
        changed = replace(
            target,
            metadata=replace(target.metadata, annotations=annotations),
            spec=replace(target.spec, replicas=size),
        )
        yield from self._client.turn()
        stored: ReplicaSet = self._client.server.update("ReplicaSet", changed)
        self._wrote = True
        if before != size:
            way = "up" if before < size else "down"
            message = f"Scaled {way} replica set {target.metadata.name} from {before} to {size}"
            self._client.event("Deployment", self._d, "ScalingReplicaSet", message)
        return stored

    # ---- rolling update ----------------------------------------------------------------------

    def _roll(self, new: ReplicaSet, old: list[ReplicaSet]) -> Steps:
        everyone = [*old, new]
        grown = yield from self._grow(everyone, new)
        if not grown:
            shrunk = yield from self._shrink(everyone, arithmetic.active(old), new)
            if not shrunk:
                self.steady = self._as_steady(new, old)
                if status.is_complete(self._d, self._d.status):
                    yield from self._clean_up(old)
        yield from self._report(everyone, new)

    def _grow(self, everyone: list[ReplicaSet], new: ReplicaSet) -> Generator[int, None, bool]:
        replicas, size = self._d.spec.replicas, new.spec.replicas
        if size == replicas:
            return False
        wanted = replicas if size > replicas else arithmetic.new_size(self._d, everyone, size)
        yield from self._resize(new, wanted)
        return wanted != size

    def _shrink(self, everyone: list[ReplicaSet], old: list[ReplicaSet], new: ReplicaSet) -> Generator[int, None, bool]:
        """Take old pods away: those that are not available first, then as many as may be missing."""
        if not old:
            return False
        least = self._d.spec.replicas - arithmetic.max_unavailable(self._d)
        unavailable = new.spec.replicas - new.status.available_replicas
        most = arithmetic.total(everyone) - least - unavailable
        if most <= 0:
            return False
        try:
            cleaned = yield from self._remove_unavailable(old, most)
            removed = yield from self._remove_available(old, new, least)
        except ApiError:
            # Upstream reports no progress here and goes on with the status; the next event brings another try.
            return False
        return cleaned + removed > 0

    def _remove_unavailable(self, old: list[ReplicaSet], most: int) -> Generator[int, None, int]:
        removed = 0
        for index, each in enumerate(old):
            if removed >= most:
                break
            missing = each.spec.replicas - each.status.available_replicas
            if each.spec.replicas == 0 or missing == 0:
                continue
            if missing < 0:
                raise StaleReadError(f"{each.metadata.name} has {-missing} available pods more than it is to have")
            count = min(most - removed, missing)
            old[index] = yield from self._resize(each, each.spec.replicas - count)
            removed += count
        return removed

    def _remove_available(self, old: list[ReplicaSet], new: ReplicaSet, least: int) -> Generator[int, None, int]:
        spare = arithmetic.available([*old, new]) - least
        removed = 0
        for each in revisions.by_age(old):
            if removed >= spare:
                break
            if each.spec.replicas == 0:
                continue
            count = min(each.spec.replicas, spare - removed)
            yield from self._resize(each, each.spec.replicas - count)
            removed += count
        return removed

    # ---- recreate ----------------------------------------------------------------------------

    def _recreate(self) -> Steps:
        """All old pods go, then the new ones come."""
        new, old = yield from self._sort_out(create=False)
        everyone = [*old, *([new] if new is not None else [])]
        busy = arithmetic.active(old)
        if busy:
            for each in busy:
                yield from self._resize(each, 0)
            yield from self._report(everyone, new)
            return
        if self._has_old_pods(new, old):
            yield from self._report(everyone, new)
            return
        if new is None:
            new, old = yield from self._sort_out(create=True)
            if new is None:
                return
            everyone = [*old, new]
        yield from self._resize(new, self._d.spec.replicas)
        if status.is_complete(self._d, self._d.status):
            yield from self._clean_up(old)
        yield from self._report(everyone, new)

    def _has_old_pods(self, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> bool:
        if any(each.status.replicas for each in old):
            return True
        others = [each for each in self._all if new is None or each.metadata.uid != new.metadata.uid]
        return any(
            pod.status.phase not in {SUCCEEDED, FAILED}
            for each in others
            for pod in self._informers.group(each.metadata.uid).pods.values()
        )

    # ---- afterwards --------------------------------------------------------------------------

    def _clean_up(self, old: Sequence[ReplicaSet]) -> Steps:
        """Delete empty old ReplicaSets beyond the history that is kept, the lowest revisions first."""
        limit = self._d.spec.revision_history_limit
        if limit is None or len(old) <= limit:
            return
        ordered = sorted(old, key=lambda each: (revisions.revision_of(each), each.created, each.metadata.name))
        for each in ordered[: len(old) - limit]:
            state = each.status
            if state.replicas or each.spec.replicas or each.metadata.generation > state.observed_generation:
                continue
            yield from self._client.turn()
            self._client.server.remove("ReplicaSet", f"{each.metadata.namespace}/{each.metadata.name}")
            self._wrote = True

    def _report(self, everyone: Sequence[ReplicaSet], new: ReplicaSet | None) -> Steps:
        """Write the status, or plan the next look at a rollout that stands still."""
        now = self._kernel.now
        made = status.calculate_status(self._d, everyone, new, now)
        made = status.with_progress(self._d, made, new, now)
        made = status.with_failures(made, everyone, new)
        if made == self._d.status:
            settled = _settled(self._d, made)
            look_again(self._queue, self._key, settled.until, now)
            self.settled = None if self._wrote else settled
            return
        self._d = replace(self._d, status=made)
        stored = yield from self._write_status()
        # A sync of what is stored now would write the same, unless old ReplicaSets are to be cleaned up.
        if not self._wrote and not (status.is_complete(self._d, made) and self._is_to_clean_up(len(everyone))):
            self.settled = _settled(stored, made)

    def _is_to_clean_up(self, count: int) -> bool:
        limit = self._d.spec.revision_history_limit
        return limit is not None and count - 1 > limit

    # ---- writing -----------------------------------------------------------------------------

    def _set(self, condition: Condition) -> None:
        state = self._d.status
        self._d = replace(self._d, status=replace(state, conditions=status.with_condition(state.conditions, condition)))

    def _write_status(self) -> Generator[int, None, Deployment]:
        yield from self._client.turn()
        stored: Deployment = self._client.server.update_status("Deployment", self._d)
        return stored
