"""What pods can have of a node: capacity minus what is kept for the system and for eviction.

Follows GetNodeAllocatableReservation and hardEvictionReservation (pkg/kubelet/cm) and MachineInfo
(pkg/kubelet/nodestatus/setters.go) of Kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from stowplan_scheduler.objects.pod import Quantity
from stowplan_scheduler.quantity import NANOS, parse_quantity, quantity_text, value

EVICTION_HARD: Final[Mapping[str, str]] = {"memory.available": "100Mi", "nodefs.available": "10%"}
"""The thresholds of kubelet's defaults that are taken from allocatable (eviction/defaults_linux.go)."""

MAX_PODS: Final = 110
"""kubelet's maxPods."""

_SIGNALS: Final = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}
_HUGE_PAGES: Final = "hugepages-"
_EMPTY: Final[Mapping[str, Quantity]] = {}


def allocatable(
    capacity: Mapping[str, Quantity],
    *,
    kube_reserved: Mapping[str, Quantity] = _EMPTY,
    system_reserved: Mapping[str, Quantity] = _EMPTY,
    eviction_hard: Mapping[str, Quantity] = EVICTION_HARD,
) -> dict[str, str]:
    """status.allocatable of a node: per resource of its capacity, what is left of it, and at least 0.

    `eviction_hard`: by signal, an amount or a share such as "10%"; signals other than memory.available and
    nodefs.available take nothing. Huge pages come out of the memory, too. A capacity without pods gets 110.
    Raises QuantityError.
    """
    amounts = {name: parse_quantity(amount) for name, amount in capacity.items()}
    amounts.setdefault("pods", MAX_PODS * NANOS)
    thresholds = _thresholds(eviction_hard, amounts)
    left: dict[str, int] = {}
    for name, amount in amounts.items():
        reserved = sum(parse_quantity(each[name]) for each in (kube_reserved, system_reserved) if name in each)
        left[name] = max(amount - reserved - thresholds.get(name, 0), 0)
    if "memory" in left:
        pages = sum(amount for name, amount in amounts.items() if name.startswith(_HUGE_PAGES))
        left["memory"] = max(left["memory"] - pages, 0)
    return {name: quantity_text(amount) for name, amount in left.items()}


def _thresholds(eviction_hard: Mapping[str, Quantity], capacity: Mapping[str, int]) -> dict[str, int]:
    """By resource, in nano units."""
    result = {}
    for signal, threshold in eviction_hard.items():
        resource = _SIGNALS.get(signal)
        if resource is not None and resource in capacity:
            result[resource] = _amount(threshold, capacity[resource])
    return result


def _amount(threshold: Quantity, capacity: int) -> int:
    """A share is a 32-bit number and the result is cut to whole units (eviction/helpers.go and api/types.go)."""
    text = str(threshold)
    if not text.endswith("%"):
        return parse_quantity(threshold)
    share = float(np.float32(text[:-1]) / np.float32(100))
    return int(value(capacity) * share) * NANOS
