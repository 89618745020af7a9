"""What was measured, and what follows from it: medians, ratios, and whether a target is reached."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.table import Run

TARGET_NODES = 5000
"""The ratios to the real scheduler have their targets at this size; at others they are only reported."""

LARGE_NODES = 20_000
KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is wanted of a figure. `at_least` False: the figure should be at most `limit`."""

    limit: float
    unit: str
    moonshot: float | None = None
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Whether the figure is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit


SAMPLED = {True: Target(limit=6, moonshot=15, unit="x"), False: Target(limit=5, moonshot=10, unit="x")}
ALL_SCORED = {True: Target(limit=40, moonshot=100, unit="x"), False: Target(limit=25, moonshot=60, unit="x")}
"""Ratio to the real scheduler; the key says whether the workload is `plain`."""

GROWTH = Target(limit=0.6, unit="x")
SNAPSHOT_GROWTH = Target(limit=2, unit="x", at_least=False)
DEEP_COPY = Target(limit=100, unit="x")
BYTES_PER_POD = Target(limit=1.5 * KIB, unit="bytes", at_least=False)
BYTES_PER_NODE = Target(limit=6 * KIB, unit="bytes", at_least=False)


@dataclass(slots=True)
class SpeedLine:
    """One line of the table of speeds. Rates in pods/s, in the order in which they were measured."""

    run: Run
    ours: list[float] = field(default_factory=list)
    upstream: list[float] = field(default_factory=list)
    reference: float | None = None
    different: list[str] = field(default_factory=list)
    """Pods that the scalar reference would have put elsewhere."""
    ours_share: list[float] = field(default_factory=list)
    upstream_share: list[float] = field(default_factory=list)
    """How much of the core each of these processes had, 0 to 1."""

    @property
    def rate(self) -> float | None:
        """Median of ours."""
        return median(self.ours)

    @property
    def upstream_rate(self) -> float | None:
        """Median of the real scheduler's."""
        return median(self.upstream)

    @property
    def ratio(self) -> float | None:
        """Ours over the real scheduler's."""
        return ratio(self.rate, self.upstream_rate)

    @property
    def core_ratio(self) -> float | None:
        """The same with rates per second of processor time: what a whole core would have given, about."""
        ours = [rate / share for rate, share in zip(self.ours, self.ours_share, strict=True) if share]
        upstream = [rate / share for rate, share in zip(self.upstream, self.upstream_share, strict=True) if share]
        return ratio(median(ours), median(upstream))

    @property
    def reference_ratio(self) -> float | None:
        """Ours over the scalar reference's."""
        return ratio(self.rate, self.reference)

    @property
    def target(self) -> Target | None:
        """The target of the ratio to the real scheduler."""
        if not self.run.upstream or self.run.nodes != TARGET_NODES or self.run.percent not in {0, 100}:
            return None
        return (ALL_SCORED if self.run.percent == 100 else SAMPLED)[self.run.workload == "plain"]

    def as_json(self) -> dict[str, object]:
        """For the file of results."""
        run = self.run
        return {
            "workload": run.workload,
            "nodes": run.nodes,
            "percent": run.percent,
            "initial": run.initial,
            "pods": run.pods,
            "ours": self.ours,
            "upstream": self.upstream,
            "ours_median": self.rate,
            "upstream_median": self.upstream_rate,
            "ratio": self.ratio,
            "core_ratio": self.core_ratio,
            "ours_share": self.ours_share,
            "upstream_share": self.upstream_share,
            "reference": self.reference,
            "reference_ratio": self.reference_ratio,
            "reference_pods": run.reference_pods,
            "different": self.different,
        }


@dataclass(slots=True)
class Results:
    """Everything that one call measured. `snapshot`, `memory`: the lines of their programs, in order."""

    speed: list[SpeedLine] = field(default_factory=list)
    snapshot: list[Mapping[str, Any]] = field(default_factory=list)
    memory: list[Mapping[str, Any]] = field(default_factory=list)
    hot_spots: list[Mapping[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What could not run, one line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A figure beside its target. `line`: the line of speeds that it judges, if it judges one."""

    what: str
    value: float
    target: Target
    line: SpeedLine | None = None

    @property
    def word(self) -> str:
        """moonshot, reached or missed."""
        moonshot = self.target.moonshot
        if moonshot is not None and self.value >= moonshot:
            return "moonshot"
        return "reached" if self.target.met(self.value) else "missed"

    def as_json(self) -> dict[str, object]:
        """For the file of results."""
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.target.unit,
            "target": self.target.limit,
            "moonshot": self.target.moonshot,
            "at_least": self.target.at_least,
            "verdict": self.word,
        }


def median(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return statistics.median(values) if values else None


def ratio(value: float | None, base: float | None) -> float | None:
    """To three digits; None if either is missing or the base is zero."""
    return float(f"{value / base:.3g}") if value is not None and base else None


def verdicts(results: Results) -> list[Verdict]:
    """A verdict for every target whose figures were measured, in the order of the targets."""
    return [*_speed(results), *_growth(results), *_snapshot(results), *_memory(results)]


def _speed(results: Results) -> Iterator[Verdict]:
    for line in results.speed:
        if line.target is not None and line.ratio is not None:
            what = f"kube-scheduler: {line.run.label}"
            yield Verdict(what=what, value=line.ratio, target=line.target, line=line)


def _growth(results: Results) -> Iterator[Verdict]:
    rates = {
        line.run.nodes: line.rate for line in results.speed if (line.run.workload, line.run.percent) == ("plain", 0)
    }
    value = ratio(rates.get(LARGE_NODES), rates.get(TARGET_NODES))
    if value is not None:
        what = f"plain, sampled: rate at {LARGE_NODES:,} nodes over the one at {TARGET_NODES:,}"
        yield Verdict(what=what, value=value, target=GROWTH)


def _snapshot(results: Results) -> Iterator[Verdict]:
    costs = {line["nodes"]: line["update_us"] for line in results.snapshot}
    if len(costs) > 1:
        value = ratio(max(costs.values()), min(costs.values())) or 0.0
        what = f"snapshot update: dearest over cheapest, {min(costs):,} to {max(costs):,} nodes"
        yield Verdict(what=what, value=value, target=SNAPSHOT_GROWTH)
    for line in results.snapshot:
        if "deep_copy_ms" in line:
            value = ratio(line["deep_copy_ms"] * 1e3, line["update_us"]) or 0.0
            what = f"snapshot update: deep copy over update, {line['nodes']:,} nodes"
            yield Verdict(what=what, value=value, target=DEEP_COPY)


def _memory(results: Results) -> Iterator[Verdict]:
    for line in results.memory:
        workload = line["workload"]
        yield Verdict(what=f"memory per node, {workload}", value=line["per_node"], target=BYTES_PER_NODE)
        yield Verdict(what=f"memory per bound pod, {workload}", value=line["per_bound_pod"], target=BYTES_PER_POD)
