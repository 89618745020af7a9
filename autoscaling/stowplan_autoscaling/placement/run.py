"""One configuration on one cluster, run to the end in virtual time.

API server and kubelet are played here: a bound pod runs at once, a victim of preemption is gone at once and does not
come back. The clock moves by a microsecond per pod that arrives and per attempt, so that pods of one priority are
tried in the order of the input.

When is the end? The scheduler tries a pod that did not fit again only when something changed that may help it, or
after some time. So the run goes on as long as there is a pod to try; when there is none, the clock jumps to the
scheduler's next timer. It ends when every waiting pod has been tried since the last pod was bound or removed: another
round would change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stowplan_scheduler.effects import (
    DONE,
    AttemptFailed,
    Bind,
    DeleteVictim,
    Effect,
    PatchPodStatus,
    PreBind,
    ReleaseClaim,
)
from stowplan_scheduler.events import EffectDone, Event, ObjectAdded, ObjectDeleted, ObjectUpdated, TimerFired
from stowplan_scheduler.explain import Explanation, explain
from stowplan_scheduler.framework.selection import TieBreak
from stowplan_scheduler.objects import Pod, PodCondition
from stowplan_scheduler.resources import fit_request
from stowplan_scheduler.scheduler import Scheduler
from stowplan_scheduler.timestamps import format_time, parse_time

from .order import belongs_to_node, keeps_its_node, without_node
from .outcome import Decisions, Explained, Outcome, PendingPod, Victim

if TYPE_CHECKING:
    from stowplan_autoscaling.inputs import ClusterInput
    from stowplan_scheduler.config import KubeSchedulerConfiguration
    from stowplan_scheduler.framework.handle import PluginFactory
    from stowplan_scheduler.framework.pod_info import PodInfo
    from stowplan_scheduler.framework.runtime import Profile

MICROSECOND: Final = 1000
_EPOCH: Final = parse_time("2100-01-01T00:00:00Z")
"""When the virtual clock began, for start times of pods: later than those of any pod that runs already."""

ATTEMPTS_WITHOUT_PROGRESS: Final = 5
"""Attempts per waiting pod without any progress, after which a run is given up as one that never settles."""

MOST_IDLE_JUMPS: Final = 1000
"""Timers in a row that bring no attempt, after which a run is given up; nearly every timer brings one."""

_REPORT_EVERY: Final = 200

ProgressCallback = Callable[[int, int], None]
"""Told the pods done and the pods in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementOptions:
    """How to run.

    `reschedule_all`: every pod that can be placed loses its node first. Pods that belong to their node (DaemonSets,
    static pods), pods being deleted, pods with claims and pods that no profile takes keep theirs. `seed` matters only
    if something draws random numbers: ties with TieBreak.RANDOM, the candidates of preemption. `explain`: key of the
    pod to explain.
    """

    reschedule_all: bool = False
    seed: int = 0
    tie_break: TieBreak = TieBreak.HEAP
    explain: str | None = None


class PodNotFoundError(LookupError):
    """The pod to explain is not in the cluster."""


