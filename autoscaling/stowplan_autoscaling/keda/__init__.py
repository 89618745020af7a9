"""KEDA: activation and cool-down on top of an HPA, and external metrics for it.

`poll` decides without doing anything; `Keda` runs it in virtual time. docs/architecture/metrics.md shows where the
values come from.
"""

from __future__ import annotations

from .fallback import Measured, TriggerReading, measure
from .hpa import hpa_of
from .objects import (
    AdvancedConfig,
    Condition,
    Event,
    Fallback,
    HorizontalPodAutoscalerConfig,
    ScaledObject,
    ScaledObjectSpec,
    ScaledObjectStatus,
    ScaleTarget,
    ScaleTrigger,
)
from .operator import Keda, Scales, Sources
from .poll import Decision, Outcome, PollState, poll
from .triggers import ExternalTrigger, ResourceTrigger, Trigger, triggers_of
from .validation import check_scaled_object, decode_scaled_object

__all__ = [
    "AdvancedConfig",
    "Condition",
    "Decision",
    "Event",
    "ExternalTrigger",
    "Fallback",
    "HorizontalPodAutoscalerConfig",
    "Keda",
    "Measured",
    "Outcome",
    "PollState",
    "ResourceTrigger",
    "ScaleTarget",
    "ScaleTrigger",
    "ScaledObject",
    "ScaledObjectSpec",
    "ScaledObjectStatus",
    "Scales",
    "Sources",
    "Trigger",
    "TriggerReading",
    "check_scaled_object",
    "decode_scaled_object",
    "hpa_of",
    "measure",
    "poll",
    "triggers_of",
]
