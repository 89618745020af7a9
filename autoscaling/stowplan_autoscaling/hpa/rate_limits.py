"""Limits: how far one step may go, by the bounds of the spec and by its rate policies.

Follows convertDesiredReplicasWithRules, convertDesiredReplicasWithBehaviorRate and calculateScale{Up,Down}Limit* in
pkg/controller/podautoscaler/horizontal.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .fixed_width import MAX_INT32, MIN_INT32, ceiling, float_to_int32, wrap32
from .history import History
from .objects import DISABLED_POLICY, MIN_POLICY, PODS_POLICY, HPAScalingPolicy, HPAScalingRules

SECOND: Final = 1_000_000_000

SCALE_UP_FACTOR: Final = 2.0
"""Without `behavior`, a step at most doubles the replicas,"""
SCALE_UP_MINIMUM: Final = 4.0
"""but it may always go up to this number."""


class Limited(NamedTuple):
    """Replicas after limits, with the reason and message of the condition ScalingLimited."""

    replicas: int
    reason: str
    message: str


_IN_RANGE: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def limit_without_behavior(current: int, desired: int, least: int, most: int) -> Limited:
    """Within [least, most], and no more than double."""
    fastest = float_to_int32(max(SCALE_UP_FACTOR * float(current), SCALE_UP_MINIMUM))
    allowed, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
    if desired < least:
        return Limited(least, *_TOO_FEW)
    if desired > allowed:
        return Limited(allowed, *why)
    return Limited(desired, *_IN_RANGE)


class RatePolicies:
    """The rules of one direction, compiled: `window` and periods in nanoseconds, None for a window that is not set."""

    __slots__ = ("_disabled", "_policies", "_select_min", "longest_period", "window")

    def __init__(self, rules: HPAScalingRules) -> None:
        seconds = rules.stabilization_window_seconds
        self.window = None if seconds is None else seconds * SECOND
        self._disabled = rules.select_policy == DISABLED_POLICY
        self._select_min = rules.select_policy == MIN_POLICY
        self._policies: tuple[HPAScalingPolicy, ...] = rules.policies or ()
        self.longest_period = max((policy.period_seconds for policy in self._policies), default=0) * SECOND

    def up_limit(self, current: int, history: History, now: int) -> int:
        """The largest number of replicas that the policies allow."""
        if self._disabled:
            return current
        limits = [self._up(policy, self._start(policy, current, history, now)) for policy in self._policies]
        if self._select_min:
            return min(limits, default=MAX_INT32)
        return max(limits, default=MIN_INT32)

    def down_limit(self, current: int, history: History, now: int) -> int:
        """The smallest number of replicas that the policies allow."""
        if self._disabled:
            return current
        limits = [self._down(policy, self._start(policy, current, history, now)) for policy in self._policies]
        if self._select_min:
            return max(limits, default=MIN_INT32)
        return min(limits, default=MAX_INT32)

    @staticmethod
    def _start(policy: HPAScalingPolicy, current: int, history: History, now: int) -> int:
        """How many replicas there were when the policy's period began."""
        period = policy.period_seconds * SECOND
        return wrap32(current - history.up.within(period, now) + history.down.within(period, now))

    @staticmethod
    def _up(policy: HPAScalingPolicy, start: int) -> int:
        if policy.type == PODS_POLICY:
            return wrap32(start + policy.value)
        # Rounded up: a small number of replicas could otherwise never grow.
        return float_to_int32(ceiling(float(start) * (1.0 + float(policy.value) / 100.0)))

    @staticmethod
    def _down(policy: HPAScalingPolicy, start: int) -> int:
        if policy.type == PODS_POLICY:
            return wrap32(start - policy.value)
        return float_to_int32(float(start) * (1.0 - float(policy.value) / 100.0))


def limit_with_behavior(
    current: int,
    desired: int,
    least: int,
    most: int,
    up: RatePolicies,
    down: RatePolicies,
    history: History,
    now: int,
) -> Limited:
    """Within the bounds and no faster than the policies allow; a number that stays needs neither."""
    if desired > current:
        fastest = max(up.up_limit(current, history, now), current)
        allowed, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
        if desired > allowed:
            return Limited(allowed, *why)
    elif desired < current:
        fastest = min(down.down_limit(current, history, now), current)
        allowed, why = (fastest, _TOO_FAST_DOWN) if least < fastest else (least, _TOO_FEW)
        if desired < allowed:
            return Limited(allowed, *why)
    return Limited(desired, *_IN_RANGE)
