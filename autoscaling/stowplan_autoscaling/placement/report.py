"""What `stowplan simulate` reports, as data: typed, in a fixed order, the same bytes for the same input.

Amounts are whole numbers in the scheduler's units (cpu in milli cores, memory and storage in bytes, everything else as
a count) with a text for humans beside them. JSON and YAML carry the field names in camelCase.
"""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "stowplan.io/simulate/v1"
"""Changes when a field changes its meaning or goes; new fields may come at any time."""


class ReportPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all parts."""


class Amount(ReportPart, frozen=True, kw_only=True):
    """An amount of a resource."""

    raw: int
    text: str


class PodsReport(ReportPart, frozen=True, kw_only=True):
    """Where the pods are at the end. `total` counts the pods of the input and is the sum of the others.

    `placed`: given a node by this configuration. `kept`: on a node from the start. `pending`: without a node.
    `other_schedulers`: without a node, and no profile here takes them. `victims`: removed by preemption.
    """

    total: int
    placed: int
    kept: int
    pending: int
    other_schedulers: int
    victims: int


class PendingGroup(ReportPart, frozen=True, kw_only=True):
    """Pods with the same message, which is the text of their last FailedScheduling event; a few of them by name."""

    message: str
    count: int
    pods: tuple[str, ...]


class OtherScheduler(ReportPart, frozen=True, kw_only=True):
    """Pods without a node whose schedulerName no profile has."""

    scheduler_name: str
    count: int
    pods: tuple[str, ...]


class VictimReport(ReportPart, frozen=True, kw_only=True):
    """A pod that was removed from `node` for the pod `by`."""

    pod: str
    node: str
    by: str


class NodesReport(ReportPart, frozen=True, kw_only=True):
    """A node is in use if a pod runs on it that does not belong to a node (DaemonSet, static pod)."""

    total: int
    in_use: int


class Balance(ReportPart, frozen=True, kw_only=True):
    """Requested/allocatable over the nodes in use that have the resource: mean and standard deviation, 0 to 1."""

    mean: float
    standard_deviation: float


class ResourceReport(ReportPart, frozen=True, kw_only=True):
    """One resource over all nodes.

    `allocatable_in_use`: on the nodes in use. `stranded`: free on nodes that are full in another resource. A node is
    full if less cpu is free than the median pod asks for, or less memory, or if it takes no further pod.
    """

    name: str
    allocatable: Amount
    requested: Amount
    allocatable_in_use: Amount
    stranded: Amount
    balance: Balance | None


class LargestPod(ReportPart, frozen=True, kw_only=True):
    """How much of `shape` still fits, for a pod without tolerations, selectors and affinity.

    `amounts`: the largest pod in the proportions of the shape, with the `node` that has room for it ("" and zeros if
    none has). `count`: how many pods of exactly this shape fit.
    """

    shape: str
    amounts: dict[str, Amount]
    node: str
    count: int


class DecisionReport(ReportPart, frozen=True, kw_only=True):
    """The attempts that were made, and among how many nodes they chose.

    `tie_sets` counts the placements by the number of nodes with the best total score. Placements with a single
    feasible node, for which nothing is scored, are in `single_feasible` instead.
    """

    attempts: int
    placements: int
    single_feasible: int
    tie_sets: dict[str, int]
    median_ties: int
    largest_tie_set: int
    mean_feasible_nodes: float
    mean_evaluated_nodes: float


class Timing(ReportPart, frozen=True, kw_only=True):
    """Wall clock of the run itself, reading the input not included."""

    seconds: float
    decisions_per_second: float


class ScoreReport(ReportPart, frozen=True, kw_only=True):
    """One plugin's score for a node: as the plugin gave it, after normalisation (0 to 100), and times its weight."""

    plugin: str
    raw: int
    normalized: int
    weight: int
    weighted: int


class RejectionReport(ReportPart, frozen=True, kw_only=True):
    """What one filter plugin has against a node. `for_nominated`: only because of pods that are nominated to it."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    for_nominated: bool


class NodeVerdictReport(ReportPart, frozen=True, kw_only=True):
    """All filter plugins that reject a node, or its scores. `looked_at`: whether the decision came to the node at all.

    `total` is null for a node that was not scored.
    """

    name: str
    looked_at: bool
    rejections: tuple[RejectionReport, ...]
    scores: tuple[ScoreReport, ...]
    total: int | None


class ChangeReport(ReportPart, frozen=True, kw_only=True):
    """A single change that would place the pod, and the nodes that it would open."""

    text: str
    nodes: tuple[str, ...]


class ExplanationReport(ReportPart, frozen=True, kw_only=True):
    """Why one pod is where it is, or why it is nowhere.

    `when`: which moment the verdicts show. `node`: where the pod is at the end, "" if nowhere; `message` is then the
    scheduler's last word. `selected` is what the verdicts lead to, `ties` the number of nodes with the best total.
    """

    pod: str
    scheduler_name: str
    when: str
    node: str
    message: str
    selected: str
    evaluated_nodes: int
    feasible_nodes: int
    ties: int
    victims: tuple[VictimReport, ...]
    changes: tuple[ChangeReport, ...]
    nodes: tuple[NodeVerdictReport, ...]


class ConfigurationReport(ReportPart, frozen=True, kw_only=True):
    """What one configuration does to the cluster.

    `settled` is False if the run was given up because pods kept coming back without being placed. `cpu_memory_gap`:
    mean over the nodes in use of |cpu - memory|, both as requested/allocatable.
    """

    name: str
    settled: bool
    pods: PodsReport
    pending: tuple[PendingGroup, ...]
    other_schedulers: tuple[OtherScheduler, ...]
    victims: tuple[VictimReport, ...]
    nodes: NodesReport
    resources: tuple[ResourceReport, ...]
    cpu_memory_gap: float
    largest_pod: LargestPod | None
    decisions: DecisionReport
    explanation: ExplanationReport | None = None
    timing: Timing | None = None


class ClusterReport(ReportPart, frozen=True, kw_only=True):
    """The input. `full_below`: a node with less than this free counts as full (see ResourceReport)."""

    nodes: int
    pods: int
    full_below: dict[str, Amount]


class Report(ReportPart, frozen=True, kw_only=True):
    """All configurations side by side."""

    schema: str
    cluster: ClusterReport
    reschedule_all: bool
    seed: int
    tie_break: str
    warnings: tuple[str, ...]
    configurations: tuple[ConfigurationReport, ...]
