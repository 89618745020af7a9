"""Every rule of apis/config/validation with the text that the real scheduler gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan_scheduler.config import ConfigurationError, configuration_error_text, load_configuration

Build = Callable[..., Any]

LABEL_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. "
    "'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
REMOVED = 'was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"clientConnection": {"burst": -1}}, ["clientConnection.burst: Invalid value: -1: must be non-negative"]),
        ({"parallelism": 0}, ["parallelism: Invalid value: 0: should be an integer value greater than zero"]),
        (
            {"percentageOfNodesToScore": 101},
            ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"],
        ),
        (
            {"podInitialBackoffSeconds": 0},
            ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            {"podInitialBackoffSeconds": 20},
            ["podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds"],
        ),
        (
            {"leaderElection": {"leaseDuration": "10s"}},
            ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
        ),
        (
            {"leaderElection": {"leaseDuration": "-1s", "renewDeadline": "1m30s", "retryPeriod": "-1.5s"}},
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.retryPeriod: Invalid value: "-1.5s": must be greater than zero',
                'leaderElection.leaseDuration: Invalid value: "1m30s": must be greater than `RenewDeadline`',
            ],
        ),
        (
            {"leaderElection": {"resourceLock": "endpoints"}},
            ['leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"'],
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            ["profiles[1].schedulerName: Duplicate value: {}"],
        ),
        (
            {"profiles": [{"percentageOfNodesToScore": -1}]},
            ["profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]"],
        ),
    ],
)
def test_a_field_out_of_range_is_named_with_its_value(
    config: Build, errors_of: Build, fields: dict[str, Any], expected: list[str]
) -> None:
    """The printed value of leaseDuration is upstream's renewDeadline, and a repeated name prints as {}."""
    assert errors_of(config(**fields)) == ("validate", expected)


def test_leader_election_is_not_checked_where_it_is_off(config: Build) -> None:
    """Nobody uses the durations then."""
    election = {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "endpoints"}
    assert load_configuration(config(leaderElection=election)).leader_election.resource_lock == "endpoints"


@pytest.mark.parametrize("point", ["preEnqueue", "queueSort", "filter", "postBind", "podGroupPostFilter"])
def test_a_removed_plugin_is_refused_at_every_point_that_upstream_searches(
    profile_config: Build, errors_of: Build, point: str
) -> None:
    """EBSLimits and its kin merged into NodeVolumeLimits."""
    stage, errors = errors_of(profile_config(plugins={point: {"enabled": [{"name": "EBSLimits"}]}}))
    assert stage == "validate"
    assert errors == [f'profiles[0].plugins.{point}.enabled[0]: Invalid value: "EBSLimits": {REMOVED}']


def test_a_removed_plugin_in_multi_point_is_only_unknown(profile_config: Build, errors_of: Build) -> None:
    """Upstream does not search multiPoint for removed plugins."""
    stage, errors = errors_of(profile_config(plugins={"multiPoint": {"enabled": [{"name": "EBSLimits"}]}}))
    assert stage == "build"
    assert errors[0].endswith('PreFilterPlugin "EBSLimits" does not exist')


def test_plugin_config_is_searched_for_removed_and_repeated_plugins(profile_config: Build, errors_of: Build) -> None:
    """Both findings of one entry are reported."""
    data = profile_config(pluginConfig=[{"name": "GCEPDLimits"}, {"name": "GCEPDLimits"}])
    removed = f'Invalid value: "GCEPDLimits": {REMOVED}'
    assert errors_of(data) == (
        "validate",
        [
            f"profiles[0].pluginConfig[0]: {removed}",
            'profiles[0].pluginConfig[1]: Duplicate value: "GCEPDLimits"',
            f"profiles[0].pluginConfig[1]: {removed}",
        ],
    )


def test_explicit_queue_sort_sets_must_agree_between_profiles(config: Build, errors_of: Build) -> None:
    """There is one queue. The set is printed as Go's JSON of the internal type."""
    sort = {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    profiles = [
        {"schedulerName": "a", "plugins": sort, "pluginConfig": [{"name": "PrioritySort", "args": {"m": "a"}}]},
        {"schedulerName": "b", "pluginConfig": [{"name": "PrioritySort", "args": {"m": "<"}}]},
    ]
    assert errors_of(config(profiles=profiles)) == (
        "validate",
        [
            (
                'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: '
                "must be the same for all profiles"
            ),
            (
                'profiles[1].pluginConfig.args: Invalid value: {"m":"\\u003c"}: '
                "queueSort must be the same for all profiles"
            ),
        ],
    )


@pytest.mark.parametrize(
    ("extenders", "expected"),
    [
        (
            [{"urlPrefix": "http://x", "prioritizeVerb": "rank"}],
            ["extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"],
        ),
        (
            [{"managedResources": [{"name": "example.com/a"}]}, {"managedResources": [{"name": "example.com/a"}]}],
            [
                (
                    'extenders[1].managedResources[0].name: Invalid value: "example.com/a": '
                    "duplicate extender managed resource name"
                )
            ],
        ),
        (
            [{"managedResources": [{"name": "cpu"}, {"name": "a b"}]}],
            [
                'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
                f'extenders[0].managedResources[1].name: Invalid value: "a b": name part {LABEL_RULE}',
            ],
        ),
        (
            [{"bindVerb": "bind"}] * 3,
            ['extenders: Invalid value: "found 3 extenders implementing bind": only one extender can implement bind'],
        ),
    ],
)
def test_extenders_are_checked_one_by_one_and_together(
    config: Build, errors_of: Build, extenders: list[dict[str, Any]], expected: list[str]
) -> None:
    """Managed resources must be extended resources, and one extender at most may bind."""
    assert errors_of(config(extenders=extenders)) == ("validate", expected)


def test_all_errors_are_reported_in_one_text(config: Build) -> None:
    """`str()` is one line for the terminal, with the source if there is one."""
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(config(parallelism=0, percentageOfNodesToScore=101))
    text = (
        "[parallelism: Invalid value: 0: should be an integer value greater than zero, "
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]]"
    )
    assert str(caught.value) == configuration_error_text(caught.value) == text
    assert "\n" not in str(ConfigurationError(["a\nb"], "decode", "x.yaml"))
    assert str(ConfigurationError(["a"], "decode", "x.yaml")) == "x.yaml: a"
