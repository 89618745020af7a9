"""Decisions judged by the scalar reference of the tests, on what the worker knows: I7, I8 and the choice of victims.

The reference shares no code with the plugins. What a worker knows is what it was told by its watches, its own
assumptions, and the nominations that it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from reference.cluster import ReferenceCluster
from reference.cycle import Cycle
from reference.decide import new_cycle, place, run_filters_with_nominated, run_pre_filters, run_scores
from reference.preemption import cost, dry_run, pick, why_not_eligible
from reference.profile import Profile
from reference.status import UNSCHEDULABLE
from stowplan_operator.worker.story import StoryRecord
from stowplan_scheduler.framework.interface import PostFilterResult
from stowplan_scheduler.objects import Node, Pod

from .profiles import reference_profiles
from .violation import Violation

if TYPE_CHECKING:
    from .process import Process


def judge_choice(process: Process, record: StoryRecord) -> None:
    """I7 and I8: the chosen node passes every filter, and no other has a higher total."""
    pod = process.view[record.pod]
    cycle = _cycle(process, pod)
    result = run_pre_filters(cycle)
    chosen = cycle.cluster.node(record.node)
    if not result.status.is_success or chosen is None:
        raise Violation("I7", f"{record.node}: {result.status}", record.pod)
    names = result.node_names
    allowed = [state for state in cycle.cluster.nodes if names is None or state.node.metadata.name in names]
    feasible = [state for state in allowed if run_filters_with_nominated(cycle, state).is_success]
    if chosen not in feasible:
        why = run_filters_with_nominated(cycle, chosen)
        raise Violation("I7", f"{record.node} does not fit: {why}", record.pod)
    if pod.status.nominated_node_name == record.node or len(feasible) == 1:
        return
    totals = {score.state.node.metadata.name: score.total for score in run_scores(cycle, feasible)}
    if totals[record.node] != max(totals.values()):
        raise Violation("I8", f"{record.node} is not the best of {totals}", record.pod)


def judge_preemption(process: Process, pod: Pod, result: PostFilterResult | None) -> None:
    """I10: the victims are those that the reference takes on this node, and no other node costs less.

    `result` None, or without victims: no node could be freed. The budgets are those that the worker has been told of.
    """
    cycle = _cycle(process, pod)
    placement = place(cycle)
    if placement.node or placement.error:
        raise Violation("I10", f"preemption runs for a pod that fits {placement.node}{placement.error}", pod.key)
    why_not = why_not_eligible(cycle, placement.diagnosis)
    nodes = [] if why_not else cycle.cluster.nodes
    tried = [s for s in nodes if placement.diagnosis.status_of(s.node.metadata.name).code == UNSCHEDULABLE]
    candidates = {candidate.node: candidate for candidate in dry_run(cycle, tried)[0]}
    if result is None or not result.victims:
        if candidates:
            raise Violation("I10", f"{sorted(candidates)} could be freed, and none is", pod.key)
        return
    mine = candidates.get(result.nominated_node or "")
    victims = [victim.pod.key for victim in result.victims]
    if mine is None:
        raise Violation("I10", f"{result.nominated_node} cannot be freed: {why_not}", pod.key)
    if [victim.key for victim in mine.victims] != victims:
        wanted = ", ".join(victim.key for victim in mine.victims)
        raise Violation("I10", f"the victims are {', '.join(victims)} and not {wanted}", pod.key)
    best = pick(list(candidates.values()))
    if cost(mine) != cost(best):
        raise Violation("I10", f"{best.node} costs {cost(best)}, {mine.node} {cost(mine)}", pod.key)


def feasible_nodes(nodes: list[Node], bound: list[Pod], profile: Profile, pod: Pod, promised: list[Pod]) -> list[str]:
    """The names of the nodes that pass every filter."""
    cycle = new_cycle(ReferenceCluster(nodes, bound), profile, pod, promised)
    result = run_pre_filters(cycle)
    if not result.status.is_success:
        return []
    names = result.node_names
    return [
        state.node.metadata.name
        for state in cycle.cluster.nodes
        if (names is None or state.node.metadata.name in names) and run_filters_with_nominated(cycle, state).is_success
    ]


def _cycle(process: Process, pod: Pod) -> Cycle:
    """What the worker knows, for a cycle of this pod."""
    scheduler = process.machine.scheduler
    promised = [
        replace(info.pod, status=replace(info.pod.status, nominated_node_name=name))
        for name in scheduler.nominated_nodes()
        for info in scheduler.nominated_pods_for_node(name)
        if info.uid != pod.metadata.uid
    ]
    budgets = list(process.budgets.values())
    cluster = ReferenceCluster(list(process.nodes.values()), _known(process, pod.metadata.uid), pdbs=budgets)
    return new_cycle(cluster, reference_profiles(process.strategy)[pod.spec.scheduler_name], pod, promised)


def _known(process: Process, uid: str) -> list[Pod]:
    """The pods with a node; those of a node in the order in which the core counts them, for equals that decides."""
    known = {key: held for key, held in process.view.items() if held.spec.node_name}
    for key, (assumed, node) in process.assumed.items():
        held = process.view.get(key)
        if held is None or held.metadata.uid != assumed or assumed == uid:
            continue
        read = process.machine.scheduler.pods.of_uid(assumed)
        if assumed in process.machine._ahead and read is not None:
            # Taken in as a read showed it, which is more than that it has a node: it may have started, for example.
            known[key] = read
            continue
        # Of a pod that terminates no bind is accepted any more: as upstream, the core gives its room back at once.
        if not held.spec.node_name and not held.is_terminating:
            known[key] = replace(held, spec=replace(held.spec, node_name=node))
    cache = process.machine.scheduler.cache
    counted = [info.key for name in process.nodes if (row := cache.get_node(name)) for info in row.pods]
    order = {key: number for number, key in enumerate(counted)}
    return sorted(known.values(), key=lambda pod: order.get(pod.key, len(order)))
