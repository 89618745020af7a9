"""The section "All metrics": every number with its band over the seeds, and what became better or worse."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan_autoscaling.experiment.comparison import Band, ComparisonReport, Difference, MetricReport
from stowplan_autoscaling.experiment.wording import is_relative, percent, step

from .amounts import amount, counted
from .markup import Child, Markup, chip, scrolling, tag
from .sections import section


def build(comparison: ComparisonReport) -> Markup:
    """The section."""
    against = {
        (one.candidate, one.metric): one for one in comparison.differences if one.baseline == comparison.baseline
    }
    head = tag(
        "tr", tag("th", "metric", scope="col"), [tag("th", one.name, scope="col") for one in comparison.candidates]
    )
    body: list[Markup] = []
    group = None
    width = str(len(comparison.candidates) + 1)
    for metric in comparison.metrics:
        bands = [one.metrics.get(metric.name) for one in comparison.candidates]
        if not any(bands):
            continue
        if metric.group != group:
            group = metric.group
            body.append(tag("tr", tag("th", group, colspan=width, scope="colgroup"), class_="group"))
        cells = [
            tag("td", _cell(metric, band, against.get((one.name, metric.name))))
            for one, band in zip(comparison.candidates, bands, strict=True)
        ]
        body.append(tag("tr", tag("th", _title(metric), scope="row"), cells))
    kinds = sorted({band.kind for one in comparison.candidates for band in one.metrics.values()})
    seeds = counted(len(comparison.seeds), "seed")
    return section(
        "metrics",
        "All metrics",
        f"The median over {seeds} ({' and '.join(kinds) or 'no band'} in brackets); below it the difference to "
        f"{comparison.baseline}, paired by seed, with the 95 % interval of its median. No colour: no difference.",
        scrolling(tag("table", tag("thead", head), tag("tbody", body), class_="numbers metrics"), label="All metrics"),
    )


def _title(metric: MetricReport) -> Child:
    arrow = {"lower": " ↓", "higher": " ↑", "": ""}[metric.better]
    words = {"lower": "lower is better", "higher": "higher is better", "": None}[metric.better]
    return (
        tag("span", metric.title, class_="title"),
        tag("span", arrow, title=words, aria_label=words, role="img", class_="unit") if arrow else None,
        tag("small", metric.definition),
    )


def _cell(metric: MetricReport, band: Band | None, difference: Difference | None) -> Child:
    if band is None:
        return amount(None, "")
    shown: list[Child] = [tag("b", amount(band.median, metric.unit)), band_words(band, metric.unit)]
    if difference is not None:
        shown.append(difference_words(difference, metric.unit))
    return shown


def band_words(band: Band, unit: str) -> Markup | None:
    """The band in brackets, unless it is too narrow to be seen."""
    low, high = amount(band.low, unit), amount(band.high, unit)
    return None if low == high else tag("span", f" ({low} to {high})", class_="unit")


def difference_words(difference: Difference, unit: str) -> Markup:
    """How much, in the colour of its outcome; then the same in its unit, and the interval."""
    if difference.low == difference.high == difference.median == 0:
        return tag("span", "±0", class_="delta same")
    change = step(difference.median, unit)
    rest: list[str] = []
    if is_relative(difference, unit):
        rest, change = [change], percent(difference.share or 0.0)
    low, high = step(difference.low, unit), step(difference.high, unit)
    if low != high:
        rest.append(f"95 % from {low} to {high}")
    more = tag("span", f" {', '.join(rest)}", class_="unit") if rest else None
    return tag("span", tag("b", change), more, class_=f"delta {kind_of(difference)}")


def kind_of(difference: Difference) -> str:
    """The class of its colour."""
    return {"better": "good", "worse": "bad", "no difference": "same"}[difference.outcome]


def outcome_chip(difference: Difference) -> Markup:
    """The outcome as a word."""
    words = difference.outcome + (
        ", indicative" if difference.is_indicative and difference.outcome != "no difference" else ""
    )
    return chip(words, kind_of(difference))


def metrics_by_name(comparison: ComparisonReport) -> dict[str, MetricReport]:
    """The metrics."""
    return {metric.name: metric for metric in comparison.metrics}


def names_of(comparison: ComparisonReport, names: Sequence[str]) -> list[str]:
    """The titles of metrics."""
    known = metrics_by_name(comparison)
    return [known[name].title if name in known else name for name in names]
