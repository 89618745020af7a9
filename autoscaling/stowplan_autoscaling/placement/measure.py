"""Turns the end of a run into numbers. Definitions stand with the fields in report.py."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stowplan_scheduler.objects import Node
from stowplan_scheduler.quantity import format_quantity
from stowplan_scheduler.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from stowplan_scheduler.tolerations import HARD_EFFECTS

from .explanation import explanation_report
from .order import belongs_to_node
from .outcome import Decisions, Outcome, PendingPod
from .report import (
    Amount,
    Balance,
    ClusterReport,
    ConfigurationReport,
    DecisionReport,
    LargestPod,
    NodesReport,
    OtherScheduler,
    PendingGroup,
    PodsReport,
    ResourceReport,
    VictimReport,
)
from .shape import Shape, default_shape

if TYPE_CHECKING:
    from stowplan_scheduler.cache.node_info import NodeInfo
    from stowplan_scheduler.objects import Pod

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

EXAMPLES: Final = 3
"""Pods named per group of pending pods."""

MANY_CORES: Final = 10_000
"""In milli cores."""

DIGITS: Final = 4
"""Decimal places of shares and means."""

_TIE_SETS: Final = (("1", 1), ("2-10", 10), ("11-100", 100), ("over 100", None))


def measure(outcome: Outcome, *, name: str, shape: Shape | None = None) -> ConfigurationReport:
    """The report of one configuration; `shape` None: the proportions of the cluster."""
    usage = Usage(outcome.nodes)
    full_below = full_thresholds(outcome.requests)
    in_use = usage.in_use
    shape = shape or default_shape(outcome.nodes)
    return ConfigurationReport(
        name=name,
        settled=outcome.settled,
        pods=_pods(outcome),
        pending=_pending(outcome.pending),
        other_schedulers=_other_schedulers(outcome.other_schedulers),
        victims=tuple(VictimReport(pod=v.pod.key, node=v.node_name, by=v.by) for v in outcome.victims),
        nodes=NodesReport(total=len(outcome.nodes), in_use=int(np.count_nonzero(in_use))),
        resources=tuple(_resource(usage, resource, full_below) for resource in usage.resources()),
        cpu_memory_gap=_gap(usage),
        largest_pod=None if shape is None else _largest_pod(usage, shape),
        decisions=_decisions(outcome.decisions),
        explanation=None if outcome.explained is None else explanation_report(outcome.explained),
    )


def cluster_report(outcome: Outcome) -> ClusterReport:
    """The input, as far as it is the same for every configuration."""
    full_below = {name: amount(name, least) for name, least in full_thresholds(outcome.requests).items()}
    return ClusterReport(nodes=len(outcome.nodes), pods=len(outcome.pods_before), full_below=full_below)


def amount(name: str, raw: int) -> Amount:
    """An amount with its text; many cores are easier to read with one decimal than in milli cores."""
    if name == CPU and abs(raw) >= MANY_CORES:
        return Amount(raw=raw, text=f"{raw / 1000:.1f}".removesuffix(".0"))
    return Amount(raw=raw, text=format_quantity(name, raw))


def full_thresholds(requests: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Below which free amount a node is full: the median of the requests above 0 (the lower of two); 1 without any.

    `requests`: (milli cores, bytes) per pod of the input, so that the measure is the same for every configuration.
    """
    cpu = [cpu for cpu, _ in requests if cpu > 0]
    memory = [memory for _, memory in requests if memory > 0]
    return {
        CPU: median_low(cpu) if cpu else 1,
        MEMORY: median_low(memory) if memory else 1,
        PODS: 1,
    }


# ---- pods --------------------------------------------------------------------------------------------------------


def _pods(outcome: Outcome) -> PodsReport:
    return PodsReport(
        total=len(outcome.pods_before),
        placed=len(outcome.placed),
        kept=outcome.kept,
        pending=len(outcome.pending),
        other_schedulers=len(outcome.other_schedulers),
        victims=len(outcome.victims),
    )


def _pending(pending: Sequence[PendingPod]) -> tuple[PendingGroup, ...]:
    """Groups of equal messages, the largest first."""
    groups: dict[str, list[str]] = {}
    for waiting in pending:
        groups.setdefault(waiting.message, []).append(waiting.pod.key)
    made = [
        PendingGroup(message=message, count=len(keys), pods=tuple(keys[:EXAMPLES])) for message, keys in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: -group.count))


def _other_schedulers(pods: Sequence[Pod]) -> tuple[OtherScheduler, ...]:
    groups: dict[str, list[str]] = {}
    for pod in pods:
        groups.setdefault(pod.spec.scheduler_name, []).append(pod.key)
    return tuple(
        OtherScheduler(scheduler_name=name, count=len(keys), pods=tuple(keys[:EXAMPLES]))
        for name, keys in sorted(groups.items())
    )


# ---- nodes -------------------------------------------------------------------------------------------------------


