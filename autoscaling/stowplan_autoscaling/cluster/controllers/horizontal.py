"""The HPA controller on the virtual cluster: its work queue, the scale subresource, and the writes.

What a sync decides is in `stowplan_autoscaling.hpa`. A key is processed when its HPA appears and every sync period
after; a new generation is processed at once. Follows enqueueHPA, worker and reconcileKey of
pkg/controller/podautoscaler/horizontal.go and rate_limiters.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from stowplan_autoscaling.cluster.errors import ApiError, ConflictError
from stowplan_autoscaling.cluster.objects.autoscaling import HorizontalPodAutoscaler
from stowplan_autoscaling.cluster.pods import ClusterPod
from stowplan_autoscaling.cluster.work_queue import Steps, WorkQueue
from stowplan_autoscaling.hpa.batch import BatchReconciler, Due
from stowplan_autoscaling.hpa.controller import HorizontalController, HPAFlags, Outcome, Sync
from stowplan_autoscaling.hpa.metric_proposal import resource_status
from stowplan_autoscaling.hpa.metrics import MetricsClient
from stowplan_autoscaling.hpa.objects import Scale, ScaleError
from stowplan_autoscaling.hpa.selector_text import parse_selector, selector_text
from stowplan_autoscaling.hpa.totals import propose, totals_of
from stowplan_autoscaling.kernel import MILLISECOND
from stowplan_scheduler.objects import key_of

if TYPE_CHECKING:
    from stowplan_autoscaling.cluster.client import Client
    from stowplan_autoscaling.cluster.informers import Informers
    from stowplan_autoscaling.cluster.workload_columns import WorkloadColumns
    from stowplan_autoscaling.kernel import Kernel
    from stowplan_scheduler.selectors import LabelQuery

KIND: Final = "HorizontalPodAutoscaler"
SCALABLE: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds with a scale subresource."""

CONFLICT_RETRIES: Final = 5
CONFLICT_DELAY: Final = 10 * MILLISECOND
"""client-go's retry.DefaultRetry: five tries, 10 ms apart."""

Observer = Callable[[HorizontalPodAutoscaler, Scale | None, Outcome], None]
"""Told of each sync, with the scale it found."""


