"""One attempt to place a pod, from the pop to the confirmed binding or the failure handler.

Follows pkg/scheduler/schedule_one.go of Kubernetes v1.37.2. A binding that waits (for Permit, PreBind or Bind) is a
record here; upstream keeps it in a goroutine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stowplan_scheduler.cache.errors import CacheError
from stowplan_scheduler.config.gotext import format_duration
from stowplan_scheduler.effects import AttemptFailed, Bind, Effect, Outcome, PatchPodStatus, PreBind, RecordEvent
from stowplan_scheduler.framework.cluster_event import ASSIGNED_POD_DELETE
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.diagnosis import Diagnosis, SchedulingError
from stowplan_scheduler.framework.interface import PostFilterResult
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.runtime import Decision, FitFailure, NoNodesError, Profile
from stowplan_scheduler.framework.status import SKIP, Code, Status, error
from stowplan_scheduler.queue import SECOND, AlreadyQueuedError, NominatingMode, QueuedPodInfo

if TYPE_CHECKING:
    from stowplan_scheduler.preemption.executor import PreemptionExecutor

    from .scheduler import Scheduler

T = TypeVar("T")

MAX_PERMIT_WAIT = 15 * 60 * 1_000_000_000
NOTE_LIMIT = 1024
MOST_ATTEMPTS = 15
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"

_CLEAR = ""
"""A nomination that is to be taken away."""


class Binding(msgspec.Struct):
    """A pod that has a node and is not bound yet."""

    pod: QueuedPodInfo
    assumed: PodInfo
    node_name: str
    profile: Profile
    state: CycleState
    permitted_at: int = 0
    """When the Permit plugins were asked."""
    waits: dict[str, int] = {}
    """Permit plugins that have not allowed it, with their deadlines."""
    pre_binds: list[str] = []
    """PreBind plugins whose effects are still to be asked for."""
    is_binding: bool = False
    """The Bind effect is under way."""


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed: what users see, who rejected, and what becomes of the nomination (None: kept)."""

    rejected: bool
    message: str
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nominated_node: str | None = _CLEAR


