"""What one field of a SchedulerProfile says about another, as the CEL rules of the definition have it (`cel_rules`).

The API server runs those; here they are for files that no server has seen, and for objects that were stored before a
rule came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.resources.base import duplicate

from .problems import ProfileProblem
from .scheduler_profile import ALL, DEFAULT_SCHEDULER, FIT, PluginEntry, Plugins, PluginSet, SchedulerProfileSpec

WEIGHTED: Final = ("score", "placementScore", "multiPoint")
"""Extension points at which a weight counts."""

SINGLE: Final = ("queueSort", "placementGenerate")
"""Extension points that take one plugin at most."""


def plugin_sets(plugins: Plugins | None) -> Iterator[tuple[str, PluginSet]]:
    """The sets that are given, with the names of their extension points, in upstream's order."""
    for name, info in Plugins.model_fields.items() if plugins is not None else ():
        plugin_set = getattr(plugins, name)
        if plugin_set is not None:
            yield str(info.alias or name), plugin_set


def spec_problems(spec: SchedulerProfileSpec) -> Iterator[ProfileProblem]:
    """All findings."""
    if spec.scheduler_name == DEFAULT_SCHEDULER and not spec.take_over:
        message = f"{shown(DEFAULT_SCHEDULER)}: needs takeOver: true: kube-scheduler binds the pods of this name"
        yield ProfileProblem("spec.schedulerName", message)
    for point, plugin_set in plugin_sets(spec.plugins):
        yield from _set_problems(point, plugin_set)
    yield from _unique([entry.name for entry in spec.plugin_config], "spec.pluginConfig")
    yield from _strategy_problems(spec)
    if spec.rollout.mode == "Shadow" and spec.rollout.shadow_of == spec.scheduler_name:
        message = f"{shown(spec.rollout.shadow_of)}: must be another scheduler than schedulerName"
        yield ProfileProblem("spec.rollout.shadowOf", message)
    if spec.workers.runtime == "Child" and spec.workers.replicas != 1:
        message = f"{spec.workers.replicas}: must be 1 with runtime Child, which has no stand-by"
        yield ProfileProblem("spec.workers.replicas", message)


def _set_problems(point: str, plugin_set: PluginSet) -> Iterator[ProfileProblem]:
    where = f"spec.plugins.{point}.enabled"
    yield from _unique([entry.name for entry in plugin_set.enabled], where)
    if point in SINGLE and len(plugin_set.enabled) > 1:
        yield ProfileProblem(where, f"has {len(plugin_set.enabled)} entries: at most 1 is allowed")
    for index, entry in enumerate(plugin_set.enabled):
        yield from _entry_problems(point, entry, f"{where}[{index}]")


def _entry_problems(point: str, entry: PluginEntry, where: str) -> Iterator[ProfileProblem]:
    if entry.name == ALL:
        yield ProfileProblem(f"{where}.name", "* can be disabled only")
    if entry.weight and point not in WEIGHTED:
        message = f"{entry.weight}: a weight counts at {', '.join(WEIGHTED)} only"
        yield ProfileProblem(f"{where}.weight", message)


def _strategy_problems(spec: SchedulerProfileSpec) -> Iterator[ProfileProblem]:
    strategy = spec.scoring_strategy
    if strategy is None:
        return
    if any(config.name == FIT for config in spec.plugin_config):
        message = f"is short for args of {FIT}, which pluginConfig has, too: keep one of the two"
        yield ProfileProblem("spec.scoringStrategy", message)
    yield from _unique([resource.name for resource in strategy.resources], "spec.scoringStrategy.resources")


def _unique(names: Sequence[str], where: str) -> Iterator[ProfileProblem]:
    index = duplicate(names)
    if index is not None:
        yield ProfileProblem(f"{where}[{index}].name", f"{shown(names[index])}: occurs twice")
