"""Comparisons for tests of what shows them: made from the folders of runs that run_folders writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stowplan_autoscaling.experiment.comparison import (
    SCHEMA,
    Better,
    CandidateReport,
    Change,
    ComparisonReport,
    CurveReport,
    Finding,
    GoalOutcome,
    GoalReport,
    MetricReport,
    OriginReport,
    RunEntry,
    SettingEffect,
    SettingReport,
    VerdictReport,
)
from stowplan_autoscaling.experiment.run_tables import Held, read_rows
from stowplan_autoscaling.experiment.statistics import BOOTSTRAP_SEED, RESAMPLES, band, paired, quantile
from stowplan_autoscaling.results import RunReport

from .run_folders import Plan, write_run

METRICS: tuple[tuple[str, str, str, str, Better, str], ...] = (
    ("cost", "cost", "cost", "USD", "lower", "What the nodes cost over the run."),
    ("nodeHours", "node hours", "cost", "h", "lower", "From launch to the end of each machine."),
    ("waiting.p95", "waiting p95", "waiting", "s", "lower", "Within this time 95 % of the pods were ready."),
    ("pending.p95", "pending p95", "waiting", "s", "lower", "Within this time 95 % of the pods had a node."),
    ("neverReady", "never ready", "waiting", "count", "lower", "Pods that never became ready."),
    ("slo.fast-pages", "fast-pages", "service", "share", "higher", "The share of requests within the objective."),
    ("requested.cpu", "cpu requested", "packing", "share", "higher", "Of what nodes have to give."),
    ("throttled", "throttled", "contention", "core s", "lower", "What pods wanted and did not get."),
)


def values_of(report: RunReport) -> dict[str, float]:
    """The numbers of one run."""
    assert report.cost is not None
    return {
        "cost": report.cost.total,
        "nodeHours": report.cost.node_hours,
        "waiting.p95": report.waiting.ready.p90,
        "pending.p95": report.waiting.split["supply"] + report.waiting.split["node"],
        "neverReady": report.waiting.never_ready,
        "slo.fast-pages": report.objectives[0].share,
        "requested.cpu": report.pools[0].cpu_requested.mean,
        "throttled": report.contention.throttled_core_seconds,
    }


def write_comparison(
    folder: Path,
    plans: Mapping[str, Plan],
    seeds: Sequence[int] = (1, 2, 3),
    changes: Mapping[str, Sequence[Change]] | None = None,
    findings: Mapping[str, Sequence[Finding]] | None = None,
    missing: Sequence[tuple[str, int]] = (),
    limit: float = 120.0,
) -> ComparisonReport:
    """Runs of each plan in `folder`, the first being the baseline, and the comparison of them."""
    changes = changes or {}
    findings = findings or {}
    baseline = next(iter(plans))
    reports: dict[str, dict[int, RunReport]] = {}
    for name, plan in plans.items():
        reports[name] = {
            seed: write_run(folder / _path(plans, name, seed), plan, seed)
            for seed in seeds
            if (name, seed) not in missing
        }
    candidates = tuple(_candidate(folder, plans, name, seeds, reports[name], changes, findings) for name in plans)
    numbers = {name: {seed: values_of(report) for seed, report in runs.items()} for name, runs in reports.items()}
    differences = [
        found
        for name in plans
        if name != baseline
        for metric, _, _, _, better, _ in METRICS
        for pairs in [[(numbers[name][seed][metric], numbers[baseline][seed][metric]) for seed in seeds
                       if seed in numbers[name] and seed in numbers[baseline]]]
        for found in [paired(name, baseline, metric, pairs, better=better, tolerance=0.01)]
        if found is not None
    ]  # fmt: skip
    outcomes = {(one.candidate, one.metric): one.outcome for one in differences}
    goals = tuple(
        GoalReport(
            metric=metric,
            limit=bound,
            tolerance="1 %",
            outcomes=tuple(
                GoalOutcome(
                    candidate=one.name,
                    value=one.metrics[metric].median if metric in one.metrics else None,
                    passes=None if bound is None or metric not in one.metrics else one.metrics[metric].median <= bound,
                    seeds_passing=0
                    if bound is None
                    else sum(row[metric] <= bound for row in numbers[one.name].values()),
                    against="baseline" if one.is_baseline else outcomes.get((one.name, metric), "unknown"),
                )
                for one in candidates
            ),
            best=(baseline,),
        )
        for metric, bound in (("cost", None), ("waiting.p95", limit))
    )
    paths = dict.fromkeys(change.path for these in changes.values() for change in these)
    others = [name for name in plans if name != baseline]
    return ComparisonReport(
        schema=SCHEMA,
        name="shop",
        is_complete=not missing,
        start="2026-03-02T00:00:00Z",
        duration=plans[baseline].duration,
        seeds=tuple(seeds),
        currency="USD",
        baseline=baseline,
        verdict=VerdictReport(
            recommended=others[0] if others else baseline,
            passes=True,
            summary=f"{others[0] if others else baseline} is cheaper, and its pods wait no longer.",
            lines=tuple(f"{name}: {outcomes.get((name, 'cost'), 'unknown')} on cost." for name in others),
        ),
        goals=goals,
        metrics=tuple(
            MetricReport(name=name, title=title, group=group, unit=unit, better=better, definition=words)
            for name, title, group, unit, better, words in METRICS
        ),
        candidates=candidates,
        differences=tuple(differences),
        settings=tuple(
            SettingReport(
                path=path,
                values={
                    name: next((change.value for change in changes.get(name, ()) if change.path == path), "as it was")
                    for name in plans
                },
                is_alone=True,
                mattered=("cost",),
            )
            for path in paths
        ),
        effects=tuple(
            SettingEffect(settings=tuple(change.path for change in changes[one.candidate]), difference=one)
            for metric in ("cost", "waiting.p95")
            for one in differences
            if one.metric == metric and changes.get(one.candidate)
        ),
        origin=OriginReport(
            version="0.3.0",
            kubernetes="v1.37.2",
            digests={name: "5e" * 32 for name in plans},
            resamples=RESAMPLES,
            bootstrap_seed=BOOTSTRAP_SEED,
        ),
    )


def _path(plans: Mapping[str, Plan], name: str, seed: int) -> str:
    """Names may be anything here, folders may not."""
    return f"runs/{list(plans).index(name)}/seed-{seed}"


def _candidate(
    folder: Path,
    plans: Mapping[str, Plan],
    name: str,
    seeds: Sequence[int],
    reports: Mapping[int, RunReport],
    changes: Mapping[str, Sequence[Change]],
    findings: Mapping[str, Sequence[Finding]],
) -> CandidateReport:
    rows = {seed: values_of(report) for seed, report in reports.items()}
    bands = {metric[0]: band([rows[seed][metric[0]] if seed in rows else None for seed in seeds]) for metric in METRICS}
    return CandidateReport(
        name=name,
        description="As it is today." if name == next(iter(plans)) else "What may come.",
        is_baseline=name == next(iter(plans)),
        changes=tuple(changes.get(name, ())),
        runs=tuple(
            RunEntry(
                seed=seed,
                folder=_path(plans, name, seed),
                digest="5e" * 32,
                is_complete=seed in reports,
                stopped="" if seed in reports else "interrupted",
            )
            for seed in seeds
        ),
        metrics={metric: found for metric, found in bands.items() if found is not None},
        curves=tuple(_curves(folder, plans, name, list(reports))),
        findings=tuple(findings.get(name, ())),
        warnings=(),
    )


def _curves(folder: Path, plans: Mapping[str, Plan], name: str, seeds: Sequence[int]) -> list[CurveReport]:
    plan = plans[name]
    wanted = [
        (f"demand.{plan.service}", "offered", "/s", "series/services.csv", "offered", ("demand", plan.service)),
        (f"served.{plan.service}", "served", "/s", "series/services.csv", "served", ("demand", plan.service)),
        ("ready", "replicas ready", "pods", "series/workloads.csv", "ready", ("workload", plan.workload)),
        ("pending", "pods without a node", "pods", "series/cluster.csv", "pending", None),
        ("nodes", "nodes", "nodes", "series/cluster.csv", "nodes", None),
        ("cost", "cost per hour", "USD/h", "series/pools.csv", "cost", None),
    ]
    made: list[CurveReport] = []
    for curve, title, unit, table, column, only in wanted:
        by_seed: list[tuple[float, ...]] = []
        for seed in seeds:
            sums: dict[float, float] = {}
            columns = ("seconds", column, *(only[:1] if only else ()))
            for at, value, *thing in read_rows(str(folder / _path(plans, name, seed)), table, *columns):
                if not only or thing[0] == only[1]:
                    sums[float(at)] = sums.get(float(at), 0.0) + float(value)
            by_seed.append(Held.of(sums.items()).curve(plan.duration))
        if by_seed:
            points = list(zip(*by_seed, strict=True))
            made.append(
                CurveReport(
                    name=curve,
                    title=title,
                    unit=unit,
                    median=tuple(quantile(point, 0.5) for point in points),
                    low=tuple(min(point) for point in points),
                    high=tuple(max(point) for point in points),
                )
            )
    return made
