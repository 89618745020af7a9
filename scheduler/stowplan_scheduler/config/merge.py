"""Plugin sets: the default list, the merge of a profile's sets with it, and the expansion of multiPoint.

Follows `apis/config/v1/default_plugins.go` (mergePlugins) and `framework/runtime/framework.go` (updatePluginList,
expandMultiPointPlugins, getValidScoreWeights). Feature gates have their v1.37.2 defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .gotext import MAX_INT64, quote
from .types import Plugin, Plugins, PluginSet

MAX_NODE_SCORE = 100
ALL = "*"


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """A place where plugins run: its JSON name, the field of `Plugins` and upstream's interface name in error texts."""

    name: str
    field: str
    interface: str


EXPANSION_ORDER: tuple[ExtensionPoint, ...] = tuple(
    ExtensionPoint(*row)
    for row in (
        ("preFilter", "pre_filter", "PreFilterPlugin"),
        ("filter", "filter", "FilterPlugin"),
        ("postFilter", "post_filter", "PostFilterPlugin"),
        ("reserve", "reserve", "ReservePlugin"),
        ("preScore", "pre_score", "PreScorePlugin"),
        ("score", "score", "ScorePlugin"),
        ("preBind", "pre_bind", "PreBindPlugin"),
        ("bind", "bind", "BindPlugin"),
        ("postBind", "post_bind", "PostBindPlugin"),
        ("permit", "permit", "PermitPlugin"),
        ("preEnqueue", "pre_enqueue", "PreEnqueuePlugin"),
        ("queueSort", "queue_sort", "QueueSortPlugin"),
        ("placementGenerate", "placement_generate", "PlacementGeneratePlugin"),
        ("placementScore", "placement_score", "PlacementScorePlugin"),
        ("podGroupPostFilter", "pod_group_post_filter", "PodGroupPostFilterPlugin"),
    )
)
"""The order in which upstream fills the points; it decides which of several errors is reported."""

DEFAULT_PLUGINS: tuple[Plugin, ...] = tuple(
    Plugin(name=name, weight=weight)
    for name, weight in (
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeName", 0),
        ("NodeUnschedulable", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
        ("NodeDeclaredFeatures", 0),
    )
)
"""The default multiPoint list."""


class PluginSetError(ValueError):
    """A set of plugins that cannot be built; the text is upstream's."""


# ---- merge with the defaults -----------------------------------------------------------------------------------------


def merge_plugins(custom: Plugins | None) -> Plugins:
    """The plugin sets of a profile: the defaults, changed by what the profile says.

    Only multiPoint has defaults, but every set goes through the same merge, which keeps its `disabled` list for the
    expansion.
    """
    if custom is None:
        return Plugins(multi_point=PluginSet(enabled=DEFAULT_PLUGINS))
    sets = {point.field: _merge_set((), getattr(custom, point.field)) for point in EXPANSION_ORDER}
    return Plugins(**sets, multi_point=_merge_set(DEFAULT_PLUGINS, custom.multi_point))


def _merge_set(defaults: Sequence[Plugin], custom: PluginSet) -> PluginSet:
    disabled = {plugin.name for plugin in custom.disabled}
    # Of a name that is enabled twice the last entry replaces the default; the others are appended and fail later.
    replacing = {plugin.name: i for i, plugin in enumerate(custom.enabled)}
    enabled: list[Plugin] = []
    replaced: set[int] = set()
    for default in defaults if ALL not in disabled else ():
        if default.name in disabled:
            continue
        i = replacing.get(default.name)
        if i is not None:
            replaced.add(i)
        enabled.append(default if i is None else custom.enabled[i])
    enabled += [plugin for i, plugin in enumerate(custom.enabled) if i not in replaced]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(Plugin(name=plugin.name) for plugin in custom.disabled))


def enabled_names(plugins: Plugins, points: Iterable[str]) -> set[str]:
    """The names enabled in the given fields of `plugins` or in multiPoint."""
    sets = [plugins.multi_point, *(getattr(plugins, field) for field in points)]
    return {plugin.name for plugin_set in sets for plugin in plugin_set.enabled}


# ---- expansion of multiPoint -----------------------------------------------------------------------------------------

Implements = Callable[[str, str], bool | None]
"""(plugin, point name) -> whether it implements the point, None if there is no such plugin."""


def expand_plugins(plugins: Plugins, implements: Implements) -> dict[str, tuple[str, ...]]:
    """The plugins of every extension point in the order in which they run. Raises PluginSetError.

    First come the explicit entries that override a multiPoint entry, then the other multiPoint entries, then the other
    explicit ones. Explicit entries of all points are checked before multiPoint is looked at.
    """
    for point in EXPANSION_ORDER:
        _check_explicit(point, getattr(plugins, point.field), implements)
    return {
        point.name: _expand(point, getattr(plugins, point.field), plugins.multi_point.enabled, implements)
        for point in EXPANSION_ORDER
    }


def _check_explicit(point: ExtensionPoint, plugin_set: PluginSet, implements: Implements) -> None:
    seen: set[str] = set()
    for plugin in plugin_set.enabled:
        implemented = implements(plugin.name, point.name)
        if implemented is None:
            raise PluginSetError(f"{point.interface} {quote(plugin.name)} does not exist")
        if not implemented:
            raise PluginSetError(f"plugin {quote(plugin.name)} does not extend {point.interface} plugin")
        _register(plugin.name, point, seen)


def _register(name: str, point: ExtensionPoint, seen: set[str]) -> None:
    if name in seen:
        raise PluginSetError(f"plugin {quote(name)} already registered as {quote(point.interface)}")
    seen.add(name)


def _expand(
    point: ExtensionPoint, plugin_set: PluginSet, multi_point: Sequence[Plugin], implements: Implements
) -> tuple[str, ...]:
    explicit = [plugin.name for plugin in plugin_set.enabled]
    disabled = {plugin.name for plugin in plugin_set.disabled}
    if ALL in disabled:
        return tuple(explicit)
    overriding: set[str] = set()
    added: list[str] = []
    seen: set[str] = set()
    for plugin in multi_point:
        implemented = implements(plugin.name, point.name)
        if implemented is None:
            raise PluginSetError(f"{point.interface} {quote(plugin.name)} does not exist")
        if not implemented or plugin.name in disabled:
            continue
        if plugin.name in explicit:
            overriding.add(plugin.name)
            continue
        _register(plugin.name, point, seen)
        added.append(plugin.name)
    first = [name for name in explicit if name in overriding]
    return (*first, *added, *(name for name in explicit if name not in overriding))


def score_weights(explicit: PluginSet, multi_point: PluginSet, point: str, implements: Implements) -> Mapping[str, int]:
    """The weights at `score` or `placementScore`: the explicit entry counts first, then multiPoint's; 0 becomes 1.

    Raises PluginSetError if the weighted sum of the highest scores could exceed an int64.
    """
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*explicit.enabled, *multi_point.enabled):
        if plugin.name in weights or not implements(plugin.name, point):
            continue
        weights[plugin.name] = plugin.weight or 1
        if weights[plugin.name] * MAX_NODE_SCORE > _wrapped(MAX_INT64 - total):
            raise PluginSetError("total score of Score plugins could overflow")
        total += weights[plugin.name] * MAX_NODE_SCORE
    return weights


def _wrapped(value: int) -> int:
    """An int64 after overflow: a negative weight overflows upstream's own guard, which then refuses what follows."""
    return value - (1 << 64) if value > MAX_INT64 else value