class Usage:
    """What the nodes have and what is requested of it, by resource, one number per node."""

    def __init__(self, nodes: Sequence[NodeInfo]) -> None:
        self.nodes = nodes
        self._columns: dict[tuple[str, bool], Int64s] = {}
        self.in_use: Bools = np.array(
            [any(not belongs_to_node(info.pod) for info in node.pods) for node in nodes], np.bool_
        )

    def resources(self) -> list[str]:
        """The core resources, then what else any node has or any pod on a node requests, by name."""
        nodes = self.nodes
        scalars = {name for node in nodes for name in (*node.allocatable.scalar, *node.requested.scalar)}
        storage = any(node.allocatable.ephemeral_storage or node.requested.ephemeral_storage for node in nodes)
        return [CPU, MEMORY, *([EPHEMERAL_STORAGE] if storage else []), PODS, *sorted(scalars)]

    def allocatable(self, name: str) -> Int64s:
        """In the scheduler's unit."""
        if (name, True) not in self._columns:
            self._columns[name, True] = np.array([node.allocatable.get(name) for node in self.nodes], np.int64)
        return self._columns[name, True]

    def requested(self, name: str) -> Int64s:
        """In the scheduler's unit."""
        if (name, False) not in self._columns:
            amounts = [len(node.pods) if name == PODS else node.requested.get(name) for node in self.nodes]
            self._columns[name, False] = np.array(amounts, np.int64)
        return self._columns[name, False]

    def free(self, name: str) -> Int64s:
        """What is left; 0 where a node is overcommitted."""
        free: Int64s = np.maximum(self.allocatable(name) - self.requested(name), 0)
        return free

    def utilization(self, name: str) -> Float64s:
        """requested/allocatable of the nodes that are in use and have any of the resource."""
        allocatable = self.allocatable(name)
        mask = self.in_use & (allocatable > 0)
        shares: Float64s = self.requested(name)[mask] / allocatable[mask]
        return shares


def _resource(usage: Usage, name: str, full_below: dict[str, int]) -> ResourceReport:
    allocatable = usage.allocatable(name)
    return ResourceReport(
        name=name,
        allocatable=amount(name, int(allocatable.sum())),
        requested=amount(name, int(usage.requested(name).sum())),
        allocatable_in_use=amount(name, int(allocatable[usage.in_use].sum())),
        stranded=amount(name, _stranded(usage, name, full_below)),
        balance=_balance(usage, name),
    )


def _stranded(usage: Usage, name: str, full_below: dict[str, int]) -> int:
    full = np.zeros(len(usage.nodes), np.bool_)
    for other, least in full_below.items():
        if other != name:
            full |= usage.free(other) < least
    return int(usage.free(name)[full].sum())


def _balance(usage: Usage, name: str) -> Balance | None:
    shares = usage.utilization(name)
    if not len(shares):
        return None
    return Balance(mean=_rounded(shares.mean()), standard_deviation=_rounded(shares.std()))


def _gap(usage: Usage) -> float:
    cpu, memory = usage.allocatable(CPU), usage.allocatable(MEMORY)
    mask = usage.in_use & (cpu > 0) & (memory > 0)
    if not mask.any():
        return 0.0
    shares = usage.requested(CPU)[mask] / cpu[mask] - usage.requested(MEMORY)[mask] / memory[mask]
    return _rounded(np.abs(shares).mean())


def _rounded(number: float) -> float:
    return round(float(number), DIGITS)


# ---- what still fits ---------------------------------------------------------------------------------------------


def _largest_pod(usage: Usage, shape: Shape) -> LargestPod:
    names = tuple(name for name, _ in shape.amounts)
    is_open = np.array([info.node is not None and _takes(info.node, names) for info in usage.nodes], np.bool_)
    is_open &= usage.free(PODS) > 0
    count, multiple = usage.free(PODS), np.full(len(usage.nodes), np.inf)
    for name, wanted in shape.amounts:
        count = np.minimum(count, usage.free(name) // wanted)
        multiple = np.minimum(multiple, usage.free(name) / wanted)
    multiple[~is_open] = 0.0
    row = int(multiple.argmax()) if len(multiple) else -1
    fits = row >= 0 and multiple[row] > 0
    scaled = _scaled(usage, shape, row) if fits else dict.fromkeys(names, 0)
    return LargestPod(
        shape=str(shape),
        amounts={name: amount(name, raw) for name, raw in scaled.items()},
        node=usage.nodes[row].name if fits else "",
        count=int(count[is_open].sum()),
    )


def _scaled(usage: Usage, shape: Shape, row: int) -> dict[str, int]:
    """The shape as large as the node's scarcest resource allows, in whole units."""
    free = {name: int(usage.free(name)[row]) for name, _ in shape.amounts}
    scarcest, wanted = min(shape.amounts, key=lambda item: free[item[0]] / item[1])
    return {name: each * free[scarcest] // wanted for name, each in shape.amounts}


def _takes(node: Node, resources: Sequence[str]) -> bool:
    """Whether a pod without tolerations may come, but for taints named after a resource that it asks for.

    Those are tolerated on its behalf by the admission plugin ExtendedResourceToleration.
    """
    return not node.spec.unschedulable and all(
        taint.effect not in HARD_EFFECTS or taint.key in resources for taint in node.spec.taints
    )


# ---- decisions ---------------------------------------------------------------------------------------------------


def _decisions(decisions: Decisions) -> DecisionReport:
    scored = [ties for ties, feasible in zip(decisions.ties, decisions.feasible, strict=True) if feasible > 1]
    counts = {label: 0 for label, _ in _TIE_SETS}
    for ties in scored:
        counts[next(label for label, most in _TIE_SETS if most is None or ties <= most)] += 1
    return DecisionReport(
        attempts=decisions.attempts,
        placements=len(decisions.ties),
        single_feasible=len(decisions.ties) - len(scored),
        tie_sets=counts,
        median_ties=median_low(scored) if scored else 0,
        largest_tie_set=max(scored, default=0),
        mean_feasible_nodes=_rounded(fmean(decisions.feasible)) if decisions.feasible else 0.0,
        mean_evaluated_nodes=_rounded(fmean(decisions.evaluated)) if decisions.evaluated else 0.0,
    )
