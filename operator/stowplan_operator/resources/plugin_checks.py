"""spec.plugins against the plugins that there are: those of the scheduler, and those of other distributions.

The scheduler's own loader stops at the first such finding and knows no fields of the resource. Here all are found, by
its table of plugins; whatever it finds beyond that still counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from stowplan_autoscaling.inputs.errors import shown
from stowplan_autoscaling.resources.findings import near
from stowplan_scheduler.config import REGISTRY, PluginTraits
from stowplan_scheduler.config.validation import REMOVED_PLUGINS
from stowplan_scheduler.plugins.registry import IN_TREE

from .problems import ProfileProblem
from .scheduler_profile import ALL, Plugins
from .spec_checks import plugin_sets

GATED: Final = "not decided yet: upstream has it behind a feature gate that is off"

_MULTI_POINT: Final = "multiPoint"


def plugin_problems(plugins: Plugins | None, third_party: Mapping[str, PluginTraits]) -> Iterator[ProfileProblem]:
    """All plugins that cannot be enabled where they are."""
    for point, plugin_set in plugin_sets(plugins):
        for index, entry in enumerate(plugin_set.enabled):
            message = why_not(entry.name, point, third_party)
            if message and entry.name != ALL:
                yield ProfileProblem(f"spec.plugins.{point}.enabled[{index}].name", message)


def is_gated(name: str) -> bool:
    """Whether upstream has such a plugin, which is not decided yet."""
    return name in REGISTRY and name not in IN_TREE


def why_not(name: str, point: str, third_party: Mapping[str, PluginTraits]) -> str:
    """Why a plugin cannot be enabled at an extension point; "" if it can."""
    if name in REMOVED_PLUGINS:
        return f"{shown(name)}: Kubernetes has no such plugin any more; NodeVolumeLimits does its work"
    traits = REGISTRY.get(name) or third_party.get(name)
    if traits is None:
        return f"{shown(name)}: there is no such plugin{near(name, sorted({*REGISTRY, *third_party}))}"
    if is_gated(name) and name not in third_party:
        return f"{shown(name)}: {GATED}"
    if point != _MULTI_POINT and point not in traits.points:
        return f"{shown(name)}: has nothing to do at {point}; its points are {', '.join(sorted(traits.points))}"
    return ""