class Attempts:
    """Runs attempts and keeps the unfinished bindings and preemptions of one scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Nothing under way."""
        self._s = scheduler
        self._start_index = 0
        self._by_effect: dict[int, Binding] = {}
        self._by_uid: dict[str, Binding] = {}
        self._preemptions: dict[int, PreemptionExecutor] = {}
        self._begun: Binding | None = None
        """What the running attempt has assumed."""
        self.last_decision: Decision | None = None
        """How the latest attempt chose its node; None if it chose none. For reports."""
        self.before_decision: Callable[[PodInfo, Profile, int], None] | None = None
        """Told the pod, its profile and the start index once the snapshot is up to date; must change nothing."""

    # ---- scheduling cycle --------------------------------------------------------------------

    def attempt(self, pod: QueuedPodInfo, now: int) -> None:
        """Try one popped pod."""
        scheduler = self._s
        self.last_decision = self._begun = None
        profile = scheduler.profiles.get(pod.scheduler_name)
        if profile is None or self._is_skipped(pod):
            scheduler.queue.done(pod.uid)
            return
        try:
            scheduler.update_snapshot()
            if self.before_decision is not None:
                self.before_decision(pod.info, profile, self._start_index)
            result, self._start_index = profile.schedule(
                pod.info, scheduler.cluster, scheduler, self._start_index, scheduler.tie_break, scheduler.rng
            )
        except NoNodesError as failure:
            self._fail(pod, profile, Failure(rejected=True, message=str(failure)), now)
            return
        except (SchedulingError, CacheError) as failure:
            if isinstance(failure, SchedulingError) and failure.next_start is not None:
                self._start_index = failure.next_start
            self._fail(pod, profile, Failure(rejected=False, message=str(failure)), now)
            return
        if isinstance(result, FitFailure):
            self._post_filter(pod, profile, result, now)
            return
        self.last_decision = result
        self._assume(pod, profile, result.node_name, result.state, now)

    def abandon(self, pod: QueuedPodInfo, failure: Exception, now: int) -> None:
        """A plugin raised while a node was chosen: the pod must not stay in flight, nor hold its room."""
        scheduler = self._s
        if self._begun is not None:
            self._give_back(self._begun)
        message = f"{type(failure).__name__}: {failure}"
        self._fail(pod, scheduler.profiles[pod.scheduler_name], Failure(rejected=False, message=message), now)

    def _is_skipped(self, pod: QueuedPodInfo) -> bool:
        """A pod that is being deleted, or is assumed already (upstream skipPodSchedule)."""
        info = pod.info
        if info.terminating:
            note = f"skip schedule deleting pod: {info.key}"
            self._event(info, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self._s.cache.is_assumed_pod(info)

    def _post_filter(self, pod: QueuedPodInfo, profile: Profile, failure: FitFailure, now: int) -> None:
        """Run the PostFilter plugins and hand the pod to the failure handler (upstream RunPostFilterPlugins)."""
        diagnosis = failure.diagnosis
        nominated: str | None = _CLEAR
        evictions: list[Effect] = []
        if profile.post_filters:
            result, status = self.run_post_filters(pod.info, profile, failure)
            diagnosis.post_filter_message = status.message
            nominated = None if result is None else result.nominated_node
            if result is not None and result.victims:
                evictions = self._preempt(pod.info, profile, result)
        self._fail(pod, profile, _fit_failure(diagnosis, nominated), now)
        # Upstream deletes victims in the background: its first write on behalf of the pod is the pod's own status.
        if profile.preemption is not None:
            self._carry_out(evictions, profile.preemption)

    def run_post_filters(
        self, pod: PodInfo, profile: Profile, failure: FitFailure
    ) -> tuple[PostFilterResult | None, Status]:
        """The plugins in order: Success, UU and errors end the loop with their own text, U texts are joined."""
        last: PostFilterResult | None = None
        reasons: list[str] = []
        rejected_by = ""
        for plugin in profile.post_filters:
            result = plugin.post_filter(pod, failure.search, failure.diagnosis, self._s.rng)
            if plugin in profile.preempting:
                self._s.observe("preemption_attempts_total", 1)
            status = result.status.of(plugin.name)
            if status.code is not Code.UNSCHEDULABLE:
                return result, status
            rejected_by = rejected_by or plugin.name
            reasons.extend(status.reasons)
            if result.nominated_node is not None:
                last = result
        return last, Status(Code.UNSCHEDULABLE, tuple(reasons), rejected_by)

    def _preempt(self, pod: PodInfo, profile: Profile, result: PostFilterResult) -> list[Effect]:
        """Close the pod's gate; returns what the preemption begins with."""
        node = result.nominated_node or ""
        lower = [p for p in self._s.queue.nominated_pods_for_node(node) if p.priority < pod.priority]
        executor = profile.preemption
        if executor is None:
            return []
        self._s.observe("preemption_victims", len(result.victims))
        return executor.start(pod, result.victims, node, lower, self._s.next_id, profile.scheduler_name)

    def _carry_out(self, effects: list[Effect], executor: PreemptionExecutor) -> None:
        for effect in effects:
            if executor.awaits(effect.id):
                self._preemptions[effect.id] = executor
            self._s.emit(effect)

    # ---- assume, Reserve, Permit -------------------------------------------------------------

    def _assume(self, pod: QueuedPodInfo, profile: Profile, node_name: str, state: CycleState, now: int) -> None:
        scheduler = self._s
        info = pod.info
        spec = msgspec.structs.replace(info.pod.spec, node_name=node_name)
        assumed = PodInfo(msgspec.structs.replace(info.pod, spec=spec), info.shape)
        try:
            scheduler.cache.assume_pod(assumed)
        except CacheError as failure:
            self._fail(pod, profile, Failure(rejected=False, message=str(failure)), now)
            return
        if scheduler.queue.has_nominated_pods():
            scheduler.queue.delete_nominated_pod_if_exists(info.pod)
        self._begun = binding = Binding(pod, assumed, node_name, profile, state)
        refused = self._reserve(binding)
        if refused is not None:
            self._give_back(binding)
            self._fail(pod, profile, _refusal(refused, "Reserve"), now)
            return
        refused = self._permit(binding, now)
        if refused is not None:
            self._give_back(binding)
            self._fail(pod, profile, _refusal(refused, "Permit"), now)
            return
        if binding.waits:
            self._by_uid[assumed.uid] = binding
        else:
            self._pre_bind(binding, now)

    def _reserve(self, binding: Binding) -> Status | None:
        for plugin in binding.profile.reserve:
            status = plugin.reserve(binding.state, binding.assumed, binding.node_name)
            if not status.is_success:
                return status.of(plugin.name)
        return None

    def _permit(self, binding: Binding, now: int) -> Status | None:
        binding.permitted_at = now
        for plugin in binding.profile.permit:
            status, wait = plugin.permit(binding.state, binding.assumed, binding.node_name)
            if status.code is Code.WAIT:
                binding.waits[plugin.name] = now + min(wait, MAX_PERMIT_WAIT)
            elif not status.is_success:
                return status.of(plugin.name)
        return None

    def _give_back(self, binding: Binding) -> None:
        """Unreserve and forget the pod, whatever a plugin raises."""
        self._unreserve(binding)
        self._by_uid.pop(binding.assumed.uid, None)
        if self._s.cache.is_assumed_pod(binding.assumed):
            self._s.cache.forget_pod(binding.assumed)

    def _call(self, point: Callable[[CycleState, PodInfo, str], T], binding: Binding) -> T | Status:
        """What a plugin says of a binding. What it raises is an error of its own; the binding goes on its way."""
        try:
            return point(binding.state, binding.assumed, binding.node_name)
        except Exception as failure:  # noqa: BLE001 - whatever an author's mistake may be
            self._s.plugin_broke(failure)
            return error(f"{type(failure).__name__}: {failure}")

    def _unreserve(self, binding: Binding) -> None:
        """In reverse order, plugins that were not asked included."""
        for plugin in reversed(binding.profile.reserve):
            self._call(plugin.unreserve, binding)

    # ---- waiting on Permit -------------------------------------------------------------------

    def permit_decided(self, uid: str, plugin: str, reason: str | None, now: int) -> None:
        """A Permit plugin's answer for a waiting pod; None allows it."""
        binding = self._by_uid.get(uid)
        if binding is None or plugin not in binding.waits:
            return
        if reason is not None:
            self.reject_waiting(uid, plugin, reason, now)
            return
        del binding.waits[plugin]
        if not binding.waits:
            del self._by_uid[uid]
            self._waited(binding, Code.SUCCESS, now)
            self._pre_bind(binding, now)

    def reject_waiting(self, uid: str, plugin: str, reason: str, now: int) -> bool:
        """Reject a pod that waits on Permit; False if none does."""
        binding = self._by_uid.get(uid)
        if binding is None or not binding.waits:
            return False
        status = Status(Code.UNSCHEDULABLE, (reason,), plugin)
        self._waited(binding, status.code, now)
        self._binding_failed(binding, _refusal(status, "Permit"), now)
        return True

    def _waited(self, binding: Binding, code: Code, now: int) -> None:
        waited = (now - binding.permitted_at) / SECOND
        self._s.observe("permit_wait_duration_seconds", waited, result=code.label)

    def run_timers(self, now: int) -> None:
        """Reject the pods whose wait on Permit is over."""
        for uid, binding in list(self._by_uid.items()):
            due = sorted((deadline, name) for name, deadline in binding.waits.items() if deadline <= now)
            if due:
                self.reject_waiting(uid, due[0][1], _timeout_text(binding, due[0][1]), now)

    def next_timer(self) -> int | None:
        """The earliest deadline of a wait on Permit."""
        if not self._by_uid:
            return None
        return min((t for binding in self._by_uid.values() for t in binding.waits.values()), default=None)

    # ---- binding -----------------------------------------------------------------------------

    def _pre_bind(self, binding: Binding, now: int) -> None:
        """From here on a failure is an error: the pod is no longer in flight."""
        self._s.queue.done(binding.assumed.uid)
        broken = self._pre_flight(binding)
        if broken is not None:
            message = f'running PreBind plugin "{broken.plugin}": {broken.message}'
            self._binding_failed(binding, Failure(rejected=False, message=message), now)
            return
        self._next_step(binding, now)

    def _pre_flight(self, binding: Binding) -> Status | None:
        """Ask the PreBind plugins what there is to prepare; what broke, if anything did."""
        for plugin in binding.profile.pre_bind:
            status = self._call(plugin.pre_bind, binding)
            if status.is_success:
                binding.pre_binds.append(plugin.name)
            elif not status.is_skip:
                return status.of(plugin.name)
        return None

    def _next_step(self, binding: Binding, now: int) -> None:
        effect_id = self._s.next_id()
        pod, node_name = binding.assumed.pod, binding.node_name
        if binding.pre_binds:
            plugin_name = binding.pre_binds.pop(0)
            self._by_effect[effect_id] = binding
            self._s.emit(PreBind(id=effect_id, pod=pod, node_name=node_name, plugin=plugin_name))
            return
        status = self._choose_binder(binding)
        if status.is_success:
            binding.is_binding = True
            self._by_effect[effect_id] = binding
            self._s.emit(Bind(id=effect_id, pod=pod, node_name=node_name))
            return
        message = f'running Bind plugin "{status.plugin}": {status.message}'
        if status.is_skip:
            message = "all bind plugins skipped the pod"
        self._binding_failed(binding, Failure(rejected=False, message=message), now)

    def _choose_binder(self, binding: Binding) -> Status:
        """The answer of the first Bind plugin that does not skip the pod, with its name."""
        for plugin in binding.profile.bind:
            status = self._call(plugin.bind, binding)
            if not status.is_skip:
                return status.of(plugin.name)
        return SKIP

    def effect_done(self, effect_id: int, outcome: Outcome, now: int) -> None:
        """The answer to a Bind, PreBind or DeleteVictim; answers to other effects need no attention."""
        binding = self._by_effect.pop(effect_id, None)
        if binding is not None:
            if not outcome.is_done:
                self._binding_failed(binding, Failure(rejected=False, message=outcome.message), now)
            elif binding.is_binding:
                self._bound(binding, now)
            else:
                self._next_step(binding, now)
            return
        executor = self._preemptions.pop(effect_id, None)
        if executor is not None:
            step = executor.effect_done(effect_id, outcome, self._s.next_id)
            self._carry_out(step.effects, executor)
            if step.ended:
                self._s.observe("preemption_goroutines_execution_total", 1, result=step.ended)
            if step.activate is not None:
                self._s.queue.activate([step.activate], now)

    def _bound(self, binding: Binding, now: int) -> None:
        pod, profile = binding.pod, binding.profile
        info = binding.assumed
        self._s.observe("schedule_attempts_total", 1, result="scheduled", profile=profile.scheduler_name)
        self._s.observe("pod_scheduling_attempts", pod.attempts)
        if pod.initial_attempt_timestamp is not None:
            waited = (now - pod.initial_attempt_timestamp) / SECOND
            self._s.observe("pod_scheduling_sli_duration_seconds", waited, attempts=_attempts_label(pod.attempts))
        if pod.was_flushed_from_unschedulable:
            self._s.observe("pod_scheduled_after_flush_total", 1)
        note = f"Successfully assigned {info.key} to {binding.node_name}"
        self._event(info, "Normal", "Scheduled", "Binding", note)
        self._post_bind(binding)

    def _post_bind(self, binding: Binding) -> None:
        for plugin in binding.profile.post_bind:
            self._call(plugin.post_bind, binding)

    def _binding_failed(self, binding: Binding, failure: Failure, now: int) -> None:
        """Give back and requeue; others may use the room (upstream handleBindingCycleError)."""
        queue, assumed = self._s.queue, binding.assumed
        self._give_back(binding)
        if not failure.rejected:
            queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, assumed.pod, None, now)
        self._fail(binding.pod, binding.profile, failure, now)
        if failure.rejected:
            # Only now, and without the pod itself: its own leaving must not wake it.
            queue.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE, assumed.pod, None, now, lambda waiting: waiting.uid != assumed.uid
            )

    # ---- failure handler ---------------------------------------------------------------------

    def _fail(self, pod: QueuedPodInfo, profile: Profile, failure: Failure, now: int) -> None:
        """Requeue the pod and say why it failed (upstream handleSchedulingFailure)."""
        scheduler = self._s
        outcome = "unschedulable" if failure.rejected else "error"
        scheduler.observe("schedule_attempts_total", 1, result=outcome, profile=profile.scheduler_name)
        scheduler.emit(
            AttemptFailed(
                id=scheduler.next_id(),
                pod=pod.info.pod,
                rejected=failure.rejected,
                message=failure.message,
                plugins=tuple(sorted(failure.plugins)),
                pending_plugins=tuple(sorted(failure.pending)),
                nominated_node=failure.nominated_node,
                attempt=pod.attempts,
            )
        )
        pod.clear_rejectors()
        pod.unschedulable_plugins, pod.pending_plugins = failure.plugins, failure.pending
        newest = scheduler.pods.by_key.get(pod.key)
        info = pod.info
        if newest is None or newest.pod.spec.node_name:
            scheduler.queue.done(pod.uid)
        elif pod.scheduler_name not in scheduler.profiles:
            # A reconfiguration took its profile away while it was being bound.
            scheduler.queue.done(pod.uid)
            return
        elif newest.uid != pod.uid:
            # Made anew in the meantime: the new pod has its own life.
            scheduler.queue.done(pod.uid)
            return
        else:
            pod.info = info = newest
            try:
                scheduler.queue.add_unschedulable_if_not_present(pod, now)
            except AlreadyQueuedError:
                scheduler.queue.done(pod.uid)
        self._nominate(info, failure.nominated_node)
        self._event(info, "Warning", "FailedScheduling", "Scheduling", failure.message)
        reason = UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR
        self._patch(info, reason, failure)

    def _nominate(self, info: PodInfo, node_name: str | None) -> None:
        queue = self._s.queue
        if node_name is not None:
            queue.add_nominated_pod(info, node_name, NominatingMode.OVERRIDE)
        elif info.pod.status.nominated_node_name or queue.has_nominated_pods():
            queue.add_nominated_pod(info)

    def _patch(self, info: PodInfo, reason: str, failure: Failure) -> None:
        """Condition and nomination, unless both are as they should be already."""
        status = info.pod.status
        name = failure.nominated_node
        if name == status.nominated_node_name:
            name = None
        unchanged = any(
            c.type == "PodScheduled" and c.status == "False" and c.reason == reason and c.message == failure.message
            for c in status.conditions
        )
        if name is None and unchanged:
            return
        effect_id = self._s.next_id()
        self._s.emit(
            PatchPodStatus(id=effect_id, pod=info.pod, reason=reason, message=failure.message, nominated_node_name=name)
        )

    def _event(self, info: PodInfo, kind: str, reason: str, action: str, note: str) -> None:
        self._s.emit(
            RecordEvent(
                id=self._s.next_id(),
                regarding=info.pod,
                related=None,
                type=kind,
                reason=reason,
                action=action,
                note=truncated(note),
            )
        )


