"""What runs are compared by: the names that goals can have, their units, and which way is good.

A family (slo.*) has one measure for each objective, demand or pool of the simulation.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from stowplan_autoscaling.inputs.errors import shown

from .findings import near

SECONDS: Final = "s"
SHARE: Final = "share"
CURRENCY: Final = "currency"
"""Stands for that of the prices."""

LOWER: Final = "lower"
HIGHER: Final = "higher"

Better = Literal["lower", "higher", ""]


class Measure(NamedTuple):
    """A measure of a run. A name that ends with .* is a family; then {} in the title stands for the member's name."""

    name: str
    title: str
    group: str
    unit: str
    better: Better
    definition: str

    @property
    def member_word(self) -> str:
        """What the members of a family are."""
        return {"slo": "OBJECTIVE", "nodeHours": "POOL"}.get(self.name.partition(".")[0], "DEMAND")

    def member(self, name: str) -> Measure:
        """The measure of a family for one name."""
        return self._replace(name=self.name.removesuffix("*") + name, title=self.title.replace("{}", name))


_COST, _NODES, _USE, _WAIT, _SERVICE, _RISK, _SUPPLY, _WORK = (
    "cost",
    "nodes",
    "utilisation",
    "waiting",
    "service",
    "risk",
    "provisioning",
    "scheduling",
)
_PARTS: Final = {
    "metric": "from the change of demand to the sample that showed it",
    "autoscaler": "from the sample to the autoscaler's decision",
    "controller": "from the decision to the pod",
    "queue": "in the scheduler's queue",
    "supply": "from a failed attempt until a node was asked for",
    "node": "until that node took pods",
    "backoff": "all other time after a failed attempt",
    "image": "pulling images",
    "start": "starting containers",
    "readiness": "from started to ready",
}

