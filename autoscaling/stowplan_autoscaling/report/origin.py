"""The section "How this was made": enough to make it again, and what the numbers mean."""

from __future__ import annotations

from typing import Final

import bokeh

from stowplan_autoscaling.experiment.comparison import ComparisonReport
from stowplan_autoscaling.experiment.wording import seconds

from .amounts import listed
from .markup import Child, Markup, chip, table, tag
from .sections import section

_INDICATIVE: Final = "“Indicative”: all that there is points one way, but there are too few seeds to be sure."
_QUANTILES: Final = (
    "by linear interpolation (type 7); times until something happened by Kaplan–Meier, where pods to which it did "
    "not happen are censored"
)


def build(comparison: ComparisonReport) -> Markup:
    """The section."""
    origin = comparison.origin
    same_luck = "the same for all candidates, so that they meet the same luck"
    how = f"{origin.resamples:,} samples, seed {origin.bootstrap_seed}"
    facts: list[tuple[str, Child]] = [
        ("Simulation", comparison.name),
        ("Virtual time", f"{seconds(comparison.duration)} from {comparison.start}"),
        ("Seeds", f"{listed([str(seed) for seed in comparison.seeds], 40)}: {same_luck}"),
        ("Stowplan", origin.version),
        ("Behaves as", f"Kubernetes {origin.kubernetes}"),
        ("Drawn with", f"Bokeh {bokeh.__version__}"),
        ("Made again with", tag("code", "stowplan compare -f simulation.yaml --results DIR")),
        ("Bands", _bands(comparison)),
        (
            "Differences",
            f"candidate minus baseline, paired by seed; intervals of the median by bootstrap ({how}). {_INDICATIVE}",
        ),
        ("Quantiles", _QUANTILES),
        ("Not modelled", "network, disks, kernels, and API latency beyond the stated delays"),
    ]
    pairs = [(tag("dt", title), tag("dd", fact)) for title, fact in facts]
    rows: list[list[Child]] = []
    for one in comparison.candidates:
        for run in one.runs:
            state: Child = chip("complete", "good") if run.is_complete else chip(run.stopped or "missing", "bad")
            rows.append([one.name, str(run.seed), tag("code", run.folder), tag("code", run.digest[:16]), state])
    head: list[Child] = ["candidate", "seed", "folder", "digest of the inputs", "run"]
    return section(
        "origin",
        "How this was made",
        "The same simulation, seeds and versions give the same bytes, this page included.",
        tag("dl", pairs),
        tag("details", tag("summary", f"All {len(rows):,} runs"), table(head, rows, label="Runs", numbers=False)),
    )


def _bands(comparison: ComparisonReport) -> str:
    if len(comparison.seeds) >= 20:
        return "the median over seeds, with the 5 % and the 95 % quantile"
    return "the median over seeds, with the smallest and the largest (fewer than 20 seeds)"
