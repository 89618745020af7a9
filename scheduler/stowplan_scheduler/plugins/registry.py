"""Which plugins there are: upstream's by name, and those that other distributions register.

Follows plugins/registry.go and plugins/names/names.go of Kubernetes v1.37.2. Plugins behind feature gates that are off
by default are not part of it. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final, cast

from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.handle import PluginFactory, PluginHandle
from stowplan_scheduler.framework.interface import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "IN_TREE",
    "PluginFactory",
    "PluginHandle",
    "PluginLoadError",
    "extension_points",
    "load_third_party",
]

ENTRY_POINT_GROUP: Final = "stowplan.plugins"
"""Where other distributions register a subclass of Plugin whose constructor takes (args, handle)."""


class PluginLoadError(ValueError):
    """A registered plugin that cannot be used."""


def _class(module: str, name: str) -> type[Plugin]:
    return cast(type[Plugin], getattr(import_module(f"stowplan_scheduler.{module}"), name))


def _bare(module: str, name: str) -> PluginFactory:
    """A plugin that needs neither args nor stores."""

    def make(args: object, handle: PluginHandle) -> Plugin:
        return _class(module, name)()

    return make


def _with_args(module: str, name: str) -> PluginFactory:
    """A plugin that reads its args."""

    def make(args: object, handle: PluginHandle) -> Plugin:
        return cast(Callable[[object], Plugin], _class(module, name))(args)

    return make


def _with_stores(module: str, name: str) -> PluginFactory:
    """A plugin that reads its args and looks objects up."""

    def make(args: object, handle: PluginHandle) -> Plugin:
        return cast(Callable[[object, Stores], Plugin], _class(module, name))(args, handle.stores)

    return make


def _with_handle(module: str, name: str) -> PluginFactory:
    """A plugin that reads its args and looks pods up, too."""

    def make(args: object, handle: PluginHandle) -> Plugin:
        return cast(Callable[[object, PluginHandle], Plugin], _class(module, name))(args, handle)

    return make


IN_TREE: Final[Mapping[str, PluginFactory]] = MappingProxyType(
    {
        "SchedulingGates": _bare("plugins.scheduling_gates", "SchedulingGates"),
        "PrioritySort": _bare("plugins.priority_sort", "PrioritySort"),
        "NodeName": _bare("plugins.node_name", "NodeName"),
        "NodeUnschedulable": _bare("plugins.node_unschedulable", "NodeUnschedulable"),
        "TaintToleration": _bare("plugins.taint_toleration", "TaintToleration"),
        "NodeAffinity": _with_args("plugins.node_affinity", "NodeAffinity"),
        "NodePorts": _bare("plugins.node_ports", "NodePorts"),
        "NodeResourcesFit": _with_stores("plugins.node_resources.fit", "NodeResourcesFit"),
        "VolumeRestrictions": _bare("plugins.volumes_and_devices", "VolumeRestrictions"),
        "NodeVolumeLimits": _bare("plugins.volumes_and_devices", "NodeVolumeLimits"),
        "VolumeBinding": _bare("plugins.volumes_and_devices", "VolumeBinding"),
        "VolumeZone": _bare("plugins.volumes_and_devices", "VolumeZone"),
        "PodTopologySpread": _with_stores("plugins.pod_topology_spread.plugin", "PodTopologySpread"),
        "InterPodAffinity": _with_stores("plugins.inter_pod_affinity.plugin", "InterPodAffinity"),
        "DynamicResources": _bare("plugins.volumes_and_devices", "DynamicResources"),
        "DefaultPreemption": _with_handle("preemption.default_preemption", "DefaultPreemption"),
        "NodeResourcesBalancedAllocation": _with_args(
            "plugins.node_resources.balanced_allocation", "NodeResourcesBalancedAllocation"
        ),
        "ImageLocality": _bare("plugins.image_locality", "ImageLocality"),
        "DefaultBinder": _bare("plugins.default_binder", "DefaultBinder"),
        "NodeDeclaredFeatures": _bare("plugins.node_declared_features", "NodeDeclaredFeatures"),
    }
)
"""Upstream's plugins by name, in the order of the default configuration."""


_POINTS: Final[tuple[tuple[type[Plugin], tuple[str, ...]], ...]] = (
    (PreEnqueuePlugin, ("preEnqueue",)),
    (QueueSortPlugin, ("queueSort",)),
    (FilterPlugin, ("preFilter", "filter")),
    (PostFilterPlugin, ("postFilter",)),
    (ScorePlugin, ("score",)),
    (ReservePlugin, ("reserve",)),
    (PermitPlugin, ("permit",)),
    (PreBindPlugin, ("preBind",)),
    (BindPlugin, ("bind",)),
    (PostBindPlugin, ("postBind",)),
)


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements, by their names in a configuration."""
    found = {point for interface, points in _POINTS if issubclass(plugin, interface) for point in points}
    if issubclass(plugin, ScorePlugin) and plugin.pre_score is not ScorePlugin.pre_score:
        found.add("preScore")
    return frozenset(found)


def load_third_party() -> Mapping[str, PluginFactory]:
    """The plugins of other distributions by name, in order of their names.

    The class itself is the factory, so `extension_points` can be asked about it. Raises PluginLoadError for a name that
    is taken and for anything but a subclass of Plugin with a matching `name`.
    """
    found: dict[str, PluginFactory] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: (e.name, e.value)):
        if entry.name in IN_TREE or entry.name in found:
            raise PluginLoadError(f"a plugin named {entry.name} already exists")
        plugin = entry.load()
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
            raise PluginLoadError(f"plugin {entry.name}: {entry.value} is no subclass of Plugin")
        if plugin.name != entry.name:
            raise PluginLoadError(f"plugin {entry.name}: {entry.value} calls itself {plugin.name}")
        found[entry.name] = cast(PluginFactory, plugin)
    return found
