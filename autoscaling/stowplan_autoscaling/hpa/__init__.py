"""The horizontal pod autoscaler of Kubernetes v1.37.2: objects, admission, and the controller as pure functions."""

from __future__ import annotations

from .controller import HorizontalController, HPAEvent, HPAFlags, Outcome, Sync
from .metric_proposal import PodLister
from .metrics import MetricsClient, MetricsError, PodMetric
from .objects import HorizontalPodAutoscaler, Scale, ScaleError
from .selector_text import parse_selector, selector_text
from .timing import SyncQueue
from .validation import InvalidHPAError, admit

__all__ = [
    "HPAEvent",
    "HPAFlags",
    "HorizontalController",
    "HorizontalPodAutoscaler",
    "InvalidHPAError",
    "MetricsClient",
    "MetricsError",
    "Outcome",
    "PodLister",
    "PodMetric",
    "Scale",
    "ScaleError",
    "Sync",
    "SyncQueue",
    "admit",
    "parse_selector",
    "selector_text",
]
