"""Conditions of an autoscaler's status.

Follows setCondition in pkg/controller/podautoscaler/horizontal.go of Kubernetes v1.37.2: a condition keeps its place,
and its time changes only with its status.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stowplan_autoscaling.kernel import whole_seconds

from .objects import SCALED_TO_ZERO, HorizontalPodAutoscalerCondition

TRUE: Final = "True"
FALSE: Final = "False"

Conditions = list[HorizontalPodAutoscalerCondition]


def set_condition(conditions: Conditions, type: str, status: str, reason: str, message: str, now: int) -> None:
    """Set one condition in place; `now` is cut to whole seconds, as API objects have it."""
    for index, old in enumerate(conditions):
        if old.type == type:
            same = old.status == status
            if not same or old.reason != reason or old.message != message:
                since = old.last_transition_time if same else whole_seconds(now)
                conditions[index] = _condition(type, status, reason, message, since)
            return
    conditions.append(_condition(type, status, reason, message, whole_seconds(now)))


@lru_cache(maxsize=8192)
def _condition(type: str, status: str, reason: str, message: str, since: int) -> HorizontalPodAutoscalerCondition:
    return HorizontalPodAutoscalerCondition(
        type=type, status=status, reason=reason, message=message, last_transition_time=since
    )


def is_scaled_to_zero(conditions: Conditions) -> bool:
    """Whether the controller itself scaled the workload to zero."""
    return any(one.type == SCALED_TO_ZERO and one.status == TRUE for one in conditions)
