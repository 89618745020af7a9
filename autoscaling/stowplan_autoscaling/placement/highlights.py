"""The few lines that a reader should look at first, worked out from a report.

Every later configuration is held against the first one. A line appears only where there is something to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .measure import amount
from .report import ConfigurationReport, Report

NOTEWORTHY: Final = 0.02
"""Share of a resource of the whole cluster from which a difference in stranded capacity is mentioned."""


def highlights(report: Report) -> tuple[str, ...]:
    """Sentences in order of weight."""
    if not report.configurations:
        return ()
    first, *others = report.configurations
    lines: list[str] = []
    for other in others:
        lines.extend(_compared(first, other))
    lines.extend(_pending(report.configurations))
    lines.extend(_oddities(report.configurations))
    return tuple(lines)


def _compared(first: ConfigurationReport, other: ConfigurationReport) -> Iterator[str]:
    yield from _nodes(first, other)
    yield from _placed(first, other)
    yield from _stranded(first, other)
    yield from _largest(first, other)


def _nodes(first: ConfigurationReport, other: ConfigurationReport) -> Iterator[str]:
    before, after = first.nodes.in_use, other.nodes.in_use
    if before == after:
        yield f"{other.name} uses as many nodes as {first.name}: {after:,} of {other.nodes.total:,}."
        return
    word = "fewer" if after < before else "more"
    yield (
        f"{other.name} uses {abs(after - before):,} {word} nodes than {first.name}: {after:,} instead of {before:,}"
        f" (of {other.nodes.total:,})."
    )


def _placed(first: ConfigurationReport, other: ConfigurationReport) -> Iterator[str]:
    before, after = first.pods.pending, other.pods.pending
    if before == after:
        return
    word = "fewer" if after < before else "more"
    yield (
        f"{other.name} leaves {abs(after - before):,} {word} pods pending than {first.name}: "
        f"{after:,} instead of {before:,}."
    )


def _stranded(first: ConfigurationReport, other: ConfigurationReport) -> Iterator[str]:
    """What is left on nodes where another resource is full: only where it matters."""
    later = {resource.name: resource for resource in other.resources}
    for resource in first.resources:
        total = resource.allocatable.raw
        if resource.name == "pods" or not total or not resource.requested.raw or resource.name not in later:
            continue
        change = later[resource.name].stranded.raw - resource.stranded.raw
        if abs(change) < NOTEWORTHY * total:
            continue
        word = "less" if change < 0 else "more"
        text = amount(resource.name, abs(change)).text
        yield (
            f"{other.name} strands {text} {word} {resource.name} than {first.name}, "
            f"{abs(change) / total:.0%} of the cluster's."
        )


def _largest(first: ConfigurationReport, other: ConfigurationReport) -> Iterator[str]:
    before, after = first.largest_pod, other.largest_pod
    if before is None or after is None or before.amounts == after.amounts:
        return
    texts = [
        ", ".join(f"{each.text} {name}" for name, each in pod.amounts.items()) if pod.node else "none at all"
        for pod in (before, after)
    ]
    yield f"The largest pod that still fits: {texts[1]} with {other.name}, {texts[0]} with {first.name}."


def _pending(configurations: tuple[ConfigurationReport, ...]) -> Iterator[str]:
    """Where to ask on, if pods stay pending everywhere."""
    groups = [configuration.pending[0] for configuration in configurations if configuration.pending]
    if groups:
        yield f"Ask why a pod is pending, and what would place it, with --explain, as in --explain {groups[0].pods[0]}."


def _oddities(configurations: tuple[ConfigurationReport, ...]) -> Iterator[str]:
    for configuration in configurations:
        if configuration.victims:
            victims = len(configuration.victims)
            yield f"{configuration.name} removes {victims} running pod{'s' * (victims > 1)} by preemption."
        if not configuration.settled:
            yield f"{configuration.name} was given up: pods kept coming back without being placed."
