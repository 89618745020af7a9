"""The HPA controller on the virtual cluster: its work queue, the scale subresource, and the writes.

What a sync decides is in `stowplan_autoscaling.hpa`. A key is processed when its HPA appears and every sync period
after; a new generation is processed at once. Follows enqueueHPA, worker and reconcileKey of
pkg/controller/podautoscaler/horizontal.go and rate_limiters.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

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

_NO_SCALE: Final = Scale()
_EVERYTHING: Final = parse_selector("")

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
        self._subjects: dict[str, _Subject] = {}
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
            self._subjects.pop(key, None)
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
        """One sync of one HPA; the next one follows a period after. None where it has taken no time and is over."""
        hpa: HorizontalPodAutoscaler | None = self._informers.get(KIND, key)
        if hpa is None:
            return None
        subject = self._subjects.get(key)
        if subject is None or subject.spec is not hpa.spec:
            batch = self._batch
            subject = self._subjects[key] = _Subject(key, hpa, is_common=batch is not None and batch.is_common(hpa))
        wait = self._client.wait()
        if wait:
            return self._sync_later(subject, hpa, wait)
        scale = self._scale_of(subject)
        found = self._begin(subject, hpa, scale)
        if isinstance(found, Sync):
            return self._act(key, hpa, scale, found)
        wait = self._client.wait() if found.changed else 0
        if wait:
            return self._report_later(key, hpa, scale, found, wait)
        self._report(hpa, scale, found)
        self.queue.add_after(key, self._period)
        return None

    def _sync_later(self, subject: _Subject, hpa: HorizontalPodAutoscaler, wait: int) -> Steps:
        """A sync that has to wait for its turn to read the scale."""
        yield self._kernel.now + wait
        scale = self._scale_of(subject)
        found = self._begin(subject, hpa, scale)
        if isinstance(found, Sync):
            yield from self._act(subject.key, hpa, scale, found)
        else:
            wait = self._client.wait() if found.changed else 0
            yield from self._report_later(subject.key, hpa, scale, found, wait)

    def _act(self, key: str, hpa: HorizontalPodAutoscaler, scale: Scale | ScaleError, sync: Sync) -> Steps:
        """From the decision on."""
        error = ""
        if sync.scale_to is not None:
            error = yield from self._write_scale(hpa, sync.scale_to)
        outcome = self.controller.finish(sync, self._kernel.now, error)
        for event in outcome.events:
            self._client.event(KIND, hpa, event.reason, event.message, warning=event.type == "Warning")
        yield from self._report_later(key, hpa, scale, outcome, self._client.wait() if outcome.changed else 0)

    def _report_later(
        self, key: str, hpa: HorizontalPodAutoscaler, scale: Scale | ScaleError, outcome: Outcome, wait: int
    ) -> Steps:
        """The end of a sync whose status waits for its turn."""
        if wait:
            yield self._kernel.now + wait
        self._report(hpa, scale, outcome)
        self.queue.add_after(key, self._period)

    def _report(self, hpa: HorizontalPodAutoscaler, scale: Scale | ScaleError, outcome: Outcome) -> None:
        """Write the status, and tell the observer."""
        if outcome.changed:
            try:
                self._client.server.write_status(KIND, hpa, outcome.status)
            except ApiError as failure:
                self._client.event(KIND, hpa, "FailedUpdateStatus", str(failure), warning=True)
        if self._observe is not None:
            self._observe(hpa, scale if isinstance(scale, Scale) else None, outcome)

    def _begin(self, subject: _Subject, hpa: HorizontalPodAutoscaler, scale: Scale | ScaleError) -> Sync | Outcome:
        """The sync up to the write of the scale, by sums or columns of pods where that gives the same.

        An Outcome: all of it, because there is nothing to write to the scale.
        """
        columns, batch, now = self._columns, self._batch, self._kernel.now
        if columns is None or batch is None or isinstance(scale, ScaleError) or not scale.selector:
            return self.controller.begin(hpa, scale, self._pods, self._metrics, now)
        if subject.selector is not scale.selector:
            subject.selector, subject.query = scale.selector, parse_selector(scale.selector)
            subject.number = columns.number(hpa.metadata.namespace, subject.query)
        number = subject.number
        if not columns.sync_asks(number):
            return self.controller.begin(hpa, scale, self._pods, self._metrics, now)
        users = self._users.get(number)
        if users is None:
            users = self._users[number] = set()
        users.add(subject.key)
        if len(users) == 1 and subject.is_common:
            return self._by_totals(subject, hpa, scale, columns)
        return batch.begin((Due(hpa, scale, number),), columns.samples, self._pods, self._metrics, now)[0]

    def _by_totals(
        self, subject: _Subject, hpa: HorizontalPodAutoscaler, scale: Scale, columns: WorkloadColumns
    ) -> Sync | Outcome:
        controller, now, current = self.controller, self._kernel.now, scale.spec_replicas
        number, selector, plan = subject.number, subject.query, controller.plan(hpa, subject.key)
        metric = plan.metrics[0]
        # No pod of the workload belongs to another one, and no other autoscaler has this workload: no rivals.
        totals = columns.plain_totals(number)
        if totals is None:
            totals = totals_of(columns.columns, columns.samples, number, metric, controller.calculator.rules, now)
        found = None if totals is None else propose(totals, metric, current, plan.tolerances)
        status = None if found is None else resource_status(metric, found.utilization, found.average)
        if found is not None and status is not None:
            repeated = controller.repeat(subject.key, hpa, plan, current, found.replicas, status, now)
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

    def _scale_of(self, subject: _Subject) -> Scale | ScaleError:
        """The target's scale subresource, as the API server has it now, or why it cannot be read."""
        kind = subject.kind
        if kind not in SCALABLE:
            return ScaleError(f'no matches for kind "{kind}"', unknown_kind=True)
        target = self._client.server.find(kind, subject.target_key)
        if target is None:
            return ScaleError(f'{kind.lower()}s.apps "{subject.name}" not found')
        if subject.target is not target:
            subject.see(target)
        return subject.scale


class _Subject:
    """What the syncs of an autoscaler know of its target, as long as the autoscaler's spec stays."""

    __slots__ = (
        "is_common",
        "key",
        "kind",
        "name",
        "number",
        "query",
        "scale",
        "selector",
        "spec",
        "target",
        "target_key",
    )

    def __init__(self, key: str, hpa: HorizontalPodAutoscaler, *, is_common: bool) -> None:
        """`is_common`: whether its only metric is the one of the columns."""
        self.key = key
        self.is_common = is_common
        self.spec = hpa.spec
        self.kind = hpa.spec.scale_target_ref.kind
        self.name = hpa.spec.scale_target_ref.name
        self.target_key = f"{hpa.metadata.namespace}/{self.name}"
        self.target: Any = None
        """The target as last seen, and its scale."""
        self.scale = _NO_SCALE
        self.selector = ""
        """The selector that the last sync used, as text and query, and the number of its workload in the columns."""
        self.query = _EVERYTHING
        self.number = -1

    def see(self, target: Any) -> None:
        """It is another object than the last time."""
        selector, known = target.spec.selector, self.target
        is_same = known is not None and known.spec.selector is selector
        text = self.scale.selector if is_same else selector_text(selector)
        self.target = target
        self.scale = Scale(spec_replicas=target.spec.replicas, status_replicas=target.status.replicas, selector=text)
