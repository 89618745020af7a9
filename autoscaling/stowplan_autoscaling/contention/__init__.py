"""What requests hide: pods of a node compete for its CPU and its memory.

`qos` reads a pod once; `cpu` and `memory` work on columns over all pods of all nodes. See docs/architecture/demand.md.
"""

from __future__ import annotations

from .cpu import NANO, CpuShares, CpuTree, cpu_shares, cpu_weight, in_nano, share_cpu, throttled_periods, water_fill
from .memory import (
    HARD_THRESHOLD,
    available_memory,
    eviction_message,
    eviction_order,
    eviction_victims,
    kernel_victims,
    over_limit,
    under_pressure,
)
from .qos import UNLIMITED, PodResources, QosClass, oom_score_adjust, pod_resources, qos_class

__all__ = [
    "HARD_THRESHOLD",
    "NANO",
    "UNLIMITED",
    "CpuShares",
    "CpuTree",
    "PodResources",
    "QosClass",
    "available_memory",
    "cpu_shares",
    "cpu_weight",
    "eviction_message",
    "eviction_order",
    "eviction_victims",
    "in_nano",
    "kernel_victims",
    "oom_score_adjust",
    "over_limit",
    "pod_resources",
    "qos_class",
    "share_cpu",
    "throttled_periods",
    "under_pressure",
    "water_fill",
]
