"""The section "Settings": what the candidates differ in, and what each difference did to the goals."""

from __future__ import annotations

from stowplan_autoscaling.experiment.comparison import ComparisonReport, SettingEffect

from .amounts import listed
from .markup import Child, Markup, scrolling, table, tag
from .metric_table import difference_words, kind_of, metrics_by_name, names_of
from .sections import section


def build(comparison: ComparisonReport) -> Markup:
    """The section."""
    return section(
        "settings",
        "Settings compared",
        "Every setting in which candidates differ; all others are the same.",
        _settings(comparison),
        _effects(comparison),
    )


def _settings(comparison: ComparisonReport) -> Child:
    if not comparison.settings:
        return tag("p", "The candidates differ in no setting.", class_="empty")
    names = [one.name for one in comparison.candidates]
    head: list[Child] = ["setting", *names, "moved"]
    rows: list[list[Child]] = []
    for setting in comparison.settings:
        base = setting.values.get(comparison.baseline, "")
        cells: list[Child] = [tag("code", setting.path)]
        for name in names:
            value = setting.values.get(name, "")
            cells.append(tag("code", value or "not set", class_="changed" if value != base else None))
        moved = listed(names_of(comparison, setting.mattered)) or "no goal"
        cells.append(
            moved if setting.is_alone else f"{moved} (only together with others)" if setting.mattered else moved
        )
        rows.append(cells)
    return table(head, rows, label="Settings compared", numbers=False)


def _effects(comparison: ComparisonReport) -> Child:
    """A bar for each: the interval of the difference, on a scale for each metric."""
    if not comparison.effects:
        return None
    metrics = metrics_by_name(comparison)
    reach: dict[str, float] = {}
    for effect in comparison.effects:
        one = effect.difference
        size = max(abs(one.low), abs(one.high), abs(one.median))
        reach[one.metric] = max(reach.get(one.metric, 0.0), size)
    rows: list[Markup] = []
    group = None
    for effect in comparison.effects:
        one = effect.difference
        metric = metrics.get(one.metric)
        if one.metric != group:
            group = one.metric
            title = metric.title if metric is not None else group
            rows.append(tag("tr", tag("th", title, colspan="3", scope="colgroup"), class_="group"))
        between = tag("small", f"{one.candidate} against {one.baseline}")
        rows.append(
            tag(
                "tr",
                tag("th", [tag("code", path) for path in effect.settings], between, scope="row"),
                tag("td", _tornado(effect, reach[one.metric])),
                tag("td", difference_words(one, metric.unit if metric is not None else "")),
            )
        )
    head = tag("tr", [tag("th", title, scope="col") for title in ("settings", "effect", "difference")])
    return (
        tag("h3", "What the settings did"),
        tag("p", "Of two candidates that differ in nothing else; the largest effect on each goal first."),
        scrolling(
            tag("table", tag("thead", head), tag("tbody", rows), class_="words effects"), label="Effects of settings"
        ),
    )


def _tornado(effect: SettingEffect, reach: float) -> Markup:
    return whisker(
        effect.difference.median, effect.difference.low, effect.difference.high, reach, kind_of(effect.difference)
    )


def whisker(median: float, low: float, high: float, reach: float, kind: str) -> Markup:
    """A bar from zero to the median and a line over the interval, zero being in the middle."""
    if reach <= 0:
        return tag("span", class_="whisker")

    def place(value: float) -> float:
        return 50 + 50 * max(-1.0, min(1.0, value / reach))

    start, end = sorted((50.0, place(median)))
    left, right = sorted((place(low), place(high)))
    return tag(
        "span",
        tag("i", class_="zero"),
        tag("i", class_="to", style=f"left:{start:.1f}%;width:{end - start:.1f}%"),
        tag("i", class_="band", style=f"left:{left:.1f}%;width:{right - left:.1f}%"),
        class_=f"whisker {kind}",
        aria_hidden="true",
    )