class HorizontalPodAutoscalers:
    """All HPAs of a cluster. `observe` is told of each sync after its writes."""

    def __init__(
        self,
        kernel: Kernel,
        informers: Informers,
        client: Client,
        pods: Callable[[str, LabelQuery], Sequence[ClusterPod]],
        metrics: MetricsClient,
        *,
        flags: HPAFlags | None = None,
        workers: int = 5,
        observe: Observer | None = None,
        columns: WorkloadColumns | None = None,
    ) -> None:
        """`columns`: where samples of one resource stand, too; autoscalers on that resource alone are then quick."""
        self._kernel = kernel
        self._informers = informers
        self._client = client
        self._pods = pods
        self._metrics = metrics
        self._observe = observe
        self._columns = columns
        self._users: dict[int, set[str]] = {}
        """Autoscalers by the number of their workload in the columns."""
        self._scales: dict[str, tuple[Any, Scale]] = {}
        """Targets, whichever was asked for last under a name, and their scales."""
        self.controller = HorizontalController(flags)
        self._batch = None if columns is None else BatchReconciler(self.controller, columns.columns)
        self._period = self.controller.flags.sync_period
        self.queue = WorkQueue(kernel, self.sync, workers=workers)
        informers.handle(KIND, self._changed)

    def _changed(self, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed.metadata)
        if new is None:
            self.controller.removed(changed.metadata.namespace, changed.metadata.name)
            for users in self._users.values():
                users.discard(key)
            self.queue.add(key)
        elif old is None:
            self.controller.added(changed.metadata.namespace, changed.metadata.name)
            self.queue.add(key)
        elif old.metadata.generation != new.metadata.generation:
            self.queue.add(key)
        else:
            self.queue.add_after(key, self._period)

    def sync(self, key: str) -> Steps | None:
        """One sync of one HPA; the next one follows a period after."""
        hpa: HorizontalPodAutoscaler | None = self._informers.get(KIND, key)
        return None if hpa is None else self._sync(key, hpa)

    def _sync(self, key: str, hpa: HorizontalPodAutoscaler) -> Steps:
        try:
            yield from self._reconcile(hpa)
        finally:
            self.queue.add_after(key, self._period)

    def _reconcile(self, hpa: HorizontalPodAutoscaler) -> Steps:
        yield from self._client.turn()
        try:
            scale: Scale | ScaleError = self._scale_of(hpa)
        except ScaleError as failure:
            scale = failure
        found = self._begin(hpa, scale)
        if isinstance(found, Outcome):
            outcome = found
        else:
            error = ""
            if found.scale_to is not None:
                error = yield from self._write_scale(hpa, found.scale_to)
            outcome = self.controller.finish(found, self._kernel.now, error)
        for event in outcome.events:
            self._client.event(KIND, hpa, event.reason, event.message, warning=event.type == "Warning")
        if outcome.changed:
            yield from self._write_status(hpa, outcome)
        if self._observe is not None:
            self._observe(hpa, scale if isinstance(scale, Scale) else None, outcome)

    def _begin(self, hpa: HorizontalPodAutoscaler, scale: Scale | ScaleError) -> Sync | Outcome:
        """The sync up to the write of the scale, by sums or columns of pods where that gives the same.

        An Outcome: all of it, because there is nothing to write to the scale.
        """
        columns, batch, now = self._columns, self._batch, self._kernel.now
        if columns is None or batch is None or isinstance(scale, ScaleError) or not scale.selector:
            return self.controller.begin(hpa, scale, self._pods, self._metrics, now)
        selector = parse_selector(scale.selector)
        number = columns.number(hpa.metadata.namespace, selector)
        if number is None:
            return self.controller.begin(hpa, scale, self._pods, self._metrics, now)
        users = self._users.get(number)
        if users is None:
            users = self._users[number] = set()
        users.add(hpa.key)
        if len(users) == 1 and batch.is_common(hpa):
            return self._by_totals(hpa, scale, selector, columns, number)
        return batch.begin((Due(hpa, scale, number),), columns.samples, self._pods, self._metrics, now)[0]

    def _by_totals(
        self, hpa: HorizontalPodAutoscaler, scale: Scale, selector: LabelQuery, columns: WorkloadColumns, number: int
    ) -> Sync | Outcome:
        controller, now, current = self.controller, self._kernel.now, scale.spec_replicas
        plan = controller.plan(hpa, hpa.key)
        metric = plan.metrics[0]
        # No pod of the workload belongs to another one, and no other autoscaler has this workload: no rivals.
        totals = columns.plain_totals(number)
        if totals is None:
            totals = totals_of(columns.columns, columns.samples, number, metric, controller.calculator.rules, now)
        found = None if totals is None else propose(totals, metric, current, plan.tolerances)
        status = None if found is None else resource_status(metric, found.utilization, found.average)
        if found is not None and status is not None:
            repeated = controller.repeat(hpa, plan, current, found.replicas, status, now)
            if repeated is not None:
                return repeated
        sync = controller.start(hpa)
        if controller.needs_metrics(sync, scale, now):
            controller.selectors.update(hpa.metadata.namespace, hpa.metadata.name, selector)
            if found is None or status is None:
                controller.compute(sync, scale, selector, self._pods, self._metrics, now)
            else:
                controller.accept(sync, found.replicas, status, now)
        return sync

    def _write_status(self, hpa: HorizontalPodAutoscaler, outcome: Outcome) -> Steps:
        yield from self._client.turn()
        try:
            self._client.server.update_status(KIND, replace(hpa, status=outcome.status))
        except ApiError as failure:
            self._client.event(KIND, hpa, "FailedUpdateStatus", str(failure), warning=True)

    def _write_scale(self, hpa: HorizontalPodAutoscaler, replicas: int) -> Any:
        """Returns the API server's error, "" if there is none."""
        reference = hpa.spec.scale_target_ref
        key = f"{hpa.metadata.namespace}/{reference.name}"
        for attempt in range(CONFLICT_RETRIES):
            yield from self._client.turn()
            try:
                self._client.server.scale(reference.kind, key, replicas)
            except ConflictError as failure:
                if attempt == CONFLICT_RETRIES - 1:
                    return str(failure)
                yield self._kernel.now + CONFLICT_DELAY
            except ApiError as failure:
                return str(failure)
            else:
                return ""
        return ""

    def _scale_of(self, hpa: HorizontalPodAutoscaler) -> Scale:
        """The target's scale subresource, as the API server has it now. Raises ScaleError."""
        reference = hpa.spec.scale_target_ref
        if reference.kind not in SCALABLE:
            raise ScaleError(f'no matches for kind "{reference.kind}"', unknown_kind=True)
        key = f"{hpa.metadata.namespace}/{reference.name}"
        target = self._client.server.find(reference.kind, key)
        if target is None:
            plural = f"{reference.kind.lower()}s.apps"
            raise ScaleError(f'{plural} "{reference.name}" not found')
        known = self._scales.get(key)
        if known is not None and known[0] is target:
            return known[1]
        selector = target.spec.selector
        is_same = known is not None and known[0].spec.selector is selector
        text = known[1].selector if known is not None and is_same else selector_text(selector)
        scale = Scale(spec_replicas=target.spec.replicas, status_replicas=target.status.replicas, selector=text)
        self._scales[key] = target, scale
        return scale