def _attempts_label(attempts: int) -> str:
    """Capped, so that the metric does not get a series for each number."""
    return str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"


def truncated(note: str) -> str:
    """At most 1024 bytes, with " ..." at the end of a text that was cut."""
    if len(note) <= NOTE_LIMIT and note.isascii():
        return note
    data = note.encode()
    if len(data) <= NOTE_LIMIT:
        return note
    suffix = " ..."
    return data[: NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix


def _fit_failure(diagnosis: Diagnosis, nominated: str | None) -> Failure:
    return Failure(
        rejected=True,
        message=diagnosis.message(),
        plugins=diagnosis.unschedulable_plugins,
        pending=diagnosis.pending_plugins,
        nominated_node=nominated,
    )


def _refusal(status: Status, point: str) -> Failure:
    """A rejection in Reserve or Permit reads like one by the only node there is; anything else is an error."""
    if not status.is_rejected:
        return Failure(rejected=False, message=f'running {point} plugin "{status.plugin}": {status.message}')
    texts = sorted(f"1 {reason}" for reason in status.reasons)
    pending = status.code is Code.PENDING
    plugins = frozenset((status.plugin,)) if status.plugin else frozenset()
    return Failure(
        rejected=True,
        message=f"0/1 nodes are available: {', '.join(texts)}.",
        plugins=frozenset() if pending else plugins,
        pending=plugins if pending else frozenset(),
    )


def _timeout_text(binding: Binding, plugin: str) -> str:
    waited = format_duration(binding.waits[plugin] - binding.permitted_at)
    return f"rejected due to timeout after waiting {waited} at plugin {plugin}"