class Placement:
    """A scheduler with a cluster. Making one loads the objects; `run` may be called once."""

    def __init__(
        self,
        cluster: ClusterInput,
        config: KubeSchedulerConfiguration,
        options: PlacementOptions | None = None,
        *,
        third_party: Mapping[str, PluginFactory] | None = None,
    ) -> None:
        """Raises ConfigurationError, and PodNotFoundError if the pod to explain is not there."""
        self._options = options or PlacementOptions()
        self.scheduler = Scheduler(
            config,
            np.random.default_rng(self._options.seed),
            tie_break=self._options.tie_break,
            third_party=third_party,
        )
        self._now = 0
        self._pods: dict[str, Pod] = {}
        self._input = cluster.pods
        self._reasons: dict[str, str] = {}
        self._placed: dict[str, str] = {}
        self._victims: list[Victim] = []
        self._decisions = Decisions()
        self._progress = 0
        """Grows whenever a pod is bound or removed."""
        self._tried_at: dict[str, int] = {}
        """Value of `_progress` at the last attempt, by uid."""
        self._version = 0
        self._explanation: Explanation | None = None
        self._load(cluster)
        self._requests = tuple(self._asked(pod) for pod in cluster.pods if not belongs_to_node(pod))
        if self._options.explain is not None:
            if self._options.explain not in self._pods:
                raise PodNotFoundError(self._options.explain)
            self.scheduler.attempts.before_decision = self._look

    # ---- loading -----------------------------------------------------------------------------

    def _load(self, cluster: ClusterInput) -> None:
        for others in (
            cluster.namespaces,
            cluster.services,
            cluster.replication_controllers,
            cluster.replica_sets,
            cluster.stateful_sets,
            cluster.pod_disruption_budgets,
            cluster.device_classes,
            cluster.resource_slices,
            cluster.nodes,
        ):
            for item in others:
                self._tell(ObjectAdded(item))
        for pod in cluster.pods:
            self._now += MICROSECOND
            self._store(self._as_it_starts(pod))

    def _asked(self, pod: Pod) -> tuple[int, int]:
        """Milli cores and bytes."""
        info = self.scheduler.pods.by_key.get(pod.key)
        fit = fit_request(pod) if info is None else info.shape.fit
        return fit.milli_cpu, fit.memory

    def _as_it_starts(self, pod: Pod) -> Pod:
        if not (self._options.reschedule_all and pod.spec.node_name):
            return pod
        return pod if keeps_its_node(pod, self.scheduler.profiles) else without_node(pod)

    # ---- the run -----------------------------------------------------------------------------

    def run(self, progress: ProgressCallback | None = None) -> Outcome:
        """Place what can be placed."""
        settled = self._settle(progress or _silent)
        explained = self._explained()
        self.scheduler.update_snapshot()
        left = [pod for pod in self._pods.values() if not pod.spec.node_name]
        return Outcome(
            pods_before=self._input,
            nodes=tuple(self.scheduler.cluster.table.infos),
            placed=self._placed,
            kept=len(self._pods) - len(left) - len(self._placed),
            pending=tuple(PendingPod(pod, self._reason(pod)) for pod in left if self._profile_of(pod) is not None),
            other_schedulers=tuple(pod for pod in left if self._profile_of(pod) is None),
            victims=tuple(self._victims),
            decisions=self._decisions,
            requests=self._requests,
            settled=settled,
            explained=explained,
        )

    def _settle(self, progress: ProgressCallback) -> bool:
        """See the module. False if the run was given up."""
        total = sum(1 for pod in self._pods.values() if not pod.spec.node_name)
        idle_jumps = 0
        while True:
            attempts = self._decisions.attempts
            if not self._try_all(progress, total):
                return False
            if self._is_finished():
                progress(total, total)
                return True
            idle_jumps = idle_jumps + 1 if attempts == self._decisions.attempts else 0
            due = self.scheduler.next_timer(self._now)
            if due is None or idle_jumps > MOST_IDLE_JUMPS:
                return due is None
            self._now = max(due, self._now)
            self._tell(TimerFired())

    def _try_all(self, progress: ProgressCallback, total: int) -> bool:
        """Cycles until there is no pod to try. False if pods come back again and again without progress."""
        scheduler, decisions = self.scheduler, self._decisions
        mark, attempts = self._progress, 0
        while scheduler.has_work():
            self._now += MICROSECOND
            effects = scheduler.run_cycle(self._now)
            decisions.attempts += 1
            decision = scheduler.attempts.last_decision
            if decision is not None:
                decisions.ties.append(decision.ties)
                decisions.evaluated.append(decision.evaluated_nodes)
                decisions.feasible.append(decision.feasible_nodes)
            self._carry_out(effects)
            attempts += 1
            if mark != self._progress:
                mark, attempts = self._progress, 0
            elif attempts > ATTEMPTS_WITHOUT_PROGRESS * (len(self._pods) - len(self._placed) + 1):
                return False
            if decisions.attempts % _REPORT_EVERY == 0:
                progress(min(decisions.attempts, total), total)
        return True

    def _is_finished(self) -> bool:
        """Whether every pod that waits has been tried since the last progress; pods behind a gate do not wait."""
        queue = self.scheduler.queue.pending_pods()
        if queue.in_flight:
            return False  # it waits for a Permit plugin, which has a deadline
        waiting = (*queue.active, *queue.backoff, *queue.error_backoff, *queue.unschedulable)
        return all(self._tried_at.get(pod.uid) == self._progress for pod in waiting)

    # ---- effects -----------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        self._carry_out(self.scheduler.receive(event, self._now))

    def _carry_out(self, effects: list[Effect]) -> None:
        """Carry out effects, and what they cause, in the order in which they were asked for."""
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            match effect:
                case Bind():
                    self._bind(effect)
                case PatchPodStatus():
                    pending.extend(self._patch(effect))
                    continue
                case AttemptFailed():
                    self._reasons[effect.pod.key] = effect.message
                    self._tried_at[effect.pod.metadata.uid or effect.pod.key] = self._progress
                    continue
                case DeleteVictim():
                    pending.extend(self._delete(effect))
                case PreBind() | ReleaseClaim():
                    pass
                case _:
                    continue
            pending.extend(self.scheduler.receive(EffectDone(effect.id, DONE), self._now))

    def _bind(self, effect: Bind) -> None:
        pod = self._pods[effect.pod.key]
        status = replace(
            pod.status,
            phase="Running",
            nominated_node_name="",
            conditions=(_condition("True"),),
            start_time=format_time(_EPOCH + self._now),
        )
        self._progress += 1
        self._placed[pod.key] = effect.node_name
        self._store(replace(pod, spec=replace(pod.spec, node_name=effect.node_name), status=status))

    def _patch(self, effect: PatchPodStatus) -> list[Effect]:
        pod = self._pods.get(effect.pod.key)
        if pod is None:
            return []
        status = pod.status
        if effect.reason:
            others = tuple(c for c in status.conditions if c.type != "PodScheduled")
            status = replace(status, conditions=(*others, _condition("False", effect.reason, effect.message)))
        if effect.nominated_node_name is not None:
            status = replace(status, nominated_node_name=effect.nominated_node_name)
        return self._stored(replace(pod, status=status))

    def _delete(self, effect: DeleteVictim) -> list[Effect]:
        key = effect.victim.key
        pod = self._pods.pop(key, None)
        if pod is None:
            return []
        self._progress += 1
        self._placed.pop(key, None)
        self._victims.append(Victim(pod, pod.spec.node_name, effect.preemptor.key))
        return self.scheduler.receive(ObjectDeleted(pod), self._now)

    def _store(self, pod: Pod) -> None:
        self._carry_out(self._stored(pod))

    def _stored(self, pod: Pod) -> list[Effect]:
        self._version += 1
        pod = replace(pod, metadata=replace(pod.metadata, resource_version=str(self._version)))
        event = ObjectUpdated(pod) if pod.key in self._pods else ObjectAdded(pod)
        self._pods[pod.key] = pod
        return self.scheduler.receive(event, self._now)

    # ---- the end -----------------------------------------------------------------------------

    def _profile_of(self, pod: Pod) -> Profile | None:
        return self.scheduler.profiles.get(pod.spec.scheduler_name)

    def _reason(self, pod: Pod) -> str:
        """Why a pod has no node: the scheduler's last word, or what keeps it from being tried at all."""
        if pod.key in self._reasons:
            return self._reasons[pod.key]
        if pod.is_terminating:
            return "the pod is being deleted"
        profile, info = self._profile_of(pod), self.scheduler.pods.by_key.get(pod.key)
        if profile is None:
            return f"no profile has the schedulerName {pod.spec.scheduler_name}"
        if info is not None:
            for plugin in profile.pre_enqueue:
                status = plugin.pre_enqueue(info)
                if not status.is_success:
                    return status.message
        return "the pod was not tried"

    # ---- explanations ------------------------------------------------------------------------

    def _look(self, pod: PodInfo, profile: Profile, start: int) -> None:
        """Before an attempt of the pod to explain; the last one stands."""
        if pod.key == self._options.explain:
            self._explanation = explain(self.scheduler, pod, profile, start)

    def _explained(self) -> Explained | None:
        key = self._options.explain
        if key is None:
            return None
        explanation, when = self._explanation, "at its last attempt"
        if explanation is None:
            explanation, when = self._explained_at_the_end(key), "at the end"
        pod = self._pods.get(key)
        node_name = "" if pod is None else pod.spec.node_name
        return Explained(
            explanation=explanation,
            when=when,
            node_name=node_name,
            message="" if node_name else self._last_word(key, pod),
            victims=tuple(victim for victim in self._victims if victim.by == key),
        )

    def _last_word(self, key: str, pod: Pod | None) -> str:
        if pod is not None:
            return self._reason(pod)
        by = next(victim.by for victim in self._victims if victim.pod.key == key)
        return f"preempted by {by}"

    def _explained_at_the_end(self, key: str) -> Explanation:
        """For a pod that was never tried: as if it came now. A pod that is on a node is taken off for the moment."""
        pod = self._pods.get(key) or next(victim.pod for victim in self._victims if victim.pod.key == key)
        profile = self._profile_of(pod) or next(iter(self.scheduler.profiles.values()))
        on_node = bool(pod.spec.node_name) and key in self._pods
        if on_node:
            self.scheduler.receive(ObjectDeleted(pod), self._now)
        info = self.scheduler.pods.interner.info(without_node(pod) if pod.spec.node_name else pod)
        explanation = explain(self.scheduler, info, profile)
        if on_node:
            self.scheduler.receive(ObjectAdded(pod), self._now)
        return explanation


def _condition(status: str, reason: str = "", message: str = "") -> PodCondition:
    return PodCondition(type="PodScheduled", status=status, reason=reason, message=message)


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
