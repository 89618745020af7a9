"""DefaultPreemption: makes room for a pod that fits nowhere by deleting pods of lower priority.

Follows pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and evaluate of
pkg/scheduler/framework/preemption/preemption.go of Kubernetes v1.37.2, without extenders and pod groups.
"""

from __future__ import annotations

from typing import Final

from stowplan_scheduler.framework.cluster_event import ASSIGNED_POD_DELETE, EventRegistration, Hint
from stowplan_scheduler.framework.diagnosis import Diagnosis
from stowplan_scheduler.framework.handle import PluginHandle
from stowplan_scheduler.framework.interface import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.search import RowArray, Search
from stowplan_scheduler.framework.selection import Rng
from stowplan_scheduler.framework.status import SUCCESS, Code, Status, unresolvable
from stowplan_scheduler.objects import Pod

from .budgets import Budgets
from .candidates import CandidateSearch, Outcome, candidates_wanted, hopeless_text, potential_nodes, starting_at
from .choice import choose_candidate
from .executor import PreemptionExecutor
from .lowest_priority import LowestPriorities

DEFAULT_PERCENTAGE: Final = 10
DEFAULT_ABSOLUTE: Final = 100

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished")

_CLEARED: Final = ""
"""The nominated node of a pod that preemption cannot help."""


class DefaultPreemption(PostFilterPlugin, PreEnqueuePlugin):
    """Finds the node with the least harmful victims, and gates the preemptor until they are on their way out.

    `executor` carries out what `post_filter` decides.
    """

    name = "DefaultPreemption"

    def __init__(self, args: object, handle: PluginHandle) -> None:
        """`args`: DefaultPreemptionArgs, or None for the defaults."""
        self.executor = PreemptionExecutor(handle.pod_lister)
        self._percentage: int = getattr(args, "min_candidate_nodes_percentage", DEFAULT_PERCENTAGE)
        self._absolute: int = getattr(args, "min_candidate_nodes_absolute", DEFAULT_ABSOLUTE)
        self._stores = handle.stores
        self._pod_lister = handle.pod_lister
        self._lowest = LowestPriorities()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keeps a pod outside while its victims are being deleted."""
        return WAITING if self.executor.is_running(pod.uid) else SUCCESS

    def events(self) -> tuple[EventRegistration, ...]:
        """A pod's deletion is when the gate above is looked at again."""
        return (EventRegistration(ASSIGNED_POD_DELETE, _never),)

    def post_filter(self, pod: PodInfo, search: Search, diagnosis: Diagnosis, rng: Rng) -> PostFilterResult:
        """A node and its victims, or why there are none."""
        newest = self._newest(pod)
        if newest is None:
            return PostFilterResult(_said(Code.ERROR, f'pod "{pod.pod.metadata.name}" not found'))
        refusal = why_not_eligible(newest, search, diagnosis)
        if refusal:
            return PostFilterResult(_said(Code.UNSCHEDULABLE, refusal))
        cluster, rows = search.cluster, potential_nodes(diagnosis)
        # Upstream draws the offset whatever comes of it.
        offset = int(rng.integers(0, len(rows))) if len(rows) else 0
        if not self._lowest.any_below(cluster, rows, pod.priority):
            return PostFilterResult(_said(Code.UNSCHEDULABLE, hopeless_text(cluster.table.size, len(rows))), _CLEARED)
        outcome = self._find_candidates(search, starting_at(rows, offset))
        if outcome.candidates:
            best = choose_candidate(outcome.candidates)
            found = f"found a potential placement for pod on node {best.node_name}"
            text = f"{found}, preempting {len(best.victims)} victims"
            return PostFilterResult(_said(Code.SUCCESS, text), best.node_name, best.victims)
        if outcome.errors:
            return PostFilterResult(_said(Code.ERROR, outcome.error_text()))
        text = outcome.diagnosis(cluster.table.size).message()
        return PostFilterResult(_said(Code.UNSCHEDULABLE, text), _CLEARED)

    def _newest(self, pod: PodInfo) -> Pod | None:
        """The pod may have changed while it was being tried."""
        return pod.pod if self._pod_lister is None else self._pod_lister(pod.key)

    def _find_candidates(self, search: Search, rows: RowArray) -> Outcome:
        wanted = candidates_wanted(len(rows), self._percentage, self._absolute)
        budgets = Budgets(self._stores.pod_disruption_budgets.values())
        return CandidateSearch(search, budgets, self._lowest, wanted).run(rows)


def why_not_eligible(pod: Pod, search: Search, diagnosis: Diagnosis) -> str:
    """Why the pod may not preempt now, "" if it may (upstream PodEligibleToPreemptOthers)."""
    if pod.spec.preemption_policy == "Never":
        return NEVER
    row = search.cluster.table.row_of.get(pod.status.nominated_node_name)
    if row is None or diagnosis.status_of(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        # The room that was made is of no use: the pod may try elsewhere.
        return ""
    others = search.cluster.table.infos[row].pods
    waits = any(other.priority < pod.priority and terminates_by_preemption(other.pod) for other in others)
    return TERMINATING if waits else ""


def terminates_by_preemption(pod: Pod) -> bool:
    """Whether a scheduler made the pod terminate (upstream PodTerminatingByPreemption)."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False


def _said(code: Code, text: str) -> Status:
    return Status(code, (f"preemption: {text}",))


def _never(pod: PodInfo, old: object, new: object) -> Hint:
    """Whether room was made is for the plugins to judge that rejected the pod."""
    return Hint.SKIP
