"""The merge of plugin sets with the defaults and the expansion of multiPoint; orders taken from the real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan_scheduler.config import (
    DEFAULT_PLUGINS,
    EffectiveProfile,
    NodeResourcesFitArgs,
    PluginTraits,
    effective_profiles,
    load_configuration,
)

Build = Callable[..., Any]

SCORE = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("VolumeBinding", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
]


def effective(data: dict[str, Any] | None, **extra: PluginTraits) -> EffectiveProfile:
    return effective_profiles(load_configuration(data, extra_plugins=extra), extra)[0]


def weighted(profile: EffectiveProfile) -> list[tuple[str, int]]:
    return [(name, profile.score_weights[name]) for name in profile.points["score"]]


def test_the_default_profile_runs_upstreams_plugins_in_upstreams_order() -> None:
    """The filter order decides which plugin's reason a user sees."""
    profile = effective(None)
    assert weighted(profile) == SCORE
    assert profile.points["filter"] == profile.points["preFilter"]
    assert profile.points["filter"][:6] == (
        "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    )  # fmt: skip
    assert profile.points["filter"][-1] == "NodeDeclaredFeatures"
    assert profile.points["postFilter"] == ("DynamicResources", "DefaultPreemption")
    assert profile.points["reserve"] == profile.points["preBind"] == ("VolumeBinding", "DynamicResources")
    assert profile.points["queueSort"] == ("PrioritySort",)
    assert profile.points["bind"] == ("DefaultBinder",)
    assert profile.points["permit"] == profile.points["postBind"] == ()
    assert profile.points["preEnqueue"] == ("SchedulingGates", "DynamicResources", "DefaultPreemption")


def test_an_explicit_entry_moves_an_overriding_plugin_to_the_front(profile_config: Build) -> None:
    """Part 1 of the expansion: overriding entries keep the order of the explicit list and come first."""
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": 4}, {"name": "NodeAffinity"}]}}
    rest = [entry for entry in SCORE if entry[0] not in {"ImageLocality", "NodeAffinity"}]
    assert weighted(effective(profile_config(plugins=plugins))) == [("ImageLocality", 4), ("NodeAffinity", 1), *rest]


def test_a_multi_point_entry_changes_the_weight_in_place(profile_config: Build) -> None:
    """The user's entry takes the default's position."""
    plugins = {"multiPoint": {"enabled": [{"name": "InterPodAffinity", "weight": 7}]}}
    expected = [(name, 7 if name == "InterPodAffinity" else weight) for name, weight in SCORE]
    assert weighted(effective(profile_config(plugins=plugins))) == expected


def test_the_explicit_weight_counts_before_that_of_multi_point(profile_config: Build) -> None:
    """Even an explicit 0, which becomes 1."""
    entry = {"name": "TaintToleration"}
    plugins = {"multiPoint": {"enabled": [{**entry, "weight": 9}]}, "score": {"enabled": [{**entry, "weight": 0}]}}
    assert effective(profile_config(plugins=plugins)).score_weights["TaintToleration"] == 1


def test_disabling_all_at_a_point_leaves_only_the_explicit_entries(profile_config: Build) -> None:
    """The usual way to choose the scoring plugins."""
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 2}]}}
    profile = effective(profile_config(plugins=plugins))
    assert weighted(profile) == [("NodeResourcesFit", 2)]
    assert profile.points["preScore"] == effective(None).points["preScore"]


def test_disabling_one_plugin_at_one_point_leaves_it_at_the_others(profile_config: Build) -> None:
    """Extension points are independent."""
    profile = effective(profile_config(plugins={"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}))
    assert "NodeResourcesFit" not in profile.points["filter"]
    assert "NodeResourcesFit" in profile.points["preFilter"]


def test_disabling_and_enabling_in_multi_point_moves_a_plugin_to_the_end(profile_config: Build) -> None:
    """A disabled default does not hold a position for the user's entry."""
    plugins = {"multiPoint": {"disabled": [{"name": "NodeName"}], "enabled": [{"name": "NodeName"}]}}
    assert effective(profile_config(plugins=plugins)).points["filter"][-1] == "NodeName"


def test_without_any_default_only_what_is_enabled_runs(profile_config: Build) -> None:
    """multiPoint with "*" disabled starts from nothing; args appear for needed plugins only."""
    enabled = [{"name": name} for name in ("PrioritySort", "DefaultBinder", "NodeResourcesFit")]
    profile = effective(profile_config(plugins={"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}))
    assert profile.points["filter"] == ("NodeResourcesFit",)
    assert set(profile.args) == {"NodeResourcesFit"}


def test_a_third_party_plugin_joins_by_multi_point_and_by_point(profile_config: Build) -> None:
    """Plugins of multiPoint come before explicit entries that are in no multiPoint."""
    traits = PluginTraits.of("filter", "score")
    everywhere = effective(
        profile_config(plugins={"multiPoint": {"enabled": [{"name": "Mine", "weight": 3}]}}), Mine=traits
    )
    assert everywhere.points["filter"][-1] == everywhere.points["score"][-1] == "Mine"
    assert everywhere.score_weights["Mine"] == 3
    once = effective(profile_config(plugins={"score": {"enabled": [{"name": "Mine"}]}}), Mine=traits)
    assert "Mine" not in once.points["filter"]
    assert weighted(once) == [*SCORE, ("Mine", 1)]


def test_a_profiles_own_percentage_is_kept_even_as_zero(config: Build) -> None:
    """0 means adaptive and overrides the global value; None means the global value counts."""
    given = config(
        percentageOfNodesToScore=70,
        profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 0}, {"schedulerName": "b"}],
    )
    loaded = load_configuration(given)
    assert loaded.percentage_of_nodes_to_score == 70
    assert [profile.percentage_of_nodes_to_score for profile in effective_profiles(loaded)] == [0, None]


def test_extenders_replace_the_resources_that_the_fit_plugin_ignores(config: Build) -> None:
    """Upstream overwrites the user's own list, in every profile."""
    given = config(
        profiles=[
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/own"]}}],
            }
        ],
        extenders=[
            {"urlPrefix": "http://a", "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}]},
            {"urlPrefix": "http://b", "managedResources": [{"name": "example.com/b"}]},
        ],
    )
    (profile,) = effective_profiles(load_configuration(given))
    args = profile.args["NodeResourcesFit"]
    assert isinstance(args, NodeResourcesFitArgs)
    assert args.ignored_resources == ("example.com/a",)


def test_the_default_list_has_each_plugin_once() -> None:
    """A repeated name would fail every profile as "already registered"."""
    names = [plugin.name for plugin in DEFAULT_PLUGINS]
    assert len(names) == len(set(names)) == 20


def test_plugins_of_gates_that_are_off_can_be_enabled_by_name(profile_config: Build) -> None:
    """They are in the registry, only not in the default list."""
    enabled = [{"name": "GangScheduling"}, {"name": "DeferredPodScheduling"}]
    profile = effective(profile_config(plugins={"multiPoint": {"enabled": enabled}}))
    assert profile.points["permit"] == ("GangScheduling", "DeferredPodScheduling")
    assert profile.points["filter"][-1] == "DeferredPodScheduling"


@pytest.mark.parametrize("point", ["preFilter", "filter", "score"])
def test_order_never_depends_on_the_hash_seed(profile_config: Build, point: str) -> None:
    """Sets are used for membership only."""
    plugins = {point: {"enabled": [{"name": "NodeAffinity"}, {"name": "InterPodAffinity"}]}}
    assert effective(profile_config(plugins=plugins)).points[point][:2] == ("NodeAffinity", "InterPodAffinity")
