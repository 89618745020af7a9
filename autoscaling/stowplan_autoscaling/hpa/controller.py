"""The controller itself: one sync of one autoscaler, as a pure function of what it sees and what it remembers.

    sync = controller.begin(hpa, scale, pods, metrics, now)
    if sync.scale_to is not None:
        ... write spec.replicas of the target; `error` is what the API server says to that ...
    outcome = controller.finish(sync, now, error)

`reconcile` is the two with a write that succeeds. Work queue and API calls belong to the caller.

Follows reconcileAutoscaler and computeReplicasForMetrics in pkg/controller/podautoscaler/horizontal.go of Kubernetes
v1.37.2 with its default feature gates (scale to zero, configurable tolerance, observed generation). Errors of the
status write are the caller's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan_autoscaling.kernel import whole_seconds
from stowplan_scheduler.selectors import LabelQuery, SelectorError

from .conditions import FALSE, TRUE, Conditions, is_scaled_to_zero, set_condition
from .history import History
from .metric_proposal import MetricFailedError, PodLister, Question, propose
from .metrics import MetricsClient
from .objects import (
    ABLE_TO_SCALE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
    Scale,
    ScaleError,
)
from .plan import HPAPlan
from .pod_groups import ReadinessRules
from .quiet import Quiet
from .rate_limits import SECOND, RatePolicies, limit_with_behavior, limit_without_behavior
from .replica_calculator import ReplicaCalculator
from .selector_store import SelectorStore
from .selector_text import parse_selector
from .stabilization import (
    HIGHER_BEFORE,
    SCALE_DOWN_STABILIZED,
    largest_within,
    stabilize_both,
    stabilize_down,
    stabilized_reason,
)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

ABOVE_MAX: Final = "Current number of replicas above Spec.MaxReplicas"
BELOW_MIN: Final = "Current number of replicas below Spec.MinReplicas"
_ALL_BELOW: Final = "All metrics below target"
_NO_STATUS: Final = MetricStatus()
_NO_FAILURE: Final = ("", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HPAFlags:
    """Flags `--horizontal-pod-autoscaler-*` of kube-controller-manager; times in nanoseconds."""

    sync_period: int = 15 * SECOND
    tolerance: float = 0.1
    downscale_stabilization: int = 300 * SECOND
    cpu_initialization_period: int = 300 * SECOND
    initial_readiness_delay: int = 30 * SECOND


class HPAEvent(msgspec.Struct, frozen=True):
    """An event about the autoscaler."""

    type: str
    reason: str
    message: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a sync did.

    `status` is to be written if `changed`. `scale_to`: the new spec.replicas of the target if it was written, for
    `reason`. `proposal` and `metric`: what the metrics asked for and which of them, before stabilisation and limits;
    None and "" where none was computed. `error`: what the controller logs, "" without an error.
    """

    status: HorizontalPodAutoscalerStatus
    changed: bool
    scale_to: int | None = None
    reason: str = ""
    events: tuple[HPAEvent, ...] = ()
    error: str = ""
    proposal: int | None = None
    metric: str = ""


class Sync:
    """A sync in progress. `scale_to`: what to write to the target before `finish`, None for nothing."""

    __slots__ = (
        "conditions",
        "current",
        "desired",
        "error",
        "events",
        "history",
        "hpa",
        "metric",
        "plan",
        "proposal",
        "reason",
        "scale_to",
        "stable",
        "statuses",
        "stopped",
    )

    def __init__(self, hpa: HorizontalPodAutoscaler, plan: HPAPlan, history: History) -> None:
        """Nothing has happened yet."""
        self.hpa = hpa
        self.plan = plan
        self.history = history
        self.conditions: Conditions = list(hpa.status.conditions)
        self.events: list[HPAEvent] = []
        self.statuses: tuple[MetricStatus, ...] = ()
        self.current = 0
        self.desired = 0
        self.proposal: int | None = None
        self.metric = ""
        self.reason = ""
        self.error = ""
        self.scale_to: int | None = None
        self.stable: int | None = None
        self.stopped = False

    def warn(self, reason: str, message: str) -> None:
        """Emit a warning."""
        self.events.append(HPAEvent(WARNING, reason, message))

    def condition(self, type: str, status: str, reason: str, message: str, now: int) -> None:
        """Set a condition."""
        set_condition(self.conditions, type, status, reason, message, now)

    def stop(self, status: HorizontalPodAutoscalerStatus, error: str) -> Outcome:
        """The sync ends without a decision."""
        return Outcome(
            status=status,
            changed=status != self.hpa.status,
            events=tuple(self.events),
            error=error,
            proposal=self.proposal,
            metric=self.metric,
        )


