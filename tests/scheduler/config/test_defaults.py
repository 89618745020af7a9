"""Defaults: numbers from apis/config/v1/defaults.go of v1.37.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan_scheduler.config import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    effective_profiles,
    load_configuration,
)

Build = Callable[..., Any]

SECOND = 1_000_000_000
CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


def test_no_configuration_gives_upstreams_defaults() -> None:
    """A scheduler without a file runs one default profile."""
    config = load_configuration(None)
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling, config.delay_cache_until_active) == (
        True,
        True,
        False,
    )
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert config.extenders == ()


def test_leader_election_and_client_connection_have_the_schedulers_own_defaults() -> None:
    """They differ from the component-base defaults: leases, qps 50, burst 100."""
    config = load_configuration(None)
    election, client = config.leader_election, config.client_connection
    assert election.leader_elect is True
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (
        15 * SECOND,
        10 * SECOND,
        2 * SECOND,
    )
    assert (election.resource_lock, election.resource_name) == ("leases", "kube-scheduler")
    assert election.resource_namespace == "kube-system"
    assert (client.content_type, client.qps, client.burst) == ("application/vnd.kubernetes.protobuf", 50.0, 100)


def test_zero_values_count_as_absent_where_the_external_type_has_no_pointer(config: Build) -> None:
    """qps and burst are plain numbers and the lock name a plain string, so zero cannot be told from absent."""
    given = config(
        clientConnection={"qps": 0, "burst": 0, "contentType": ""},
        leaderElection={"leaderElect": False, "leaseDuration": "0s", "resourceName": ""},
    )
    loaded = load_configuration(given)
    assert (loaded.client_connection.qps, loaded.client_connection.burst) == (50.0, 100)
    assert loaded.leader_election.lease_duration == 15 * SECOND
    assert loaded.leader_election.resource_name == "kube-scheduler"
    assert loaded.leader_election.leader_elect is False


def test_contention_profiling_follows_profiling(config: Build) -> None:
    """It is defaulted to true only where profiling is on."""
    assert load_configuration(config(enableProfiling=False)).enable_contention_profiling is False
    assert load_configuration(config(enableProfiling=False, enableContentionProfiling=True)).enable_contention_profiling


def test_only_a_single_profile_gets_a_name(config: Build, errors_of: Build) -> None:
    """Among several profiles nobody could tell which one is the default."""
    stage, errors = errors_of(config(profiles=[{}, {"schedulerName": "batch"}]))
    assert (stage, errors) == ("validate", ["profiles[0].schedulerName: Required value"])
    assert load_configuration(config(profiles=[])).profiles[0].scheduler_name == "default-scheduler"


def test_every_args_bearing_default_plugin_has_default_args() -> None:
    """Plugins read their args without asking whether the user gave any."""
    (profile,) = effective_profiles(load_configuration(None))
    shape = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
    assert dict(profile.args) == {
        "DefaultPreemption": DefaultPreemptionArgs(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100),
        "DynamicResources": DynamicResourcesArgs(filter_timeout=10 * SECOND, binding_timeout=600 * SECOND),
        "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=1),
        "NodeAffinity": NodeAffinityArgs(),
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs(resources=CPU_AND_MEMORY),
        "NodeResourcesFit": NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)
        ),
        "PodTopologySpread": PodTopologySpreadArgs(defaulting_type="System"),
        "VolumeBinding": VolumeBindingArgs(bind_timeout_seconds=600, shape=shape),
    }


def test_args_are_filled_in_where_they_are_incomplete(args_config: Build) -> None:
    """A weight of 0 becomes 1, an empty resource list the default one."""
    strategy = {
        "type": "MostAllocated",
        "resources": [{"name": "cpu", "weight": 0}, {"name": "example.com/gpu", "weight": 5}],
    }
    config = load_configuration(args_config("NodeResourcesFit", {"scoringStrategy": strategy}))
    args = config.profiles[0].plugin_config[0].args
    assert args.scoring_strategy.resources == (
        ResourceSpec(name="cpu", weight=1),
        ResourceSpec(name="example.com/gpu", weight=5),
    )
    config = load_configuration(
        args_config("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": []}})
    )
    assert config.profiles[0].plugin_config[0].args.scoring_strategy.resources == CPU_AND_MEMORY


def test_defaulted_args_come_after_the_given_ones_sorted_by_plugin(args_config: Build) -> None:
    """The order shows in the written-out configuration."""
    config = load_configuration(args_config("VolumeBinding", {"bindTimeoutSeconds": 5}))
    names = [entry.name for entry in config.profiles[0].plugin_config]
    assert names == ["VolumeBinding", *sorted(set(names) - {"VolumeBinding"})]
    assert config.profiles[0].plugin_config[0].args.bind_timeout_seconds == 5


def test_args_can_be_compared_and_hashed(args_config: Build) -> None:
    """Plugins key what they remember by their args."""
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    }
    data = args_config("NodeAffinity", {"addedAffinity": affinity})
    first, second = (load_configuration(data).profiles[0].plugin_config[0].args for _ in range(2))
    assert hash(first) == hash(second)
    assert first == second
    terms = first.added_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    assert terms[0].match_expressions[0].values == ("a",)
