"""Validation of plugin args; all texts were taken from the real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan_scheduler.config import load_configuration

Build = Callable[..., Any]

ARGS = "profiles[0].pluginConfig[0].args"
RATIO = "RequestedToCapacityRatio"
FIT = (
    "initializing profiles: creating profile for scheduler name default-scheduler: "
    'initializing plugin "NodeResourcesFit": '
)
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"defaultingType": "List", "defaultConstraints": [constraint]}


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
            [
                f"{ARGS}.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                f"{ARGS}.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                (
                    f"{ARGS}.minCandidateNodesPercentage: Invalid value: 0: "
                    "cannot be zero at the same time as minCandidateNodesAbsolute"
                ),
                (
                    f"{ARGS}.minCandidateNodesAbsolute: Invalid value: 0: "
                    "cannot be zero at the same time as minCandidateNodesPercentage"
                ),
            ],
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            [f"{ARGS}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
            [
                f"{ARGS}.resources[0].weight: Invalid value: 2: must be 1",
                f'{ARGS}.resources[1].name: Duplicate value: "cpu"',
            ],
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1, "shape": [{"utilization": 50, "score": 11}, {"utilization": 50, "score": 0}]},
            [
                (
                    f"{ARGS}.bindTimeoutSeconds: Invalid value: -1: "
                    "invalid BindTimeoutSeconds, should not be a negative value"
                ),
                f"{ARGS}.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
                f"{ARGS}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
            ],
        ),
        (
            "DynamicResources",
            {"filterTimeout": "-1s", "bindingTimeout": "100ms"},
            [
                f'{ARGS}.filterTimeout: Invalid value: "-1s": must be zero or positive',
                f'{ARGS}.bindingTimeout: Invalid value: "100ms": must be at least 1 second',
            ],
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "Foo"},
            [f'{ARGS}.defaultingType: Unsupported value: "Foo": supported values: "System", "List"'],
        ),
        (
            "PodTopologySpread",
            {**spread(), "defaultingType": ""},
            [f'{ARGS}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
        ),
        (
            "PodTopologySpread",
            spread(maxSkew=0, topologyKey="", whenUnsatisfiable=""),
            [
                f"{ARGS}.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                f"{ARGS}.defaultConstraints[0].topologyKey: Required value: can not be empty",
                f"{ARGS}.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
            ],
        ),
        (
            "PodTopologySpread",
            spread(topologyKey="a b", whenUnsatisfiable="Never<", labelSelector={"matchExpressions": [{}]}),
            [
                f'{ARGS}.defaultConstraints[0].topologyKey: Invalid value: "a b": {NAME_RULE}',
                (
                    f'{ARGS}.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Never\\u003c": '
                    'supported values: "DoNotSchedule", "ScheduleAnyway"'
                ),
                (
                    f"{ARGS}.defaultConstraints[0].labelSelector: Forbidden: "
                    "constraint must not define a selector, as they deduced for each pod"
                ),
            ],
        ),
        (
            "PodTopologySpread",
            {**spread(), "defaultConstraints": spread()["defaultConstraints"] * 2},
            [f'{ARGS}.defaultConstraints[1]: Duplicate value: "{{zone, DoNotSchedule}}"'],
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{}, {"matchExpressions": [{"key": "zone", "operator": "In"}]}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "preference": {"matchExpressions": [{"key": "", "operator": "?"}]}},
                        {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}},
                    ],
                }
            },
            [
                (
                    f"{ARGS}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]"
                    ".matchExpressions[0].values: Invalid value: null: "
                    "for 'in', 'notin' operators, values set can't be empty"
                ),
                (
                    f"{ARGS}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1]"
                    '.matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"'
                ),
            ],
        ),
    ],
)
def test_bad_args_are_refused_by_validation(
    args_config: Build, errors_of: Build, plugin: str, args: object, expected: list[str]
) -> None:
    """Terms without expressions and preferences of weight 0 are not parsed, so they cannot be wrong."""
    assert errors_of(args_config(plugin, args)) == ("validate", expected)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            {"ignoredResources": ["a b"], "ignoredResourceGroups": ["example.com/a", "c d"]},
            (
                f'[ignoredResources[0]: Invalid value: "a b": {NAME_RULE}, '
                "ignoredResourceGroups[0]: Invalid value: \"example.com/a\": resource group name can't contain '/', "
                f'ignoredResourceGroups[1]: Invalid value: "c d": {NAME_RULE}]'
            ),
        ),
        (
            {"scoringStrategy": {"type": "Foo"}},
            (
                'scoringStrategy.type: Unsupported value: "Foo": '
                f'supported values: "LeastAllocated", "MostAllocated", "{RATIO}"'
            ),
        ),
        (
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
            (
                "scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]"
            ),
        ),
        (
            {"scoringStrategy": {"type": RATIO}},
            f"scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is {RATIO}",
        ),
        (
            {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {}}},
            "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
        ),
        (
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": []}}},
            f"scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not {RATIO}",
        ),
    ],
)
def test_bad_fit_args_are_refused_when_the_plugin_is_built(
    args_config: Build, errors_of: Build, args: object, expected: str
) -> None:
    """Upstream's table of validators misspells this plugin, so its constructor finds the error; the path is empty."""
    assert errors_of(args_config("NodeResourcesFit", args)) == ("build", [FIT + expected])


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        ("DefaultPreemption", "got args of type <nil>, want *DefaultPreemptionArgs"),
        ("DynamicResources", "got args of type <nil>, want *DynamicResourcesArgs"),
        ("NodeAffinity", "args are not of type NodeAffinityArgs, got <nil>"),
        ("NodeResourcesFit", "want args to be of type NodeResourcesFitArgs, got <nil>"),
    ],
)
def test_a_plugin_of_pod_group_post_filter_alone_gets_no_default_args(
    profile_config: Build, errors_of: Build, plugin: str, text: str
) -> None:
    """Upstream forgets that set when it adds default args, so the constructor complains."""
    enabled = [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled},
        "podGroupPostFilter": {"enabled": [{"name": plugin}]},
    }
    stage, errors = errors_of(profile_config(plugins=plugins))
    assert stage == "build"
    assert errors[0].endswith(f'initializing plugin "{plugin}": {text}')


def test_args_of_a_plugin_of_others_stay_as_they_are(args_config: Build) -> None:
    """Their plugin decodes them."""
    config = load_configuration(args_config("Mine", {"b": 1, "a": [1.5, None]}))
    args = config.profiles[0].plugin_config[0].args
    assert args.text == '{"b":1,"a":[1.5,null]}'
    assert args.value == {"b": 1, "a": [1.5, None]}
