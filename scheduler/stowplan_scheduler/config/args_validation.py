"""What is wrong with plugin args, in upstream's words.

Follows `apis/config/validation/validation_pluginargs.go` and the type checks of the constructors under
`framework/plugins/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stowplan_scheduler.names import label_key_errors
from stowplan_scheduler.objects import TopologySpreadConstraint
from stowplan_scheduler.selectors import SelectorError, checked_node_selector, compile_preferred_terms

from .field_error import DurationValue, Path, Typed, distinct, duplicate, forbidden, invalid, not_supported, required
from .gotext import SECOND
from .plugin_args import (
    MAX_CUSTOM_SCORE,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from .types import ConfigModel

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_RATIO = _STRATEGIES[2]
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def _outside(value: int, low: int, high: int) -> bool:
    return not low <= value <= high


def _validate_preemption(path: Path, args: DefaultPreemptionArgs) -> list[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path, absolute_path = path.child("minCandidateNodesPercentage"), path.child("minCandidateNodesAbsolute")
    errors = []
    if _outside(percentage, 0, 100):
        errors.append(invalid(percentage_path, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid(absolute_path, absolute, "not in valid range [0, inf)"))
    if percentage == absolute == 0:
        same = "cannot be zero at the same time as "
        errors.append(invalid(percentage_path, percentage, same + "minCandidateNodesAbsolute"))
        errors.append(invalid(absolute_path, absolute, same + "minCandidateNodesPercentage"))
    return errors


def _validate_affinity(path: Path, args: InterPodAffinityArgs) -> list[str]:
    weight = args.hard_pod_affinity_weight
    if not _outside(weight, 0, 100):
        return []
    return [invalid(path.child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]


def _validate_node_affinity(path: Path, args: NodeAffinityArgs) -> list[str]:
    affinity = args.added_affinity
    if affinity is None:
        return []
    errors: list[str] = []
    required_path = path.child("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    preferred_path = path.child("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    try:
        if affinity.required_during_scheduling_ignored_during_execution is not None:
            checked_node_selector(affinity.required_during_scheduling_ignored_during_execution, required_path.text)
    except SelectorError as error:
        errors += error.errors
    try:
        compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution, preferred_path.text)
    except SelectorError as error:
        errors += error.errors
    return errors


def _validate_balanced(path: Path, args: NodeResourcesBalancedAllocationArgs) -> list[str]:
    errors: list[str] = []
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        here = path.child("resources").index(i)
        if resource.name in seen:
            errors.append(duplicate(here.child("name"), resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid(here.child("weight"), resource.weight, "must be 1"))
    return errors


def _label_name_errors(path: Path, name: str) -> list[str]:
    return [invalid(path, name, error) for error in label_key_errors(name)]


def _validate_fit(path: Path, args: NodeResourcesFitArgs) -> list[str]:
    errors: list[str] = []
    for i, name in enumerate(args.ignored_resources):
        errors += _label_name_errors(path.child("ignoredResources").index(i), name)
    for i, group in enumerate(args.ignored_resource_groups):
        here = path.child("ignoredResourceGroups").index(i)
        if "/" in group:
            errors.append(invalid(here, group, "resource group name can't contain '/'"))
        errors += _label_name_errors(here, group)
    strategy_path = path.child("scoringStrategy")
    if args.scoring_strategy is None:
        return [*errors, required(strategy_path, "ScoringStrategy field is required")]
    return errors + _strategy_errors(strategy_path, args.scoring_strategy)


def _strategy_errors(path: Path, strategy: ScoringStrategy) -> list[str]:
    errors: list[str] = []
    if strategy.type not in _STRATEGIES:
        errors.append(not_supported(path.child("type"), Typed(strategy.type), _STRATEGIES))
    for i, resource in enumerate(strategy.resources):
        if _outside(resource.weight, 1, 100):
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            errors.append(invalid(path.child("resources").index(i).child("weight"), resource.weight, detail))
    ratio, ratio_path = strategy.requested_to_capacity_ratio, path.child("requestedToCapacityRatio")
    if strategy.type == _RATIO and ratio is None:
        errors.append(required(ratio_path, f"must be specified when type is {_RATIO}"))
    elif strategy.type == _RATIO and ratio is not None:
        errors += _shape_errors(ratio_path.child("shape"), ratio.shape)
    elif ratio is not None:
        errors.append(forbidden(ratio_path, f"must be nil when type is not {_RATIO}"))
    return errors


def _shape_errors(path: Path, shape: Sequence[UtilizationShapePoint]) -> list[str]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: list[str] = []
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            detail = "values must be sorted in increasing order"
            errors.append(invalid(path.index(i).child("utilization"), shape[i].utilization, detail))
            break
    for i, point in enumerate(shape):
        if _outside(point.utilization, 0, 100):
            errors.append(invalid(path.index(i).child("utilization"), point.utilization, "not in valid range [0, 100]"))
        if _outside(point.score, 0, MAX_CUSTOM_SCORE):
            errors.append(
                invalid(path.index(i).child("score"), point.score, f"not in valid range [0, {MAX_CUSTOM_SCORE}]")
            )
    return errors


def _validate_spread(path: Path, args: PodTopologySpreadArgs) -> list[str]:
    errors = _defaulting_type_errors(path.child("defaultingType"), args)
    for i, constraint in enumerate(args.default_constraints):
        here = path.child("defaultConstraints").index(i)
        if constraint.max_skew <= 0:
            errors.append(invalid(here.child("maxSkew"), constraint.max_skew, "not in valid range (0, inf)"))
        errors += _constraint_errors(here, constraint)
        if any(_same_constraint(constraint, other) for other in args.default_constraints[:i]):
            errors.append(duplicate(here, f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"))
    return errors


def _defaulting_type_errors(path: Path, args: PodTopologySpreadArgs) -> list[str]:
    kind = Typed(args.defaulting_type)
    if args.defaulting_type not in {"System", "List"}:
        return [not_supported(path, kind, ("System", "List"))]
    if args.defaulting_type == "System" and args.default_constraints:
        return [invalid(path, kind, "when .defaultConstraints are not empty")]
    return []


def _constraint_errors(path: Path, constraint: TopologySpreadConstraint) -> list[str]:
    errors: list[str] = []
    if constraint.topology_key:
        errors += _label_name_errors(path.child("topologyKey"), constraint.topology_key)
    else:
        errors.append(required(path.child("topologyKey"), "can not be empty"))
    action = constraint.when_unsatisfiable
    if not action:
        errors.append(required(path.child("whenUnsatisfiable"), "can not be empty"))
    elif action not in _ACTIONS:
        errors.append(not_supported(path.child("whenUnsatisfiable"), Typed(action), _ACTIONS))
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden(path.child("labelSelector"), detail))
    return errors


def _same_constraint(a: TopologySpreadConstraint, b: TopologySpreadConstraint) -> bool:
    return (a.topology_key, a.when_unsatisfiable) == (b.topology_key, b.when_unsatisfiable)


def _validate_volume_binding(path: Path, args: VolumeBindingArgs) -> list[str]:
    errors: list[str] = []
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid(path.child("bindTimeoutSeconds"), args.bind_timeout_seconds, detail))
    return errors + _shape_errors(path.child("shape"), args.shape)


def _validate_dynamic_resources(path: Path, args: DynamicResourcesArgs) -> list[str]:
    errors: list[str] = []
    if args.filter_timeout is not None and args.filter_timeout < 0:
        value = DurationValue(args.filter_timeout)
        errors.append(invalid(path.child("filterTimeout"), value, "must be zero or positive"))
    if args.binding_timeout is not None and args.binding_timeout < SECOND:
        value = DurationValue(args.binding_timeout)
        errors.append(invalid(path.child("bindingTimeout"), value, "must be at least 1 second"))
    return errors


_VALIDATORS: Mapping[type[ConfigModel], Callable[[Path, Any], list[str]]] = {
    DefaultPreemptionArgs: _validate_preemption,
    DynamicResourcesArgs: _validate_dynamic_resources,
    InterPodAffinityArgs: _validate_affinity,
    NodeAffinityArgs: _validate_node_affinity,
    NodeResourcesBalancedAllocationArgs: _validate_balanced,
    NodeResourcesFitArgs: _validate_fit,
    PodTopologySpreadArgs: _validate_spread,
    VolumeBindingArgs: _validate_volume_binding,
}


def args_errors(path: Path, args: ConfigModel) -> list[str]:
    """What is wrong with args, each text once; `path` is empty when the plugin itself checks them."""
    return distinct(_VALIDATORS[type(args)](path, args))


def wrong_type_text(plugin: str, got: object) -> str:
    """What a plugin's constructor says about args of a wrong type (or none)."""
    kind = f"{plugin}Args"
    name = (
        "<nil>"
        if got is None
        else "*runtime.Unknown"
        if type(got) not in _VALIDATORS
        else f"*config.{type(got).__name__}"
    )
    if plugin == "NodeAffinity":
        return f"args are not of type {kind}, got {name}"
    if plugin in {"DefaultPreemption", "DynamicResources"}:
        return f"got args of type {name}, want *{kind}"
    return f"want args to be of type {kind}, got {name}"
