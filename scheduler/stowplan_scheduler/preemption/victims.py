"""The dry run: which pods would have to leave a node so that the pod fits there.

On a copy of the node all pods of lower priority are taken away; if the pod fits then, they come back one by one, those
that a disruption budget protects first and the most important first, as long as the pod still fits. Whoever cannot come
back is a victim. Nodes do not influence each other, so many of them take each step together: one batch of hypotheses
per step instead of one per node.

Follows SelectVictimsOnNode of pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go of Kubernetes
v1.37.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stowplan_scheduler.cache.node_info import NodeInfo
from stowplan_scheduler.framework.cycle_state import CycleState
from stowplan_scheduler.framework.pod_info import PodInfo
from stowplan_scheduler.framework.search import RowArray, Search

from .budgets import Budgets
from .importance import by_importance


@dataclass(slots=True)
class DryRun:
    """What came out for one node.

    `verdict` is that of the node without its lower-priority pods; only if it is 0 do the other fields mean anything.
    `victims`: the most important first. `violations`: how many of them a budget protects.
    """

    row: int
    verdict: int = 0
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0


class _Trial:
    """A node on which the pod fits, while pods come back to it."""

    __slots__ = ("info", "lost", "protected", "result", "returning", "state")

    def __init__(
        self, result: DryRun, info: NodeInfo, state: CycleState, gone: list[PodInfo], budgets: Budgets
    ) -> None:
        protected, others = budgets.split(by_importance(gone))
        self.result = result
        self.info = info
        self.state = state
        self.returning = protected + others
        self.protected = len(protected)
        self.lost: list[PodInfo] = []

    def finish(self) -> None:
        """Put the victims in order: the two groups were tried one after the other."""
        self.result.victims = by_importance(self.lost)


def dry_runs(search: Search, rows: RowArray, budgets: Budgets) -> list[DryRun]:
    """Dry runs on nodes that all have pods of lower priority, in the order of `rows` (shape (n,), no row twice)."""
    results = [DryRun(row) for row in rows.tolist()]
    trials = _removed(search, rows, results, budgets)
    step = 0
    while trials:
        _bring_back(search, trials, step)
        step += 1
        unfinished = []
        for trial in trials:
            if step < len(trial.returning):
                unfinished.append(trial)
            else:
                trial.finish()
        trials = unfinished
    return results


def _removed(search: Search, rows: RowArray, results: Sequence[DryRun], budgets: Budgets) -> list[_Trial]:
    """Step one: everybody of lower priority is gone. Fills in the verdicts; returns the nodes where the pod fits."""
    priority = search.pod.priority
    infos: list[NodeInfo] = []
    states: list[CycleState] = []
    gone: list[list[PodInfo]] = []
    for result in results:
        info = search.cluster.table.infos[result.row]
        kept, going = _part(info, priority)
        changed = _without(info, kept, going)
        infos.append(changed)
        states.append(search.with_pods(search.state, (), going, changed))
        gone.append(going)
    verdicts = search.hypothetical(rows, infos, states).tolist()
    trials = []
    for index, (result, verdict) in enumerate(zip(results, verdicts, strict=True)):
        result.verdict = verdict
        if not verdict:
            trials.append(_Trial(result, infos[index], states[index], gone[index], budgets))
    return trials


def _part(info: NodeInfo, priority: int) -> tuple[list[PodInfo], list[PodInfo]]:
    """(pods that stay, pods of lower priority)."""
    kept: list[PodInfo] = []
    going: list[PodInfo] = []
    for pod in info.pods:
        (going if (pod.pod.spec.priority or 0) < priority else kept).append(pod)
    return kept, going


def _without(info: NodeInfo, kept: Sequence[PodInfo], going: Sequence[PodInfo]) -> NodeInfo:
    """A copy of the node with `kept` alone, made the shorter way."""
    # Where two pods have the same host port, the first that leaves frees it: that can only be had by removing.
    if len(going) <= len(kept) or info.used_ports is not None:
        changed = info.clone()
        for pod in going:
            changed.remove_pod(pod)
        return changed
    changed = NodeInfo()
    changed.node, changed.row, changed.generation = info.node, info.row, info.generation
    changed.allocatable, changed.declared_features = info.allocatable, info.declared_features
    changed.image_set, changed.image_states = info.image_set, info.image_states
    for pod in kept:
        changed.add_pod(pod)
    return changed


def _bring_back(search: Search, trials: Sequence[_Trial], step: int) -> None:
    """Let one more pod return to each node, and take it away again where the incoming pod does not fit with it."""
    rows = np.array([trial.result.row for trial in trials], np.intp)
    infos: list[NodeInfo] = []
    states: list[CycleState] = []
    for trial in trials:
        pod = trial.returning[step]
        trial.info.add_pod(pod)
        infos.append(trial.info)
        states.append(search.with_pods(trial.state, (pod,), (), trial.info))
    verdicts = search.hypothetical(rows, infos, states).tolist()
    for trial, state, verdict in zip(trials, states, verdicts, strict=True):
        if not verdict:
            trial.state = state
            continue
        pod = trial.returning[step]
        trial.info.remove_pod(pod)
        trial.lost.append(pod)
        trial.result.violations += step < trial.protected
