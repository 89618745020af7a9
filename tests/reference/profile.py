"""The effective profile as plain values, and how it follows from a valid KubeSchedulerConfiguration.

Follows apis/config/v1/default_plugins.go and expandMultiPointPlugins of framework/runtime/framework.go, Kubernetes
v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan_scheduler.objects import NodeAffinity, TopologySpreadConstraint

MULTI_POINT: tuple[tuple[str, int], ...] = (
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

_FILTERS = (
    "NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions "
    "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
)
POINTS: dict[str, frozenset[str]] = {
    "preFilter": frozenset(_FILTERS.split()),
    "filter": frozenset(_FILTERS.split()),
    "postFilter": frozenset({"DynamicResources", "DefaultPreemption"}),
    "preScore": frozenset(
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
        "NodeResourcesBalancedAllocation".split()
    ),
    "score": frozenset(
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
        "DynamicResources NodeResourcesBalancedAllocation ImageLocality".split()
    ),
}
"""Extension point -> the plugins that have it."""

Weighted = tuple[tuple[str, int], ...]
CPU_AND_MEMORY: Weighted = (("cpu", 1), ("memory", 1))
SYSTEM_SPREAD = (
    TopologySpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Plugins per extension point in order, weights, and the arguments of the plugins."""

    scheduler_name: str = "default-scheduler"
    pre_filter: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    post_filter: tuple[str, ...] = ()
    pre_score: tuple[str, ...] = ()
    score: Weighted = ()

    fit_strategy: str = "LeastAllocated"
    fit_resources: Weighted = CPU_AND_MEMORY
    fit_shape: tuple[tuple[int, int], ...] = ()  # (utilisation 0..100, score 0..10)
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    balanced_resources: Weighted = CPU_AND_MEMORY
    added_affinity: NodeAffinity | None = None
    spread_defaults: tuple[TopologySpreadConstraint, ...] = SYSTEM_SPREAD
    spread_system_defaulted: bool = True
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


def default_profile() -> Profile:
    """The profile of an empty configuration."""
    return profiles_of(None)["default-scheduler"]


def profiles_of(configuration: Mapping[str, Any] | None) -> dict[str, Profile]:
    """scheduler name -> profile. The configuration must be valid; no error is looked for."""
    profiles = (configuration or {}).get("profiles") or [{}]
    found = {}
    for profile in profiles:
        name = profile.get("schedulerName") or "default-scheduler"
        found[name] = _profile(name, profile)
    return found


def _profile(name: str, profile: Mapping[str, Any]) -> Profile:
    sets = profile.get("plugins") or {}
    args = {entry["name"]: entry.get("args") or {} for entry in profile.get("pluginConfig") or ()}
    multi_point = _merged_multi_point(sets.get("multiPoint") or {})
    plugins = {point: _expanded(point, multi_point, sets.get(point) or {}) for point in POINTS}
    fit = args.get("NodeResourcesFit", {})
    strategy = fit.get("scoringStrategy") or {}
    shape = (strategy.get("requestedToCapacityRatio") or {}).get("shape") or ()
    spread = args.get("PodTopologySpread", {})
    system_defaulted = spread.get("defaultingType", "System") == "System"
    defaults = msgspec.convert(spread.get("defaultConstraints") or [], tuple[TopologySpreadConstraint, ...])
    affinity = args.get("InterPodAffinity", {})
    added = args.get("NodeAffinity", {}).get("addedAffinity")
    preemption = args.get("DefaultPreemption", {})
    return Profile(
        scheduler_name=name,
        pre_filter=_names(plugins["preFilter"]),
        filter=_names(plugins["filter"]),
        post_filter=_names(plugins["postFilter"]),
        pre_score=_names(plugins["preScore"]),
        score=tuple((plugin, weight or 1) for plugin, weight in plugins["score"]),
        fit_strategy=strategy.get("type") or "LeastAllocated",
        fit_resources=_resources(strategy.get("resources")),
        fit_shape=tuple((point["utilization"], point["score"]) for point in shape),
        ignored_resources=frozenset(fit.get("ignoredResources") or ()),
        ignored_resource_groups=frozenset(fit.get("ignoredResourceGroups") or ()),
        balanced_resources=_resources(args.get("NodeResourcesBalancedAllocation", {}).get("resources")),
        added_affinity=msgspec.convert(added, NodeAffinity) if added is not None else None,
        spread_defaults=SYSTEM_SPREAD if system_defaulted else defaults,
        spread_system_defaulted=system_defaulted,
        hard_pod_affinity_weight=affinity.get("hardPodAffinityWeight", 1),
        ignore_preferred_terms_of_existing_pods=affinity.get("ignorePreferredTermsOfExistingPods", False),
        min_candidate_nodes_percentage=preemption.get("minCandidateNodesPercentage", 10),
        min_candidate_nodes_absolute=preemption.get("minCandidateNodesAbsolute", 100),
    )


def _names(plugins: Weighted) -> tuple[str, ...]:
    return tuple(name for name, _ in plugins)


def _resources(resources: Sequence[Mapping[str, Any]] | None) -> Weighted:
    if not resources:
        return CPU_AND_MEMORY
    return tuple((resource["name"], resource.get("weight") or 1) for resource in resources)


def _enabled(plugin_set: Mapping[str, Any]) -> Weighted:
    return tuple((plugin["name"], plugin.get("weight") or 0) for plugin in plugin_set.get("enabled") or ())


def _disabled(plugin_set: Mapping[str, Any]) -> set[str]:
    return {plugin["name"] for plugin in plugin_set.get("disabled") or ()}


def _merged_multi_point(custom: Mapping[str, Any]) -> Weighted:
    """The default multiPoint list with the user's changes: a default that the user names too keeps its place."""
    disabled, enabled = _disabled(custom), dict(_enabled(custom))
    kept = [] if "*" in disabled else [(name, weight) for name, weight in MULTI_POINT if name not in disabled]
    merged = [(name, enabled.get(name, weight)) for name, weight in kept]
    in_place = {name for name, _ in merged}
    return tuple(merged) + tuple((name, weight) for name, weight in enabled.items() if name not in in_place)


def _expanded(point: str, multi_point: Weighted, explicit: Mapping[str, Any]) -> Weighted:
    """Overrides first, then the rest of multiPoint, then what only the explicit set names."""
    disabled, named = _disabled(explicit), dict(_enabled(explicit))
    from_multi = {} if "*" in disabled else dict(multi_point)
    usable = {name: weight for name, weight in from_multi.items() if name in POINTS[point] and name not in disabled}
    overrides = [(name, weight) for name, weight in named.items() if name in usable]
    rest = [(name, weight) for name, weight in usable.items() if name not in named]
    return (*overrides, *rest, *((name, weight) for name, weight in named.items() if name not in usable))
