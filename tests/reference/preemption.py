"""DefaultPreemption as a dry run: which pods of which node would have to go.

Follows framework/preemption and plugins/defaultpreemption of Kubernetes v1.37.2, starting at the first node instead of
a random one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stowplan_scheduler.objects import Pod, PodDisruptionBudget

from .cluster import NodeState, PlacedPod
from .cycle import Cycle
from .decide import run_filters_with_nominated
from .diagnosis import Diagnosis, fit_message
from .selectors import query_matches, query_of
from .status import SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Status, error, unresolvable, unschedulable

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostFilterResult:
    """The status of PostFilter; on success the node and the victims, the most important first."""

    status: Status
    node: str = ""
    victims: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node with the pods that would have to go."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


def run_post_filters(cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """PostFilter plugins in order: the first success or error ends the run."""
    rejector = ""
    reasons: tuple[str, ...] = ()
    for plugin in cycle.profile.post_filter:
        result = dynamic_resources(cycle) if plugin == "DynamicResources" else preempt(cycle, diagnosis)
        if result.status.is_success:
            return result
        if not result.status.is_rejected:
            return PostFilterResult(status=result.status.by(plugin))
        rejector = rejector or plugin
        reasons += result.status.reasons
    return PostFilterResult(status=unschedulable(*reasons).by(rejector))


def dynamic_resources(cycle: Cycle) -> PostFilterResult:
    """No claims to give up; but an error if PreFilter ended before it came to this plugin."""
    if "DynamicResources" not in cycle.prefiltered:
        return PostFilterResult(status=error("not found"))
    return PostFilterResult(status=unschedulable())


def preempt(cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
    """Find the node whose victims cost least."""
    reason = why_not_eligible(cycle, diagnosis)
    if reason:
        return PostFilterResult(status=unschedulable(f"preemption: {reason}"))
    nodes = cycle.cluster.nodes
    potential = [s for s in nodes if diagnosis.status_of(s.node.metadata.name).code == UNSCHEDULABLE]
    candidates, statuses, errors = dry_run(cycle, potential)
    if candidates:
        best = pick(candidates)
        text = f"found a potential placement for pod on node {best.node}, preempting {len(best.victims)} victims"
        status = Status(code="Success", reasons=(f"preemption: {text}",))
        return PostFilterResult(status=status, node=best.node, victims=best.victims)
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return PostFilterResult(status=error(f"preemption: {text}"))
    inner = Diagnosis(statuses=statuses, absent=unresolvable(NOT_HELPFUL))
    return PostFilterResult(status=unschedulable(f"preemption: {fit_message(inner, len(nodes))}"))


def why_not_eligible(cycle: Cycle, diagnosis: Diagnosis) -> str:
    """Why the pod must not preempt now; empty if it may."""
    pod = cycle.pod
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    promised = pod.status.nominated_node_name
    state = cycle.cluster.node(promised)
    if state is None or diagnosis.status_of(promised).code == UNRESOLVABLE:
        return ""
    for each in state.pods:
        if each.pod.priority < pod.priority and terminating_by_preemption(each.pod):
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def terminating_by_preemption(pod: Pod) -> bool:
    """Whether the scheduler itself has sent the pod away. Only the first condition of the type is looked at."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False


def dry_run(cycle: Cycle, potential: Sequence[NodeState]) -> tuple[list[Candidate], dict[str, Status], list[str]]:
    """Candidates (those without violated budgets first), the statuses of the other nodes, and errors."""
    profile, count = cycle.profile, len(potential)
    wanted = max(count * profile.min_candidate_nodes_percentage // 100, profile.min_candidate_nodes_absolute)
    enough = min(count, wanted)
    good: list[Candidate] = []
    violating: list[Candidate] = []
    statuses: dict[str, Status] = {}
    errors: list[str] = []
    for state in potential:
        if good and len(good) + len(violating) >= enough:
            break
        name = state.node.metadata.name
        victims, violations, status = select_victims(cycle, state)
        if status.is_success and not victims:
            status = error(f'expected at least one victim pod on node "{name}"')
        if status.is_success:
            group = violating if violations else good
            if len(group) < enough:
                group.append(Candidate(node=name, victims=victims, violations=violations))
            continue
        statuses[name] = status
        if status.code == "Error":
            errors.append(status.message)
    return good + violating, statuses, errors


def select_victims(cycle: Cycle, original: NodeState) -> tuple[tuple[Pod, ...], int, Status]:
    """Take all less important pods away, then give back as many as possible, budgets and importance first."""
    pod = cycle.pod
    possible = [each for each in original.pods if each.pod.priority < pod.priority]
    if not possible:
        return (), 0, unresolvable(NO_VICTIMS)
    state, what_if = original.copy(), cycle.what_if()

    def take(each: PlacedPod) -> None:
        state.remove(each)
        what_if.remove(each, state)

    def give_back(each: PlacedPod) -> bool:
        state.add(each)
        what_if.add(each, state)
        if run_filters_with_nominated(what_if, state).is_success:
            return True
        take(each)
        return False

    for each in possible:
        take(each)
    status = run_filters_with_nominated(what_if, state)
    if not status.is_success:
        return (), 0, status
    by_importance = sorted(possible, key=importance)
    violating, harmless = split_by_budgets(by_importance, cycle.cluster.pdbs)
    lost = [each for each in violating if not give_back(each)]
    violations = len(lost)
    lost += [each for each in harmless if not give_back(each)]
    if violating and harmless:
        lost.sort(key=importance)
    return tuple(each.pod for each in lost), violations, SUCCESS


def importance(each: PlacedPod) -> tuple[int, float]:
    """Sorts the most important pod first: high priority, then early start."""
    return -each.pod.priority, start_time(each.pod)


def start_time(pod: Pod) -> float:
    """Seconds since the epoch; a pod that has not started counts as starting now, after all others."""
    if pod.status.start_time is None:
        return float("inf")
    return datetime.fromisoformat(pod.status.start_time).timestamp()


def split_by_budgets(
    pods: Sequence[PlacedPod], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PlacedPod], list[PlacedPod]]:
    """Pods whose loss would violate a budget, and the others. Each pod uses up the budgets that it comes to."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[PlacedPod] = []
    harmless: list[PlacedPod] = []
    for each in pods:
        (violating if _violates(each.pod, budgets, left) else harmless).append(each)
    return violating, harmless


def _violates(pod: Pod, budgets: Sequence[PodDisruptionBudget], left: list[int]) -> bool:
    meta = pod.metadata
    if not meta.labels:
        return False
    for i, budget in enumerate(budgets):
        query = query_of(budget.spec.selector)
        if budget.metadata.namespace != meta.namespace or not query or not query_matches(query, meta.labels):
            continue
        if meta.name in (budget.status.disrupted_pods or {}):
            continue
        left[i] -= 1
        if left[i] < 0:
            return True
    return False


def pick(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that costs least; the first one of equals."""
    return min(candidates, key=cost)


def cost(candidate: Candidate) -> tuple[int, int, int, int, float]:
    """Violated budgets, then the victims: the highest priority, their sum and number, and who started last."""
    victims = candidate.victims
    highest = max(pod.priority for pod in victims)
    earliest = min(start_time(pod) for pod in victims if pod.priority == highest)
    total = sum(pod.priority + 2**31 for pod in victims)
    return candidate.violations, victims[0].priority, total, len(victims), -earliest
