"""Plugins of other distributions: the points that they implement, and whether they take their args.

Only the plugin itself knows its args, so it is made once, as a worker would make it, and asked what it listens to. A
worker must not be told to run a profile whose plugins cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stowplan_scheduler.config import effective_profiles, load_configuration
from stowplan_scheduler.framework.cluster import Stores
from stowplan_scheduler.framework.handle import PluginFactory, PluginHandle
from stowplan_scheduler.profiles import plugin_traits

from .documents import configuration_of
from .problems import ProfileProblem


def third_party_problems(
    document: Mapping[str, Any], third_party: Mapping[str, PluginFactory]
) -> Iterator[ProfileProblem]:
    """Plugins that a profile enables and that cannot be made with its args. `document`: a profile that can be built."""
    if not third_party:
        return
    traits = plugin_traits(third_party)
    config = load_configuration(
        configuration_of([document]),
        extra_plugins=traits,
    )
    (profile,) = effective_profiles(config, traits)
    names = [entry["name"] for entry in document.get("pluginConfig", ())]
    handle = PluginHandle(Stores())
    for name in dict.fromkeys(name for listed in profile.points.values() for name in listed):
        if name not in third_party:
            continue
        try:
            third_party[name](profile.args.get(name), handle).events()
        except Exception as error:  # noqa: BLE001 - it is somebody else's code, and it may raise anything
            where = f"spec.pluginConfig[{names.index(name)}].args" if name in names else "spec.pluginConfig"
            yield ProfileProblem(where, f"plugin {name}: {type(error).__name__}: {error}")
