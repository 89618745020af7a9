"""The settings of Karpenter that matter to its decisions (pkg/operator/options/options.go, v1.15.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan_autoscaling.kernel import SECOND

from .labels import GROUP, WELL_KNOWN

BEST_EFFORT: Final = "BestEffort"
STRICT: Final = "Strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Durations in nanoseconds.

    `well_known`: labels that a machine may get although nobody mentions them; `domains`: label domains that pods may
    not select on otherwise.
    """

    ignore_preferences: bool = False
    min_values_policy: str = STRICT
    spot_to_spot: bool = False
    batch_idle: int = SECOND
    batch_max: int = 10 * SECOND
    well_known: frozenset[str] = WELL_KNOWN
    domains: frozenset[str] = frozenset({GROUP})
