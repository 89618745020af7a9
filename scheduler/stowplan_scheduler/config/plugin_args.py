"""Typed args of the plugins that have any, and their defaults.

Follows `apis/config/types_pluginargs.go` and `apis/config/v1/defaults.go`. Feature gates have their v1.37.2 defaults:
StorageCapacityScoring, DRASchedulerFilterTimeout and DRADeviceBindingConditions are on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stowplan_scheduler.objects import LabelSelector, NodeAffinity, TopologySpreadConstraint

from .decode import RawArgs, TypedArgs
from .decoder import Fields
from .field_error import JsonText
from .gotext import SECOND, escape_html, json_value
from .types import ConfigModel

# ---- models ----------------------------------------------------------------------------------------------------------


class ResourceSpec(ConfigModel):
    """A resource and how much it counts in a score."""

    name: str = ""
    weight: int = 0


class UtilizationShapePoint(ConfigModel):
    """A point of a piecewise linear function: utilization 0 to 100 (percent) maps to score 0 to 10."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(ConfigModel):
    """The function of the strategy RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigModel):
    """How NodeResourcesFit ranks nodes: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(ConfigModel):
    """Args of NodeResourcesFit; ignored resources and groups matter to the filter only."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(ConfigModel):
    """Args of NodeResourcesBalancedAllocation; every weight is 1."""

    resources: tuple[ResourceSpec, ...] = ()


class InterPodAffinityArgs(ConfigModel):
    """Args of InterPodAffinity."""

    hard_pod_affinity_weight: int = 0
    ignore_preferred_terms_of_existing_pods: bool = False


class PodTopologySpreadArgs(ConfigModel):
    """Args of PodTopologySpread; `defaulting_type` is System or List."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = ""


class NodeAffinityArgs(ConfigModel):
    """Args of NodeAffinity: an affinity that every pod gets in addition to its own."""

    added_affinity: NodeAffinity | None = None


class DefaultPreemptionArgs(ConfigModel):
    """Args of DefaultPreemption: how many candidate nodes a dry run looks at."""

    min_candidate_nodes_percentage: int = 0
    min_candidate_nodes_absolute: int = 0


class VolumeBindingArgs(ConfigModel):
    """Args of VolumeBinding."""

    bind_timeout_seconds: int = 0
    shape: tuple[UtilizationShapePoint, ...] = ()


class DynamicResourcesArgs(ConfigModel):
    """Args of DynamicResources; timeouts in nanoseconds, a filter timeout of 0 means none."""

    filter_timeout: int | None = None
    binding_timeout: int | None = None


ARGS_TYPES: Mapping[str, type[ConfigModel]] = {
    model.__name__: model
    for model in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}
"""Kind to model. The plugin of a kind is its name without `Args`."""


# ---- defaults --------------------------------------------------------------------------------------------------------

_MIN_CANDIDATES_PERCENTAGE, _MIN_CANDIDATES_ABSOLUTE = 10, 100
_BIND_TIMEOUT_SECONDS = 600
_FILTER_TIMEOUT, _BINDING_TIMEOUT = 10 * SECOND, 600 * SECOND
MAX_CUSTOM_SCORE = 10
"""The highest score of a shape point."""


def _default_resources() -> list[Fields]:
    return [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


def _fill_weights(resources: Any) -> None:
    for resource in resources:
        resource["weight"] = resource.get("weight") or 1


def _default_balanced(fields: Fields) -> None:
    fields["resources"] = fields.get("resources") or _default_resources()
    _fill_weights(fields["resources"])


def _default_fit(fields: Fields) -> None:
    strategy: Any = fields.setdefault("scoringStrategy", {"type": "LeastAllocated"})
    strategy["resources"] = strategy.get("resources") or _default_resources()
    _fill_weights(strategy["resources"])


def _default_volume_binding(fields: Fields) -> None:
    fields.setdefault("bindTimeoutSeconds", _BIND_TIMEOUT_SECONDS)
    fields["shape"] = fields.get("shape") or [
        {"utilization": 0, "score": MAX_CUSTOM_SCORE},
        {"utilization": 100, "score": 0},
    ]


def _default_preemption(fields: Fields) -> None:
    fields.setdefault("minCandidateNodesPercentage", _MIN_CANDIDATES_PERCENTAGE)
    fields.setdefault("minCandidateNodesAbsolute", _MIN_CANDIDATES_ABSOLUTE)


def _default_dynamic_resources(fields: Fields) -> None:
    fields.setdefault("filterTimeout", _FILTER_TIMEOUT)
    fields.setdefault("bindingTimeout", _BINDING_TIMEOUT)


def _default_affinity(fields: Fields) -> None:
    fields.setdefault("hardPodAffinityWeight", 1)


def _default_spread(fields: Fields) -> None:
    fields["defaultingType"] = fields.get("defaultingType") or "System"


def _no_defaults(_: Fields) -> None:
    """An absent affinity stays absent."""


_DEFAULTS: Mapping[str, Callable[[Fields], None]] = {
    "DefaultPreemptionArgs": _default_preemption,
    "DynamicResourcesArgs": _default_dynamic_resources,
    "InterPodAffinityArgs": _default_affinity,
    "NodeAffinityArgs": _no_defaults,
    "NodeResourcesBalancedAllocationArgs": _default_balanced,
    "NodeResourcesFitArgs": _default_fit,
    "PodTopologySpreadArgs": _default_spread,
    "VolumeBindingArgs": _default_volume_binding,
}


def build_args(args: TypedArgs) -> ConfigModel:
    """The model of decoded args, with defaults filled in."""
    _DEFAULTS[args.kind](args.fields)
    fields = {name: value for name, value in args.fields.items() if name not in {"apiVersion", "kind"}}
    if fields.get("addedAffinity") is not None:
        fields["addedAffinity"] = msgspec.convert(fields["addedAffinity"], NodeAffinity)
    if "defaultConstraints" in fields:
        fields["defaultConstraints"] = _constraints(fields["defaultConstraints"])
    return ARGS_TYPES[args.kind].model_validate(fields)


def default_args(kind: str) -> ConfigModel:
    """The args of a plugin that the configuration says nothing about."""
    return build_args(TypedArgs(kind, {}))


def _constraints(values: Any) -> tuple[TopologySpreadConstraint, ...]:
    # Validation refuses any selector, so only its presence is carried over; this also keeps the args hashable.
    return tuple(
        msgspec.structs.replace(
            msgspec.convert({k: v for k, v in value.items() if k != "labelSelector"}, TopologySpreadConstraint),
            label_selector=LabelSelector() if "labelSelector" in value else None,
        )
        for value in values
    )


# ---- printing --------------------------------------------------------------------------------------------------------


def args_json(args: object) -> JsonText:
    """Args as an error text shows them: the internal type as JSON, raw args as they are."""
    if isinstance(args, RawArgs):
        return JsonText(escape_html(args.text))
    return JsonText(json_value(_go_fields(args)) if isinstance(args, ConfigModel) else "null")


def _go_fields(value: object) -> object:
    """The exported field names of the internal types are the JSON names with a capital letter; empty slices are nil."""
    if isinstance(value, ConfigModel):
        fields = type(value).model_fields
        return {_exported(info.alias or name): _go_fields(getattr(value, name)) for name, info in fields.items()}
    if isinstance(value, tuple):
        return [_go_fields(element) for element in value] or None
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    return value


def _exported(name: str) -> str:
    return name[:1].upper() + name[1:]
