"""What a comparison reports, as data: typed, in a fixed order, the same bytes for the same runs.

Times are seconds, cpu is cores, memory is bytes, shares are from 0 to 1, cost is in the currency of the prices. JSON
and YAML carry the names in camelCase. Quantiles are by linear interpolation (type 7).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from stowplan_autoscaling.results.report import ReportPart

SCHEMA: Final = "stowplan.io/comparison/v1"
"""Changes when a field changes its meaning or goes; new fields may come at any time."""

COMPARISON_FILE: Final = "comparison.json"
TABLE_FILE: Final = "comparison.csv"
RUNS_FOLDER: Final = "runs"

CURVE_POINTS: Final = 120
"""Curves have so many points over the whole run."""

Better = Literal["lower", "higher", ""]
Outcome = Literal["better", "worse", "no difference"]


class MetricReport(ReportPart, frozen=True, kw_only=True):
    """A metric of the table. `unit`: "s", "share", "cores", "count", a currency and so on; `better`: which way is good.

    `definition`: how it is measured, in one sentence. `group`: the heading under which it stands.
    """

    name: str
    title: str
    group: str
    unit: str
    better: Better
    definition: str


class Band(ReportPart, frozen=True, kw_only=True):
    """A number over the seeds.

    low and high are the smallest and the largest with fewer than 20 seeds, else the 5 % and 95 % quantiles. `values`:
    one per seed, in the order of the seeds; None where the run is missing or has no such number.
    """

    median: float
    low: float
    high: float
    kind: Literal["min-max", "5-95 %"]
    values: tuple[float | None, ...]


class CurveReport(ReportPart, frozen=True, kw_only=True):
    """A number over the time of the run: the mean of each of CURVE_POINTS equal parts, then median and band over seeds.

    `name`: demand, served, replicas, ready, pending, nodes, cost (per hour), cpuRequested, cpuUsed (shares).
    """

    name: str
    title: str
    unit: str
    median: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class RunEntry(ReportPart, frozen=True, kw_only=True):
    """A run: one candidate with one seed. `folder`: of its results, relative to that of the comparison.

    `is_complete` is false, and `stopped` says why, for a run that was interrupted, failed, or has not begun.
    """

    seed: int
    folder: str
    digest: str
    is_complete: bool
    stopped: str = ""


class Change(ReportPart, frozen=True, kw_only=True):
    """A setting in which a candidate differs from the baseline, both as text; "" where it is not set."""

    path: str
    baseline: str
    value: str


class Finding(ReportPart, frozen=True, kw_only=True):
    """Something that a person should know, and in which seeds it was so."""

    text: str
    seeds: tuple[int, ...]


class CandidateReport(ReportPart, frozen=True, kw_only=True):
    """A candidate. `metrics`: by the name of the metric; a metric that it has no number for is left out."""

    name: str
    description: str
    is_baseline: bool
    changes: tuple[Change, ...]
    runs: tuple[RunEntry, ...]
    metrics: dict[str, Band]
    curves: tuple[CurveReport, ...]
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]


class Difference(ReportPart, frozen=True, kw_only=True):
    """A candidate against another one on a metric: candidate minus baseline, paired by seed.

    median: of the differences; share: of the median of the baseline, None if that is 0. low, high: 95 % interval of the
    median by bootstrap over the seeds. better, worse, equal: the number of seeds. chance: probability of signs as
    one-sided as these if there is no difference (two-sided sign test). is_indicative: there are too few seeds to be
    sure, although all that there is points one way. tolerance: what counts as no difference, in the metric's unit.
    """

    candidate: str
    baseline: str
    metric: str
    median: float
    share: float | None
    low: float
    high: float
    seeds: int
    better: int
    worse: int
    equal: int
    chance: float
    tolerance: float
    outcome: Outcome
    is_indicative: bool


class GoalOutcome(ReportPart, frozen=True, kw_only=True):
    """A candidate on a goal. passes: whether the median keeps the limit; None without one. against: the baseline.

    seeds_passing: in how many seeds it is kept.
    """

    candidate: str
    value: float | None
    passes: bool | None
    seeds_passing: int
    against: Outcome | Literal["baseline", "unknown"]


class GoalReport(ReportPart, frozen=True, kw_only=True):
    """A goal, the first being the most important. best: candidates that no other one beats."""

    metric: str
    limit: float | None
    tolerance: str
    outcomes: tuple[GoalOutcome, ...]
    best: tuple[str, ...]


class VerdictReport(ReportPart, frozen=True, kw_only=True):
    """What the comparison comes to.

    recommended: a candidate that keeps all limits, is better than the baseline on a goal and worse on none; else the
    baseline, if it keeps the limits; else "". passes: whether there is a candidate that keeps all limits; None without
    limits. summary: one sentence; lines: one sentence for each candidate.
    """

    recommended: str
    passes: bool | None
    summary: str
    lines: tuple[str, ...]


class SettingEffect(ReportPart, frozen=True, kw_only=True):
    """What some settings did to a goal's metric: two candidates that differ in nothing else. A bar of the tornado."""

    settings: tuple[str, ...]
    difference: Difference


class SettingReport(ReportPart, frozen=True, kw_only=True):
    """A setting in which candidates differ. values: by candidate, as text. mattered: metrics of goals that it moved.

    is_alone: a pair of candidates differs in this setting only, so that the effect is its own.
    """

    path: str
    values: dict[str, str]
    is_alone: bool
    mattered: tuple[str, ...]


class OriginReport(ReportPart, frozen=True, kw_only=True):
    """How the comparison was made: enough to make it again, to the byte.

    digests: of what was simulated, by candidate (with the first seed). resamples, bootstrap_seed: of the intervals.
    """

    version: str
    kubernetes: str
    digests: dict[str, str]
    resamples: int
    bootstrap_seed: int


class ComparisonReport(ReportPart, frozen=True, kw_only=True):
    """Candidates against a baseline. `is_complete` is false if runs are missing; all else is about those there are.

    differences: of each candidate against the baseline, for each metric. effects: the settings that mattered, largest
    first within each metric. duration in seconds; start: the virtual clock at the start.
    """

    schema: str
    name: str
    is_complete: bool
    start: str
    duration: float
    seeds: tuple[int, ...]
    currency: str
    baseline: str
    verdict: VerdictReport
    goals: tuple[GoalReport, ...]
    metrics: tuple[MetricReport, ...]
    candidates: tuple[CandidateReport, ...]
    differences: tuple[Difference, ...]
    settings: tuple[SettingReport, ...]
    effects: tuple[SettingEffect, ...]
    origin: OriginReport


def read_comparison(data: bytes) -> ComparisonReport:
    """The report from its JSON. Raises msgspec.ValidationError."""
    return msgspec.json.decode(data, type=ComparisonReport)