class HorizontalController:
    """All autoscalers of a cluster: their compiled specs, their histories, their selectors."""

    def __init__(self, flags: HPAFlags | None = None) -> None:
        """Remembers nothing yet."""
        self.flags = flags if flags is not None else HPAFlags()
        self.selectors = SelectorStore()
        rules = ReadinessRules(
            cpu_initialization_period=self.flags.cpu_initialization_period,
            initial_readiness_delay=self.flags.initial_readiness_delay,
        )
        self.calculator = ReplicaCalculator(rules)
        self._histories: dict[str, History] = {}
        self._plans: dict[str, HPAPlan] = {}
        self._quiet: dict[str, Quiet] = {}

    def added(self, namespace: str, name: str) -> None:
        """An autoscaler has appeared. Not needed for one that is synced at once, but it never hurts."""
        self.selectors.add(namespace, name)

    def removed(self, namespace: str, name: str) -> None:
        """An autoscaler is gone: forget it."""
        self.selectors.remove(namespace, name)
        self._histories.pop(f"{namespace}/{name}", None)
        self._plans.pop(f"{namespace}/{name}", None)
        self._quiet.pop(f"{namespace}/{name}", None)

    def history(self, key: str) -> History:
        """What is remembered of an autoscaler, "namespace/name"."""
        found = self._histories.get(key)
        if found is None:
            found = self._histories[key] = History()
        return found

    def plan(self, hpa: HorizontalPodAutoscaler, key: str) -> HPAPlan:
        """The compiled spec of an autoscaler that has been admitted."""
        plan = self._plans.get(key)
        if plan is None or (plan.spec is not hpa.spec and plan.spec != hpa.spec):
            plan = self._plans[key] = HPAPlan(hpa.spec, hpa.metadata.namespace, self.flags.tolerance)
        return plan

    def reconcile(
        self,
        hpa: HorizontalPodAutoscaler,
        scale: Scale | ScaleError,
        pods: PodLister,
        metrics: MetricsClient,
        now: int,
    ) -> Outcome:
        """One sync whose write of the target's scale, if any, succeeds at once."""
        return self.finish(self.begin(hpa, scale, pods, metrics, now), now)

    def start(self, hpa: HorizontalPodAutoscaler) -> Sync:
        """A sync of which nothing has happened yet; `begin` is what callers want."""
        key = hpa.key
        return Sync(hpa, self.plan(hpa, key), self.history(key))

    def begin(
        self,
        hpa: HorizontalPodAutoscaler,
        scale: Scale | ScaleError,
        pods: PodLister,
        metrics: MetricsClient,
        now: int,
    ) -> Sync:
        """The sync up to the write of the target's scale. `scale`: the target's scale, or why it cannot be read."""
        sync = self.start(hpa)
        if isinstance(scale, ScaleError):
            self._without_scale(sync, scale, now)
        elif self.needs_metrics(sync, scale, now):
            selector = self.selector(sync, scale, pods, now)
            if selector is not None:
                self.compute(sync, scale, selector, pods, metrics, now)
        return sync

    @staticmethod
    def _without_scale(sync: Sync, error: ScaleError, now: int) -> None:
        message = f"the HPA controller was unable to get the target's current scale: {error}"
        sync.warn("FailedGetScale", str(error))
        sync.condition(ABLE_TO_SCALE, FALSE, "FailedGetScale", message, now)
        if error.unknown_kind:
            sync.error = f"unable to determine resource for scale target reference: {error}"
        else:
            sync.error = f"failed to query scale subresource for {sync.plan.reference}: {error}"
        sync.stopped = True
        sync.current = -1

    @staticmethod
    def needs_metrics(sync: Sync, scale: Scale, now: int) -> bool:
        """What the number of replicas alone decides; whether the metrics have a say."""
        plan = sync.plan
        message = "the HPA controller was able to get the target's current scale"
        sync.condition(ABLE_TO_SCALE, TRUE, "SucceededGetScale", message, now)
        current = sync.current = sync.desired = scale.spec_replicas
        sync.history.recommendations.begin(current, now)
        if current == 0:
            # Only a workload that the controller itself scaled to zero wakes up again.
            if is_scaled_to_zero(sync.conditions) and (plan.least != 0 or plan.from_outside):
                return True
            message = "scaling is disabled since the replica count of the target is zero"
            sync.condition(SCALING_ACTIVE, FALSE, "ScalingDisabled", message, now)
            return False
        if current > plan.most:
            sync.scale_to, sync.reason = plan.most, ABOVE_MAX
        elif current < plan.least:
            sync.scale_to, sync.reason = plan.least, BELOW_MIN
        else:
            return True
        return False

    # ---- metrics -----------------------------------------------------------------------------------------------------

    def compute(
        self, sync: Sync, scale: Scale, selector: LabelQuery, pods: PodLister, metrics: MetricsClient, now: int
    ) -> None:
        """Ask all metrics, and decide if enough of them answer."""
        namespace = sync.hpa.metadata.namespace
        question = Question(namespace, scale, selector, sync.plan.tolerances, pods, metrics, now)
        replicas, name, failures, first = 0, "", 0, _NO_FAILURE
        statuses: list[MetricStatus] = []
        for plan in sync.plan.metrics:
            try:
                wanted, status = propose(plan, question, self.calculator)
            except MetricFailedError as failure:
                sync.warn(plan.failed_reason, str(failure))
                statuses.append(_NO_STATUS)
                if failures == 0:
                    first = (plan.failed_reason, str(failure), f"{plan.described}: {failure}")
                failures += 1
                continue
            statuses.append(status)
            if replicas == 0 or wanted > replicas:
                replicas, name = wanted, plan.name
        sync.statuses = tuple(statuses)
        self._judge(sync, replicas, name, failures, first, now)
        if not sync.stopped:
            self.normalize(sync, now)

    def accept(self, sync: Sync, replicas: int, status: MetricStatus, now: int) -> None:
        """Go on with the proposal of the only metric of the spec."""
        sync.statuses = (status,)
        self._judge(sync, replicas, sync.plan.metrics[0].name, 0, _NO_FAILURE, now)
        self.normalize(sync, now)

    @staticmethod
    def _judge(sync: Sync, replicas: int, name: str, failures: int, first: tuple[str, str, str], now: int) -> None:
        """Whether the metrics that could be computed are enough to act."""
        count = len(sync.statuses)
        if failures:
            sync.error = f"invalid metrics ({failures} invalid out of {count}), first error is: {first[2]}"
        # With a metric missing, the others may scale up but not down.
        if failures >= count or (failures and replicas < sync.current):
            message = f"the HPA was unable to compute the replica count: {first[1]}"
            sync.condition(SCALING_ACTIVE, FALSE, first[0], message, now)
            _no_proposal(sync, sync.error)
            return
        message = f"the HPA was able to successfully calculate a replica count from {name}"
        sync.condition(SCALING_ACTIVE, TRUE, "ValidMetricFound", message, now)
        sync.proposal, sync.metric = replicas, name

    def selector(self, sync: Sync, scale: Scale, pods: PodLister, now: int) -> LabelQuery | None:
        """The target's selector; None where it is no use, which ends the sync."""
        namespace, name = sync.hpa.metadata.namespace, sync.hpa.metadata.name
        if not scale.selector:
            message = "the HPA target's scale is missing a selector"
            _bad_selector(sync, "SelectorRequired", "InvalidSelector", "selector is required", message, now)
            return None
        try:
            selector = parse_selector(scale.selector)
        except SelectorError as error:
            text = f"couldn't convert selector into a corresponding internal selector object: {error}"
            _bad_selector(sync, "InvalidSelector", "InvalidSelector", text, text, now)
            return None
        self.selectors.update(namespace, name, selector)
        rivals = self.selectors.rivals(namespace, selector, pods)
        if len(rivals) > 1:
            who = " ".join(f"{namespace}/{rival}" for rival in rivals)
            text = f"pods by selector {scale.selector} are controlled by more than one HPA (e.g. [{who}])"
            _bad_selector(sync, "AmbiguousSelector", "AmbiguousSelector", text, text, now)
            return None
        return selector

    # ---- from the proposal to the decision ---------------------------------------------------------------------------

    def normalize(self, sync: Sync, now: int) -> None:
        """Stabilise and limit the proposal; decides `scale_to`."""
        plan, current = sync.plan, sync.current
        proposal = sync.proposal or 0
        desired = max(proposal, 0)
        if desired > current:
            sync.reason = f"{sync.metric} above target"
        elif desired < current:
            sync.reason = _ALL_BELOW
        if plan.up is None or plan.down is None:
            limited = self._normalized(sync, desired, now)
        else:
            limited = self._normalized_with_behavior(sync, desired, plan.up, plan.down, now)
        # A minimum that was raised while the workload slept.
        if current == 0 and plan.least != 0 and limited < plan.least and is_scaled_to_zero(sync.conditions):
            limited = plan.least
            sync.reason = sync.reason or BELOW_MIN
        sync.desired = limited
        sync.scale_to = limited if limited != current else None

    def _normalized(self, sync: Sync, desired: int, now: int) -> int:
        window = self.flags.downscale_stabilization
        stable = stabilize_down(sync.history.recommendations, desired, window, now)
        if stable != desired:
            sync.condition(ABLE_TO_SCALE, TRUE, SCALE_DOWN_STABILIZED, HIGHER_BEFORE, now)
        else:
            sync.condition(ABLE_TO_SCALE, TRUE, "ReadyForNewScale", "recommended size matches current size", now)
        sync.stable = stable
        replicas, reason, message = limit_without_behavior(sync.current, stable, sync.plan.least, sync.plan.most)
        sync.condition(SCALING_LIMITED, FALSE if replicas == stable else TRUE, reason, message, now)
        return replicas

    def _normalized_with_behavior(
        self, sync: Sync, desired: int, up: RatePolicies, down: RatePolicies, now: int
    ) -> int:
        plan, current, history = sync.plan, sync.current, sync.history
        # The controller counts its own window in whole seconds here.
        flag = whole_seconds(self.flags.downscale_stabilization)
        down_window = flag if down.window is None else down.window
        stable = stabilize_both(history.recommendations, current, desired, up.window or 0, down_window, now)
        if stable != desired:
            sync.condition(ABLE_TO_SCALE, TRUE, *stabilized_reason(current, desired), now)
        else:
            sync.condition(ABLE_TO_SCALE, TRUE, "ReadyForNewScale", "recommended size matches current size", now)
        replicas, reason, message = limit_with_behavior(current, stable, plan.least, plan.most, up, down, history, now)
        sync.condition(SCALING_LIMITED, FALSE if replicas == stable else TRUE, reason, message, now)
        return replicas

    # ---- after the write ---------------------------------------------------------------------------------------------

    def finish(self, sync: Sync, now: int, error: str = "") -> Outcome:
        """The sync from the write of the target's scale on. `error`: why that write failed, "" if it did not."""
        if sync.stopped:
            return self._stopped(sync)
        if sync.scale_to is None:
            outcome = self._done(sync, sync.current, None)
            self._note_quiet(sync, outcome)
            return outcome
        if error:
            return self._not_written(sync, sync.scale_to, error, now)
        return self._written(sync, sync.scale_to, now)

    def _note_quiet(self, sync: Sync, outcome: Outcome) -> None:
        """Remember the sync if the next one may repeat it. Rate policies look at the clock, so that nothing repeats."""
        found, left = sync.hpa.status.conditions, outcome.status.conditions
        if sync.proposal is None or sync.stable is None or sync.error or sync.events or found != left:
            self._quiet.pop(sync.hpa.key, None)
            return
        # The tuple that is stored from now on: the next sync knows it by its identity.
        stored = left if outcome.changed else found
        self._quiet[sync.hpa.key] = Quiet(sync.plan, stored, sync.current, sync.proposal, sync.stable, sync.metric)

    def repeat(
        self,
        key: str,
        hpa: HorizontalPodAutoscaler,
        plan: HPAPlan,
        current: int,
        proposal: int,
        status: MetricStatus,
        now: int,
    ) -> Outcome | None:
        """The whole sync of an autoscaler with one metric where it only repeats the last one; None where it may not.

        `key`: "namespace/name". `current`: the replicas of the target; `proposal` and `status`: of the metric. There is
        nothing to write to the target.
        """
        quiet = self._quiet.get(key)
        if quiet is None or not quiet.is_repeated_by(hpa, plan, current, proposal):
            return None
        known = self.history(key).recommendations
        desired = max(proposal, 0)
        stable, slot = largest_within(known, desired, self.flags.downscale_stabilization, now)
        if stable != quiet.stable:
            return None
        known.put(slot, desired, now)
        old = hpa.status
        new = HorizontalPodAutoscalerStatus(
            observed_generation=hpa.metadata.generation,
            last_scale_time=old.last_scale_time,
            current_replicas=current,
            desired_replicas=current,
            current_metrics=(status,),
            conditions=quiet.conditions,
        )
        return Outcome(status=new, changed=new != old, proposal=proposal, metric=quiet.metric)

    def _stopped(self, sync: Sync) -> Outcome:
        if sync.current < 0:  # the scale is unknown: only conditions change
            old = sync.hpa.status
            status = HorizontalPodAutoscalerStatus(
                observed_generation=old.observed_generation,
                last_scale_time=old.last_scale_time,
                current_replicas=old.current_replicas,
                desired_replicas=old.desired_replicas,
                current_metrics=old.current_metrics,
                conditions=tuple(sync.conditions),
            )
        else:
            status = _status(sync, sync.hpa.status.desired_replicas, sync.hpa.status.last_scale_time)
        return sync.stop(status, sync.error)

    @staticmethod
    def _not_written(sync: Sync, wanted: int, error: str, now: int) -> Outcome:
        sync.warn("FailedRescale", f"New size: {wanted}; reason: {sync.reason}; error: {error}")
        message = f"the HPA controller was unable to update the target scale: {error}"
        sync.condition(ABLE_TO_SCALE, FALSE, "FailedUpdateScale", message, now)
        status = _status(sync, sync.hpa.status.desired_replicas, sync.hpa.status.last_scale_time)
        return sync.stop(status, f"failed to rescale {sync.plan.reference}: {error}")

    def _written(self, sync: Sync, wanted: int, now: int) -> Outcome:
        plan, current, history = sync.plan, sync.current, sync.history
        message = f"the HPA controller was able to update the target scale to {wanted}"
        sync.condition(ABLE_TO_SCALE, TRUE, "SucceededRescale", message, now)
        sync.events.append(HPAEvent(NORMAL, "SuccessfulRescale", f"New size: {wanted}; reason: {sync.reason}"))
        if plan.up is not None and plan.down is not None:
            if wanted > current:
                history.up.store(wanted - current, plan.up.longest_period, now)
            else:
                history.down.store(current - wanted, plan.down.longest_period, now)
        if current > 0 and wanted == 0 and plan.least == 0 and plan.from_outside:
            message = "the HPA controller scaled the workload to zero"
            sync.condition(SCALED_TO_ZERO, TRUE, "ScaledToZero", message, now)
        else:
            message = "the HPA controller did not scale the workload to zero"
            sync.condition(SCALED_TO_ZERO, FALSE, "NotScaledToZero", message, now)
        return self._done(sync, wanted, now)

    @staticmethod
    def _done(sync: Sync, desired: int, scaled_at: int | None) -> Outcome:
        old = sync.hpa.status
        status = _status(sync, desired, old.last_scale_time if scaled_at is None else whole_seconds(scaled_at))
        return Outcome(
            status=status,
            changed=status != old,
            scale_to=None if scaled_at is None else desired,
            reason="" if scaled_at is None else sync.reason,
            events=tuple(sync.events),
            error=sync.error,
            proposal=sync.proposal,
            metric=sync.metric,
        )


def _status(sync: Sync, desired: int, last_scale_time: int | None) -> HorizontalPodAutoscalerStatus:
    return HorizontalPodAutoscalerStatus(
        observed_generation=sync.hpa.metadata.generation,
        last_scale_time=last_scale_time,
        current_replicas=sync.current,
        desired_replicas=desired,
        current_metrics=sync.statuses,
        conditions=tuple(sync.conditions),
    )


def _no_proposal(sync: Sync, error: str) -> None:
    """The metrics decide nothing: the sync ends here."""
    sync.warn("FailedComputeMetricsReplicas", error)
    reference = sync.plan.reference
    sync.error = f"failed to compute desired number of replicas based on listed metrics for {reference}: {error}"
    sync.stopped = True


def _bad_selector(sync: Sync, event: str, reason: str, error: str, message: str, now: int) -> None:
    sync.warn(event, error)
    sync.condition(SCALING_ACTIVE, FALSE, reason, message, now)
    _no_proposal(sync, error)
