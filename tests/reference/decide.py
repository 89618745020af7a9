"""One scheduling cycle: which nodes fit, which is best, and what to say if none fits.

Follows schedule_one.go and framework/runtime/framework.go of Kubernetes v1.37.2, with one worker and without extenders.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stowplan_scheduler.objects import Pod

from .cluster import NodeState, PlacedPod, ReferenceCluster, placed
from .cycle import Cycle
from .diagnosis import Diagnosis, fit_message
from .filters import FILTERS, PRE_FILTERS
from .profile import Profile
from .scores import SCORERS
from .status import SUCCESS, UNRESOLVABLE, PluginError, Status, error, unresolvable

NO_NODES = "no nodes available to schedule pods"


class CycleError(Exception):
    """The cycle could not come to a decision."""


@dataclass(slots=True, kw_only=True)
class PreFilterResult:
    """The status of all PreFilter plugins together. `rejectors`: the plugins that restricted the nodes."""

    status: Status
    node_names: frozenset[str] | None = None
    rejectors: set[str] = field(default_factory=set)


# ---- PreFilter and Filter --------------------------------------------------------------------------------------------


def run_pre_filters(cycle: Cycle) -> PreFilterResult:
    """All PreFilter plugins in order; the first that cannot be resolved ends the run."""
    node_names: frozenset[str] | None = None
    contributors: set[str] = set()
    rejection = SUCCESS
    for plugin in cycle.profile.pre_filter:
        cycle.prefiltered.add(plugin)
        try:
            status, names = PRE_FILTERS[plugin](cycle)
        except PluginError as cause:
            cycle.asked[plugin, "PreFilter"] += 1
            return PreFilterResult(status=error(f'running PreFilter plugin "{plugin}": {cause}', plugin))
        if status.is_skip:
            cycle.skipped.add(plugin)
            continue
        cycle.asked[plugin, "PreFilter"] += 1
        if not status.is_success:
            if status.code == UNRESOLVABLE:
                return PreFilterResult(status=status.by(plugin))
            rejection = status.by(plugin)
            continue
        if names is not None:
            contributors.add(plugin)
            node_names = names if node_names is None else node_names & names
        if node_names is not None and not node_names:
            return PreFilterResult(status=_no_node_left(contributors), node_names=node_names, rejectors=contributors)
    return PreFilterResult(status=rejection, node_names=node_names, rejectors=contributors)


def _no_node_left(contributors: set[str]) -> Status:
    if len(contributors) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(contributors))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(contributors))}] simultaneously")


def run_filters(cycle: Cycle, state: NodeState) -> Status:
    """All filters in order; the first that does not agree decides."""
    for plugin in cycle.profile.filter:
        if plugin in cycle.skipped:
            continue
        cycle.asked[plugin, "Filter"] += 1
        try:
            status = FILTERS[plugin](cycle, state)
        except PluginError as cause:
            return error(f'running "{plugin}" filter plugin: {cause}', plugin)
        if not status.is_success:
            return status.by(plugin)
    return SUCCESS


def run_filters_with_nominated(cycle: Cycle, state: NodeState) -> Status:
    """The filters must agree with and without the pods of equal or higher priority that are promised to the node."""
    pod = cycle.pod
    promised = [
        each
        for each in cycle.nominated.get(state.node.metadata.name, ())
        if each.pod.priority >= pod.priority and each.pod.key != pod.key
    ]
    if promised:
        crowded, what_if = state.copy(), cycle.what_if()
        for each in promised:
            crowded.add(each)
            what_if.add(each, crowded)
        status = run_filters(what_if, crowded)
        if not status.is_success:
            return status
    return run_filters(cycle, state)


# ---- search ----------------------------------------------------------------------------------------------------------


def nodes_to_find(nodes: int, percentage: int) -> int:
    """How many feasible nodes are enough. A percentage of 0 adapts to the number of nodes."""
    if nodes < 100:
        return nodes
    if percentage == 0:
        percentage = max(5, 50 - nodes // 125)
    return max(100, nodes * percentage // 100)


def find_feasible(
    cycle: Cycle,
    diagnosis: Diagnosis,
    nodes: Sequence[NodeState],
    start: int,
    percentage: int,
    feasible: list[NodeState],
) -> None:
    """Add the feasible nodes in rotation order. Raises CycleError.

    The search ends when one node more than enough is found, and drops that one: the rejected nodes between the last
    node that is kept and the one that is dropped are part of the diagnosis and move the start of the next search.
    """
    enough = nodes_to_find(len(nodes), percentage) if cycle.profile.score else 1
    rotation = [nodes[(start + i) % len(nodes)] for i in range(len(nodes))]
    if not cycle.profile.filter:
        feasible += rotation[:enough]
        return
    for state in rotation:
        status = run_filters_with_nominated(cycle, state)
        if status.is_success:
            if len(feasible) == enough:
                break
            feasible.append(state)
        elif status.is_rejected:
            diagnosis.statuses[state.node.metadata.name] = status
            diagnosis.add_rejector(status)
        else:
            raise CycleError(status.message)


# ---- score -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class NodeScore:
    """The scores of one node: plugin -> (raw, normalized, weighted)."""

    state: NodeState
    plugins: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(weighted for _, _, weighted in self.plugins.values())


def run_scores(cycle: Cycle, feasible: Sequence[NodeState]) -> list[NodeScore]:
    """PreScore, Score and NormalizeScore over the feasible nodes. Raises CycleError."""
    skipped = _run_pre_scores(cycle, feasible)
    result = [NodeScore(state=state) for state in feasible]
    for plugin, weight in cycle.profile.score:
        if plugin in skipped:
            continue
        scorer = SCORERS[plugin]
        cycle.asked[plugin, "Score"] += len(feasible)
        try:
            raw = [scorer.score(cycle, state) for state in feasible]
            final = scorer.normalize(cycle, feasible, raw) if scorer.normalize else raw
        except PluginError as cause:
            raise CycleError(f'running Score plugins: plugin "{plugin}" failed with: {cause}') from cause
        for node, one, normalized in zip(result, raw, final, strict=True):
            node.plugins[plugin] = (one, normalized, normalized * weight)
    return result


def _run_pre_scores(cycle: Cycle, feasible: Sequence[NodeState]) -> set[str]:
    skipped = set()
    for plugin in cycle.profile.pre_score:
        pre_score = SCORERS[plugin].pre_score
        try:
            if pre_score and not pre_score(cycle, feasible):
                skipped.add(plugin)
            else:
                cycle.asked[plugin, "PreScore"] += 1
        except PluginError as cause:
            raise CycleError(f'running PreScore plugin "{plugin}": {cause}') from cause
    return skipped


def heap_root(scores: Sequence[int]) -> int:
    """The index that stands at the root after Go's heap.Init with the highest score first: how ties are broken."""
    heap = list(range(len(scores)))
    for start in reversed(range(len(heap) // 2)):
        parent = start
        while (child := 2 * parent + 1) < len(heap):
            if child + 1 < len(heap) and scores[heap[child + 1]] > scores[heap[child]]:
                child += 1
            if scores[heap[child]] <= scores[heap[parent]]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0]


# ---- the cycle -------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Placement:
    """The end of a cycle: a node, or a diagnosis, or an error; and where the next search starts."""

    node: str = ""
    error: str = ""
    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    next_start: int = 0


def place(cycle: Cycle, percentage: int = 100, start: int = 0) -> Placement:
    """schedulePod: find the feasible nodes and choose one."""
    diagnosis = Diagnosis()
    outcome = Placement(diagnosis=diagnosis, next_start=start)
    if not cycle.cluster.nodes:
        outcome.error = NO_NODES
        return outcome
    try:
        feasible = _search(cycle, outcome, percentage)
        if len(feasible) == 1:
            outcome.node = feasible[0].node.metadata.name
        elif feasible:
            outcome.node = feasible[heap_root(_totals(cycle, feasible))].node.metadata.name
    except CycleError as cause:
        outcome.error = str(cause)
    return outcome


def _totals(cycle: Cycle, feasible: Sequence[NodeState]) -> list[int]:
    if not cycle.profile.score:
        return [1] * len(feasible)
    return [score.total for score in run_scores(cycle, feasible)]


def _search(cycle: Cycle, outcome: Placement, percentage: int) -> list[NodeState]:
    """findNodesThatFitPod. Moves `outcome.next_start`."""
    diagnosis, cluster = outcome.diagnosis, cycle.cluster
    result = run_pre_filters(cycle)
    diagnosis.rejectors = result.rejectors
    if not result.status.is_success:
        if not result.status.is_rejected:
            raise CycleError(result.status.message)
        diagnosis.absent = result.status
        diagnosis.pre_filter_message = result.status.message
        diagnosis.add_rejector(result.status)
        return []
    feasible: list[NodeState] = []
    promised = cluster.node(cycle.pod.status.nominated_node_name)
    if promised is not None:
        # Upstream only logs an error here; the search over all nodes meets it again.
        with suppress(CycleError):
            find_feasible(cycle, diagnosis, [promised], outcome.next_start, percentage, feasible)
        if feasible:
            return feasible
    nodes = cluster.nodes
    if result.node_names is not None:
        nodes = [state for state in nodes if state.node.metadata.name in result.node_names]
        # The promised node may have added its own rejectors: upstream prints the set as it is by now.
        names = " ".join(sorted(diagnosis.rejectors))
        diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{names}]")
    try:
        find_feasible(cycle, diagnosis, nodes, outcome.next_start, percentage, feasible)
    finally:
        visited = len(feasible) + len(diagnosis.statuses)
        outcome.next_start = (outcome.next_start + visited) % len(cluster.nodes)
    return feasible


