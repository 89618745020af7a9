"""Errors of building a profile; texts from framework.go, profile.go and scheduler.go of v1.37.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan_scheduler.config import REGISTRY, ConfigurationError, PluginTraits, effective_profiles, load_configuration

Build = Callable[..., Any]

PREFIX = "initializing profiles: creating profile for scheduler name default-scheduler: "


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"filter": {"enabled": [{"name": "Nope"}]}}, 'FilterPlugin "Nope" does not exist'),
        ({"multiPoint": {"enabled": [{"name": "Nope"}]}}, 'PreFilterPlugin "Nope" does not exist'),
        (
            {"filter": {"enabled": [{"name": "ImageLocality"}]}},
            'plugin "ImageLocality" does not extend FilterPlugin plugin',
        ),
        (
            {"score": {"enabled": [{"name": "ImageLocality"}] * 2}},
            'plugin "ImageLocality" already registered as "ScorePlugin"',
        ),
        (
            {"multiPoint": {"enabled": [{"name": "NodeName"}] * 2}},
            'plugin "NodeName" already registered as "PreFilterPlugin"',
        ),
        (
            {"queueSort": {"disabled": [{"name": "PrioritySort"}]}},
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
        ),
        (
            {"bind": {"disabled": [{"name": "DefaultBinder"}]}},
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
        ),
        (
            {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}},
            "score plugins: total score of Score plugins could overflow",
        ),
        (
            {"placementScore": {"enabled": [{"name": "PodGroupPodsCount", "weight": -3}]}},
            "placement score plugins: total score of Score plugins could overflow",
        ),
    ],
)
def test_a_profile_that_cannot_be_built_says_why(
    profile_config: Build, errors_of: Build, plugins: dict[str, Any], expected: str
) -> None:
    """A negative weight overflows upstream's guard against overflow, which is how it comes to be refused."""
    assert errors_of(profile_config(plugins=plugins)) == ("build", [PREFIX + expected])


def test_profiles_with_different_queue_sort_plugins_are_refused(config: Build) -> None:
    """Chosen through multiPoint they pass validation, and the profile map finds them."""
    other = {"multiPoint": {"disabled": [{"name": "PrioritySort"}], "enabled": [{"name": "Mine"}]}}
    given = config(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "plugins": other}])
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(given, extra_plugins={"Mine": PluginTraits.of("queueSort")})
    assert caught.value.errors == (
        'initializing profiles: different queue sort plugins for profile "b": "Mine", first: "PrioritySort"',
    )


def test_more_than_one_placement_generator_is_refused(profile_config: Build) -> None:
    """A pod group has one list of placements."""
    plugins = {"multiPoint": {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "Mine"}]}}
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(
            profile_config(plugins=plugins), extra_plugins={"Mine": PluginTraits.of("placementGenerate")}
        )
    expected = 'at most one placement generate plugin is allowed for profile with scheduler name "default-scheduler"'
    assert caught.value.errors == (PREFIX + expected,)


def test_a_third_party_plugin_may_not_take_an_in_tree_name() -> None:
    """The registries are merged, and a name is one plugin."""
    with pytest.raises(ConfigurationError) as caught:
        effective_profiles(load_configuration(None), {"NodeName": PluginTraits.of("filter")})
    assert caught.value.errors == ("a plugin named NodeName already exists",)


def test_extenders_fail_before_profiles(config: Build, errors_of: Build) -> None:
    """Insecure and an authority contradict each other."""
    extender = {"urlPrefix": "https://x", "tlsConfig": {"insecure": True, "caFile": "/ca.pem"}}
    assert errors_of(config(extenders=[extender])) == (
        "build",
        ["couldn't build extenders: specifying a root certificates file with the insecure flag is not allowed"],
    )


def test_resources_ignored_by_the_scheduler_need_the_fit_plugin(config: Build, errors_of: Build) -> None:
    """Upstream writes them into the Fit args, which a profile without Fit does not have."""
    enabled = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    given = config(
        profiles=[{"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}],
        extenders=[{"managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}]}],
    )
    assert errors_of(given) == ("build", ["couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"])


def test_the_registry_holds_every_in_tree_plugin() -> None:
    """24 plugins in framework/plugins/registry.go, each at one point at least."""
    assert len(REGISTRY) == 24
    assert all(traits.points for traits in REGISTRY.values())