MEASURES: Final[tuple[Measure, ...]] = (
    Measure("cost", "cost", _COST, CURRENCY, LOWER, "What the nodes cost over the run, commitments included."),
    Measure("costPerMonth", "cost per month", _COST, CURRENCY, LOWER, "The same for 730 hours."),
    Measure(
        "costPerThousand.*", "cost per 1,000 of {}", _COST, CURRENCY, LOWER, "The cost by what was served of a demand."
    ),
    Measure("spotShare", "spot share", _COST, SHARE, "", "Share of the cost that went to spot machines."),
    Measure("nodeHours", "node-hours", _NODES, "h", LOWER, "Hours for which nodes existed, added up."),
    Measure("nodeHours.*", "node-hours of {}", _NODES, "h", LOWER, "The same for one node pool."),
    Measure("nodes.mean", "nodes, mean", _NODES, "nodes", LOWER, "Mean number of nodes over time."),
    Measure("nodes.peak", "nodes, peak", _NODES, "nodes", LOWER, "Most nodes at a sample."),
    Measure(
        "requested.cpu",
        "cpu requested",
        _USE,
        SHARE,
        HIGHER,
        "Requests of pods on nodes, of what is allocatable; mean.",
    ),
    Measure("requested.memory", "memory requested", _USE, SHARE, HIGHER, "The same for memory."),
    Measure("used.cpu", "cpu used", _USE, SHARE, HIGHER, "Cpu used by pods, of what is allocatable; mean over time."),
    Measure("used.memory", "memory used", _USE, SHARE, HIGHER, "The same for memory."),
    Measure(
        "stranded.cpu",
        "cpu stranded",
        _USE,
        SHARE,
        LOWER,
        "Free cpu on nodes that no typical pod fits because memory or pods are short, of what is allocatable; mean.",
    ),
    Measure(
        "stranded.memory", "memory stranded", _USE, SHARE, LOWER, "The same for memory, where cpu or pods are short."
    ),
    Measure(
        "waiting.p50",
        "waiting p50",
        _WAIT,
        SECONDS,
        LOWER,
        "Half of the pods were ready sooner: from the change of demand, or from their creation without an autoscaler.",
    ),
    Measure("waiting.p95", "waiting p95", _WAIT, SECONDS, LOWER, "95 % of the pods were ready sooner."),
    Measure("waiting.p99", "waiting p99", _WAIT, SECONDS, LOWER, "99 % of the pods were ready sooner."),
    *(
        Measure(f"waiting.{part}", f"  {part}", _WAIT, SECONDS, LOWER, f"Of that, {text}; mean over ready pods.")
        for part, text in _PARTS.items()
    ),
    Measure(
        "pending.p50",
        "pending p50",
        _WAIT,
        SECONDS,
        LOWER,
        "Half of the pods had a node sooner after their creation (Kaplan-Meier; pods that still wait count).",
    ),
    Measure("pending.p95", "pending p95", _WAIT, SECONDS, LOWER, "95 % of the pods had a node sooner."),
    Measure("pending.p99", "pending p99", _WAIT, SECONDS, LOWER, "99 % of the pods had a node sooner."),
    Measure("neverScheduled", "never scheduled", _WAIT, "pods", LOWER, "Pods that had no node by their end."),
    Measure("neverReady", "never ready", _WAIT, "pods", LOWER, "Pods that were not ready by their end."),
    Measure("sloMisses", "objectives missed", _SERVICE, "count", LOWER, "Entries of spec.slo that were not met."),
    Measure(
        "sloMissedTime", "missed for", _SERVICE, SECONDS, LOWER, "How long objectives were missed, added up over all."
    ),
    Measure("slo.*", "{} held", _SERVICE, SHARE, HIGHER, "Share for which an objective held."),
    Measure("unserved.*", "{} not served", _SERVICE, SHARE, LOWER, "Share of a demand that was not served in the run."),
    Measure("latency.*", "{} latency", _SERVICE, SECONDS, LOWER, "Mean latency of the served requests of a demand."),
    Measure("evictions", "evictions", _RISK, "pods", LOWER, "Pods that were evicted."),
    Measure("preempted", "preempted", _RISK, "pods", LOWER, "Pods that were removed for others of higher priority."),
    Measure("oomKills", "OOM kills", _RISK, "count", LOWER, "Containers that were killed for memory."),
    Measure("throttled", "throttled", _RISK, "core s", LOWER, "Core seconds that containers wanted and did not get."),
    Measure("nodesLost", "nodes lost", _RISK, "nodes", LOWER, "Nodes that fell silent."),
    Measure("interrupted", "spot interruptions", _RISK, "nodes", LOWER, "Nodes that the provider took back."),
    Measure(
        "underProvisioned",
        "under-provisioned",
        _SUPPLY,
        SHARE,
        LOWER,
        "Ready replicas missing from what the metrics called for, of the latter; mean over time and autoscalers.",
    ),
    Measure(
        "overProvisioned",
        "over-provisioned",
        _SUPPLY,
        SHARE,
        LOWER,
        "Ready replicas beyond what the metrics called for, of the latter; mean over time and autoscalers.",
    ),
    Measure("underProvisionedTime", "time under", _SUPPLY, SHARE, LOWER, "Share of time with too few of them."),
    Measure("overProvisionedTime", "time over", _SUPPLY, SHARE, LOWER, "Share of time with too many of them."),
    Measure(
        "instability",
        "instability",
        _SUPPLY,
        SHARE,
        LOWER,
        "Share of time in which ready replicas went another way than what the metrics called for.",
    ),
    Measure(
        "flapping.replicas",
        "replicas flapping",
        _SUPPLY,
        "/h",
        LOWER,
        "Changes of direction of the replicas that autoscalers set, per hour, added up over them.",
    ),
    Measure(
        "flapping.nodes",
        "nodes flapping",
        _SUPPLY,
        "nodes",
        LOWER,
        "Nodes asked for within 10 minutes after another one of their pool had begun to go.",
    ),
    Measure("nodesStarted", "nodes started", _SUPPLY, "nodes", "", "Nodes of pools that came during the run."),
    Measure("nodesEnded", "nodes ended", _SUPPLY, "nodes", "", "Nodes of pools that went."),
    Measure(
        "nodesFailed", "nodes failed", _SUPPLY, "nodes", LOWER, "Nodes of pools that were asked for and never came."
    ),
    Measure("attempts", "attempts", _WORK, "count", "", "Attempts to place a pod."),
    Measure("unschedulable", "without a node", _WORK, "count", LOWER, "Attempts that found no node."),
    Measure("preemptions", "preemptions", _WORK, "count", LOWER, "Attempts that made room by removing pods."),
    Measure("evaluated.mean", "nodes filtered (M)", _WORK, "nodes", "", "Nodes whose filters ran, per attempt."),
    Measure("evaluated.total", "  in all", _WORK, "nodes", "", "The same over all attempts."),
    Measure("scored.mean", "nodes scored (K)", _WORK, "nodes", "", "Nodes that were scored, per pod that was placed."),
    Measure("scored.total", "  in all", _WORK, "nodes", "", "The same over all pods."),
)

_BY_NAME: Final = {measure.name: measure for measure in MEASURES}


def measure_of(name: str) -> Measure | None:
    """The measure with a name, of a family, too; None if there is none."""
    found = _BY_NAME.get(name)
    if found is not None:
        return None if name.endswith("*") else found
    family, dot, member = name.partition(".")
    found = _BY_NAME.get(f"{family}.*") if dot and member else None
    return None if found is None else found.member(member)


def measures_text() -> str:
    """All measures as a Markdown table, for the documentation."""
    lines = ["| metric | unit | better | what it is |", "|---|---|---|---|"]
    lines.extend(
        f"| `{each.name.replace('*', each.member_word)}` | {each.unit} | {each.better or '-'} | {each.definition} |"
        for each in MEASURES
    )
    return "\n".join(lines) + "\n"


def need_measure(name: str) -> Measure:
    """The measure with a name. Raises ValueError that says which there are."""
    found = measure_of(name)
    if found is None:
        raise ValueError(f"{shown(name)}: no such metric{near(name, [measure.name for measure in MEASURES])}")
    return found