def new_cycle(cluster: ReferenceCluster, profile: Profile, pod: Pod, nominated: Sequence[Pod] = ()) -> Cycle:
    """A cycle for a pod. `nominated`: pending pods with a nominated node, beside those of the cluster."""
    promised: dict[str, list[PlacedPod]] = {}
    for other in (*cluster.pending, *nominated):
        if other.status.nominated_node_name:
            promised.setdefault(other.status.nominated_node_name, []).append(placed(other))
    return Cycle(cluster=cluster, profile=profile, pod=pod, nominated=promised)


def schedule(
    cluster: ReferenceCluster,
    profile: Profile,
    pod: Pod,
    percentage: int = 0,
    start_index: int = 0,
    nominated: Sequence[Pod] = (),
) -> tuple[str, str, int]:
    """(node or "", text of the FitError or other error, next start index): one attempt without preemption."""
    outcome = place(new_cycle(cluster, profile, pod, nominated), percentage, start_index)
    text = outcome.error
    if not outcome.node and not text:
        text = fit_message(outcome.diagnosis, len(cluster.nodes))
    return outcome.node, text, outcome.next_start


# ---- the oracle's view -----------------------------------------------------------------------------------------------


def describe(status: Status) -> dict[str, Any]:
    """A status as the oracle prints it."""
    if status.is_success:
        return {"code": "Success"}
    return {"code": status.code, "plugin": status.plugin, "reasons": sorted(status.reasons)}


