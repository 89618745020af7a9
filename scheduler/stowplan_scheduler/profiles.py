"""Profiles from a configuration: plugins are made with their args and put at their extension points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from stowplan_scheduler.config import ConfigurationError, KubeSchedulerConfiguration, PluginTraits, effective_profiles
from stowplan_scheduler.framework.handle import PluginFactory, PluginHandle
from stowplan_scheduler.framework.interface import Plugin
from stowplan_scheduler.framework.measured import MeasuredProfile
from stowplan_scheduler.framework.memo import Memo
from stowplan_scheduler.framework.runtime import Profile
from stowplan_scheduler.plugins.registry import IN_TREE, extension_points

if TYPE_CHECKING:
    from stowplan_scheduler.framework.timing import Hooks


def plugin_traits(third_party: Mapping[str, PluginFactory]) -> Mapping[str, PluginTraits]:
    """What a configuration needs to know about third-party plugins. Factories that are no classes offer every point."""
    traits = {}
    for name, factory in third_party.items():
        if isinstance(factory, type) and issubclass(factory, Plugin):
            traits[name] = PluginTraits.of(*sorted(extension_points(factory)))
        else:
            message = f"plugin {name} must be registered as a subclass of Plugin"
            raise TypeError(message)
    return traits


def build_profiles(
    config: KubeSchedulerConfiguration,
    handle: PluginHandle,
    *,
    third_party: Mapping[str, PluginFactory] | None = None,
    make_memo: Callable[[], Memo] = Memo,
    hooks: Hooks | None = None,
    running: Mapping[str, Profile] | None = None,
) -> dict[str, Profile]:
    """The running profiles by scheduler name, in the configuration's order. Raises ConfigurationError, also where a
    plugin of others cannot be made.

    `running`: profiles that are in use; of these the ones that would be made in just the same way are taken over, with
    all that they remember.
    """
    third_party = third_party or {}
    running = running or {}
    kind = Profile if hooks is None else partial(MeasuredProfile, hooks=hooks)
    profiles: dict[str, Profile] = {}
    for effective in effective_profiles(config, plugin_traits(third_party)):
        percentage = effective.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score or 0
        old = running.get(effective.scheduler_name)
        if old is not None and old.made_of == effective and old.percentage == percentage:
            profiles[effective.scheduler_name] = old
            continue
        names = dict.fromkeys(name for listed in effective.points.values() for name in listed)
        plugins: dict[str, Plugin] = {}
        for name in names:
            factory = IN_TREE.get(name) or third_party[name]
            plugins[name] = _made(name, factory, effective.args.get(name), handle)
        profiles[effective.scheduler_name] = kind(
            effective.scheduler_name,
            effective.points,
            plugins,
            effective.score_weights,
            percentage,
            memo=make_memo(),
            made_of=effective,
        )
    return profiles


def _made(name: str, factory: PluginFactory, args: object, handle: PluginHandle) -> Plugin:
    """A plugin. Whatever its author raises about its args is a mistake of the configuration."""
    try:
        return factory(args, handle)
    except ConfigurationError:
        raise
    except Exception as failure:
        text = str(failure) if isinstance(failure, ValueError) else f"{type(failure).__name__}: {failure}"
        # The text of NewFramework (pkg/scheduler/framework/runtime/framework.go) of Kubernetes v1.37.2.
        raise ConfigurationError([f'initializing plugin "{name}": {text}'], "build") from failure
