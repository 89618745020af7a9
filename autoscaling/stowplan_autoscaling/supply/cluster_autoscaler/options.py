"""The flags of Cluster Autoscaler that its decisions depend on, under their names in Python style.

Durations are nanoseconds. Flags about IO, metrics, leader election and cloud providers are left out, and so are the
time limits of simulations: virtual time does not pass while a loop thinks.

Follows pkg/config/flags/flags.go and pkg/config/autoscaling_options.go of kubernetes-sigs/cluster-autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from stowplan_autoscaling.kernel import MINUTE, SECOND
from stowplan_scheduler.config.gotext import parse_duration

GIB: Final = 1 << 30
HOUR: Final = 60 * MINUTE


class FlagError(ValueError):
    """A flag that does not exist, or whose value cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """What a node group may set for itself; None: the value of the flags (upstream NodeGroupAutoscalingOptions)."""

    scale_down_utilization_threshold: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None
    scale_down_unneeded_time: int | None = None
    scale_down_unready_time: int | None = None
    max_node_provision_time: int | None = None
    max_node_startup_time: int | None = None
    ignore_daemonsets_utilization: bool | None = None
    zero_or_max_node_scaling: bool = False
    allow_non_atomic_scale_up_to_max: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalingOptions:
    """All flags with upstream's defaults. Limits of memory are bytes, those of cores whole cores."""

    # The loop
    scan_interval: int = 10 * SECOND
    max_nodes_total: int = 0
    min_cores_total: int = 0
    max_cores_total: int = 320_000
    min_memory_total: int = 0
    max_memory_total: int = 6_400_000 * GIB
    # Pending pods
    expendable_pods_priority_cutoff: int = -10
    new_pod_scale_up_delay: int = 0
    allowed_scheduler_names: tuple[str, ...] = ()
    # Scale-up
    expander: tuple[str, ...] = ("least-waste",)
    scale_up_from_zero: bool = True
    enforce_node_group_min_size: bool = False
    max_nodes_per_scaleup: int = 1000
    fastpath_binpacking_enabled: bool = False
    salvo_scale_up: bool = False
    force_ds: bool = False
    scale_from_unschedulable: bool = False
    node_info_cache_expire_time: int = 87_600 * HOUR
    balance_similar_node_groups: bool = False
    balancing_ignore_label: tuple[str, ...] = ()
    balancing_label: tuple[str, ...] = ()
    memory_difference_ratio: float = 0.015
    max_free_difference_ratio: float = 0.05
    max_allocatable_difference_ratio: float = 0.05
    startup_taint: tuple[str, ...] = ()
    startup_taint_prefix: tuple[str, ...] = ()
    status_taint: tuple[str, ...] = ()
    scaleup_simulation_for_skipped_node_groups_enabled: bool = False
    # Health and failures
    max_total_unready_percentage: float = 45.0
    ok_total_unready_count: int = 3
    max_node_provision_time: int = 15 * MINUTE
    max_node_startup_time: int = 15 * MINUTE
    initial_node_group_backoff_duration: int = 5 * MINUTE
    max_node_group_backoff_duration: int = 30 * MINUTE
    node_group_backoff_reset_timeout: int = 3 * HOUR
    force_delete_unregistered_nodes: bool = False
    # Scale-down: when
    scale_down_enabled: bool = True
    scale_down_delay_after_add: int = 10 * MINUTE
    scale_down_delay_after_delete: int = 0
    scale_down_delay_type_local: bool = False
    scale_down_unneeded_time: int = 10 * MINUTE
    scale_down_unready_time: int = 20 * MINUTE
    unremovable_node_recheck_timeout: int = 5 * MINUTE
    # Scale-down: what
    scale_down_unready_enabled: bool = True
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    ignore_daemonsets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0
    blocking_system_pod_distruption_timeout: int = HOUR
    # Scale-down: how
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    max_bulk_soft_taint_count: int = 10
    node_delete_delay_after_taint: int = 5 * SECOND
    max_graceful_termination_sec: int = 600
    max_pod_eviction_time: int = 2 * MINUTE
    cordon_node_before_terminating: bool = True
    daemonset_eviction_for_empty_nodes: bool = False
    daemonset_eviction_for_occupied_nodes: bool = True

    @classmethod
    def from_flags(cls, flags: Mapping[str, str]) -> AutoscalingOptions:
        """Options from a command line's flags by name, without dashes in front. Raises FlagError."""
        values: dict[str, Any] = {}
        for flag, text in flags.items():
            try:
                values.update(_read(flag, text))
            except ValueError as error:
                raise FlagError(f"invalid value {text!r} for flag --{flag}: {error}") from None
        options = cls(**values)
        if options.balancing_label and options.balancing_ignore_label:
            raise FlagError("--balancing-label and --balancing-ignore-label exclude each other")
        return options


def _read(flag: str, text: str) -> dict[str, Any]:
    """The fields that one flag sets."""
    if flag in {"cores-total", "memory-total"}:
        low, high = _range(text)
        unit = GIB if flag == "memory-total" else 1
        name = flag.split("-", maxsplit=1)[0]
        return {f"min_{name}_total": low * unit, f"max_{name}_total": high * unit}
    name = flag.replace("-", "_")
    if name not in _READERS:
        raise FlagError(f"unknown flag --{flag}")
    return {name: _READERS[name](text)}


def _range(text: str) -> tuple[int, int]:
    low, separator, high = text.partition(":")
    if not separator:
        raise ValueError("wrong format, expected <min>:<max>")
    if int(low) > int(high):
        raise ValueError("min is greater than max")
    return int(low), int(high)


def _bool(text: str) -> bool:
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise ValueError("expected true or false")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


_DURATIONS: Final = frozenset(
    (
        "scan_interval new_pod_scale_up_delay node_info_cache_expire_time "
        "max_node_provision_time max_node_startup_time "
        "initial_node_group_backoff_duration max_node_group_backoff_duration node_group_backoff_reset_timeout "
        "scale_down_delay_after_add scale_down_delay_after_delete "
        "scale_down_unneeded_time scale_down_unready_time unremovable_node_recheck_timeout "
        "blocking_system_pod_distruption_timeout node_delete_delay_after_taint max_pod_eviction_time"
    ).split()
)

_BY_TYPE: Final[Mapping[str, Callable[[str], Any]]] = {
    "bool": _bool,
    "int": int,
    "float": float,
    "tuple[str, ...]": _names,
}

_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    field.name: parse_duration if field.name in _DURATIONS else _BY_TYPE[str(field.type)]
    for field in fields(AutoscalingOptions)
}