def evaluate(cluster: ReferenceCluster, profile: Profile, pod: Pod, nominated: Sequence[Pod] = ()) -> dict[str, Any]:
    """Everything about one pod and one snapshot, in the format of the oracle's evaluate mode (without the id)."""
    from .preemption import run_post_filters

    cycle = new_cycle(cluster, profile, pod, nominated)
    out: dict[str, Any] = {
        "nodeOrder": [state.node.metadata.name for state in cluster.nodes],
        "preFilter": {},
        "filter": {},
        "feasible": [],
        "scores": {},
        "totals": {},
        "selected": "",
        "fitMessage": "",
        "message": "",
        "rejectors": [],
        "postFilter": None,
        "error": "",
    }
    _show_phases(cycle, out)
    cycle = new_cycle(cluster, profile, pod, nominated)
    outcome = place(cycle)
    out["selected"] = outcome.node
    if outcome.node or outcome.error:
        out["error"] = outcome.error or out["error"]
        return out
    diagnosis = outcome.diagnosis
    out["fitMessage"] = fit_message(diagnosis, len(cluster.nodes))
    out["rejectors"] = sorted(diagnosis.rejectors)
    if profile.post_filter:
        result = run_post_filters(cycle, diagnosis)
        out["postFilter"] = {
            **describe(result.status),
            "nominatedNode": result.node,
            "victims": sorted(victim.key for victim in result.victims if not victim.is_terminating),
        }
        diagnosis.post_filter_message = result.status.message
    out["message"] = fit_message(diagnosis, len(cluster.nodes))
    return out


def _show_phases(cycle: Cycle, out: dict[str, Any]) -> None:
    """Run the extension points over all nodes and write down what they say."""
    result = run_pre_filters(cycle)
    names = result.node_names
    out["preFilter"] = {**describe(result.status), "nodeNames": None if names is None else sorted(names)}
    if not result.status.is_success:
        return
    feasible = []
    for state in cycle.cluster.nodes:
        name = state.node.metadata.name
        if names is not None and name not in names:
            continue
        status = run_filters_with_nominated(cycle, state)
        if status.is_success:
            feasible.append(state)
        else:
            out["filter"][name] = describe(status)
    out["feasible"] = [state.node.metadata.name for state in feasible]
    if len(feasible) < 2:
        return
    try:
        scores = run_scores(cycle, feasible)
    except CycleError as cause:
        out["error"] = str(cause)
        return
    for score in scores:
        name = score.state.node.metadata.name
        out["scores"][name] = {
            plugin: {"raw": raw, "normalized": normalized, "weighted": weighted}
            for plugin, (raw, normalized, weighted) in score.plugins.items()
        }
        out["totals"][name] = score.total
