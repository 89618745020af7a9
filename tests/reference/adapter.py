"""The shipped configuration's effective profile as a profile of the reference: the one place that knows both."""

from __future__ import annotations

from typing import TypeVar

from stowplan_scheduler.config import (
    DefaultPreemptionArgs,
    EffectiveProfile,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
)

from .profile import SYSTEM_SPREAD, Profile, Weighted

Args = TypeVar("Args")


def profile_of(effective: EffectiveProfile) -> Profile:
    """The same profile in plain values; plugins that are switched off get args that nobody reads."""
    fit = _args(effective, "NodeResourcesFit", NodeResourcesFitArgs())
    strategy = fit.scoring_strategy or ScoringStrategy()
    ratio = strategy.requested_to_capacity_ratio
    balanced = _args(effective, "NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocationArgs())
    spread = _args(effective, "PodTopologySpread", PodTopologySpreadArgs())
    affinity = _args(effective, "InterPodAffinity", InterPodAffinityArgs())
    preemption = _args(effective, "DefaultPreemption", DefaultPreemptionArgs())
    points = effective.points
    by_list = spread.defaulting_type == "List"
    return Profile(
        scheduler_name=effective.scheduler_name,
        pre_filter=points["preFilter"],
        filter=points["filter"],
        post_filter=points["postFilter"],
        pre_score=points["preScore"],
        score=tuple((name, effective.score_weights[name]) for name in points["score"]),
        fit_strategy=strategy.type,
        fit_resources=_weighted(strategy.resources),
        fit_shape=tuple((point.utilization, point.score) for point in ratio.shape) if ratio else (),
        ignored_resources=frozenset(fit.ignored_resources),
        ignored_resource_groups=frozenset(fit.ignored_resource_groups),
        balanced_resources=_weighted(balanced.resources),
        added_affinity=_args(effective, "NodeAffinity", NodeAffinityArgs()).added_affinity,
        spread_defaults=spread.default_constraints if by_list else SYSTEM_SPREAD,
        spread_system_defaulted=not by_list,
        hard_pod_affinity_weight=affinity.hard_pod_affinity_weight,
        ignore_preferred_terms_of_existing_pods=affinity.ignore_preferred_terms_of_existing_pods,
        min_candidate_nodes_percentage=preemption.min_candidate_nodes_percentage,
        min_candidate_nodes_absolute=preemption.min_candidate_nodes_absolute,
    )


def _args(effective: EffectiveProfile, plugin: str, otherwise: Args) -> Args:
    args = effective.args.get(plugin)
    return args if isinstance(args, type(otherwise)) else otherwise


def _weighted(resources: tuple[ResourceSpec, ...]) -> Weighted:
    return tuple((resource.name, resource.weight) for resource in resources)
