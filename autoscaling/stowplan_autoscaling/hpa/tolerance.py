"""How far usage may be from its target before the controller acts.

Follows Tolerances in pkg/controller/podautoscaler/replica_calculator.go, tolerancesForHpa in horizontal.go and
Quantity.AsApproximateFloat64 of Kubernetes v1.37.2.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stowplan_scheduler.objects.pod import Quantity
from stowplan_scheduler.quantity import NANOS, parse_quantity

from .objects import HorizontalPodAutoscalerBehavior

_PLAIN: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([num]?)")
_EXPONENT: Final = {"": 0, "m": -3, "u": -6, "n": -9}


class Tolerances(NamedTuple):
    """Shares of the target; both bounds belong to the range in which nothing happens."""

    scale_down: float
    scale_up: float

    def is_within(self, ratio: float) -> bool:
        """Whether a ratio of usage to target is close enough; what is not a number never is."""
        return (1.0 - self.scale_down) <= ratio <= (1.0 + self.scale_up)


def tolerances_of(behavior: HorizontalPodAutoscalerBehavior | None, default: float) -> Tolerances:
    """The tolerances of one autoscaler."""
    if behavior is None:
        return Tolerances(default, default)
    down = behavior.scale_down.tolerance if behavior.scale_down is not None else None
    up = behavior.scale_up.tolerance if behavior.scale_up is not None else None
    return Tolerances(
        default if down is None else approximate_float(down), default if up is None else approximate_float(up)
    )


def approximate_float(amount: Quantity) -> float:
    """Digits times a power of ten, as two floats: "57m" is 57 * 0.001, which need not be the float nearest to 0.057."""
    match = _PLAIN.fullmatch(str(amount))
    if match is None or len(match[2]) + len(match[3] or "") > 18:
        return parse_quantity(amount) / NANOS
    sign, whole, fraction, suffix = match.groups(default="")
    digits = float(int(f"0{whole}{fraction}"))
    exponent = _EXPONENT[suffix] - len(fraction)
    base = -digits if sign == "-" else digits
    if exponent < -9:
        return parse_quantity(amount) / NANOS
    return base if exponent == 0 else base * float(f"1e{exponent}")
