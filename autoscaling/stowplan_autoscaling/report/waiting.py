"""The section "Why pods waited": the way of a pod from the change of demand to readiness, as a bar of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_autoscaling.experiment.wording import seconds

from . import palette
from .amounts import NOTHING
from .markup import Child, Markup, key, legend, table, tag
from .pods import PARTS, Pods, joined
from .runs import CandidateRuns
from .sections import section

SLOWEST: Final = 0.05
"""The share of pods that the second bar of each candidate is about."""

WORDS: Final = {
    "metric": "until a metric showed the demand",
    "autoscaler": "until the autoscaler decided",
    "controller": "until the controller made the pod",
    "queue": "in the scheduler's queue",
    "supply": "until a node was asked for",
    "node": "until that node took pods",
    "backoff": "other time after a failed attempt",
    "image": "pulling images",
    "start": "starting containers",
    "readiness": "until the application was ready",
}


def build(runs: Sequence[CandidateRuns], pods: Mapping[str, Sequence[Pods]]) -> Markup:
    """The section. pods: those of each candidate, by seed."""
    rows: list[tuple[str, str, Floats, int]] = []
    for one in runs:
        if not pods[one.name]:
            continue
        every = joined(list(pods[one.name]))
        for title, share in (("all pods", 1.0), ("the slowest 5 %", SLOWEST)):
            split, count = every.split(share)
            if count:
                rows.append((one.name, title, split, count))
    lead = (
        "From the change of demand to a ready pod, as the mean over pods that became ready, of all seeds together. The "
        "tail is what a target misses, so it has a bar of its own."
    )
    if not rows:
        return section("waiting", "Why pods waited", lead, tag("p", "No pod became ready.", class_="empty"))
    longest = max(float(split.sum()) for _, _, split, _ in rows)
    entries = legend(*(key(palette.WAITING[part], f"{part}: {WORDS[part]}") for part in PARTS))
    bars = [_bar(name, title, split, count, longest) for name, title, split, count in rows]
    head: list[Child] = ["candidate", *PARTS, "sum", "pods"]
    cells: list[list[Child]] = [
        [
            f"{name}, {title}",
            *(seconds(float(value)) if value else NOTHING for value in split),
            seconds(float(split.sum())),
            f"{count:,}",
        ]
        for name, title, split, count in rows
    ]
    return section(
        "waiting",
        "Why pods waited",
        lead,
        entries,
        tag("div", bars, class_="bars"),
        tag("details", tag("summary", "The numbers"), table(head, cells, label="Parts of waiting")),
    )


def _bar(name: str, title: str, split: Floats, count: int, longest: float) -> Markup:
    total = float(split.sum())
    parts = [
        tag(
            "i",
            style=f"width:{float(value) / longest * 100:.2f}%;--c:{palette.WAITING[part]}",
            title=f"{part}: {seconds(float(value))}",
        )
        for part, value in zip(PARTS, split, strict=True)
        if value > 0 and longest > 0
    ]
    largest = max(zip(split, PARTS, strict=True), key=lambda pair: float(pair[0]))
    words = f"{name}, {title}: {seconds(total)}, most of it {largest[1]} ({seconds(float(largest[0]))})"
    heading = tag(
        "p", tag("strong", name), f" {title} ", tag("span", f"{seconds(total)}, {count:,} pods", class_="unit")
    )
    return tag("div", heading, tag("div", parts, class_="stack", role="img", aria_label=words), class_="bar")
